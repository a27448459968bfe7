// How much room a project has, for whoever is about to make it larger. Far from the limit there is nothing to do but to
// compare two numbers. Nearer, a statement runs in a transaction whose last step before the commit measures
// (migrations/project/0004_limits.sql), unless so little time has passed since it was last measured that nobody, with all
// the cores of the machine, can have used up what was left. While statements run that may grow it, they are watched.
import { availableParallelism } from 'node:os';
import { LRUCache } from 'lru-cache';
import type { Feed } from '../control/changes.ts';
import type { Control } from '../control/control.ts';
import { databaseOf } from '../engine/provision.ts';
import type { Server } from '../engine/servers.ts';
import { errors, type RowhouseError } from '../errors.ts';
import type { Address } from '../postgres/database.ts';
import { sql } from '../postgres/sql.ts';
import { capOf, reserveOf, rewriting } from './reserve.ts';

export type Rooms = {
  /** How a statement that may grow the project has to run. null: as it is. */
  admit(projectId: string, how?: { evenFar?: boolean }): Admission | null | Promise<Admission | null>;
  /** Looks after a statement while it runs: `stop` is called if the project outgrows `stopAt`. */
  watch(projectId: string, stopAt: number | null, stop: (because: RowhouseError) => void): () => void;
  /** What those who are refused are told; measured now. */
  refusal(projectId: string, why?: Why): Promise<RowhouseError>;
  /** Throws if there is no room at all, for a change that is known to be small. Else as `admit`. */
  require(projectId: string, mayUseReserve?: boolean): Promise<Admission | null>;
  /** What is known of the size now. */
  look(projectId: string): Promise<Measured>;
  /** What memory has of it, without a look. */
  recall(projectId: string): { size_mb: number; limit_mb: number } | null;
  /** Its limit has changed. */
  forget(projectId: string): void;
  stop(): void;
};

/** `needs`: so much room at least. `hasCommitted`: some of it may be done. */
type Why = { needs?: number; hasCommitted?: boolean };

/** Parameters of rowhouse.check_size, and what the size was. */
export type Admission = Readonly<{
  size: number;
  limit: number;
  ceiling: number;
  /** Up to here what adds something may use what is free within. */
  cap: number;
  deadline: number;
  /** So large that only what makes it no larger is let through. */
  isFull: boolean;
  /** Because the disk is low. */
  isServerFull: boolean;
  /** The smallest it was since it is over its limit, else as it is: what refused statements leave moves no line. */
  base: number;
  /** By how much what makes it no larger may make it larger: a page here and there; the catalog, by what is dropped. */
  extra: Readonly<{ usual: number; shrinking: number }>;
}>;

export type Measured = Readonly<{
  size: number;
  limit: number;
  cap: number;
  empty: number;
  isFull: boolean;
  isServerFull: boolean;
}>;

type Options = {
  control: Control;
  server: Server;
  feed: Feed;
  /** So little is left on the machine's disk that no project may grow. */
  isDiskLow: () => boolean;
  onError: (error: unknown) => void;
};

const mb = 1024 * 1024;
const page = 8192;
/** What one core can write at most in a millisecond: 0.7 MB were measured, by a hash index with faked statistics. */
const bytesPerMs = mb * Math.min(16, Math.max(2, availableParallelism()));
/** Of a server elsewhere the cores are not known. */
const elsewherePerMs = 16 * mb;
/** From a look to the end of what was cancelled because of it, on a busy machine. */
const reactionMs = 64;
const tickMs = 10;
/** A statement that commits by itself must be stopped before it comes to the limit. */
export const unframedMargin = 32 * mb;
/** A statement that will be refused is let go on this far, so that it is refused by what it really needs. */
const overshoot = 2 * mb;
/** By which something can grow that was to shrink: the catalog. */
const slack = 64 * 1024;
const creep = mb;

type Room = {
  id: string;
  limit: number;
  empty: number;
  reserve: number;
  cap: number;
  size: number;
  /** When it was measured: by our clock and by PostgreSQL's. */
  at: number;
  epoch: number;
  measuring: Promise<void> | null;
  growers: Set<Grower>;
};
const nothing = () => {};
type Grower = { since: number; stopAt: number; stop: (because: RowhouseError) => void };

export function openRooms({ control, server, feed, isDiskLow, onError }: Options): Rooms {
  const rooms = new LRUCache<string, Room>({ max: 20_000 });
  /** Those that were forgotten as well: what runs in one is looked after to its end. */
  const known = new LRUCache<string, Room>({ max: 20_000 });
  const loading = new Map<string, Promise<Room>>();
  /** The smallest that projects were since they are over their limits. */
  const lowest = new LRUCache<string, number>({ max: 20_000 });
  const rate = isHere(server.address) ? bytesPerMs : elsewherePerMs;
  const farBytes = 2 * reactionMs * rate;
  let watched = new Set<Room>();
  /** Since the disk is low: where those are stopped that began before. They were let in as if there were room. */
  const low = { since: Number.NEGATIVE_INFINITY, lines: new Map<Room, number>() };
  let timer: NodeJS.Timeout | null = null;

  feed.listen(({ projectId }) => {
    if (projectId !== null) forget(projectId);
  });
  const forget = (projectId: string) => {
    loading.delete(projectId);
    rooms.delete(projectId);
  };

  const load = (projectId: string): Promise<Room> => {
    const pending = loading.get(projectId);
    if (pending) return pending;
    const search = read(projectId).then(
      (room) => {
        // Whoever changed it meanwhile has made us forget.
        if (loading.get(projectId) === search) rooms.set(projectId, room);
        known.set(projectId, room);
        settle();
        return room;
      },
      (error) => {
        settle();
        throw error;
      },
    );
    const settle = () => {
      if (loading.get(projectId) === search) loading.delete(projectId);
    };
    loading.set(projectId, search);
    return search;
  };
  const read = async (projectId: string): Promise<Room> => {
    const [row] = await control.query<{ limit: number; empty: number }>(sql`
      select limit_mb::float8 * ${mb} as limit, empty_bytes::float8 as empty from projects where id = ${projectId}`);
    if (!row) throw errors.unavailable('the project is gone');
    const room: Room = {
      ...{
        id: projectId,
        limit: row.limit + row.empty,
        empty: row.empty,
        reserve: reserveOf(row.limit),
        cap: capOf(row.limit) + row.empty,
      },
      ...{ size: 0, at: 0, epoch: 0, measuring: null, growers: new Set() },
    };
    await measure(room);
    return room;
  };
  const find = (projectId: string): Room | Promise<Room> =>
    (feed.isFresh() ? rooms.get(projectId) : undefined) ?? load(projectId);

  /** Those who want to know at the same moment look once. */
  const measure = (room: Room): Promise<void> => {
    room.measuring ??= takeMeasure(room).finally(() => {
      room.measuring = null;
    });
    return room.measuring;
  };
  const takeMeasure = async (room: Room): Promise<void> => {
    const at = performance.now();
    const [row] = await server.maintenance.query<{ size: number; epoch: number }>(sql`
      select extract(epoch from clock_timestamp())::float8 as epoch, pg_database_size(oid)::float8 as size
      from pg_database where datname = ${databaseOf(room.id)}`);
    if (!row) throw errors.unavailable('the database is gone');
    Object.assign(room, { at, epoch: row.epoch, size: row.size });
    if (row.size > room.limit) lowest.set(room.id, Math.min(lowest.get(room.id) ?? row.size, row.size));
    else lowest.delete(room.id);
  };

  /** The most it can be by now. */
  const boundOf = ({ size, at }: Room, now: number) => size + rate * (now - at);
  const isFar = (room: Room, now: number) => boundOf(room, now) + farBytes <= room.limit && !isDiskLow();

  const admissionOf = (room: Room): Admission => {
    const { size, limit, cap, reserve, epoch } = room;
    const ceiling = limit - reserve;
    const isServerFull = isDiskLow();
    const isFull = isServerFull || size > ceiling;
    const base = Math.min(size, lowest.get(room.id) ?? size);
    const extra = { usual: Math.max(0, Math.min(page * 4, cap - size)), shrinking: slackOf(room) };
    const state = { isFull, isServerFull };
    if (isFull) return { size, limit, cap, base, ceiling: -1, deadline: 0, ...state, extra };
    const deadline = epoch + (ceiling - size) / rate / 1000;
    return { size, limit, cap, base, ceiling, deadline, ...state, extra };
  };
  /** In all no more than the limit; or, where that was lowered, a little more than the smallest it was since. */
  const slackOf = ({ id, size, limit }: Room): number => {
    const line = size < limit ? limit : Math.min(size, lowest.get(id) ?? size) + creep;
    return Math.max(0, Math.min(slack, line - size));
  };

  const admitTo = (room: Room, evenFar: boolean): Admission | null | Promise<Admission | null> => {
    const now = performance.now();
    if (isFar(room, now)) {
      // Renewed before it runs out.
      if (boundOf(room, now) + 2 * farBytes > room.limit || now - room.at > 1_000)
        measure(room).catch(onError);
      return evenFar ? admissionOf(room) : null;
    }
    // What is left of the time in which nobody can use it up: enough for most statements.
    if (!isDiskLow() && boundOf(room, now + 4) < room.limit - room.reserve) {
      if (boundOf(room, now + 8) > room.limit - room.reserve) measure(room).catch(onError);
      return admissionOf(room);
    }
    return measure(room).then(() => {
      const far = isFar(room, performance.now());
      return far && !evenFar ? null : admissionOf(room);
    });
  };

  const noteDisk = (now: number) => {
    if (!isDiskLow()) {
      low.since = Number.NEGATIVE_INFINITY;
      low.lines.clear();
      return;
    }
    if (low.since === Number.NEGATIVE_INFINITY) low.since = now;
    for (const room of watched) if (!low.lines.has(room)) low.lines.set(room, room.size + overshoot);
  };
  const lineOf = (room: Room, { since, stopAt }: Grower) =>
    since < low.since ? Math.min(stopAt, low.lines.get(room) ?? stopAt) : stopAt;

  const look = async () => {
    const now = performance.now();
    noteDisk(now);
    for (const room of watched) {
      let line = Number.POSITIVE_INFINITY;
      for (const grower of room.growers)
        if (now - grower.since >= tickMs) line = Math.min(line, lineOf(room, grower));
      if (boundOf(room, now) <= line || room.measuring) continue;
      measure(room).then(() => stopThose(room), onError);
    }
  };
  const stopThose = async (room: Room) => {
    for (const grower of [...room.growers]) {
      if (room.size <= lineOf(room, grower)) continue;
      room.growers.delete(grower);
      grower.stop(tell(room));
    }
  };

  const tell = (
    { limit, size, empty, reserve }: Room,
    { needs = 0, hasCommitted = false }: Why = {},
  ): RowhouseError => {
    if (isDiskLow()) return hasCommitted ? errors.stoppedForDisk() : errors.serverFull();
    const facts = { limit_mb: toMb(limit - empty), size_mb: toMb(size - empty) };
    if (hasCommitted) return errors.stoppedHalfway(facts);
    return needs > 0
      ? errors.needsMoreRoom(facts, toMb(needs))
      : errors.projectFull(facts, size > limit - reserve);
  };

  return {
    admit: (projectId, { evenFar = false } = {}) => {
      const room = find(projectId);
      return room instanceof Promise ? room.then((found) => admitTo(found, evenFar)) : admitTo(room, evenFar);
    },
    watch: (projectId, stopAt, stop) => {
      const room = rooms.peek(projectId) ?? known.get(projectId);
      if (!room) throw new Error('a statement that nobody has admitted');
      const far = room.limit - reactionMs * rate;
      const grower: Grower = { since: performance.now(), stopAt: stopAt ?? far, stop };
      room.growers.add(grower);
      watched.add(room);
      timer ??= setInterval(look, tickMs);
      return () => {
        room.growers.delete(grower);
        // Lets go of the request: query/pipelines.ts says why.
        grower.stop = nothing;
        if (room.growers.size > 0) return;
        watched.delete(room);
        if (watched.size > 0 || !timer) return;
        clearInterval(timer);
        timer = null;
      };
    },
    refusal: async (projectId, why) => {
      const room = await find(projectId);
      await measure(room);
      return tell(room, why);
    },
    require: async (projectId, mayUseReserve = false) => {
      const room = await find(projectId);
      const admission = await admitTo(room, false);
      if (admission === null) return null;
      const line = mayUseReserve ? room.limit : room.limit - room.reserve;
      if (isDiskLow() ? !mayUseReserve : room.size > line) throw tell(room);
      return admission;
    },
    look: async (projectId) => {
      const room = await find(projectId);
      await measure(room);
      const { size, limit, cap, empty, reserve } = room;
      return { size, limit, cap, empty, isFull: size > limit - reserve, isServerFull: isDiskLow() };
    },
    recall: (projectId) => {
      const room = rooms.peek(projectId);
      return room ? { size_mb: toMb(room.size - room.empty), limit_mb: toMb(room.limit - room.empty) } : null;
    },
    forget,
    stop: () => {
      if (timer) clearInterval(timer);
      watched = new Set();
    },
  };
}

function isHere({ host, socket }: Address): boolean {
  return socket !== undefined || host === 'localhost' || host === '::1' || host.startsWith('127.');
}

/**
 * Where a statement that runs by an admission is stopped. `adding`: it has no business over the limit.
 * `rewriting`: for a moment it needs what it gives back.
 */
export function stopLine(
  { base, limit, cap, ceiling }: Pick<Admission, 'base' | 'limit' | 'cap' | 'ceiling'>,
  how: 'adding' | 'other' | 'rewriting',
): number {
  if (how === 'rewriting') return Math.max(base, limit) + rewriting;
  return Math.max(how === 'adding' ? Math.min(base, cap) : base, ceiling) + overshoot;
}

function toMb(bytes: number): number {
  return Math.max(0, Math.round((bytes / mb) * 100) / 100);
}

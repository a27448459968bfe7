// Headroom: how far a project is from its limit, and what a statement must therefore do before it commits.
//
// pg_database_size takes longer than most statements, so a project is measured rarely. Between two measurements its size is
// bounded: it is at most the last size plus what all cores of the machine can write in the time since (`rate`). By that
// bound a project is in one of three states:
//
//   far    the bound is below the limit by more than can be written before a running statement is stopped. A statement runs
//          as it is; admission compares two numbers
//   near   a statement runs in a transaction whose last step before the commit checks the size
//          (rowhouse.check_size, migrations/project/0004_limits.sql). Until `deadline` even that step is free: in so short a
//          time nothing can have used up what was left. A bounded insert runs without that step while there is a budget for it
//          (budget.ts)
//   full   the size is above the limit minus the reserve, or the disk is low. Only statements that make nothing larger commit
//
// While statements run that may grow a project, a timer measures it whenever the bound reaches one of their stop lines, and
// stops those that are past theirs.
//
// What this rests on: no statement writes faster than `rate` (0.7 MB a millisecond and core were measured, 1 is assumed);
// a statement that was stopped ends within `reactionMs`. bench/quotas and limits*.test.ts hold both.

import { LRUCache } from 'lru-cache';
import type { Feed } from '../control/change-feed.ts';
import type { Control } from '../control/control.ts';
import { errors, type RowhouseError } from '../errors/errors.ts';
import { mb, toMb } from '../lib/bytes.ts';
import { upTo } from '../lib/cache-size.ts';
import { sql } from '../postgres/sql.ts';
import type { Servers } from '../servers/server.ts';
import { Budget } from './budget.ts';
import { refusalOf, type Why } from './refusal.ts';
import { capOf, reserveOf } from './reserve.ts';
import { type Size, sizeQuery } from './size-query.ts';
import { overshoot } from './stop-line.ts';
import { writeRateOf } from './write-rate.ts';

export type Headroom = {
  /** How a statement that may grow the project has to run. null: without a size check, unless it is `alwaysMeasured`. */
  admit(projectId: string, how?: { alwaysMeasured?: boolean }): Admission | null | Promise<Admission | null>;
  /**
   * Supervises a running statement: `stop` is called if the project outgrows `stopAt`. `bound`: the most that it adds; 0:
   * unknown.
   */
  watch(
    projectId: string,
    stopAt: number | null,
    stop: (because: RowhouseError) => void,
    bound?: number,
  ): () => void;
  /** Whether a statement that may grow the project would need a size check. False if that is not known yet. */
  isNear(projectId: string): boolean;
  /**
   * Lets an insert that adds at most `bound` bytes run without a size check: call `endGrant` when it has ended. null: it needs
   * the check.
   */
  grant(projectId: string, bound: number): Pick<Budget, 'endGrant' | 'isCalm'> | null;
  /** The most that inserts with a grant can still add. */
  pending(projectId: string): number;
  /** The error for a refused statement, with the size as it is now. */
  refusal(projectId: string, why?: Why): Promise<RowhouseError>;
  /** For a change that is known to be small: throws if the project is full, otherwise as `admit`. */
  require(projectId: string, mayUseReserve?: boolean): Promise<Admission | null>;
  /** The size as it is now. */
  look(projectId: string): Promise<Measured>;
  /** The last known size, without measuring. */
  recall(projectId: string): { size_mb: number; limit_mb: number } | null;
  /** After its limit has changed. */
  forget(projectId: string): void;
  forgetAll(): void;
  stop(): void;
};

/** Parameters of rowhouse.check_size, and the size that they are based on. */
export type Admission = Readonly<{
  size: number;
  limit: number;
  ceiling: number;
  /** Up to here a statement that adds something may use free space inside the tables. */
  cap: number;
  deadline: number;
  /** Only statements that make the project no larger are let through. */
  isFull: boolean;
  /** Because the disk is low. */
  isServerFull: boolean;
  /** Its smallest size since it went over its limit, otherwise its size: what refused statements leave moves no line. */
  base: number;
  /** By how much a statement that frees space may still grow it: a few pages, and the catalog when objects are dropped. */
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
  servers: Servers;
  feed: Feed;
  /** Runs `look` on the server of a project, and again if the project is moved meanwhile. null: it has no database. */
  findDatabase: <T>(
    project: Readonly<{ id: string; serverId: number }>,
    look: (serverId: number) => Promise<T | null>,
  ) => Promise<T | null>;
  /** So little of the disk of the first server is free that none of its projects may grow. Other disks are not visible. */
  isDiskLow: () => boolean;
  /** The process ids of this process's own sessions in the project. */
  ownPids: (projectId: string, serverId: number) => readonly number[];
  onError: (error: unknown) => void;
};

const page = 8192;
/** From a measurement to the end of the statement that was cancelled because of it, on a busy machine. */
const reactionMs = 64;
const tickMs = 10;
/** A measurement that is older does not tell whether the project is near its limit: it was idle since. */
export const knownMs = 2_000;
/** How much the catalog can grow while something shrinks. */
const slack = 64 * 1024;
const creep = mb;

type ProjectSize = {
  id: string;
  serverId: number;
  /** Bytes a millisecond. */
  rate: number;
  limit: number;
  empty: number;
  reserve: number;
  cap: number;
  size: number;
  /** When it was measured, by this process's clock and by PostgreSQL's. */
  at: number;
  epoch: number;
  measuring: Promise<void> | null;
  growers: Set<Grower>;
  budget: Budget;
};
/** A project whose size was not measured yet. */
const unmeasured = { size: 0, at: 0, epoch: 0, measuring: null };
const nothing = () => {};
const farBytesOf = ({ rate }: ProjectSize) => 2 * reactionMs * rate;
type Grower = { since: number; stopAt: number; stop: (because: RowhouseError) => void };

export function openHeadroom(options: Options): Headroom {
  const { control, servers, feed, isDiskLow, onError } = options;
  const projects = new LRUCache<string, ProjectSize>(upTo(20_000));
  /** Includes forgotten ones: a statement that runs in one is supervised to its end. */
  const known = new LRUCache<string, ProjectSize>(upTo(20_000));
  /** Kept when a project is forgotten, because its inserts in flight still count. */
  const budgets = new LRUCache<string, Budget>({ ...upTo(20_000), memoMethod: () => new Budget() });
  const loading = new Map<string, Promise<ProjectSize>>();
  /** The smallest size of each project since it went over its limit. */
  const lowest = new LRUCache<string, number>(upTo(20_000));
  const isLow = ({ serverId }: ProjectSize) => serverId === servers.first.id && isDiskLow();
  let watched = new Set<ProjectSize>();
  /** While the disk is low: where statements are stopped that started before, when there seemed to be room. */
  const low = { since: Number.NEGATIVE_INFINITY, lines: new Map<ProjectSize, number>() };
  let timer: NodeJS.Timeout | null = null;

  feed.listen(({ projectId }) => {
    if (projectId !== null) forget(projectId);
  });
  const forgetAll = () => {
    loading.clear();
    projects.clear();
  };
  feed.listenToReset(forgetAll);
  const forget = (projectId: string) => {
    loading.delete(projectId);
    projects.delete(projectId);
  };

  const load = (projectId: string): Promise<ProjectSize> => {
    const pending = loading.get(projectId);
    if (pending) return pending;
    const search = read(projectId).then(
      (project) => {
        // If it was changed meanwhile, it was forgotten, and this result is stale.
        if (loading.get(projectId) === search) projects.set(projectId, project);
        known.set(projectId, project);
        settle();
        return project;
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
  const read = async (projectId: string): Promise<ProjectSize> => {
    const [row] = await control.query<{ limit: number; empty: number; serverId: number }>(sql`
      select limit_mb::float8 * ${mb} as limit, empty_bytes::float8 as empty, server_id as "serverId"
      from projects where id = ${projectId}`);
    if (!row) throw errors.unavailable('the project is gone');
    const project: ProjectSize = {
      id: projectId,
      serverId: row.serverId,
      rate: writeRateOf(servers.of(row.serverId).address),
      limit: row.limit + row.empty,
      empty: row.empty,
      reserve: reserveOf(row.limit),
      cap: capOf(row.limit) + row.empty,
      ...unmeasured,
      growers: new Set(),
      budget: budgets.memo(projectId),
    };
    await measure(project);
    return project;
  };
  const find = (projectId: string): ProjectSize | Promise<ProjectSize> =>
    (feed.isFresh() ? projects.get(projectId) : undefined) ?? load(projectId);

  /** Concurrent callers share one measurement. */
  const measure = (project: ProjectSize): Promise<void> => {
    project.measuring ??= takeMeasure(project).finally(() => {
      project.measuring = null;
    });
    return project.measuring;
  };
  const takeMeasure = async (project: ProjectSize): Promise<void> => {
    const found = await options.findDatabase(project, async (serverId) => {
      const at = performance.now();
      const mark = project.budget.mark(at);
      const pids = project.budget.isWanted(at) ? options.ownPids(project.id, serverId) : null;
      const [row] = await servers.of(serverId).maintenance.query<Size>(sizeQuery(project.id, pids));
      if (!row) return null;
      project.budget.note(mark, row.size, row.others === 0);
      return { size: row.size, epoch: row.epoch, at };
    });
    if (!found) throw errors.unavailable('the database is gone');
    const { size } = Object.assign(project, found);
    if (size > project.limit) lowest.set(project.id, Math.min(lowest.get(project.id) ?? size, size));
    else lowest.delete(project.id);
  };

  /** The largest size that it can have by now. */
  const boundOf = ({ size, at, rate }: ProjectSize, now: number) => size + rate * (now - at);
  const isFar = (project: ProjectSize, now: number) =>
    boundOf(project, now) + farBytesOf(project) <= project.limit && !isLow(project);

  const admissionOf = (project: ProjectSize): Admission => {
    const { size, limit, cap, reserve, epoch, rate } = project;
    const ceiling = limit - reserve;
    const isServerFull = isLow(project);
    const isFull = isServerFull || size > ceiling;
    const base = Math.min(size, lowest.get(project.id) ?? size);
    const extra = { usual: Math.max(0, Math.min(page * 4, cap - size)), shrinking: slackOf(project) };
    const state = { isFull, isServerFull };
    if (isFull) return { size, limit, cap, base, ceiling: -1, deadline: 0, ...state, extra };
    const deadline = epoch + (ceiling - size) / rate / 1000;
    return { size, limit, cap, base, ceiling, deadline, ...state, extra };
  };
  /** Up to the limit; or, if the limit was lowered, a little above the smallest size since then. */
  const slackOf = ({ id, size, limit }: ProjectSize): number => {
    const line = size < limit ? limit : Math.min(size, lowest.get(id) ?? size) + creep;
    return Math.max(0, Math.min(slack, line - size));
  };

  const admit = (projectId: string, alwaysMeasured: boolean) => {
    const project = find(projectId);
    return project instanceof Promise
      ? project.then((found) => admitTo(found, alwaysMeasured))
      : admitTo(project, alwaysMeasured);
  };
  const admitTo = (project: ProjectSize, always: boolean): Admission | null | Promise<Admission | null> => {
    const now = performance.now();
    if (isFar(project, now)) {
      // Measured again before the bound reaches the limit.
      if (boundOf(project, now) + 2 * farBytesOf(project) > project.limit || now - project.at > 1_000)
        measure(project).catch(onError);
      return always ? admissionOf(project) : null;
    }
    const known = feed.becomingKnown();
    if (known) return known.then(() => admit(project.id, always));
    // Nothing can use up the rest within the next milliseconds, which is long enough for most statements.
    if (!isLow(project) && boundOf(project, now + 4) < project.limit - project.reserve) {
      if (boundOf(project, now + 8) > project.limit - project.reserve) measure(project).catch(onError);
      return admissionOf(project);
    }
    return measure(project).then(() => {
      const far = isFar(project, performance.now());
      return far && !always ? null : admissionOf(project);
    });
  };

  const noteDisk = (now: number) => {
    if (!isDiskLow()) {
      low.since = Number.NEGATIVE_INFINITY;
      low.lines.clear();
      return;
    }
    if (low.since === Number.NEGATIVE_INFINITY) low.since = now;
    for (const project of watched)
      if (isLow(project) && !low.lines.has(project)) low.lines.set(project, project.size + overshoot);
  };
  const lineOf = (project: ProjectSize, { since, stopAt }: Grower) =>
    since < low.since ? Math.min(stopAt, low.lines.get(project) ?? stopAt) : stopAt;

  const look = async () => {
    const now = performance.now();
    noteDisk(now);
    for (const project of watched) {
      let line = Number.POSITIVE_INFINITY;
      for (const grower of project.growers)
        if (now - grower.since >= tickMs) line = Math.min(line, lineOf(project, grower));
      if (boundOf(project, now) <= line || project.measuring) continue;
      measure(project).then(() => stopThose(project), onError);
    }
  };
  const stopThose = async (project: ProjectSize) => {
    for (const grower of [...project.growers]) {
      if (project.size <= lineOf(project, grower)) continue;
      project.growers.delete(grower);
      grower.stop(tell(project));
    }
  };

  const tell = (project: ProjectSize, why?: Why) => refusalOf(project, isLow(project), why);

  return {
    admit: (projectId, { alwaysMeasured = false } = {}) => admit(projectId, alwaysMeasured),
    watch: (projectId, stopAt, stop, bound = 0) => {
      const project = projects.peek(projectId) ?? known.get(projectId);
      if (!project) throw new Error('a statement that nobody has admitted');
      const { budget } = project;
      const far = project.limit - reactionMs * project.rate - budget.pending;
      const grower: Grower = { since: performance.now(), stopAt: stopAt ?? far, stop };
      project.growers.add(grower);
      budget.begin(bound);
      watched.add(project);
      timer ??= setInterval(look, tickMs);
      return () => {
        project.growers.delete(grower);
        budget.end(bound);
        // Releases the request: query/sharing/pipelines.ts says why.
        grower.stop = nothing;
        if (project.growers.size > 0) return;
        watched.delete(project);
        if (watched.size > 0 || !timer) return;
        clearInterval(timer);
        timer = null;
      };
    },
    isNear: (projectId) => {
      const project = projects.get(projectId);
      const now = performance.now();
      return project !== undefined && now - project.at < knownMs && !isFar(project, now);
    },
    grant: (projectId, bound) => {
      const project = feed.isAlone() ? projects.get(projectId) : undefined;
      if (!project || isLow(project)) return null;
      const { budget, limit, reserve } = project;
      const now = performance.now();
      if (!budget.take(bound, limit - reserve, now)) return null;
      if (!project.measuring && budget.isLow(limit - reserve, now)) measure(project).catch(onError);
      return budget;
    },
    pending: (projectId) => budgets.peek(projectId)?.pending ?? 0,
    refusal: async (projectId, why) => {
      const project = await find(projectId);
      await measure(project);
      return tell(project, why);
    },
    require: async (projectId, mayUseReserve = false) => {
      const project = await find(projectId);
      const admission = await admitTo(project, false);
      if (admission === null) return null;
      const line = mayUseReserve ? project.limit : project.limit - project.reserve;
      if (isLow(project) ? !mayUseReserve : project.size > line) throw tell(project);
      return admission;
    },
    look: async (projectId) => {
      const project = await find(projectId);
      await measure(project);
      const { size, limit, cap, empty, reserve } = project;
      return { size, limit, cap, empty, isFull: size > limit - reserve, isServerFull: isLow(project) };
    },
    recall: (projectId) => {
      const project = projects.peek(projectId);
      return project
        ? { size_mb: toMb(project.size - project.empty), limit_mb: toMb(project.limit - project.empty) }
        : null;
    },
    forget,
    forgetAll,
    stop: () => {
      if (timer) clearInterval(timer);
      watched = new Set();
    },
  };
}

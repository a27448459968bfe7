// Backends that were terminated. Some do not end at once: PostgreSQL writes a large object without checking for
// interrupts, so the project keeps growing until all of it is written. Only then can its pages be reclaimed.
import { sql } from '../../postgres/sql.ts';
import type { ProjectLogin } from '../databases/login.ts';
import { databaseOf } from '../databases/names.ts';
import type { Server, Servers } from '../server.ts';
import type { Survivor, Survivors } from './survivors.ts';

export type Terminations = {
  /** Terminates a backend, and follows it until it has ended. `onUnwritten`: see below. */
  end(project: ProjectLogin, pid: number, onUnwritten?: () => void): void;
  /** The same for one that is left in the database of a closed project: nothing is reclaimed there. */
  endLeft(serverId: number, projectId: string, pid: number): void;
  /** Resolves when all terminated backends of a project have ended. null: there are none. */
  of(projectId: string): Promise<void> | null;
  /** Called when one has ended. */
  listen(onGone: (project: ProjectLogin) => void): void;
  stop(): Promise<void>;
};

/**
 * Told of a backend that goes on although it was terminated: its transaction has written nothing. It never will, because
 * PostgreSQL looks for the termination before it commits. Whoever writes has a transaction id until the commit is done, and a
 * statement has a snapshot while it runs. So this is not a transaction that was just committed, either.
 */
const isUnwritten = sql.script("state = 'active' and backend_xid is null and backend_xmin is not null");

/** A server that hangs must not prevent the service from stopping. */
const terminateMs = 2_000;
const [firstLookMs, longestPauseMs] = [5, 500];
/** After so many failed queries a backend counts as ended: a PostgreSQL that does not answer has most likely stopped. */
const maxFailures = 20;

/** Backends end within milliseconds, on a busy machine within a second or two. */
const survivesMs = 2_000;

type Follow = (server: Server, projectId: string, pid: number) => void;
const followers = new Set<Follow>();

/** For a session of the service's own that was terminated: it is followed until it has ended, too. */
export function followTerminated(server: Server, projectId: string, pid: number): void {
  for (const follow of followers) follow(server, projectId, pid);
}

export function openTerminations(servers: Servers, survivors: Survivors): Terminations {
  const pending = new Map<string, Set<Promise<void>>>();
  const listeners: ((project: ProjectLogin) => void)[] = [];
  /** Callbacks by session, called when it has ended and its transaction had written nothing. */
  const following = new Map<string, (() => void)[]>();
  let isStopped = false;

  type Place = Pick<ProjectLogin, 'id' | 'serverId'>;
  type Backend = { startedAt: string | null; isUnwritten: boolean };
  /** With its start time: PostgreSQL can give the same process id to a later session. */
  const terminate = async (
    { id, serverId }: Place,
    pid: number,
    known: Backend | null,
  ): Promise<Backend | null> => {
    const startedAt = known?.startedAt ?? null;
    const statement = sql`
      select backend_start::text as "startedAt", coalesce(${isUnwritten}, false) as "isUnwritten",
             pg_terminate_backend(pid)
      from pg_stat_activity
      where pid = ${pid} and datname = ${databaseOf(id)}
        and (${startedAt}::text is null or backend_start::text = ${startedAt}::text)`;
    const { maintenance } = servers.of(serverId);
    const [found] = await maintenance.query<Backend>(statement, terminateMs);
    return found ?? null;
  };
  const follow = async (
    project: Place,
    pid: number,
    onUnwritten: () => void,
    onSurvivor: () => void,
  ): Promise<void> => {
    let pauseMs = firstLookMs;
    let known: Backend | null = null;
    const survivesAt = performance.now() + survivesMs;
    for (let failures = 0; failures < maxFailures && !isStopped; ) {
      try {
        const isTerminated = known !== null;
        known = await terminate(project, pid, known);
        if (!known) return;
        // The first look came before the signal.
        if (isTerminated && known.isUnwritten) onUnwritten();
        failures = 0;
        if (performance.now() >= survivesAt) onSurvivor();
      } catch {
        failures++;
      }
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
      pauseMs = Math.min(2 * pauseMs, longestPauseMs);
    }
  };

  const begin = (project: Place, pid: number, onEnd: () => void, onUnwritten?: () => void): void => {
    const { id, serverId } = project;
    const name = `${id} ${pid}`;
    const told = following.get(name) ?? [];
    if (onUnwritten) told.push(onUnwritten);
    if (following.has(name)) return;
    following.set(name, told);
    const ones = pending.get(id) ?? new Set();
    pending.set(id, ones);
    let noted: Survivor | null = null;
    const onSurvivor = () => {
      if (noted) return;
      noted = { projectId: id, server: servers.of(serverId), pid };
      survivors.note(noted);
    };
    const tell = () => {
      for (const one of told) one();
    };
    const one = follow(project, pid, tell, onSurvivor).finally(() => {
      following.delete(name);
      if (noted) survivors.gone(noted);
      ones.delete(one);
      if (ones.size === 0 && pending.get(id) === ones) pending.delete(id);
      if (!isStopped) onEnd();
    });
    ones.add(one);
  };

  const endLeft: Terminations['endLeft'] = (serverId, projectId, pid) =>
    begin({ id: projectId, serverId }, pid, () => {});
  const followOther: Follow = (server, projectId, pid) => {
    if (servers.all().includes(server)) endLeft(server.id, projectId, pid);
  };
  followers.add(followOther);

  return {
    end: (project, pid, onUnwritten) => {
      const onEnd = () => {
        for (const onGone of listeners) onGone(project);
      };
      begin(project, pid, onEnd, onUnwritten);
    },
    endLeft,
    of: (projectId) => {
      const ones = pending.get(projectId);
      return ones ? Promise.all(ones).then(() => {}) : null;
    },
    listen: (onGone) => void listeners.push(onGone),
    stop: async () => {
      isStopped = true;
      followers.delete(followOther);
      await Promise.all([...pending.values()].flatMap((ones) => [...ones]));
    },
  };
}

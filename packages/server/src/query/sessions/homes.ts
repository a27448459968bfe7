// Which server a project is on, for requests that have found out before the project was moved. Callers and logins carry the
// server from caches; a request that waited at the gate, or that finds no database, looks again.
import { setTimeout as sleep } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import { RowhouseError } from '../../errors/errors.ts';
import { upTo } from '../../lib/cache-size.ts';
import { openInFlight } from '../../lib/in-flight.ts';
import { isState } from '../../postgres/admin/database.ts';
import { sqlstate } from '../../postgres/sqlstate.ts';
import { RefusedError } from '../../postgres/wire/session.ts';

/** null: there is no such project. `isMoving`: its database may be closed for a moment. */
export type Locate = (projectId: string) => Promise<{ serverId: number; isMoving: boolean } | null>;

export type Homes = {
  /** The server to use, given the one that a login carries. */
  of(projectId: string, serverId: number): number;
  set(projectId: string, serverId: number): void;
  /** After a pause. Requests that wait together share one look-up. */
  refresh(projectId: string): Promise<void>;
  /** After a failed login. Returns whether to try again, as `next` does. */
  lookAgain(projectId: string, tried: number, error: unknown, since: number): Promise<boolean>;
  /**
   * Where to look for a database that is not on the server `tried`. While the project is being moved, the same server is the
   * answer for some seconds, after a short wait. null: there is nowhere else to look.
   */
  next(projectId: string, tried: number, since: number): Promise<number | null>;
};

/** Long enough for every cache that carries a server to have heard of the move. */
const keptMs = 10 * 60_000;
const maxKept = 10_000;
/** A process that dies while it moves a project leaves it closed until the background work reopens it. */
const patienceMs = 10_000;
const waitMs = 50;
/** A move can be undone between the failed attempt and the look. */
const settledMs = 200;

export function openHomes(locate: Locate): Homes {
  const homes = new LRUCache<string, number>({ ...upTo(maxKept), ttl: keptMs });
  const inFlight = openInFlight<Awaited<ReturnType<Locate>>>();
  const refresh = async (projectId: string) => {
    const found = await inFlight(projectId, () => locate(projectId));
    if (found) homes.set(projectId, found.serverId);
    return found;
  };
  const next = async (projectId: string, tried: number, since: number): Promise<number | null> => {
    if (performance.now() - since > patienceMs) return null;
    const found = await refresh(projectId);
    if (!found) return null;
    if (found.serverId !== tried) return found.serverId;
    if (!found.isMoving && performance.now() - since > settledMs) return null;
    await sleep(waitMs);
    return tried;
  };

  return {
    of: (projectId, serverId) => (homes.size > 0 ? (homes.get(projectId) ?? serverId) : serverId),
    set: (projectId, serverId) => void homes.set(projectId, serverId),
    refresh: async (projectId) => void (await refresh(projectId)),
    next,
    lookAgain: async (projectId, tried, error, since) =>
      isGone(error) && (await next(projectId, tried, since)) !== null,
  };
}

/** The database does not exist under its name, or accepts no connections, or the role is gone as well. */
function isGone(error: unknown): boolean {
  // The password of a role that does not exist cannot be set back, nor CONNECT granted on a database that does not.
  if (isState(error, sqlstate.undefinedObject) || isState(error, sqlstate.undefinedDatabase)) return true;
  const cause = error instanceof RowhouseError ? error.cause : error;
  return cause instanceof RefusedError && goneStates.includes(cause.sqlstate);
}

/** The last one is of a login that waited while the database was exchanged for another one. */
const goneStates: readonly string[] = [
  sqlstate.undefinedDatabase,
  sqlstate.notInState,
  sqlstate.adminShutdown,
];

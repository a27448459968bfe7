// Sessions in projects' databases: opening them, resetting them between two requests, and ending them by force.

import type { PoolLimits } from '../../postgres/pool/session-pool.ts';
import type { Host } from '../../postgres/wire/server-address.ts';
import type { Session } from '../../postgres/wire/session.ts';
import { loginOf, type ProjectLogin } from '../../servers/databases/login.ts';
import type { Terminations } from '../../servers/guards/terminations.ts';
import type { Servers } from '../../servers/server.ts';
import { type Gate, openGate } from './gate.ts';
import { type Homes, type Locate, openHomes } from './homes.ts';
import { loginKeyOf, loginKeysOf } from './login-keys.ts';
import { openServerSessions, type ServerSessions } from './server-sessions.ts';
import { openAudit, type TraceSource } from './session-audit.ts';
import {
  discardAll,
  prepareFirst,
  resetSequences,
  resetSession,
  type SessionState,
  setMode,
} from './session-reset.ts';
import { trustedMsOf } from './statement-profiles.ts';

/**
 * `read`: statements known only to read; PostgreSQL enforces it. `plain`: statements that leave behind at most a moved
 * sequence, and cannot see whether one was moved. `any`: all others.
 */
export type SessionUse = 'read' | 'plain' | 'any';

type ProjectPlace = Pick<ProjectLogin, 'id' | 'serverId'>;
type Counts = { open: number; idle: number; waiting: number };
export type ProjectSessions = {
  /** `caller`: who has it alone. Left out: several callers share it. */
  acquire(project: ProjectLogin, use: SessionUse, caller?: string): Promise<Session>;
  /** An open idle session, or null. */
  takeIdle(project: ProjectLogin, use: 'read' | 'plain', caller?: string): Session | null;
  /** Opens a session for a request that will acquire one soon, if the project has none. Never throws. */
  warm(project: ProjectLogin): void;
  /** Whether other projects wait for a session, or this one's sessions have to end. */
  isWanted(project: ProjectLogin): boolean;
  /** Resets the session, without making the caller wait, and returns it to the pool. */
  release(project: ProjectLogin, session: Session, leaves: SessionState): void;
  /** Runs `use` in a session outside the pool's limits, for a lookup while another session waits. */
  aside<T>(project: ProjectLogin, use: (session: Session) => Promise<T>): Promise<T>;
  /** `waitMs`: how long to wait for its last message, which tells that the statement was rolled back. */
  terminate(session: Session, waitMs?: number): void;
  /** A statement hit a limit of PostgreSQL. If it was the notification queue, other projects of the server hit it too. */
  limitReached(project: ProjectLogin): void;
  /** A standby on which a read may run, as fresh as the caller wants it. */
  findStandby(project: ProjectLogin): Host | null;
  /** Whether the project's standby, which has replayed this much, is as fresh as the caller wants it. */
  isFresh(project: ProjectLogin, replayed: number): boolean;
  /** The project's tables may have changed: statements that its sessions keep prepared can mean something else. */
  outdate(projectId: string): void;
  /** Lets the requests of a project wait, and closes its sessions as their statements end. */
  readonly gate: Gate;
  readonly homes: Homes;
  /**
   * Runs `look` on the server of a project until it finds the database there: one that is being moved has none under its name
   * for a moment. null: there is none.
   */
  findDatabase<T>(project: ProjectPlace, look: (serverId: number) => Promise<T | null>): Promise<T | null>;
  counts(): Counts;
  /** The counts of a server that has been used. */
  countsOf(serverId: number): Counts;
  /** The backends of the project's sessions on that server. */
  pidsOf(projectId: string, serverId: number): number[];
  /** From 0 to 1: the part of a server's sessions that is in use. */
  loadOf(serverId: number): number;
  end(): Promise<void>;
};

/** The gate was closed while a request waited for a session. It waits at the gate instead. */
class GateClosedError extends Error {
  override readonly name = 'GateClosedError';
}

/** A statement that was assumed plain has left these traces in a shared session. */
type OnTraces = (projectId: string, source: TraceSource, traces: readonly string[]) => void;
/** An audit takes PostgreSQL 1 to 2 ms: a fortieth of a core for all sessions together. */
const auditEachMs = 80;

/** A session that does not answer in time is destroyed, which rejects the pending answer. */
async function within<T>(ms: number, session: Session, answer: Promise<T>): Promise<T> {
  const timer = setTimeout(() => session.destroy(), ms);
  try {
    return await answer;
  } finally {
    clearTimeout(timer);
  }
}
const [resetMs, asideMs] = [5_000, 10_000];

/** How long to wait for the last message of a terminated session. */
const terminateMs = 300;

/** `ensureCurrent`: called before a session is opened, because an earlier version may have created the database. */
export function openProjectSessions(
  servers: Servers,
  ensureCurrent: (projectId: string) => Promise<void>,
  /** Each server has a pool of its own: projects that wait for one server take nothing from those of another. */
  limitsOf: (serverId: number) => PoolLimits,
  { terminations, onTraces, locate }: { terminations: Terminations; onTraces: OnTraces; locate: Locate },
): ProjectSessions {
  /** Those of standbys by server and host. */
  const byServer = new Map<number | string, ServerSessions>();
  const homes = openHomes(locate);
  const at = ({ id, serverId, standby }: ProjectLogin): ServerSessions =>
    sessionsAt(homes.of(id, serverId), standby);
  const sessionsAt = (serverId: number, standby?: Host): ServerSessions => {
    const key = standby ? `${serverId} ${standby.host} ${standby.port}` : serverId;
    const found = byServer.get(key);
    if (found) return found;
    const server = servers.of(serverId);
    const made = openServerSessions(server, limitsOf(serverId), {
      ensureCurrent,
      onOpened: (project, session) => onOpened({ ...project, serverId }, session),
    });
    byServer.set(key, made);
    return made;
  };
  /** A session that is used rarely would parse its statements at each use. */
  const kept = { ms: 0 };
  const onOpened = (project: ProjectLogin, session: Session) => {
    owners.set(session, project);
    kept.ms = trustedMsOf(counts().open);
    session.statements.kept = kept;
    prepareFirst(session, project.loginAs);
  };
  const gate = openGate((id) => {
    for (const poolKey of loginKeysOf(id)) {
      for (const { pool } of byServer.values()) {
        pool.drop(poolKey);
        pool.turnAway(poolKey, new GateClosedError());
      }
    }
  });
  const owners = new WeakMap<Session, ProjectLogin>();
  /** If one session has traces, others may have them: all idle ones are closed. */
  const report = (project: ProjectLogin, source: TraceSource, traces: readonly string[]) => {
    at(project).pool.drop(loginKeyOf(project));
    onTraces(project.id, source, traces);
  };
  const audit = openAudit(
    () => counts().open * auditEachMs,
    (session, traces) => {
      session.destroy();
      const owner = owners.get(session);
      if (owner) report(owner, 'sampled', traces);
    },
  );
  /** A plain insert has moved a sequence here: reset before the first statement that could see it. */
  const withMovedSequences = new WeakSet<Session>();
  const readOnly = new WeakSet<Session>();
  /** A request that gets one of these waits until the reset has succeeded. */
  const resetting = new WeakMap<Session, Promise<void>>();
  const isClean = (session: Session) => !resetting.has(session);

  const counts = () => {
    const sum = { open: 0, idle: 0, waiting: 0 };
    for (const { pool } of byServer.values()) {
      const { open, idle, waiting } = pool.counts();
      sum.open += open;
      sum.idle += idle;
      sum.waiting += waiting;
    }
    return sum;
  };

  const prepareFor = (session: Session, use: SessionUse): Session => {
    if (use === 'any' && withMovedSequences.delete(session)) resetSequences(session);
    if (use === 'read' && !readOnly.has(session)) {
      readOnly.add(session);
      setMode(session, 'read');
    } else if (use !== 'read' && readOnly.delete(session)) setMode(session, 'write');
    return session;
  };

  /** Called by timers, so it never throws. */
  const endAtStandby = (owner: ProjectLogin, standby: Host, pid: number) => {
    try {
      const server = servers.of(owner.serverId);
      const { user } = loginOf(server, owner);
      server.address.primary?.terminate(standby, { pid, user });
    } catch {
      // The server was removed.
    }
  };

  const take = async (project: ProjectLogin, caller: string | undefined): Promise<Session> => {
    const poolKey = loginKeyOf(project);
    let since: number | null = null;
    for (;;) {
      if (gate.isClosed(project.id)) {
        await gate.pass(project.id);
        await homes.refresh(project.id);
      }
      const serverId = homes.of(project.id, project.serverId);
      const { pool, open } = sessionsAt(serverId, project.standby);
      try {
        const idle = pool.takeIdle(poolKey, isClean, caller);
        return idle ?? (await pool.acquire(poolKey, () => open(project), project.accountId, caller));
      } catch (error) {
        if (error instanceof GateClosedError) continue;
        // The primary answers instead.
        if (project.standby) throw error;
        since ??= performance.now();
        if (!(await homes.lookAgain(project.id, serverId, error, since))) throw error;
      }
    }
  };

  const findDatabase: ProjectSessions['findDatabase'] = async ({ id, serverId: first }, look) => {
    let serverId: number | null = homes.of(id, first);
    for (let since: number | null = null; serverId !== null; ) {
      const found = await look(serverId);
      if (found !== null) return found;
      if (gate.isClosed(id)) await gate.pass(id);
      since ??= performance.now();
      serverId = await homes.next(id, serverId, since);
    }
    return null;
  };

  /** The pool that the session came from: the project can have another server by now. */
  const poolOf = (project: ProjectLogin, session: Session) => {
    const owner = owners.get(session);
    return (owner ? sessionsAt(owner.serverId, owner.standby) : at(project)).pool;
  };

  return {
    gate,
    homes,
    findDatabase,
    acquire: async (project, use, caller) => {
      for (;;) {
        const poolKey = loginKeyOf(project);
        const session = await take(project, caller);
        const reset = resetting.get(session);
        if (reset) await within(resetMs, session, reset);
        if (session.isUsable || !reset) return prepareFor(session, use);
        poolOf(project, session).release(poolKey, session, false);
      }
    },
    takeIdle: (project, use, caller) => {
      if (gate.isClosed(project.id)) return null;
      const session = at(project).pool.takeIdle(loginKeyOf(project), isClean, caller);
      return session && prepareFor(session, use);
    },
    warm: (project) => {
      if (gate.isClosed(project.id)) return;
      try {
        const { pool, open } = at(project);
        pool.warm(loginKeyOf(project), {
          open: () => open(project),
          account: project.accountId,
          isReusable: () => !gate.isClosed(project.id),
        });
      } catch {
        // The server is detached or was removed: the request finds out by itself.
      }
    },
    isWanted: (project) => gate.isClosed(project.id) || at(project).pool.isWanted(loginKeyOf(project)),
    release: (project, session, leaves) => {
      const poolKey = loginKeyOf(project);
      const pool = poolOf(project, session);
      if (leaves === 'broken' || gate.isClosed(project.id)) return pool.release(poolKey, session, false);
      if (leaves === 'plain' || leaves === 'sequences') {
        if (leaves === 'sequences') withMovedSequences.add(session);
        // A plain statement does not change a setting.
        if (session.isAltered) report(project, 'reported', []);
        else audit.sample(session, project.loginAs);
        return pool.release(poolKey, session, !session.isAltered);
      }
      readOnly.delete(session);
      withMovedSequences.delete(session);
      const reset = (leaves === 'anything' ? discardAll : resetSession)(session, project.loginAs);
      resetting.set(
        session,
        reset.then(() => void resetting.delete(session)),
      );
      pool.release(poolKey, session, true);
    },
    aside: (project, use) =>
      at(project).aside(loginKeyOf(project), project, (session) => within(asideMs, session, use(session))),
    terminate: (session, waitMs = terminateMs) => {
      const owner = owners.get(session);
      // Its outcome is known then: there is nothing to wait for.
      const onUnwritten = () => session.first?.unwritten?.();
      if (owner?.standby) endAtStandby(owner, owner.standby, session.pid);
      else if (owner) terminations.end(owner, session.pid, onUnwritten);
      // A server that hangs sends none.
      setTimeout(() => session.destroy(), waitMs).unref();
    },
    limitReached: (project) => at(project).limitReached(),
    outdate: (projectId) => {
      for (const poolKey of loginKeysOf(projectId))
        for (const { pool } of byServer.values()) pool.outdate(poolKey);
    },
    findStandby: ({ id, serverId, staleness }) => {
      // The caller's position is one of the server from which the project has moved.
      if (!staleness || homes.of(id, serverId) !== serverId) return null;
      return servers.of(serverId).address.primary?.findStandby(staleness.maxMs, staleness.min) ?? null;
    },
    isFresh: ({ serverId, standby, staleness }, replayed) => {
      const { primary } = servers.of(serverId).address;
      if (!primary || !standby || !staleness || replayed < (staleness.min?.lsn ?? 0)) return false;
      return primary.isFresh(standby, replayed, staleness.maxMs);
    },
    counts,
    countsOf: (serverId) => byServer.get(serverId)?.pool.counts() ?? { open: 0, idle: 0, waiting: 0 },
    pidsOf: (projectId, serverId) => {
      const pool = byServer.get(serverId)?.pool;
      return pool ? loginKeysOf(projectId).flatMap(pool.pids) : [];
    },
    loadOf: (serverId) => {
      const found = byServer.get(serverId);
      if (!found) return 0;
      const { open, idle } = found.pool.counts();
      return Math.min(1, (open - idle) / limitsOf(serverId).budget);
    },
    end: async () => {
      await Promise.all([...byServer.values()].map(({ pool }) => pool.end()));
    },
  };
}

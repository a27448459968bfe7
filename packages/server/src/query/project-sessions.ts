// Sessions in projects' databases: how they are opened, cleaned between two requests, and ended by force.

import { shortenNotifyQueue } from '../engine/notify-queue.ts';
import { loginOf, type ProjectLogin, restoreLogin } from '../engine/provision.ts';
import type { Server } from '../engine/servers.ts';
import { errors } from '../errors.ts';
import { type Receiver, RefusedError, Session, silent } from '../postgres/session.ts';
import { createSessionPool, type PoolLimits } from '../postgres/session-pool.ts';
import { sql } from '../postgres/sql.ts';
import { sqlstate } from '../postgres/sqlstate.ts';
import { writeCommands } from './commands.ts';
import type { Conduct } from './statement.ts';

export type ProjectSessions = {
  /** `isPlain`: what runs in it cannot see what an earlier request did to sequences. */
  acquire(project: ProjectLogin, isPlain?: boolean): Promise<Session>;
  /** One that is open and idle, for plain statements only. */
  takeIdle(project: ProjectLogin): Session | null;
  /** Whether other projects wait for a connection. */
  isWanted(project: ProjectLogin): boolean;
  /** Sends the cleaning behind whatever ran, without waiting for it, and gives the session back. */
  release(project: ProjectLogin, session: Session, conduct: Conduct | 'plain' | 'sequences' | 'broken'): void;
  /** A session outside the pool's count, for looking something up while another one waits. */
  aside<T>(project: ProjectLogin, use: (session: Session) => Promise<T>): Promise<T>;
  terminate(session: Session): void;
  /** A statement met a limit of PostgreSQL's: if it was the queue of notifications, neighbours meet it too. */
  limitReached(): void;
  counts(): { open: number; idle: number; waiting: number };
  end(): Promise<void>;
};

/**
 * As startup options, because these beat what the role sets for itself with ALTER ROLE, and because RESET and DISCARD
 * go back to them. Formats are what the JSON writer expects.
 */
const sessionSettings = settingsWith({ search_path: 'public' });
/** Nothing of the project's own is ever found by name here; what it has locked is not waited for. */
const authSettings = settingsWith({ search_path: 'pg_catalog', lock_timeout: '3000' });

function settingsWith(own: Record<string, string>): Record<string, string> {
  const options = {
    statement_timeout: '0',
    idle_in_transaction_session_timeout: '0',
    synchronous_commit: 'on',
    client_connection_check_interval: '1000',
    local_preload_libraries: '',
    // What a statement means and whether it may change anything must not hang on what the role set before.
    default_transaction_isolation: 'read committed',
    default_transaction_read_only: 'off',
    default_transaction_deferrable: 'off',
    row_security: 'on',
    ...own,
  };
  return {
    application_name: 'rowhouse query',
    DateStyle: 'ISO, MDY',
    TimeZone: 'UTC',
    IntervalStyle: 'iso_8601',
    bytea_output: 'hex',
    extra_float_digits: '1',
    client_min_messages: 'error',
    options: Object.entries(options)
      // The options are divided at spaces; one inside a value takes a backslash.
      .map(([name, value]) => `-c ${name}=${value.replaceAll(' ', '\\ ')}`)
      .join(' '),
  };
}

/** What DISCARD ALL does, but for prepared statements: those are ours, and worth keeping. */
const resets = {
  reset_settings: 'reset all',
  reset_cursors: 'close all',
  reset_channels: 'unlisten *',
  reset_sequences: 'discard sequences',
  reset_temp: 'discard temp',
};
/**
 * RESET ALL leaves the role as it is, and a function that a policy calls can change it for the session. By text: such a
 * function could put another statement in the place of one that is prepared, and the next user find what it left.
 */
const visitorResets = ['set role none', ...Object.values(resets)];

const asideAtOnce = 4;
type Aside = { session: Promise<Session>; users: number };
const shortenAgainMs = 50;
/**
 * While PostgreSQL is away or starting, one attempt in so long is made, and everybody else is told what became of it:
 * each costs it a process, and hundreds a second make its recovery take several times as long.
 */
const awayMs = 200;

/** `ensureCurrent`: called before a project's database is entered, which may have been made by an earlier version. */
export function openProjectSessions(
  server: Server,
  ensureCurrent: (projectId: string) => Promise<void>,
  limits: PoolLimits,
): ProjectSessions {
  const pool = createSessionPool(limits);
  const asides = new Map<string, Aside>();
  const waitingAside: (() => void)[] = [];
  let shortenedAt = Number.NEGATIVE_INFINITY;
  /** Where a plain insert has moved a sequence: cleaned before the first statement that could see it. */
  const moved = new WeakSet<Session>();

  let away = { until: Number.NEGATIVE_INFINITY, cause: null as unknown };
  const noteAway = (error: unknown): Error => {
    if (isAway(error)) away = { until: performance.now() + awayMs, cause: error };
    return errors.unavailable(error);
  };

  const open = async (project: ProjectLogin): Promise<Session> => {
    if (performance.now() < away.until) throw errors.unavailable(away.cause);
    await ensureCurrent(project.id);
    const start = async (login: ProjectLogin) => {
      const session = await Session.open(
        loginOf(server, login),
        project.seat === 'auth' ? authSettings : sessionSettings,
      );
      prepareResets(session, project);
      session.out.sync();
      session.send(sound(session));
      return session;
    };
    try {
      return await start(project);
    } catch (error) {
      if (!isRestorable(error, project)) throw noteAway(error);
    }
    return start(await restoreLogin(server, project)).catch((error) => {
      throw noteAway(error);
    });
  };

  /** All of a project share one, so that one with many leaves room for the others; who finds no room waits for it. */
  const joinAside = async (project: ProjectLogin): Promise<Aside> => {
    const place = placeOf(project);
    while (asides.size >= asideAtOnce && (!asides.has(place) || waitingAside.length > 0))
      await new Promise<void>((resolve) => waitingAside.push(resolve));
    const aside = asides.get(place) ?? { session: open(project), users: 0 };
    asides.set(place, aside);
    aside.users++;
    return aside;
  };
  const leaveAside = (project: ProjectLogin, aside: Aside): void => {
    if (--aside.users > 0) return;
    asides.delete(placeOf(project));
    aside.session.then(
      (session) => session.close(),
      () => {},
    );
    for (const goOn of waitingAside.splice(0)) goOn();
  };

  return {
    acquire: async (project, isPlain = false) => {
      const session = await pool.acquire(placeOf(project), () => open(project));
      if (!isPlain && moved.delete(session)) {
        session.out.bind('reset_sequences', []).execute(0).sync();
        session.send(sound(session));
      }
      return session;
    },
    takeIdle: (project) => pool.takeIdle(placeOf(project)),
    isWanted: (project) => pool.isWanted(placeOf(project)),
    release: (project, session, conduct) => {
      const place = placeOf(project);
      if (conduct === 'broken') return pool.release(place, session, false);
      if (conduct === 'sequences') moved.add(session);
      else if (conduct !== 'plain') clean(session, project, conduct);
      pool.release(place, session, true);
    },
    aside: async (project, use) => {
      const aside = await joinAside(project);
      try {
        return await use(await aside.session);
      } finally {
        leaveAside(project, aside);
      }
    },
    terminate: (session) => {
      const { pid } = session;
      session.destroy();
      server.maintenance.query(sql`select pg_terminate_backend(${pid})`).catch(() => {});
    },
    limitReached: () => {
      const now = performance.now();
      if (now - shortenedAt < shortenAgainMs) return;
      shortenedAt = now;
      shortenNotifyQueue(server).catch(() => {});
    },
    counts: pool.counts,
    end: pool.end,
  };
}

/** Sessions of one project as different roles are not each other's. */
function placeOf({ id, seat }: ProjectLogin): string {
  return seat === undefined ? id : `${id} ${seat}`;
}

/** Nothing that one project could bring about for the others: nobody listens, or PostgreSQL says that it starts or stops. */
function isAway(error: unknown): boolean {
  if (error instanceof RefusedError) return error.sqlstate === sqlstate.cannotConnectNow;
  return ['ECONNREFUSED', 'ENOENT'].includes((error as NodeJS.ErrnoException).code ?? '');
}

/** A visitor's role that was being made when the service died may not be let in yet. */
function isRestorable(error: unknown, { seat }: ProjectLogin): boolean {
  if (!(error instanceof RefusedError)) return false;
  const isShutOut = seat === 'visitor' && error.sqlstate === sqlstate.insufficientPrivilege;
  return isShutOut || error.sqlstate === sqlstate.invalidPassword;
}

/** An exchange of its own; the next request's may follow on the wire at once. */
function clean(session: Session, project: ProjectLogin, conduct: Conduct): void {
  const { out } = session;
  if (conduct === 'wild') {
    session.statements.clear();
    out.parse('', 'discard all').bind('', []).execute(0).sync();
    session.send(sound(session));
    prepareResets(session, project);
  } else if (project.seat === 'visitor') {
    writeCommands(out, visitorResets);
  } else {
    for (const name of Object.keys(resets)) out.bind(name, []).execute(0);
  }
  out.sync();
  session.send(sound(session));
}

/** Prepared, because they run after nearly every change. DISCARD ALL takes them away with all else. */
function prepareResets(session: Session, { seat }: ProjectLogin): void {
  if (seat === 'visitor') return;
  for (const [name, text] of Object.entries(resets)) session.out.parse(name, text);
}

/** A session that cannot be cleaned is not used again. */
function sound(session: Session): Receiver {
  return {
    ...silent,
    error: () => session.destroy(),
    ready: (status) => {
      if (status !== 'idle') session.destroy();
    },
  };
}

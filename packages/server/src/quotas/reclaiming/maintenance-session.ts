// A separate session in a project's database for maintenance, as the project's role: apart from the sessions that serve
// callers, with little memory, and with settings that the role cannot override.
import { errors } from '../../errors/errors.ts';
import { sql } from '../../postgres/sql.ts';
import { sqlstate } from '../../postgres/sqlstate.ts';
import { ask, type TextRow } from '../../postgres/wire/ask.ts';
import { RefusedError, Session } from '../../postgres/wire/session.ts';
import { startupOptions } from '../../postgres/wire/startup-options.ts';
import { loginOf, type ProjectLogin } from '../../servers/databases/login.ts';
import { databaseOf } from '../../servers/databases/names.ts';
import { restoreLogin } from '../../servers/databases/roles.ts';
import { followTerminated } from '../../servers/guards/terminations.ts';
import type { Server } from '../../servers/server.ts';

export type MaintenanceSession = {
  /** Ends soon after `timeoutMs`, regardless of what the project's own code does. */
  ask(
    text: string,
    parameters?: readonly (string | null)[],
    timeoutMs?: number,
    signal?: AbortSignal,
  ): Promise<TextRow[]>;
  readonly isUsable: boolean;
  close(): void;
};

const lookMs = 30_000;

const options = {
  statement_timeout: '0',
  idle_in_transaction_session_timeout: '0',
  search_path: 'pg_catalog',
  maintenance_work_mem: '32MB',
  work_mem: '4MB',
  max_parallel_maintenance_workers: '0',
  max_parallel_workers_per_gather: '0',
  vacuum_cost_delay: '0',
  synchronous_commit: 'on',
  local_preload_libraries: '',
  default_transaction_isolation: 'read committed',
  // VACUUM, ANALYZE and REINDEX work nevertheless, while the project's functions in its indexes cannot write.
  default_transaction_read_only: 'on',
  default_transaction_deferrable: 'off',
  // A tablespace or storage method that the project has made its default must not decide where our copy is written.
  default_tablespace: '',
  row_security: 'on',
};

/** Startup options take precedence over what the role has set for itself with ALTER ROLE. */
function settingsOn({ userSettings }: Server, lockMs: number) {
  const more = { client_min_messages: 'error', lock_timeout: String(lockMs) };
  return {
    application_name: 'rowhouse',
    options: startupOptions({ ...userSettings.current(), ...options, ...more }),
  };
}

/** A session that waits for a lock blocks every later request for it. */
const usualLockMs = 2_000;

type Options = {
  /** Cancels the running statement. */
  signal?: AbortSignal;
  /** With the service's own role: only for PostgreSQL's own tables, where no code of the project runs. */
  asService?: boolean;
  /** How long to wait for a lock. */
  lockMs?: number;
};

export async function openMaintenanceSession(
  server: Server,
  login: ProjectLogin,
  { signal, asService = false, lockMs = usualLockMs }: Options = {},
): Promise<MaintenanceSession> {
  const settings = settingsOn(server, lockMs);
  const session = await (asService ? openAsService(server, login, settings) : open(server, login, settings));
  const terminate = ({ pid }: Session) => {
    session.destroy();
    server.maintenance.query(sql`select pg_terminate_backend(${pid})`).catch(() => {});
    followTerminated(server, login.id, pid);
  };
  return {
    ask: (text, parameters = [], timeoutMs = lookMs, more) => {
      const signals = [signal, more].filter((given) => given !== undefined);
      return ask(session, text, parameters, { timeoutMs, terminate, signal: AbortSignal.any(signals) });
    },
    get isUsable() {
      return session.isUsable;
    },
    close: () => session.close(),
  };
}

type Settings = ReturnType<typeof settingsOn>;

function openAsService(server: Server, { id }: ProjectLogin, settings: Settings): Promise<Session> {
  return Session.open({ ...server.address, database: databaseOf(id) }, settings).catch((error) => {
    throw errors.unavailable(error);
  });
}

async function open(server: Server, login: ProjectLogin, settings: Settings): Promise<Session> {
  const start = (as: ProjectLogin) => Session.open(loginOf(server, as), settings);
  try {
    return await start(login);
  } catch (error) {
    if (!(error instanceof RefusedError) || error.sqlstate !== sqlstate.invalidPassword)
      throw errors.unavailable(error);
  }
  return start(await restoreLogin(server, login)).catch((error) => {
    throw errors.unavailable(error);
  });
}

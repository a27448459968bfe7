// The service's own connections (control database and maintenance): a pool with bounded waits. It distinguishes three
// failures: PostgreSQL refused the statement (PostgresError), PostgreSQL is unavailable (503), or the connection broke
// during a change (outcome_unknown). Projects' statements do not use it.
import pg from 'pg';
import { errors, RowhouseError } from '../../errors/errors.ts';
import { type Sql, sql } from '../sql.ts';
import { sqlstate } from '../sqlstate.ts';
import type { ServerAddress } from '../wire/server-address.ts';
import { isRaised } from '../wire/server-error.ts';
import { UnreplicatedError } from '../wire/unreplicated.ts';
import { openClients, unreplicated } from './clients.ts';
import type { Primary } from './primary.ts';

/** With `primary`, `host` and `port` are those of the first host, and connections go to the primary only. */
export type Address = ServerAddress & Readonly<{ primary?: Primary }>;

type Row = Record<string, unknown>;
export type Queryable = { query<R = Row>(statement: Sql): Promise<R[]> };
/** A connection of its own. `name`: prepares the statement under this name; it is repeated with the same text. */
export type Session = { query<R = Row>(statement: Sql, name?: string): Promise<R[]> };

export type Database = {
  /** `withinMs`: a shorter time than usual until the connection counts as broken. */
  query<R = Row>(statement: Sql, withinMs?: number): Promise<R[]>;
  /** A statement that changes something and commits by itself: if the connection breaks, its outcome is unknown. */
  change<R = Row>(statement: Sql): Promise<R[]>;
  transaction<T>(run: (transaction: Queryable) => Promise<T>): Promise<T>;
  /** Gives `run` one connection for its whole duration, for session locks, and closes it afterwards. */
  session<T>(run: (session: Session, lost: AbortSignal) => Promise<T>): Promise<T>;
  /** Runs an endless statement on its own connection, and passes on its messages (INFO and above) until `ended`. */
  follow(statement: Sql, onMessage: (text: string) => void, ended: AbortSignal): Promise<void>;
  end(): Promise<void>;
};

/** PostgreSQL answered with an error of severity ERROR: the statement failed, the connection is fine. */
export class PostgresError extends Error {
  override readonly name = 'PostgresError';
  readonly sqlstate: string;
  readonly constraint: string | undefined;
  /** The function of PostgreSQL that raised it. */
  readonly routine: string | undefined;

  constructor(error: pg.DatabaseError) {
    super(error.message, { cause: error });
    this.sqlstate = error.code ?? '';
    this.constraint = error.constraint;
    this.routine = error.routine;
  }
}

/** True only for an ERROR from PostgreSQL; a connection that broke has no SQLSTATE. */
export function isState(error: unknown, state: string): error is PostgresError {
  return error instanceof PostgresError && error.sqlstate === state;
}

/**
 * Another transaction has just changed the same row of PostgreSQL's catalog: a role, a database. PostgreSQL has no state of its own
 * for this. Nothing has happened, and the next attempt finds the new row.
 */
export function isCatalogConflict(error: unknown): boolean {
  return isState(error, sqlstate.internalError) && catalogWriters.includes(error.routine ?? '');
}
const catalogWriters: readonly string[] = ['simple_heap_update', 'simple_heap_delete'];

/** For the service's own statements. Creating a database takes the longest. */
const statementTimeoutMs = 60_000;
/** A project may hold a lock on purpose. */
const lockTimeoutMs = 2_000;
/** After statement_timeout, so that PostgreSQL ends the statement first. */
const silenceAfter = (statementMs: number) => statementMs + 5_000;
const connectTimeoutMs = 5_000;

type Options = {
  max?: number;
  searchPath?: string;
  /** How long a statement may take. */
  statementMs?: number;
  /** How long a connection may stay silent before it counts as broken. */
  queryMs?: number;
  changeMs?: number;
};

export function openDatabase(
  address: Address,
  { max = 4, searchPath = 'public', statementMs = statementTimeoutMs, ...silence }: Options = {},
): Database {
  const silenceMs = silenceAfter(statementMs);
  const { queryMs = silenceMs, changeMs = silenceMs } = silence;
  const { pool, take, openAlone } = openClients(address, clientOptions(address, searchPath, statementMs), {
    max,
    queryMs,
  });

  const use = async <T>(run: (client: pg.PoolClient) => Promise<T>): Promise<T> => {
    const client = await take().catch(rethrow(errors.unavailable));
    let isBroken = false;
    try {
      return await run(client);
    } catch (error) {
      isBroken = isBreak(error);
      throw error;
    } finally {
      client.release(isBroken);
    }
  };

  return {
    query: (statement, withinMs = queryMs) =>
      use((client) => send(client, statement, errors.unavailable, { query_timeout: withinMs })),
    change: (statement) =>
      use((client) => send(client, statement, errors.outcomeUnknown, { query_timeout: changeMs })),
    transaction: (run) =>
      use(async (client) => {
        await send(client, sql`begin`, errors.unavailable);
        try {
          const result = await run({ query: (statement) => send(client, statement, errors.unavailable) });
          await send(client, sql`commit`, errors.outcomeUnknown);
          return result;
        } catch (error) {
          // The first error counts. `use` discards a connection that cannot roll back.
          if (!isBreak(error)) await client.query('rollback').catch(() => {});
          throw error;
        }
      }),
    session: async (run) => {
      const lost = new AbortController();
      const client = await openAlone({}, (opening) => {
        opening.on('error', () => {});
      }).catch(rethrow(errors.unavailable));
      client.on('error', () => lost.abort());
      client.on('end', () => lost.abort());
      try {
        // Sessions wait for each other's advisory locks without a time limit.
        await client.query('set lock_timeout = 0');
        const query: Session['query'] = (statement, name) =>
          send(client, statement, errors.unavailable, name === undefined ? {} : { name });
        return await run({ query }, lost.signal);
      } finally {
        await client.end().catch(() => {});
      }
    },
    follow: async (statement, onMessage, ended) => {
      const client = await openAlone({ query_timeout: 0 }, (opening) => {
        opening.on('error', () => {});
        opening.on('notice', ({ message }) => onMessage(message ?? ''));
      }).catch(rethrow(errors.unavailable));
      // Terminated, not cancelled: this also works if the statement has not begun yet.
      let ending: Promise<unknown> = Promise.resolve();
      const stop = (pid: number) => {
        ending = pool
          .query('select pg_terminate_backend($1)', [pid])
          .catch(() => {})
          .finally(() => client.end().catch(() => {}));
      };
      try {
        const { rows } = await client
          .query(`select pg_backend_pid() as pid, set_config('statement_timeout', '0', false)`)
          .catch(rethrow(errors.unavailable));
        const onAbort = () => stop(rows[0].pid);
        ended.addEventListener('abort', onAbort, { once: true });
        if (ended.aborted) onAbort();
        await send(client, statement, errors.unavailable)
          .catch((error) => {
            if (!ended.aborted) throw error;
          })
          .finally(() => ended.removeEventListener('abort', onAbort));
      } finally {
        await ending;
        await client.end().catch(() => {});
      }
    },
    end: () => pool.end(),
  };
}

async function send<R>(
  client: pg.ClientBase,
  statement: Sql,
  onBreak: (cause: unknown) => Error,
  how: { query_timeout?: number; name?: string } = {},
): Promise<R[]> {
  const result = await client
    .query({ text: statement.text, values: [...statement.values], ...how })
    .catch(rethrow(onBreak));
  if (unreplicated.has(client)) throw errors.outcomeUnknown(new UnreplicatedError());
  return result.rows as R[];
}

function rethrow(onBreak: (cause: unknown) => Error) {
  return (error: unknown): never => {
    if (isStandbyRefusal(error)) throw errors.unavailable(error);
    if (error instanceof pg.DatabaseError && error.severity === 'ERROR') throw new PostgresError(error);
    throw onBreak(error);
  };
}

/** The service's own statements never ask for a read-only transaction: PostgreSQL is a standby. Nothing has happened. */
function isStandbyRefusal(error: unknown): boolean {
  if (!(error instanceof pg.DatabaseError) || error.code !== sqlstate.readOnlyTransaction) return false;
  return !isRaised(error.routine === undefined ? {} : { routine: error.routine });
}

/** The server was away, or the connection broke: a change may have happened. */
export function isBreak(error: unknown): boolean {
  return error instanceof RowhouseError && (error.code === 'unavailable' || error.code === 'outcome_unknown');
}

function clientOptions(address: Address, searchPath: string, statementMs: number): pg.ClientConfig {
  return {
    host: address.host,
    port: address.port,
    user: address.user,
    password: address.password,
    database: address.database,
    ssl: address.tls,
    application_name: 'rowhouse',
    connectionTimeoutMillis: address.connectMs ?? connectTimeoutMs,
    query_timeout: silenceAfter(statementMs),
    keepAlive: true,
    options: `-c statement_timeout=${statementMs} -c lock_timeout=${lockTimeoutMs} -c search_path=${searchPath} -c TimeZone=UTC`,
  };
}

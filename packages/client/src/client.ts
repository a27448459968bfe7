// createClient: one project, with its SQL, tables and users.
import type { AnyRow, InsertOf, RowOf, TableName, UpdateOf } from './database.ts';
import { isRowhouseError, misuse, RowhouseError } from './errors.ts';
import { type Numbers, toBigInts } from './json.ts';
import { type Call, openService, type PostOptions, type ServiceOptions } from './request.ts';
import { splitRows } from './rows.ts';
import {
  type AuthListener,
  type HeldSession,
  keepSessions,
  nobody,
  type Session,
  type SessionStorage,
  type SignedIn,
  type User,
} from './sessions.ts';
import { makeName, makeSql, type Sql, type SqlName, statementOf } from './sql.ts';
import { makeTable, type Table } from './table.ts';

/** What {@link createClient} takes. */
export type ClientOptions = ServiceOptions & {
  /** The project's slug. */
  project: string;
  /** Where the session of who is signed in is kept, `localStorage` for one; in memory unless said otherwise. */
  storage?: SessionStorage;
  /**
   * bigint and numeric can hold more digits than a JavaScript number. `number` (the default) throws `unsafe_number`
   * instead of rounding one; `string` gives both types as strings; `bigint` gives bigint columns as BigInt and numeric
   * as strings. A number inside json comes as a string, or as a BigInt, only if it would be rounded.
   */
  numbers?: Numbers;
};

/** A statement's rows, and what PostgreSQL said about it. */
export type Result<Row = AnyRow> = {
  ok: true;
  /** In result order; a repeated name gets `_2`, `_3`. */
  columns: string[];
  /** PostgreSQL's names of the columns' types. */
  types: string[];
  rows: Row[];
  row_count: number;
  duration_ms: number;
  command: string;
  /** PostgreSQL's own count. */
  affected: number;
  /** There were more rows than `limit`. */
  truncated: boolean;
};

/** For one statement. */
export type QueryOptions = PostOptions & {
  /** At most so many rows; PostgreSQL stops there. */
  limit?: number;
  /** How long the statement may run; 29,000 unless said otherwise. */
  timeoutMs?: number;
  /** A statement that writes is refused. */
  readOnly?: boolean;
  /** Runs, reports, and is rolled back. */
  dryRun?: boolean;
  /** More rows affected: rolled back, `conflict`. */
  maxAffected?: number;
};
/** For all statements of a batch together. */
export type BatchOptions = PostOptions & Pick<QueryOptions, 'timeoutMs' | 'readOnly'>;
/** An entry of a batch. */
export type BatchStatement = string | Sql | { query: string; params?: readonly unknown[]; limit?: number };

/** `db.query`. */
export interface Query {
  /**
   * Runs one SQL statement with values for `$1 … $n`. Dates, BigInts and Uint8Arrays are sent as what they are.
   *
   * @example
   * const { rows } = await db.query<{ id: number }>('select id from teas where price < $1', [10]);
   */
  <Row = AnyRow>(
    text: string | Sql,
    params?: readonly unknown[],
    options?: QueryOptions,
  ): Promise<Result<Row>>;
  /**
   * The rows one by one as they come, in constant memory. Leaving the loop cancels the statement; a result that breaks
   * off in the middle throws.
   *
   * @example
   * for await (const row of db.query.stream('select * from measurements')) console.log(row);
   */
  stream<Row = AnyRow>(
    text: string | Sql,
    params?: readonly unknown[],
    options?: QueryOptions,
  ): AsyncGenerator<Row, void, undefined>;
}

/** `db.sql`. */
export interface SqlTag {
  /**
   * Runs a statement in which every `${value}` is a parameter. Another sql`…` inside becomes part of it.
   *
   * @example
   * const cheap = db.sql`price < ${10}`;
   * const { rows } = await db.sql<{ name: string }>`select name from ${db.sql.id('teas')} where ${cheap}`;
   */
  <Row = AnyRow>(strings: TemplateStringsArray, ...values: readonly unknown[]): Sql<Result<Row>>;
  /** A name of a table or column: `sql.id('teas')`, `sql.id('shop', 'teas')`. */
  id(...names: string[]): SqlName;
}

/** A project. Made by {@link createClient}. */
export interface Client<Database = unknown> {
  query: Query;
  sql: SqlTag;
  /**
   * Several statements in one transaction: all or none. Gives a result for each.
   *
   * @example
   * await db.batch([db.sql`update a set n = n - ${1}`, { query: 'update b set n = n + $1', params: [1] }]);
   */
  batch(statements: readonly BatchStatement[], options?: BatchOptions): Promise<Result[]>;
  /**
   * Rows without SQL: see {@link Table}. `teas` is a table or view of schema public, `shop.teas` one of schema shop.
   *
   * @example
   * const tea = await db.table('teas').insert({ name: 'Assam', price: 4.5 });
   */
  table<Name extends TableName<Database>>(
    name: Name,
  ): Table<RowOf<Database, Name>, InsertOf<Database, Name>, UpdateOf<Database, Name>>;
  /** With a type of your own for its rows. */
  table<Row extends object = never>(
    name: [Row] extends [never] ? never : string,
  ): Table<Row, Partial<Row>, Partial<Row>>;

  /** Makes a user, who is signed in at once. */
  signUp(user: { email: string; password: string; data?: Record<string, unknown> }): Promise<SignedIn>;
  signIn(user: { email: string; password: string }): Promise<SignedIn>;
  /** Ends this session of the user, all others, or all. */
  signOut(options?: { scope?: 'this' | 'others' | 'all' }): Promise<void>;
  /** Who is signed in, as the service knows it now; null: nobody. */
  user(): Promise<User | null>;
  /** A new access token before its time. The client does it by itself when one has expired. */
  refresh(): Promise<SignedIn>;
  /** Of who is signed in. */
  readonly session: Session | null;
  /**
   * Called at every sign-in, refresh and sign-out; gives a function that ends it.
   *
   * @example
   * const stop = db.onAuthChange((event, session) => console.log(event, session?.expires_at));
   */
  onAuthChange(listener: AuthListener): () => void;
  /**
   * The same project, acting as a user: table requests see and change what row security lets that user. For servers
   * that hold the project key and serve many users; with a publishable key the client itself acts as who is signed in.
   *
   * @example
   * const todos = await db.asUser(accessToken).table('todos');
   */
  asUser(session: string | Session): Client<Database>;
}

/**
 * A client of one project. With the project key (`rh_proj_…`, for servers) it does everything in it; with a publishable
 * key (`rh_pub_…`, for browsers) it signs users up and in, and table requests act as who is signed in, or as the role `anon`
 * while nobody is.
 *
 * @example
 * const db = createClient({ url: 'http://127.0.0.1:8765', apiKey: 'rh_proj_…', project: 'my-shop' });
 * const { rows } = await db.query('select name, price from teas where price < $1', [10]);
 */
export function createClient<Database = unknown>(options: ClientOptions): Client<Database> {
  return open<Database>(options, null);
}

function open<Database>(options: ClientOptions, user: HeldSession | null): Client<Database> {
  const { apiKey, project, numbers = 'number' } = options;
  if (!project) throw misuse('The project is missing.');
  const service = openService(options, numbers, ['projects', project]);
  const auth = (path: string, body: unknown, idempotencyKey?: true) =>
    service.send({ method: 'POST', path: ['auth', path], body, idempotencyKey });
  const sessions = keepSessions({
    storage: user ? undefined : options.storage,
    name: `rowhouse:${project}`,
    numbers,
    given: user,
    // An answer that got lost must not cost the session: its refresh token would count as stolen.
    exchange: (refresh_token) => auth('refresh', { refresh_token }, true),
  });
  const enter = async (path: string, body: object): Promise<SignedIn> => {
    const answer = await auth(path, body);
    await sessions.set('signed_in', answer);
    return answer;
  };

  /** Without one, whoever was named as a user would act as the project. */
  const tokenOf = async () => {
    const token = await sessions.token();
    if (user && !token) throw nobody();
    return token;
  };
  /** With the user's token, renewed once if the service refuses it: a refused request has not run. */
  const sendAsUser = async (call: Call) => {
    const token = await tokenOf();
    try {
      return await service.send({ ...call, token });
    } catch (error) {
      const renewed =
        token && isRowhouseError(error) && error.code === 'invalid_token' && (await sessions.renew(token));
      if (!renewed) throw error;
      return service.send({ ...call, token: renewed });
    }
  };
  const isUsers = user || apiKey.startsWith('rh_pub_');
  const send = isUsers ? sendAsUser : service.send;

  const finish = (result: Result): Result => {
    toBigInts(numbers, result.rows, result.columns, result.types);
    return result;
  };
  const toCall = (path: string, body: object, { timeoutMs, readOnly, ...more }: QueryOptions = {}): Call => ({
    method: 'POST',
    path: [path],
    signal: more.signal,
    idempotencyKey: more.idempotencyKey,
    // Longer than the statement may run, so that the service has the last word.
    timeoutMs: timeoutMs && timeoutMs + 10_000,
    body: {
      ...body,
      timeout_ms: timeoutMs,
      read_only: readOnly,
      numbers: numbers === 'number' ? numbers : 'string',
    },
  });
  const toQuery = (text: string | Sql, params?: readonly unknown[], more?: QueryOptions): Call => {
    const { limit, dryRun: dry_run, maxAffected: max_affected } = more ?? {};
    return toCall('query', { ...readStatement(text, params), limit, dry_run, max_affected }, more);
  };
  const query = async (...given: Parameters<Query>) => finish(await send(toQuery(...given)));
  async function* stream(...given: Parameters<Query>) {
    const token = isUsers ? await tokenOf() : null;
    const { feed, end } = splitRows(numbers);
    try {
      // Not yield*: it would make promises of its own for each row.
      for await (const piece of service.open({ ...toQuery(...given), token }))
        for (const row of feed(piece)) yield row;
      end();
    } catch (error) {
      throw isRowhouseError(error) ? error : new RowhouseError('invalid_response', String(error));
    }
  }

  const client = {
    query: Object.assign(query, { stream }),
    sql: Object.assign(
      (strings: TemplateStringsArray, ...values: unknown[]) => makeSql(strings, values, (sql) => query(sql)),
      { id: makeName },
    ),
    batch: async (entries: readonly BatchStatement[], more?: BatchOptions) => {
      const statements = entries.map((entry) => {
        const { query: text, params, limit } = isEntry(entry) ? entry : { query: entry };
        return { ...readStatement(text, params), limit };
      });
      return (await send(toCall('batch', { statements }, more))).results.map(finish);
    },
    table: (name: string) => makeTable({ name, numbers, send }),
    signUp: (body: object) => enter('signup', body),
    signIn: (body: object) => enter('signin', body),
    signOut: async ({ scope = 'this' } = {}) => {
      if (!(await sessions.token())) return;
      try {
        await sendAsUser({ method: 'POST', path: ['auth', 'signout'], body: { scope } });
      } catch (error) {
        // It has ended already.
        if (!isRowhouseError(error) || error.status !== 401) throw error;
      }
      if (scope !== 'others') await sessions.set('signed_out', null);
    },
    user: async () =>
      (await sessions.token()) ? (await sendAsUser({ method: 'GET', path: ['auth', 'user'] })).user : null,
    refresh: sessions.refresh,
    get session() {
      return sessions.current();
    },
    onAuthChange: sessions.listen,
    asUser: (given: string | Session) => {
      const session = typeof given === 'string' ? { access_token: given } : given;
      if (!session?.access_token) throw misuse('asUser needs a session or an access token.');
      return open<Database>(options, session);
    },
  };
  return client as unknown as Client<Database>;
}

function isEntry(entry: BatchStatement): entry is Exclude<BatchStatement, string | Sql> {
  return typeof entry === 'object' && 'query' in entry;
}

function readStatement(
  text: string | Sql,
  params?: readonly unknown[],
): { query: string; params?: readonly unknown[] } {
  if (typeof text === 'string') return params ? { query: text, params } : { query: text };
  const statement = statementOf(text);
  if (!statement) throw misuse('A statement is text or sql`…`.');
  return statement;
}

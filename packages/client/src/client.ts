// createClient: SQL, tables and users of one project.
import type { AnyRow, EmbedsOf, InsertOf, RowOf, TableName, UpdateOf } from './database.ts';
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
import { type Format, formats, makeTable, type Table } from './table.ts';

/** Options of {@link createClient}. */
export type ClientOptions = ServiceOptions & {
  /** The project's slug. */
  project: string;
  /** Where the session of the signed-in user is stored, for example `localStorage`. Default: in memory. */
  storage?: SessionStorage;
  /**
   * bigint and numeric can have more digits than a JavaScript number. `number` (the default) throws `unsafe_number`
   * instead of rounding a value. `string` returns both types as strings. `bigint` returns bigint columns as BigInt and
   * numeric as strings. A number inside json is returned as a string or BigInt only if it would be rounded.
   */
  numbers?: Numbers;
  /**
   * Reads (`readOnly` queries and tables) can be answered by a standby whose data is at most this old, in milliseconds.
   * They always include the changes that this client has made. Without it, the primary answers everything.
   */
  maxStalenessMs?: number;
};

/** The result of a statement. */
export type Result<Row = AnyRow> = {
  ok: true;
  /** In result order. Repeated names get the suffix `_2`, `_3` and so on. */
  columns: string[];
  /** The PostgreSQL type of each column. */
  types: string[];
  rows: Row[];
  row_count: number;
  duration_ms: number;
  command: string;
  /** The number of affected rows, as PostgreSQL reports it. */
  affected: number;
  /** true if there are more rows than `limit`. */
  truncated: boolean;
};

/** Options for one statement. */
export type QueryOptions = PostOptions & {
  /** The maximum number of rows. */
  limit?: number;
  /** The timeout of the statement in milliseconds. Default: 29,000. */
  timeoutMs?: number;
  /** Reject statements that write. */
  readOnly?: boolean;
  /** Run the statement, return its result, and roll it back. */
  dryRun?: boolean;
  /** If more rows are affected, the statement is rolled back and throws `conflict`. */
  maxAffected?: number;
};
/** Options for all statements of a batch together. */
export type BatchOptions = PostOptions & Pick<QueryOptions, 'timeoutMs' | 'readOnly'>;
/** An entry of a batch. */
export type BatchStatement =
  | string
  | Sql
  | {
      query: string | Sql;
      params?: readonly unknown[];
      limit?: number;
      /** If this statement affects another number of rows, the whole batch is rolled back and throws `conflict`. */
      expectAffected?: number;
    };

/** `db.query`. */
export interface Query {
  /**
   * Runs one SQL statement with values for `$1 … $n`. Dates, BigInts and Uint8Arrays are supported.
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
   * Yields the rows one by one as they arrive, in constant memory. Leaving the loop cancels the statement. An incomplete
   * result throws.
   *
   * @example
   * for await (const row of db.query.stream('select * from measurements')) console.log(row);
   */
  stream<Row = AnyRow>(
    text: string | Sql,
    params?: readonly unknown[],
    options?: QueryOptions,
  ): AsyncGenerator<Row, void, undefined>;
  /**
   * Yields the rows as text, piece by piece: CSV, or JSON lines.
   *
   * @example
   * for await (const piece of db.query.export('csv', 'select * from teas')) process.stdout.write(piece);
   */
  export(
    format: Format,
    text: string | Sql,
    params?: readonly unknown[],
    options?: QueryOptions,
  ): AsyncGenerator<string, void, undefined>;
}

/** `db.sql`. */
export interface SqlTag {
  /**
   * Runs a statement in which every `${value}` is a parameter. A nested sql`…` becomes part of the statement.
   *
   * @example
   * const cheap = db.sql`price < ${10}`;
   * const { rows } = await db.sql<{ name: string }>`select name from ${db.sql.id('teas')} where ${cheap}`;
   */
  <Row = AnyRow>(strings: TemplateStringsArray, ...values: readonly unknown[]): Sql<Result<Row>>;
  /** Quotes the name of a table or column: `sql.id('teas')`, `sql.id('shop', 'teas')`. */
  id(...names: string[]): SqlName;
}

/** A code that was sent to the user, or, for a key that may manage the project, the code itself. */
export type CodeIssued = { sent: true } | { code: string; expires_at: string };

/** A client for one project. Created by {@link createClient}. */
export interface Client<Database = unknown> {
  query: Query;
  sql: SqlTag;
  /**
   * Runs several statements in one transaction: all or none. Returns a result for each.
   *
   * @example
   * await db.batch([db.sql`update a set n = n - ${1}`, { query: 'update b set n = n + $1', params: [1] }]);
   */
  batch(statements: readonly BatchStatement[], options?: BatchOptions): Promise<Result[]>;
  /**
   * Reads and writes rows without SQL: see {@link Table}. `teas` is a table or view of schema public, `shop.teas` one of
   * schema shop.
   *
   * @example
   * const tea = await db.table('teas').insert({ name: 'Assam', price: 4.5 });
   */
  table<Name extends TableName<Database>>(
    name: Name,
  ): Table<
    RowOf<Database, Name>,
    InsertOf<Database, Name>,
    UpdateOf<Database, Name>,
    RowOf<Database, Name>,
    EmbedsOf<Database, Name>
  >;
  /** The same with your own type for the rows. */
  table<Row extends object = never>(
    name: [Row] extends [never] ? never : string,
  ): Table<Row, Partial<Row>, Partial<Row>>;

  /** Creates a user and signs it in. */
  signUp(user: { email: string; password: string; data?: Record<string, unknown> }): Promise<SignedIn>;
  signIn(user: { email: string; password: string }): Promise<SignedIn>;
  /**
   * Requests a code for a new password. The service sends it to the user; a key that may manage the project gets the code
   * itself.
   *
   * @example
   * await db.recover({ email: 'ada@example.com' });
   * await db.recover({ code: 'rh_code_…', password: 'a new one' }); // signs in
   */
  recover(user: { email: string; send?: boolean }): Promise<CodeIssued>;
  /** Sets a new password with the code, ends all other sessions, and signs in. */
  recover(code: { code: string; password: string }): Promise<SignedIn>;
  /** Requests a code that verifies the email address, like `recover`. */
  verify(user: { email: string; send?: boolean }): Promise<CodeIssued>;
  /** Uses the code. */
  verify(code: { code: string }): Promise<{ user: User }>;
  /** Ends this session of the user, all others, or all sessions. */
  signOut(options?: { scope?: 'this' | 'others' | 'all' }): Promise<void>;
  /** Requests the signed-in user from the service. null: no user is signed in. */
  user(): Promise<User | null>;
  /** Changes the signed-in user. A new password needs `current_password`, and ends all other sessions. */
  updateUser(changes: {
    email?: string;
    password?: string;
    current_password?: string;
    data?: Record<string, unknown>;
  }): Promise<User>;
  /** Deletes the signed-in user, with the rows that reference it with `on delete cascade`, and signs out. */
  deleteUser(): Promise<User>;
  /** Gets a new access token. The client does this automatically when a token has expired. */
  refresh(): Promise<SignedIn>;
  /** The session of the signed-in user. */
  readonly session: Session | null;
  /**
   * Calls the listener at every sign-in, refresh and sign-out. Returns a function that removes the listener.
   *
   * @example
   * const stop = db.onAuthChange((event, session) => console.log(event, session?.expires_at));
   */
  onAuthChange(listener: AuthListener): () => void;
  /**
   * The same project, acting as a user: row security decides what table requests can read and change. This is for servers
   * that have the project key and serve many users. With a publishable key, the client itself acts as the signed-in user.
   *
   * @example
   * const todos = await db.asUser(accessToken).table('todos');
   */
  asUser(session: string | Session): Client<Database>;
}

/**
 * Creates a client for one project. With the project key (`rh_proj_…`, for servers), it can do everything in the project.
 * With a publishable key (`rh_pub_…`, for browsers), it signs users up and in. Table requests then act as the signed-in
 * user, or as the role `anon` if no user is signed in.
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
  if (!project) throw misuse('project is missing.');
  const service = openService(options, numbers, ['projects', project]);
  const auth = (path: string, body: unknown, idempotencyKey?: true) =>
    service.send({ method: 'POST', path: ['auth', path], body, idempotencyKey });
  const sessions = keepSessions({
    storage: user ? undefined : options.storage,
    name: `rowhouse:${project}`,
    numbers,
    given: user,
    // A lost response must not end the session: the second use of its refresh token would count as theft.
    exchange: (refresh_token) => auth('refresh', { refresh_token }, true),
  });
  const enter = async (path: string, body: object): Promise<SignedIn> => {
    const answer = await auth(path, body);
    await sessions.set('signed_in', answer);
    return answer;
  };

  /** Throws without a token: a request that names a user must not act as the project. */
  const tokenOf = async () => {
    const token = await sessions.token();
    if (user && !token) throw nobody();
    return token;
  };
  /** Sends the user's token, and renews it once if the service rejects it: a rejected request has not run. */
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
  const ownUser = async (method: Call['method'], body?: object) =>
    (await sendAsUser({ method, path: ['auth', 'user'], body })).user;
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
    // Longer than the timeout of the statement, so that the service reports the timeout.
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
  /** Not yield*: it would create extra promises for each piece. */
  async function* read(call: Call) {
    const token = isUsers ? await tokenOf() : null;
    for await (const piece of service.open({ ...call, token })) yield piece;
  }
  async function* stream(...given: Parameters<Query>) {
    const { feed, end } = splitRows(numbers);
    try {
      for await (const piece of read(toQuery(...given))) for (const row of feed(piece)) yield row;
      end();
    } catch (error) {
      throw isRowhouseError(error) ? error : new RowhouseError('invalid_response', String(error));
    }
  }

  const client = {
    query: Object.assign(query, {
      stream,
      export: (format: Format, ...given: Parameters<Query>) =>
        read({ ...toQuery(...given), accept: formats[format] }),
    }),
    sql: Object.assign(
      (strings: TemplateStringsArray, ...values: unknown[]) => makeSql(strings, values, (sql) => query(sql)),
      { id: makeName },
    ),
    batch: async (entries: readonly BatchStatement[], more?: BatchOptions) => {
      const statements = entries.map((entry) => {
        const { query: text, params, ...more } = isEntry(entry) ? entry : { query: entry };
        const { limit, expectAffected: expect_affected } = more as Partial<BatchEntry>;
        return { ...readStatement(text, params), limit, expect_affected };
      });
      return (await send(toCall('batch', { statements }, more))).results.map(finish);
    },
    table: (name: string) => makeTable({ name, numbers, send, read }),
    signUp: (body: object) => enter('signup', body),
    signIn: (body: object) => enter('signin', body),
    recover: (body: { code?: string }) => (body.code ? enter : auth)('recover', body),
    verify: (body: object) => auth('verify', body),
    updateUser: (body: object) => ownUser('PATCH', body),
    deleteUser: async () => {
      const user = await ownUser('DELETE');
      await sessions.set('signed_out', null);
      return user;
    },
    signOut: async ({ scope = 'this' } = {}) => {
      if (!(await sessions.token())) return;
      try {
        await sendAsUser({ method: 'POST', path: ['auth', 'signout'], body: { scope } });
      } catch (error) {
        // The session has ended already.
        if (!isRowhouseError(error) || error.status !== 401) throw error;
      }
      if (scope !== 'others') await sessions.set('signed_out', null);
    },
    user: async () => ((await sessions.token()) ? ownUser('GET') : null),
    refresh: sessions.refresh,
    get session() {
      return sessions.current();
    },
    onAuthChange: sessions.listen,
    asUser: (given: string | Session) => {
      const session = typeof given === 'string' ? { access_token: given } : given;
      if (!session?.access_token) throw misuse('asUser requires a session or token.');
      return open<Database>(options, session);
    },
  };
  return client as unknown as Client<Database>;
}

type BatchEntry = Extract<BatchStatement, { query: unknown }>;

function isEntry(entry: BatchStatement): entry is BatchEntry {
  return typeof entry === 'object' && 'query' in entry;
}

function readStatement(
  text: string | Sql,
  params?: readonly unknown[],
): { query: string; params?: readonly unknown[] } {
  if (typeof text === 'string') return params ? { query: text, params } : { query: text };
  const statement = statementOf(text);
  if (!statement) throw misuse('A statement is a string or sql`…`.');
  return statement;
}

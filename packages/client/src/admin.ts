// @rowhouse/client/admin: users, settings, usage and space of a project, for servers and scripts with the project key.
import type { ClientOptions, CodeIssued } from './client.ts';
import { misuse, RowhouseError } from './errors.ts';
import { type List, makeList } from './pages.ts';
import { type Call, type CallOptions, openService, type PostOptions } from './request.ts';
import type { User } from './sessions.ts';

export {
  type AccountClient,
  type Connection,
  createAccountClient,
  type Key,
  type ListOptions,
  type Project,
  type ProjectList,
  type ProjectPage,
  type Scope,
} from './account.ts';
export { RowhouseError, safe } from './errors.ts';

/** A page of users. */
export type UserPage = { users: User[]; page: number; limit: number; has_more: boolean };
/** Await it to get a page; iterate over it to get all users. */
export type UserList = List<UserPage, User>;
/** A user to create, or the changes of one. */
export type UserChanges = {
  email?: string;
  password?: string;
  role?: string;
  data?: Record<string, unknown>;
  email_verified?: boolean;
};
/** A session of a user. */
export type UserSession = {
  id: string;
  created_at: string;
  refreshed_at: string;
  expires_at: string;
  is_acting: boolean;
};
/** A record of a key that acts, or acted, as a user. */
export type Acting = {
  id: string;
  user: { id: string; email: string } | null;
  key: { id: string; name: string | null };
  created_at: string;
  expires_at: string;
  used_at: string | null;
  ended_at: string | null;
};
/** Settings of a project's users. */
export type UserSettings = { refuse_common_passwords: boolean };
/** The storage that a project uses. */
export type Usage = {
  limit_mb: number;
  size_mb: number;
  headroom_mb: number;
  status: 'ready' | 'full';
  measured_at: string;
  tables: {
    schema: string;
    name: string;
    kind: 'table' | 'partitioned' | 'materialized_view';
    total_bytes: number;
    heap_bytes: number;
    index_bytes: number;
    toast_bytes: number;
    row_estimate: number | null;
  }[];
  users_bytes: number;
  large_objects_bytes: number;
  other_bytes: number;
  table_count: number;
  tables_truncated: boolean;
  failed_restore_drill_at: string | null;
};
/** A compaction, which returns unused space to the disk. */
export type Compaction = {
  status: 'running' | 'done' | 'failed' | 'stopped';
  started_at: string;
  finished_at: string | null;
  tables_total: number;
  tables_done: number;
  current: string | null;
  size_before_mb: number;
  size_mb: number;
  freed_mb: number;
  skipped: { table: string; reason: string }[];
  skipped_count: number;
  error: string | null;
};

/** Administration of one project. Created by {@link createAdmin}. */
export interface Admin {
  users: {
    /**
     * Lists users, newest first. `search`: a part of an email address, or an id.
     *
     * @example
     * for await (const { email } of admin.users.list()) console.log(email);
     */
    list(options?: { limit?: number; page?: number; search?: string }): UserList;
    get(id: string): Promise<User>;
    /** By email address, without regard to case. null: there is none. */
    find(email: string): Promise<User | null>;
    create(user: UserChanges & { email: string }, options?: PostOptions): Promise<User>;
    /** `banned: true` ends all sessions of the user at once. */
    update(id: string, changes: UserChanges & { banned?: boolean }): Promise<User>;
    delete(id: string): Promise<User>;
    /** A code for a new password, for a message of your own. `send`: the service sends it instead. */
    recover(email: string, options?: { send?: boolean }): Promise<CodeIssued>;
    /** A code that verifies the email address. */
    verify(email: string, options?: { send?: boolean }): Promise<CodeIssued>;
    sessions(id: string): Promise<UserSession[]>;
    /** Ends one session, or all. */
    signOut(id: string, session?: string): Promise<void>;
    /**
     * A token with which this key acts as the user (`anon`: as nobody), for at most 15 minutes. It is recorded.
     *
     * @example
     * const { token } = await admin.users.actAs(user.id, { expires_in: 60 });
     * const { rows } = await db.asUser(token).query('select * from todos');
     */
    actAs(
      id: string,
      options?: { expires_in?: number },
    ): Promise<{ token: string; expires_at: string; acting: Acting }>;
    /** Who acted as whom within the last 90 days, newest first. */
    acting(options?: { limit?: number; page?: number }): Promise<Acting[]>;
    endActing(id: string): Promise<void>;
  };
  settings: {
    get(): Promise<UserSettings>;
    update(changes: Partial<UserSettings>): Promise<UserSettings>;
  };
  /** The storage that the project uses, by table, and its history. */
  usage(options?: {
    since?: string | Date;
    points?: number;
  }): Promise<{ usage: Usage; history: { at: string; size_mb: number }[] }>;
  /** Starts a compaction and waits for its end. Throws if it fails. */
  compact(options?: CallOptions): Promise<Compaction>;
  /** The running compaction or the last one. */
  compaction(): Promise<Compaction | null>;
  /**
   * The whole project with its users, as bytes: `custom` for pg_restore, `sql` for psql, or `csv`, a zip.
   *
   * @example
   * await writeFile('shop.dump', admin.export('custom'));
   */
  export(
    format?: 'custom' | 'sql' | 'csv',
    options?: CallOptions,
  ): AsyncGenerator<Uint8Array, void, undefined>;
}

const lookMs = 300;

/**
 * Creates a client that administers a project. It requires the project key, a key with the scope `manage`, or an account
 * key.
 *
 * @example
 * const admin = createAdmin({ url: 'http://127.0.0.1:8765', apiKey: 'rh_proj_…', project: 'my-shop' });
 * const user = await admin.users.create({ email: 'ada@example.com', role: 'editor' });
 */
export function createAdmin(options: ClientOptions): Admin {
  if (!options.project) throw misuse('project is missing.');
  const { send, open } = openService(options, 'number', ['projects', options.project]);
  const call = (method: Call['method'], path: string[], body?: unknown, more?: PostOptions) =>
    send({ ...more, method, path, body });
  const users = ['auth', 'users'];
  const user = async (method: Call['method'], id: string[], body?: unknown, more?: PostOptions) =>
    (await call(method, [...users, ...id], body, more)).user;

  const list: Admin['users']['list'] = (query = {}) =>
    makeList(
      (page): Promise<UserPage> => send({ method: 'GET', path: users, query: { ...query, page } }),
      'users',
      query.page,
    );
  const compaction = async (method: 'GET' | 'POST', more?: CallOptions): Promise<Compaction | null> =>
    (await call(method, ['compact'], undefined, more)).compaction;

  return {
    users: {
      list,
      get: (id) => user('GET', [id]),
      find: async (email) => {
        const wanted = email.trim().toLowerCase();
        for await (const one of list({ search: wanted })) if (one.email.toLowerCase() === wanted) return one;
        return null;
      },
      create: (body, more) => user('POST', [], body, more),
      update: (id, changes) => user('PATCH', [id], changes),
      delete: (id) => user('DELETE', [id]),
      recover: (email, more) => call('POST', ['auth', 'recover'], { email, ...more }),
      verify: (email, more) => call('POST', ['auth', 'verify'], { email, ...more }),
      sessions: async (id) => (await call('GET', [...users, id, 'sessions'])).sessions,
      signOut: async (id, session) => {
        await call('DELETE', [...users, id, 'sessions', ...(session === undefined ? [] : [session])]);
      },
      actAs: (id, more = {}) => call('POST', [...users, id, 'act-as'], more),
      acting: async (query) =>
        (await send({ method: 'GET', path: ['auth', 'act-as'], ...(query && { query }) })).acting,
      endActing: async (id) => {
        await call('DELETE', ['auth', 'act-as', id]);
      },
    },
    settings: {
      get: async () => (await call('GET', ['auth', 'settings'])).settings,
      update: async (changes) => (await call('PATCH', ['auth', 'settings'], changes)).settings,
    },
    usage: ({ since, ...query } = {}) => {
      const from = since instanceof Date ? since.toISOString() : since;
      return send({ method: 'GET', path: ['usage'], query: { ...query, since: from } });
    },
    compact: async (more) => {
      let now = await compaction('POST', more);
      while (now?.status === 'running') {
        await new Promise((resolve) => setTimeout(resolve, lookMs));
        now = await compaction('GET', more);
      }
      if (now?.status === 'done') return now;
      throw new RowhouseError(
        'conflict',
        `The compaction ${now?.status ?? 'ended'}: ${now?.error ?? 'no reason given'}.`,
      );
    },
    compaction: () => compaction('GET'),
    export: (format = 'custom', more) =>
      open({
        ...more,
        method: 'GET',
        path: ['export'],
        query: { format },
        isRaw: true,
      }) as AsyncGenerator<never>,
  };
}

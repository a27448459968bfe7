// createAccountClient: projects, their keys and their connection strings.
import { type List, makeList } from './pages.ts';
import { type Call, openService, type PostOptions, type ServiceOptions } from './request.ts';

/** A project. */
export type Project = {
  id: string;
  slug: string;
  name: string;
  limit_mb: number;
  size_mb: number;
  /** creating: a job fills the project. It cannot be used yet. */
  status: 'ready' | 'full' | 'creating' | 'moving' | 'deleted';
  /** The slug of the project of which this one is a branch. */
  parent?: string;
  /** The project is deleted after this time. */
  expires_at?: string;
  created_at: string;
  deleted_at?: string;
  /** A deleted project can be restored until then. */
  dropped_after?: string;
};

/** A permission of a key. */
export type Scope = 'query' | 'query:read' | 'tables:read' | 'tables:write' | 'auth' | 'manage';

/** An API key as it is listed, without the key itself. */
export type Key = {
  id: string;
  name: string;
  kind: 'project' | 'scoped' | 'publishable';
  /** The first characters of the key. */
  start: string;
  scopes: Scope[];
  /** null: all tables. */
  tables: string[] | null;
  status: 'active' | 'rotated' | 'expired' | 'revoked';
  expires_at: string | null;
  last_used_at: string | null;
  created_at: string;
  revoked_at: string | null;
  /** The person who issued it. null: nobody, or it is not known. */
  issued_by: { id: string; email: string } | null;
};

/** A connection for psql and PostgreSQL drivers. */
export type Connection = {
  url: string;
  host: string;
  port: number;
  database: string;
  user: string;
  password: string;
};

/** A page of projects. */
export type ProjectPage = { projects: Project[]; page: number; limit: number; has_more: boolean };
/** Options of `projects.list` of {@link AccountClient}. */
export type ListOptions = { limit?: number; page?: number; status?: 'live' | 'deleted' };
/** Await it to get a page; iterate over it to get all projects. */
export type ProjectList = List<ProjectPage, Project>;

/** A client for the projects and keys of an account. Created by {@link createAccountClient}. */
export interface AccountClient {
  projects: {
    /**
     * Lists projects, newest first.
     *
     * @example
     * for await (const { slug, size_mb } of account.projects.list()) console.log(slug, size_mb);
     */
    list(options?: ListOptions): ProjectList;
    /**
     * Creates a project. `api_key` is the project key. It is returned only once.
     *
     * @example
     * const { project, api_key } = await account.projects.create({ name: 'My Shop', limit_mb: 64 });
     */
    create(
      project: { name: string; limit_mb?: number; slug?: string },
      options?: PostOptions,
    ): Promise<{ project: Project; api_key: string }>;
    get(slug: string): Promise<Project>;
    update(
      slug: string,
      changes: { name?: string; limit_mb?: number; expires_at?: string | null },
    ): Promise<Project>;
    /** Deletes a project. It can be restored for 7 days, unless the installation has another setting. */
    delete(slug: string): Promise<Project>;
    restore(slug: string): Promise<Project>;
  };
  keys: {
    list(slug: string): Promise<Key[]>;
    /** Issues a key. `api_key` is returned only once. */
    issue(
      slug: string,
      key: {
        name: string;
        kind?: 'scoped' | 'publishable';
        scopes?: Scope[];
        tables?: string[];
        expires_at?: string | Date;
      },
      options?: PostOptions,
    ): Promise<{ key: Key; api_key: string }>;
    revoke(slug: string, id: string): Promise<Key>;
    /** Creates a new project key. The old one keeps working for the grace period, which is a day by default. */
    rotate(
      slug: string,
      options?: { grace_seconds?: number },
    ): Promise<{ key: Key; api_key: string; previous: Key }>;
  };
  /** The `postgres://` connection string of a project, and its parts. */
  connection(slug: string): Promise<Connection>;
}

/**
 * Creates a client for projects and keys. It requires an account key, or a project key for its own project.
 *
 * @example
 * const account = createAccountClient({ url: 'http://127.0.0.1:8765', apiKey: 'rh_acct_…' });
 * const { project, api_key } = await account.projects.create({ name: 'My Shop' });
 */
export function createAccountClient(options: ServiceOptions): AccountClient {
  const { send } = openService(options, 'number', ['projects']);
  const call = (method: Call['method'], path: string[], body?: unknown, more?: PostOptions) =>
    send({ ...more, method, path, body });
  const part = (name: string) => async (method: Call['method'], path: string[], body?: unknown) =>
    (await call(method, path, body))[name];
  const project = part('project');

  const list = (query: ListOptions = {}): ProjectList =>
    makeList(
      (page): Promise<ProjectPage> => send({ method: 'GET', path: [], query: { ...query, page } }),
      'projects',
      query.page,
    );

  return {
    projects: {
      list,
      create: (body, more) => call('POST', [], body, more),
      get: (slug) => project('GET', [slug]),
      update: (slug, changes) => project('PATCH', [slug], changes),
      delete: (slug) => project('DELETE', [slug]),
      restore: (slug) => project('POST', [slug, 'restore']),
    },
    keys: {
      list: (slug) => part('keys')('GET', [slug, 'keys']),
      issue: (slug, key, more) => call('POST', [slug, 'keys'], key, more),
      revoke: (slug, id) => part('key')('DELETE', [slug, 'keys', id]),
      rotate: (slug, more = {}) => call('POST', [slug, 'keys', 'rotate'], more),
    },
    connection: (slug) => part('connection')('GET', [slug, 'connection']),
  };
}

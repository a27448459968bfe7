// The tools for agents: each one is a request to the REST API with the caller's own key, so that keys, roles, limits and the
// audit log hold for them as for everybody.
import Type, { type Static, type TObject } from 'typebox';

/** `path`: below the prefix of the API. */
export type ApiRequest = Readonly<{
  method: 'GET' | 'POST';
  path: string;
  body?: object;
}>;

type Annotations = Readonly<{ readOnlyHint: boolean; destructiveHint: boolean; idempotentHint: boolean }>;

export type Tool<Input extends TObject = TObject> = Readonly<{
  name: string;
  title: string;
  description: string;
  input: Input;
  annotations: Annotations;
  requestOf(input: Static<Input>): ApiRequest;
  /** What the agent gets to see of the response. Without it: the text as it was answered, with all digits of its numbers. */
  show?(answer: Record<string, unknown>, input: Static<Input>): unknown;
}>;

const reading: Annotations = { readOnlyHint: true, destructiveHint: false, idempotentHint: true };
const adding: Annotations = { readOnlyHint: false, destructiveHint: false, idempotentHint: false };
const changing: Annotations = { readOnlyHint: false, destructiveHint: true, idempotentHint: false };

const project = Type.String({ minLength: 1, maxLength: 100, description: 'The slug of the project.' });
const query = Type.String({ minLength: 1, description: 'One SQL statement of PostgreSQL.' });
const params = Type.Optional(
  Type.Array(Type.Unknown(), {
    maxItems: 1_000,
    description:
      'Values for $1 … $n. Send integers beyond 2^53 as strings. Never write values of others into the statement itself.',
  }),
);
const closed = { additionalProperties: false };

export const defaultRows = 100;
const limit = Type.Optional(
  Type.Integer({
    minimum: 1,
    maximum: 1_000,
    default: defaultRows,
    description: 'The maximum number of rows. "truncated" in the result tells whether there are more.',
  }),
);

const parts = ['indexes', 'constraints', 'policies', 'triggers', 'views', 'functions', 'extensions'] as const;

export const tools: readonly Tool[] = [
  tool({
    name: 'list_projects',
    title: 'List projects',
    description:
      'Lists the projects that the key can use, newest first. Each project is a PostgreSQL database.',
    input: Type.Object(
      {
        search: Type.Optional(
          Type.String({ maxLength: 100, description: 'A part of the name or the slug.' }),
        ),
        page: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000_000, default: 1 })),
      },
      closed,
    ),
    annotations: reading,
    requestOf: ({ search, page }) => ({ method: 'GET', path: `/projects${queryString({ search, page })}` }),
  }),
  tool({
    name: 'describe_project',
    title: 'Describe a project',
    description: 'Returns the name, the size, the limit and the state of a project.',
    input: Type.Object({ project }, closed),
    annotations: reading,
    requestOf: ({ project: slug }) => ({ method: 'GET', path: projectPath(slug) }),
  }),
  tool({
    name: 'list_tables',
    title: 'List tables',
    description: 'Lists the tables and views of a project with their sizes and estimated numbers of rows.',
    input: Type.Object({ project }, closed),
    annotations: reading,
    requestOf: ({ project: slug }) => ({ method: 'GET', path: `${projectPath(slug)}/tables` }),
  }),
  tool({
    name: 'describe_tables',
    title: 'Describe tables and policies',
    description:
      'Describes tables: columns with types and defaults, primary keys, references, whether row security is on. By default with the policies of row security.',
    input: Type.Object(
      {
        project,
        tables: Type.Optional(
          Type.Array(Type.String({ minLength: 1, maxLength: 200 }), {
            minItems: 1,
            maxItems: 100,
            description: 'Names, such as "teas" or "app.teas". Without it: all tables.',
          }),
        ),
        include: Type.Optional(
          Type.Array(Type.Enum([...parts]), { maxItems: parts.length, default: ['policies'] }),
        ),
      },
      closed,
    ),
    annotations: reading,
    requestOf: ({ project: slug, include = ['policies'] }) => ({
      method: 'GET',
      path: `${projectPath(slug)}/schema${queryString({ include: include.join(',') || undefined })}`,
    }),
    show: (answer, { tables, include = ['policies'] }) => ({
      ...onlyTables(answer, tables),
      // They are many, and most of them belong to extensions.
      ...(!include.includes('functions') && { functions: undefined }),
    }),
  }),
  tool({
    name: 'query',
    title: 'Read with SQL',
    description: `Runs one SQL statement that only reads. A statement that writes is refused: use run_sql for it. Returns at most ${defaultRows} rows unless limit says otherwise.`,
    input: Type.Object({ project, query, params, limit }, closed),
    annotations: reading,
    requestOf: ({ project: slug, query: text, params: values, limit: rows = defaultRows }) =>
      statement(slug, { query: text, ...(values && { params: values }), limit: rows, read_only: true }),
  }),
  tool({
    name: 'explain',
    title: 'Explain a statement',
    description:
      'Returns the plan of PostgreSQL for a statement, without running it. With analyze, a statement that only reads is run and measured.',
    input: Type.Object(
      { project, query, params, analyze: Type.Optional(Type.Boolean({ default: false })) },
      closed,
    ),
    annotations: reading,
    requestOf: ({ project: slug, query: text, params: values, analyze = false }) =>
      statement(slug, {
        query: `explain (${analyze ? 'analyze, buffers, ' : ''}verbose) ${text}`,
        ...(values && { params: values }),
        limit: 1_000,
        read_only: true,
      }),
  }),
  tool({
    name: 'run_sql',
    title: 'Change data or tables with SQL',
    description:
      'Runs one SQL statement that may write. By default it is only a preview: the statement runs, its result and the number of affected rows are returned, and it is rolled back. To keep the change, show the preview to the person first, then send dry_run false and max_affected, the number of rows that may change: if more would, nothing changes.',
    input: Type.Object(
      {
        project,
        query,
        params,
        limit,
        dry_run: Type.Optional(Type.Boolean({ default: true, description: 'false: keep the change.' })),
        max_affected: Type.Optional(
          Type.Integer({
            minimum: 0,
            description: 'Required with dry_run false. 0 for statements like create table.',
          }),
        ),
      },
      closed,
    ),
    annotations: changing,
    requestOf: ({ project: slug, query: text, params: values, limit: rows = defaultRows, ...how }) => {
      const { dry_run: isPreview = true, max_affected: most } = how;
      if (!isPreview && most === undefined)
        throw new InputError(
          'With dry_run false, max_affected is required. Call run_sql with dry_run true first: "affected" in its result is the number to send.',
        );
      return statement(slug, {
        query: text,
        ...(values && { params: values }),
        limit: rows,
        dry_run: isPreview,
        ...(most !== undefined && { max_affected: most }),
      });
    },
  }),
  tool({
    name: 'create_project',
    title: 'Create a project',
    description:
      'Creates a project, an empty PostgreSQL database. Requires an account key. The key of the project is not shown here: use the same account key, or issue a key in the console.',
    input: Type.Object(
      {
        name: Type.String({ minLength: 1, maxLength: 100 }),
        limit_mb: Type.Optional(Type.Integer({ minimum: 1, description: 'The limit of its size in MB.' })),
      },
      closed,
    ),
    annotations: adding,
    requestOf: (body) => ({ method: 'POST', path: '/projects', body }),
    show: withoutKey,
  }),
  tool({
    name: 'create_branch',
    title: 'Create a branch',
    description:
      'Copies a project, with its data, into a new project in which changes can be tried. Requires an account key.',
    input: Type.Object(
      {
        project,
        name: Type.String({ minLength: 1, maxLength: 100 }),
        expires_at: Type.Optional(
          Type.String({ format: 'date-time', description: 'When the branch is deleted by itself.' }),
        ),
      },
      closed,
    ),
    annotations: adding,
    requestOf: ({ project: slug, ...body }) => ({
      method: 'POST',
      path: `${projectPath(slug)}/branches`,
      body,
    }),
    show: withoutKey,
  }),
];

/** The names of the tools that send a request to the API. */
export const toolNames: ReadonlySet<string> = new Set(tools.map(({ name }) => name));

/** What the agent sent cannot be a request. The message says what to send instead. */
export class InputError extends Error {}

function tool<const Input extends TObject>(given: Tool<Input>): Tool {
  return given as unknown as Tool;
}

/** A slug of ".." would lead to another path. */
function projectPath(slug: string): string {
  if (slug === '.' || slug === '..') throw new InputError(`"${slug}" is not the slug of a project.`);
  return `/projects/${encodeURIComponent(slug)}`;
}

function statement(slug: string, body: object): ApiRequest {
  return { method: 'POST', path: `${projectPath(slug)}/query`, body };
}

function queryString(given: Record<string, string | number | undefined>): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(given)) if (value !== undefined) query.set(name, String(value));
  return query.size > 0 ? `?${query}` : '';
}

/** What an agent has seen stands in its transcript. */
function withoutKey(answer: Record<string, unknown>): Record<string, unknown> {
  const { api_key: _key, ...rest } = answer;
  return rest;
}

type Named = { schema: string; name: string; table?: string };

function onlyTables(answer: Record<string, unknown>, wanted?: readonly string[]): Record<string, unknown> {
  if (!wanted) return answer;
  const isWanted = ({ schema, name, table = name }: Named) =>
    wanted.includes(`${schema}.${table}`) || (schema === 'public' && wanted.includes(table));
  const filtered = ['tables', 'indexes', 'constraints', 'policies', 'triggers', 'views']
    .filter((part) => Array.isArray(answer[part]))
    .map((part) => [part, (answer[part] as Named[]).filter(isWanted)]);
  return { ...answer, ...Object.fromEntries(filtered) };
}

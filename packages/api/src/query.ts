// SQL over HTTP on the wire.
import Type, { type Static } from 'typebox';
import { success } from './envelope.ts';

const params = Type.Array(Type.Unknown(), {
  maxItems: 65_535,
  description:
    'Values for $1 … $n: any JSON. Arrays fit array and json columns, objects json columns. Numbers keep all their digits.',
});
const query = Type.String({ minLength: 1, description: 'One SQL statement.', examples: ['select 1 as one'] });
const numbers = Type.Enum(['number', 'string'], {
  default: 'number',
  description: 'string: bigint and numeric come as strings, for languages whose numbers are doubles.',
});
const limit = Type.Integer({
  minimum: 1,
  maximum: 2_147_483_646,
  description: 'At most this many rows; PostgreSQL stops there. Left out: all rows, streamed.',
});
const timeoutMs = Type.Integer({
  minimum: 1,
  default: 29_000,
  description: 'At most what the installation allows.',
});
const readOnly = Type.Boolean({ default: false, description: 'A statement that writes is refused.' });

export const RunQuery = Type.Object(
  {
    query,
    params: Type.Optional(params),
    limit: Type.Optional(limit),
    timeout_ms: Type.Optional(timeoutMs),
    read_only: Type.Optional(readOnly),
    dry_run: Type.Optional(
      Type.Boolean({ default: false, description: 'Runs, reports, and is rolled back.' }),
    ),
    max_affected: Type.Optional(
      Type.Integer({ minimum: 0, description: 'More rows affected: rolled back, 409.' }),
    ),
    numbers: Type.Optional(numbers),
  },
  { additionalProperties: false },
);
export type RunQuery = Static<typeof RunQuery>;

const maxStatements = 1000;

export const RunBatch = Type.Object(
  {
    statements: Type.Array(
      Type.Object(
        { query, params: Type.Optional(params), limit: Type.Optional(limit) },
        { additionalProperties: false },
      ),
      { minItems: 1, maxItems: maxStatements },
    ),
    timeout_ms: Type.Optional(timeoutMs),
    read_only: Type.Optional(readOnly),
    numbers: Type.Optional(numbers),
  },
  { additionalProperties: false },
);
export type RunBatch = Static<typeof RunBatch>;

/** What Neon's driver sends: one query, or several for one transaction. */
export const RunNeon = Type.Object(
  {
    query: Type.Optional(query),
    params: Type.Optional(params),
    queries: Type.Optional(
      Type.Array(Type.Object({ query, params: Type.Optional(params) }, { additionalProperties: false }), {
        maxItems: maxStatements,
      }),
    ),
  },
  { additionalProperties: false, minProperties: 1 },
);
export type RunNeon = Static<typeof RunNeon>;

const result = {
  columns: Type.Array(Type.String(), { description: 'In result order; a repeated name gets _2, _3.' }),
  rows: Type.Array(Type.Record(Type.String(), Type.Unknown())),
  row_count: Type.Integer({ description: 'Rows returned.' }),
  duration_ms: Type.Number({ description: 'From handing the statement to PostgreSQL until its last row.' }),
  types: Type.Array(Type.String(), { description: "PostgreSQL's name of each column's type." }),
  command: Type.String({ examples: ['SELECT', 'INSERT', 'CREATE TABLE'] }),
  affected: Type.Integer({ description: "PostgreSQL's own count for the command." }),
  truncated: Type.Boolean({ description: 'There were more rows than limit.' }),
};
export const QueryResponse = success(result);
export const BatchResponse = success({
  results: Type.Array(Type.Object(result, { additionalProperties: false })),
});

export type QueryResponse = Static<typeof QueryResponse>;
export type BatchResponse = Static<typeof BatchResponse>;

const neonResult = Type.Object({
  fields: Type.Array(
    Type.Object({
      name: Type.String(),
      tableID: Type.Integer(),
      columnID: Type.Integer(),
      dataTypeID: Type.Integer({ description: "The type's oid." }),
      dataTypeSize: Type.Integer(),
      dataTypeModifier: Type.Integer(),
      format: Type.Literal('text'),
    }),
  ),
  rows: Type.Array(Type.Unknown(), {
    description: 'Arrays with Neon-Array-Mode: true, else objects; with Neon-Raw-Text-Output: true, of text.',
  }),
  command: Type.String({ examples: ['SELECT', 'INSERT', 'CREATE'] }),
  rowCount: Type.Union([Type.Integer(), Type.Null()]),
  rowAsArray: Type.Boolean(),
});
/** Of one query, or of several. */
export const NeonResponse = Type.Union([neonResult, Type.Object({ results: Type.Array(neonResult) })]);

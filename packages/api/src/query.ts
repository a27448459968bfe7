// Wire types of SQL over HTTP.
import Type, { type Static } from 'typebox';
import { ErrorBody, success } from './envelope.ts';

const params = Type.Array(Type.Unknown(), {
  maxItems: 65_535,
  description:
    'Values for $1 … $n: any JSON. An array fits array and json parameters, an object json parameters. Numbers keep all digits.',
});
const query = Type.String({ minLength: 1, description: 'One SQL statement.', examples: ['select 1 as one'] });
const numbers = Type.Enum(['number', 'string'], {
  default: 'number',
  description: 'string: bigint and numeric are returned as strings, for languages whose numbers are doubles.',
});
const limit = Type.Integer({
  minimum: 1,
  maximum: 2_147_483_646,
  description: 'The maximum number of rows. If omitted, all rows are streamed.',
});
const timeoutMs = Type.Integer({
  minimum: 1,
  default: 29_000,
  description: 'The timeout in milliseconds. The limit of the installation is the maximum.',
});
const readOnly = Type.Boolean({ default: false, description: 'Reject statements that write.' });

export const RunQuery = Type.Object(
  {
    query,
    params: Type.Optional(params),
    limit: Type.Optional(limit),
    timeout_ms: Type.Optional(timeoutMs),
    read_only: Type.Optional(readOnly),
    dry_run: Type.Optional(
      Type.Boolean({
        default: false,
        description: 'Run the statement, return its result, and roll it back.',
      }),
    ),
    max_affected: Type.Optional(
      Type.Integer({
        minimum: 0,
        description: 'If more rows are affected, the statement is rolled back and gets 409.',
      }),
    ),
    numbers: Type.Optional(numbers),
  },
  { additionalProperties: false },
);
export type RunQuery = Static<typeof RunQuery>;

export const maxStatements = 1000;

export const RunBatch = Type.Object(
  {
    statements: Type.Array(
      Type.Object(
        {
          query,
          params: Type.Optional(params),
          limit: Type.Optional(limit),
          expect_affected: Type.Optional(
            Type.Integer({
              minimum: 0,
              description:
                'If this statement affects another number of rows, the whole batch is rolled back and gets 409. The rows of a SELECT count too.',
            }),
          ),
        },
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

/** The request of Neon's driver: one query, or several in one transaction. */
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
  columns: Type.Array(Type.String(), {
    description: 'In result order. Repeated names get the suffix _2, _3 and so on.',
  }),
  rows: Type.Array(Type.Record(Type.String(), Type.Unknown())),
  row_count: Type.Integer({ description: 'The number of returned rows.' }),
  duration_ms: Type.Number({ description: 'From sending the statement to PostgreSQL until its last row.' }),
  types: Type.Array(Type.String(), { description: 'The PostgreSQL type of each column.' }),
  command: Type.String({ examples: ['SELECT', 'INSERT', 'CREATE TABLE'] }),
  affected: Type.Integer({ description: 'The number of affected rows, as PostgreSQL reports it.' }),
  truncated: Type.Boolean({ description: 'true if there are more rows than limit.' }),
};
export const QueryResponse = success(result);
export const QueryResult = Type.Object(result, { additionalProperties: false });
export const BatchResponse = success({ results: Type.Array(QueryResult) });

export type QueryResponse = Static<typeof QueryResponse>;
export type BatchResponse = Static<typeof BatchResponse>;

export const NeonResult = Type.Object({
  fields: Type.Array(
    Type.Object({
      name: Type.String(),
      tableID: Type.Integer(),
      columnID: Type.Integer(),
      dataTypeID: Type.Integer({ description: 'The oid of the type.' }),
      dataTypeSize: Type.Integer(),
      dataTypeModifier: Type.Integer(),
      format: Type.Literal('text'),
    }),
  ),
  rows: Type.Array(Type.Unknown(), {
    description:
      'Arrays with Neon-Array-Mode: true, otherwise objects. With Neon-Raw-Text-Output: true, all values are text.',
  }),
  command: Type.String({ examples: ['SELECT', 'INSERT', 'CREATE'] }),
  rowCount: Type.Union([Type.Integer(), Type.Null()]),
  rowAsArray: Type.Boolean(),
});
/** The result of one query, or of several. */
export const NeonResponse = Type.Union([NeonResult, Type.Object({ results: Type.Array(NeonResult) })]);

/** PostgreSQL's fields at the top level, as Neon's driver expects them, beside the fields of every other failure. */
export const NeonErrorBody = Type.Object({
  ...ErrorBody.properties,
  message: Type.String(),
  severity: Type.Literal('ERROR'),
  code: Type.Optional(Type.String({ description: 'The SQLSTATE.', examples: ['42P01'] })),
  detail: Type.Optional(Type.String()),
  hint: Type.Optional(Type.String()),
  position: Type.Optional(Type.String()),
  schema: Type.Optional(Type.String()),
  table: Type.Optional(Type.String()),
  column: Type.Optional(Type.String()),
  constraint: Type.Optional(Type.String()),
});

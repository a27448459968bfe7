// What a project stores, on the wire.
import Type, { type Static } from 'typebox';
import { success } from './envelope.ts';
import { Project } from './projects.ts';

const bytes = (description: string) => Type.Integer({ minimum: 0, description });

export const TableUsage = Type.Object(
  {
    schema: Type.String(),
    name: Type.String(),
    kind: Type.Enum(['table', 'partitioned', 'materialized_view'], {
      description: 'Partitions are counted with the table they belong to.',
    }),
    total_bytes: bytes('All of the following.'),
    heap_bytes: bytes('Its rows.'),
    index_bytes: bytes('Its indexes.'),
    toast_bytes: bytes('Long values, which lie apart from their rows.'),
    row_estimate: Type.Union([Type.Integer(), Type.Null()], {
      description: 'From the last VACUUM or ANALYZE; null: not known.',
    }),
  },
  { additionalProperties: false },
);
export type TableUsage = Static<typeof TableUsage>;

export const Usage = Type.Object(
  {
    limit_mb: Project.properties.limit_mb,
    size_mb: Type.Number({ description: 'Measured for this answer.' }),
    headroom_mb: Type.Number({ description: 'What is left until limit_mb.' }),
    status: Type.Enum(['ready', 'full']),
    measured_at: Type.String({ format: 'date-time' }),
    tables: Type.Array(TableUsage, { description: 'The largest 1,000, largest first.' }),
    users_bytes: bytes('Everything in schema auth, with what it takes without users.'),
    large_objects_bytes: bytes('Large objects, with what their tables take without any.'),
    other_bytes: bytes(
      "The rest of size_mb: PostgreSQL's catalog, sequences, temporary tables, tables that this key may not see.",
    ),
    table_count: Type.Integer({ description: 'How many tables there are.' }),
    tables_truncated: Type.Boolean({ description: 'There are more than are listed.' }),
  },
  { additionalProperties: false },
);
export type Usage = Static<typeof Usage>;

export const UsageQuery = Type.Object(
  {
    since: Type.Optional(
      Type.String({
        format: 'date-time',
        maxLength: 40,
        description: 'The history from then on: ISO 8601 with a zone (in an address + is written %2B).',
      }),
    ),
    points: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 1000,
        default: 200,
        description:
          'At most so many points of the history, evenly chosen, the first and the last among them.',
      }),
    ),
  },
  { additionalProperties: false },
);
export type UsageQuery = Static<typeof UsageQuery>;

export const UsageResponse = success({
  usage: Usage,
  history: Type.Array(
    Type.Object(
      { at: Type.String({ format: 'date-time' }), size_mb: Type.Number() },
      { additionalProperties: false },
    ),
    { description: 'Oldest first. A size holds until the next point.' },
  ),
});
export type UsageResponse = Static<typeof UsageResponse>;

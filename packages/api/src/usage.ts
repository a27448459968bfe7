// Wire types of the storage usage.
import Type, { type Static } from 'typebox';
import { success } from './envelope.ts';
import { Project } from './projects.ts';

const bytes = (description: string) => Type.Integer({ minimum: 0, description });

export const TableUsage = Type.Object(
  {
    schema: Type.String(),
    name: Type.String(),
    kind: Type.Enum(['table', 'partitioned', 'materialized_view'], {
      description: 'Partitions count as part of their table.',
    }),
    total_bytes: bytes('The sum of the following.'),
    heap_bytes: bytes('The rows.'),
    index_bytes: bytes('The indexes.'),
    toast_bytes: bytes('Long values, which PostgreSQL stores separately (TOAST).'),
    row_estimate: Type.Union([Type.Integer(), Type.Null()], {
      description: 'From the last VACUUM or ANALYZE. null: unknown.',
    }),
  },
  { additionalProperties: false },
);
export type TableUsage = Static<typeof TableUsage>;

export const Usage = Type.Object(
  {
    limit_mb: Project.properties.limit_mb,
    size_mb: Type.Number({ description: 'Measured for this response.' }),
    headroom_mb: Type.Number({ description: 'The difference to limit_mb.' }),
    status: Type.Enum(['ready', 'full']),
    measured_at: Type.String({ format: 'date-time' }),
    tables: Type.Array(TableUsage, { description: 'The 1,000 largest tables, largest first.' }),
    users_bytes: bytes('The schema auth, including its size without users.'),
    large_objects_bytes: bytes('Large objects, including the size of their empty tables.'),
    other_bytes: bytes(
      'The rest of size_mb: the catalog of PostgreSQL, sequences, temporary tables, and tables that this key cannot see.',
    ),
    table_count: Type.Integer({ description: 'The number of all tables.' }),
    tables_truncated: Type.Boolean({ description: 'true if there are more tables than listed.' }),
    failed_restore_drill_at: Type.Union([Type.String({ format: 'date-time' }), Type.Null()], {
      description:
        'The time at which a restore drill of this project failed: its backups may not be restorable. null: none failed, or one has succeeded since.',
    }),
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
        description:
          'The start of the history: an ISO 8601 date-time with a time zone. Encode + as %2B in the query string.',
      }),
    ),
    points: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 1000,
        default: 200,
        description:
          'The maximum number of points of the history. They are spread evenly and include the first and the last.',
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
    { description: 'Oldest first. Each size applies until the next point.' },
  ),
});
export type UsageResponse = Static<typeof UsageResponse>;

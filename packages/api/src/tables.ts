// Tables on the wire.
import Type, { type Static } from 'typebox';
import { success } from './envelope.ts';

const row = Type.Record(Type.String(), Type.Unknown());

export const PageResponse = success({
  columns: Type.Array(Type.String(), { description: 'In result order.' }),
  types: Type.Array(Type.String(), { description: "PostgreSQL's name of each column's type." }),
  rows: Type.Array(row),
  row_count: Type.Integer({ description: 'Rows in this page.' }),
  page: Type.Union([Type.Integer(), Type.Null()], { description: 'null after a cursor.' }),
  limit: Type.Integer(),
  has_more: Type.Boolean(),
  next_cursor: Type.Union([Type.String(), Type.Null()], {
    description: 'Send it as "cursor" for the next page, at the same cost however deep. null: there is none.',
  }),
  count: Type.Optional(
    Type.Union([Type.Object({ rows: Type.Integer(), kind: Type.Enum(['exact', 'estimated']) }), Type.Null()]),
  ),
});

/** Documentation: the query string is read by PostgREST's rules, which no schema can tell. */
export const PageQuery = Type.Object(
  {
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 10_000, default: 50 })),
    page: Type.Optional(Type.Integer({ minimum: 1, default: 1 })),
    cursor: Type.Optional(Type.String({ description: 'next_cursor of the page before.' })),
    select: Type.Optional(Type.String({ examples: ['id,name,author(name)'] })),
    order: Type.Optional(Type.String({ examples: ['price.desc,id'] })),
    count: Type.Optional(Type.Enum(['exact', 'estimated'])),
    numbers: Type.Optional(Type.Enum(['number', 'string'])),
  },
  { description: 'Any other parameter is a filter: price=gte.10, name=ilike.*tea*, or=(a.eq.1,b.is.null).' },
);

export const WriteQuery = Type.Object(
  {
    returning: Type.Optional(Type.Enum(['row', 'minimal'])),
    select: Type.Optional(Type.String({ description: 'Which columns of the changed rows come back.' })),
    numbers: Type.Optional(Type.Enum(['number', 'string'])),
    max_affected: Type.Optional(Type.Integer({ minimum: 0, description: 'More rows: rolled back, 409.' })),
    on_conflict: Type.Optional(Type.String({ description: 'Columns of a key, for upserts.' })),
    resolution: Type.Optional(Type.Enum(['merge', 'ignore'])),
  },
  { description: 'Any other parameter is a filter, on PATCH and DELETE.' },
);

export const RowBody = Type.Union([row, Type.Array(row)]);

export const InsertResponse = success({
  row: Type.Optional(Type.Union([row, Type.Null()])),
  rows: Type.Optional(Type.Array(row)),
  row_count: Type.Optional(Type.Integer()),
});

export const ChangeResponse = success({
  rows: Type.Optional(Type.Array(row)),
  row_count: Type.Integer(),
});

const name = Type.Object({ schema: Type.String(), name: Type.String() });
const kind = Type.Enum(['table', 'partitioned', 'view', 'materialized_view', 'foreign']);
const text = Type.Union([Type.String(), Type.Null()]);
const names = Type.Array(Type.String());

export const TablesResponse = success({
  tables: Type.Array(
    Type.Object({
      schema: Type.String(),
      name: Type.String(),
      kind,
      row_estimate: Type.Union([Type.Number(), Type.Null()]),
      size_bytes: Type.Number(),
      comment: text,
    }),
  ),
});

export const SchemaResponse = success({
  tables: Type.Array(
    Type.Object({
      schema: Type.String(),
      name: Type.String(),
      kind,
      comment: text,
      row_security: Type.Boolean(),
      columns: Type.Array(
        Type.Object({
          name: Type.String(),
          type: Type.String(),
          not_null: Type.Boolean(),
          default: text,
          identity: text,
          generated: text,
          enum: text,
          comment: text,
        }),
      ),
      primary_key: names,
      uniques: Type.Array(names),
      references: Type.Array(
        Type.Object({ name: Type.String(), columns: names, target: name, target_columns: names }),
      ),
    }),
  ),
  enums: Type.Array(Type.Object({ schema: Type.String(), name: Type.String(), values: names })),
  functions: Type.Array(Type.Record(Type.String(), Type.Unknown())),
});

export type PageResponse = Static<typeof PageResponse>;
export type TablesResponse = Static<typeof TablesResponse>;
export type SchemaResponse = Static<typeof SchemaResponse>;

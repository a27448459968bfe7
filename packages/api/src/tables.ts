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
    Type.Union(
      [Type.Object({ rows: Type.Integer(), kind: Type.Enum(['exact', 'estimated']) }), Type.Null()],
      {
        description: 'If it was asked for. null: it could not be had in time.',
      },
    ),
  ),
});

export const TableParams = Type.Object({
  slug: Type.String({ description: "The project's slug." }),
  table: Type.String({
    description: 'A table or view of schema public, or schema.table.',
    examples: ['books'],
  }),
});

// Query strings are documented here and read by PostgREST's rules, which no schema can tell.

const select = Type.Optional(
  Type.String({
    description: 'Columns, with aliases, casts and JSON paths; rows of other tables by foreign key.',
    examples: ['id,total:price::text,data->>color,authors(name)'],
  }),
);
const selectWritten = Type.Optional(
  Type.String({ description: 'Which columns of the written rows come back.', examples: ['id,name'] }),
);
const numbers = Type.Optional(
  Type.Enum(['number', 'string'], { description: 'string: bigint and numeric come as strings.' }),
);
const returning = Type.Optional(
  Type.Enum(['row', 'minimal'], { description: 'minimal: the number of rows alone.', default: 'row' }),
);
const filters = Type.Optional(
  Type.Record(Type.String(), Type.String(), {
    description:
      'Every other parameter is a filter, column=operator.value: price=gte.10, name=ilike.*tea*, or=(a.eq.1,b.is.null).',
    examples: [{ price: 'gte.10' }],
  }),
);

export const PageQuery = Type.Object({
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 10_000, default: 50 })),
  page: Type.Optional(
    Type.Integer({ minimum: 1, default: 1, description: 'Far pages cost more; a cursor does not.' }),
  ),
  cursor: Type.Optional(
    Type.String({ description: 'next_cursor of the page before, with the same order and filters.' }),
  ),
  select,
  order: Type.Optional(
    Type.String({ description: 'The primary key decides what is left open.', examples: ['price.desc,id'] }),
  ),
  count: Type.Optional(
    Type.Enum(['exact', 'estimated'], {
      description: 'How many rows there are. An exact count that takes over a second is given as estimated.',
    }),
  ),
  numbers,
  filters,
});

export const InsertQuery = Type.Object({
  returning,
  select: selectWritten,
  numbers,
  resolution: Type.Optional(
    Type.Enum(['merge', 'ignore'], {
      description: 'What happens to a row whose key is there already: changed, or left alone. Neither: 409.',
    }),
  ),
  on_conflict: Type.Optional(
    Type.String({
      description: 'Columns of the key that "resolution" goes by. The primary key unless said otherwise.',
    }),
  ),
});

/** Of PATCH and DELETE. */
export const ChangeQuery = Type.Object({
  returning,
  select: selectWritten,
  numbers,
  max_affected: Type.Optional(Type.Integer({ minimum: 0, description: 'More rows: rolled back, 409.' })),
  filters,
});

export const ChangeBody = Type.Record(Type.String(), Type.Unknown(), { examples: [{ price: 3.5 }] });

const lines = Type.String({
  description: 'One object a line, all with the same keys. Of any length: all lines or none.',
  examples: ['{"name": "Tea", "price": 4.5}\n{"name": "Coffee", "price": 3}\n'],
});

/** By content type. */
export const InsertBody = {
  content: {
    'application/json': {
      schema: Type.Union([row, Type.Array(row)], {
        description: 'An object is a row, an array is many: all or none. 32 MB at most.',
        examples: [{ name: 'Tea', price: 4.5 }],
      }),
    },
    'text/csv': {
      schema: Type.String({
        description:
          'A line of column names, then the rows; an empty field is null. Of any length: all or none.',
        examples: ['name,price\nTea,4.5\nCoffee,3\n'],
      }),
    },
    'application/x-ndjson': { schema: lines },
  },
};

const described = {
  columns: Type.Optional(
    Type.Array(Type.String(), { description: 'With numbers=string, unless returning=minimal.' }),
  ),
  types: Type.Optional(Type.Array(Type.String(), { description: 'Likewise.' })),
};

export const InsertResponse = success({
  row: Type.Optional(
    Type.Union([row, Type.Null()], {
      description: 'For an object: the row as it is stored. null: resolution=ignore left another one alone.',
    }),
  ),
  rows: Type.Optional(
    Type.Array(row, { description: 'For an array. Rows that were ignored are not among them.' }),
  ),
  row_count: Type.Optional(Type.Integer({ description: 'For arrays, imports and returning=minimal.' })),
  ...described,
});

export const ChangeResponse = success({
  rows: Type.Optional(Type.Array(row, { description: 'Unless returning=minimal.' })),
  row_count: Type.Integer(),
  ...described,
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

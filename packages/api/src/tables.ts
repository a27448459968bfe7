// Wire types of tables.
import Type, { type Static } from 'typebox';
import { success } from './envelope.ts';

const row = Type.Record(Type.String(), Type.Unknown());

export const PageResponse = success({
  columns: Type.Array(Type.String(), { description: 'In result order.' }),
  types: Type.Array(Type.String(), { description: 'The PostgreSQL type of each column.' }),
  rows: Type.Array(row),
  row_count: Type.Integer({ description: 'The number of rows on this page.' }),
  page: Type.Union([Type.Integer(), Type.Null()], { description: 'null for a request with a cursor.' }),
  limit: Type.Integer(),
  has_more: Type.Boolean(),
  next_cursor: Type.Union([Type.String(), Type.Null()], {
    description:
      'Send it as "cursor" to get the next page. Every page costs the same. null: there is no next page.',
  }),
  count: Type.Optional(
    Type.Union(
      [Type.Object({ rows: Type.Integer(), kind: Type.Enum(['exact', 'estimated']) }), Type.Null()],
      {
        description: 'Present if it was requested. null: counting took too long.',
      },
    ),
  ),
});

export const TableParams = Type.Object({
  slug: Type.String({ description: "The project's slug." }),
  table: Type.String({
    description: 'A table or view of schema public, or schema.table.',
    examples: ['teas'],
  }),
});

// Query strings are only documented here. They follow the rules of PostgREST, which a schema cannot express.

const select = Type.Optional(
  Type.String({
    description:
      'Columns, with aliases, casts and JSON paths, and rows of other tables that a foreign key connects: id,total:price::text,data->>color,makers(name).',
    examples: ['id,name,price'],
  }),
);
const selectWritten = Type.Optional(
  Type.String({ description: 'The columns of the written rows to return.', examples: ['id,name'] }),
);
const numbers = Type.Optional(
  Type.Enum(['number', 'string'], { description: 'string: bigint and numeric are returned as strings.' }),
);
const returning = Type.Optional(
  Type.Enum(['row', 'minimal'], { description: 'minimal: return only the number of rows.', default: 'row' }),
);
const filters = Type.Optional(
  Type.Record(Type.String(), Type.String(), {
    description:
      'Every other parameter is a filter of the form column=operator.value: price=gte.10, name=ilike.*tea*, or=(a.eq.1,b.is.null).',
    examples: [{ price: 'gte.3' }],
  }),
);

export const PageQuery = Type.Object({
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 10_000, default: 50 })),
  page: Type.Optional(
    Type.Integer({ minimum: 1, default: 1, description: 'High page numbers cost more. A cursor does not.' }),
  ),
  cursor: Type.Optional(
    Type.String({ description: 'next_cursor of the previous page. Send the same order and filters.' }),
  ),
  select,
  order: Type.Optional(
    Type.String({
      description: 'Columns to sort by. The primary key breaks ties.',
      examples: ['price.desc,id'],
    }),
  ),
  count: Type.Optional(
    Type.Enum(['exact', 'estimated'], {
      description:
        'Count all matching rows. If an exact count takes more than a second, an estimate is returned.',
    }),
  ),
  numbers,
  max_value_chars: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 1_000_000,
      description:
        'Cut longer values of text, varchar, json, jsonb and bytea columns to this many characters. A json value that is cut is a string. A value with fewer characters is whole. Columns of the order and of the primary key are never cut.',
    }),
  ),
  filters,
});

export const InsertQuery = Type.Object({
  returning,
  select: selectWritten,
  numbers,
  resolution: Type.Optional(
    Type.Enum(['merge', 'ignore'], {
      description:
        'What to do with a row whose key already exists: update the existing row, or keep it. If omitted: 409.',
    }),
  ),
  on_conflict: Type.Optional(
    Type.String({
      description: 'The columns of the key for "resolution". Default: the primary key.',
    }),
  ),
});

/** For PATCH and DELETE. */
export const ChangeQuery = Type.Object({
  returning,
  select: selectWritten,
  numbers,
  max_affected: Type.Optional(
    Type.Integer({
      minimum: 0,
      description: 'If more rows are affected, the change is rolled back and gets 409.',
    }),
  ),
  filters,
});

export const ChangeBody = Type.Record(Type.String(), Type.Unknown(), { examples: [{ price: 3.5 }] });

const lines = Type.String({
  description:
    'One object per line, all with the same keys. Any size. Either all lines are inserted or none.',
  examples: ['{"name": "Tea", "price": 4.5}\n{"name": "Coffee", "price": 3}\n'],
});

/** By content type. */
export const InsertBody = {
  content: {
    'application/json': {
      schema: Type.Union([row, Type.Array(row)], {
        description:
          'An object is one row, an array several. Either all rows are inserted or none. At most 32 MB.',
        examples: [{ name: 'Tea', price: 4.5 }],
      }),
    },
    'text/csv': {
      schema: Type.String({
        description:
          'A line of column names, then the rows. An empty field is null. Any size. Either all rows are inserted or none.',
        examples: ['name,price\nTea,4.5\nCoffee,3\n'],
      }),
    },
    'application/x-ndjson': { schema: lines },
  },
};

const described = {
  columns: Type.Optional(
    Type.Array(Type.String(), { description: 'With numbers=string, except for returning=minimal.' }),
  ),
  types: Type.Optional(Type.Array(Type.String(), { description: 'Like columns.' })),
};

export const InsertResponse = success({
  row: Type.Optional(
    Type.Union([row, Type.Null()], {
      description: 'For an object: the stored row. null: resolution=ignore kept an existing row.',
    }),
  ),
  rows: Type.Optional(
    Type.Array(row, { description: 'For an array: the stored rows, without those that were ignored.' }),
  ),
  row_count: Type.Optional(Type.Integer({ description: 'For arrays, imports and returning=minimal.' })),
  ...described,
});

export const ChangeResponse = success({
  rows: Type.Optional(Type.Array(row, { description: 'Except for returning=minimal.' })),
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

export const definitionParts = [
  'indexes',
  'constraints',
  'policies',
  'triggers',
  'views',
  'functions',
  'extensions',
] as const;
export type DefinitionPart = (typeof definitionParts)[number];

export const SchemaQuery = Type.Object(
  {
    include: Type.Optional(
      Type.String({
        maxLength: 200,
        description:
          'Parts to add, separated by commas: indexes, constraints, policies, triggers, views, functions (with their definitions), extensions (installed and available).',
        examples: ['indexes,policies'],
      }),
    ),
  },
  { additionalProperties: false },
);
export type SchemaQuery = Static<typeof SchemaQuery>;

const ofTable = { schema: Type.String(), table: Type.String(), name: Type.String() };
const definition = Type.Union([Type.String(), Type.Null()], {
  description: 'null: there is none, or the definitions of this part together exceed 512 KB.',
});

const definitions = {
  indexes: Type.Array(
    Type.Object({
      ...ofTable,
      unique: Type.Boolean(),
      primary: Type.Boolean(),
      valid: Type.Boolean(),
      size_bytes: Type.Number(),
      definition,
    }),
  ),
  constraints: Type.Array(
    Type.Object({
      ...ofTable,
      kind: Type.Enum(['check', 'foreign_key', 'not_null', 'primary_key', 'unique', 'exclusion', 'trigger']),
      valid: Type.Boolean(),
      definition,
    }),
  ),
  policies: Type.Array(
    Type.Object({
      ...ofTable,
      command: Type.Enum(['select', 'insert', 'update', 'delete', 'all']),
      permissive: Type.Boolean(),
      roles: names,
      using: text,
      check: text,
    }),
  ),
  triggers: Type.Array(Type.Object({ ...ofTable, enabled: Type.Boolean(), definition })),
  views: Type.Array(
    Type.Object({
      schema: Type.String(),
      name: Type.String(),
      kind: Type.Enum(['view', 'materialized_view']),
      security_invoker: Type.Boolean(),
      definition,
    }),
  ),
  functions: Type.Array(Type.Record(Type.String(), Type.Unknown())),
  extensions: Type.Array(
    Type.Object({
      name: Type.String(),
      schema: text,
      version: Type.Union([Type.String(), Type.Null()], { description: 'null: not installed.' }),
      default_version: text,
      comment: text,
    }),
  ),
  truncated: Type.Array(Type.String(), {
    description: 'Present with include: the parts that have more than 5,000 entries.',
  }),
};
export type Definitions = Partial<{ [Name in keyof typeof definitions]: Static<(typeof definitions)[Name]> }>;

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
  indexes: Type.Optional(definitions.indexes),
  constraints: Type.Optional(definitions.constraints),
  policies: Type.Optional(definitions.policies),
  triggers: Type.Optional(definitions.triggers),
  views: Type.Optional(definitions.views),
  functions: Type.Array(Type.Record(Type.String(), Type.Unknown()), {
    description: 'With include=functions, each has its definition.',
  }),
  extensions: Type.Optional(definitions.extensions),
  truncated: Type.Optional(definitions.truncated),
});

export type PageResponse = Static<typeof PageResponse>;
export type TablesResponse = Static<typeof TablesResponse>;
export type SchemaResponse = Static<typeof SchemaResponse>;

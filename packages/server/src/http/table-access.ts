// The tables that a key can see: all, or those on its list.
import { errors } from '../errors.ts';
import type { Caller } from '../keys/caller.ts';
import type { MaySee, Table } from '../tables/catalog/catalog.ts';
import type { SchemaDescription } from '../tables/catalog/describe.ts';
import { seesAll } from '../tables/hidden-tables.ts';

/** For a key with a list of tables: those tables, and the types that they use. */
export function visibleSchema(caller: Caller, schema: SchemaDescription): SchemaDescription {
  if (caller.kind === 'account' || caller.tables === null) return schema;
  const tables = schema.tables
    .filter((table) => maySee(caller, table))
    .map((table) => ({
      ...table,
      columns: table.columns.map((column) => ({ ...column, default: shownDefault(column.default) })),
      references: table.references.filter(({ target }) => maySee(caller, target)),
    }));
  const used = new Set(tables.flatMap(({ columns }) => columns.map((column) => column.enum)));
  const enums = schema.enums.filter((one) => used.has(`${one.schema}.${one.name}`));
  return { tables, enums, functions: [] };
}

/** A constant, or a call of a built-in function. Any other expression can name objects that the key must not see. */
const openDefault =
  /^(?:NULL|true|false|-?[\d.]+|CURRENT_(?:DATE|TIME|TIMESTAMP)|(?:now|gen_random_uuid|uuidv7|clock_timestamp)\(\)|'[^']*'(?:::(?!reg)[a-z_ ]+)?)$/;

function shownDefault(text: string | null): string | null {
  return text === null || openDefault.test(text) ? text : '(expression)';
}

/** Checks all tables that a request turned out to read: tables that a key must not use do not exist for it. */
export function requireTables(caller: Caller, tables: readonly Table[]): void {
  const hidden = tables.find((table) => !maySee(caller, table));
  if (hidden) throw errors.tableNotFound(hidden.name, null);
}

export function tableAccessOf(caller: Caller): MaySee {
  if (caller.kind === 'account' || caller.tables === null) return seesAll;
  return (table) => maySee(caller, table);
}

export function maySee(caller: Caller, { schema, name }: { schema: string; name: string }): boolean {
  if (caller.kind === 'account' || caller.tables === null) return true;
  return caller.tables.includes(`${schema}.${name}`) || (schema === 'public' && caller.tables.includes(name));
}

// The tables that a key can see: all, or those on its list. Every answer that can name a table goes through one of the
// functions here; key-table-answers.test.ts asks all endpoints.
import type { Compaction, Job } from '@rowhouse/api';
import { errors } from '../../errors/errors.ts';
import type { Caller, OperatorCaller } from '../../keys/caller.ts';
import { listOf, lists } from '../../keys/listed-tables.ts';
import type { MaySee, Table } from '../../tables/catalog/catalog.ts';
import type { DescribedColumn, SchemaDescription } from '../../tables/catalog/describe.ts';
import { seesAll } from '../../tables/hidden-tables.ts';
import { isKnownType } from '../../tables/sql/casts.ts';

/** For a key with a list of tables: those tables, and the types that they use. */
export function visibleSchema(caller: Caller, schema: SchemaDescription) {
  const isLimited = listOf(caller) !== null;
  const tables = schema.tables
    .filter((table) => maySee(caller, table))
    .map((table) => ({
      ...table,
      columns: table.columns.map(({ is_row, ...column }) =>
        isLimited
          ? { ...column, type: is_row ? rowType(column) : column.type, default: shownDefault(column) }
          : column,
      ),
      references: table.references.filter(({ target }) => maySee(caller, target)),
    }));
  if (!isLimited) return { ...schema, tables };
  const used = new Set(tables.flatMap(({ columns }) => columns.map((column) => column.enum)));
  const enums = schema.enums.filter((one) => used.has(`${one.schema}.${one.name}`));
  return { tables, enums, functions: [] };
}

/** A row type has the name of its table: it is shown as PostgreSQL names a row of no particular table. */
function rowType({ type }: Pick<DescribedColumn, 'type'>): string {
  return type.endsWith('[]') ? 'record[]' : 'record';
}

/** A constant, or a call of a built-in function. Any other expression can name objects that the key must not see. */
const openDefault =
  /^(?:NULL|true|false|-?[\d.]+|CURRENT_(?:DATE|TIME|TIMESTAMP)|(?:now|gen_random_uuid|uuidv7|clock_timestamp)\(\)|'[^']*'(?:::(?<type>[a-z_ ]+))?)$/;

function shownDefault({
  default: text,
  enum: own,
}: Pick<DescribedColumn, 'default' | 'enum'>): string | null {
  if (text === null) return null;
  const found = openDefault.exec(text);
  const type = found?.groups?.type;
  const isOpen = found && (type === undefined || isOpenType(type) || own === `public.${type}`);
  return isOpen ? text : '(expression)';
}

function isOpenType(name: string): boolean {
  return isKnownType({ name, isQuoted: false, size: '', dimensions: 0 });
}

/** Checks all tables that a request turned out to read: tables that a key must not use do not exist for it. */
export function requireTables(caller: Caller, tables: readonly Table[]): void {
  const hidden = tables.find((table) => !maySee(caller, table));
  if (hidden) throw errors.tableNotFound(hidden.name, null);
}

export function tableAccessOf(caller: Caller): MaySee {
  if (listOf(caller) === null) return seesAll;
  return (table) => maySee(caller, table);
}

export function maySee(caller: Caller, table: { schema: string; name: string }): boolean {
  const tables = listOf(caller);
  return tables === null || lists(tables, table);
}

/**
 * What a job says in words can name any table: texts of a dump, and messages of PostgreSQL. For a key with a list of tables
 * only numbers remain.
 */
export function visibleJob(caller: Caller | OperatorCaller, job: Job): Job {
  if (caller.kind === 'operator' || listOf(caller) === null) return job;
  const counts = Object.entries(job.result ?? {}).filter(([, value]) => typeof value === 'number');
  return {
    ...job,
    details: null,
    error: job.error && { code: job.error.code, message: 'The job did not succeed.', hint: seeAll },
    result: job.result && Object.fromEntries(counts),
  };
}

export function visibleCompaction(caller: Caller, compaction: Compaction): Compaction {
  if (listOf(caller) === null) return compaction;
  const isVisible = (name: string) => {
    const table = readQuoted(name);
    return table !== null && maySee(caller, table);
  };
  const { current, error } = compaction;
  const skipped = compaction.skipped
    .filter(({ table }) => isVisible(table))
    .map(({ table, reason }) => ({ table, reason: /^\w+$/.test(reason) ? reason : 'failed' }));
  return {
    ...compaction,
    current: current !== null && isVisible(current) ? current : null,
    skipped,
    skipped_count: skipped.length,
    error: error === null ? null : 'The compaction failed.',
  };
}

const seeAll = 'Use a key that is not limited to some tables to see the details.';

/** schema.name, each quoted as in SQL if necessary. */
function readQuoted(text: string): { schema: string; name: string } | null {
  const [, schema, name] = /^("(?:[^"]|"")+"|[^".]+)\.("(?:[^"]|"")+"|[^".]+)$/.exec(text) ?? [];
  return schema && name ? { schema: unquoted(schema), name: unquoted(name) } : null;
}

function unquoted(part: string): string {
  return part.startsWith('"') ? part.slice(1, -1).replaceAll('""', '"') : part;
}

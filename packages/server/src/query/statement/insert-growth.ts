// How much a bounded insert (bounded-insert.ts) can make its project grow: facts about its table from the catalog, and an upper
// bound in bytes. The facts are null unless the table qualifies: an ordinary table that runs no code of the project, built-in
// types, defaults of a known size, and only B-tree indexes.
//
// The bound relies on these facts:
//   heap     a row takes at most one new page
//   toast    a row of more than 2 kB is stored out of line in chunks of 2 kB, four on a page, with an index of its own
//   B-tree   an entry splits at most one leaf. Inner pages of narrow keys hold at least 29 entries: those that are full already
//            split once (quotas/budget.ts sets a sixteenth of the project's size aside for them), later splits need as many leaf splits.
//            Wide keys may have as few as two entries on a page: every level can split, and a tree of `maxIndexPages` has 15
//
// The facts hold for one version of the table and of the tables that its foreign keys reference. `guard` is a statement that fails
// once one of them has another version. It runs after the insert in the same transaction: the insert's locks keep the tables as
// they are from then on. growth-check.ts is the second safeguard: it compares how
// much the files have really grown.
import type { BoundedInsert } from './bounded-insert.ts';
import { codeInChosen } from './code-behind.ts';
import { type GrowthCheck, growthCheckOf } from './growth-check.ts';
import { isFixed, valueBytes } from './value-bytes.ts';

export type InsertFacts = Readonly<{
  /** The oid of the table into which it inserts. */
  oid: number;
  guard: InsertGuard;
  columns: number;
  /** For each row, whatever its values are: what a value takes beside its text, and defaults. */
  fixedBytes: number;
  /** How many times as large as its text a value can be stored. */
  factor: number;
  hasToast: boolean;
  narrowIndexes: number;
  wideIndexes: number;
}>;

/** Statements around a group of inserts into one table, in the same transaction. */
export type InsertGuard = Readonly<{
  /** After them: fails once the facts are outdated. */
  unchanged: string;
  /** Before and after them: fails if the files of the table have grown by more than a parameter (growth-check.ts). */
  growth: GrowthCheck;
}>;

const page = 8192;
const narrowIndexBytes = 9 * 1024;
const wideIndexBytes = 16 * page;
const maxIndexPages = 16_384;
/** Rows that are larger may be stored out of line. */
const inlineBytes = 1_900;
const chunkBytes = 1_996;

export function boundOf(
  facts: InsertFacts,
  { rows, constantBytes }: BoundedInsert,
  paramBytes: number,
): number {
  const { columns, fixedBytes, factor, hasToast, narrowIndexes, wideIndexes } = facts;
  const perRow = page + narrowIndexes * narrowIndexBytes + wideIndexes * wideIndexBytes;
  const values = factor * (constantBytes + paramBytes) + rows * fixedBytes;
  if (!hasToast || values <= inlineBytes) return rows * perRow;
  const chunks = values / chunkBytes + rows * columns;
  const toastPages = values / (chunkBytes * 3) + chunks / 16 + rows * 4;
  return rows * perRow + Math.ceil(toastPages) * page;
}

/**
 * The most that the files of the table can grow. Unlike the bound, which leaves inner pages of indexes to the budget, it holds
 * for each insert by itself: one of a narrow index and its root can split as well.
 */
export function mostOf({ narrowIndexes }: InsertFacts, { rows }: BoundedInsert, bound: number): number {
  return bound + rows * narrowIndexes * 2 * page;
}

/** The bytes of a request's parameters as PostgreSQL gets them, or more. */
export function bytesOfParams(params: readonly unknown[]): number {
  let bytes = 0;
  for (const value of params) {
    if (typeof value === 'string') bytes += value.length < 200 ? value.length * 3 : Buffer.byteLength(value);
    else if (typeof value === 'object' && value !== null) bytes += textLength(value) * 3;
    else bytes += 32;
  }
  return bytes;
}

/** An exact number, or JSON. */
function textLength(value: object): number {
  return 'text' in value && typeof value.text === 'string'
    ? value.text.length
    : JSON.stringify(value).length * 6;
}

export function readFacts(answer: string | null): InsertFacts | null {
  if (answer === null) return null;
  const { tables, indexes, ...facts } = JSON.parse(answer) as Read;
  const [{ oid }] = tables;
  const guard = { unchanged: guardOf(tables), growth: growthCheckOf(oid, indexes) };
  return { ...facts, oid, guard };
}

type Read = Omit<InsertFacts, 'guard' | 'oid'> & {
  /** The first is the table itself. */
  tables: [TableVersion, ...TableVersion[]];
  /** Their oids. */
  indexes: number[];
};
type TableVersion = { name: string; oid: number; version: string };

/** The planner evaluates the checks, and again once one of the tables has changed. The statement reads no row. */
function guardOf(tables: readonly TableVersion[]): string {
  const names = tables.map(({ name }, index) => `${name} as t${index}`);
  const checks = tables.map(({ oid, version }) => `rowhouse.is_unchanged(${oid}, '${version}')`);
  return `select from ${names.join(', ')} where ${checks.join(' and ')} limit 0`;
}

/** What each value takes beside its bytes: its header, its alignment, and its part of the row's. */
const headerBytes = 16;
const firstUserOid = '16384';
const equals = 'operator(pg_catalog.=)';
const nameArray = (names: string) => `'{${names.split(/\s+/).join(',')}}'::pg_catalog.name[]`;

/** Functions in defaults whose results have a small, known size. */
const defaultFunctions = nameArray(
  `nextval now transaction_timestamp statement_timestamp clock_timestamp gen_random_uuid uuidv4 uuidv7 timezone varchar
  numeric int2 int4 int8 float4 float8 timestamp timestamptz date time timetz`,
);
const defaultNodes = `'{CONST,FUNCEXPR,SQLVALUEFUNCTION,RELABELTYPE,NEXTVALUEEXPR}'::pg_catalog.text[]`;

/** A narrow key: columns of a fixed size, 64 bytes altogether. */
const isNarrow = `indexprs is null and (
    select pg_catalog.bool_and(${isFixed('type')}) and pg_catalog.sum(type.typlen) operator(pg_catalog.<=) 64
    from pg_catalog.unnest(indkey::pg_catalog.int2[]) as key (number)
    join pg_catalog.pg_attribute on attrelid ${equals} indrelid and attnum ${equals} key.number
    join pg_catalog.pg_type as type on type.oid ${equals} atttypid)`;

/** $1: a quoted name. One value: JSON for `readFacts`, or null. */
export const insertFacts = `
  with recursive chosen (oid) as (select pg_catalog.to_regclass($1::pg_catalog.text)::pg_catalog.oid),
  ${codeInChosen},
  used (oid, name, place) as (
    select class.oid, pg_catalog.format('%I.%I', nspname, relname), found.place
    from (
      select oid, 0 as place from chosen
      union
      select confrelid, 1 from pg_catalog.pg_constraint
      where contype ${equals} 'f' and conrelid ${equals} any (select oid from chosen)
        and confrelid operator(pg_catalog.<>) conrelid
    ) as found
    join pg_catalog.pg_class as class on class.oid ${equals} found.oid
    join pg_catalog.pg_namespace as namespace on namespace.oid ${equals} relnamespace
  ),
  kept as (
    select attnum, attgenerated, stored.constant, stored.factor
    from pg_catalog.pg_attribute join pg_catalog.pg_type as type on type.oid ${equals} atttypid
    left join lateral (${valueBytes('type', 'atttypmod')}) as stored on true
    where attrelid ${equals} any (select oid from chosen) and attnum operator(pg_catalog.>) 0 and not attisdropped
  ),
  maintained as (
    select indexrelid, ${isNarrow} as is_narrow, am.amname,
      pg_catalog.pg_relation_size(indexrelid) operator(pg_catalog./) ${page} as pages,
      ${firstUserOid} operator(pg_catalog.<=) any (indclass::pg_catalog.oid[]) as has_own_class
    from pg_catalog.pg_index
    join pg_catalog.pg_class as class on class.oid ${equals} indexrelid
    join pg_catalog.pg_am as am on am.oid ${equals} class.relam
    where indrelid ${equals} any (select oid from chosen)
  ),
  defaults (expression) as (
    select adbin::pg_catalog.text from pg_catalog.pg_attrdef where adrelid ${equals} any (select oid from chosen)
  )
  select pg_catalog.json_build_object(
    'tables', (
      select pg_catalog.json_agg(pg_catalog.json_build_object(
        'name', name, 'oid', oid::pg_catalog.int8, 'version', rowhouse.version_of(oid)) order by place, oid)
      from used),
    'columns', (select pg_catalog.count(*) from kept),
    'fixedBytes', (
      select coalesce(pg_catalog.sum(${headerBytes} operator(pg_catalog.+) constant), 0) from kept)
      operator(pg_catalog.+) (
      select coalesce(pg_catalog.sum(64 operator(pg_catalog.+) pg_catalog.length(expression)), 0) from defaults),
    'factor', (select coalesce(pg_catalog.max(factor), 0) from kept),
    'hasToast', class.reltoastrelid operator(pg_catalog.<>) 0,
    'indexes', (select coalesce(pg_catalog.json_agg(indexrelid::pg_catalog.int8), '[]') from maintained),
    'narrowIndexes', (select pg_catalog.count(*) from maintained where is_narrow),
    'wideIndexes', (select pg_catalog.count(*) from maintained where not is_narrow)
  )::pg_catalog.text
  from chosen
  join pg_catalog.pg_class as class on class.oid ${equals} chosen.oid
  join pg_catalog.pg_am as am on am.oid ${equals} class.relam
  join pg_catalog.pg_namespace as namespace on namespace.oid ${equals} class.relnamespace
  where class.relkind ${equals} 'r' and class.relpersistence ${equals} 'p' and am.amname ${equals} 'heap'
    and nspname operator(pg_catalog.<>) all (${nameArray('pg_catalog information_schema pg_toast rowhouse auth')})
    and pg_catalog.current_setting('search_path') ${equals} 'public'
    and not exists (select from code where purpose ${equals} any ('{read,insert}'::pg_catalog.text[]))
    and not exists (select from kept where attgenerated operator(pg_catalog.<>) '' or constant is null)
    and not exists (
      select from maintained
      where amname operator(pg_catalog.<>) 'btree' or has_own_class or pages operator(pg_catalog.>) ${maxIndexPages})
    and not exists (
      select from defaults
      cross join lateral pg_catalog.regexp_matches(expression, '\\{([A-Z]+)|:funcid ([0-9]+)', 'g') as found (part)
      left join pg_catalog.pg_proc as function on function.oid ${equals} part[2]::pg_catalog.int8::pg_catalog.oid
      where case
        when part[1] is not null then part[1] operator(pg_catalog.<>) all (${defaultNodes})
        else function.oid is null or function.oid operator(pg_catalog.>=) ${firstUserOid}
          or function.proname operator(pg_catalog.<>) all (${defaultFunctions})
      end)
    and not exists (
      select from used
      where not pg_catalog.has_table_privilege(used.oid, 'select'))`;

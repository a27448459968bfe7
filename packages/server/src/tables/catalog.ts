// What a table looks like, read from PostgreSQL's catalog as the project's own role by one statement. It carries the
// table's version; every statement compiled from it holds that version and is refused once it is another (see
// migrations/project/0002_tables.sql), so what is kept here can never be used stale.
import { errors } from '../errors.ts';
import { harmlessFunctions } from '../query/harmless-functions.ts';
import { builtInType } from '../query/value-kinds.ts';
import { nearestName } from './nearest.ts';

export type Table = Readonly<{
  oid: number;
  schema: string;
  name: string;
  kind: 'table' | 'partitioned' | 'view' | 'materialized_view' | 'foreign';
  columns: ReadonlyMap<string, Column>;
  primaryKey: readonly string[];
  /** Columns of unique keys that hold for all rows, the primary key not among them. */
  uniques: readonly (readonly string[])[];
  references: readonly Reference[];
  /** Its rows can lie in other tables too, so that neither a key nor a place says which row is meant. */
  hasChildren: boolean;
  can: Readonly<{ insert: boolean; update: boolean; delete: boolean }>;
  /** Reading, or writing, calls nothing of the project's own and leaves nothing in a session… */
  isPlainToRead: boolean;
  isPlainToWrite: boolean;
  /** …but for what a sequence leaves. */
  usesSequences: boolean;
  version: string;
}>;

export type Column = Readonly<{
  name: string;
  /** As PostgreSQL writes it: `numeric(10,2)`. */
  type: string;
  typeOid: number;
  shape: Shape;
  /** Where the operators of a type of the project's own are; all others are in pg_catalog. */
  operators: ReadonlyMap<string, string>;
  notNull: boolean;
  hasDefault: boolean;
  identity: 'always' | 'by default' | null;
  generated: 'stored' | 'virtual' | null;
  enumValues: readonly string[] | null;
}>;

/** What matters of a type when a value of it becomes JSON or is compared. */
export type Shape = Readonly<{
  is: 'plain' | 'text' | 'json' | 'jsonb' | 'tsvector' | 'big' | 'timestamp' | 'timestamptz' | 'composite';
  /** An array of such. */
  isArray: boolean;
  fields: readonly Readonly<{ name: string; shape: Shape }>[];
  /** Of a composite: what holds its attributes. */
  relation: Readonly<{ oid: number; version: string }> | null;
}>;

/** A way from a table to another by foreign key; `through` a third one if there are many on both sides. */
export type Reference = Readonly<{
  /** Of the foreign key. */
  name: string;
  /** Whether the foreign key is this table's own. */
  isOwn: boolean;
  isToOne: boolean;
  columns: readonly string[];
  target: TableName;
  targetColumns: readonly string[];
  through: null | Readonly<{
    table: TableName;
    /** Of the third table, towards this one and towards the target. */
    nearColumns: readonly string[];
    farColumns: readonly string[];
    farName: string;
  }>;
}>;

export type TableName = Readonly<{ oid: number; schema: string; name: string }>;

/** Runs a statement in a session of the project and gives the first value of its first row. */
export type Ask = (query: string, parameters: string[]) => Promise<string | null>;

/** A name in schema public, or `schema.table`. A table of public whose own name holds a dot comes first. */
export async function getTable(ask: Ask, name: string): Promise<Table> {
  const answer = isPossible(name) ? await ask(byName, [name, toArray(endings(name))]) : null;
  const [table] = readTables(answer);
  if (table) return table;
  const names = JSON.parse((await ask(allNames, [])) ?? '[]') as string[];
  throw errors.tableNotFound(name, nearestName(name, names));
}

/** By what a reference of another table names; one that is gone is missing from the result. */
export async function findTables(ask: Ask, oids: readonly number[]): Promise<Table[]> {
  return readTables(await ask(byOid, [toArray(oids.map(String))]));
}

/** For whoever keeps tables: what a failure before anything ran can mean, besides a mistake of the caller. */
export async function areUnchanged(ask: Ask, tables: readonly Table[]): Promise<boolean> {
  const versions = JSON.parse(
    (await ask(versionsNow, [toArray(tables.map(({ oid }) => String(oid)))])) ?? '{}',
  ) as Record<string, string>;
  return tables.every(({ oid, version }) => versions[String(oid)] === version);
}

/** The state that a guard fails with. Only together with "nothing ran" does it mean anything: projects can raise it too. */
export const changedState = 'RH001';

function isPossible(name: string): boolean {
  return name !== '' && !name.includes('\0') && Buffer.byteLength(name) <= 127;
}

/** What could be the table's own name: all of it, or what follows one of its dots. Longer than 63 bytes none can be. */
function endings(name: string): string[] {
  const found = [name];
  for (let dot = name.indexOf('.'); dot >= 0; dot = name.indexOf('.', dot + 1))
    found.push(name.slice(dot + 1));
  return found.filter((ending) => ending !== '' && Buffer.byteLength(ending) <= 63);
}

function toArray(values: readonly string[]): string {
  return `{${values.map((value) => `"${value.replace(/["\\]/g, '\\$&')}"`).join(',')}}`;
}

/** Not for tables' addresses: PostgreSQL's own, and the service's own. */
export const closedSchemas = `nspname operator(pg_catalog.<>) all ('{pg_catalog,information_schema,pg_toast,rowhouse}'::pg_catalog.name[])
  and nspname operator(pg_catalog.!~) '^pg_(temp|toast_temp)_'`;

const tableKinds = `relkind operator(pg_catalog.=) any ('{r,p,v,m,f}')`;

const byName = describe(`
  select class.oid from pg_catalog.pg_class as class
  join pg_catalog.pg_namespace as namespace on namespace.oid operator(pg_catalog.=) class.relnamespace
  where class.relname operator(pg_catalog.=) any ($2::pg_catalog.name[]) and ${tableKinds} and ${closedSchemas}
    and (nspname operator(pg_catalog.=) 'public' and relname operator(pg_catalog.=) $1::pg_catalog.text
      or pg_catalog.concat(nspname, '.', relname) operator(pg_catalog.=) $1::pg_catalog.text)
  order by nspname operator(pg_catalog.=) 'public' and relname operator(pg_catalog.=) $1::pg_catalog.text desc,
           pg_catalog.length(nspname::pg_catalog.text)
  limit 1`);

const byOid = describe(`
  select class.oid from pg_catalog.pg_class as class
  where class.oid operator(pg_catalog.=) any ($1::pg_catalog.oid[]) and ${tableKinds}`);

const allNames = `
  select pg_catalog.json_agg(found.name) from (
    select case when nspname operator(pg_catalog.=) 'public' then relname::pg_catalog.text
                else pg_catalog.concat(nspname, '.', relname) end as name
    from pg_catalog.pg_class
    join pg_catalog.pg_namespace as namespace on namespace.oid operator(pg_catalog.=) relnamespace
    where ${tableKinds} and ${closedSchemas}
    order by 1 limit 5000
  ) as found`;

const versionsNow = `
  select pg_catalog.json_object_agg(oid, rowhouse.version_of(oid))
  from pg_catalog.unnest($1::pg_catalog.oid[]) as tables (oid)
  where rowhouse.version_of(oid) is not null`;

/** `$columns` of `$relation` by their numbers, in the numbers' order. */
function columnNames(relation: string, numbers: string): string {
  return `(
    select pg_catalog.json_agg(attname order by place)
    from pg_catalog.unnest(${numbers}) with ordinality as numbers (number, place)
    join pg_catalog.pg_attribute on attrelid operator(pg_catalog.=) ${relation} and attnum operator(pg_catalog.=) number)`;
}

function tableName(oid: string): string {
  return `(
    select pg_catalog.json_build_object('oid', named.oid::pg_catalog.int8, 'schema', named_in.nspname, 'name', named.relname)
    from pg_catalog.pg_class as named
    join pg_catalog.pg_namespace as named_in on named_in.oid operator(pg_catalog.=) named.relnamespace
    where named.oid operator(pg_catalog.=) ${oid})`;
}

/** A unique index over all rows of a table, whose columns are among, or hold, the given ones. */
function uniqueOver(relation: string, comparison: string): string {
  return `exists (
    select from pg_catalog.pg_index
    where indrelid operator(pg_catalog.=) ${relation} and indisunique and indisvalid and indpred is null and indexprs is null
      and (indkey::pg_catalog.int2[])[0:indnkeyatts operator(pg_catalog.-) 1] ${comparison})`;
}

/** One value: a JSON array of the tables whose numbers `which` selects. */
function describe(which: string): string {
  return `
  with recursive chosen (oid) as (${which}),
  attribute as (
    select attrelid, attnum, attname, atttypid, atttypmod, attnotnull, atthasdef, attidentity, attgenerated
    from pg_catalog.pg_attribute
    where attrelid operator(pg_catalog.=) any (select oid from chosen) and attnum operator(pg_catalog.>) 0 and not attisdropped
  ),
  needed (oid) as (
    select atttypid from attribute where atttypid operator(pg_catalog.>=) 16384
    union
    select part.oid
    from needed
    join pg_catalog.pg_type as type on type.oid operator(pg_catalog.=) needed.oid
    cross join lateral (
      select type.typelem where type.typsubscript operator(pg_catalog.=) 'pg_catalog.array_subscript_handler'::pg_catalog.regproc
      union all
      select type.typbasetype where type.typtype operator(pg_catalog.=) 'd'
      union all
      select field.atttypid from pg_catalog.pg_attribute as field
      where field.attrelid operator(pg_catalog.=) type.typrelid and field.attnum operator(pg_catalog.>) 0
        and not field.attisdropped
    ) as part (oid)
    where part.oid operator(pg_catalog.>=) 16384
  ),
  own_key as (
    select oid, conname, conrelid, conkey, confrelid, confkey
    from pg_catalog.pg_constraint as key
    where contype operator(pg_catalog.=) 'f'
      -- Not the copies that PostgreSQL makes for the partitions of the table it points to.
      and not exists (
        select from pg_catalog.pg_constraint as parent
        where parent.oid operator(pg_catalog.=) key.conparentid and parent.conrelid operator(pg_catalog.=) key.conrelid)
  ),
  pointing as (
    select own_key.*, confdeltype operator(pg_catalog.=) any ('{c,n,d}') or confupdtype operator(pg_catalog.=) any ('{c,n,d}') as acts
    from own_key join pg_catalog.pg_constraint as key on key.oid operator(pg_catalog.=) own_key.oid
    where key.conparentid operator(pg_catalog.=) 0 and own_key.confrelid operator(pg_catalog.=) any (select oid from chosen)
  )
  select pg_catalog.json_agg(pg_catalog.json_build_object(
    'oid', class.oid::pg_catalog.int8, 'schema', nspname, 'name', relname, 'kind', relkind,
    'version', rowhouse.version_of(class.oid),
    'hasChildren', relhassubclass or relkind operator(pg_catalog.=) 'p',
    'updatable', pg_catalog.pg_relation_is_updatable(class.oid::pg_catalog.regclass, true),
    'columns', (
      select pg_catalog.json_agg(pg_catalog.json_build_object(
        'name', attname, 'type', pg_catalog.format_type(atttypid, atttypmod), 'oid', atttypid::pg_catalog.int8,
        'notNull', attnotnull, 'hasDefault', atthasdef, 'identity', attidentity, 'generated', attgenerated
      ) order by attnum)
      from attribute where attrelid operator(pg_catalog.=) class.oid),
    'types', (
      select pg_catalog.json_agg(pg_catalog.json_build_object(
        'oid', type.oid::pg_catalog.int8, 'kind', typtype, 'base', typbasetype::pg_catalog.int8,
        'element', case when typsubscript operator(pg_catalog.=) 'pg_catalog.array_subscript_handler'::pg_catalog.regproc
                        then typelem::pg_catalog.int8 else 0 end,
        'fields', (
          select pg_catalog.json_agg(pg_catalog.json_build_object('name', field.attname, 'oid', field.atttypid::pg_catalog.int8)
                                     order by field.attnum)
          from pg_catalog.pg_attribute as field
          where field.attrelid operator(pg_catalog.=) typrelid and typrelid operator(pg_catalog.<>) 0
            and field.attnum operator(pg_catalog.>) 0 and not field.attisdropped),
        'relation', typrelid::pg_catalog.int8, 'version', case when typrelid operator(pg_catalog.<>) 0 then rowhouse.version_of(typrelid) end,
        'values', (
          select pg_catalog.json_agg(enumlabel order by enumsortorder)
          from pg_catalog.pg_enum where enumtypid operator(pg_catalog.=) type.oid),
        'operators', (
          select pg_catalog.json_agg(distinct pg_catalog.jsonb_build_array(oprname, operator_in.nspname))
          from pg_catalog.pg_operator
          join pg_catalog.pg_namespace as operator_in on operator_in.oid operator(pg_catalog.=) oprnamespace
          where oprleft operator(pg_catalog.=) type.oid)))
      from needed join pg_catalog.pg_type as type on type.oid operator(pg_catalog.=) needed.oid),
    'keys', (
      select pg_catalog.json_agg(pg_catalog.json_build_object(
        'isPrimary', indisprimary,
        'columns', ${columnNames('indrelid', '(indkey::pg_catalog.int2[])[0:indnkeyatts operator(pg_catalog.-) 1]')}
      ) order by indisprimary desc, indnkeyatts, indexrelid)
      from pg_catalog.pg_index
      where indrelid operator(pg_catalog.=) class.oid and indisunique and indisvalid and indpred is null and indexprs is null),
    'from', (
      select pg_catalog.json_agg(pg_catalog.json_build_object(
        'name', conname, 'columns', ${columnNames('conrelid', 'conkey')},
        'target', ${tableName('confrelid')}, 'targetColumns', ${columnNames('confrelid', 'confkey')}
      ) order by conname)
      from own_key where conrelid operator(pg_catalog.=) class.oid),
    'to', (
      select pg_catalog.json_agg(pg_catalog.json_build_object(
        'name', conname, 'columns', ${columnNames('confrelid', 'confkey')},
        'target', ${tableName('conrelid')}, 'targetColumns', ${columnNames('conrelid', 'conkey')},
        'isUnique', ${uniqueOver('conrelid', 'operator(pg_catalog.<@) conkey')}
      ) order by conname)
      from pointing where confrelid operator(pg_catalog.=) class.oid),
    'through', (
      select pg_catalog.json_agg(pg_catalog.json_build_object(
        'name', near.conname, 'columns', ${columnNames('near.confrelid', 'near.confkey')},
        'table', ${tableName('near.conrelid')}, 'nearColumns', ${columnNames('near.conrelid', 'near.conkey')},
        'farName', far.conname, 'farColumns', ${columnNames('far.conrelid', 'far.conkey')},
        'target', ${tableName('far.confrelid')}, 'targetColumns', ${columnNames('far.confrelid', 'far.confkey')}
      ) order by near.conname, far.conname)
      from pointing as near
      join own_key as far on far.conrelid operator(pg_catalog.=) near.conrelid and far.oid operator(pg_catalog.<>) near.oid
      where near.confrelid operator(pg_catalog.=) class.oid
        -- A table that joins two others is one whose rows are told apart by both.
        and ${uniqueOver('near.conrelid', 'operator(pg_catalog.@>) (near.conkey operator(pg_catalog.||) far.conkey)')}),
    'hides', pg_catalog.json_build_object(
      'rules', relhasrules, 'rowSecurity', relrowsecurity, 'actions', exists (
        select from pointing where confrelid operator(pg_catalog.=) class.oid and acts),
      'triggers', exists (
        select from pg_catalog.pg_trigger where tgrelid operator(pg_catalog.=) class.oid and not tgisinternal),
      -- What PostgreSQL itself brings along leaves no entry here.
      'own', exists (
        select from (
            select 'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid, class.oid
            union all
            select 'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid, indexrelid
            from pg_catalog.pg_index where indrelid operator(pg_catalog.=) class.oid
            union all
            select 'pg_catalog.pg_attrdef'::pg_catalog.regclass::pg_catalog.oid, oid
            from pg_catalog.pg_attrdef where adrelid operator(pg_catalog.=) class.oid
            union all
            select 'pg_catalog.pg_constraint'::pg_catalog.regclass::pg_catalog.oid, oid
            from pg_catalog.pg_constraint where conrelid operator(pg_catalog.=) class.oid
            union all
            select 'pg_catalog.pg_statistic_ext'::pg_catalog.regclass::pg_catalog.oid, oid
            from pg_catalog.pg_statistic_ext where stxrelid operator(pg_catalog.=) class.oid
        ) as part (catalog, oid)
        join pg_catalog.pg_depend on classid operator(pg_catalog.=) part.catalog and objid operator(pg_catalog.=) part.oid
        where refclassid operator(pg_catalog.=) any ('{pg_catalog.pg_proc,pg_catalog.pg_operator}'::pg_catalog.regclass[])),
      'expressions', (
        select pg_catalog.json_agg(expression) from (
          select pg_catalog.pg_get_expr(adbin, adrelid) from pg_catalog.pg_attrdef
          where adrelid operator(pg_catalog.=) class.oid
          union all
          select pg_catalog.pg_get_expr(conbin, conrelid) from pg_catalog.pg_constraint
          where conrelid operator(pg_catalog.=) class.oid and conbin is not null
        ) as expressions (expression)))))
  from chosen
  join pg_catalog.pg_class as class on class.oid operator(pg_catalog.=) chosen.oid
  join pg_catalog.pg_namespace as namespace on namespace.oid operator(pg_catalog.=) class.relnamespace`;
}

type Row = {
  oid: number;
  schema: string;
  name: string;
  kind: string;
  version: string;
  hasChildren: boolean;
  updatable: number;
  columns:
    | {
        name: string;
        type: string;
        oid: number;
        notNull: boolean;
        hasDefault: boolean;
        identity: string;
        generated: string;
      }[]
    | null;
  types: TypeRow[] | null;
  keys: { isPrimary: boolean; columns: string[] }[] | null;
  from: Omit<Reference, 'isOwn' | 'isToOne' | 'through'>[] | null;
  to: (Omit<Reference, 'isOwn' | 'isToOne' | 'through'> & { isUnique: boolean })[] | null;
  through: (Omit<Reference, 'isOwn' | 'isToOne' | 'through'> & NonNullable<Reference['through']>)[] | null;
  hides: {
    rules: boolean;
    rowSecurity: boolean;
    actions: boolean;
    triggers: boolean;
    own: boolean;
    expressions: string[] | null;
  };
};

type TypeRow = {
  oid: number;
  kind: string;
  base: number;
  element: number;
  fields: { name: string; oid: number }[] | null;
  relation: number;
  version: string | null;
  values: string[] | null;
  operators: [string, string][] | null;
};

const kinds: Record<string, Table['kind']> = {
  r: 'table',
  p: 'partitioned',
  v: 'view',
  m: 'materialized_view',
  f: 'foreign',
};

function readTables(answer: string | null): Table[] {
  return (JSON.parse(answer ?? '[]') as Row[]).map(toTable);
}

function toTable(row: Row): Table {
  const types = new Map((row.types ?? []).map((type) => [type.oid, type]));
  const columns = (row.columns ?? []).map((column) => toColumn(column, types));
  const keys = row.keys ?? [];
  const { isPlainToRead, isPlainToWrite } = judge(row, columns, types);
  return {
    oid: row.oid,
    schema: row.schema,
    name: row.name,
    kind: kinds[row.kind] ?? 'table',
    columns: new Map(columns.map((column) => [column.name, column])),
    primaryKey: keys.find(({ isPrimary }) => isPrimary)?.columns ?? [],
    uniques: keys.filter(({ isPrimary }) => !isPrimary).map((key) => key.columns),
    references: toReferences(row),
    hasChildren: row.hasChildren,
    can: { update: has(row.updatable, 4), insert: has(row.updatable, 8), delete: has(row.updatable, 16) },
    isPlainToRead,
    isPlainToWrite,
    usesSequences:
      columns.some(({ identity }) => identity !== null) ||
      (row.hides.expressions ?? []).some((expression) => expression.includes('nextval(')),
    version: row.version,
  };
}

function has(bits: number, bit: number): boolean {
  return (bits & bit) !== 0;
}

type Types = ReadonlyMap<number, TypeRow>;

function toColumn(row: NonNullable<Row['columns']>[number], types: Types): Column {
  const base = baseOf(row.oid, types);
  return {
    name: row.name,
    type: row.type,
    typeOid: row.oid,
    shape: shapeOf(row.oid, types),
    operators: new Map(types.get(base)?.operators ?? []),
    notNull: row.notNull,
    hasDefault: row.hasDefault,
    identity: row.identity === 'a' ? 'always' : row.identity === 'd' ? 'by default' : null,
    generated: row.generated === 's' ? 'stored' : row.generated === 'v' ? 'virtual' : null,
    enumValues: types.get(base)?.values ?? null,
  };
}

function baseOf(oid: number, types: Types): number {
  const base = types.get(oid)?.base ?? 0;
  return base === 0 ? oid : baseOf(base, types);
}

function toReferences({ from, to, through }: Row): Reference[] {
  return [
    ...(from ?? []).map((key) => ({ ...key, isOwn: true, isToOne: true, through: null })),
    ...(to ?? []).map(({ isUnique, ...key }) => ({ ...key, isOwn: false, isToOne: isUnique, through: null })),
    ...(through ?? []).map(({ table, nearColumns, farColumns, farName, ...key }) => ({
      ...key,
      isOwn: false,
      isToOne: false,
      through: { table, nearColumns, farColumns, farName },
    })),
  ];
}

const shapes = new Map<string, Shape['is']>([
  ['text', 'text'],
  ['varchar', 'text'],
  ['bpchar', 'text'],
  ['json', 'json'],
  ['jsonb', 'jsonb'],
  ['tsvector', 'tsvector'],
  ['int8', 'big'],
  ['numeric', 'big'],
  ['timestamp', 'timestamp'],
  ['timestamptz', 'timestamptz'],
]);

const plain: Shape = { is: 'plain', isArray: false, fields: [], relation: null };

function shapeOf(oid: number, types: Types): Shape {
  const known = builtInType(oid);
  if (known) {
    const is = shapes.get(known.name.replace(/\[\]$/, '')) ?? 'plain';
    return { is, isArray: known.kind.is === 'array', fields: [], relation: null };
  }
  const type = types.get(oid);
  if (!type) return plain;
  if (type.base !== 0) return shapeOf(type.base, types);
  // An array of arrays, by way of a domain, is one to PostgreSQL as well.
  if (type.element !== 0) return { ...shapeOf(type.element, types), isArray: true };
  if (type.kind !== 'c' || !type.fields) return plain;
  const fields = type.fields.map(({ name, oid: field }) => ({ name, shape: shapeOf(field, types) }));
  const relation = { oid: type.relation, version: type.version ?? '' };
  return { is: 'composite', isArray: false, fields, relation };
}

/** Functions that a default or a check may call without leaving anything behind; a sequence is counted on its own. */
function isHarmless(expression: string): boolean {
  for (const [, name = ''] of expression.matchAll(/([a-z_][a-z0-9_]*)\(/gi)) {
    if (!harmlessFunctions.has(name) && !syntax.has(name)) return false;
  }
  return true;
}
const syntax = new Set([
  'nextval',
  'ANY',
  'ALL',
  'ARRAY',
  'COALESCE',
  'NULLIF',
  'GREATEST',
  'LEAST',
  'EXTRACT',
  'AND',
  'OR',
  'NOT',
  'IN',
  'CHECK',
]);

/** A domain's checks can change without the table's noticing: never plain to write. */
function judge(row: Row, columns: readonly Column[], types: Types) {
  const { rules, rowSecurity, actions, triggers, own, expressions } = row.hides;
  const isOrdinary =
    (row.kind === 'r' || row.kind === 'm') && !row.hasChildren && !rules && !rowSecurity && !own;
  const hasOwnTypes = [...types.values()].some(({ kind, element }) => kind !== 'e' && element === 0);
  const isPlainToRead =
    isOrdinary && !hasOwnTypes && columns.every(({ generated }) => generated !== 'virtual');
  const isPlainToWrite =
    isPlainToRead && row.kind === 'r' && !triggers && !actions && (expressions ?? []).every(isHarmless);
  return { isPlainToRead, isPlainToWrite };
}

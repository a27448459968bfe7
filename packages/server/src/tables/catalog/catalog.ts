// What a table looks like, read from PostgreSQL's catalog as the project's own role by one statement. It carries the
// table's version; every statement compiled from it holds that version and is refused once it is another (see
// migrations/project/0002_tables.sql), so what is kept here can never be used stale.
import { errors, RowhouseError } from '../../errors.ts';
import { builtInType } from '../../query/json/value-kinds.ts';
import { allNames, byName, byOid } from './catalog-queries.ts';
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
  /** What the role that asked may do, by privileges. */
  grants: Readonly<{ usage: boolean; select: boolean; insert: boolean; update: boolean; delete: boolean }>;
  /** Of all that it reads, itself among that, the first whose rows row security does not guard; null: it guards them all. */
  exposed: Pick<Table, 'schema' | 'name' | 'kind'> | null;
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
  shape: TypeShape;
  /** Where the operators of a type of the project's own are; all others are in pg_catalog. */
  operators: ReadonlyMap<string, string>;
  notNull: boolean;
  /** By the role that asked. */
  isReadable: boolean;
  hasDefault: boolean;
  identity: 'always' | 'by default' | null;
  generated: 'stored' | 'virtual' | null;
  enumValues: readonly string[] | null;
}>;

/** What matters of a type when a value of it becomes JSON or is compared. */
export type TypeShape = Readonly<{
  is: 'plain' | 'text' | 'json' | 'jsonb' | 'tsvector' | 'big' | 'timestamp' | 'timestamptz' | 'composite';
  /** An array of such. */
  isArray: boolean;
  fields: readonly Readonly<{ name: string; shape: TypeShape }>[];
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

/** `version`: of the table that is named, when this was read. Its columns and keys are told of here too. */
export type TableName = Readonly<{ oid: number; schema: string; name: string; version: string }>;

/** Whether the caller may be told of a table. */
export type MaySee = (table: Pick<Table, 'schema' | 'name'>) => boolean;

/** Runs a statement in a session of the project and gives the first value of its first row. */
export type Ask = (query: string, parameters: string[]) => Promise<string | null>;

/**
 * A name in schema public, or `schema.table`. A table of public whose own name holds a dot comes first. One that the caller
 * may not be told of is looked for, and missed, exactly like one that does not exist.
 */
export async function getTable(ask: Ask, name: string, maySee: MaySee = () => true): Promise<Table> {
  const answer = isPossible(name) ? await ask(byName, [name, toArray(terminations(name))]) : null;
  const [table] = readTables(answer);
  if (table && maySee(table)) return table;
  const others = JSON.parse((await ask(allNames, [])) ?? '[]') as Pick<Table, 'schema' | 'name'>[];
  const names = others.filter(maySee).map((one) => {
    return one.schema === 'public' ? one.name : `${one.schema}.${one.name}`;
  });
  throw errors.tableNotFound(name, nearestName(name, names));
}

/** By what a reference of another table names; one that is gone is missing from the result. */
export async function findTables(ask: Ask, oids: readonly number[]): Promise<Table[]> {
  return readTables(await ask(byOid, [toArray(oids.map(String))]));
}

/** For whoever keeps tables: what a failure before anything ran can mean, besides a mistake of the caller. */
export async function areUnchanged(ask: Ask, tables: readonly Table[]): Promise<boolean> {
  const found = await findTables(
    ask,
    tables.map(({ oid }) => oid),
  );
  const now = new Map(found.map((table) => [table.oid, table]));
  return tables.every((table) => {
    const present = now.get(table.oid);
    return present?.version === table.version && surroundings(present) === surroundings(table);
  });
}

/** What can change without the table's noticing: foreign keys between others, types, who may use its schema. */
function surroundings({ references, columns, grants }: Table): string {
  return JSON.stringify([references, [...columns.values()], grants]);
}

/** The state that a guard fails with. Projects can raise it too: see `isByGuard`. */
export const changedState = 'RH001';

/** What our own SQL fails with, before anything ran, once a table is another: by the guard, or for lack of what it names. */
const otherTable: ReadonlySet<string> = new Set(['42P01', '42703', '3F000']);

/** `context`: PostgreSQL's. The guard names itself; what our own SQL lacks has none, and what a project raises always has. */
export function saysOtherTable(state: string, context: string | undefined): boolean {
  return state === changedState ? isByGuard(context) : otherTable.has(state) && context === undefined;
}

export function isByGuard(context: string | undefined): boolean {
  return context?.startsWith('PL/pgSQL function rowhouse.is_unchanged(') === true;
}

/** For a table that was another at each attempt. */
export function alwaysChanging({ name }: Pick<Table, 'name'>, hint: string): RowhouseError {
  return new RowhouseError('conflict', `The table "${name}" is being changed again and again.`, {
    hint,
    details: { retryable: true },
  });
}

function isPossible(name: string): boolean {
  return name !== '' && !name.includes('\0') && Buffer.byteLength(name) <= 127;
}

/** What could be the table's own name: all of it, or what follows one of its dots. Longer than 63 bytes none can be. */
function terminations(name: string): string[] {
  const found = [name];
  for (let dot = name.indexOf('.'); dot >= 0; dot = name.indexOf('.', dot + 1))
    found.push(name.slice(dot + 1));
  return found.filter((ending) => ending !== '' && Buffer.byteLength(ending) <= 63);
}

function toArray(values: readonly string[]): string {
  return `{${values.map((value) => `"${value.replace(/["\\]/g, '\\$&')}"`).join(',')}}`;
}

type Row = {
  oid: number;
  schema: string;
  name: string;
  kind: string;
  version: string;
  hasChildren: boolean;
  updatable: number;
  grants: Table['grants'];
  exposed: { schema: string; name: string; kind: string } | null;
  columns:
    | {
        name: string;
        type: string;
        oid: number;
        notNull: boolean;
        isReadable: boolean;
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
  readsRunCode: boolean;
  changesRunCode: boolean;
  usesSequences: boolean;
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
    grants: row.grants,
    exposed: row.exposed && { ...row.exposed, kind: kinds[row.exposed.kind] ?? 'table' },
    isPlainToRead: !row.readsRunCode,
    isPlainToWrite: !row.changesRunCode,
    usesSequences: row.usesSequences || columns.some(({ identity }) => identity !== null),
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
    isReadable: row.isReadable,
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

const shapes = new Map<string, TypeShape['is']>([
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

export const plainShape: TypeShape = { is: 'plain', isArray: false, fields: [], relation: null };

function shapeOf(oid: number, types: Types): TypeShape {
  const known = builtInType(oid);
  if (known) {
    const is = shapes.get(known.name.replace(/\[\]$/, '')) ?? 'plain';
    return { is, isArray: known.kind.is === 'array', fields: [], relation: null };
  }
  const type = types.get(oid);
  if (!type) return plainShape;
  if (type.base !== 0) return shapeOf(type.base, types);
  // An array of arrays, by way of a domain, is one to PostgreSQL as well.
  if (type.element !== 0) return { ...shapeOf(type.element, types), isArray: true };
  if (type.kind !== 'c' || !type.fields) return plainShape;
  const fields = type.fields.map(({ name, oid: field }) => ({ name, shape: shapeOf(field, types) }));
  const relation = { oid: type.relation, version: type.version ?? '' };
  return { is: 'composite', isArray: false, fields, relation };
}

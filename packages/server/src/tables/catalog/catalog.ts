// Describes a table, read from PostgreSQL's catalog by one statement, as the project's own role. Every statement
// compiled from the description contains the table's version, and PostgreSQL refuses it once the version has changed
// (see migrations/project/0002_tables.sql), so a cached description can never be used stale.
import { errors, RowhouseError } from '../../errors/errors.ts';
import { builtInType, integerTypes } from '../../query/json/value-kinds.ts';
import { allNames, byName, byOid } from './catalog-queries.ts';
import { nearestName } from './nearest.ts';

export type Table = Readonly<{
  oid: number;
  schema: string;
  name: string;
  kind: 'table' | 'partitioned' | 'view' | 'materialized_view' | 'foreign';
  columns: ReadonlyMap<string, Column>;
  primaryKey: readonly string[];
  /** Columns of the unique keys that cover all rows, without the primary key. */
  uniques: readonly (readonly string[])[];
  references: readonly Reference[];
  /** Rows can also be in child tables or partitions, so neither a key nor a ctid alone identifies a row. */
  hasChildren: boolean;
  can: Readonly<{ insert: boolean; update: boolean; delete: boolean }>;
  /** The privileges of the role that read the catalog. */
  grants: Readonly<{ usage: boolean; select: boolean; insert: boolean; update: boolean; delete: boolean }>;
  /**
   * The first relation that it reads, itself included, whose rows row security does not guard; null: all are guarded.
   */
  exposed: Pick<Table, 'schema' | 'name' | 'kind'> | null;
  /** Reading, or writing, calls no code of the project and leaves no state in a session, except for sequences. */
  isPlainToRead: boolean;
  isPlainToWrite: boolean;
  /** What may run code of the project, for reads first; null: nothing. */
  code: string | null;
  /** Inserting leaves the state of sequences (currval, lastval) in the session. */
  usesSequences: boolean;
  version: string;
}>;

export type Column = Readonly<{
  name: string;
  /** As PostgreSQL writes it: `numeric(10,2)`. */
  type: string;
  typeOid: number;
  shape: TypeShape;
  /** Schemas of the operators of types that the project defined, by operator; all others are in pg_catalog. */
  operators: ReadonlyMap<string, string>;
  notNull: boolean;
  /** By the role that read the catalog. */
  isReadable: boolean;
  hasDefault: boolean;
  identity: 'always' | 'by default' | null;
  generated: 'stored' | 'virtual' | null;
  enumValues: readonly string[] | null;
}>;

/** The properties of a type that matter for JSON output and comparisons. */
export type TypeShape = Readonly<{
  is: 'plain' | 'text' | 'json' | 'jsonb' | 'tsvector' | 'big' | 'timestamp' | 'timestamptz' | 'composite';
  /** The type is an array of these. */
  isArray: boolean;
  /** Reads neither fractions nor exponents. */
  isInteger?: boolean;
  fields: readonly Readonly<{ name: string; shape: TypeShape }>[];
  /** For a composite: the relation that defines its attributes. `isTable`: its values are rows of a table or view. */
  relation: Readonly<{ oid: number; version: string; isTable: boolean }> | null;
}>;

/** A relationship to another table by foreign key; `through` is the join table of a many-to-many relationship. */
export type Reference = Readonly<{
  /** The foreign key's name. */
  name: string;
  /** Whether this table owns the foreign key. */
  isOwn: boolean;
  isToOne: boolean;
  columns: readonly string[];
  target: TableName;
  targetColumns: readonly string[];
  through: null | Readonly<{
    table: TableName;
    /** Columns of the join table that reference this table, and those that reference the target. */
    nearColumns: readonly string[];
    farColumns: readonly string[];
    farName: string;
  }>;
}>;

/** `version`: the named table's version when this was read, because a reference also describes its columns and keys. */
export type TableName = Readonly<{ oid: number; schema: string; name: string; version: string }>;

/** Whether the caller may know that a table exists. */
export type MaySee = (table: Pick<Table, 'schema' | 'name'>) => boolean;

/** Runs a statement in a session of the project and returns the first value of its first row. */
export type Ask = (query: string, parameters: string[]) => Promise<string | null>;

/**
 * `name`: a table of schema public, or `schema.table`. A table of public whose own name contains a dot takes
 * precedence. A table that the caller may not know of is handled exactly like one that does not exist.
 */
export async function getTable(ask: Ask, name: string, maySee: MaySee = () => true): Promise<Table> {
  const answer = isPossible(name) ? await ask(byName, [name, toArray(possibleNames(name))]) : null;
  const [table] = readTables(answer);
  if (table && maySee(table)) return table;
  const others = JSON.parse((await ask(allNames, [])) ?? '[]') as Pick<Table, 'schema' | 'name'>[];
  const names = others.filter(maySee).map((one) => {
    return one.schema === 'public' ? one.name : `${one.schema}.${one.name}`;
  });
  throw errors.tableNotFound(name, nearestName(name, names));
}

/** Tables by oid, as named by references of other tables. A dropped table is missing from the result. */
export async function findTables(ask: Ask, oids: readonly number[]): Promise<Table[]> {
  return readTables(await ask(byOid, [toArray(oids.map(String))]));
}

/** For caches: a failure before anything ran is either a mistake of the caller or a changed table. */
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

/** What can change without a new version of the table: foreign keys of others, types, privileges on its schema. */
function surroundings({ references, columns, grants }: Table): string {
  return JSON.stringify([references, [...columns.values()], grants]);
}

/** The SQLSTATE of a failed guard. Projects can raise it too: see `isByGuard`. */
export const changedState = 'RH001';

/** Besides the guard's: the SQLSTATEs of compiled SQL that names objects which no longer exist. */
const missingObjectStates: ReadonlySet<string> = new Set(['42P01', '42703', '3F000']);

/**
 * `context`: PostgreSQL's CONTEXT. The guard names itself there. Errors about the compiled SQL have no CONTEXT; errors
 * raised by the project's code always have one.
 */
export function meansTableChanged(state: string, context: string | undefined): boolean {
  return state === changedState
    ? isByGuard(context)
    : missingObjectStates.has(state) && context === undefined;
}

export function isByGuard(context: string | undefined): boolean {
  return context?.startsWith('PL/pgSQL function rowhouse.is_unchanged(') === true;
}

/** For a table that changed during every attempt. */
export function alwaysChanging({ name }: Pick<Table, 'name'>, hint: string): RowhouseError {
  return new RowhouseError('conflict', `The definition of the table "${name}" keeps changing.`, {
    hint,
    details: { retryable: true },
  });
}

function isPossible(name: string): boolean {
  return name !== '' && !name.includes('\0') && Buffer.byteLength(name) <= 127;
}

/** Possible table names: the whole text, or the part after one of its dots. Names have at most 63 bytes. */
function possibleNames(name: string): string[] {
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
  codeInReads: string | null;
  codeInChanges: string | null;
  usesSequences: boolean;
};

type TypeRow = {
  oid: number;
  kind: string;
  base: number;
  element: number;
  fields: { name: string; oid: number }[] | null;
  relation: number;
  isTable: boolean;
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
    isPlainToRead: row.codeInReads === null,
    isPlainToWrite: row.codeInChanges === null,
    code: row.codeInReads ?? row.codeInChanges,
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
    const name = known.name.replace(/\[\]$/, '');
    const shape = { ...plainShape, is: shapes.get(name) ?? 'plain', isArray: known.kind.is === 'array' };
    return integerTypes.has(name) ? { ...shape, isInteger: true } : shape;
  }
  const type = types.get(oid);
  if (!type) return plainShape;
  if (type.base !== 0) return shapeOf(type.base, types);
  // PostgreSQL also treats an array of a domain over an array as one array.
  if (type.element !== 0) return { ...shapeOf(type.element, types), isArray: true };
  if (type.kind !== 'c' || !type.fields) return plainShape;
  const fields = type.fields.map(({ name, oid: field }) => ({ name, shape: shapeOf(field, types) }));
  const relation = { oid: type.relation, version: type.version ?? '', isTable: type.isTable };
  return { is: 'composite', isArray: false, fields, relation };
}

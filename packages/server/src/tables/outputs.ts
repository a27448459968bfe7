// The columns of a result: what `select` names, each under a name of its own.
import { errors } from '../errors.ts';
import { type Column, plainShape, type Shape } from './catalog.ts';
import { columnSql, compileField, defaultName, id, type Scope } from './expressions.ts';
import type { Cast, Item } from './select.ts';
import { shorten } from './source.ts';

export type Output = Readonly<{
  name: string;
  sql: string;
  shape: Shape;
  /** Of a column just as it is, so that a cursor can take its value. */
  isBare: boolean;
  /** A cast to a type of the project's own runs what the project made. */
  isPlain: boolean;
  /** joined: it is not of the table itself. */
  origin?: 'joined';
}>;

const jsonShape: Shape = { ...plainShape, is: 'json' };
const textShape: Shape = { ...plainShape, is: 'text' };

export function outputsOf(scope: Scope, item: Exclude<Item, { is: 'embed' }>): Output[] {
  if (item.is === 'all') {
    return shownColumns(scope).map(({ name, shape }) => {
      return { name, sql: columnSql(scope, name), shape, isBare: true, isPlain: true };
    });
  }
  const { field, cast, alias } = item;
  const name = alias ?? defaultName(field);
  if (Buffer.byteLength(name) > 63) {
    throw refuse(`"${shorten(name)}" is longer than 63 bytes: give it another name, as in a:…`);
  }
  const { sql, column, reached } = compileField(scope, field, 'select', false);
  if (cast) return [{ name, sql: `${sql}::${castSql(cast)}`, ...castTo(cast) }];
  if (reached) {
    const shape = reached === 'text' ? textShape : jsonShape;
    return [{ name, sql, shape, isBare: false, isPlain: true }];
  }
  return [{ name, sql, shape: column.shape, isBare: true, isPlain: true }];
}

/** What the role may not read is not part of "all"; if that is everything, PostgreSQL says so. */
function shownColumns({ table }: Scope): Column[] {
  const columns = [...table.columns.values()];
  const readable = columns.filter(({ isReadable }) => isReadable);
  return readable.length > 0 ? readable : columns;
}

/** In a JSON object a second value of the same name would hide the first. */
export function refuseRepeats(names: readonly string[]): void {
  const seen = new Set<string>();
  for (const name of names) {
    if (seen.has(name))
      throw refuse(`"${shorten(name)}" comes twice: give one another name, as in a:${shorten(name)}`);
    seen.add(name);
  }
}

export function as(sql: string, name: string): string {
  return sql.endsWith(`.${id(name)}`) ? sql : `${sql} as ${id(name)}`;
}

/** Types that the grammar itself knows; every other name is looked up, and is quoted. */
const keywords = new Map<string, Shape['is']>([
  ['bigint', 'big'],
  ['bit', 'plain'],
  ['bit varying', 'plain'],
  ['boolean', 'plain'],
  ['char', 'text'],
  ['character', 'text'],
  ['character varying', 'text'],
  ['dec', 'big'],
  ['decimal', 'big'],
  ['double precision', 'plain'],
  ['float', 'plain'],
  ['int', 'plain'],
  ['integer', 'plain'],
  ['interval', 'plain'],
  ['json', 'json'],
  ['numeric', 'big'],
  ['real', 'plain'],
  ['smallint', 'plain'],
  ['time', 'plain'],
  ['time with time zone', 'plain'],
  ['time without time zone', 'plain'],
  ['timestamp', 'timestamp'],
  ['timestamp with time zone', 'timestamptz'],
  ['timestamp without time zone', 'timestamp'],
  ['varchar', 'text'],
]);

/** Those of the others that are PostgreSQL's own and may be wanted. */
const builtIn = new Map<string, Shape['is']>([
  ...[
    'bool',
    'bytea',
    'cidr',
    'date',
    'float4',
    'float8',
    'inet',
    'int2',
    'int4',
    'int4range',
    'int8range',
  ].map((name) => [name, 'plain'] as const),
  ...[
    'macaddr',
    'money',
    'name',
    'numrange',
    'oid',
    'timetz',
    'tsrange',
    'tstzrange',
    'uuid',
    'xml',
    'regclass',
  ].map((name) => [name, 'plain'] as const),
  ['int8', 'big'],
  ['jsonb', 'jsonb'],
  ['text', 'text'],
  ['timestamptz', 'timestamptz'],
  ['tsvector', 'tsvector'],
]);

function castSql({ name, isQuoted, size, dimensions }: Cast): string {
  const lower = name.replace(/\s+/g, ' ').toLowerCase();
  if (!isQuoted && lower.includes(' ') && !keywords.has(lower)) {
    throw refuse(`"${shorten(name)}" is no type; a name that holds a blank goes in double quotes`);
  }
  if (Buffer.byteLength(name) > 63) throw refuse(`"${shorten(name)}" is no type`);
  const type = isQuoted ? id(name) : keywords.has(lower) ? lower : id(lower);
  // The size of `timestamp with time zone` stands in its middle, which nobody needs here.
  if (size !== '' && lower.includes(' ') && !lower.endsWith('varying')) {
    throw refuse(`"${shorten(name)}" takes no size here`);
  }
  return `${type}${size}${'[]'.repeat(dimensions)}`;
}

function castTo({ name, isQuoted, dimensions }: Cast): Pick<Output, 'shape' | 'isBare' | 'isPlain'> {
  const lower = name.replace(/\s+/g, ' ').toLowerCase();
  const is = isQuoted ? undefined : (keywords.get(lower) ?? builtIn.get(lower));
  return {
    shape: { ...plainShape, is: is ?? 'plain', isArray: dimensions > 0 },
    isBare: false,
    isPlain: is !== undefined,
  };
}

function refuse(problem: string): Error {
  return errors.invalidRequest([{ path: 'select', problem }]);
}

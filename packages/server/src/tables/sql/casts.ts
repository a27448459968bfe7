// The types that a column in `select` can be cast to. Casts to names of catalog objects (regclass and its like) and to
// row types tell what exists, so a type is allowed because it is known to tell nothing.
import { errors } from '../../errors.ts';
import { baseTypes } from '../../query/json/built-in-types.ts';
import { plainShape, type Table, type TypeShape } from '../catalog/catalog.ts';
import { shorten } from '../request/scanner.ts';
import type { Cast } from '../request/select.ts';
import { id } from './expressions.ts';

/** Types that the grammar itself knows; every other name is looked up, and is quoted. */
const keywords = new Map<string, TypeShape['is']>([
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

const plainTypes = `bool bytea cidr date float4 float8 inet int2 int4 money name oid timetz uuid xml macaddr macaddr8
  bit varbit char time interval point line lseg box path polygon circle tsquery jsonpath
  int4range int8range numrange tsrange tstzrange daterange
  int4multirange int8multirange nummultirange tsmultirange tstzmultirange datemultirange`;

/** Those of the others that are PostgreSQL's own and tell nothing but the value. */
const builtIn = new Map<string, TypeShape['is']>([
  ...plainTypes.split(/\s+/).map((name) => [name, 'plain'] as const),
  ['bpchar', 'text'],
  ['varchar', 'text'],
  ['json', 'json'],
  ['numeric', 'big'],
  ['timestamp', 'timestamp'],
  ['int8', 'big'],
  ['jsonb', 'jsonb'],
  ['text', 'text'],
  ['timestamptz', 'timestamptz'],
  ['tsvector', 'tsvector'],
]);

const allBuiltIn = new Set(baseTypes.match(/[a-z]\w*/g));

type Known = Readonly<{ sql: string; is: TypeShape['is'] }>;

/** Undefined: none that is known to be harmless. */
function knownType({ name, isQuoted }: Cast): Known | undefined {
  const word = isQuoted ? name : lowerOf(name);
  const keyword = isQuoted ? undefined : keywords.get(word);
  if (keyword) return { sql: word, is: keyword };
  const is = builtIn.get(word);
  return is && { sql: `pg_catalog.${id(word)}`, is };
}

function lowerOf(name: string): string {
  return name.replace(/\s+/g, ' ').toLowerCase();
}

export function castSql(cast: Cast): string {
  const { name, isQuoted, size, dimensions } = cast;
  const word = isQuoted ? name : lowerOf(name);
  const known = knownType(cast);
  if (!known && !isQuoted && word.includes(' ')) {
    throw refuse(`"${shorten(name)}" is no type; a name that holds a blank goes in double quotes`);
  }
  if (Buffer.byteLength(name) > 63 || (!known && isCatalogs(word))) throw noSuchType(cast);
  // The size of `timestamp with time zone` stands in its middle, which nobody needs here.
  if (size !== '' && !isQuoted && word.includes(' ') && !word.endsWith('varying')) {
    throw refuse(`"${shorten(name)}" takes no size here`);
  }
  return `${known?.sql ?? id(word)}${size}${'[]'.repeat(dimensions)}`;
}

/** PostgreSQL's own, but not among the known ones: regclass and its like, pseudo-types, arrays of such, rows of the catalog. */
function isCatalogs(word: string): boolean {
  const element = word.replace(/^_+/, '');
  return allBuiltIn.has(element) || element.startsWith('pg_');
}

export function castShape(cast: Cast): TypeShape {
  return { ...plainShape, is: knownType(cast)?.is ?? 'plain', isArray: cast.dimensions > 0 };
}

export function isKnownType(cast: Cast): boolean {
  return knownType(cast) !== undefined;
}

/** An enum of the table's own columns, whose values its readers can see anyway. */
export function isEnumOf({ columns }: Table, { name, isQuoted, size }: Cast): boolean {
  if (size !== '') return false;
  const spelled = isQuoted ? name : lowerOf(name);
  return [...columns.values()].some(({ enumValues, isReadable, type }) => {
    const own = type.replace(/(?:\[\])+$/, '');
    return enumValues !== null && isReadable && (own === spelled || own === id(spelled));
  });
}

/** The same for every name, so that it does not tell a type that is hidden from one that does not exist. */
export function noSuchType({ name }: Cast): Error {
  return errors.invalidRequest(
    [{ path: 'select', problem: `"${shorten(name)}" is no type that a column can be cast to` }],
    "Cast to a built-in type such as text, numeric, date or jsonb, or to an enum of the table's own columns.",
  );
}

function refuse(problem: string): Error {
  return errors.invalidRequest([{ path: 'select', problem }]);
}

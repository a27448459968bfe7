// The types to which a column in `select` can be cast. Casts to names of catalog objects (such as regclass) and to row
// types reveal what exists, so this is an allow-list of types that reveal nothing.
import { errors } from '../../errors/errors.ts';
import { baseTypes } from '../../query/json/built-in-types.ts';
import { plainShape, type Table, type TypeShape } from '../catalog/catalog.ts';
import { shorten } from '../request/scanner.ts';
import type { Cast } from '../request/select.ts';
import { id } from './expressions.ts';

/** Types that are keywords of the grammar; every other name is looked up in the catalog, and is quoted. */
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

/** Built-in types that are not keywords and reveal nothing but the value. */
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

/** undefined: the type is not on the allow-list. */
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
    throw refuse(`unknown type "${shorten(name)}"; quote a name that contains a space`);
  }
  if (Buffer.byteLength(name) > 63 || (!known && isForbidden(word))) throw noSuchType(cast);
  // The size of `timestamp with time zone` belongs in the middle of the name, which is not supported.
  if (size !== '' && !isQuoted && word.includes(' ') && !word.endsWith('varying')) {
    throw refuse(`"${shorten(name)}" does not support a size here`);
  }
  return `${known?.sql ?? id(word)}${size}${'[]'.repeat(dimensions)}`;
}

/**
 * Built-in types that are not allowed: regclass and similar, pseudo-types, arrays of these, row types of the catalog.
 */
function isForbidden(word: string): boolean {
  const element = word.replace(/^_+/, '');
  return allBuiltIn.has(element) || element.startsWith('pg_');
}

export function castShape(cast: Cast): TypeShape {
  return { ...plainShape, is: knownType(cast)?.is ?? 'plain', isArray: cast.dimensions > 0 };
}

export function isKnownType(cast: Cast): boolean {
  return knownType(cast) !== undefined;
}

/** Whether the type is the enum of one of the table's columns, whose values its readers can see anyway. */
export function isEnumOf({ columns }: Table, { name, isQuoted, size }: Cast): boolean {
  if (size !== '') return false;
  const spelled = isQuoted ? name : lowerOf(name);
  return [...columns.values()].some(({ enumValues, isReadable, type }) => {
    const own = type.replace(/(?:\[\])+$/, '');
    return enumValues !== null && isReadable && (own === spelled || own === id(spelled));
  });
}

/** The same error for every name: it does not reveal whether a hidden type exists. */
export function noSuchType({ name }: Cast): Error {
  return errors.invalidRequest(
    [{ path: 'select', problem: `a column cannot be cast to "${shorten(name)}"` }],
    'Cast to a built-in type such as text, numeric, date or jsonb, or to an enum that a column of the table has.',
  );
}

function refuse(problem: string): Error {
  return errors.invalidRequest([{ path: 'select', problem }]);
}

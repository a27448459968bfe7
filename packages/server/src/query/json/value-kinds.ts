// How each PostgreSQL type becomes JSON: one rule per type, independent of the value.
import { arrayTypes, baseTypes } from './built-in-types.ts';

export type Kind =
  | {
      is:
        | 'string'
        | 'number'
        | 'big'
        | 'boolean'
        | 'json'
        | 'timestamp'
        | 'timestamptz'
        | 'record'
        | 'hstore'
        /** JSON without line breaks. */
        | 'json_line'
        /** PostgreSQL's text as a field of CSV. */
        | 'csv';
    }
  | { is: 'array'; element: Kind; delimiter: number }
  | { is: 'vector'; element: Kind }
  /** A string that we rewrite. `isList`: each part between commas can be rewritten separately, after a brace. */
  | { is: 'rewritten'; rewrite: (text: string) => string; isList?: boolean }
  | { is: 'composite'; fields: readonly { key: Buffer; kind: Kind }[] };

/** A type as results name it, and how its values are written. */
export type ValueType = {
  name: string;
  kind: Kind;
  /** It contains rows in so many levels that it is written as text. */
  isTooDeep?: true;
};

export const string: Kind = { is: 'string' };
const number: Kind = { is: 'number' };
/** bigint and numeric: numbers, or strings for languages whose numbers are doubles. */
const big: Kind = { is: 'big' };

/** All other built-in types are written as text. */
const special: Record<string, Kind> = {
  bool: { is: 'boolean' },
  int2: number,
  int4: number,
  float4: number,
  float8: number,
  int8: big,
  numeric: big,
  json: { is: 'json' },
  jsonb: { is: 'json' },
  timestamp: { is: 'timestamp' },
  timestamptz: { is: 'timestamptz' },
  record: { is: 'record' },
};

const builtIn = new Map<number, ValueType>();
for (const entry of words(baseTypes)) {
  const [oid, name = ''] = entry.split(/\s+/);
  builtIn.set(Number(oid), { name, kind: special[name] ?? string });
}
// These two are array types, but written without braces.
builtIn.set(22, { name: 'int2vector', kind: { is: 'vector', element: number } });
builtIn.set(30, { name: 'oidvector', kind: { is: 'vector', element: string } });
for (const entry of words(arrayTypes)) {
  const [oid, element, delimiter = ','] = entry.split(/\s+/);
  const of = builtIn.get(Number(element));
  if (of && !builtIn.has(Number(oid))) builtIn.set(Number(oid), arrayOf(of, delimiter));
}

/** They read neither fractions nor exponents. */
export const integerTypes: ReadonlySet<string> = new Set(['int2', 'int4', 'int8', 'oid']);

export function arrayOf({ name, kind }: ValueType, delimiter: string): ValueType {
  return { name: `${name}[]`, kind: { is: 'array', element: kind, delimiter: delimiter.charCodeAt(0) } };
}

/** Undefined for the project's own types, types of extensions and row types of catalogs, which have to be looked up. */
export function builtInType(oid: number): ValueType | undefined {
  return builtIn.get(oid);
}

function words(list: string): string[] {
  return list.trim().split(/,\s*/);
}

// Cuts long values of a page in PostgreSQL, so that neither the service nor the caller gets the rest of them.
import type { Output } from './outputs.ts';

/** By the oid of a built-in type. Others are left whole: their text could come from code of the project. */
const cuts: Readonly<Record<number, (value: string, maxChars: number) => string>> = {
  // text
  25: (value, max) => `pg_catalog.left(${value}, ${max})`,
  // varchar
  1043: (value, max) => `pg_catalog.left(${value}::pg_catalog.text, ${max})::pg_catalog.varchar`,
  // json and jsonb: a part of a document is a document only as a string.
  114: (value, max) => cutJson(value, max, 'to_json'),
  3802: (value, max) => cutJson(value, max, 'to_jsonb'),
  // bytea is written in hex.
  17: (value, max) => `pg_catalog.substring(${value}, 1, ${Math.max(1, Math.floor(max / 2))})`,
};

export function canCut({ isBare, typeOid }: Output): boolean {
  return isBare && typeOid !== undefined && typeOid in cuts;
}

/** `value`: SQL of the output, where it is used. */
export function cutSql({ typeOid }: Output, value: string, maxChars: number): string {
  return cuts[typeOid ?? 0]?.(value, maxChars) ?? value;
}

function cutJson(value: string, max: number, toJson: 'to_json' | 'to_jsonb'): string {
  const text = `${value}::pg_catalog.text`;
  const isLong = `pg_catalog.length(${text}) operator(pg_catalog.>) ${max}`;
  return `case when ${isLong} then pg_catalog.${toJson}(pg_catalog.left(${text}, ${max})) else ${value} end`;
}

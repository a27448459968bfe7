// Looks up a project's own types (enums, domains, composites, arrays of them) in its catalog when a result has one.
import type { Session } from '../../postgres/wire/session.ts';
import { arrayOf, builtInType, string, type ValueType } from '../json/value-kinds.ts';
import { queryOne } from './query-one.ts';

type TypeRow = {
  oid: number;
  name: string;
  element: number;
  delimiter: string;
  base: number;
  fields: { name: string; oid: number }[] | null;
};

/**
 * The recursive common table expression `needed (oid)`: the types that `first` selects and, in turn, their elements, base
 * types and fields from the number `lowest` on. Names are qualified, because search_path belongs to the project.
 */
export function neededTypes(first: string, lowest: number): string {
  return `
  needed (oid) as (
    ${first}
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
    where part.oid operator(pg_catalog.>=) ${lowest}
  )`;
}

const lookup = `
  with recursive ${neededTypes('select pg_catalog.unnest($1::pg_catalog.oid[])', 1)}
  select pg_catalog.json_agg(pg_catalog.json_build_object(
    'oid', type.oid::pg_catalog.int8, 'name', type.typname, 'delimiter', type.typdelim,
    'element', case when type.typsubscript operator(pg_catalog.=) 'pg_catalog.array_subscript_handler'::pg_catalog.regproc
                    then type.typelem::pg_catalog.int8 else 0 end,
    'base', type.typbasetype::pg_catalog.int8,
    'fields', case when type.typtype operator(pg_catalog.=) 'c' then (
      select pg_catalog.json_agg(pg_catalog.json_build_object('name', attribute.attname, 'oid', attribute.atttypid::pg_catalog.int8)
                      order by attribute.attnum)
      from pg_catalog.pg_attribute as attribute
      where attribute.attrelid operator(pg_catalog.=) type.typrelid and attribute.attnum operator(pg_catalog.>) 0
        and not attribute.attisdropped
    ) end))
  from needed join pg_catalog.pg_type as type on type.oid operator(pg_catalog.=) needed.oid`;

export async function lookUpTypes(
  session: Session,
  oids: readonly number[],
): Promise<Map<number, ValueType>> {
  const text = await queryOne(session, lookup, [`{${oids.join(',')}}`]);
  const rows = new Map((JSON.parse(text ?? '[]') as TypeRow[]).map((row) => [row.oid, row]));
  return new Map(oids.map((oid) => [oid, resolve(oid, rows)]));
}

/** A composite type can change under the same oid, so only results without one are cached. */
export function isStable({ kind }: ValueType): boolean {
  if (kind.is === 'array') return isStable({ name: '', kind: kind.element });
  return kind.is !== 'composite';
}

/** A type nested more deeply is written as PostgreSQL's text, because the writer recurses. */
const maxDepth = 64;

type Resolved = Map<number, ValueType | null>;

function resolve(oid: number, rows: ReadonlyMap<number, TypeRow>): ValueType {
  const name = rows.get(oid)?.name ?? 'unknown';
  return resolveWithin(oid, rows, new Map(), maxDepth) ?? { name, kind: string, isTooDeep: true };
}

/** Resolves each type once: a type that is part of many others would otherwise take unbounded time. Null if too deep. */
function resolveWithin(
  oid: number,
  rows: ReadonlyMap<number, TypeRow>,
  resolved: Resolved,
  depth: number,
): ValueType | null {
  const known = builtInType(oid) ?? resolved.get(oid);
  if (known !== undefined) return known;
  const type =
    depth === 0 ? null : assemble(rows.get(oid), (part) => resolveWithin(part, rows, resolved, depth - 1));
  resolved.set(oid, type);
  return type;
}

function assemble(row: TypeRow | undefined, partOf: (oid: number) => ValueType | null): ValueType | null {
  if (!row) return { name: 'unknown', kind: string };
  if (row.element !== 0) {
    const element = partOf(row.element);
    return element && arrayOf(element, row.delimiter);
  }
  if (row.base !== 0) {
    const base = partOf(row.base);
    return base && { name: row.name, kind: base.kind };
  }
  if (!row.fields) return { name: row.name, kind: row.name === 'hstore' ? { is: 'hstore' } : string };
  const fields = [];
  for (const [index, { name, oid }] of row.fields.entries()) {
    const part = partOf(oid);
    if (!part) return null;
    fields.push({ key: Buffer.from(`${index ? ',' : ''}${JSON.stringify(name)}:`), kind: part.kind });
  }
  return { name: row.name, kind: { is: 'composite', fields } };
}

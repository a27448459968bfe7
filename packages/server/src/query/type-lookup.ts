// Types of a project's own (enums, domains, composites, arrays of them), read from its catalog when a result has one.
import type { Session } from '../postgres/session.ts';
import { queryOne } from './query-one.ts';
import { arrayOf, builtInType, string, type ValueType } from './value-kinds.ts';

type TypeRow = {
  oid: number;
  name: string;
  element: number;
  delimiter: string;
  base: number;
  fields: { name: string; oid: number }[] | null;
};

/** Every type that is reached from those asked for. Names are qualified: search_path is the project's own business. */
const lookup = `
  with recursive needed (oid) as (
    select pg_catalog.unnest($1::pg_catalog.oid[])
    union
    select part.oid
    from needed
    join pg_catalog.pg_type as type on type.oid operator(pg_catalog.=) needed.oid
    cross join lateral (
      select type.typelem where type.typsubscript operator(pg_catalog.=) 'pg_catalog.array_subscript_handler'::pg_catalog.regproc
      union all
      select type.typbasetype where type.typtype operator(pg_catalog.=) 'd'
      union all
      select attribute.atttypid from pg_catalog.pg_attribute as attribute
      where attribute.attrelid operator(pg_catalog.=) type.typrelid and attribute.attnum operator(pg_catalog.>) 0
        and not attribute.attisdropped
    ) as part (oid)
    where part.oid operator(pg_catalog.<>) 0
  )
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

/** Composite types can change under the same number: only results without one are remembered. */
export function isStable({ kind }: ValueType): boolean {
  if (kind.is === 'array') return isStable({ name: '', kind: kind.element });
  return kind.is !== 'composite';
}

function resolve(oid: number, rows: ReadonlyMap<number, TypeRow>): ValueType {
  const known = builtInType(oid);
  const row = rows.get(oid);
  if (known) return known;
  if (!row) return { name: 'unknown', kind: string };
  if (row.element !== 0) return arrayOf(resolve(row.element, rows), row.delimiter);
  if (row.base !== 0) return { name: row.name, kind: resolve(row.base, rows).kind };
  if (row.fields) {
    const fields = row.fields.map(({ name, oid: type }, index) => ({
      key: Buffer.from(`${index ? ',' : ''}${JSON.stringify(name)}:`),
      kind: resolve(type, rows).kind,
    }));
    return { name: row.name, kind: { is: 'composite', fields } };
  }
  return { name: row.name, kind: row.name === 'hstore' ? { is: 'hstore' } : string };
}

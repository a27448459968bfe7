// Values inside embedded rows, where PostgreSQL writes the JSON. Two things differ from PostgreSQL's own output, as
// everywhere in the API: timestamps end with Z, and big numbers are strings if the request asks for it.
import type { TypeShape } from '../catalog/catalog.ts';
import { id } from './expressions.ts';

/** SQL for `value` whose JSON, as PostgreSQL writes it, is the API's format. */
export function jsonValue(value: string, shape: TypeShape, numbersAsStrings: boolean): string {
  switch (shape.is) {
    case 'big':
      if (!numbersAsStrings) return value;
      return `(${value})::pg_catalog.text${shape.isArray ? '[]' : ''}`;
    case 'timestamptz':
      return `pg_catalog.replace(pg_catalog.to_json(${value})::pg_catalog.text, '+00:00', 'Z')::pg_catalog.json`;
    case 'timestamp':
      return `pg_catalog.regexp_replace(pg_catalog.to_json(${value})::pg_catalog.text, '(T[0-9:.]+)', '\\1Z', 'g')::pg_catalog.json`;
    case 'composite':
      if (!isSpecial(shape, numbersAsStrings)) return value;
      return shape.isArray
        ? jsonArray(value, shape, numbersAsStrings)
        : jsonObject(value, shape, numbersAsStrings);
    default:
      return value;
  }
}

/** Relations whose attributes `jsonValue` lists; they can change without a new version of the table. */
export function expandedTypes(
  shape: TypeShape,
  numbersAsStrings: boolean,
): NonNullable<TypeShape['relation']>[] {
  if (!shape.relation || !isSpecial(shape, numbersAsStrings)) return [];
  return [shape.relation, ...shape.fields.flatMap((field) => expandedTypes(field.shape, numbersAsStrings))];
}

function isSpecial({ is, fields }: TypeShape, numbersAsStrings: boolean): boolean {
  if (is === 'composite') return fields.some(({ shape }) => isSpecial(shape, numbersAsStrings));
  return is === 'timestamp' || is === 'timestamptz' || (is === 'big' && numbersAsStrings);
}

/** `x is null` would also be true for a row of nulls; num_nonnulls tests the row itself. */
function jsonObject(value: string, { fields }: TypeShape, numbersAsStrings: boolean): string {
  const list = fields.map(
    ({ name, shape }) => `${jsonValue(`(${value}).${id(name)}`, shape, numbersAsStrings)} as ${id(name)}`,
  );
  return (
    `case when pg_catalog.num_nonnulls(${value}) operator(pg_catalog.=) 1 then ` +
    `(select pg_catalog.row_to_json(o) from (select ${list.join(', ')}) as o) end`
  );
}

/** Arrays of more than one dimension are left to PostgreSQL's to_json. */
function jsonArray(value: string, shape: TypeShape, numbersAsStrings: boolean): string {
  const element = jsonObject(`(${value})[i]`, shape, numbersAsStrings);
  return (
    `case when pg_catalog.array_ndims(${value}) operator(pg_catalog.=) 1 then ` +
    `(select pg_catalog.json_agg(${element} order by i) from pg_catalog.generate_subscripts(${value}, 1) as i) ` +
    `else pg_catalog.to_json(${value}) end`
  );
}

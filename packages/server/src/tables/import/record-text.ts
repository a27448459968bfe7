// Converts JSON objects to PostgreSQL's text of composite values, and arrays of them. Missing fields are null.
import { ExactNumber, toJsonText } from '../../query/json/json-text.ts';
import type { TypeShape } from '../catalog/catalog.ts';

/** `refuse` is called with a key that is not a field, and must throw. */
export function toRecordText(value: unknown, shape: TypeShape, refuse: (key: string) => never): string {
  if (typeof value === 'string' && (shape.isArray || !isJson(shape))) return value;
  if (shape.isArray && Array.isArray(value)) return arrayText(value, { ...shape, isArray: false }, refuse);
  if (typeof value !== 'object' || value === null) return toJsonText(value);
  if (value instanceof ExactNumber) return shape.isInteger ? value.whole : value.text;
  if (shape.is !== 'composite' || Array.isArray(value)) return toJsonText(value);
  for (const key of Object.keys(value)) if (!shape.fields.some(({ name }) => name === key)) refuse(key);
  const fields = shape.fields.map(({ name, shape: field }) => {
    const one = Object.hasOwn(value, name) ? (value as Record<string, unknown>)[name] : null;
    return one === null ? '' : quoted(toRecordText(one, field, refuse));
  });
  return `(${fields.join(',')})`;
}

function arrayText(values: readonly unknown[], shape: TypeShape, refuse: (key: string) => never): string {
  const elements = values.map((value) => {
    if (value === null) return 'NULL';
    return Array.isArray(value) && !isJson(shape)
      ? arrayText(value, shape, refuse)
      : quoted(toRecordText(value, shape, refuse));
  });
  return `{${elements.join(',')}}`;
}

function isJson({ is }: TypeShape): boolean {
  return is === 'json' || is === 'jsonb';
}

function quoted(text: string): string {
  return `"${text.replace(/["\\]/g, '\\$&')}"`;
}

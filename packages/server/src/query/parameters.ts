// JSON values as parameters of a statement: PostgreSQL reads them as text of the type it expects.
import { builtInType } from './value-kinds.ts';

export function needsTypes(values: readonly unknown[]): boolean {
  return values.some(Array.isArray);
}

export function toParameter(value: unknown, oid: number | undefined): string | null {
  if (value === null || value === undefined) return null;
  if (typeof value === 'string') return value;
  if (typeof value !== 'object') return String(value);
  return Array.isArray(value) && isArrayType(oid) ? toArrayText(value) : JSON.stringify(value);
}

function isArrayType(oid: number | undefined): boolean {
  if (oid === undefined) return false;
  const type = builtInType(oid);
  // Of the project's own types, only an array can make sense of an array.
  return type === undefined || type.kind.is === 'array';
}

function toArrayText(values: readonly unknown[]): string {
  const elements = values.map((value) => {
    if (value === null || value === undefined) return 'NULL';
    if (Array.isArray(value)) return toArrayText(value);
    const text = typeof value === 'object' ? JSON.stringify(value) : String(value);
    return `"${text.replace(/["\\]/g, '\\$&')}"`;
  });
  return `{${elements.join(',')}}`;
}

// JSON values as parameters of a statement: PostgreSQL reads them as text of the type it expects.
import { errors } from '../errors.ts';
import { ExactNumber, toJsonText } from './json-text.ts';
import { builtInType } from './value-kinds.ts';

export function needsTypes(values: readonly unknown[]): boolean {
  return values.some(Array.isArray);
}

export function toParameter(value: unknown, oid: number | undefined): string | null {
  if (value === null || value === undefined) return null;
  if (typeof value === 'string') return value;
  if (typeof value !== 'object') return String(value);
  if (value instanceof ExactNumber) return value.text;
  try {
    return Array.isArray(value) && isArrayType(oid) ? toArrayText(value) : toJsonText(value);
  } catch (error) {
    // Both recurse, and a body may be nested as deep as its size allows.
    if (!(error instanceof RangeError)) throw error;
    throw errors.invalidRequest([{ path: 'params', problem: 'holds a value that is nested too deeply' }]);
  }
}

function isArrayType(oid: number | undefined): boolean {
  if (oid === undefined) return false;
  const type = builtInType(oid);
  // Of the project's own types, only an array can make sense of an array.
  return type === undefined || type.kind.is === 'array';
}

/** PostgreSQL's text of an array, of any depth. */
export function toArrayText(values: readonly unknown[]): string {
  const elements = values.map((value) => {
    if (value === null || value === undefined) return 'NULL';
    if (Array.isArray(value)) return toArrayText(value);
    return quoteElement(toElementText(value));
  });
  return `{${elements.join(',')}}`;
}

/** The same for an array of json: each entry is one document, and a string is a JSON string. */
export function toJsonArrayText(values: readonly unknown[]): string {
  const elements = values.map((value) => (value === null ? 'NULL' : quoteElement(toJsonText(value))));
  return `{${elements.join(',')}}`;
}

function toElementText(value: unknown): string {
  if (typeof value !== 'object') return String(value);
  return value instanceof ExactNumber ? value.text : toJsonText(value);
}

function quoteElement(text: string): string {
  return `"${text.replace(/["\\]/g, '\\$&')}"`;
}

// Writes JSON values as the text form of a PostgreSQL array, of any depth.
import { ExactNumber, toJsonText } from './json-text.ts';

export function toArrayText(values: readonly unknown[]): string {
  return `{${values.map(toElement).join(',')}}`;
}

/** The same for an array of json: each entry is one document, so a string becomes a JSON string. */
export function toJsonArrayText(values: readonly unknown[]): string {
  return `{${values.map(toJsonElement).join(',')}}`;
}

export function toElement(value: unknown): string {
  if (value === null || value === undefined) return 'NULL';
  if (Array.isArray(value)) return toArrayText(value);
  return quoteElement(toElementText(value));
}

export function toJsonElement(value: unknown): string {
  return value === null ? 'NULL' : quoteElement(toJsonText(value));
}

function toElementText(value: unknown): string {
  if (typeof value !== 'object') return String(value);
  return value instanceof ExactNumber ? value.text : toJsonText(value);
}

function quoteElement(text: string): string {
  return `"${escapeElement(text)}"`;
}

export function escapeElement(text: string): string {
  return text.replace(/["\\]/g, '\\$&');
}

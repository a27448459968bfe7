// Writes JSON values as the text form of a PostgreSQL array, of any depth.
import { ExactNumber, toJsonText } from './json-text.ts';

/** `of`: an element of an integer type reads 1.0 as 1. */
export function toArrayText(values: readonly unknown[], of: 'any' | 'integer' = 'any'): string {
  return `{${values.map((value) => toElement(value, of)).join(',')}}`;
}

/** The same for an array of json: each entry is one document, so a string becomes a JSON string. */
export function toJsonArrayText(values: readonly unknown[]): string {
  return `{${values.map(toJsonElement).join(',')}}`;
}

export function toElement(value: unknown, of: 'any' | 'integer'): string {
  if (value === null || value === undefined) return 'NULL';
  if (Array.isArray(value)) return toArrayText(value, of);
  return quoteElement(toElementText(value, of));
}

export function toJsonElement(value: unknown): string {
  return value === null ? 'NULL' : quoteElement(toJsonText(value));
}

function toElementText(value: unknown, of: 'any' | 'integer'): string {
  if (typeof value !== 'object') return String(value);
  if (value instanceof ExactNumber) return of === 'integer' ? value.whole : value.text;
  return toJsonText(value);
}

function quoteElement(text: string): string {
  return `"${escapeElement(text)}"`;
}

export function escapeElement(text: string): string {
  return text.replace(/["\\]/g, '\\$&');
}

// A value of the API as text for people, and back. bigint and numeric come as strings (numbers=string), because a double
// would lose digits.
export type ColumnKind = 'text' | 'number' | 'boolean' | 'json' | 'array' | 'other';

/** The kind of a type as PostgreSQL names it, in short (int8) or long (bigint). */
export function kindOf(type: string): ColumnKind {
  const name = type
    .toLowerCase()
    .replace(/\(.*?\)/g, '')
    .trim();
  if (name.endsWith('[]') || name.startsWith('_')) return 'array';
  if (/^(json|jsonb)$/.test(name)) return 'json';
  if (/^(bool|boolean)$/.test(name)) return 'boolean';
  if (
    /^(int[248]|smallint|integer|bigint|numeric|decimal|real|double precision|float[48]|oid|money)$/.test(
      name,
    )
  ) {
    return 'number';
  }
  if (/^(text|varchar|character varying|bpchar|character|char|name|citext)$/.test(name)) return 'text';
  return 'other';
}

/** The whole value, as it is edited and copied. NULL is handled by the caller. */
export function textOf(value: unknown): string {
  if (typeof value === 'string') return value;
  if (value === null || value === undefined) return '';
  return JSON.stringify(value);
}

/** A json column shows strings with their quotes: "1" and 1 differ. */
export function editText(value: unknown, type: string): string {
  if (kindOf(type) === 'json') return value === null ? '' : JSON.stringify(value, null, 2);
  return textOf(value);
}

/** What a cell shows: one line, cut. The whole value is in the panel. */
export function previewOf(value: unknown, type: string): string {
  const text = kindOf(type) === 'json' && typeof value === 'string' ? JSON.stringify(value) : textOf(value);
  return text.length > previewMax ? `${text.slice(0, previewMax)}…` : text;
}
export const previewMax = 500;

export type Parsed = { value: unknown } | { problem: string };

/**
 * A typed or pasted text as a value for the API. PostgreSQL reads the text of all other types itself. `example`: another
 * value of the column. It tells a composite type, which the API writes as JSON, from a range.
 */
export function parseText(text: string, type: string, example: unknown = null): Parsed {
  switch (kindOf(type)) {
    case 'json':
      return parseJson(text);
    case 'array':
      return text.trimStart().startsWith('[') ? parseJson(text) : { value: text };
    case 'boolean':
      return parseBoolean(text);
    case 'number':
      return text.trim() === '' ? { problem: 'A number is expected.' } : { value: text.trim() };
    default: {
      const parsed = typeof example === 'object' && example !== null ? parseJson(text) : null;
      return parsed && 'value' in parsed && typeof parsed.value === 'object' ? parsed : { value: text };
    }
  }
}

function parseJson(text: string): Parsed {
  try {
    return { value: JSON.parse(text) as unknown };
  } catch {
    return { problem: 'This is not valid JSON.' };
  }
}

function parseBoolean(text: string): Parsed {
  const word = text.trim().toLowerCase();
  if (['true', 't', 'yes', 'on', '1'].includes(word)) return { value: true };
  if (['false', 'f', 'no', 'off', '0'].includes(word)) return { value: false };
  return { problem: 'true or false is expected.' };
}

// Converts a JSON value to what PostgreSQL reads for a column. A value of a simple type becomes the text of a
// parameter; arrays and composites are sent as JSON, which PostgreSQL parses itself.
import { errors } from '../../errors/errors.ts';
import { atOnce, type Slices } from '../../lib/fair-reads.ts';
import { toJsonArrayText } from '../../query/json/array-text.ts';
import { ExactNumber, toJsonText } from '../../query/json/json-text.ts';
import { isLarge } from '../../query/json/large-json.ts';
import { JsonArrayText } from '../../query/json/large-text.ts';
import { JsonParameter } from '../../query/json/parameters.ts';
import { JsonText } from '../../query/json/sent-json.ts';
import { namesOf } from '../../query/json/wide-object.ts';
import type { Column, TypeShape } from '../catalog/catalog.ts';
import { nearestName } from '../catalog/nearest.ts';
import { shorten } from '../request/scanner.ts';

/** The path of a value in the body. A function, where it is computed only for an error. */
export type Path = string | (() => string);

/** PostgreSQL's own limit. */
const maxDimensions = 6;

export function isSimple({ shape }: Column): boolean {
  return !shape.isArray && shape.is !== 'composite';
}

/** JSON null is SQL's NULL, also for json and jsonb. PostgreSQL reports values that it cannot read. */
export function toColumnText(value: unknown, column: Column, path: Path): string | JsonParameter | null {
  if (value === null || value === undefined) return null;
  const { is, isInteger } = column.shape;
  if (value instanceof JsonText) return is === 'json' ? value.text : toColumnText(value.value, column, path);
  if (is === 'json' || is === 'jsonb') return isLarge(value) ? new JsonParameter(value) : toJson(value, path);
  if (typeof value === 'string') return withoutNul(value, path);
  if (typeof value !== 'object') return String(value);
  if (value instanceof ExactNumber) return isInteger ? value.whole : value.text;
  if (isHstore(column)) return toHstoreText(value, path);
  return isLarge(value) ? new JsonParameter(value) : toJson(value, path);
}

/** The same for a value inside JSON that PostgreSQL parses. */
export function toColumnJson(value: unknown, column: Column, path: Path): unknown {
  if (value instanceof JsonText)
    return isJsonText(column) ? value.text : toColumnJson(value.value, column, path);
  if (isJsonText(column)) return value === null || value === undefined ? null : toJson(value, path);
  if (value instanceof ExactNumber) return column.shape.isInteger ? new ExactNumber(value.whole) : value;
  if (typeof value === 'string') return isJson(column.shape) ? value : withoutNul(value, path);
  if (typeof value !== 'object' || value === null) return value;
  if (isHstore(column)) return toHstoreText(value, path);
  if (isJsonArray(column.shape) && Array.isArray(value)) return orTooDeep(path, () => toJsonArrayText(value));
  atOnce(readFields(value, column.shape, path));
  return value;
}

/** The same in slices, for a large value. */
export function* toLargeColumnJson(value: unknown, column: Column, path: Path): Slices<unknown> {
  if (isJsonText(column)) return toColumnJson(value, column, path);
  if (typeof value === 'string' || isHstore(column)) return toColumnJson(value, column, path);
  if (isJsonArray(column.shape) && Array.isArray(value)) return new JsonArrayText(value);
  yield* readFields(value, column.shape, path);
  return value;
}

/** json_to_recordset gets these as text: as JSON, it would read and write them. */
export function isJsonText({ shape }: Column): boolean {
  return shape.is === 'json' && !shape.isArray;
}

/** Whether `toColumnJson` returns something other than the value for this column. */
export function isRewritten(column: Column): boolean {
  return isHstore(column) || isJsonArray(column.shape);
}

export function toJson(value: unknown, path: Path): string {
  return orTooDeep(path, () => toJsonText(value));
}

/** A body may be nested as deep as its size allows, and JSON.stringify recurses. */
function orTooDeep(path: Path, write: () => string): string {
  try {
    return write();
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw refuse(path, 'a value is nested too deeply');
  }
}

function isJson({ is, isArray }: TypeShape): boolean {
  return !isArray && (is === 'json' || is === 'jsonb');
}

/** Each entry is a JSON document. PostgreSQL would read nested arrays as further dimensions. */
function isJsonArray({ is, isArray }: TypeShape): boolean {
  return isArray && (is === 'json' || is === 'jsonb');
}

function withoutNul(text: string, path: Path): string {
  if (text.includes('\0'))
    throw refuse(path, 'must not contain a NUL character, which PostgreSQL does not support');
  return text;
}

/**
 * Refuses keys that a composite type does not have, because PostgreSQL ignores them, and writes the numbers of integer
 * types as these read them, in place.
 */
function* readFields(value: unknown, shape: TypeShape, path: Path, dimensions = 0): Slices<void> {
  if (typeof value !== 'object' || value === null || value instanceof ExactNumber) return;
  if (shape.is !== 'composite' && !(shape.isInteger && shape.isArray)) return;
  if (Array.isArray(value)) {
    // PostgreSQL refuses an array where none belongs, or one with too many dimensions.
    if (!shape.isArray || dimensions === maxDimensions) return;
    for (const [index, entry] of value.entries()) {
      if (index % entriesAtOnce === entriesAtOnce - 1) yield;
      if (entry instanceof ExactNumber && shape.isInteger) value[index] = new ExactNumber(entry.whole);
      else yield* readFields(entry, shape, path, dimensions + 1);
    }
    return;
  }
  if (shape.is !== 'composite') return;
  const fields = value as Record<string, unknown>;
  for (const name of namesOf(value)) {
    const entry = fields[name];
    const field = shape.fields.find((one) => one.name === name);
    if (!field) {
      const near = nearestName(
        name,
        shape.fields.map((one) => one.name),
      );
      const advice = near ? `; the nearest is "${near}"` : '';
      throw refuse(path, `the type has no attribute "${shorten(name)}"${advice}`);
    }
    if (entry instanceof ExactNumber && field.shape.isInteger && !field.shape.isArray)
      fields[name] = new ExactNumber(entry.whole);
    else yield* readFields(entry, field.shape, path);
  }
}

const entriesAtOnce = 1_000;

/** The type of an extension, recognized by its name, as when values are read. */
function isHstore({ type, shape }: Column): boolean {
  return shape.is === 'plain' && !shape.isArray && /^(?:.+\.)?hstore$/.test(type);
}

function toHstoreText(value: object, path: Path): string {
  if (isLarge(value)) throw refuse(path, 'is too large for a JSON object; send hstore text instead');
  const pairs = Object.entries(value).map(([key, entry]) => {
    if (entry === null) return `${quote(key, path)}=>NULL`;
    const text = typeof entry === 'string' ? entry : toJson(entry, path);
    return `${quote(key, path)}=>${quote(text, path)}`;
  });
  return pairs.join(',');
}

function quote(text: string, path: Path): string {
  return `"${withoutNul(text, path).replace(/["\\]/g, '\\$&')}"`;
}

export function refuse(path: Path, problem: string, hint?: string): Error {
  return errors.invalidRequest(
    [{ path: (typeof path === 'string' ? path : path()).slice(0, 100), problem }],
    hint,
  );
}

// Converts JSON values to parameters of a statement: text that PostgreSQL reads as the type it expects.
import { errors } from '../../errors/errors.ts';
import type { Parameter, Pieces } from '../../postgres/wire/frontend-messages.ts';
import { toArrayText } from './array-text.ts';
import { ExactNumber, toJsonText } from './json-text.ts';
import { isLarge } from './large-json.ts';
import { addArray, addJson, addText, TextPieces } from './large-text.ts';
import { builtInType, integerTypes } from './value-kinds.ts';

/** An array can be one of PostgreSQL or of JSON, and 1.0 is 1 for an integer type alone. */
export function needsTypes(values: readonly unknown[]): boolean {
  return values.some(
    (value) => Array.isArray(value) || (value instanceof ExactNumber && value.whole !== value.text),
  );
}

/** Sent to PostgreSQL as JSON, whatever type it expects. */
export class JsonParameter {
  readonly value: unknown;

  constructor(value: unknown) {
    this.value = value;
  }
}

/** Whether it has to be written in slices. */
export function isLargeParameter(value: unknown): boolean {
  return isLarge(value instanceof JsonParameter ? value.value : value);
}

/** Like `toParameter`, but lets other work run in between. */
export async function toLargeParameter(value: unknown, oid: number | undefined): Promise<Parameter> {
  if (!isLargeParameter(value)) return toParameter(value, oid);
  const out = new TextPieces();
  if (value instanceof JsonParameter) await addJson(out, value.value);
  else if (typeof value === 'string') await addText(out, value);
  else if (Array.isArray(value) && isArrayType(oid)) await addArray(out, value, elementOf(oid));
  else await addJson(out, value);
  return out.end();
}

export async function toLargeText(text: string): Promise<Pieces> {
  const out = new TextPieces();
  await addText(out, text);
  return out.end();
}

export function toParameter(value: unknown, oid: number | undefined): string | null {
  if (value === null || value === undefined) return null;
  if (typeof value === 'string') return value;
  if (typeof value !== 'object') return String(value);
  if (value instanceof ExactNumber) return mayBeInteger(oid) ? value.whole : value.text;
  if (value instanceof JsonParameter) return toJsonText(value.value);
  try {
    return Array.isArray(value) && isArrayType(oid) ? toArrayText(value, elementOf(oid)) : toJsonText(value);
  } catch (error) {
    // Both functions recurse, and a body may be nested as deep as its size allows.
    if (!(error instanceof RangeError)) throw error;
    throw errors.invalidRequest([{ path: 'params', problem: 'contains a value that is nested too deeply' }]);
  }
}

function isArrayType(oid: number | undefined): boolean {
  if (oid === undefined) return false;
  const type = builtInType(oid);
  // Among the project's own types, only array types accept an array.
  return type === undefined || type.kind.is === 'array';
}

/** A type of the project can be a domain of integers. */
function mayBeInteger(oid: number | undefined): boolean {
  const type = oid === undefined ? undefined : builtInType(oid);
  return type === undefined || integerTypes.has(type.name);
}

function elementOf(oid: number | undefined): 'any' | 'integer' {
  const type = oid === undefined ? undefined : builtInType(oid);
  return type === undefined || integerTypes.has(type.name.replace(/\[\]$/, '')) ? 'integer' : 'any';
}

// JSON without silent changes. JSON.parse rounds a number that a double cannot represent, and JSON.stringify turns NaN,
// invalid dates and undefined into null; these functions do neither.
import { misuse, RowhouseError } from './errors.ts';

/** How bigint, numeric and numbers inside json are returned: see {@link ClientOptions.numbers}. */
export type Numbers = 'number' | 'string' | 'bigint';

/**
 * A double can represent 15 digits and a two-digit exponent: for most texts, this one test is enough. A number follows a
 * bracket, a comma, a colon or white space; digits after a quote are inside a string.
 */
const suspicious = /(?:^|[[,:\s])-?\d(?:[\d.]{15}|[\d.]*[eE][-+]?\d{3})/;
/** Quotes and escapes, to recognize strings, and numbers that a double may be unable to represent. */
const tokens = /\\.|"|-?\d[\d.]{15,}(?:[eE][-+]?\d+)?|-?\d[\d.]*[eE][-+]?\d{3,}/g;

export function parseJson(text: string, numbers: Numbers): unknown {
  if (!suspicious.test(text)) return JSON.parse(text);
  const mark = newMark();
  // Parsed as an array entry, so that a bare number has a parent too.
  const holder: unknown[] = [JSON.parse(markUnsafe(text, mark))];
  unmark(holder, mark, numbers);
  return holder[0];
}

/** Writes BigInt as digits, Uint8Array as PostgreSQL's hex format, NaN and infinities as the service does. */
export function toJson(value: unknown): string {
  const mark = newMark();
  let text: string;
  try {
    text = JSON.stringify(value, function (this: Record<string, unknown>, key, given) {
      // The value before its toJSON: a Buffer has one, and that of an invalid Date returns null.
      const raw = this[key];
      if (typeof raw === 'bigint') return mark + raw;
      // JSON.stringify writes 0.
      if (Object.is(given, -0)) return `${mark}-0`;
      if (raw instanceof Uint8Array) return toHex(raw);
      // Throws for an invalid date.
      if (raw instanceof Date) return raw.toISOString();
      if (typeof given === 'number' && !Number.isFinite(given)) return String(given);
      if (given === undefined ? Array.isArray(this) : typeof given === 'function') throw missing(key);
      return given;
    });
  } catch (error) {
    throw error instanceof RowhouseError
      ? error
      : misuse(`A value cannot be sent: ${(error as Error).message}`);
  }
  return text.replace(new RegExp(`"${mark}(-?\\d+)"`, 'g'), '$1');
}

/** A value in the text format of PostgreSQL. */
export function toText(value: unknown): string {
  if (value === undefined || value === null) throw missing('of a filter', String(value));
  if (typeof value !== 'object') return String(value);
  const text = toJson(value);
  return text[0] === '"' ? JSON.parse(text) : text;
}

export function missing(name: string, what = 'undefined'): RowhouseError {
  return misuse(`The value ${name} is ${what}.`, 'Use null, and find it with is(column, null).');
}

/** Converts the bigint columns of rows from strings to BigInt, if `numbers` is "bigint". Modifies the rows. */
export function toBigInts(
  numbers: Numbers,
  rows: Record<string, unknown>[],
  columns: readonly string[],
  types: readonly string[] = [],
): void {
  if (numbers !== 'bigint') return;
  for (const [index, type] of types.entries()) {
    const column = columns[index] as string;
    if (/^int8(\[\])?$/.test(type)) for (const row of rows) row[column] = toBigInt(row[column]);
  }
}

function toBigInt(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(toBigInt);
  return typeof value === 'string' ? BigInt(value) : value;
}

/** It is random, so that no text of others begins with it. */
function newMark(): string {
  return `#${Math.random()}#`;
}

/** Valid JSON in which each number that a double cannot represent is a marked string. */
function markUnsafe(text: string, mark: string): string {
  let inString = false;
  return text.replace(tokens, (token) => {
    if (token === '"') inString = !inString;
    return inString || token < '-' || fits(token) ? token : `"${mark}${token}"`;
  });
}

/** Whether the double prints as the same number again. */
function fits(number: string): boolean {
  const value = Number(number);
  const digits = digitsOf(number);
  if (digits === digitsOf(String(value))) return true;
  // PostgreSQL writes some doubles with more digits than JavaScript does, always with an exponent.
  return (
    /e/i.test(number) && digits.length < 18 && digits === digitsOf(value.toPrecision(digits.length || 1))
  );
}

/** The digits from the first to the last that is not 0. The end is found by a loop: a pattern would take quadratic time. */
function digitsOf(number: string): string {
  const all = number
    .replace(/e.*/i, '')
    .replace(/[^\dIN]/g, '')
    .replace(/^0+/, '');
  let end = all.length;
  while (all[end - 1] === '0') end--;
  return all.slice(0, end);
}

/** In place and without recursion, because json can be nested to any depth. */
function unmark(root: object, mark: string, numbers: Numbers): void {
  const pending: [object: object, column: string][] = [[root, '']];
  for (let entry = pending.pop(); entry; entry = pending.pop()) {
    const holder = entry[0] as Record<string, unknown>;
    for (const key of Object.keys(holder)) {
      const value = holder[key];
      // For rows of a response, the error names the column, not a field of the envelope.
      const column = entry[1] || (Array.isArray(holder) || /^(rows?|results)$/.test(key) ? '' : key);
      if (typeof value === 'string' && value.startsWith(mark))
        holder[key] = exact(value.slice(mark.length), column, numbers);
      else if (value && typeof value === 'object') pending.push([value, column]);
    }
  }
}

function exact(digits: string, column: string, numbers: Numbers): string | bigint {
  if (numbers === 'number')
    throw new RowhouseError('unsafe_number', `"${column}" is ${digits}, which a number would round.`, {
      hint: "Use numbers: 'string' or 'bigint'.",
      details: { column, value: digits },
    });
  return numbers === 'bigint' && /^-?\d+$/.test(digits) ? BigInt(digits) : digits;
}

function toHex(bytes: Uint8Array): string {
  return `\\x${Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')}`;
}

// JSON text read and written without losing anything: numbers that a double cannot hold keep their digits, and half of a
// surrogate pair, which would silently become another character, is refused.
import { randomBytes } from 'node:crypto';
import { errors } from '../../errors.ts';

/** A number with more digits, or a larger exponent, than a double can hold: as it was written. */
export class ExactNumber {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }

  /** For JSON.stringify inside toJsonText, which takes the mark off again. */
  toJSON(): string {
    return mark + this.text;
  }
}

/** What JSON calls an object. A number that is kept as it was written is none, though JavaScript takes it for one. */
export function isJsonObject(value: unknown): value is Record<string, unknown> {
  return (
    typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof ExactNumber)
  );
}

/** Throws a SyntaxError as JSON.parse does; numbers that it would round come as ExactNumber, except for a bare one. */
export function parseJsonText(text: string): unknown {
  const value = readWellFormed(text);
  if (!mayHoldExact.test(text) || typeof value !== 'object' || value === null) return value;
  const marked = markExact(text);
  if (marked === null) return value;
  const exact = JSON.parse(marked);
  unmark(exact);
  return exact;
}

/** JSON.parse, and no half of a surrogate pair. */
export function readWellFormed(text: string): unknown {
  const value: unknown = JSON.parse(text);
  // Half of a surrogate pair can only come from an escape; as UTF-8 it would silently become another character.
  if (/\\u[dD][89a-fA-F]/.test(text) && !isWellFormed(value)) {
    throw errors.invalidJson('it holds half of a surrogate pair (\\ud800 to \\udfff).');
  }
  return value;
}

/** JSON.stringify, with the digits of exact numbers as they are. */
export function toJsonText(value: unknown): string {
  const text = JSON.stringify(value);
  return text.includes(mark) ? text.replace(marks, '$1') : text;
}

/** Nobody outside can know it, so no caller's string begins with it. */
const mark = `exact:${randomBytes(12).toString('hex')}:`;
const marks = new RegExp(`"${mark}(-?[0-9.]+(?:[eE][-+]?[0-9]+)?)"`, 'g');

/** Doubles hold 15 digits and two-digit exponents for certain: most bodies are done with this one look (10 ns a byte). */
const mayHoldExact = /\d(?:[\d.]{15}|[eE][-+]?\d{3})/;

/** The text with each number that a double cannot hold as a marked string; null if there is none. */
function markExact(text: string): string | null {
  const pieces: string[] = [];
  let taken = 0;
  for (let at = 0; at < text.length; ) {
    const code = text.charCodeAt(at);
    if (code === quote) {
      at = endOfString(text, at + 1);
    } else if (code === minus || isDigit(code)) {
      const end = endOfNumber(text, at + 1);
      const number = text.slice(at, end);
      if (!fitsDouble(number)) {
        pieces.push(text.slice(taken, at), `"${mark}${number}"`);
        taken = end;
      }
      at = end;
    } else at++;
  }
  return taken === 0 ? null : pieces.join('') + text.slice(taken);
}

const quote = 34;
const minus = 45;
const backslash = 92;

/** The text is valid JSON: whatever is between quotes is a string, and every string ends. */
function endOfString(text: string, start: number): number {
  for (let at = start; ; at++) {
    const code = text.charCodeAt(at);
    if (code === quote || at >= text.length) return at + 1;
    if (code === backslash) at++;
  }
}

function endOfNumber(text: string, start: number): number {
  let at = start;
  for (; at < text.length; at++) {
    const code = text.charCodeAt(at);
    // Digits, and of + - . E e only what valid JSON has here.
    if (!isDigit(code) && code !== 43 && code !== 45 && code !== 46 && code !== 69 && code !== 101) break;
  }
  return at;
}

function isDigit(code: number): boolean {
  return code >= 48 && code <= 57;
}

/** Does a double print as the same number again? */
function fitsDouble(number: string): boolean {
  if (number.length <= 15 && !/[eE]/.test(number)) return true;
  const value = Number(number);
  if (String(value) === number) return true;
  const significant = countSignificant(number);
  const size = Math.abs(value);
  return significant === 0 || (significant <= 15 && size > 1e-300 && size < 1e300);
}

/** Digits between the first and the last that is not 0. By hand: a pattern for trailing zeros takes quadratic time. */
function countSignificant(number: string): number {
  let count = 0;
  let zeros = 0;
  for (let at = 0; at < number.length; at++) {
    const code = number.charCodeAt(at);
    if (code === 69 || code === 101) break;
    if (!isDigit(code)) continue;
    if (code === 48) zeros++;
    else {
      count += (count === 0 ? 0 : zeros) + 1;
      zeros = 0;
    }
  }
  return count;
}

/** In place, and without recursion: a body may be nested as deep as its size allows. */
function unmark(root: object): void {
  const pending: object[] = [root];
  for (let holder = pending.pop(); holder; holder = pending.pop()) {
    if (Array.isArray(holder)) {
      for (const [index, value] of holder.entries()) {
        if (isMarked(value)) holder[index] = new ExactNumber(withoutMark(value));
        else if (typeof value === 'object' && value !== null) pending.push(value);
      }
      continue;
    }
    const entries = holder as Record<string, unknown>;
    for (const name of Object.keys(holder)) {
      const value = entries[name];
      // Each is a property of its own, __proto__ included.
      if (isMarked(value)) entries[name] = new ExactNumber(withoutMark(value));
      else if (typeof value === 'object' && value !== null) pending.push(value);
    }
  }
}

function isMarked(value: unknown): value is string {
  return typeof value === 'string' && value.startsWith(mark);
}

/** A copy: a slice would keep the mark in memory, which is longer than most numbers. */
function withoutMark(text: string): string {
  return Buffer.from(text.slice(mark.length), 'latin1').toString('latin1');
}

/** Without recursion, for the same reason. */
function isWellFormed(root: unknown): boolean {
  const pending: unknown[] = [root];
  while (pending.length > 0) {
    const value = pending.pop();
    if (typeof value === 'string' && !value.isWellFormed()) return false;
    if (typeof value !== 'object' || value === null) continue;
    for (const [name, entry] of Object.entries(value)) pending.push(name, entry);
  }
  return true;
}

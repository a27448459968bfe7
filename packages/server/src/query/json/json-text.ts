// Reads and writes JSON text without loss. Numbers that a double cannot hold keep their digits. Lone surrogates are
// refused, because they would silently become another character.
import { randomBytes } from 'node:crypto';
import { errors } from '../../errors/errors.ts';

/** A number that JavaScript would change, as it was written: 12345678901234567890, 0.30 or -0. */
export class ExactNumber {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }

  /** Whether only its spelling would be lost. */
  get isDouble(): boolean {
    return fitsDouble(this.text);
  }

  /** For an integer type, which reads no fraction and no exponent: 1 for 1.0. The text, if it is no whole number. */
  get whole(): string {
    const value = Number(this.text);
    return Number.isSafeInteger(value) && this.isDouble ? String(value) : this.text;
  }

  /** For JSON.stringify in toJsonText, which removes the mark again. */
  toJSON(): string {
    return mark + this.text;
  }
}

/** Whether JSON calls it an object. An ExactNumber is a number in JSON, although JavaScript calls it an object. */
export function isJsonObject(value: unknown): value is Record<string, unknown> {
  return (
    typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof ExactNumber)
  );
}

/**
 * Which numbers become ExactNumber. `value`: those that a double would round. `spelling`: also those that JavaScript
 * would write differently, for values that PostgreSQL stores: a numeric of 0.30 has two decimals, and -0 is not 0.
 */
export type Exactness = 'value' | 'spelling';

/** Like JSON.parse, but returns numbers that it would change as ExactNumber, except for a bare one. */
export function parseJsonText(text: string, keep: Exactness = 'value'): unknown {
  const value = readWellFormed(text);
  if (!mayHoldExact[keep].test(text) || typeof value !== 'object' || value === null) return value;
  const marked = markExact(text, isKept[keep]);
  if (marked === null) return value;
  const exact = JSON.parse(marked);
  unmark(exact);
  return exact;
}

/** JSON.parse that refuses lone surrogates. */
export function readWellFormed(text: string): unknown {
  const value: unknown = JSON.parse(text);
  // A lone surrogate can only come from an escape. As UTF-8 it would silently become another character.
  if (/\\u[dD][89a-fA-F]/.test(text) && !isWellFormed(value)) {
    throw errors.invalidJson('it contains an unpaired surrogate (\\ud800 to \\udfff).');
  }
  return value;
}

/** JSON.stringify that keeps the digits of exact numbers. */
export function toJsonText(value: unknown): string {
  const text = JSON.stringify(value);
  return text.includes(mark) ? text.replace(marks, '$1') : text;
}

/** Random, so no caller can send a string that begins with it. */
const mark = `exact:${randomBytes(12).toString('hex')}:`;
const marks = new RegExp(`"${mark}(-?[0-9.]+(?:[eE][-+]?[0-9]+)?)"`, 'g');

/**
 * Doubles always hold 15 digits and two-digit exponents: for most bodies this test is enough (10 ns per byte). JavaScript
 * writes the others as they are, except for zeros at the end, -0 and exponents.
 */
const mayHoldExact = {
  value: /\d(?:[\d.]{15}|[eE][-+]?\d{3})/,
  spelling: /\d[\d.]{15}|\.\d*0[\s,\]}]|-0[\s,\]}.]|0\.0{6}|[[,:\s]-?\d[\d.]*[eE]/,
};

const isKept = {
  value: (number: string) => !fitsDouble(number),
  spelling: (number: string) => String(Number(number)) !== number,
};

/** The text with each number to keep replaced by a marked string, or null if there is none. */
function markExact(text: string, isKept: (number: string) => boolean): string | null {
  const pieces: string[] = [];
  let copied = 0;
  for (let at = 0; at < text.length; ) {
    const code = text.charCodeAt(at);
    if (code === quote) {
      at = endOfString(text, at + 1);
    } else if (code === minus || isDigit(code)) {
      const end = endOfNumber(text, at + 1);
      const number = text.slice(at, end);
      if (isKept(number)) {
        pieces.push(text.slice(copied, at), `"${mark}${number}"`);
        copied = end;
      }
      at = end;
    } else at++;
  }
  return copied === 0 ? null : pieces.join('') + text.slice(copied);
}

const quote = 34;
const minus = 45;
const backslash = 92;

/** The text is valid JSON: every quote outside a string begins one, and every string ends. */
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
    // Digits and + - . E e; the text is valid JSON, so their order needs no check.
    if (!isDigit(code) && code !== 43 && code !== 45 && code !== 46 && code !== 69 && code !== 101) break;
  }
  return at;
}

function isDigit(code: number): boolean {
  return code >= 48 && code <= 57;
}

/** Whether a double prints as the same number again. */
function fitsDouble(number: string): boolean {
  if (number.length <= 15 && !/[eE]/.test(number)) return true;
  const value = Number(number);
  if (String(value) === number) return true;
  const significant = countSignificant(number);
  const size = Math.abs(value);
  return significant === 0 || (significant <= 15 && size > 1e-300 && size < 1e300);
}

/** Counts digits from the first to the last nonzero one. No pattern: one for trailing zeros takes quadratic time. */
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

/** In place and without recursion, because a body may be nested as deep as its size allows. */
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
      // JSON.parse makes own properties, even of __proto__, so this assignment is safe.
      if (isMarked(value)) entries[name] = new ExactNumber(withoutMark(value));
      else if (typeof value === 'object' && value !== null) pending.push(value);
    }
  }
}

function isMarked(value: unknown): value is string {
  return typeof value === 'string' && value.startsWith(mark);
}

/** Copies the text: a slice would keep the mark, which is longer than most numbers, in memory. */
function withoutMark(text: string): string {
  return Buffer.from(text.slice(mark.length), 'latin1').toString('latin1');
}

/** Without recursion, for the same reason as unmark. */
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

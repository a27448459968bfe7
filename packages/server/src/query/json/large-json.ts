// Parses JSON that is too large to parse at once. The text is cut between the entries of its arrays and objects.
// JSON.parse reads each slice, and other work runs between slices. The result equals that of parseJsonText for the
// whole text; a test compares the two.

import { isUtf8 } from 'node:buffer';
import { errors } from '../../errors/errors.ts';
import { turn } from '../../lib/fair-reads.ts';
import { type Exactness, parseJsonText, readWellFormed } from './json-text.ts';
import { WideObject, wideNames } from './wide-object.ts';

/** Larger texts are parsed, and written again, in slices of this size. */
export const sliceBytes = 64 * 1024;
/** More than real data needs. A limit is necessary because JSON.stringify and PostgreSQL recurse. */
export const maxDepth = 1_000;
/** More than real data needs. Writing a name takes longer than writing a value. */
const maxKeys = 100_000;
/** PostgreSQL's numeric has up to 147,455 digits. */
const maxTokenBytes = 256 * 1024;
/** Each value takes up to a hundred bytes, however short its text is. */
const maxValues = 2_000_000;

const largeValues = new WeakSet<object>();

/** Writing it takes long, too: see large-text.ts. */
export function isLarge(value: unknown): boolean {
  if (typeof value === 'string') return value.length > sliceBytes;
  return typeof value === 'object' && value !== null && largeValues.has(value);
}

/** Marks the value to be written in slices. */
export function markLarge<T extends object>(value: T): T {
  largeValues.add(value);
  return value;
}

/** `offset`: where the error is, in bytes; null if unknown. */
export class LargeSyntaxError extends Error {
  readonly offset: number | null;

  constructor(offset: number | null) {
    super('invalid JSON');
    this.offset = offset;
  }
}

/** `exact`: as in parseJsonText; null: all numbers are doubles. `onValues`: gets the count of new values; may throw. */
type ReadOptions = { exact: Exactness | null; onValues?: (more: number) => void };

export function parseLargeJson(bytes: Buffer, options: ReadOptions): Promise<unknown> {
  return new LargeJson(bytes, options).read();
}

type Run = { end: number; is: 'entries' | 'last entries' } | null;

class LargeJson {
  private readonly bytes: Buffer;
  private readonly parse: (text: string) => unknown;
  private at = 0;
  private values = 0;
  private readonly onValues: ((more: number) => void) | undefined;

  constructor(bytes: Buffer, { exact, onValues }: ReadOptions) {
    this.bytes = bytes;
    this.onValues = onValues;
    this.parse = exact ? (text) => parseJsonText(text, exact) : readWellFormed;
  }

  async read(): Promise<unknown> {
    await this.skipSpace();
    const value = await this.readValue(0);
    await this.skipSpace();
    if (this.at < this.bytes.length) throw new LargeSyntaxError(this.at);
    return value;
  }

  private async readValue(depth: number): Promise<unknown> {
    const first = this.bytes[this.at];
    if (first === openBracket || first === openBrace) return this.readContainer(first, depth + 1);
    if (first === quote) return this.readString();
    return this.readToken();
  }

  private async readContainer(open: number, depth: number): Promise<unknown> {
    if (depth > maxDepth) throw tooDeep();
    const isArray = open === openBracket;
    const list: unknown[] = [];
    const entries = new Map<string, unknown>();
    let keys = 0;
    const end = () => markLarge(isArray ? list : toObject(entries));
    this.at++;
    for (let isFirst = true; ; isFirst = false) {
      const run = this.findRun(depth);
      if (run) {
        const { at } = this;
        const isBlank = this.isBlank(at, run.end);
        if (isBlank && !(isFirst && run.is === 'last entries')) throw new LargeSyntaxError(run.end);
        const slice = isBlank ? null : this.parseSlice(isArray, at, run.end);
        this.at = run.end + 1;
        if (slice && isArray) for (const entry of slice as unknown[]) list.push(entry);
        else if (slice) keys += addAll(entries, slice as Record<string, unknown>);
        if (keys > maxKeys) throw tooManyKeys();
        if (run.is === 'last entries') {
          const close = isArray ? closeBracket : closeBrace;
          if (this.bytes[run.end] !== close) throw new LargeSyntaxError(run.end);
          return end();
        }
      } else if (isArray) {
        await this.skipSpace();
        list.push(await this.readValue(depth));
      } else {
        keys++;
        await this.readMember(entries, depth);
      }
      await turn();
      if (!run && (await this.isEnd(isArray))) return end();
    }
  }

  private async readMember(entries: Map<string, unknown>, depth: number): Promise<void> {
    await this.skipSpace();
    if (this.bytes[this.at] !== quote) throw new LargeSyntaxError(this.at);
    const name = await this.readString();
    await this.skipSpace();
    if (this.bytes[this.at] !== colon) throw new LargeSyntaxError(this.at);
    this.at++;
    await this.skipSpace();
    entries.set(name, await this.readValue(depth));
  }

  /** Called after a large entry. */
  private async isEnd(isArray: boolean): Promise<boolean> {
    await this.skipSpace();
    const byte = this.bytes[this.at];
    if (byte !== comma && byte !== (isArray ? closeBracket : closeBrace)) throw new LargeSyntaxError(this.at);
    this.at++;
    return byte !== comma;
  }

  /** The entries that are complete within the next slice; null if there are none. */
  private findRun(depth: number): Run {
    const { bytes } = this;
    const stop = Math.min(bytes.length, this.at + sliceBytes);
    const before = this.values;
    let inner = 0;
    let lastComma = -1;
    for (let at = this.at; at < stop; at++) {
      const byte = bytes[at] as number;
      if (byte === quote) {
        at = endOfString(bytes, at + 1, stop);
      } else if (byte === openBracket || byte === openBrace) {
        this.values++;
        if (depth + ++inner > maxDepth) throw tooDeep();
      } else if (byte === closeBracket || byte === closeBrace) {
        if (inner-- === 0) return this.withCount(before, { end: at, is: 'last entries' });
      } else if (byte === comma) {
        this.values++;
        if (inner === 0) lastComma = at;
      }
    }
    if (lastComma < 0 && stop === bytes.length) throw new LargeSyntaxError(stop);
    return this.withCount(before, lastComma < 0 ? null : { end: lastComma, is: 'entries' });
  }

  /** Values that are scanned twice count twice, which is on the safe side. */
  private withCount(before: number, run: Run): Run {
    if (this.values > maxValues) throw tooManyValues();
    this.onValues?.(this.values - before);
    return run;
  }

  private parseSlice(isArray: boolean, start: number, end: number): unknown {
    const [open, close] = isArray ? '[]' : '{}';
    return this.parseText(`${open}`, start, end, `${close}`);
  }

  private parseText(before: string, start: number, end: number, after: string): unknown {
    const slice = this.bytes.subarray(start, end);
    if (!isUtf8(slice)) throw errors.invalidJson('it is not valid UTF-8.');
    const text = slice.toString('utf8');
    try {
      return this.parse(before + text + after);
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
      const position = /position (\d+)/.exec(error.message)?.[1];
      if (position === undefined) throw new LargeSyntaxError(null);
      throw new LargeSyntaxError(
        start + Buffer.byteLength(text.slice(0, Math.max(0, Number(position) - before.length))),
      );
    }
  }

  /** Reads pieces that end neither within a character nor within an escape. */
  private async readString(): Promise<string> {
    const { bytes } = this;
    let text = '';
    let from = this.at + 1;
    for (;;) {
      const end = endOfPiece(bytes, from, Math.min(bytes.length, from + sliceBytes));
      text += this.parseText('"', from, end, '"') as string;
      if (end >= bytes.length) throw new LargeSyntaxError(end);
      this.at = end;
      if (bytes[end] === quote) break;
      from = end;
      await turn();
    }
    this.at++;
    return text;
  }

  /** A number, true, false or null. */
  private readToken(): unknown {
    const { bytes, at } = this;
    let end = at;
    const stop = Math.min(bytes.length, at + maxTokenBytes);
    while (end < stop && isTokenByte(bytes[end] as number)) end++;
    if (end === at || (end === stop && stop < bytes.length)) throw new LargeSyntaxError(at);
    this.at = end;
    return (this.parseText('[', at, end, ']') as unknown[])[0];
  }

  private isBlank(start: number, end: number): boolean {
    for (let at = start; at < end; at++) if (!isSpace(this.bytes[at] as number)) return false;
    return true;
  }

  private async skipSpace(): Promise<void> {
    const { bytes } = this;
    for (let stop = this.at + sliceBytes; isSpace(bytes[this.at] as number); this.at++) {
      if (this.at < stop) continue;
      stop += sliceBytes;
      await turn();
    }
  }
}

/** The position of the closing quote, or `stop`. */
function endOfString(bytes: Buffer, start: number, stop: number): number {
  for (let at = start; at < stop; at++) {
    const byte = bytes[at];
    if (byte === quote) return at;
    if (byte === backslash) at++;
  }
  return stop;
}

/** The position of the closing quote, or the first position from `stop` on where the string can be cut. */
function endOfPiece(bytes: Buffer, start: number, stop: number): number {
  let at = start;
  while (at < bytes.length && bytes[at] !== quote) {
    const isPair = isHighSurrogate(bytes, at);
    if (at >= stop && ((bytes[at] as number) & 0xc0) !== 0x80) return at;
    if (bytes[at] !== backslash) at++;
    else at += isPair ? 12 : bytes[at + 1] === letterU ? 6 : 2;
  }
  return Math.min(at, bytes.length);
}

/** \ud83d, before \ude00. */
function isHighSurrogate(bytes: Buffer, at: number): boolean {
  if (bytes[at] !== backslash || bytes[at + 1] !== letterU) return false;
  return /^\\u[dD][89abAB][\da-fA-F]{2}\\u/.test(bytes.toString('latin1', at, at + 8));
}

function addAll(entries: Map<string, unknown>, slice: Record<string, unknown>): number {
  const names = Object.keys(slice);
  for (const name of names) entries.set(name, slice[name]);
  return names.length;
}

function toObject(entries: Map<string, unknown>): object {
  // Like JSON.parse, fromEntries makes an own property even of __proto__.
  return entries.size > wideNames ? new WideObject(entries) : Object.fromEntries(entries);
}

export function isSpace(byte: number | undefined): boolean {
  return byte === 32 || byte === 10 || byte === 13 || byte === 9;
}

/** A byte that can be part of a number or of true, false and null. */
function isTokenByte(byte: number): boolean {
  return (
    (byte >= 48 && byte <= 57) ||
    (byte >= 97 && byte <= 122) ||
    byte === 43 ||
    byte === 45 ||
    byte === 46 ||
    byte === 69
  );
}

function tooDeep(): Error {
  return errors.invalidRequest([
    { path: '', problem: `the body is nested too deeply: at most ${maxDepth} levels are allowed` },
  ]);
}

function tooManyValues(): Error {
  return errors.invalidRequest([{ path: '', problem: `the body must contain at most ${maxValues} values` }]);
}

function tooManyKeys(): Error {
  return errors.invalidRequest([{ path: '', problem: `an object must have at most ${maxKeys} keys` }]);
}

const [quote, backslash, openBracket, closeBracket, openBrace, closeBrace] = [34, 92, 91, 93, 123, 125];
const [comma, colon, letterU] = [44, 58, 117];

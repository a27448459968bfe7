// Finds the text of json values in a row as it was sent: type json stores a text, with its spaces, repeated keys and
// digits, and a parsed value has lost them.
import type { Slices } from '../../lib/fair-reads.ts';
import { isSpace, maxDepth, sliceBytes } from './large-json.ts';

/** A value for a json column: as it was sent, and parsed. */
export class JsonText {
  readonly text: string;
  readonly value: unknown;

  constructor(text: string, value: unknown) {
    this.text = text;
    this.value = value;
  }
}

/**
 * Replaces the values of these columns by JsonText, in place. `bytes` is valid JSON, an object or an array of objects from
 * `start` on, and `rows` are its objects. Values that are nested too deeply stay as they are, and are refused later.
 */
export function* keepJsonTexts(
  rows: readonly unknown[],
  names: ReadonlySet<string>,
  bytes: Buffer,
  start = 0,
): Slices<void> {
  const reader = new TextReader(bytes, start);
  reader.skipSpaces();
  const isMany = bytes[reader.at] === openBracket;
  for (const row of rows) {
    if (isMany) reader.skip();
    yield* reader.readRow(row as Record<string, unknown>, names);
    reader.skipSpaces();
  }
}

class TextReader {
  at: number;
  private readonly bytes: Buffer;
  private sliceEnd: number;

  constructor(bytes: Buffer, start: number) {
    this.bytes = bytes;
    this.at = start;
    this.sliceEnd = start + sliceBytes;
  }

  skipSpaces(): void {
    while (isSpace(this.bytes[this.at])) this.at++;
  }

  /** One byte, and the spaces after it. */
  skip(): void {
    this.at++;
    this.skipSpaces();
  }

  /** From the brace to behind its counterpart. */
  *readRow(row: Record<string, unknown>, names: ReadonlySet<string>): Slices<void> {
    const { bytes } = this;
    this.skip();
    while (bytes[this.at] !== closeBrace) {
      if (bytes[this.at] === comma) this.skip();
      const keyStart = this.at;
      this.skipString();
      const key = JSON.parse(bytes.toString('utf8', keyStart, this.at)) as string;
      this.skipSpaces();
      this.skip();
      const start = this.at;
      const depth = yield* this.skipValue();
      // The last of repeated keys counts, as it does for JSON.parse.
      if (names.has(key)) {
        const value = row[key] instanceof JsonText ? (row[key] as JsonText).value : row[key];
        const isKept = value !== null && depth <= maxDepth;
        row[key] = isKept ? new JsonText(bytes.toString('utf8', start, this.at), value) : value;
      }
      this.skipSpaces();
      if (this.at > this.sliceEnd) yield* this.pause();
    }
    this.at++;
  }

  /** Returns how deep the value is nested. */
  private *skipValue(): Slices<number> {
    const { bytes } = this;
    let depth = 0;
    let deepest = 0;
    do {
      const byte = bytes[this.at];
      if (byte === quote) this.skipString();
      else {
        this.at++;
        if (byte === openBrace || byte === openBracket) deepest = Math.max(deepest, ++depth);
        else if (byte === closeBrace || byte === closeBracket) depth--;
        else if (depth === 0) while (isTokenByte(bytes[this.at])) this.at++;
      }
      if (this.at > this.sliceEnd) yield* this.pause();
    } while (depth > 0);
    return deepest;
  }

  private skipString(): void {
    const { bytes } = this;
    this.at++;
    while (bytes[this.at] !== quote) this.at += bytes[this.at] === backslash ? 2 : 1;
    this.at++;
  }

  private *pause(): Slices<void> {
    this.sliceEnd = this.at + sliceBytes;
    yield;
  }
}

/** Within a number, true, false or null. */
function isTokenByte(byte: number | undefined): boolean {
  return (
    byte !== undefined && byte !== comma && byte !== closeBrace && byte !== closeBracket && !isSpace(byte)
  );
}

const quote = 34;
const comma = 44;
const openBracket = 91;
const backslash = 92;
const closeBracket = 93;
const openBrace = 123;
const closeBrace = 125;

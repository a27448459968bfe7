// Converts ordinary JSON objects, lines or entries of an array, to COPY's text format byte by byte, without making values of
// them: five times as fast as JSON.parse and its objects. Ordinary: the keys of the first one in their order, and values that
// need no decoding. All others are declined and take the slow way (json-lines.ts, array-rows.ts).
import type { TypeShape } from '../catalog/catalog.ts';

/** `isArray` with `isJson`: an array of json. `record`: a composite, or an array of composites. */
export type ImportColumn = Readonly<{
  name: string;
  isJson: boolean;
  isArray: boolean;
  isInteger?: boolean;
  record?: TypeShape;
}>;

const [tab, newline, carriageReturn, space, quote, comma, minus, dot, zero, nine, colon] = [
  9, 10, 13, 32, 34, 44, 45, 46, 48, 57, 58,
];
const [openBracket, backslash, closeBracket, openBrace, closeBrace] = [91, 92, 93, 123, 125];
const [slash, upperE, lowerE, letterN, letterR, letterT] = [47, 69, 101, 110, 114, 116];
const pieceBytes = 64 * 1024;
/** PostgreSQL and JSON.parse recurse. Deeper values take the slow way, which limits the depth. */
const maxDepth = 100;
/** Longer numbers may have more digits than a double, and take the slow way, which keeps them. */
const maxNumberBytes = 15;
/** The characters that may follow a backslash in a string. The copier declines `\u`. */
const jsonEscapes = Buffer.from('"\\/bfnrt');

type Field = Readonly<{
  /** The key as it must be written, with its quotes. */
  key: Buffer;
  /** How a value that is neither null nor a number nor a boolean is copied. */
  is: 'text' | 'json' | 'other';
  isInteger: boolean;
}>;

export class LineCopier {
  private readonly fields: readonly Field[];
  private out = Buffer.allocUnsafeSlow(pieceBytes);
  private length = 0;
  /** Where the next byte is read. */
  private at = 0;

  /** `columns`: in the order of the keys. */
  constructor(columns: readonly ImportColumn[]) {
    this.fields = columns.map(({ name, isJson, isArray, isInteger = false, record }) => ({
      key: Buffer.from(JSON.stringify(name)),
      is: isArray || record ? 'other' : isJson ? 'json' : 'text',
      isInteger,
    }));
  }

  /** The rows since the last call: one piece, or none. */
  take(): Buffer[] {
    if (this.length === 0) return [];
    const taken = this.out.subarray(0, this.length);
    this.out = Buffer.allocUnsafeSlow(pieceBytes);
    this.length = 0;
    return [taken];
  }

  /** Whether a line of this size may not fit. If so, call `take` first. */
  isFullFor(lineBytes: number): boolean {
    return this.length > 0 && !this.hasRoom(this.mostBytes(lineBytes));
  }

  /** Every byte can become two, and every value is followed by a separator. */
  private mostBytes(lineBytes: number): number {
    return 2 * lineBytes + this.fields.length + 1;
  }

  private hasRoom(bytes: number): boolean {
    return bytes <= this.out.length - this.length;
  }

  private makeRoom(bytes: number): void {
    if (this.hasRoom(bytes)) return;
    const larger = Buffer.allocUnsafeSlow(this.length + bytes);
    this.out.copy(larger, 0, 0, this.length);
    this.out = larger;
  }

  /** Adds a row that was converted in another way. */
  addText(row: string): void {
    this.makeRoom(Buffer.byteLength(row));
    this.length += this.out.write(row, this.length, 'utf8');
  }

  /** Converts a line, which is valid UTF-8. False: declined, and nothing was written. */
  add(line: Buffer, start: number, end: number): boolean {
    this.makeRoom(this.mostBytes(end - start));
    const before = this.length;
    this.at = start;
    if (this.copyObject(line, end)) {
      this.skipSpaces(line, end);
      if (this.at === end) return true;
    }
    this.length = before;
    return false;
  }

  /**
   * Converts the object that begins at `start`, if it ends before `end`. Returns where it ends; -1: declined, and nothing was
   * written.
   */
  addObject(bytes: Buffer, start: number, end: number): number {
    this.makeRoom(this.mostBytes(end - start));
    const before = this.length;
    this.at = start;
    if (this.copyObject(bytes, end)) return this.at;
    this.length = before;
    return -1;
  }

  private copyObject(line: Buffer, end: number): boolean {
    this.skipSpaces(line, end);
    if (line[this.at++] !== openBrace) return false;
    const { fields } = this;
    for (let index = 0; index < fields.length; index++) {
      const field = fields[index] as Field;
      const { key } = field;
      if (index > 0) {
        if (line[this.at++] !== comma) return false;
        this.out[this.length++] = tab;
      }
      this.skipSpaces(line, end);
      if (!this.skipKey(line, key)) return false;
      this.skipSpaces(line, end);
      if (line[this.at++] !== colon) return false;
      this.skipSpaces(line, end);
      if (this.at >= end || !this.copyValue(line, end, field)) return false;
      this.skipSpaces(line, end);
    }
    if (this.at >= end || line[this.at++] !== closeBrace) return false;
    this.out[this.length++] = newline;
    return true;
  }

  private skipSpaces(line: Buffer, end: number): void {
    while (this.at < end && isSpace(line[this.at] as number)) this.at++;
  }

  /** It may read beyond the end. Then it goes on beyond the end, and what follows is declined. */
  private skipKey(line: Buffer, key: Buffer): boolean {
    for (let index = 0; index < key.length; index++) if (line[this.at + index] !== key[index]) return false;
    this.at += key.length;
    return true;
  }

  private copyValue(line: Buffer, end: number, { is, isInteger }: Field): boolean {
    const byte = line[this.at] as number;
    if (byte === minus || isDigit(byte)) return this.copyNumber(line, end, isInteger);
    if (byte === letterN) return this.copyWord(line, end, nullWord, nullMark);
    if (byte === letterT) return this.copyWord(line, end, trueWord, trueWord);
    if (byte === falseWord[0]) return this.copyWord(line, end, falseWord, falseWord);
    if (is === 'text') return byte === quote && this.copyString(line, end);
    const isJson = byte === quote || byte === openBrace || byte === openBracket;
    return is === 'json' && isJson && this.copyJson(line, end);
  }

  private copyWord(line: Buffer, end: number, word: Buffer, written: Buffer): boolean {
    if (this.at + word.length > end) return false;
    for (let index = 0; index < word.length; index++) if (line[this.at + index] !== word[index]) return false;
    this.at += word.length;
    for (let index = 0; index < written.length; index++) this.out[this.length++] = written[index] as number;
    return true;
  }

  /** As it is written; for an integer type, without a fraction of zeros. */
  private copyNumber(line: Buffer, end: number, isInteger: boolean): boolean {
    const { at: start, out } = this;
    let at = start + (line[start] === minus ? 1 : 0);
    const first = line[at];
    const digits = at;
    while (at < end && isDigit(line[at] as number)) at++;
    if (at === digits || (first === zero && at > digits + 1)) return false;
    let last = at;
    if (line[at] === dot && at < end) {
      const fraction = ++at;
      while (at < end && isDigit(line[at] as number)) at++;
      if (at === fraction) return false;
      last = at;
      if (isInteger) {
        while (line[last - 1] === zero) last--;
        if (line[last - 1] === dot) last--;
        else last = at;
      }
    }
    const next = line[at];
    if (at - start > maxNumberBytes || next === upperE || next === lowerE) return false;
    for (let index = start; index < last; index++) out[this.length++] = line[index] as number;
    this.at = at;
    return true;
  }

  private copyString(line: Buffer, end: number): boolean {
    const { out } = this;
    let at = this.at + 1;
    let { length } = this;
    for (; at < end; at++) {
      const byte = line[at] as number;
      if (byte === quote) {
        this.at = at + 1;
        this.length = length;
        return true;
      }
      if (byte < space) return false;
      if (byte !== backslash) {
        out[length++] = byte;
        continue;
      }
      const escaped = line[++at] as number;
      if (at >= end) return false;
      // COPY has the same escapes for these. A quote and a slash need none.
      if (escaped === backslash || escaped === letterN || escaped === letterR || escaped === letterT)
        out[length++] = backslash;
      else if (escaped !== quote && escaped !== slash) return false;
      out[length++] = escaped;
    }
    return false;
  }

  /** Copied as it is: PostgreSQL reads it. Only its end has to be found, and every backslash doubled. */
  private copyJson(line: Buffer, end: number): boolean {
    const { out } = this;
    let { at, length } = this;
    let depth = 0;
    let isInString = false;
    for (; at < end; at++) {
      const byte = line[at] as number;
      if (byte < space || (byte === backslash && !isInString)) return false;
      out[length++] = byte;
      if (isInString) {
        if (byte === quote) isInString = false;
        else if (byte === backslash) {
          const escaped = line[++at] as number;
          // A \u escape may be one that PostgreSQL refuses, such as \u0000, or half a surrogate pair.
          if (at >= end || !jsonEscapes.includes(escaped)) return false;
          out[length++] = backslash;
          if (escaped === backslash) out[length++] = backslash;
          out[length++] = escaped;
        }
      } else if (byte === quote) isInString = true;
      else if (byte === openBrace || byte === openBracket) {
        if (++depth > maxDepth) return false;
      } else if (byte === closeBrace || byte === closeBracket) depth--;
      if (depth > 0 || isInString) continue;
      this.at = at + 1;
      this.length = length;
      return true;
    }
    return false;
  }
}

function isSpace(byte: number): boolean {
  return byte === space || byte === tab || byte === carriageReturn || byte === newline;
}

function isDigit(byte: number): boolean {
  return byte >= zero && byte <= nine;
}

const [nullWord, trueWord, falseWord] = ['null', 'true', 'false'].map((word) => Buffer.from(word)) as [
  Buffer,
  Buffer,
  Buffer,
];
const nullMark = Buffer.from('\\N');

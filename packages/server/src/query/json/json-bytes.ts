// Writes JSON bytes directly from PostgreSQL's text form of a value in the socket's buffer.
import type { Kind } from './value-kinds.ts';

const [quote, backslash, openBracket, closeBracket, openBrace, closeBrace] = [34, 92, 91, 93, 123, 125];
const [comma, minus, space, zero, nine, plus] = [44, 45, 32, 48, 57, 43];
const [lineFeed, carriageReturn] = [10, 13];
const hex = Buffer.from('0123456789abcdef');
const [nullWord, trueWord, falseWord] = ['null', 'true', 'false'].map((word) => Buffer.from(word)) as [
  Buffer,
  Buffer,
  Buffer,
];

/** Responses are written into a few buffers that are used again. */
const pieceBytes = 128 * 1024;
const pieces: Buffer[] = [];
const maxIdlePieces = 64;
/** A response up to this size is copied, so that its buffer is free at once. */
const maxCopiedBytes = 32 * 1024;

function newPiece(): Buffer {
  return pieces.pop() ?? Buffer.allocUnsafeSlow(pieceBytes);
}

export function giveBack({ buffer }: Buffer): void {
  if (buffer.byteLength === pieceBytes && pieces.length < maxIdlePieces)
    pieces.push(Buffer.from(buffer as ArrayBuffer));
}

/** Longer texts are copied in pieces, so that memory is allocated for their real size and not for the worst case. */
const maxShortText = 2048;

export class JsonBytes {
  bytes: Buffer = newPiece();
  view: DataView = viewOf(this.bytes);
  length = 0;
  readonly bigAsString: boolean;

  constructor(options: { bigAsString: boolean }) {
    this.bigAsString = options.bigAsString;
  }

  /** Returns what was written so far. Once it has been sent, return the memory with `giveBack`. */
  take(): Buffer {
    const taken = this.bytes.subarray(0, this.length);
    this.bytes = newPiece();
    this.view = viewOf(this.bytes);
    this.length = 0;
    return taken;
  }

  /** Returns the last part. Nothing can be written afterwards. */
  end(): Buffer {
    const { bytes, length } = this;
    if (length > maxCopiedBytes) return bytes.subarray(0, length);
    const copy = Buffer.allocUnsafe(length);
    bytes.copy(copy, 0, 0, length);
    giveBack(bytes);
    return copy;
  }

  raw(source: Buffer): void {
    this.copy(source, 0, source.length);
  }

  /** The service's own text, without escaping. */
  text(value: string): void {
    this.ensureCapacity(value.length * 3);
    this.length += this.bytes.write(value, this.length, 'utf8');
  }

  null(): void {
    this.raw(nullWord);
  }

  value(kind: Kind, source: Buffer, start: number, end: number): void {
    switch (kind.is) {
      case 'string':
        return this.string(source, start, end);
      case 'number':
        return this.number(source, start, end);
      case 'big':
        return this.bigAsString ? this.string(source, start, end) : this.number(source, start, end);
      case 'boolean':
        return this.raw(source[start] === 116 ? trueWord : falseWord);
      case 'json':
        return this.copy(source, start, end);
      case 'json_line':
        return this.onOneLine(source, start, end);
      case 'csv':
        return this.csvField(source, start, end);
      case 'timestamp':
      case 'timestamptz':
        return this.timestamp(source, start, end, kind.is === 'timestamptz');
      case 'array':
        return this.array(kind.element, kind.delimiter, source, start, end);
      case 'vector':
        return this.vector(kind.element, source, start, end);
      case 'composite':
        return this.composite(kind.fields, source, start, end);
      case 'record':
        return this.composite(null, source, start, end);
      case 'hstore':
        return this.hstore(source, start, end);
      case 'rewritten':
        return this.text(JSON.stringify(kind.rewrite(source.toString('utf8', start, end))));
    }
  }

  string(source: Buffer, start: number, end: number): void {
    if (end - start > maxShortText) return this.longString(source, start, end);
    this.ensureCapacity((end - start) * 6 + 2);
    const bytes = this.bytes;
    let at = this.length;
    bytes[at++] = quote;
    for (let index = start; index < end; index++) {
      const byte = source[index] as number;
      if (byte >= space && byte !== quote && byte !== backslash) bytes[at++] = byte;
      else at = writeEscape(this.view, at, byte);
    }
    bytes[at++] = quote;
    this.length = at;
  }

  private longString(source: Buffer, start: number, end: number): void {
    this.byte(quote);
    this.escaped(source, start, end);
    this.byte(quote);
  }

  /** A part of a string, without quotes. */
  escaped(source: Buffer, start: number, end: number): void {
    let from = start;
    for (let index = start; index < end; index++) {
      const byte = source[index] as number;
      if (byte >= space && byte !== quote && byte !== backslash) continue;
      this.copy(source, from, index);
      this.ensureCapacity(6);
      this.length = writeEscape(this.view, this.length, byte);
      from = index + 1;
    }
    this.copy(source, from, end);
  }

  /** A line break in valid JSON is always white space: inside a string it is escaped. */
  onOneLine(source: Buffer, start: number, end: number): void {
    const from = this.length;
    this.copy(source, start, end);
    const { bytes, length } = this;
    for (let at = from; at < length; at++)
      if (bytes[at] === lineFeed || bytes[at] === carriageReturn) bytes[at] = space;
  }

  /** Quoted where COPY quotes. An empty string is quoted, because an empty field is NULL. */
  private csvField(source: Buffer, start: number, end: number): void {
    if (!needsCsvQuotes(source, start, end)) return this.copy(source, start, end);
    this.byte(quote);
    this.csvQuoted(source, start, end);
    this.byte(quote);
  }

  /** A part of a quoted field of CSV, without the quotes around it. */
  csvQuoted(source: Buffer, start: number, end: number): void {
    let from = start;
    for (let at = start; at < end; at++) {
      if (source[at] !== quote) continue;
      this.copy(source, from, at + 1);
      // The quote comes again with the next copy, and so is doubled.
      from = at;
    }
    this.copy(source, from, end);
  }

  /** PostgreSQL writes numbers as JSON does, except NaN and the infinities. */
  private number(source: Buffer, start: number, end: number): void {
    const first = source[source[start] === minus ? start + 1 : start] as number;
    if (first >= zero && first <= nine) this.copy(source, start, end);
    else this.string(source, start, end);
  }

  /** 2026-11-14 09:30:00.5+00 → "2026-11-14T09:30:00.5Z". Infinity stays unchanged, and BC stays as a suffix. */
  private timestamp(source: Buffer, start: number, end: number, zoned: boolean): void {
    // Not indexOf: without a space, as in infinity, it would search everything that follows.
    let gap = start;
    while (gap < end && source[gap] !== space) gap++;
    const isIso = gap > start && gap < end && source[gap - 3] === minus && source[gap - 6] === minus;
    if (!isIso) return this.string(source, start, end);
    const isBc = end - gap > 4 && source[end - 1] === 67 && source[end - 3] === space;
    const stop = isBc ? end - 3 : end;
    const isUtc =
      zoned && source[stop - 3] === plus && source[stop - 2] === zero && source[stop - 1] === zero;
    this.byte(quote);
    this.copy(source, start, gap);
    this.byte(84);
    this.copy(source, gap + 1, isUtc ? stop - 3 : stop);
    if (isUtc || !zoned) this.byte(90);
    if (isBc) this.copy(source, stop, end);
    this.byte(quote);
  }

  /** {1,NULL,"a \"b\""} and {{1,2},{3,4}}, optionally after [0:1]=. */
  private array(element: Kind, delimiter: number, source: Buffer, start: number, end: number): void {
    let at = source[start] === openBracket ? source.indexOf(openBrace, start) : start;
    let afterValue = false;
    for (; at < end; at++) {
      const byte = source[at] as number;
      if (byte === openBrace) {
        this.byte(openBracket);
      } else if (byte === closeBrace) {
        this.byte(closeBracket);
        afterValue = true;
      } else if (byte === delimiter) {
        this.byte(comma);
        afterValue = false;
      } else if (byte === quote) {
        const stop = quotedEnd(source, at + 1, end);
        this.unquoted(element, source, at + 1, stop);
        at = stop;
        afterValue = true;
      } else if (!afterValue) {
        let stop = at;
        while (stop < end && source[stop] !== delimiter && source[stop] !== closeBrace) stop++;
        if (stop - at === 4 && isNull(source, at)) this.null();
        else this.value(element, source, at, stop);
        at = stop - 1;
        afterValue = true;
      }
    }
  }

  /** int2vector and oidvector: 1 2 3 */
  private vector(element: Kind, source: Buffer, start: number, end: number): void {
    this.byte(openBracket);
    for (let at = start; at < end; ) {
      let stop = at;
      while (stop < end && source[stop] !== space) stop++;
      if (at > start) this.byte(comma);
      this.value(element, source, at, stop);
      at = stop + 1;
    }
    this.byte(closeBracket);
  }

  /** (1,"a b",). Without a description, as for row(…), the fields are f1, f2, … of unknown type: strings. */
  private composite(
    fields: readonly { key: Buffer; kind: Kind }[] | null,
    source: Buffer,
    start: number,
    end: number,
  ): void {
    this.byte(openBrace);
    const last = end - 1;
    let at = start + 1;
    for (let index = 0; fields ? index < fields.length : at <= last; index++) {
      const field = fields?.[index];
      if (field) this.raw(field.key);
      else this.raw(Buffer.from(`${index ? ',' : ''}"f${index + 1}":`));
      if (at >= last || source[at] === comma) {
        this.null();
      } else if (source[at] === quote) {
        const stop = quotedEnd(source, at + 1, end);
        this.unquoted(field?.kind ?? { is: 'string' }, source, at + 1, stop);
        at = stop + 1;
      } else {
        let stop = at;
        while (stop < last && source[stop] !== comma) stop++;
        this.value(field?.kind ?? { is: 'string' }, source, at, stop);
        at = stop;
      }
      at++;
    }
    this.byte(closeBrace);
  }

  /** "a"=>"1", "b"=>NULL */
  private hstore(source: Buffer, start: number, end: number): void {
    const text: Kind = { is: 'string' };
    this.byte(openBrace);
    for (let at = start; at < end; ) {
      if (at > start) this.byte(comma);
      const keyEnd = quotedEnd(source, at + 1, end);
      this.unquoted(text, source, at + 1, keyEnd);
      this.byte(58);
      at = keyEnd + 3;
      if (source[at] === quote) {
        const stop = quotedEnd(source, at + 1, end);
        this.unquoted(text, source, at + 1, stop);
        at = stop + 1;
      } else {
        this.null();
        at += 4;
      }
      at += 2;
    }
    this.byte(closeBrace);
  }

  /** Text between quotes. Its escapes (\x, "") are removed first. */
  private unquoted(kind: Kind, source: Buffer, start: number, end: number): void {
    let index = start;
    while (index < end && source[index] !== backslash && source[index] !== quote) index++;
    if (index === end) return this.value(kind, source, start, end);
    const plain = Buffer.allocUnsafe(end - start);
    let length = 0;
    for (index = start; index < end; index++) {
      if (source[index] === backslash || source[index] === quote) index++;
      plain[length++] = source[index] as number;
    }
    this.value(kind, plain, 0, length);
  }

  byte(value: number): void {
    this.ensureCapacity(1);
    this.bytes[this.length++] = value;
  }

  copy(source: Buffer, start: number, end: number): void {
    const size = end - start;
    this.ensureCapacity(size);
    if (size < 32) {
      const bytes = this.bytes;
      let at = this.length;
      for (let index = start; index < end; index++) bytes[at++] = source[index] as number;
      this.length = at;
      return;
    }
    source.copy(this.bytes, this.length, start, end);
    this.length += size;
  }

  /** Ensures that `size` more bytes can be written. */
  ensureCapacity(size: number): void {
    if (this.length + size <= this.bytes.length) return;
    const larger = Buffer.allocUnsafe(Math.max(this.bytes.length * 4, this.length + size));
    this.bytes.copy(larger, 0, 0, this.length);
    this.bytes = larger;
    this.view = viewOf(larger);
  }
}

function needsCsvQuotes(source: Buffer, start: number, end: number): boolean {
  if (end === start) return true;
  for (let at = start; at < end; at++) {
    const byte = source[at] as number;
    if (byte === comma || byte === quote || byte === lineFeed || byte === carriageReturn) return true;
  }
  return false;
}

function viewOf({ buffer, byteOffset, length }: Buffer): DataView {
  return new DataView(buffer, byteOffset, length);
}

export function writeEscape(out: DataView, at: number, byte: number): number {
  out.setUint8(at, backslash);
  const short = byte === quote || byte === backslash ? byte : shortEscapes[byte];
  if (short !== undefined) {
    out.setUint8(at + 1, short);
    return at + 2;
  }
  out.setUint8(at + 1, 117);
  out.setUint8(at + 2, zero);
  out.setUint8(at + 3, zero);
  out.setUint8(at + 4, hex[byte >> 4] as number);
  out.setUint8(at + 5, hex[byte & 15] as number);
  return at + 6;
}

const shortEscapes: Record<number, number> = { 8: 98, 9: 116, 10: 110, 12: 102, 13: 114 };

/** The position of the closing quote. A doubled or escaped quote does not close. */
function quotedEnd(source: Buffer, start: number, end: number): number {
  let at = start;
  for (; at < end; at++) {
    if (source[at] === backslash) at++;
    else if (source[at] === quote) {
      if (source[at + 1] !== quote) return at;
      at++;
    }
  }
  return at;
}

export function isNull(source: Buffer, at: number): boolean {
  return source.toString('latin1', at, at + 4).toUpperCase() === 'NULL';
}

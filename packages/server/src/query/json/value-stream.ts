// Writes a value that is too large to buffer: its bytes arrive in pieces, and the JSON of each piece is written at once.
// The result equals that of JsonBytes.value for the whole value; a test compares the two.
import { errors } from '../../errors/errors.ts';
import { isNull, type JsonBytes } from './json-bytes.ts';
import { NestedStream, type ValueStream } from './nested-stream.ts';
import { type Kind, string } from './value-kinds.ts';

export type { ValueStream };

export function streamValue(kind: Kind, json: JsonBytes): ValueStream {
  switch (kind.is) {
    case 'string':
      return new StringStream(json);
    case 'number':
      return new NumberStream(json);
    case 'big':
      return json.bigAsString ? new StringStream(json) : new NumberStream(json);
    case 'json':
      return new RawStream(json);
    case 'json_line':
      return new JsonLineStream(json);
    case 'csv':
      return new CsvStream(json);
    case 'array':
      return new ArrayStream(kind.element, kind.delimiter, json);
    case 'vector':
      return new VectorStream(kind.element, json);
    case 'composite':
      return new CompositeStream(kind.fields, json);
    case 'record':
      return new CompositeStream(null, json);
    case 'hstore':
      return new HstoreStream(json);
    case 'rewritten':
      return kind.isList ? new ListStream(kind.rewrite, json) : new ShortStream(kind, json);
    default:
      return new ShortStream(kind, json);
  }
}

class StringStream implements ValueStream {
  private readonly json: JsonBytes;

  constructor(json: JsonBytes) {
    this.json = json;
    json.byte(quote);
  }

  push(source: Buffer, start: number, end: number): void {
    this.json.escaped(source, start, end);
  }

  end(): void {
    this.json.byte(quote);
  }
}

class RawStream implements ValueStream {
  protected readonly json: JsonBytes;

  constructor(json: JsonBytes) {
    this.json = json;
  }

  push(source: Buffer, start: number, end: number): void {
    this.json.copy(source, start, end);
  }

  end(): void {}
}

class JsonLineStream extends RawStream {
  override push(source: Buffer, start: number, end: number): void {
    this.json.onOneLine(source, start, end);
  }
}

/** Always quoted: whether it has to be is only known at its end. */
class CsvStream extends RawStream {
  constructor(json: JsonBytes) {
    super(json);
    json.byte(quote);
  }

  override push(source: Buffer, start: number, end: number): void {
    this.json.csvQuoted(source, start, end);
  }

  override end(): void {
    this.json.byte(quote);
  }
}

/** Buffers the first bytes to distinguish a number from NaN and the infinities, which are short. */
class NumberStream extends RawStream {
  private first: Buffer | null = noBytes;

  override push(source: Buffer, start: number, end: number): void {
    if (this.first === null) return super.push(source, start, end);
    this.first = Buffer.concat([this.first, source.subarray(start, end)]);
    if (this.first.length <= maxWordBytes) return;
    const { first } = this;
    this.first = null;
    super.push(first, 0, first.length);
  }

  override end(): void {
    if (this.first) this.json.value(number, this.first, 0, this.first.length);
  }
}

/** Values whose text is always short: buffered whole. */
class ShortStream implements ValueStream {
  private readonly kind: Kind;
  private readonly json: JsonBytes;
  private bytes: Buffer = noBytes;

  constructor(kind: Kind, json: JsonBytes) {
    this.kind = kind;
    this.json = json;
  }

  push(source: Buffer, start: number, end: number): void {
    this.bytes = Buffer.concat([this.bytes, source.subarray(start, end)]);
    if (this.bytes.length > maxShortBytes)
      throw errors.resultTooLarge(`A timestamp or interval is larger than ${maxShortBytes} bytes.`);
  }

  end(): void {
    this.json.value(this.kind, this.bytes, 0, this.bytes.length);
  }
}

/** A list whose elements are rewritten one by one, written as one string. */
class ListStream implements ValueStream {
  private readonly rewrite: (text: string) => string;
  private readonly json: JsonBytes;
  private rest = '';
  private isFirst = true;

  constructor(rewrite: (text: string) => string, json: JsonBytes) {
    this.rewrite = rewrite;
    this.json = json;
    json.byte(quote);
  }

  push(source: Buffer, start: number, end: number): void {
    const text = this.rest + source.toString('utf8', start, end);
    const cut = text.lastIndexOf(',') + 1;
    this.rest = text.slice(cut);
    if (this.rest.length > maxShortBytes)
      throw errors.resultTooLarge(`An array element is larger than ${maxShortBytes} bytes.`);
    if (cut > 0) this.write(text.slice(0, cut));
  }

  end(): void {
    this.write(this.rest);
    this.json.byte(quote);
  }

  /** `rewrite` expects a brace, which only the first piece has. */
  private write(text: string): void {
    const rewritten = this.isFirst ? this.rewrite(text) : this.rewrite(`{${text}`).slice(1);
    this.isFirst = false;
    const bytes = Buffer.from(rewritten);
    this.json.escaped(bytes, 0, bytes.length);
  }
}

/** int2vector and oidvector: 1 2 3 */
class VectorStream implements ValueStream {
  private readonly element: Kind;
  private readonly json: JsonBytes;
  private current: ValueStream | null = null;

  constructor(element: Kind, json: JsonBytes) {
    this.element = element;
    this.json = json;
    json.byte(openBracket);
  }

  push(source: Buffer, start: number, end: number): void {
    for (let at = start; at < end; ) {
      let stop = at;
      while (stop < end && source[stop] !== space) stop++;
      this.current ??= streamValue(this.element, this.json);
      this.current.push(source, at, stop);
      if (stop < end) {
        this.current.end();
        this.current = null;
        this.json.byte(comma);
      }
      at = stop + 1;
    }
  }

  end(): void {
    this.current?.end();
    this.json.byte(closeBracket);
  }
}

/** {1,NULL,"a \"b\""} and {{1,2},{3,4}}, optionally after [0:1]=. */
class ArrayStream extends NestedStream {
  private readonly element: Kind;
  private readonly delimiter: number;
  private hasBegun = false;

  constructor(element: Kind, delimiter: number, json: JsonBytes) {
    super(json);
    this.element = element;
    this.delimiter = delimiter;
  }

  protected between(byte: number): boolean {
    if (!this.hasBegun && byte !== openBrace) return false;
    this.hasBegun = true;
    if (byte === openBrace) this.json.byte(openBracket);
    else if (byte === closeBrace) this.json.byte(closeBracket);
    else if (byte === this.delimiter) this.json.byte(comma);
    else return true;
    return false;
  }

  protected endOfBare(source: Buffer, start: number, end: number): number {
    let at = start;
    while (at < end && source[at] !== this.delimiter && source[at] !== closeBrace) at++;
    return at;
  }

  protected begin(isQuoted: boolean): ValueStream {
    return isQuoted ? streamValue(this.element, this.json) : new NullableStream(this.element, this.json);
  }

  protected override whole(source: Buffer, start: number, end: number): void {
    writeBare(this.element, this.json, source, start, end);
  }
}

/** An unquoted element, which may be NULL. */
class NullableStream implements ValueStream {
  private readonly kind: Kind;
  private readonly json: JsonBytes;
  private first: Buffer = noBytes;
  private inner: ValueStream | null = null;

  constructor(kind: Kind, json: JsonBytes) {
    this.kind = kind;
    this.json = json;
  }

  push(source: Buffer, start: number, end: number): void {
    if (this.inner) return this.inner.push(source, start, end);
    this.first = Buffer.concat([this.first, source.subarray(start, end)]);
    if (this.first.length <= maxWordBytes) return;
    this.inner = streamValue(this.kind, this.json);
    this.inner.push(this.first, 0, this.first.length);
  }

  end(): void {
    if (this.inner) this.inner.end();
    else writeBare(this.kind, this.json, this.first, 0, this.first.length);
  }
}

/** (1,"a b",). Without a description the fields are f1, f2, … and strings. */
class CompositeStream extends NestedStream {
  private readonly fields: readonly { key: Buffer; kind: Kind }[] | null;
  private index = -1;
  /** The field at `index` has a value. */
  private hasValue = false;

  constructor(fields: readonly { key: Buffer; kind: Kind }[] | null, json: JsonBytes) {
    super(json);
    this.fields = fields;
    json.byte(openBrace);
  }

  protected between(byte: number): boolean {
    if (this.index < 0 || byte === comma || byte === closeParenthesis) {
      if (this.index >= 0 && !this.hasValue) this.writeNull();
      this.hasValue = false;
      this.index++;
      return false;
    }
    return true;
  }

  protected endOfBare(source: Buffer, start: number, end: number): number {
    let at = start;
    while (at < end && source[at] !== comma && source[at] !== closeParenthesis) at++;
    return at;
  }

  protected begin(): ValueStream {
    this.hasValue = true;
    if (!this.writeKey()) return discard;
    return streamValue(this.fields?.[this.index]?.kind ?? string, this.json);
  }

  override end(): void {
    super.end();
    // Fields that were just added to the type.
    for (; this.fields && this.index < this.fields.length; this.index++) this.writeNull();
    this.json.byte(closeBrace);
  }

  /** Returns false for a field that the type no longer has. */
  private writeKey(): boolean {
    const { fields, index, json } = this;
    const field = fields?.[index];
    if (field) json.raw(field.key);
    else if (!fields) json.text(`${index ? ',' : ''}"f${index + 1}":`);
    return field !== undefined || !fields;
  }

  private writeNull(): void {
    if (this.writeKey()) this.json.null();
  }
}

/** "a"=>"1", "b"=>NULL */
class HstoreStream extends NestedStream {
  constructor(json: JsonBytes) {
    super(json);
    json.byte(openBrace);
  }

  protected between(byte: number): boolean {
    if (byte === equals) this.json.byte(colon);
    else if (byte === comma) this.json.byte(comma);
    else return byte !== space && byte !== greater;
    return false;
  }

  /** Only NULL is unquoted. */
  protected endOfBare(source: Buffer, start: number, end: number): number {
    let at = start;
    while (at < end && source[at] !== comma) at++;
    return at;
  }

  protected begin(isQuoted: boolean): ValueStream {
    if (isQuoted) return streamValue(string, this.json);
    this.json.null();
    return discard;
  }

  override end(): void {
    super.end();
    this.json.byte(closeBrace);
  }
}

const noBytes = Buffer.alloc(0);
const discard: ValueStream = { push: () => {}, end: () => {} };

function writeBare(kind: Kind, json: JsonBytes, source: Buffer, start: number, end: number): void {
  if (end - start === 4 && isNull(source, start)) json.null();
  else json.value(kind, source, start, end);
}

const number: Kind = { is: 'number' };
/** -Infinity */
const maxWordBytes = 9;
const maxShortBytes = 1024;
const [quote, openBracket, closeBracket, openBrace, closeBrace] = [34, 91, 93, 123, 125];
const [comma, space, closeParenthesis, equals, greater, colon] = [44, 32, 41, 61, 62, 58];

// Row writers, compiled once for each row description: the JSON of the row's keys and how to write each value.
import { type JsonBytes, writeEscape } from './json-bytes.ts';
import { builtInType, type Kind, string, type ValueType } from './value-kinds.ts';

export type Column = {
  /** Unique within the result. */
  name: string;
  oid: number;
  /** As PostgreSQL describes it. */
  given: { name: string; table: number; attribute: number; size: number; modifier: number };
};
export type RowWriter = (row: Buffer, start: number, end: number, json: JsonBytes) => void;
/** The JSON before each value, and how to write the value. */
export type RowPlan = Readonly<{
  keys: readonly Buffer[];
  kinds: readonly Kind[];
  open: number;
  close: number;
  /** CSV: rows have no braces, and NULL is nothing. */
  isBare?: boolean;
}>;

/** Columns in result order. A repeated name gets _2, _3. */
export function readColumns(bytes: Buffer, start: number): Column[] {
  const count = bytes.readUInt16BE(start);
  const used = new Set<string>();
  const columns: Column[] = [];
  let at = start + 2;
  for (let index = 0; index < count; index++) {
    const stop = bytes.indexOf(0, at);
    const name = bytes.toString('utf8', at, stop);
    const given = {
      name,
      table: bytes.readUInt32BE(stop + 1),
      attribute: bytes.readInt16BE(stop + 5),
      size: bytes.readInt16BE(stop + 11),
      modifier: bytes.readInt32BE(stop + 13),
    };
    columns.push({ name, oid: bytes.readUInt32BE(stop + 7), given });
    at = stop + 19;
  }
  const given = new Set(columns.map(({ name }) => name));
  return columns.map((column) => {
    const { name } = column;
    let unique = name;
    // Skips a suffixed name that is the name of another column.
    for (let n = 2; used.has(unique); n++) {
      const next = `${name}_${n}`;
      unique = given.has(next) && !used.has(next) ? name : next;
    }
    used.add(unique);
    return { ...column, name: unique };
  });
}

export function unknownTypes(columns: readonly Column[]): number[] {
  return [...new Set(columns.map(({ oid }) => oid).filter((oid) => !builtInType(oid)))];
}

/** A type without an entry, because it was just dropped, is written as text. */
export function typesOf(columns: readonly Column[], lookedUp: ReadonlyMap<number, ValueType>): ValueType[] {
  return columns.map(({ oid }) => builtInType(oid) ?? lookedUp.get(oid) ?? { name: 'unknown', kind: string });
}

/** For rows up to this size, capacity is ensured once, and no function is called for each value. */
const smallRow = 16_384;

/** Plans rows as objects or as arrays. */
export function planRows(
  columns: readonly Column[],
  types: readonly Pick<ValueType, 'kind'>[],
  asArrays = false,
): RowPlan {
  const [open, close] = asArrays ? [openBracket, closeBracket] : [openBrace, closeBrace];
  const keys = columns.map(({ name }, index) => {
    const before = index ? ',' : String.fromCharCode(open);
    return Buffer.from(asArrays ? before : `${before}${JSON.stringify(name)}:`);
  });
  return { keys, kinds: types.map(({ kind }) => kind), open, close };
}

export function compileRowWriter({ keys, kinds, open, close }: RowPlan): RowWriter {
  const count = keys.length;

  const writeAny: RowWriter = (row, start, _end, json) => {
    if (count === 0) json.byte(open);
    let at = start + 2;
    for (let index = 0; index < count; index++) {
      json.raw(keys[index] as Buffer);
      const size = row.readInt32BE(at);
      at += 4;
      if (size < 0) {
        json.null();
        continue;
      }
      json.value(kinds[index] as Kind, row, at, at + size);
      at += size;
    }
    json.byte(close);
  };
  if (count === 0) return writeAny;

  // All keys in one array of four-byte words. A key may be written up to three bytes too long; the value overwrites them.
  const words = keys.map(toWords);
  const firsts = keys.map((_, index) => words.slice(0, index).reduce((sum, { length }) => sum + length, 0));
  const keyWords = Int32Array.from(words.flatMap((list) => [...list]));
  const keySizes = keys.map(({ length }) => length);
  const keyBytes = keyWords.length * 4;
  const encodings = Uint8Array.from(kinds, ({ is }) => encodingOf[is] ?? other);

  return (row, start, end, json) => {
    const base = row.byteOffset;
    // Reading four bytes at a time may read up to three bytes past the row's end.
    if (end - start > smallRow || base + end + 4 > row.buffer.byteLength)
      return writeAny(row, start, end, json);
    const source = viewOf(row.buffer);
    // At worst, a byte becomes six (\u0001), a NULL without bytes becomes four, and words run over by three bytes.
    const capacity = keyBytes + (end - start) * 6 + count * 8 + 16;
    json.ensureCapacity(capacity);
    let out = json.view;
    let at = json.length;
    let from = base + start + 2;
    for (let index = 0; index < count; index++) {
      let word = firsts[index] as number;
      const keyEnd = at + (keySizes[index] as number);
      for (; at < keyEnd; at += 4) out.setInt32(at, keyWords[word++] as number);
      at = keyEnd;
      const size = source.getInt32(from);
      from += 4;
      if (size < 0) {
        out.setInt32(at, nullWord);
        at += 4;
        continue;
      }
      const to = from + size;
      let encoding = encodings[index] as number;
      const first = source.getUint8(from);
      if (encoding === big) encoding = json.bigAsString ? text : digits;
      if (encoding === text) {
        out.setUint8(at++, quote);
        at = writeText(out, at, source, from, to);
        out.setUint8(at++, quote);
      } else if (encoding === asIs || (encoding === digits && first >= 48 && first <= 57)) {
        for (let n = from; n < to; n += 4, at += 4) out.setInt32(at, source.getInt32(n));
        at -= -size & 3;
      } else if (encoding === bool) {
        out.setInt32(at, first === 116 ? trueWord : falsWord);
        at += 4;
        if (first !== 116) out.setUint8(at++, 101);
      } else if (
        encoding === utcTime &&
        size >= 22 &&
        source.getUint8(from + 10) === 32 &&
        (source.getInt32(to - 4) & 0xffffff) === utcWord
      ) {
        out.setUint8(at++, quote);
        for (let n = 0; n < size - 3; n += 4) out.setInt32(at + n, source.getInt32(from + n));
        out.setUint8(at + 10, 84);
        at += size - 3;
        out.setUint8(at++, 90);
        out.setUint8(at++, quote);
      } else {
        // Rare kinds may need more capacity, and then the buffer is replaced.
        json.length = at;
        json.value(kinds[index] as Kind, row, from - base, to - base);
        json.ensureCapacity(capacity);
        out = json.view;
        at = json.length;
      }
      from = to;
    }
    out.setUint8(at++, close);
    json.length = at;
  };
}

const [quote, backslash, openBracket, closeBracket, openBrace, closeBrace] = [34, 92, 91, 93, 123, 125];
/** How values are written. Numbers, because they are compared for every value. */
const [other, text, digits, big, bool, asIs, utcTime] = [0, 1, 2, 3, 4, 5, 6];
const encodingOf: Partial<Record<Kind['is'], number>> = {
  string: text,
  number: digits,
  big,
  boolean: bool,
  json: asIs,
  timestamptz: utcTime,
};
const [nullWord, trueWord, falsWord] = ['null', 'true', 'fals'].map((word) =>
  Buffer.from(word).readInt32BE(0),
) as [number, number, number];
/** The bytes of +00, without the byte before them. */
const utcWord = 0x2b3030;

/** Four bytes at a time while none of them needs an escape. */
function writeText(out: DataView, start: number, source: DataView, from: number, to: number): number {
  let at = start;
  let n = from;
  while (n < to) {
    for (; n + 3 < to; n += 4, at += 4) {
      const word = source.getInt32(n);
      const quotes = word ^ 0x22222222;
      const slashes = word ^ 0x5c5c5c5c;
      // The highest bit of a byte is set if it is below a space, a quote or a backslash (sometimes falsely, by a carry).
      const low = ((word - 0x20202020) | 0) & ~word;
      const quoted = ((quotes - 0x01010101) | 0) & ~quotes;
      const slashed = ((slashes - 0x01010101) | 0) & ~slashes;
      if (((low | quoted | slashed) & -0x7f7f7f80) !== 0) break;
      out.setInt32(at, word);
    }
    const stop = Math.min(n + 4, to);
    for (; n < stop; n++) {
      const byte = source.getUint8(n);
      if (byte >= 32 && byte !== quote && byte !== backslash) out.setUint8(at++, byte);
      else at = writeEscape(out, at, byte);
    }
  }
  return at;
}

function toWords(key: Buffer): Int32Array {
  const padded = Buffer.alloc(Math.ceil(key.length / 4) * 4);
  key.copy(padded);
  return Int32Array.from({ length: padded.length / 4 }, (_, index) => padded.readInt32BE(index * 4));
}

let lastView: DataView = new DataView(new ArrayBuffer(0));

/** Nearly always the same buffer: the one that sessions read into. */
function viewOf(buffer: ArrayBufferLike): DataView {
  if (lastView.buffer !== buffer) lastView = new DataView(buffer);
  return lastView;
}

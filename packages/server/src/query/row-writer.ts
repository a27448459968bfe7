// Compiled once for each row description: the JSON of a row's keys, and how each value is written.
import { type JsonBytes, writeEscape } from './json-bytes.ts';
import { builtInType, type Kind, string, type ValueType } from './value-kinds.ts';

export type Column = { name: string; oid: number };
export type RowWriter = (row: Buffer, start: number, end: number, json: JsonBytes) => void;

/** Column names in result order; a repeated one gets _2, _3. */
export function readColumns(bytes: Buffer, start: number): Column[] {
  const count = bytes.readUInt16BE(start);
  const taken = new Set<string>();
  const columns: Column[] = [];
  let at = start + 2;
  for (let index = 0; index < count; index++) {
    const stop = bytes.indexOf(0, at);
    columns.push({ name: bytes.toString('utf8', at, stop), oid: bytes.readUInt32BE(stop + 7) });
    at = stop + 19;
  }
  const given = new Set(columns.map(({ name }) => name));
  return columns.map(({ name, oid }) => {
    let free = name;
    // A suffix that is itself the name of another column is passed over.
    for (let n = 2; taken.has(free); n++) {
      const next = `${name}_${n}`;
      free = given.has(next) && !taken.has(next) ? name : next;
    }
    taken.add(free);
    return { name: free, oid };
  });
}

export function unknownTypes(columns: readonly Column[]): number[] {
  return [...new Set(columns.map(({ oid }) => oid).filter((oid) => !builtInType(oid)))];
}

/** Without an entry (dropped a moment ago) a type is written as its text. */
export function typesOf(columns: readonly Column[], looked: ReadonlyMap<number, ValueType>): ValueType[] {
  return columns.map(({ oid }) => builtInType(oid) ?? looked.get(oid) ?? { name: 'unknown', kind: string });
}

/** Rows up to this size are written with room made once, and without a call for each value. */
const smallRow = 16_384;

export function compileRowWriter(columns: readonly Column[], types: readonly ValueType[]): RowWriter {
  const kinds = types.map(({ kind }) => kind);
  const keys = columns.map(({ name }, index) => Buffer.from(`${index ? ',' : '{'}${JSON.stringify(name)}:`));
  const count = columns.length;
  const keyBytes = keys.reduce((sum, key) => sum + key.length, 0);

  const writeAny: RowWriter = (row, start, _end, json) => {
    if (count === 0) json.byte(openBrace);
    let at = start + 2;
    for (let index = 0; index < count; index++) {
      json.raw(keys[index] as Buffer);
      const size = readInt32(row, at);
      at += 4;
      if (size < 0) {
        json.null();
        continue;
      }
      json.value(kinds[index] as Kind, row, at, at + size);
      at += size;
    }
    json.byte(closeBrace);
  };
  if (count === 0) return writeAny;

  return (row, start, end, json) => {
    if (end - start > smallRow) return writeAny(row, start, end, json);
    // A byte becomes six at worst (\u0001), and null is written where there is nothing.
    const room = keyBytes + (end - start) * 6 + count * 6 + 16;
    json.room(room);
    let out = json.bytes;
    let at = json.length;
    let from = start + 2;
    for (let index = 0; index < count; index++) {
      const key = keys[index] as Buffer;
      for (let n = 0; n < key.length; n++) out[at++] = key[n] as number;
      const size = readInt32(row, from);
      from += 4;
      if (size < 0) {
        out[at++] = 110;
        out[at++] = 117;
        out[at++] = 108;
        out[at++] = 108;
        continue;
      }
      const to = from + size;
      const kind = kinds[index] as Kind;
      const first = row[from] as number;
      if (kind.is === 'string' || (kind.is === 'big' && json.bigAsString)) {
        out[at++] = quote;
        for (let n = from; n < to; n++) {
          const byte = row[n] as number;
          if (byte >= 32 && byte !== quote && byte !== backslash) out[at++] = byte;
          else at = writeEscape(out, at, byte);
        }
        out[at++] = quote;
      } else if (((kind.is === 'number' || kind.is === 'big') && isDigit(first)) || kind.is === 'json') {
        for (let n = from; n < to; n++) out[at++] = row[n] as number;
      } else if (kind.is === 'timestamptz' && size >= 22 && row[from + 10] === 32 && isUtc(row, to)) {
        out[at++] = quote;
        for (let n = from; n < to - 3; n++) out[at++] = row[n] as number;
        out[at - (to - 3 - from) + 10] = 84;
        out[at++] = 90;
        out[at++] = quote;
      } else {
        // Everything that is rarer: it may need more room, and then the bytes are others.
        json.length = at;
        json.value(kind, row, from, to);
        json.room(room);
        out = json.bytes;
        at = json.length;
      }
      from = to;
    }
    out[at++] = closeBrace;
    json.length = at;
  };
}

const [quote, backslash, openBrace, closeBrace] = [34, 92, 123, 125];

function isDigit(byte: number): boolean {
  return byte >= 48 && byte <= 57;
}

/** …+00, in the four-digit years of our era. */
function isUtc(row: Buffer, to: number): boolean {
  return row[to - 3] === 43 && row[to - 2] === 48 && row[to - 1] === 48;
}

function readInt32(bytes: Buffer, at: number): number {
  return (
    ((bytes[at] as number) << 24) |
    ((bytes[at + 1] as number) << 16) |
    ((bytes[at + 2] as number) << 8) |
    (bytes[at + 3] as number)
  );
}

// Compiled once for each row description: the JSON of a row's keys, and how each value is written.
import type { JsonBytes } from './json-bytes.ts';
import { builtInType, type Kind, string, type ValueType } from './value-kinds.ts';

export type Column = { name: string; oid: number };
export type RowWriter = (row: Buffer, start: number, json: JsonBytes) => void;

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

export function compileRowWriter(columns: readonly Column[], types: readonly ValueType[]): RowWriter {
  const kinds = types.map(({ kind }) => kind);
  const keys = columns.map(({ name }, index) => Buffer.from(`${index ? ',' : '{'}${JSON.stringify(name)}:`));
  const count = columns.length;
  return (row, start, json) => {
    if (count === 0) json.byte(123);
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
    json.byte(125);
  };
}

function readInt32(bytes: Buffer, at: number): number {
  return (
    ((bytes[at] as number) << 24) |
    ((bytes[at + 1] as number) << 16) |
    ((bytes[at + 2] as number) << 8) |
    (bytes[at + 3] as number)
  );
}

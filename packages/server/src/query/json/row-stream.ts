// Writes a row that is too large to buffer while it arrives from the socket, value by value and piece by piece.
import type { JsonBytes } from './json-bytes.ts';
import type { RowPlan } from './row-writer.ts';
import { streamValue, type ValueStream } from './value-stream.ts';

/** Written in well under a millisecond. Even at six bytes of JSON per byte, it fits into one buffer of JsonBytes. */
const sliceBytes = 8 * 1024;
/** Stored of each value for a caller that needs the last row: more than fits into a cursor. */
const prefixBytes = 8 * 1024 + 1;

export class RowStream {
  private readonly plan: RowPlan;
  private readonly json: JsonBytes;
  private readonly onSlice: () => void;
  /** An incomplete column count or value size. */
  private readonly head = Buffer.alloc(4);
  private headSize = 0;
  private column = -1;
  /** Missing bytes of the current value. */
  private left = 0;
  private value: ValueStream | null = null;
  /** The values so far, each truncated to `prefixBytes`. */
  private readonly prefixes: (Buffer[] | null)[] | null;
  private prefixSize = 0;

  /** `onSlice` is called after each slice, when the JSON can be taken. `collects`: `shortened` will be called. */
  constructor(plan: RowPlan, json: JsonBytes, onSlice: () => void, collects: boolean) {
    this.plan = plan;
    this.json = json;
    this.onSlice = onSlice;
    this.prefixes = collects ? [] : null;
    if (plan.keys.length === 0 && !plan.isBare) json.byte(plan.open);
  }

  push(source: Buffer, start: number, end: number): void {
    for (let at = start; at < end; ) {
      if (this.left > 0) {
        const stop = Math.min(end, at + this.left, at + sliceBytes);
        this.take(source, at, stop);
        this.onSlice();
        at = stop;
        continue;
      }
      this.head[this.headSize++] = source[at++] as number;
      if (this.column < 0) {
        if (this.headSize === 2) this.next();
      } else if (this.headSize === 4) this.open(this.head.readInt32BE(0));
    }
  }

  end(): void {
    if (!this.plan.isBare) this.json.byte(this.plan.close);
  }

  /** The row as PostgreSQL would send it if its values ended after their prefixes. */
  shortened(): Buffer {
    const count = Buffer.alloc(2);
    count.writeUInt16BE(this.prefixes?.length ?? 0);
    const values = (this.prefixes ?? []).map((pieces) => {
      const value = Buffer.concat(pieces ?? []);
      const size = Buffer.alloc(4);
      size.writeInt32BE(pieces ? value.length : -1);
      return Buffer.concat([size, value]);
    });
    return Buffer.concat([count, ...values]);
  }

  private next(): void {
    this.column++;
    this.headSize = 0;
  }

  private open(size: number): void {
    const { plan, json, column } = this;
    const key = plan.keys[column];
    const kind = plan.kinds[column];
    // Columns after the last key are the service's own.
    if (key) json.raw(key);
    this.prefixes?.push(size < 0 ? null : []);
    this.prefixSize = 0;
    if (size < 0) {
      if (key && !plan.isBare) json.null();
      return this.next();
    }
    this.left = size;
    this.value = key && kind ? streamValue(kind, json) : null;
    if (size === 0) this.closeValue();
  }

  private take(source: Buffer, start: number, end: number): void {
    this.value?.push(source, start, end);
    if (this.prefixes && this.prefixSize < prefixBytes) {
      const stop = Math.min(end, start + prefixBytes - this.prefixSize);
      this.prefixes.at(-1)?.push(Buffer.from(source.subarray(start, stop)));
      this.prefixSize += stop - start;
    }
    this.left -= end - start;
    if (this.left === 0) this.closeValue();
  }

  private closeValue(): void {
    this.value?.end();
    this.value = null;
    this.next();
  }
}

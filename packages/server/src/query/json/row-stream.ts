// A row that is too large to be held: written as it comes out of the socket, value by value and piece by piece.
import type { JsonBytes } from './json-bytes.ts';
import type { RowPlan } from './row-writer.ts';
import { streamValue, type ValueStream } from './value-stream.ts';

/** A piece of this size is written in well under a millisecond, and six times of it fit into a piece of JSON. */
const sliceBytes = 8 * 1024;
/** Of each value for whoever wants to know the last row: more than fits into a cursor. */
const keptBytes = 8 * 1024 + 1;

export class RowStream {
  private readonly plan: RowPlan;
  private readonly json: JsonBytes;
  private readonly onSlice: () => void;
  /** Column count or size of a value, of which not all bytes have come. */
  private readonly head = Buffer.alloc(4);
  private headSize = 0;
  private column = -1;
  /** Of the current value, what has not come. */
  private left = 0;
  private value: ValueStream | null = null;
  /** The values so far, each cut after `keptBytes`. */
  private readonly kept: (Buffer[] | null)[] | null;
  private keptSize = 0;

  /** `onSlice` is called after each slice: the JSON can be taken then. `keeps`: `shortened` will be asked for. */
  constructor(plan: RowPlan, json: JsonBytes, onSlice: () => void, keeps: boolean) {
    this.plan = plan;
    this.json = json;
    this.onSlice = onSlice;
    this.kept = keeps ? [] : null;
    if (plan.keys.length === 0) json.byte(plan.open);
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
    this.json.byte(this.plan.close);
  }

  /** The row as PostgreSQL would send it if its values were no longer than what was kept. */
  shortened(): Buffer {
    const count = Buffer.alloc(2);
    count.writeUInt16BE(this.kept?.length ?? 0);
    const values = (this.kept ?? []).map((pieces) => {
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
    // Those behind the last key are the service's own.
    if (key) json.raw(key);
    this.kept?.push(size < 0 ? null : []);
    this.keptSize = 0;
    if (size < 0) {
      if (key) json.null();
      return this.next();
    }
    this.left = size;
    this.value = key && kind ? streamValue(kind, json) : null;
    if (size === 0) this.closeValue();
  }

  private take(source: Buffer, start: number, end: number): void {
    this.value?.push(source, start, end);
    if (this.kept && this.keptSize < keptBytes) {
      const stop = Math.min(end, start + keptBytes - this.keptSize);
      this.kept.at(-1)?.push(Buffer.from(source.subarray(start, stop)));
      this.keptSize += stop - start;
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

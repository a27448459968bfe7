// Reads PostgreSQL's text of a nested value piece by piece: punctuation, quotes and escapes around smaller values.
import type { JsonBytes } from './json-bytes.ts';

export type ValueStream = {
  push(source: Buffer, start: number, end: number): void;
  end(): void;
};

export abstract class NestedStream implements ValueStream {
  protected readonly json: JsonBytes;
  /** The current value; null between values. */
  protected inner: ValueStream | null = null;
  private state: 'between' | 'bare' | 'quoted' | 'escaped' | 'closing' = 'between';

  constructor(json: JsonBytes) {
    this.json = json;
  }

  /** Handles punctuation. Returns true if an unquoted value begins here. */
  protected abstract between(byte: number): boolean;
  protected abstract endOfBare(source: Buffer, start: number, end: number): number;
  /** Creates the stream for the next value. */
  protected abstract begin(isQuoted: boolean): ValueStream;

  /** An unquoted value that is complete within a piece, as nearly all are. */
  protected whole(source: Buffer, start: number, end: number): void {
    const inner = this.begin(false);
    inner.push(source, start, end);
    inner.end();
  }

  push(source: Buffer, start: number, end: number): void {
    for (let at = start; at < end; ) {
      const byte = source[at] as number;
      if (this.state === 'between') {
        if (byte === quote) this.open('quoted');
        else if (this.between(byte)) {
          const stop = this.endOfBare(source, at, end);
          if (stop < end) this.whole(source, at, stop);
          else this.open('bare');
          if (stop < end) at = stop;
          continue;
        }
        at++;
      } else if (this.state === 'bare') {
        const stop = this.endOfBare(source, at, end);
        this.inner?.push(source, at, stop);
        if (stop < end) this.close();
        at = stop;
      } else if (this.state === 'quoted') {
        let stop = at;
        while (stop < end && source[stop] !== quote && source[stop] !== backslash) stop++;
        if (stop > at) this.inner?.push(source, at, stop);
        if (stop < end) this.state = source[stop] === quote ? 'closing' : 'escaped';
        at = stop + 1;
      } else if (this.state === 'escaped' || byte === quote) {
        // An escaped byte, or a doubled quote.
        this.inner?.push(source, at, ++at);
        this.state = 'quoted';
      } else this.close();
    }
  }

  end(): void {
    if (this.state !== 'between') this.close();
  }

  private open(state: 'bare' | 'quoted'): void {
    this.inner = this.begin(state === 'quoted');
    this.state = state;
  }

  private close(): void {
    this.inner?.end();
    this.inner = null;
    this.state = 'between';
  }
}

const [quote, backslash] = [34, 92];

// The numbers and texts of pg_dump's custom format, read from memory. Every length is checked against what is there
// before anything is allocated.
import { isUtf8 } from 'node:buffer';
import { BrokenDump } from './broken-dump.ts';

/** The value is not complete in these bytes. */
export class NeedsMore extends Error {
  override readonly name = 'NeedsMore';
}

/** One byte for the sign, then four, the lowest first. */
export const intBytes = 5;

export class Cursor {
  at = 0;
  private readonly bytes: Buffer;
  private readonly maxTextBytes: number;

  constructor(bytes: Buffer, maxTextBytes: number) {
    this.bytes = bytes;
    this.maxTextBytes = maxTextBytes;
  }

  byte(): number {
    if (this.at >= this.bytes.length) throw new NeedsMore();
    return this.bytes[this.at++] as number;
  }

  int(): number {
    if (this.at + intBytes > this.bytes.length) throw new NeedsMore();
    const value = readInt(this.bytes, this.at);
    this.at += intBytes;
    return value;
  }

  text(): string | null {
    const size = this.int();
    if (size < 0) return null;
    if (size > this.maxTextBytes) throw new BrokenDump(`a text of ${size} bytes is too long`);
    if (this.at + size > this.bytes.length) throw new NeedsMore();
    const text = this.bytes.subarray(this.at, this.at + size);
    this.at += size;
    if (!isUtf8(text)) throw new BrokenDump('a text is not valid UTF-8', 'Dump with --encoding=UTF8.');
    // PostgreSQL would read no further than a NUL.
    if (text.includes(0)) throw new BrokenDump('a text contains a NUL character');
    return text.toString('utf8');
  }

  skip(size: number): void {
    if (this.at + size > this.bytes.length) throw new NeedsMore();
    this.at += size;
  }
}

export function readInt(bytes: Buffer, at: number): number {
  const sign = bytes[at] as number;
  const size = bytes.readUInt32LE(at + 1);
  if (sign > 1 || size > 0x80000000) throw new BrokenDump('a number in the dump is not valid');
  return sign === 1 ? -size : size;
}

// Takes exact numbers of bytes out of pieces of any size.

type Bytes = AsyncIterable<Uint8Array> | Iterable<Uint8Array>;

export class ByteReader {
  private readonly source: AsyncIterator<Uint8Array> | Iterator<Uint8Array>;
  private pieces: Uint8Array[] = [];
  private size = 0;

  constructor(source: Bytes) {
    this.source = Symbol.asyncIterator in source ? source[Symbol.asyncIterator]() : source[Symbol.iterator]();
  }

  /** Releases the source. To be called whenever it was not read to its end. */
  async close(): Promise<void> {
    await this.source.return?.();
  }

  /** null if fewer bytes are left. */
  async take(count: number): Promise<Buffer | null> {
    while (this.size < count) {
      const next = await this.source.next();
      if (next.done) return null;
      this.pieces.push(next.value);
      this.size += next.value.length;
    }
    const all = this.pieces.length === 1 ? this.pieces[0] : Buffer.concat(this.pieces, this.size);
    const bytes = Buffer.from((all as Uint8Array).buffer, (all as Uint8Array).byteOffset, this.size);
    this.pieces = [bytes.subarray(count)];
    this.size -= count;
    return bytes.subarray(0, count);
  }
}

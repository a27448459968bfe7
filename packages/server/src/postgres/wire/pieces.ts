// Bytes between a source that has events and a reader that waits. The source is told what the reader has finished with:
// that is how it knows when to go on.

export class Pieces<Piece extends Uint8Array = Uint8Array> {
  private readonly queue: Piece[] = [];
  private isEnded = false;
  private failure: { error: unknown } | null = null;
  private wake: () => void = () => {};
  private readonly onTaken: (size: number, piece: Piece) => void;

  constructor(onTaken: (size: number, piece: Piece) => void) {
    this.onTaken = onTaken;
  }

  push(piece: Piece): void {
    this.queue.push(piece);
    this.wake();
  }

  /** After what was pushed. */
  end(): void {
    this.isEnded = true;
    this.wake();
  }

  /** At once: what was pushed and not read is not handed on. After the end nothing can fail any more. */
  fail(error: unknown): void {
    if (!this.isEnded) this.failure ??= { error };
    this.wake();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Piece, void, undefined> {
    for (;;) {
      if (this.failure) throw this.failure.error;
      const piece = this.queue.shift();
      if (piece) {
        yield piece;
        this.onTaken(piece.length, piece);
        continue;
      }
      if (this.isEnded) return;
      await new Promise<void>((resolve) => {
        this.wake = resolve;
      });
    }
  }
}

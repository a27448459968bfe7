// Answers to what may yet be undone: nothing of them is shown before the transaction is committed. They take memory, so
// it is counted for each request, each project and the process; whoever asks for more than there is gets an error.
import { errors } from '../../errors.ts';
import { MemoryBudget } from '../../memory-budget.ts';
import type { Sink } from './reader.ts';

/** The whole answer, or null if it was streamed. */
export type Answer = Buffer | HeldAnswer | null;

const mb = 1024 * 1024;
const maxBytes = 64 * mb;
export const answerMemory = new MemoryBudget({ perProject: 96 * mb, total: 160 * mb });
/** An answer up to this size is put together, so that it can be kept for an Idempotency-Key. */
const wholeBytes = mb;

export class HeldAnswer implements Sink {
  size = 0;
  private pieces: Buffer[] = [];
  /** What is counted for it. */
  private counted = 0;
  private readonly projectId: string | null;

  /** Without a project it is not counted: for answers that are known to stay small. */
  constructor(projectId: string | null) {
    this.projectId = projectId;
  }

  /** Throws if there is no room for it. */
  write(bytes: Buffer, onSent?: () => void): boolean {
    this.count(bytes.length);
    this.size += bytes.length;
    // What is to be used again is larger than what was written into it.
    this.pieces.push(onSent ? Buffer.from(bytes) : bytes);
    onSent?.();
    return true;
  }

  /** The end of an answer to what is committed by now: it can no longer be refused, and is small. */
  finish(bytes: Buffer): void {
    this.size += bytes.length;
    this.pieces.push(bytes);
  }

  drained(): void {}

  /** Where the next piece goes. */
  get end(): number {
    return this.pieces.length;
  }

  /** What has been written from there on; it is no longer part of this answer, but counted for it. */
  takeFrom(start: number): Buffer[] {
    const taken = this.pieces.splice(start);
    for (const { length } of taken) this.size -= length;
    return taken;
  }

  /** Made of pieces that were taken from it, and a few words between them. */
  compose(pieces: readonly Buffer[]): this {
    this.pieces = [...pieces];
    this.size = pieces.reduce((sum, { length }) => sum + length, 0);
    return this;
  }

  /** In one piece, if it is small. */
  close(): Buffer | HeldAnswer {
    if (this.size > wholeBytes) return this;
    const whole = Buffer.concat(this.pieces);
    this.release();
    return whole;
  }

  /** The next piece to be sent; its memory is no longer counted. */
  shift(): Buffer | undefined {
    const piece = this.pieces.shift();
    if (piece) this.count(-Math.min(piece.length, this.counted));
    return piece;
  }

  release(): void {
    this.pieces = [];
    this.count(-this.counted);
  }

  private count(bytes: number): void {
    if (this.counted + bytes > maxBytes) throw errors.resultTooLarge('The result is larger than 64 MB.');
    if (this.projectId !== null && !answerMemory.take(this.projectId, bytes))
      throw errors.overloaded('Answers that wait to be sent take all the memory there is for them.', 1);
    this.counted += bytes;
  }
}

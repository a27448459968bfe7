// Buffers the response to a statement that may still be rolled back: nothing is sent before the commit. The memory is
// limited per request, per account and for the process; a response that exceeds a limit becomes an error.

import { errors } from '../../errors/errors.ts';
import { mb } from '../../lib/bytes.ts';
import { MemoryBudget } from '../../lib/memory-budget.ts';
import { heldAnswerBytes, heldAnswersBytes } from '../../settings/limits/requests.ts';
import type { Sink } from './reader.ts';

/** The whole response, or null if it was streamed. */
export type Answer = Buffer | HeldAnswer | null;

export const answerMemory = new MemoryBudget({
  perHolder: heldAnswersBytes.perAccount,
  total: heldAnswersBytes.inAll,
});
/** A response up to this size is joined, so that it can be stored for an Idempotency-Key. */
const maxJoinedBytes = mb;

export class HeldAnswer implements Sink {
  size = 0;
  private pieces: Buffer[] = [];
  /** Bytes counted in answerMemory. */
  private counted = 0;
  private readonly holder: string | null;

  /** Without a project it is not counted, for responses that are known to stay small. */
  constructor(project: Readonly<{ id: string; accountId: string | null }> | null) {
    this.holder = project && (project.accountId ?? project.id);
  }

  /** Throws if a limit is exceeded. */
  write(bytes: Buffer, onSent?: () => void): boolean {
    this.count(bytes.length);
    this.size += bytes.length;
    // A reusable buffer is larger than its content, and goes back to its owner.
    this.pieces.push(onSent ? Buffer.from(bytes) : bytes);
    onSent?.();
    return true;
  }

  /** Adds the end of the response. The statement is committed by now, so it cannot be refused; it is small. */
  finish(bytes: Buffer): void {
    this.size += bytes.length;
    this.pieces.push(bytes);
  }

  drained(): void {}

  /** The index of the next piece. */
  get end(): number {
    return this.pieces.length;
  }

  /** Removes the pieces from `start` on and returns them. They still count for this response. */
  takeFrom(start: number): Buffer[] {
    const taken = this.pieces.splice(start);
    for (const { length } of taken) this.size -= length;
    return taken;
  }

  /** Replaces the content with pieces that were taken from it, and small ones between them. */
  compose(pieces: readonly Buffer[]): this {
    this.pieces = [...pieces];
    this.size = pieces.reduce((sum, { length }) => sum + length, 0);
    return this;
  }

  /** Returns one buffer, if it is small. */
  close(): Buffer | HeldAnswer {
    if (this.size > maxJoinedBytes) return this;
    const whole = Buffer.concat(this.pieces);
    this.release();
    return whole;
  }

  /** Returns the next piece to send. Its memory is no longer counted. */
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
    if (this.counted + bytes > heldAnswerBytes)
      throw errors.resultTooLarge('The result is larger than 64 MB.');
    if (this.holder !== null && !answerMemory.take(this.holder, bytes))
      throw errors.overloaded('The memory for responses that are waiting to be sent is used up.', 1);
    this.counted += bytes;
  }
}

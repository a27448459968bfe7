// Messages from PostgreSQL, found in the bytes as they arrive. Complete ones are read in place, and an incomplete one is assembled
// once. Sizes are checked before anything is stored or decoded. Errors are thrown: after one, the connection is of no use.
import { TooLargeError } from './session-errors.ts';
import { saysUnreplicated, UnreplicatedError } from './unreplicated.ts';

const maxRowBytes = 128 * 1024 * 1024;
/** Larger rows are passed on in parts. */
const bufferedRowBytes = 128 * 1024;
const maxOtherBytes = 1024 * 1024;
/** Longer notices are skipped. The one that is looked for is much shorter. */
const maxNoticeBytes = 4096;
/** The message's type and size. */
const headBytes = 5;

type Handlers = Readonly<{
  /** The content of a complete message. The memory is reused afterwards. */
  message(type: number, bytes: Buffer, start: number, end: number): void;
  /** Whether a row that is not buffered can be passed on in parts now. */
  takesRowParts(): boolean;
  /** `left`: the bytes of the row that follow. */
  rowPart(bytes: Buffer, start: number, end: number, left: number): void;
}>;

export class BackendMessages {
  /** While true, `read` stores the bytes and calls no handler. `readHeld` handles them. */
  isHeld = false;
  private isEnded = false;
  /** Missing bytes of a row that is passed on in parts. */
  private rowLeft = 0;
  /** The beginning of an incomplete message, and how many bytes are needed to continue. */
  private partial: Buffer[] = [];
  private partialBytes = 0;
  private needed = headBytes;
  private skipBytes = 0;
  private readonly handlers: Handlers;

  constructor(handlers: Handlers) {
    this.handlers = handlers;
  }

  read(bytes: Buffer): void {
    let at = 0;
    if (this.skipBytes > 0) {
      at = Math.min(this.skipBytes, bytes.length);
      this.skipBytes -= at;
    }
    if (this.rowLeft > 0) {
      const end = Math.min(bytes.length, at + this.rowLeft);
      this.passOn(bytes, at, end);
      at = end;
    }
    while (this.partialBytes > 0 && !this.isHeld) {
      const missing = this.needed - this.partialBytes;
      if (bytes.length - at < missing) break;
      this.partial.push(bytes.subarray(at, at + missing));
      this.partialBytes += missing;
      at += missing;
      this.readHeld();
    }
    if (at === bytes.length || this.isEnded) return;
    if (this.partialBytes === 0 && !this.isHeld) this.readMessages(bytes, at);
    else this.appendPartial(bytes, at);
  }

  /** Reads what has arrived so far. */
  readHeld(): void {
    if (this.partialBytes === 0) return;
    const bytes = Buffer.concat(this.partial, this.partialBytes);
    this.partial = [];
    this.partialBytes = 0;
    this.readMessages(bytes, 0);
  }

  /** Passes on nothing more. */
  end(): void {
    this.isEnded = true;
    this.partial = [];
    this.partialBytes = 0;
    this.rowLeft = 0;
  }

  private passOn(bytes: Buffer, start: number, end: number): void {
    this.rowLeft -= end - start;
    this.handlers.rowPart(bytes, start, end, this.rowLeft);
  }

  private readMessages(bytes: Buffer, start: number): void {
    let at = start;
    while (at < bytes.length && !this.isEnded) {
      if (this.isHeld || bytes.length - at < headBytes) return this.startPartial(bytes, at, headBytes);
      const type = bytes[at] as number;
      const size = bytes.readInt32BE(at + 1);
      const end = at + 1 + size;
      // A notice can have any size, so a long one is skipped without being buffered.
      if (type === 78 && end > bytes.length && size > maxNoticeBytes) {
        this.skipBytes = end - bytes.length;
        return;
      }
      if (end > bytes.length) {
        const isRow = type === 68 || type === 100;
        if (size > (isRow ? maxRowBytes : maxOtherBytes)) {
          throw new TooLargeError(type);
        }
        if (isRow && size > bufferedRowBytes && this.handlers.takesRowParts()) {
          this.rowLeft = size - 4;
          return this.passOn(bytes, at + headBytes, bytes.length);
        }
        return this.startPartial(bytes, at, 1 + size);
      }
      if (type !== 78) this.handlers.message(type, bytes, at + headBytes, end);
      else if (size <= maxNoticeBytes && saysUnreplicated(bytes.subarray(at + headBytes, end)))
        throw new UnreplicatedError();
      at = end;
    }
  }

  private startPartial(bytes: Buffer, at: number, needed: number): void {
    this.needed = needed;
    this.appendPartial(bytes, at);
  }

  /** Copies the bytes: the next read overwrites this memory. */
  private appendPartial(bytes: Buffer, at: number): void {
    this.partial.push(Buffer.from(bytes.subarray(at)));
    this.partialBytes += bytes.length - at;
  }
}

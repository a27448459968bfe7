// The lines of a body that arrives in pieces. At most one line and the latest piece are in memory.
import { isUtf8 } from 'node:buffer';
import { errors, type RowhouseError } from '../../errors/errors.ts';

/** The lines of a body, one after the other. Blank ones are allowed only at the end. */
export class Lines {
  /** The current line: its number, where it is, and whether it is valid UTF-8. */
  number = 0;
  bytes: Buffer = Buffer.alloc(0);
  start = 0;
  end = 0;
  isUtf8 = true;
  private readonly pieces: AsyncIterator<Buffer>;
  private readonly maxBytes: number;
  private piece: Buffer | null = null;
  /** Where the next line begins in the piece, and up to where the piece is known to be valid UTF-8, or not. */
  private position = 0;
  private checkedUntil = 0;
  private isPieceUtf8 = true;
  /** The beginning of a line that the next piece continues. */
  private readonly rest = growingBuffer();
  /** The number of the first blank line. */
  private blank = 0;
  private isOver = false;

  constructor(body: AsyncIterable<Buffer>, maxBytes: number) {
    this.pieces = body[Symbol.asyncIterator]();
    this.maxBytes = maxBytes;
  }

  get size(): number {
    return this.end - this.start;
  }

  /** Moves to the next line, as soon as it has arrived. False: there is none. */
  async next(): Promise<boolean> {
    while (!this.nextHere()) if (!(await this.load())) return false;
    return true;
  }

  /** Moves to the next line, if it is in the piece. */
  nextHere(): boolean {
    for (;;) {
      const { piece, rest, position } = this;
      if (!piece) return false;
      const end = piece.indexOf(10, position);
      const size = rest.size() + (end === -1 ? piece.length : end) - position;
      if (size > this.maxBytes) throw tooLong(this.number + 1, this.maxBytes);
      if (end === -1) {
        rest.add(piece.subarray(position));
        this.piece = null;
        return false;
      }
      this.number++;
      this.position = end + 1;
      if (rest.size() > 0) this.take(rest.takeWith(piece.subarray(position, end)));
      else this.takeHere(piece, position, end);
      if (!this.isBlank()) break;
      this.blank ||= this.number;
    }
    // A blank line in the middle may stand for a row that got lost.
    if (this.blank) throw problemAt(this.blank, 'is blank, which is allowed only at the end of the body');
    return true;
  }

  private take(whole: Buffer): void {
    this.bytes = whole;
    this.start = 0;
    this.end = whole.length;
    this.isUtf8 = isUtf8(whole);
  }

  /** All lines that end in the piece are checked at once. */
  private takeHere(piece: Buffer, start: number, end: number): void {
    if (start >= this.checkedUntil) {
      this.checkedUntil = piece.lastIndexOf(10) + 1;
      this.isPieceUtf8 = isUtf8(piece.subarray(start, this.checkedUntil));
    }
    this.bytes = piece;
    this.start = start;
    this.end = end;
    this.isUtf8 = this.isPieceUtf8 || isUtf8(piece.subarray(start, end));
  }

  private async load(): Promise<boolean> {
    if (this.isOver) return false;
    const { value, done } = await this.pieces.next();
    this.isOver = done === true;
    // The last line may have no line break.
    this.piece = done ? lineBreak : value;
    this.position = this.checkedUntil = 0;
    return !done || this.rest.size() > 0;
  }

  /** Only spaces, tabs and carriage returns. */
  private isBlank(): boolean {
    for (let at = this.start; at < this.end; at++) {
      const byte = this.bytes[at];
      if (byte !== 32 && byte !== 9 && byte !== 13) return false;
    }
    return true;
  }
}

const lineBreak = Buffer.from('\n');

/** One buffer instead of a list of pieces: a client can send each byte as one piece. */
function growingBuffer() {
  let held = Buffer.alloc(0);
  let size = 0;
  const add = (bytes: Buffer) => {
    if (size + bytes.length > held.length) {
      const larger = Buffer.allocUnsafe(Math.max(1024, (size + bytes.length) * 2));
      held.copy(larger, 0, 0, size);
      held = larger;
    }
    bytes.copy(held, size);
    size += bytes.length;
  };
  return {
    size: () => size,
    add,
    /** The content followed by `bytes`; valid until the next piece is added. */
    takeWith: (bytes: Buffer): Buffer => {
      add(bytes);
      const whole = held.subarray(0, size);
      size = 0;
      // The memory of a long line is released: most lines are short.
      if (held.length > 1024 * 1024) held = Buffer.alloc(0);
      return whole;
    },
  };
}

function tooLong(number: number, maxBytes: number): RowhouseError {
  return problemAt(number, `is longer than ${maxBytes} bytes, the limit for a line`);
}

export function problemAt(number: number, problem: string): RowhouseError {
  return errors.invalidRequest([{ path: `line ${number}`, problem }]);
}

/** A name in a message. */
export function quoted(name: string): string {
  return JSON.stringify(name.length > 80 ? `${name.slice(0, 80)}…` : name);
}

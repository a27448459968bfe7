// COPY … FROM STDIN: sends bytes from a source to PostgreSQL at the pace of the slower side. While four frames are
// unsent, nothing is read from the source. Bytes that are all in memory already are sent at once, with the statements before
// and after them. After any failure the connection is either back in the ordinary protocol or lost.
import type { FrontendMessages } from './frontend-messages.ts';
import type { ServerError } from './server-error.ts';
import { type Receiver, type Session, silent } from './session.ts';

/** A statement that is prepared, or becomes so: `text` null means that PostgreSQL knows it. */
type NamedStatement = Readonly<{ name: string; text: string | null }>;

export type CopyInOptions = Readonly<{
  session: Session;
  /** Statements before and after the COPY. They are sent without waiting for each other's results. */
  before: readonly (string | NamedStatement)[];
  text: string;
  after: Readonly<{ count: number; write(out: FrontendMessages): void }>;
  /**
   * Each piece of a stream is copied at once. The stream is never closed; reading simply stops. Nobody may change the pieces
   * of an array before the end.
   */
  source: CopySource;
  /** Paused while waiting for the source. */
  clock: { pause(): void; resume(): void };
}>;

export type CopySource = AsyncIterable<Buffer> | readonly Buffer[];
export type CopyEnd = 'idle' | 'transaction' | 'failed' | Error;

const frameBytes = 64 * 1024;
const maxFrames = 4;
/** The message's type and size. */
const headBytes = 5;

export class CopyIn {
  /** The command tag of the COPY itself. */
  tag = '';
  failure: ServerError | null = null;
  sourceFailure: { error: unknown } | null = null;
  /** PostgreSQL has asked for rows. */
  hasBegun = false;
  /** Everything was sent, including CopyDone and the statements after it: from now on it can take effect. */
  private isSent = false;
  private readonly options: CopyInOptions;
  private readonly receiver: Receiver;
  /** The number of statements that have completed. */
  private completed = 0;

  private isStopped = false;
  /** Nothing more will be sent for this exchange. */
  private isOver = false;
  private end: (end: CopyEnd) => void = () => {};
  private wakeFromSource: () => void = () => {};
  private wakeFromFrame: () => void = () => {};
  private readonly freeFrames: Buffer[] = [];
  private frameCount = 0;
  private frame: Buffer | null = null;
  private filled = headBytes;

  constructor(options: CopyInOptions) {
    this.options = options;
    this.receiver = {
      ...silent,
      copy: (direction) => this.begin(direction),
      complete: (tag) => this.complete(tag ?? ''),
      error: (error) => {
        this.failure ??= error;
        // PostgreSQL skips everything that is still in flight, up to this Sync.
        this.finish('sync');
      },
      ready: (status) => this.end(status),
      lost: (error) => {
        this.markOver();
        this.end(error);
      },
    };
  }

  /**
   * If the connection was lost, whether it may have taken effect. The last statement commits: it has not begun if PostgreSQL
   * reported an error during an earlier one.
   */
  get mayBeCommitted(): boolean {
    const { before, after } = this.options;
    return this.isSent && (this.failure === null || this.completed >= before.length + after.count);
  }

  /** Every statement has completed. */
  get isComplete(): boolean {
    const { before, after } = this.options;
    return this.completed === before.length + 1 + after.count && this.failure === null;
  }

  run(): Promise<CopyEnd> {
    const { session, before, text, source } = this.options;
    for (const statement of [...before, text]) {
      const named = typeof statement === 'string' ? { name: '', text: statement } : statement;
      if (named.text !== null) session.out.parse(named.name, named.text);
      session.out.bind(named.name, []).execute(0);
    }
    // A stream has no Sync yet: once PostgreSQL reads rows, it would skip the Sync and then wait for another.
    if (isArray(source)) this.writeAll(source);
    else session.out.flush();
    return new Promise((resolve) => {
      this.end = resolve;
      session.send(this.receiver);
      // Otherwise the session was lost before.
      if (isArray(source)) this.isSent = session.isUsable;
      session.flush();
    });
  }

  /**
   * Stops sending and discards the rows sent so far. Before PostgreSQL asks for rows, and with rows that were all sent at once,
   * only a cancel has an effect.
   */
  stop(): void {
    this.isStopped = true;
    if (this.hasBegun) this.finish('fail');
  }

  private begin(direction: 'in' | 'out'): void {
    if (direction === 'out') return this.options.session.destroy();
    this.hasBegun = true;
    const { source } = this.options;
    if (isArray(source)) return;
    if (this.isStopped) this.finish('fail');
    else void this.pump(source);
  }

  /** If a statement before it fails, PostgreSQL ignores everything up to the Sync. */
  private writeAll(pieces: readonly Buffer[]): void {
    const { session, after } = this.options;
    for (const piece of pieces) session.out.copyDataAsIs(piece);
    session.out.copyDone();
    after.write(session.out);
    session.out.sync();
    this.isOver = true;
  }

  private complete(tag: string): void {
    if (this.completed++ !== this.options.before.length) return;
    this.tag = tag;
    // PostgreSQL has found an end marker before the source ended, so it has not read all rows.
    if (!this.isSent) this.options.session.destroy();
  }

  /** The COPY itself has completed. */
  get isCopied(): boolean {
    return this.completed > this.options.before.length;
  }

  private async pump(source: AsyncIterable<Buffer>): Promise<void> {
    try {
      const pieces = source[Symbol.asyncIterator]();
      for (;;) {
        const next = await this.next(pieces);
        if (this.isOver) return;
        if (!next || next.done) break;
        await this.put(next.value);
        if (this.isOver) return;
      }
      this.sendFrame();
      this.finish('done');
    } catch (error) {
      if (this.isOver) return;
      this.sourceFailure = { error };
      this.finish('fail');
    }
  }

  /** Each piece gets its own promise: racing with one long-lived promise would add a listener for each piece. */
  private async next(pieces: AsyncIterator<Buffer>): Promise<IteratorResult<Buffer> | null> {
    const { clock } = this.options;
    clock.pause();
    if (this.isOver) return null;
    try {
      return await new Promise((resolve, reject) => {
        this.wakeFromSource = () => resolve(null);
        pieces.next().then(resolve, reject);
      });
    } finally {
      clock.resume();
    }
  }

  private async put(piece: Buffer): Promise<void> {
    for (let at = 0; at < piece.length; ) {
      const frame = this.frame ?? (await this.takeFrame());
      if (!frame) return;
      const size = Math.min(piece.length - at, frame.length - this.filled);
      piece.copy(frame, this.filled, at, at + size);
      this.filled += size;
      at += size;
      if (this.filled === frame.length) this.sendFrame();
    }
  }

  /** Returns null once the exchange is over. */
  private async takeFrame(): Promise<Buffer | null> {
    // If the source always has data and PostgreSQL always reads it, no other work would get a turn of the event loop.
    if (this.frameCount > 0) await new Promise((resolve) => setImmediate(resolve));
    while (this.freeFrames.length === 0 && this.frameCount === maxFrames && !this.isOver) {
      await new Promise<void>((resolve) => {
        this.wakeFromFrame = resolve;
      });
    }
    if (this.freeFrames.length === 0 && this.frameCount < maxFrames) {
      this.frameCount++;
      this.freeFrames.push(Buffer.allocUnsafeSlow(headBytes + frameBytes));
    }
    if (this.isOver) return null;
    this.frame = this.freeFrames.pop() ?? null;
    return this.frame;
  }

  private sendFrame(): void {
    const { frame, filled } = this;
    if (!frame || filled === headBytes) return;
    // The head of a CopyData message: its type, and its size, which includes itself.
    frame[0] = 100;
    frame.writeInt32BE(filled - 1, 1);
    this.frame = null;
    this.filled = headBytes;
    this.options.session.write(frame.subarray(0, filled), () => {
      this.freeFrames.push(frame);
      this.wakeFromFrame();
    });
  }

  private finish(how: 'done' | 'fail' | 'sync'): void {
    if (this.isOver) return;
    this.markOver();
    const { session, after } = this.options;
    const { out } = session;
    if (how === 'fail') out.copyFail('the rows end here');
    if (how === 'done') {
      out.copyDone();
      after.write(out);
      this.isSent = true;
    }
    session.write(out.sync().take());
  }

  private markOver(): void {
    this.isOver = true;
    this.wakeFromSource();
    this.wakeFromFrame();
  }
}

function isArray(source: CopySource): source is readonly Buffer[] {
  return Array.isArray(source);
}

// COPY … FROM STDIN: bytes go from a source to PostgreSQL at the pace of the slower one. At most four frames are on their
// way; while they are, the source is not asked for more. Whatever goes wrong, the connection speaks the ordinary protocol
// again afterwards, or is lost.
import type { FrontendMessages } from './frontend-messages.ts';
import type { ServerError } from './server-error.ts';
import { type Receiver, type Session, silent } from './session.ts';

export type CopyInOptions = Readonly<{
  session: Session;
  /** Statements before the COPY and behind it; all leave without waiting for one another. */
  before: readonly string[];
  text: string;
  after: Readonly<{ count: number; write(out: FrontendMessages): void }>;
  /** Its pieces are copied at once. It is never closed: nothing more is taken from it, that is all. */
  source: AsyncIterable<Buffer>;
  /** Told when the source is waited for, and when no longer. */
  clock: { pause(): void; resume(): void };
}>;

export type CopyEnd = 'idle' | 'transaction' | 'failed' | Error;

const frameBytes = 64 * 1024;
const framesAtOnce = 4;
/** The type of the message and its size. */
const headBytes = 5;

export class CopyIn {
  /** Of the COPY itself. */
  tag = '';
  failure: ServerError | null = null;
  sourceFailure: { error: unknown } | null = null;
  /** PostgreSQL has asked for rows. */
  hasBegun = false;
  /** All of it was sent, the end as well: from here on it can take effect. */
  isSent = false;
  private readonly options: CopyInOptions;
  private readonly receiver: Receiver;
  /** Statements that have come to their end. */
  private completed = 0;

  private isStopped = false;
  /** Nothing more is sent for this exchange. */
  private isOver = false;
  private end: (end: CopyEnd) => void = () => {};
  private wakeFromSource: () => void = () => {};
  private wakeFromFrame: () => void = () => {};
  private readonly free: Buffer[] = [];
  private made = 0;
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
        // PostgreSQL passes over whatever was on its way to it, up to this.
        this.finish('sync');
      },
      ready: (status) => this.end(status),
      lost: (error) => {
        this.leave();
        this.end(error);
      },
    };
  }

  /** Every statement has come to its end. */
  get isComplete(): boolean {
    const { before, after } = this.options;
    return this.completed === before.length + 1 + after.count && this.failure === null;
  }

  run(): Promise<CopyEnd> {
    const { session, before, text } = this.options;
    for (const statement of [...before, text]) session.out.parse('', statement).bind('', []).execute(0);
    // No Sync yet: PostgreSQL would pass over it once it reads rows, and then wait for one.
    session.out.flush();
    return new Promise((resolve) => {
      this.end = resolve;
      session.send(this.receiver);
      session.flush();
    });
  }

  /** No more rows, and none of those that were sent. Before PostgreSQL asks for rows, only a cancel helps. */
  stop(): void {
    this.isStopped = true;
    if (this.hasBegun) this.finish('fail');
  }

  private begin(direction: 'in' | 'out'): void {
    if (direction === 'out') return this.options.session.destroy();
    this.hasBegun = true;
    if (this.isStopped) this.finish('fail');
    else void this.pump();
  }

  private complete(tag: string): void {
    if (this.completed++ !== this.options.before.length) return;
    this.tag = tag;
    // PostgreSQL has seen an end where the source has none. What was read so far is not all.
    if (!this.isSent) this.options.session.destroy();
  }

  /** The COPY itself came to its end. */
  get isCopied(): boolean {
    return this.completed > this.options.before.length;
  }

  private async pump(): Promise<void> {
    try {
      const pieces = this.options.source[Symbol.asyncIterator]();
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

  /** A promise of its own for each piece: racing with one that lasts would gather a listener a piece. */
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

  /** null: it is over. */
  private async takeFrame(): Promise<Buffer | null> {
    // A source that always has more, and a PostgreSQL that always has room, would leave no turn to anybody else.
    if (this.made > 0) await new Promise((resolve) => setImmediate(resolve));
    while (this.free.length === 0 && this.made === framesAtOnce && !this.isOver) {
      await new Promise<void>((resolve) => {
        this.wakeFromFrame = resolve;
      });
    }
    if (this.free.length === 0 && this.made < framesAtOnce) {
      this.made++;
      this.free.push(Buffer.allocUnsafeSlow(headBytes + frameBytes));
    }
    if (this.isOver) return null;
    this.frame = this.free.pop() ?? null;
    return this.frame;
  }

  private sendFrame(): void {
    const { frame, filled } = this;
    if (!frame || filled === headBytes) return;
    frame[0] = 100; // CopyData
    frame.writeInt32BE(filled - 1, 1);
    this.frame = null;
    this.filled = headBytes;
    this.options.session.write(frame.subarray(0, filled), () => {
      this.free.push(frame);
      this.wakeFromFrame();
    });
  }

  private finish(how: 'done' | 'fail' | 'sync'): void {
    if (this.isOver) return;
    this.leave();
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

  private leave(): void {
    this.isOver = true;
    this.wakeFromSource();
    this.wakeFromFrame();
  }
}

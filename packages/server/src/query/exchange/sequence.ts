// Several plain statements in one write and one implicit transaction: PostgreSQL answers all of them before it is waited for. It is
// all or nothing, and whatever fails has not happened: then the statements run again one by one, which finds out what to tell the
// caller.
import { errors, RowhouseError } from '../../errors/errors.ts';
import { sqlstate } from '../../postgres/sqlstate.ts';
import type { PreparedStatement } from '../../postgres/wire/prepared-statements.ts';
import type { ServerError } from '../../postgres/wire/server-error.ts';
import type { Session } from '../../postgres/wire/session.ts';
import { TooLargeError, UnwrittenError } from '../../postgres/wire/session-errors.ts';
import { UnreplicatedError } from '../../postgres/wire/unreplicated.ts';
import { saysSessionEnded } from './acting-users.ts';
import { type Command, writeCommands } from './commands.ts';
import type { Exchange } from './exchange.ts';
import { MovedError, noteFate, noteOverLimit, StatementFailed, saysOverLimit } from './failures.ts';
import { InTurn } from './in-turn.ts';
import { sqlFailure } from './sql-failure.ts';
import type { Stoppable } from './statement-deadline.ts';

/** All answers together. Larger ones are counted while the statements run one by one. */
const maxAnswerBytes = 256 * 1024;

export class Sequence extends InTurn implements Stoppable {
  /** It ran to its end. False: nothing of it has happened. If the session is usable, it is as it was. */
  hasRun = false;
  /** It was cancelled for a large answer: a cancel that arrives late would hit the next statement. */
  isHalted = false;
  /** In a pipeline: called when the answers become larger than what is held. Others may then join behind it until it is sent. */
  onStreaming: (() => void) | null = null;
  /** When it was written to the session. */
  startedAt = 0;
  durationMs = 0;
  private isMoved = false;
  private readonly session: Session;
  private readonly exchanges: readonly Exchange[];
  private readonly last: readonly Command[];
  private readonly onDone: (exchange: Exchange) => number;
  private answerBytes = 0;
  private failure: ServerError | null = null;
  private stoppedBy: RowhouseError | null = null;
  private end: (lost: Error | null) => void = () => {};

  /** `last`: commands before the commit. `onDone`: called with each statement that is answered; returns the size of the answer. */
  constructor(
    session: Session,
    exchanges: readonly Exchange[],
    last: readonly Command[],
    onDone: (exchange: Exchange) => number,
  ) {
    super();
    this.session = session;
    this.exchanges = exchanges;
    this.last = last;
    this.onDone = onDone;
  }

  get isRead(): boolean {
    return this.exchanges.every((exchange) => exchange.isRead);
  }

  async run(): Promise<void> {
    const { session, exchanges, last } = this;
    const parsed = new Map<string, PreparedStatement>();
    for (const exchange of exchanges) exchange.writeInGroup(parsed);
    writeCommands(session.out, last);
    session.out.sync();
    this.startedAt = performance.now();
    const lost = await new Promise<Error | null>((resolve) => {
      this.end = resolve;
      session.send(this);
      if (!this.onStreaming) session.flush();
    });
    this.durationMs = performance.now() - this.startedAt;
    this.hasRun = this.settle(lost);
  }

  /** It runs elsewhere: what still arrives here must not reach the caller a second time. */
  move(): void {
    this.isMoved = true;
    for (const exchange of this.exchanges) exchange.move();
    this.end(new MovedError());
  }

  get hasBegun(): boolean {
    return this.turn > 0 || this.current?.hasBegun === true;
  }

  get isBeforeTarget(): boolean {
    return this.turn === 0 && this.current?.isBeforeTarget === true;
  }

  private settle(lost: Error | null): boolean {
    const { failure, stoppedBy } = this;
    if (lost instanceof MovedError) throw lost;
    if (lost && !this.isUndone(lost)) throw errors.outcomeUnknown(lost);
    if (stoppedBy && (lost || failure)) throw noteFate(stoppedBy, 'undone');
    // Who acts could not be set: in a pipeline, others would fail in the same way.
    if (failure && this.onStreaming && this.isBeforeTarget && !saysSessionEnded(failure))
      throw errors.unavailable(failure);
    // There is no room for the answer.
    if (lost instanceof RowhouseError) throw lost;
    if (lost) {
      if (lost instanceof TooLargeError) return false;
      throw errors.unavailable(lost);
    }
    if (!failure) {
      const refusedBy = this.exchanges.find((exchange) => exchange.refusedBy)?.refusedBy;
      if (!refusedBy) return true;
      throw new StatementFailed(this.isRead ? refusedBy : errors.rowsNotShown(refusedBy), 'idle');
    }
    if (saysOverLimit(failure) && this.turn >= this.exchanges.length)
      throw new StatementFailed(noteOverLimit(sqlFailure(failure)), 'idle');
    return false;
  }

  /** The session was lost. An error before the last answer undoes everything, and a termination is one, too. */
  private isUndone(lost: Error): boolean {
    const { failure, turn, exchanges } = this;
    // There is a commit: a statement that looks like a read has written.
    if (lost instanceof UnreplicatedError) return false;
    if (failure && (failure.severity === 'ERROR' || turn < exchanges.length)) return true;
    if (lost instanceof TooLargeError && lost.isFailure) return true;
    return this.isRead || lost instanceof UnwrittenError;
  }

  /** The statement that tried to write although it was assumed only to read; -1: none. */
  get writesAt(): number {
    return this.failure?.state === sqlstate.readOnlyTransaction ? this.turn : -1;
  }

  stop(because: RowhouseError): void {
    this.stoppedBy ??= because;
  }

  /** Answers are held until the commit, so no reader is waited for. */
  useClock(): void {}

  protected get current(): Exchange | null {
    return this.exchanges[this.turn] ?? null;
  }

  protected haltIfLarge(): void {
    const isLarge = this.current?.isStreaming || this.answerBytes > maxAnswerBytes;
    if (!isLarge || this.isHalted || this.isMoved) return;
    this.isHalted = true;
    this.onStreaming?.();
    void this.session.cancel();
  }

  protected done(exchange: Exchange): void {
    if (this.isMoved) return;
    this.answerBytes += this.onDone(exchange);
    this.haltIfLarge();
  }

  copy(): void {
    this.session.destroy();
  }

  unwritten(): void {
    this.session.destroy(new UnwrittenError());
  }

  error(error: ServerError): void {
    this.failure ??= error;
    this.current?.error(error);
    this.current?.unprepare();
  }

  ready(): void {
    this.end(null);
  }

  lost(error: Error): void {
    this.end(error);
  }
}

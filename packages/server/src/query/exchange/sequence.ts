// Several plain statements in one write and one implicit transaction: PostgreSQL answers all of them before it is waited for. It is
// all or nothing, and whatever fails has not happened: then the statements run again one by one, which finds out what to tell the
// caller.
import { errors, RowhouseError } from '../../errors/errors.ts';
import { sqlstate } from '../../postgres/sqlstate.ts';
import type { PreparedStatement } from '../../postgres/wire/prepared-statements.ts';
import type { ServerError } from '../../postgres/wire/server-error.ts';
import type { Receiver, Session } from '../../postgres/wire/session.ts';
import { TooLargeError, UnwrittenError } from '../../postgres/wire/session-errors.ts';
import { UnreplicatedError } from '../../postgres/wire/unreplicated.ts';
import { type Command, writeCommands } from './commands.ts';
import type { Exchange } from './exchange.ts';
import { noteFate, noteOverLimit, StatementFailed, saysOverLimit } from './failures.ts';
import { sqlFailure } from './sql-failure.ts';
import type { Stoppable } from './statement-deadline.ts';

/** All answers together. Larger ones are counted while the statements run one by one. */
const maxAnswerBytes = 256 * 1024;

export class Sequence implements Receiver, Stoppable {
  /** It was cancelled for a large answer: a cancel that arrives late would hit the next statement. */
  isHalted = false;
  private readonly session: Session;
  private readonly exchanges: readonly Exchange[];
  private readonly last: readonly Command[];
  private readonly onDone: (exchange: Exchange) => number;
  private turn = 0;
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
    this.session = session;
    this.exchanges = exchanges;
    this.last = last;
    this.onDone = onDone;
  }

  get isRead(): boolean {
    return this.exchanges.every((exchange) => exchange.isRead);
  }

  /** False: nothing of it has happened. If the session is usable, it is as it was. */
  async run(): Promise<boolean> {
    const { session, exchanges, last } = this;
    const parsed = new Map<string, PreparedStatement>();
    for (const exchange of exchanges) exchange.writeInGroup(parsed);
    writeCommands(session.out, last);
    session.out.sync();
    const lost = await new Promise<Error | null>((resolve) => {
      this.end = resolve;
      session.send(this);
      session.flush();
    });
    return this.settle(lost);
  }

  private settle(lost: Error | null): boolean {
    const { failure, stoppedBy } = this;
    if (lost && !this.isUndone(lost)) throw errors.outcomeUnknown(lost);
    if (stoppedBy && (lost || failure)) throw noteFate(stoppedBy, 'undone');
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

  private get current(): Exchange | undefined {
    return this.exchanges[this.turn];
  }

  parameterTypes(): void {}

  bound(): void {
    this.current?.bound();
  }

  rowDescription(bytes: Buffer, start: number): void {
    this.current?.rowDescription(bytes, start);
  }

  noData(): void {
    this.current?.noData();
  }

  row(bytes: Buffer, start: number, end: number): void {
    this.current?.row(bytes, start, end);
    this.haltIfLarge();
  }

  rowPart(bytes: Buffer, start: number, end: number, left: number): void {
    this.current?.rowPart(bytes, start, end, left);
    this.haltIfLarge();
  }

  private haltIfLarge(): void {
    const isLarge = this.current?.isStreaming || this.answerBytes > maxAnswerBytes;
    if (!isLarge || this.isHalted) return;
    this.isHalted = true;
    void this.session.cancel();
  }

  complete(tag: string | null): void {
    const { current } = this;
    const isIdentity = current?.isBeforeTarget === true;
    current?.complete(tag);
    if (isIdentity) return;
    if (current) this.answerBytes += this.onDone(current);
    this.turn++;
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

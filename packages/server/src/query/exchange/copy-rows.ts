// Imports a caller's rows into a table with COPY in one transaction, and turns its outcome into a result or an error.
import { errors, RowhouseError } from '../../errors/errors.ts';
import { CopyIn, type CopySource } from '../../postgres/wire/copy-in.ts';
import { newStatement, type PreparedStatement } from '../../postgres/wire/prepared-statements.ts';
import type { ServerError } from '../../postgres/wire/server-error.ts';
import { type Session, TooLargeError } from '../../postgres/wire/session.ts';
import type { Clock } from './answer-writer.ts';
import { type Command, writeCommands } from './commands.ts';
import { noteFate, noteOverLimit, StatementFailed, saysOverLimit } from './failures.ts';
import type { Stoppable } from './statement-deadline.ts';

export type CopyInput = Readonly<{
  /** Checks that must pass before the COPY, in the same transaction. */
  before: readonly string[];
  /** A further check behind those, which stays prepared. */
  guard?: string;
  text: string;
  /** Ends the transaction. */
  after: readonly Command[];
  /** A stream must have its own time limit: the statement's clock is paused while waiting for it. */
  source: CopySource;
  /** Turns PostgreSQL's error into the caller's. `hasBegun`: it came with or after the first row, not before. */
  explain(error: ServerError, hasBegun: boolean): RowhouseError;
}>;

export class CopyRows implements Stoppable {
  private readonly input: CopyInput;
  private readonly session: Session;
  private readonly copy: CopyIn;
  private readonly guard: PreparedStatement | null;
  private stoppedBy: RowhouseError | null = null;
  private clock: Clock | null = null;

  constructor(session: Session, input: CopyInput) {
    this.input = input;
    this.session = session;
    const { guard = null } = input;
    const known = guard === null ? undefined : session.statements.get(guard);
    this.guard = guard === null ? null : (known ?? newStatement());
    this.copy = new CopyIn({
      session,
      // Not the role's default: `before` must see the state that is current once its locks are held.
      before: [
        'begin isolation level read committed',
        ...input.before,
        ...(this.guard ? [{ name: this.guard.name, text: known ? null : guard }] : []),
      ],
      text: input.text,
      after: { count: input.after.length, write: (out) => writeCommands(out, input.after) },
      source: input.source,
      clock: {
        pause: () => this.clock?.pause(Number.POSITIVE_INFINITY),
        resume: () => this.clock?.resume(),
      },
    });
  }

  useClock(clock: Clock): void {
    this.clock = clock;
  }

  stop(because: RowhouseError): void {
    this.stoppedBy ??= because;
    this.copy.stop();
  }

  /** Returns the number of rows. Throws the caller's error; after a `StatementFailed` the session is usable. */
  async run(): Promise<number> {
    const status = await this.copy.run();
    const { failure, sourceFailure, isComplete, tag } = this.copy;
    this.keepGuard(failure === null);
    if (status === 'idle' && isComplete) return Number(tag.replace('COPY ', ''));
    if (status instanceof TooLargeError) {
      // The message quotes the value before it names the position, so the position is unknown.
      throw new RowhouseError('sql_error', 'PostgreSQL refused a row with a message of more than 1 MB.', {
        hint: 'No row was imported. Look for a very long value in a column that does not accept it.',
      });
    }
    const broken = status instanceof Error ? status : failure?.severity !== 'ERROR' ? failure : null;
    if (broken && this.copy.mayBeCommitted) throw errors.outcomeUnknown(broken);
    if (this.stoppedBy) throw noteFate(this.stoppedBy, 'undone');
    if (sourceFailure) throw asStatementFailed(sourceFailure.error, status);
    if (broken || status instanceof Error || !failure) throw errors.unavailable(broken ?? status);
    const reason = this.input.explain(failure, this.copy.hasBegun);
    if (this.copy.isCopied && saysOverLimit(failure)) noteOverLimit(reason);
    throw new StatementFailed(reason, status);
  }

  /** Whether it was parsed before a failure is not known: closing an unknown one does no harm. */
  private keepGuard(isParsed: boolean): void {
    const { guard, session, input } = this;
    if (!guard || input.guard === undefined || !session.isUsable) return;
    if (isParsed) session.statements.keep(input.guard, guard);
    else session.statements.close(input.guard, guard);
  }
}

function asStatementFailed(error: unknown, status: 'idle' | 'transaction' | 'failed' | Error): unknown {
  return error instanceof RowhouseError && !(status instanceof Error)
    ? new StatementFailed(error, status)
    : error;
}

// What one request does in a session of its own: it is taken, its time is kept, and it is given back clean or not at all.
import type { ProjectLogin } from '../../engine/provision.ts';
import { errors, RowhouseError } from '../../errors.ts';
import type { ServerError } from '../../postgres/server-error.ts';
import { type Session, silent } from '../../postgres/session.ts';
import { sqlstate } from '../../postgres/sqlstate.ts';
import { beginning, enter, lockReadOnly, refusalOf } from '../exchange/acting-users.ts';
import { type Command, writeCommands } from '../exchange/commands.ts';
import { type CopyInput, CopyRows } from '../exchange/copy-rows.ts';
import { Exchange, type Form, type Frame, type Sink, type StatementInput } from '../exchange/exchange.ts';
import {
  noteFate,
  noteOverLimit,
  Sound,
  saysOverLimit,
  triedToWrite,
  wasRaised,
} from '../exchange/failures.ts';
import { type OwnFrame, queryFramed, soundFailure } from '../exchange/query-one.ts';
import { sqlFailure } from '../exchange/sql-failure.ts';
import { hungUp, type Reader, Watch } from '../exchange/statement-deadline.ts';
import { type Conduct, type Statement, worst } from '../statement/statement.ts';
import type { ProjectSessions, SessionUse } from './project-sessions.ts';
import type { Leaves } from './session-reset.ts';
import {
  type Habit,
  type Habits,
  isPlain,
  know,
  learn,
  mayRunCode,
  noteDuration,
} from './statement-profiles.ts';

export type WorkDeps = { sessions: ProjectSessions; habits: Habits };
/** What a visitor does is never taken to be plain: no user finds traces of another. */
export type Terms = { reader: Reader; timeoutMs: number; use: SessionUse; watching?: Watching };
type Question = {
  isPlain?: boolean;
  first?: readonly Command[];
  last?: readonly Command[];
  changes?: boolean;
  readOnly?: boolean;
};
/** Begins to look after what runs; `stop` ends it. Gives what ends the looking. Throws if it must not run now. */
export type Watching = (stop: (because: RowhouseError, patienceMs?: number) => void) => () => void;

/** Takes a session, keeps the time, and gives the session back clean or not at all. */
export async function alone<T>(
  { sessions, habits }: WorkDeps,
  project: ProjectLogin,
  { reader, timeoutMs, watching, use: wanted }: Terms,
  use: (work: Work) => Promise<T>,
): Promise<T> {
  if (reader.isGone) throw noteFate(hungUp(), 'undone');
  const purpose = project.visitor === undefined ? wanted : 'any';
  const idle = purpose === 'any' ? null : sessions.takeIdle(project, purpose);
  const session = idle ?? (await sessions.acquire(project, purpose));
  let watch: Watch | null = null;
  let unwatch: (() => void) | undefined;
  try {
    // It may have happened while we waited for the session.
    if (reader.isGone) throw noteFate(hungUp(), 'undone');
    if (performance.now() >= reader.startedAt + timeoutMs)
      throw noteFate(errors.queryTimeout(timeoutMs), 'undone');
    unwatch = watching?.((because, patienceMs) => watch?.stop(because, patienceMs));
  } catch (error) {
    sessions.release(project, session, 'clean');
    throw error;
  }
  watch = new Watch(session, reader, timeoutMs, sessions.terminate);
  const work = new Work({ sessions, habits }, project, session, watch);
  try {
    return await use(work);
  } catch (error) {
    work.onFailure();
    if (!(error instanceof Sound)) {
      work.isBroken = true;
      // One of ours around the statement, which was stopped with it.
      const isStopped = error instanceof RowhouseError && error.code === 'unavailable' && watch.stoppedBy;
      throw isStopped ? watch.stoppedBy : error;
    }
    if (!watch.isStopped && error.status !== 'idle')
      await work.command('rollback').catch(() => {
        work.isBroken = true;
      });
    if (error.reason.sql?.state === sqlstate.limitExceeded && !wasRaised(error.reason))
      sessions.limitReached();
    // A commit of ours that the deadline cancelled.
    throw watch.stoppedBy ? noteFate(watch.stoppedBy, 'undone') : error.reason;
  } finally {
    unwatch?.();
    watch.end();
    if (watch.isStopped) work.isBroken = true;
    sessions.release(project, session, work.leaves);
    if (work.changedBy) habits.forget(project.id, work.changedBy);
  }
}

/** What one request does in its session. */
export class Work {
  isBroken = false;
  /** For what its answer holds by then. */
  onFailure: () => void = () => {};
  /** It ran something that can make, change or drop tables. */
  changedBy: 'schema' | 'code' | null = null;
  private conduct: Conduct = 'clean';
  /** Only of statements that are provably so; one that is not decides for all. */
  private isPlain: boolean;
  private readonly sessions: ProjectSessions;
  private readonly habits: Habits;
  private readonly project: ProjectLogin;
  private readonly session: Session;
  private readonly watch: Watch;

  constructor({ sessions, habits }: WorkDeps, project: ProjectLogin, session: Session, watch: Watch) {
    this.sessions = sessions;
    this.habits = habits;
    this.project = project;
    this.session = session;
    this.watch = watch;
    this.isPlain = project.visitor === undefined;
  }

  exchange(statement: Statement, input: StatementInput, sink: Sink, frame: Frame, form: Form): Exchange {
    const { session, sessions, project } = this;
    return new Exchange({
      session,
      statement,
      input,
      frame,
      sink,
      form,
      aside: (look) => sessions.aside(project, look),
    });
  }

  async run(exchange: Exchange, habit: Habit): Promise<void> {
    if (this.session.readsOtherwise) throw errors.statementNotAllowed(...otherReading);
    this.watch.follow(exchange);
    this.conduct = worst(this.conduct, exchange.conduct);
    const { preparable, conduct, writes, reached, changes, canCommit, isVacuum } = exchange.statement;
    // Whether an insert runs code is found out before: one that does makes all be forgotten that is known.
    const isInsert = writes && reached !== null && !changes;
    if (isInsert && exchange.endsIdle) await this.know(habit);
    if (this.stoppedBy) throw noteFate(this.stoppedBy, 'undone');
    if (exchange.conduct !== 'clean') this.watch.noteChange();
    if (!preparable || conduct === 'wild') this.changedBy = 'schema';
    else if (mayRunCode(habit)) this.changedBy ??= 'code';
    // Unless it comes to its end, nothing is known of it.
    const wasPlain = this.isPlain;
    this.isPlain = false;
    const endChange = canCommit && !isVacuum ? this.habits.beginChange(this.project.id) : null;
    try {
      await exchange.run();
    } finally {
      endChange?.();
    }
    this.conduct = worst(this.conduct, exchange.conduct);
    this.isPlain = wasPlain && isPlain(habit);
    // Before it is asked what it does: the answer is about what there is after it.
    if (this.changedBy === 'code') {
      this.habits.forget(this.project.id, 'code');
      this.changedBy = null;
    }
    // Many that wait for this process look slow although they are not: whether it is, the lanes find out.
    if (exchange.isLarge) noteDuration(habit, 1_000);
    else if (exchange.durationMs < habit.usualMs) noteDuration(habit, exchange.durationMs);
    // Never inside a transaction of the caller's: a question that failed would undo it.
    if (exchange.endsIdle && !this.project.visitor) learn(habit, this.session);
  }

  /** Not inside a transaction: a question that failed would undo it. */
  async know(habit: Habit): Promise<void> {
    const { writes, changes } = habit.statement;
    if (!isPlain(habit) && writes && !changes && !this.project.visitor) await know(habit, this.session);
  }

  /**
   * `first`: in the same transaction; what the question sees is as it was after those. `last`: before it is committed.
   * `changes`: it does not only look.
   */
  ask(
    query: string,
    parameters: (string | null)[],
    { isPlain = true, first = [], last = [], changes = false, readOnly = false }: Question = {},
  ): Promise<string | null> {
    this.isPlain &&= isPlain;
    const framed = this.frameOf(first, last, readOnly);
    return queryFramed(this.session, query, parameters, framed).catch((error) => {
      // It ran code of the project's after all.
      if (triedToWrite(error)) this.isPlain = false;
      const isAnswered = error instanceof Sound || error instanceof RowhouseError;
      if (!isAnswered && changes) throw errors.outcomeUnknown(error);
      if (this.stoppedBy)
        throw noteFate(this.stoppedBy, changes && !(error instanceof Sound) ? 'uncertain' : 'undone');
      throw isAnswered ? error : errors.unavailable(error);
    });
  }

  private frameOf(first: readonly Command[], last: readonly Command[], readOnly: boolean): OwnFrame {
    const { visitor } = this.project;
    const isBare = !visitor && !readOnly && first.length + last.length === 0;
    if (isBare) return { before: [], after: [], explain: soundFailure };
    const before = [...beginning(readOnly, visitor), ...first];
    return { before, after: [...last, 'commit'], explain: visitor ? refusalOf : soundFailure };
  }

  /** Begins a transaction; a visitor's, as that user. One that is `readOnly` stays so. */
  async begin(text: string, readOnly = false): Promise<void> {
    const { visitor } = this.project;
    const commands = visitor ? enter(visitor, text) : readOnly ? [text, lockReadOnly] : [text];
    await tell(this.session, commands, visitor ? refusalOf : soundFailure, errors.unavailable);
  }

  /** Ends the transaction; what is in `commands` before that has to hold. */
  async commit(commands: readonly Command[]): Promise<void> {
    const explain = (error: ServerError, status: Sound['status']) => {
      const reason = sqlFailure(error);
      if (saysOverLimit(error)) noteOverLimit(reason);
      return new Sound(reason, status);
    };
    this.watch.noteChange();
    const tag = await tell(this.session, commands, explain, errors.outcomeUnknown);
    // What cannot be committed is rolled back without an error.
    if (tag !== 'COMMIT') throw errors.unavailable(`commit gave ${tag}`);
  }

  /** A statement of ours, waited for. */
  command(text: string): Promise<void> {
    return command(this.session, text);
  }

  /** Rows from the caller into a table; how many. `leaves`: what they can leave here if all goes well. */
  async copy(input: CopyInput, leaves: 'plain' | 'sequences' | 'data'): Promise<number> {
    const copy = new CopyRows(this.session, input);
    this.watch.follow(copy);
    this.watch.noteChange();
    if (leaves !== 'plain') this.conduct = worst(this.conduct, 'data');
    const wasPlain = this.isPlain;
    this.isPlain = false;
    const count = await copy.run();
    this.isPlain = wasPlain && leaves !== 'data';
    return count;
  }

  get serverMajor(): number {
    return this.session.serverMajor;
  }

  /** The deadline, or a caller who hung up. */
  get stoppedBy(): RowhouseError | null {
    return this.watch.stoppedBy;
  }

  get leaves(): Leaves {
    if (this.isBroken) return 'broken';
    if (!this.isPlain || this.conduct === 'wild') return this.conduct;
    return this.conduct === 'clean' ? 'plain' : 'sequences';
  }
}

/** After a statement of the same transaction. What was parsed here would be another text to PostgreSQL. */
const otherReading = [
  'A statement before this one changed standard_conforming_strings or client_encoding.',
  'Leave both as they are. For a backslash in a string, write E\'…\' or use "params".',
] as const;

async function command(session: Session, text: string): Promise<void> {
  await tell(session, [text], (error) => new Sound(sqlFailure(error), 'idle'), errors.unavailable);
}

/** The last one's tag. `onLost`: what it means that the session broke meanwhile. */
function tell(
  session: Session,
  commands: readonly Command[],
  explain: (error: ServerError, status: Sound['status']) => Error,
  onLost: (cause: unknown) => Error,
): Promise<string | null> {
  writeCommands(session.out, commands);
  session.out.sync();
  return new Promise((resolve, reject) => {
    let failure: ServerError | null = null;
    let last: string | null = null;
    session.send({
      ...silent,
      complete: (tag) => {
        last = tag;
      },
      error: (error) => {
        failure = error;
      },
      ready: (status) => (failure ? reject(explain(failure, status)) : resolve(last)),
      lost: (error) => reject(onLost(error)),
    });
  });
}

// A session that one request has to itself: taken from the pool, bounded by a deadline, and given back clean or closed.

import { errors, RowhouseError } from '../../errors/errors.ts';
import { sqlstate } from '../../postgres/sqlstate.ts';
import { mayChangeDefinitions } from '../../postgres/wire/command-tags.ts';
import type { ServerError } from '../../postgres/wire/server-error.ts';
import type { Session } from '../../postgres/wire/session.ts';
import type { ProjectLogin } from '../../servers/databases/login.ts';
import { beginning, enter, lockReadOnly, refusalOf } from '../exchange/acting-users.ts';
import type { StatementInput } from '../exchange/answer-writer.ts';
import type { Command } from '../exchange/commands.ts';
import { type CopyInput, CopyRows } from '../exchange/copy-rows.ts';
import { Exchange } from '../exchange/exchange.ts';
import {
  noteFate,
  noteOverLimit,
  StatementFailed,
  saysOverLimit,
  triedToWrite,
  wasRaised,
} from '../exchange/failures.ts';
import type { Frame } from '../exchange/frame.ts';
import { type OwnFrame, queryFramed, statementFailed } from '../exchange/query-one.ts';
import type { Reader, Sink } from '../exchange/reader.ts';
import { Sequence } from '../exchange/sequence.ts';
import { sqlFailure } from '../exchange/sql-failure.ts';
import { hungUp, StatementDeadline } from '../exchange/statement-deadline.ts';
import { command, tell } from '../exchange/tell.ts';
import { type SessionEffect, worstEffect } from '../statement/statement.ts';
import type { ProjectSessions, SessionUse } from './project-sessions.ts';
import type { StatementRequest } from './request.ts';
import type { SessionState } from './session-reset.ts';
import {
  changesOf,
  distrust,
  isPlain,
  isProvenSince,
  know,
  knowAll,
  knowsNothing,
  learn,
  mayRunCode,
  noteDuration,
  type StatementProfile,
  type StatementProfiles,
} from './statement-profiles.ts';

export type ExclusiveDeps = { sessions: ProjectSessions; profiles: StatementProfiles };
export type SessionTerms = {
  reader: Reader;
  timeoutMs: number;
  use: SessionUse;
  supervise?: Supervise;
  /** How long it may wait until it begins, since its reader started. Left out: all the time is part of `timeoutMs`. */
  maxWaitMs?: number | undefined;
};
type Question = {
  isPlain?: boolean;
  first?: readonly Command[];
  last?: readonly Command[];
  changes?: boolean;
  readOnly?: boolean;
  grows?: boolean;
};
/** Starts the supervision of what runs; `stop` ends the statement. Returns what ends the supervision. Throws if the statement must not start now. */
export type Supervise = (stop: (because: RowhouseError, patienceMs?: number) => void) => () => void;

/** The account's own keys and members are one caller of its projects. */
const account = 'account';

/** Takes a session, keeps the deadline, and gives the session back clean, or closes it. */
export async function withSession<T>(
  { sessions, profiles }: ExclusiveDeps,
  project: ProjectLogin,
  terms: SessionTerms,
  use: (exclusive: ExclusiveSession) => Promise<T>,
): Promise<T> {
  const { reader, timeoutMs, supervise, use: wanted, maxWaitMs } = terms;
  if (sessions.gate.isClosed(project.id)) await passGate(sessions, project, terms);
  if (reader.isGone) throw noteFate(hungUp(), 'undone');
  const caller = project.caller ?? account;
  const idle = wanted === 'any' ? null : sessions.takeIdle(project, wanted, caller);
  const session = idle ?? (await sessions.acquire(project, wanted, caller));
  let deadline: StatementDeadline | null = null;
  let endSupervision: (() => void) | undefined;
  try {
    // The caller may have hung up while the request waited for the session.
    if (reader.isGone) throw noteFate(hungUp(), 'undone');
    if (performance.now() >= reader.startedAt + (maxWaitMs ?? timeoutMs))
      throw noteFate(maxWaitMs === undefined ? errors.queryTimeout(timeoutMs) : noSession(), 'undone');
    endSupervision = supervise?.((because, patienceMs) => deadline?.stop(because, patienceMs));
  } catch (error) {
    sessions.release(project, session, 'none');
    throw error;
  }
  const since = maxWaitMs === undefined ? reader.startedAt : performance.now();
  deadline = new StatementDeadline(session, reader, timeoutMs, sessions.terminate, since);
  const exclusive = new ExclusiveSession({ sessions, profiles }, project, session, deadline);
  try {
    return await use(exclusive);
  } catch (error) {
    exclusive.onFailure();
    if (!(error instanceof StatementFailed)) {
      exclusive.isBroken = true;
      // A statement of the service around the caller's, which was stopped together with it.
      const isStopped = error instanceof RowhouseError && error.code === 'unavailable' && deadline.stoppedBy;
      throw isStopped ? deadline.stoppedBy : error;
    }
    if (!deadline.isStopped && error.status !== 'idle')
      await exclusive.command('rollback').catch(() => {
        exclusive.isBroken = true;
      });
    if (error.reason.sql?.state === sqlstate.limitExceeded && !wasRaised(error.reason))
      sessions.limitReached(project);
    // The deadline cancelled the commit.
    throw deadline.stoppedBy ? noteFate(deadline.stoppedBy, 'undone') : error.reason;
  } finally {
    endSupervision?.();
    deadline.end();
    if (deadline.isStopped) exclusive.isBroken = true;
    sessions.release(project, session, exclusive.leaves);
    if (exclusive.changesDefinitions) sessions.outdate(project.id);
    if (exclusive.changedBy) profiles.forget(project.id, exclusive.changedBy, exclusive.changedByRun);
    // After that: in between, a statement that ran behind the change would count as plain.
    exclusive.endChange?.();
  }
}

function noSession(): RowhouseError {
  return errors.overloaded('Too many statements are waiting.', 1);
}

/** Waits while the project is paused, as long as the request has time. */
export async function passGate(
  { gate }: ProjectSessions,
  { id }: ProjectLogin,
  { reader, timeoutMs, maxWaitMs }: Pick<SessionTerms, 'reader' | 'timeoutMs' | 'maxWaitMs'>,
): Promise<void> {
  if (await gate.pass(id, reader.startedAt + (maxWaitMs ?? timeoutMs) - performance.now())) return;
  throw noteFate(maxWaitMs === undefined ? errors.queryTimeout(timeoutMs) : errors.projectPaused(), 'undone');
}

/** What one request can do in its session. */
export class ExclusiveSession {
  isBroken = false;
  /** Releases what the answer holds. */
  onFailure: () => void = () => {};
  /** It ran something that can create, change or drop tables. */
  changedBy: 'schema' | 'code' | null = null;
  /** Statements that are kept prepared may mean something else. */
  changesDefinitions = false;
  /** The statement that did, if it ran in a transaction of its own. */
  changedByRun: StatementProfile | null = null;
  /** Set while it may change tables: until it is called, no statement of the project counts as plain. */
  endChange: (() => void) | null = null;
  private effect: SessionEffect = 'none';
  /** True as long as every statement was provably plain. */
  private isPlain: boolean;
  private readonly sessions: ProjectSessions;
  private readonly profiles: StatementProfiles;
  private readonly project: ProjectLogin;
  private readonly session: Session;
  private readonly deadline: StatementDeadline;

  constructor(
    { sessions, profiles }: ExclusiveDeps,
    project: ProjectLogin,
    session: Session,
    deadline: StatementDeadline,
  ) {
    this.sessions = sessions;
    this.profiles = profiles;
    this.project = project;
    this.session = session;
    this.deadline = deadline;
    this.isPlain = true;
  }

  exchange(
    { statement, input, form }: Pick<StatementRequest, 'statement' | 'form'> & { input: StatementInput },
    sink: Sink,
    frame: Frame,
  ): Exchange {
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

  async run(exchange: Exchange, profile: StatementProfile): Promise<void> {
    if (this.session.settings.readsOtherwise) throw errors.statementNotAllowed(...otherReading);
    this.deadline.follow(exchange);
    this.effect = worstEffect(this.effect, exchange.effect);
    const { preparable, effect, writes, reached, changes, canCommit, isVacuum } = exchange.statement;
    // Whether an insert runs code is asked before it runs: if it does, all profiles of the project are forgotten.
    const isInsert = writes && reached !== null && !changes;
    if (isInsert && exchange.endsIdle && !knowsNothing(profile) && !isPlain(profile))
      await know(profile, this.session);
    if (this.stoppedBy) throw noteFate(this.stoppedBy, 'undone');
    if (exchange.mayChange) this.deadline.noteChange();
    if (!preparable || effect === 'anything') this.changedBy = 'schema';
    else if (mayRunCode(profile)) this.changedBy ??= 'code';
    this.changedByRun = this.changedBy === 'code' && exchange.endsIdle ? profile : null;
    // Until it has ended, nothing is known of it.
    const wasPlain = this.isPlain;
    this.isPlain = false;
    const before = changesOf(profile);
    // Before it runs: a statement that waited for its locks can be answered before it is.
    if ((canCommit || this.changedBy === 'schema') && !isVacuum)
      this.endChange ??= this.profiles.beginChange(this.project.id);
    const { changesDefinitions } = this;
    // Also if its outcome is not known.
    this.changesDefinitions ||= !preparable;
    await exchange.run();
    this.changesDefinitions = changesDefinitions || (!preparable && mayChangeDefinitions(exchange.tag ?? ''));
    this.effect = worstEffect(this.effect, exchange.effect);
    this.isPlain = wasPlain && isPlain(profile);
    // Before the catalog is asked about it: the answer describes the state after it.
    if (this.changedBy === 'code') {
      // In a batch, other sessions do not see yet what its code has created: all is forgotten again after the commit.
      if (!exchange.endsIdle) this.profiles.forget(this.project.id, 'code');
      else if (!isProvenSince(profile, before)) this.profiles.forget(this.project.id, 'code', profile);
      if (exchange.endsIdle) this.changedBy = null;
    }
    // When this process is busy, statements look slower than they are. Pipelines find out which ones really are slow.
    if (exchange.isLarge) noteDuration(profile, 1_000);
    else if (exchange.durationMs < profile.usualMs) noteDuration(profile, exchange.durationMs);
    // Never inside the caller's transaction: a question that failed would undo it.
    if (exchange.endsIdle) learn(profile, this.session);
  }

  /** Plain statements in one write and one transaction. False: nothing of them has happened. */
  async runTogether(
    exchanges: readonly Exchange[],
    profiles: readonly StatementProfile[],
    { last, onDone }: { last: readonly Command[]; onDone: (exchange: Exchange) => number },
  ): Promise<boolean> {
    const sequence = new Sequence(this.session, exchanges, last, onDone);
    if (this.session.settings.readsOtherwise) throw errors.statementNotAllowed(...otherReading);
    this.deadline.follow(sequence);
    if (this.stoppedBy) throw noteFate(this.stoppedBy, 'undone');
    // A policy or a trigger may have come while they waited for the session.
    if (!profiles.every(isPlain)) return false;
    if (!sequence.isRead) {
      this.deadline.noteChange();
      this.effect = worstEffect(this.effect, 'rows');
    }
    await sequence.run();
    const { hasRun } = sequence;
    const writer = profiles[sequence.writesAt];
    if (writer) distrust(writer);
    // Halted: not together again for their next dozen runs.
    const share = sequence.isHalted ? 1_000 : sequence.durationMs / profiles.length;
    for (const profile of profiles)
      if (sequence.isHalted || (hasRun && share < profile.usualMs)) noteDuration(profile, share);
    if (sequence.isHalted || !this.session.isUsable) {
      this.isBroken = true;
      return hasRun;
    }
    this.isPlain &&= profiles.every(isPlain);
    this.learn(profiles);
    return hasRun;
  }

  /** Behind the transaction in which they ran, so that a question that fails undoes nothing. */
  learn(profiles: readonly StatementProfile[]): void {
    // Before the catalog is asked, as in `run`: an answer from before that would be outdated, and nothing ever known.
    if (this.changedBy === 'code') {
      this.profiles.forget(this.project.id, 'code');
      this.changedBy = null;
    }
    for (const profile of profiles) learn(profile, this.session);
  }

  /** Not inside a transaction: a question that failed would undo it. */
  knowAll(profiles: readonly StatementProfile[]): Promise<void> {
    return knowAll(profiles, this.session);
  }

  /**
   * `first`: in the same transaction; what the question sees is as it was after those. `last`: before it is committed.
   * `changes`: it does not only look. `grows`: see `Session.hasGrown`.
   */
  ask(
    query: string,
    parameters: (string | null)[],
    {
      isPlain = true,
      first = [],
      last = [],
      changes = false,
      readOnly = false,
      grows = false,
    }: Question = {},
  ): Promise<string | null> {
    this.isPlain &&= isPlain;
    this.session.hasGrown ||= grows;
    const framed = this.frameOf(first, last, readOnly);
    return queryFramed(this.session, query, parameters, framed).catch((error) => {
      // It ran the project's code after all.
      if (triedToWrite(error)) this.isPlain = false;
      const isAnswered = error instanceof StatementFailed || error instanceof RowhouseError;
      if (!isAnswered && changes) throw errors.outcomeUnknown(error);
      if (this.stoppedBy)
        throw noteFate(
          this.stoppedBy,
          changes && !(error instanceof StatementFailed) ? 'uncertain' : 'undone',
        );
      throw isAnswered ? error : errors.unavailable(error);
    });
  }

  private frameOf(first: readonly Command[], last: readonly Command[], readOnly: boolean): OwnFrame {
    const { actingUser } = this.project;
    const isBare = !actingUser && !readOnly && first.length + last.length === 0;
    if (isBare) return { before: [], after: [], explain: statementFailed };
    const before = [...beginning(readOnly, actingUser), ...first];
    return { before, after: [...last, 'commit'], explain: actingUser ? refusalOf : statementFailed };
  }

  /** Begins a transaction, as the acting user if there is one. A `readOnly` one stays read-only. */
  async begin(text: string, readOnly = false): Promise<void> {
    const { actingUser } = this.project;
    const commands = actingUser ? enter(actingUser, text) : readOnly ? [text, lockReadOnly] : [text];
    await tell(this.session, commands, actingUser ? refusalOf : statementFailed, errors.unavailable);
  }

  /** Commits, if the `commands` before the commit succeed. `readOnly`: the transaction was begun so. */
  async commit(commands: readonly Command[], readOnly = false): Promise<void> {
    const explain = (error: ServerError, status: StatementFailed['status']) => {
      const reason = sqlFailure(error);
      if (saysOverLimit(error)) noteOverLimit(reason);
      return new StatementFailed(reason, status);
    };
    if (!readOnly) this.deadline.noteChange();
    const onBreak = readOnly ? errors.unavailable : errors.outcomeUnknown;
    const tag = await tell(this.session, commands, explain, onBreak);
    // PostgreSQL answers COMMIT in a failed transaction with ROLLBACK, without an error.
    if (tag !== 'COMMIT') throw errors.unavailable(`commit gave ${tag}`);
  }

  /** A statement of the service. */
  command(text: string): Promise<void> {
    return command(this.session, text);
  }

  /** Copies the caller's rows into a table and returns their number. `leaves`: what a successful copy leaves in the session. */
  async copy(input: CopyInput, leaves: 'plain' | 'sequences' | 'rows'): Promise<number> {
    const copy = new CopyRows(this.session, input);
    this.deadline.follow(copy);
    if (this.stoppedBy) throw noteFate(this.stoppedBy, 'undone');
    this.deadline.noteChange();
    if (leaves !== 'plain') this.effect = worstEffect(this.effect, 'rows');
    const wasPlain = this.isPlain;
    this.isPlain = false;
    const count = await copy.run();
    this.isPlain = wasPlain && leaves !== 'rows';
    return count;
  }

  get serverMajor(): number {
    return this.session.settings.serverMajor;
  }

  /** The deadline, or a caller that hung up. */
  get stoppedBy(): RowhouseError | null {
    return this.deadline.stoppedBy;
  }

  get leaves(): SessionState {
    if (this.isBroken) return 'broken';
    if (!this.isPlain || this.effect === 'anything') return this.effect;
    return this.effect === 'none' ? 'plain' : 'sequences';
  }
}

/** PostgreSQL would read the text differently from the parser that judged it. */
const otherReading = [
  'A statement before this one changed standard_conforming_strings or client_encoding.',
  'Leave both as they are. For a backslash in a string, write E\'…\' or use "params".',
] as const;

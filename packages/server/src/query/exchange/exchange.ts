// The protocol of one statement in a session: the messages that are sent, those that come back, and what the outcome means.
// answer-writer.ts writes the answer, statement-deadline.ts keeps the time.
import { errors, type RowhouseError } from '../../errors/errors.ts';
import { newStatement, type PreparedStatement } from '../../postgres/wire/prepared-statements.ts';
import type { ServerError } from '../../postgres/wire/server-error.ts';
import { type Receiver, type Session, silent } from '../../postgres/wire/session.ts';
import { UnwrittenError } from '../../postgres/wire/session-errors.ts';
import { type Layout, objects, type ResultShape } from '../json/layout.ts';
import { needsTypes } from '../json/parameters.ts';
import { type Column, readColumns, typesOf, unknownTypes } from '../json/row-writer.ts';
import type { ValueType } from '../json/value-kinds.ts';
import type { SessionEffect, Statement } from '../statement/statement.ts';
import { AnswerWriter, type Clock, type Form, isLargeInput, type StatementInput } from './answer-writer.ts';
import { writeCommands } from './commands.ts';
import { type EncodedInput, encode, encodeLarge, prepareForTypes } from './encoded-input.ts';
import { isOfTheMoment, MovedError, noteFate } from './failures.ts';
import type { Frame } from './frame.ts';
import { type Ended, isSentWithCommit, mayChange, problemOf } from './outcome.ts';
import type { Sink } from './reader.ts';
import { isStable, lookUpTypes } from './type-lookup.ts';

export type ExchangeOptions = {
  session: Session;
  statement: Statement;
  input: StatementInput;
  frame: Frame;
  sink: Sink;
  form: Form;
  /** Another session, for looking up the project's types. */
  aside: <T>(use: (session: Session) => Promise<T>) => Promise<T>;
};

const preparedText = 16_384;

/** It receives the session's messages itself: this is the hottest path there is. */
export class Exchange implements Receiver {
  /** What it can leave behind in the session. */
  effect: SessionEffect;
  tag: string | null = '';
  durationMs = 0;
  private readonly options: ExchangeOptions;
  private readonly answer: AnswerWriter;
  private step = 0;
  private isBound = false;
  /** PostgreSQL may have received it. It confirms nothing before it has done all of it. */
  private isSent = false;
  private failure: ServerError | null = null;
  private prepared: PreparedStatement | null = null;
  /** From an earlier run, so that PostgreSQL need not describe it again. */
  private known: ResultShape | null = null;
  private keep = false;
  private end: (ended: Ended) => void = () => {};
  private isCopy = false;
  private isMoved = false;
  /** When it was written to the session. */
  startedAt = 0;
  /** Set by the deadline, or when the caller has hung up. */
  private stoppedBy: RowhouseError | null = null;
  /** Set if it was encoded before it is written. */
  private encoded: EncodedInput | null = null;

  constructor(options: ExchangeOptions) {
    this.options = options;
    this.answer = new AnswerWriter(options);
    this.effect = options.statement.effect;
  }

  get rowCount(): number {
    return this.answer.rowCount;
  }

  get truncated(): boolean {
    return this.answer.truncated;
  }

  get shape(): ResultShape | null {
    return this.answer.shape;
  }

  get isStreaming(): boolean {
    return this.answer.isStreaming;
  }

  /** Why its rows cannot be shown, although it ran to its end: the answer would be incomplete. */
  get refusedBy(): RowhouseError | null {
    return this.answer.refusedBy;
  }

  /** Others should not wait behind it. */
  get isLarge(): boolean {
    return this.answer.isLarge;
  }

  /** In a pipeline: called when the answer becomes larger than what is held. */
  get onStreaming(): (() => void) | null {
    return this.answer.onStreaming;
  }

  set onStreaming(call: (() => void) | null) {
    this.answer.onStreaming = call;
  }

  /** PostgreSQL has started it: it did not cause anything that happened before. */
  get hasBegun(): boolean {
    return this.isBound;
  }

  get endsIdle(): boolean {
    return this.options.frame.endsIn === 'idle';
  }

  get mayChange(): boolean {
    return mayChange({ frame: this.options.frame, effect: this.effect });
  }

  get isRead(): boolean {
    return this.statement.isRead;
  }

  get statement(): Statement {
    return this.options.statement;
  }

  /** Called by the deadline. The statement then ends with this error. */
  stop(because: RowhouseError): void {
    this.stoppedBy ??= because;
    this.answer.stop();
  }

  useClock(clock: Clock): void {
    this.answer.clock = clock;
  }

  /** It runs elsewhere: what still arrives here must not reach the caller a second time. */
  move(): void {
    this.isMoved = true;
    this.answer.isDiscarding = true;
    this.end(new MovedError());
  }

  /** Throws what the caller is told; a `StatementFailed` error leaves the session usable. */
  async run(): Promise<void> {
    const { session, input, statement, frame } = this.options;
    // In a batch a stale prepared statement would undo what ran before it, so each is parsed again.
    const isInBatch = frame.endsIn === 'transaction' && frame.before.length === 0;
    const kept = isInBatch ? null : (session.statements.get(input.query) ?? null);
    const keep = !isInBatch && statement.preparable && input.query.length <= preparedText;
    const isUnknown = needsTypes(input.params) && !kept?.parameterTypes;
    const prepared = isUnknown ? await this.learnTypes() : kept;
    const status = await this.attempt(prepared, keep);
    if (!kept || prepared !== kept || !this.mayBeStale(status)) return this.settle(status);
    if (this.isMoved) throw new MovedError();
    if (status === 'failed') await this.rollBack();
    this.failure = null;
    this.step = 0;
    const again = needsTypes(input.params) ? await this.learnTypes() : null;
    this.settle(await this.attempt(again, keep));
  }

  private async attempt(prepared: PreparedStatement | null, keep: boolean): Promise<Ended> {
    const { session, input } = this.options;
    if (isLargeInput(input)) {
      this.encoded = await encodeLarge(input, prepared?.parameterTypes ?? null);
      if (this.stoppedBy) throw noteFate(this.stoppedBy, 'undone');
    }
    const status = await this.send(prepared, keep);
    // Sent with the next exchange. A statement that was parsed but could not be planned would otherwise stay.
    if (this.prepared && (!keep || (this.failure && !this.isBound)))
      session.statements.close(input.query, this.prepared);
    return status;
  }

  /**
   * True if a kept statement failed before PostgreSQL had bound it. Nothing has run then, and the cause may be a schema change
   * after the statement was parsed: other types, other columns, a dropped table. Parsed once more, it succeeds or gets the error
   * that a new connection would get.
   */
  private mayBeStale(status: Ended): boolean {
    if (!this.failure || this.isBound || !this.isTarget || this.stoppedBy) return false;
    return !(status instanceof Error) && !isOfTheMoment(this.failure);
  }

  /** Ends the transaction that the frame began. If that fails, the next exchange reports it. */
  private rollBack(): Promise<unknown> {
    const { session } = this.options;
    session.out.parse('', 'rollback').bind('', []).execute(0).sync();
    return new Promise<unknown>((resolve) => session.send({ ...silent, ready: resolve, lost: resolve }));
  }

  private settle(status: Ended): void {
    const { frame, statement } = this.options;
    const { refusedBy, isDiscarding } = this.answer;
    const { failure, stoppedBy, isCopy } = this;
    const isOrdinary = !failure && !stoppedBy && !refusedBy && !isCopy && statement.isParsed;
    if (isOrdinary && status === frame.endsIn) return;
    const { effect, isBound, isSent, step, tag } = this;
    const reached = { frame, statement, effect, failure, isCopy, isBound, isSent, step, tag };
    const problem = problemOf(status, { ...reached, stoppedBy, isDiscarding, refusedBy });
    if (problem) throw problem;
  }

  /** Parameter types are needed for arrays only. */
  private async learnTypes(): Promise<PreparedStatement> {
    const { session, input } = this.options;
    const { prepared, status, failure } = await prepareForTypes(session, input.query);
    this.failure = failure;
    // The frame was not sent, so an error is about the caller's statement.
    if (this.failure) this.step = this.options.frame.before.length;
    const isSound = !this.failure && (status === 'idle' || status === 'transaction');
    this.settle(isSound ? this.options.frame.endsIn : status);
    return prepared;
  }

  private send(known: PreparedStatement | null, keep: boolean): Promise<Ended> {
    const { session } = this.options;
    this.write(known, keep);
    session.out.sync();
    return new Promise((resolve) => {
      this.end = resolve;
      session.send(this);
      this.isSent = session.isUsable;
      // An exclusive session has nothing to wait for. In a pipeline, others may join in this turn of the event loop.
      if (!this.answer.onStreaming) session.flush();
    });
  }

  private write(known: PreparedStatement | null, keep: boolean): void {
    const { session, statement, input, frame } = this.options;
    const prepared = known ?? (keep ? newStatement() : null);
    const name = prepared?.name ?? '';
    const { out } = session;
    const shape = prepared?.columns as ResultShape | null | undefined;
    this.known = shape?.layout === this.layout ? shape : null;
    // Before anything is written: a value that cannot be sent must not leave half a message.
    const { query, parameters } = this.encoded ?? encode(input, prepared?.parameterTypes ?? null);
    this.encoded = null;
    writeCommands(out, frame.before);
    if (!known) out.parse(name, query);
    out.bind(name, parameters);
    if (!this.known) out.describePortal();
    // One row more than asked for, to know whether there are more. A change runs to its end, however few rows are shown.
    out.execute(input.limit === null || statement.writes ? 0 : input.limit + 1);
    writeCommands(out, frame.after);
    this.prepared = prepared;
    this.keep = keep;
    this.startedAt = performance.now();
  }

  /** Encoded before anything of its transaction was written. */
  useInput(encoded: EncodedInput): void {
    this.encoded = encoded;
  }

  /** In a transaction with others, whose group hands on the messages. `parsed`: statements that the group has parsed. */
  writeInGroup(parsed: Map<string, PreparedStatement>): void {
    const { session, input } = this.options;
    this.write(session.statements.get(input.query) ?? parsed.get(input.query) ?? null, true);
    if (this.prepared) parsed.set(input.query, this.prepared);
  }

  /** It failed in its group: the tables may have changed since it was prepared. */
  unprepare(): void {
    const { session, input } = this.options;
    if (this.prepared) session.statements.close(input.query, this.prepared);
  }

  /** The frame's commands before the caller's statement have not all been completed. */
  get isBeforeTarget(): boolean {
    return this.step < this.options.frame.before.length;
  }

  /** Whether messages are now about the caller's statement, and not about the frame. */
  private get isTarget(): boolean {
    return this.step === this.options.frame.before.length;
  }

  private get layout(): Layout {
    return this.options.form.layout ?? objects;
  }

  parameterTypes(): void {}

  bound(): void {
    if (!this.isTarget) return;
    this.isBound = true;
    const { session, input } = this.options;
    if (this.keep && this.prepared) session.statements.keep(input.query, this.prepared);
    if (this.known) this.answer.begin(this.known);
  }

  rowDescription(bytes: Buffer, start: number): void {
    // Another exchange may have learned it since this one was sent.
    const shape = this.prepared?.columns as ResultShape | null | undefined;
    if (shape?.layout === this.layout && !this.isMoved) this.answer.begin(shape);
    else this.describe(readColumns(bytes, start));
  }

  noData(): void {
    if (!this.isTarget) return;
    this.know(this.layout.empty);
    this.answer.begin(this.layout.empty);
  }

  complete(tag: string | null): void {
    if (this.isTarget) {
      this.tag = tag;
      this.durationMs = performance.now() - this.startedAt;
    }
    this.step++;
  }

  error(error: ServerError): void {
    this.failure ??= error;
  }

  copy(): void {
    this.isCopy = true;
    this.options.session.destroy();
  }

  unwritten(): void {
    // Nothing is known of one that can commit by itself: its last transaction need not be its first.
    if (!this.statement.canCommit) this.options.session.destroy(new UnwrittenError());
  }

  ready(status: 'idle' | 'transaction' | 'failed'): void {
    // Everything has been read: the session is free, however slow the reader is.
    this.answer.resume();
    this.end(status);
  }

  lost(error: Error): void {
    this.end(error);
  }

  private describe(columns: Column[]): void {
    if (this.isMoved) return;
    const unknown = this.layout.needsTypes ? unknownTypes(columns) : [];
    if (unknown.length === 0) {
      this.use(columns, new Map(), true);
      return;
    }
    const { session, aside } = this.options;
    session.hold();
    aside((other) => lookUpTypes(other, unknown)).then(
      (types) => {
        this.use(columns, types, [...types.values()].every(isStable));
        session.carryOn();
      },
      (error) => {
        // The statement was sent with its commit, and may have been committed.
        const isCommitSent = isSentWithCommit({ frame: this.options.frame, effect: this.effect });
        this.stop(isCommitSent ? errors.outcomeUnknown(error) : errors.unavailable(error));
        session.destroy();
      },
    );
  }

  private use(all: Column[], looked: Map<number, ValueType>, stable: boolean): void {
    const { hidden } = this.options.form;
    const columns = hidden === 0 ? all : all.slice(0, -hidden);
    const shape = this.layout.shapeOf(columns, typesOf(columns, looked));
    if (stable) this.know(shape);
    this.answer.begin(shape);
  }

  private know(shape: ResultShape): void {
    if (this.prepared) this.prepared.columns = shape;
  }

  row(bytes: Buffer, start: number, end: number): void {
    if (this.isTarget) this.answer.row(bytes, start, end);
  }

  rowPart(bytes: Buffer, start: number, end: number, left: number): void {
    if (this.isTarget) this.answer.rowPart(bytes, start, end, left);
  }

  /** The answer with its end; all of it, unless some has been streamed. */
  close(): Buffer {
    return this.answer.close(this.options.form.close(this));
  }

  /** The rest of the answer waits for other statements of its group. */
  pack(): void {
    this.answer.pack();
  }
}

// A statement running in a session: what is sent, what comes back, and the reader's pace. statement-deadline.ts keeps its time.
import { errors, type RowhouseError } from '../../errors.ts';
import type { Parameter, Pieces } from '../../postgres/frontend-messages.ts';
import { newStatement, type PreparedStatement } from '../../postgres/prepared-statements.ts';
import type { ServerError } from '../../postgres/server-error.ts';
import { type Receiver, type Session, silent } from '../../postgres/session.ts';
import { giveBack, JsonBytes } from '../json/json-bytes.ts';
import { isLarge } from '../json/large-json.ts';
import { type Layout, objects, type ResultShape } from '../json/layout.ts';
import {
  isLargeParameter,
  needsTypes,
  toLargeParameter,
  toLargeText,
  toParameter,
} from '../json/parameters.ts';
import { RowStream } from '../json/row-stream.ts';
import { type Column, readColumns, typesOf, unknownTypes } from '../json/row-writer.ts';
import type { ValueType } from '../json/value-kinds.ts';
import type { SessionEffect, Statement } from '../statement/statement.ts';
import { type Command, writeCommands } from './commands.ts';
import { MovedError, noteFate, StatementFailed } from './failures.ts';
import { type Ended, problemOf } from './outcome.ts';
import { isStable, lookUpTypes } from './type-lookup.ts';

export type StatementInput = Readonly<{
  query: string;
  params: readonly unknown[];
  limit: number | null;
  bigAsString: boolean;
}>;

/** Where the answer goes. `write` says whether there is room for more; `drained` calls back when there is again. */
export type Sink = {
  /** `onSent`: the bytes are out, and their memory may be used for others. */
  write(bytes: Buffer, onSent: (error?: Error | null) => void): boolean;
  drained(carryOn: () => void): void;
};

/** Statements of ours around the caller's, sent in the same write, and whether a transaction is open after them. */
export type Frame = { before: readonly Command[]; after: readonly Command[]; endsIn: 'idle' | 'transaction' };
export const noFrame: Frame = { before: [], after: [], endsIn: 'idle' };

/** What stands around an answer's rows. */
export type Form = Readonly<{
  opening: Buffer;
  /** Whether names of columns come before the rows. */
  hasHead: boolean;
  /** Whether rows are shown at all. */
  hasRows: boolean;
  /** So many columns at the end of each row are the service's own and not shown. */
  hidden: number;
  /** Told of the last row within the limit: is there more, the next page begins behind it. */
  onLastRow: ((row: Buffer, start: number) => void) | null;
  close(exchange: Exchange): string;
  /** Left out: the API's own. */
  layout?: Layout;
}>;

export type ExchangeOptions = {
  session: Session;
  statement: Statement;
  input: StatementInput;
  frame: Frame;
  sink: Sink;
  form: Form;
  /** For looking up types of the project's own. */
  aside: <T>(use: (session: Session) => Promise<T>) => Promise<T>;
};

/** An answer up to this size is complete before its first byte goes out; a larger one streams. */
const heldBytes = 256 * 1024;
const pieceBytes = 64 * 1024;
const preparedText = 16_384;

/** The session's own receiver: one object a statement, because this is the hottest path there is. */
export class Exchange implements Receiver {
  /** Made when the first of the answer comes, so that what only waits holds no memory. */
  private json: JsonBytes | null = null;
  rowCount = 0;
  truncated = false;
  isStreaming = false;
  /** What a session that ran this has to be cleaned of. */
  effect: SessionEffect;
  shape: ResultShape | null = null;
  tag: string | null = '';
  durationMs = 0;
  private readonly options: ExchangeOptions;
  private step = 0;
  private isBound = false;
  /** PostgreSQL may have got it: it says nothing of what it did before it has done all of it. */
  private isSent = false;
  private failure: ServerError | null = null;
  private prepared: PreparedStatement | null = null;
  /** From an earlier run: PostgreSQL is not asked again. */
  private known: ResultShape | null = null;
  private keep = false;
  private end: (ended: Ended) => void = () => {};
  private isCopy = false;
  private isPaused = false;
  private isDiscarding = false;
  private isMoved = false;
  private held: Buffer[] = [];
  private heldSize = 0;
  /** A row that comes in parts, and what it is written with; null: it is passed over. */
  private isInRow = false;
  private streamed: RowStream | null = null;
  /** When it was handed to PostgreSQL. */
  startedAt = 0;
  /** In a lane: told when the answer becomes larger than what is held back. */
  onStreaming: (() => void) | null = null;
  /** Set by the deadline or by a caller who hung up: what comes after is the end of it. */
  private stoppedBy: RowhouseError | null = null;
  /** Why its rows cannot be shown, although it runs to its end. */
  private refusedBy: RowhouseError | null = null;
  private clock: Clock | null = null;
  /** What is too large to be written in one go. */
  private encoded: { query: string | Pieces; parameters: Parameter[] } | null = null;

  constructor(options: ExchangeOptions) {
    this.options = options;
    this.effect = options.statement.effect;
  }

  /** Not what one would stand behind. */
  get isLarge(): boolean {
    return this.isStreaming || this.held.length > 0;
  }

  /** PostgreSQL has begun with it: nothing that happened before was its doing. */
  get hasBegun(): boolean {
    return this.isBound;
  }

  get endsIdle(): boolean {
    return this.options.frame.endsIn === 'idle';
  }

  get statement(): Statement {
    return this.options.statement;
  }

  /** Called by whoever keeps the time. The error that the statement ends with is the caller's. */
  stop(because: RowhouseError): void {
    this.stoppedBy ??= because;
    if (!this.isPaused) return;
    // What still comes is passed over, so that PostgreSQL hears of the cancel and does not wait for a reader.
    this.isDiscarding = true;
    this.goOn();
  }

  useClock(clock: Clock): void {
    this.clock = clock;
  }

  /** It is run elsewhere: whatever else comes here is nobody's business, and must not reach the caller a second time. */
  move(): void {
    this.isMoved = true;
    this.end(new MovedError());
  }

  /** Throws what the caller is told; a `StatementFailed` error leaves the session usable. */
  async run(): Promise<void> {
    const { session, input, statement, frame } = this.options;
    // In a batch a stale one would undo what ran before it, so there each is parsed anew.
    const isInBatch = frame.endsIn === 'transaction' && frame.before.length === 0;
    let prepared = isInBatch ? null : (session.statements.get(input.query) ?? null);
    const keep = !isInBatch && statement.preparable && input.query.length <= preparedText;
    if (needsTypes(input.params) && !prepared?.parameterTypes) prepared = await this.learnTypes(keep);
    if (isLargeInput(input)) await this.encode(prepared);
    const status = await this.send(prepared, keep);
    // Goes out with the next exchange. What was parsed and could not be planned is nobody's, and would stay for ever.
    if (prepared && !keep) session.out.closeStatement(prepared.name);
    if (!prepared && this.prepared && this.failure && !this.isBound)
      session.out.closeStatement(this.prepared.name);
    if (this.failure && this.isTarget && !this.isBound && prepared && isStalePlan(this.failure)) {
      if (this.isMoved) throw new MovedError();
      // Before anything ran: the tables have changed since it was prepared.
      session.statements.close(input.query, prepared);
      if (status === 'failed') await this.rollBack();
      this.failure = null;
      this.step = 0;
      const again = needsTypes(input.params) ? await this.learnTypes(keep) : null;
      if (isLargeInput(input)) await this.encode(again);
      this.settle(await this.send(again, keep));
      return;
    }
    this.settle(status);
  }

  /** The transaction that our own statements began; if that is not possible, what comes next says so. */
  private rollBack(): Promise<unknown> {
    const { session } = this.options;
    session.out.parse('', 'rollback').bind('', []).execute(0).sync();
    return new Promise<unknown>((resolve) => session.send({ ...silent, ready: resolve, lost: resolve }));
  }

  private settle(status: Ended): void {
    if (this.stoppedBy && !this.isCommitted(status))
      throw this.mayHaveStayed(status)
        ? errors.outcomeUnknown(status)
        : noteFate(this.stoppedBy, this.isUndone(status) ? 'undone' : 'uncertain');
    const { frame, statement } = this.options;
    const { failure, isCopy, isBound, isSent, step, tag } = this;
    if (this.refusedBy && status === 'idle' && !failure) throw errors.rowsNotShown(this.refusedBy);
    if (status === frame.endsIn && !failure && !isCopy && statement.isParsed) return;
    const isRead = this.effect === 'none';
    const problem = problemOf({
      status,
      frame,
      statement,
      failure,
      isCopy,
      isBound,
      isSent,
      isRead,
      step,
      tag,
    });
    if (problem && this.commitsByItself && isBound)
      noteFate(problem instanceof StatementFailed ? problem.reason : problem, 'uncertain');
    if (problem) throw problem;
  }

  /** A procedure, or what runs outside of transactions: no error takes back what it has committed. */
  private get commitsByItself(): boolean {
    const { frame, statement } = this.options;
    return statement.canCommit && frame.before.length === 0 && frame.endsIn === 'idle';
  }

  /** It was told to stop. PostgreSQL has said that it failed, or was never told to commit. */
  private isUndone(status: Ended): boolean {
    if (!this.isSent || !this.endsIdle) return true;
    // Of a session that was cut only what reads is known to have left nothing.
    if (status instanceof Error) return this.effect === 'none';
    return this.failure?.severity === 'ERROR' && !this.commitsByItself;
  }

  /** Sent with its commit: when the session is lost, nobody knows whether it was done. */
  private get commitsItself(): boolean {
    const { after } = this.options.frame;
    return this.effect !== 'none' && this.endsIdle && after.at(-1) !== 'rollback';
  }

  /** It was stopped by cutting the session. An error before its end, also that it was ended by force, undoes it. */
  private mayHaveStayed(status: Ended): boolean {
    if (!(status instanceof Error) || status instanceof MovedError || !this.isSent) return false;
    const { before, after } = this.options.frame;
    const isUndone = this.failure !== null && this.step < before.length + 1 + after.length;
    // It was found too large, and its size is checked before the commit: it cannot have come through.
    const isChecked = after.some((command) => typeof command !== 'string');
    const isRefused = isChecked && this.stoppedBy?.status === 507;
    return this.commitsItself && !isUndone && !isRefused;
  }

  /** It came to its end although it was told to stop: what was done counts, not what was wanted. */
  private isCommitted(status: Ended): boolean {
    const { before, after, endsIn } = this.options.frame;
    const isWhole = this.step === before.length + 1 + after.length && this.failure === null;
    return isWhole && !this.isDiscarding && endsIn === 'idle' && status === 'idle';
  }

  /** Parameter types are needed only for arrays: one more round trip, once for each statement and session. */
  private async learnTypes(keep: boolean): Promise<PreparedStatement> {
    const { session, input } = this.options;
    const prepared = newStatement();
    const query = isLarge(input.query) ? await toLargeText(input.query) : input.query;
    session.out.parse(prepared.name, query).describeStatement(prepared.name).sync();
    const status = await new Promise<Ended>((resolve) =>
      session.send({
        ...silent,
        parameterTypes: (oids) => {
          prepared.parameterTypes = oids;
        },
        error: (error) => {
          this.failure = error;
        },
        ready: resolve,
        lost: resolve,
      }),
    );
    // Nothing of ours was sent before it: an error is about the caller's statement.
    if (this.failure) this.step = this.options.frame.before.length;
    const isSound = !this.failure && (status === 'idle' || status === 'transaction');
    this.settle(isSound ? this.options.frame.endsIn : status);
    if (keep) session.statements.keep(input.query, prepared);
    return prepared;
  }

  /** With turns for others, which `write` cannot give. */
  private async encode(prepared: PreparedStatement | null): Promise<void> {
    const { query, params } = this.options.input;
    const parameters: Parameter[] = [];
    for (const [index, value] of params.entries())
      parameters.push(await toLargeParameter(value, prepared?.parameterTypes?.[index]));
    this.encoded = { query: isLarge(query) ? await toLargeText(query) : query, parameters };
    if (this.stoppedBy) throw noteFate(this.stoppedBy, 'undone');
  }

  private send(known: PreparedStatement | null, keep: boolean): Promise<Ended> {
    const { session } = this.options;
    this.write(known, keep);
    session.out.sync();
    return new Promise((resolve) => {
      this.end = resolve;
      session.send(this);
      this.isSent = session.isUsable;
      // In a session of its own there is nothing to wait for; in a lane others may join in this turn.
      if (!this.onStreaming) session.flush();
    });
  }

  private write(known: PreparedStatement | null, keep: boolean): void {
    const { session, statement, input, frame } = this.options;
    const prepared = known ?? (keep ? newStatement() : null);
    const name = prepared?.name ?? '';
    const { out } = session;
    const types = prepared?.parameterTypes;
    const shape = prepared?.columns as ResultShape | null | undefined;
    this.known = shape?.layout === this.layout ? shape : null;
    // Before anything is written: a value that cannot be sent leaves nothing half said.
    const { query, parameters } = this.encoded ?? {
      query: input.query,
      parameters: input.params.map((value, index) => toParameter(value, types?.[index])),
    };
    this.encoded = null;
    writeCommands(out, frame.before);
    if (!known) out.parse(name, query);
    out.bind(name, parameters);
    if (!this.known) out.describePortal();
    // One more than asked for, to know whether there is more. A change runs whole, whatever of it is shown.
    out.execute(input.limit === null || statement.writes ? 0 : input.limit + 1);
    writeCommands(out, frame.after);
    this.prepared = prepared;
    this.keep = keep;
    this.startedAt = performance.now();
  }

  /** In a transaction with others: whoever sends them hands on what comes. `parsed`: what others of them have. */
  writeInGroup(parsed: Map<string, PreparedStatement>): void {
    const { session, input } = this.options;
    this.write(session.statements.get(input.query) ?? parsed.get(input.query) ?? null, true);
    if (this.prepared) parsed.set(input.query, this.prepared);
  }

  /** It has failed there: the tables may have changed since it was prepared. */
  unprepare(): void {
    const { session, input } = this.options;
    if (this.prepared) session.statements.close(input.query, this.prepared);
  }

  /** Is it about the caller's statement, and not one of ours around it? */
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
    if (this.known) this.begin(this.known);
  }

  rowDescription(bytes: Buffer, start: number): void {
    // Another that was sent with it may have learned it since.
    const shape = this.prepared?.columns as ResultShape | null | undefined;
    if (shape?.layout === this.layout && !this.isMoved) this.begin(shape);
    else this.describe(readColumns(bytes, start));
  }

  noData(): void {
    if (!this.isTarget) return;
    this.know(this.layout.empty);
    this.begin(this.layout.empty);
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

  ready(status: 'idle' | 'transaction' | 'failed'): void {
    // All of it has been read: the session is free, however slowly the reader takes the rest.
    if (this.isPaused) this.goOn();
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
        // The statement was sent with its commit, and may be done by now.
        this.stop(this.commitsItself ? errors.outcomeUnknown(error) : errors.unavailable(error));
        session.destroy();
      },
    );
  }

  private use(all: Column[], looked: Map<number, ValueType>, stable: boolean): void {
    const { hidden } = this.options.form;
    const columns = hidden === 0 ? all : all.slice(0, -hidden);
    const shape = this.layout.shapeOf(columns, typesOf(columns, looked));
    if (stable) this.know(shape);
    this.begin(shape);
  }

  private know(shape: ResultShape): void {
    const prepared = this.options.session.statements.get(this.options.input.query);
    if (prepared) prepared.columns = shape;
  }

  private begin(shape: ResultShape): void {
    this.shape = shape;
    this.json = new JsonBytes(this.options.input);
    this.json.raw(this.options.form.opening);
    if (this.options.form.hasHead) this.json.raw(shape.head);
  }

  row(bytes: Buffer, start: number, end: number): void {
    const json = this.beginRow();
    if (!json) return;
    this.shape?.write(bytes, start, end, json);
    if (this.rowCount === this.options.input.limit) this.options.form.onLastRow?.(bytes, start);
    if (json.length > pieceBytes) this.cut(json);
  }

  /** Null: the row is not shown. */
  private beginRow(): JsonBytes | null {
    if (!this.isTarget || this.isDiscarding || this.isMoved) return null;
    const { limit } = this.options.input;
    if (limit !== null && this.rowCount === limit) {
      this.truncated = true;
      return null;
    }
    const { json } = this;
    if (!json) return null;
    if (this.rowCount++ > 0 && this.options.form.hasRows) json.byte(44);
    return this.options.form.hasRows ? json : null;
  }

  rowPart(bytes: Buffer, start: number, end: number, left: number): void {
    if (!this.isInRow) {
      this.isInRow = true;
      this.streamed = this.streamRow();
    }
    if (!this.isDiscarding && !this.isMoved) this.streamed?.push(bytes, start, end);
    if (left > 0) return;
    this.streamed?.end();
    const { input, form } = this.options;
    if (this.streamed && this.rowCount === input.limit) form.onLastRow?.(this.streamed.shortened(), 0);
    this.isInRow = false;
    this.streamed = null;
  }

  private streamRow(): RowStream | null {
    const json = this.beginRow();
    if (!json || !this.shape) return null;
    const { input, form } = this.options;
    const keeps = form.onLastRow !== null && this.rowCount === input.limit;
    const cutIfFull = () => {
      if (json.length > pieceBytes) this.cut(json);
    };
    return new RowStream(this.shape.plan, json, cutIfFull, keeps);
  }

  private cut(json: JsonBytes): void {
    const piece = json.take();
    this.held.push(piece);
    this.heldSize += piece.length;
    if (this.isStreaming || this.heldSize > heldBytes) this.flush();
  }

  /** The answer with its end; all of it, unless some has been streamed. */
  close(): Buffer {
    const json = this.json ?? new JsonBytes(this.options.input);
    json.text(this.options.form.close(this));
    const last = json.end();
    return this.held.length === 0 ? last : Buffer.concat([...this.held, last]);
  }

  /** The rest of the answer waits for others: it shall hold no more memory than it needs. */
  pack(): void {
    if (!this.json) return;
    this.held.push(this.json.end());
    this.json = null;
  }

  /** A full socket towards the caller stops PostgreSQL; nothing piles up in between. */
  private flush(): void {
    const { session, sink } = this.options;
    if (!this.isStreaming) {
      this.isStreaming = true;
      this.onStreaming?.();
    }
    let hasRoom = true;
    const { held } = this;
    this.held = [];
    this.heldSize = 0;
    try {
      for (const piece of held)
        hasRoom = sink.write(piece, (error) => {
          if (!error) giveBack(piece);
        });
    } catch (error) {
      this.refuse(error as RowhouseError);
    }
    if (hasRoom || this.isPaused) return;
    this.isPaused = true;
    session.pause();
    this.clock?.pause();
    sink.drained(() => {
      if (this.isPaused) this.goOn();
    });
  }

  /** There is no room for the answer. Unless its commit was sent with it, all is undone with the connection. */
  private refuse(error: RowhouseError): void {
    const { frame, statement } = this.options;
    if (frame.endsIn === 'transaction' || frame.after.includes('rollback') || statement.isRead) throw error;
    this.refusedBy = error;
    this.isDiscarding = true;
  }

  private goOn(): void {
    this.isPaused = false;
    this.clock?.resume();
    this.options.session.resume();
  }
}

/** Not for lanes and convoys, where all is written in one go. */
export function isLargeInput({ query, params }: StatementInput): boolean {
  return isLarge(query) || params.some(isLargeParameter);
}

/** `patienceMs`: how long the other side may take. */
export type Clock = { pause(patienceMs?: number): void; resume(): void };

/** "cached plan must not change result type", and a prepared statement that is gone. */
function isStalePlan({ state }: ServerError): boolean {
  return state === '0A000' || state === '26000';
}

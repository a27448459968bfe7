// The answer to one statement while it is written. Rows become JSON bytes. A small answer is complete before its first byte
// is sent; a larger one streams at the reader's pace.
import type { RowhouseError } from '../../errors/errors.ts';
import type { Session } from '../../postgres/wire/session.ts';
import { giveBack, JsonBytes } from '../json/json-bytes.ts';
import { isLarge } from '../json/large-json.ts';
import type { Layout, ResultShape } from '../json/layout.ts';
import { isLargeParameter } from '../json/parameters.ts';
import { RowStream } from '../json/row-stream.ts';
import type { Statement } from '../statement/statement.ts';
import type { Frame } from './frame.ts';
import type { Sink } from './reader.ts';

export type StatementInput = Readonly<{
  query: string;
  params: readonly unknown[];
  limit: number | null;
  bigAsString: boolean;
}>;

/** The parts of an answer around its rows. */
export type Form = Readonly<{
  opening: Buffer;
  /** Whether the column names come before the rows. */
  hasHead: boolean;
  hasRows: boolean;
  /** The byte between two rows. Left out: a comma. */
  separator?: number;
  /** This many columns at the end of each row are the service's own, and are not shown. */
  hidden: number;
  /** Called with the last row within the limit: if there are more, the next page starts after it. */
  onLastRow: ((row: Buffer, start: number) => void) | null;
  close(result: Result): string;
  /** Left out: the API's own. */
  layout?: Layout;
}>;

/** The result of a statement that has ended. */
export type Result = Readonly<{
  rowCount: number;
  /** There were more rows than the limit. */
  truncated: boolean;
  /** PostgreSQL's command tag; null if a limit ended the statement before its last row. */
  tag: string | null;
  durationMs: number;
  shape: ResultShape | null;
}>;

/** `patienceMs`: how long the reader may take. */
export type Clock = { pause(patienceMs?: number): void; resume(): void };

type Options = Readonly<{
  session: Session;
  statement: Statement;
  input: StatementInput;
  frame: Frame;
  sink: Sink;
  form: Form;
}>;

/** An answer up to this size is complete before its first byte is sent. */
const heldBytes = 256 * 1024;
const pieceBytes = 64 * 1024;

export class AnswerWriter {
  rowCount = 0;
  truncated = false;
  isStreaming = false;
  shape: ResultShape | null = null;
  /** Rows that still arrive are not shown. */
  isDiscarding = false;
  /** Why the rows cannot be shown, although the statement runs to its end. */
  refusedBy: RowhouseError | null = null;
  /** Called when the answer becomes larger than what is held. */
  onStreaming: (() => void) | null = null;
  clock: Clock | null = null;
  private readonly options: Options;
  /** Created when the first part of the answer arrives, so that a waiting statement holds no memory. */
  private json: JsonBytes | null = null;
  private held: Buffer[] = [];
  private heldSize = 0;
  private isPaused = false;
  /** A row that arrives in parts; `streamed` null: it is not shown. */
  private isInRow = false;
  private streamed: RowStream | null = null;

  constructor(options: Options) {
    this.options = options;
  }

  get isLarge(): boolean {
    return this.isStreaming || this.held.length > 0;
  }

  begin(shape: ResultShape): void {
    const { input, form } = this.options;
    this.shape = shape;
    this.json = new JsonBytes(input);
    this.json.raw(form.opening);
    if (form.hasHead) this.json.raw(shape.head);
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
    if (this.isDiscarding) return null;
    const { limit } = this.options.input;
    if (limit !== null && this.rowCount === limit) {
      this.truncated = true;
      return null;
    }
    const { json } = this;
    if (!json) return null;
    if (this.rowCount++ > 0 && this.options.form.hasRows) json.byte(this.options.form.separator ?? 44);
    return this.options.form.hasRows ? json : null;
  }

  /** `left`: how many bytes of the row are still to come. */
  rowPart(bytes: Buffer, start: number, end: number, left: number): void {
    if (!this.isInRow) {
      this.isInRow = true;
      this.streamed = this.streamRow();
    }
    if (!this.isDiscarding) this.streamed?.push(bytes, start, end);
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
  close(end: string): Buffer {
    const json = this.json ?? new JsonBytes(this.options.input);
    json.text(end);
    const last = json.end();
    return this.held.length === 0 ? last : Buffer.concat([...this.held, last]);
  }

  /** The rest of the answer waits for other statements: it holds no more memory than it needs. */
  pack(): void {
    if (!this.json) return;
    this.held.push(this.json.end());
    this.json = null;
  }

  /** A full socket towards the caller stops PostgreSQL, so nothing piles up in between. */
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
    sink.drained(() => this.resume());
  }

  /** There is no room for the answer. Unless its commit was sent with it, everything is undone with the connection. */
  private refuse(error: RowhouseError): void {
    const { frame, statement } = this.options;
    if (frame.endsIn === 'transaction' || frame.after.includes('rollback') || statement.isRead) throw error;
    this.refusedBy = error;
    this.isDiscarding = true;
  }

  /** Rows that still arrive are discarded, so that PostgreSQL notices a cancel instead of waiting for the reader. */
  stop(): void {
    if (!this.isPaused) return;
    this.isDiscarding = true;
    this.resume();
  }

  resume(): void {
    if (!this.isPaused) return;
    this.isPaused = false;
    this.clock?.resume();
    this.options.session.resume();
  }
}

/** Pipelines and group commit do not take it, because they write everything in one go. */
export function isLargeInput({ query, params }: StatementInput): boolean {
  return isLarge(query) || params.some(isLargeParameter);
}

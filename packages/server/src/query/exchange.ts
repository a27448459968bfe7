// A statement running in a session: what is sent, what comes back, its deadline, and the reader's pace.
import { errors, type RowhouseError } from '../errors.ts';
import type { ServerError } from '../postgres/server-error.ts';
import { type PreparedStatement, type Session, silent, TooLargeError } from '../postgres/session.ts';
import { JsonBytes } from './json-bytes.ts';
import { needsTypes, toParameter } from './parameters.ts';
import {
  type Column,
  compileRowWriter,
  type RowWriter,
  readColumns,
  typesOf,
  unknownTypes,
} from './row-writer.ts';
import { sqlFailure } from './sql-failure.ts';
import type { Conduct, Statement } from './statement.ts';
import type { ValueType } from './value-kinds.ts';

export type StatementInput = Readonly<{
  query: string;
  params: readonly unknown[];
  limit: number | null;
  bigAsString: boolean;
}>;

/** Where the answer goes. `write` says whether there is room for more; `drained` calls back when there is again. */
export type Sink = {
  write(bytes: Buffer): boolean;
  drained(carryOn: () => void): void;
};

type Shape = { columns: Column[]; types: ValueType[]; write: RowWriter };

export type ExchangeOptions = {
  session: Session;
  statement: Statement;
  input: StatementInput;
  /** Statements of ours around the caller's, sent in the same write. */
  before: readonly string[];
  after: readonly string[];
  sink: Sink;
  /** Whether a transaction is open afterwards, as it has to be. */
  endsIn: 'idle' | 'transaction';
  /** Looks up types of the project's own; says whether the answer may be remembered. */
  lookUp: (oids: number[]) => Promise<{ types: Map<number, ValueType>; stable: boolean }>;
};

/** An answer up to this size is complete before its first byte goes out; a larger one streams. */
const heldBytes = 256 * 1024;
const pieceBytes = 64 * 1024;
const preparedPerSession = 100;
const preparedText = 16_384;
let named = 0;

export class Exchange {
  readonly json: JsonBytes;
  rowCount = 0;
  truncated = false;
  isStreaming = false;
  /** What a session that ran this has to be cleaned of. */
  conduct: Conduct;
  shape: Shape | null = null;
  tag: string | null = '';
  durationMs = 0;
  private readonly options: ExchangeOptions;
  private step = 0;
  private isBound = false;
  private error: ServerError | null = null;
  private isCopy = false;
  private startedAt = 0;
  /** Set by the deadline or by a caller who hung up: what comes after is the end of it. */
  private stoppedBy: RowhouseError | null = null;
  private clock: Clock | null = null;

  constructor(options: ExchangeOptions) {
    this.options = options;
    this.json = new JsonBytes({ bigAsString: options.input.bigAsString });
    this.conduct = options.statement.conduct;
  }

  get text(): string {
    return this.options.input.query;
  }

  get statement(): Statement {
    return this.options.statement;
  }

  /** Called by whoever keeps the time. The error that the statement ends with is the caller's. */
  stop(because: RowhouseError): void {
    this.stoppedBy ??= because;
  }

  useClock(clock: Clock): void {
    this.clock = clock;
  }

  /** Throws what the caller is told; a `Sound` error leaves the session usable. */
  async run(): Promise<void> {
    const { session, input, statement } = this.options;
    let prepared = session.statements.get(input.query) ?? null;
    const keep = statement.preparable && input.query.length <= preparedText;
    if (needsTypes(input.params) && !prepared?.parameterTypes) prepared = await this.learnTypes(keep);
    const status = await this.send(prepared, keep);
    if (
      this.error &&
      !this.isBound &&
      prepared &&
      isStalePlan(this.error) &&
      this.options.before.length === 0
    ) {
      // Before anything ran: the tables have changed since it was prepared.
      session.statements.delete(input.query);
      session.out.closeStatement(prepared.name);
      this.error = null;
      this.step = 0;
      this.settle(await this.send(null, keep));
      return;
    }
    this.settle(status);
  }

  private settle(status: Ended): void {
    const isRead = this.conduct === 'clean';
    if (this.stoppedBy) throw this.stoppedBy;
    if (this.isCopy) {
      throw errors.statementNotAllowed(
        'COPY to or from the client makes no sense over HTTP.',
        'Use SELECT or INSERT.',
      );
    }
    if (status instanceof TooLargeError) {
      throw status.message === 'row'
        ? errors.resultTooLarge('A row of the result is larger than 128 MB.')
        : errors.resultTooLarge("PostgreSQL's message about this statement is larger than 1 MB.");
    }
    if (status instanceof Error)
      throw isRead || !this.isBound ? errors.unavailable(status) : errors.outcomeUnknown(status);
    if (this.error && this.error.severity !== 'ERROR') {
      throw isRead ? errors.unavailable(this.error) : errors.outcomeUnknown(this.error);
    }
    if (this.error) throw new Sound(sqlFailure(this.error), status);
    if (status !== this.options.endsIn) {
      throw errors.statementNotAllowed(
        'A statement must neither begin nor end a transaction.',
        'Use POST …/batch.',
      );
    }
  }

  /** Parameter types are needed only for arrays: one more round trip, once for each statement and session. */
  private async learnTypes(keep: boolean): Promise<PreparedStatement> {
    const { session, input } = this.options;
    const prepared: PreparedStatement = {
      name: `${keep ? 's' : 'q'}${++named}`,
      columns: null,
      parameterTypes: null,
    };
    session.out.parse(prepared.name, input.query).describeStatement(prepared.name).sync();
    const status = await new Promise<Ended>((resolve) =>
      session.send({
        ...silent,
        parameterTypes: (oids) => {
          prepared.parameterTypes = oids;
        },
        error: (error) => {
          this.error = error;
        },
        ready: resolve,
        lost: resolve,
      }),
    );
    this.settle(status === 'idle' || status === 'transaction' ? this.options.endsIn : status);
    if (keep) this.remember(prepared);
    else this.conduct = 'wild';
    return prepared;
  }

  private send(prepared: PreparedStatement | null, keep: boolean): Promise<Ended> {
    const { session, statement, input, before, after } = this.options;
    const name = prepared?.name ?? (keep ? `s${++named}` : '');
    const known = prepared?.columns as Shape | null | undefined;
    const { out } = session;
    for (const text of before) out.parse('', text).bind('', []).execute(0);
    if (!prepared) out.parse(name, input.query);
    const types = prepared?.parameterTypes;
    out.bind(
      name,
      input.params.map((value, index) => toParameter(value, types?.[index])),
    );
    if (!known) out.describePortal();
    // One more than asked for, to know whether there is more. A change runs whole, whatever of it is shown.
    out.execute(input.limit === null || statement.writes ? 0 : input.limit + 1);
    for (const text of after) out.parse('', text).bind('', []).execute(0);
    out.sync();
    const target = before.length;
    this.startedAt = performance.now();
    return new Promise((resolve) => {
      session.send({
        parameterTypes: () => {},
        bound: () => {
          if (this.step !== target) return;
          this.isBound = true;
          if (keep && !prepared) this.remember({ name, columns: null, parameterTypes: null });
          else if (prepared && keep) this.remember(prepared);
          if (known) this.begin(known);
        },
        rowDescription: (bytes, start) => this.describe(readColumns(bytes, start)),
        noData: () => this.begin(noShape),
        row: (bytes, start) => {
          if (this.step === target) this.row(bytes, start);
        },
        complete: (tag) => {
          if (this.step === target) {
            this.tag = tag;
            this.durationMs = performance.now() - this.startedAt;
          }
          this.step++;
        },
        error: (error) => {
          this.error ??= error;
        },
        copy: () => {
          this.isCopy = true;
          session.destroy();
        },
        ready: resolve,
        lost: resolve,
      });
    });
  }

  private describe(columns: Column[]): void {
    const unknown = unknownTypes(columns);
    if (unknown.length === 0) {
      this.use(columns, new Map(), true);
      return;
    }
    const { session, lookUp } = this.options;
    session.hold();
    lookUp(unknown).then(
      ({ types, stable }) => {
        this.use(columns, types, stable);
        session.carryOn();
      },
      (error) => {
        this.stop(error);
        session.destroy();
      },
    );
  }

  private use(columns: Column[], looked: Map<number, ValueType>, stable: boolean): void {
    const types = typesOf(columns, looked);
    const shape = { columns, types, write: compileRowWriter(columns, types) };
    const prepared = this.options.session.statements.get(this.options.input.query);
    if (stable && prepared) prepared.columns = shape;
    this.begin(shape);
  }

  private begin(shape: Shape): void {
    this.shape = shape;
    const names = JSON.stringify(shape.columns.map(({ name }) => name));
    this.json.raw(Buffer.from(`"columns":${names},"rows":[`));
  }

  private row(bytes: Buffer, start: number): void {
    const { limit } = this.options.input;
    if (limit !== null && this.rowCount === limit) {
      this.truncated = true;
      return;
    }
    const { json } = this;
    if (this.rowCount++ > 0) json.byte(44);
    this.shape?.write(bytes, start, json);
    if (json.length > (this.isStreaming ? pieceBytes : heldBytes)) this.flush();
  }

  /** A full socket towards the caller stops PostgreSQL; nothing piles up in between. */
  private flush(): void {
    const { session, sink } = this.options;
    this.isStreaming = true;
    if (sink.write(this.json.take())) return;
    session.pause();
    this.clock?.pause();
    sink.drained(() => {
      this.clock?.resume();
      session.resume();
    });
  }

  private remember(prepared: PreparedStatement): void {
    const { session, input } = this.options;
    session.statements.delete(input.query);
    session.statements.set(input.query, prepared);
    if (session.statements.size <= preparedPerSession) return;
    const [oldest] = session.statements;
    if (!oldest) return;
    session.statements.delete(oldest[0]);
    // Goes out with the next exchange.
    session.out.closeStatement(oldest[1].name);
  }
}

/** The statement failed, the session did not; `status` says whether a transaction is still open. */
export class Sound extends Error {
  readonly reason: RowhouseError;
  readonly status: 'idle' | 'transaction' | 'failed';

  constructor(reason: RowhouseError, status: 'idle' | 'transaction' | 'failed') {
    super(reason.message);
    this.reason = reason;
    this.status = status;
  }
}

export type Clock = { pause(): void; resume(): void };
type Ended = 'idle' | 'transaction' | 'failed' | Error;

const noShape: Shape = { columns: [], types: [], write: () => {} };

/** "cached plan must not change result type", and a prepared statement that is gone. */
function isStalePlan({ state }: ServerError): boolean {
  return state === '0A000' || state === '26000';
}

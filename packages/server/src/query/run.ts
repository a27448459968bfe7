// One request: caller → statement → session → rows → bytes, with its deadline and what the caller asked for around it.
import type { ProjectLogin } from '../engine/provision.ts';
import { errors, RowhouseError } from '../errors.ts';
import { type Session, silent } from '../postgres/session.ts';
import {
  type Clock,
  Exchange,
  type ExchangeOptions,
  type Sink,
  Sound,
  type StatementInput,
} from './exchange.ts';
import type { PlainStatements } from './plain-statements.ts';
import type { ProjectSessions } from './project-sessions.ts';
import { sqlFailure } from './sql-failure.ts';
import { type Conduct, type Parser, type Statement, worst } from './statement.ts';

export type QueryInput = StatementInput &
  Readonly<{ timeoutMs: number; readOnly: boolean; dryRun: boolean; maxAffected: number | null }>;

export type BatchInput = Readonly<{
  statements: readonly StatementInput[];
  timeoutMs: number;
  readOnly: boolean;
}>;

export type Reader = Sink & {
  /** The caller has hung up. */
  readonly isGone: boolean;
  /** Called when that happens; one listener is all there is. */
  onGone: (() => void) | null;
};

export type QueryDeps = { sessions: ProjectSessions; parser: Parser; plain: PlainStatements };

/** After a cancel that had no effect. */
const graceMs = 1_000;
/** A reader that takes nothing for this long is given up. */
const stallMs = 30_000;

/** The whole answer, or null if it was streamed to the reader. */
export async function runQuery(
  deps: QueryDeps,
  project: ProjectLogin,
  input: QueryInput,
  reader: Reader,
): Promise<Buffer | null> {
  const statement = await deps.parser.parse(input.query);
  return inSession(deps, project, input.timeoutMs, reader, async (work) => {
    const { before, after } = frame(input);
    const endsIn = input.maxAffected === null ? 'idle' : 'transaction';
    const exchange = work.exchange({ statement, input, before, after, sink: reader, endsIn });
    exchange.json.raw(opening);
    await work.run(exchange);
    const affected = affectedBy(exchange);
    if (input.maxAffected !== null) {
      const over = affected > input.maxAffected;
      if (!over || !input.dryRun) await work.command(over || input.dryRun ? 'rollback' : 'commit');
      if (over) throw errors.tooManyAffected(affected, input.maxAffected);
    }
    close(exchange, affected);
    exchange.json.byte(125);
    const rest = exchange.json.take();
    if (!exchange.isStreaming) return rest;
    reader.write(rest);
    return null;
  });
}

/** All in one transaction, a result each. */
export async function runBatch(
  deps: QueryDeps,
  project: ProjectLogin,
  input: BatchInput,
  reader: Reader,
): Promise<Buffer> {
  const statements: Statement[] = [];
  for (const [index, { query }] of input.statements.entries()) {
    const statement = await deps.parser.parse(query).catch((error) => Promise.reject(atIndex(error, index)));
    // Unseen, it could end the transaction in the middle of the batch.
    if (!statement.isParsed) {
      throw errors.invalidRequest([
        {
          path: `statements.${index}.query`,
          problem: 'is too large for a batch: send it alone, or use params',
        },
      ]);
    }
    statements.push(statement);
  }
  return inSession(deps, project, input.timeoutMs, reader, async (work) => {
    await work.command(input.readOnly ? 'begin read only' : 'begin');
    const results: Buffer[] = [];
    let size = 0;
    // Kept until the transaction is committed: no result is shown of what may yet be undone.
    const keeper: Sink = { write: (bytes) => keep(bytes), drained: () => {} };
    const keep = (bytes: Buffer) => {
      size += bytes.length;
      if (size > maxBatchBytes)
        throw errors.resultTooLarge('The results of the batch are larger than 64 MB.');
      return results.push(bytes) > 0;
    };
    keep(Buffer.from('{"ok":true,"results":['));
    for (const [index, statement] of statements.entries()) {
      const one = input.statements[index] as StatementInput;
      const exchange = work.exchange({
        ...{ statement, input: one, before: [], after: [], sink: keeper },
        endsIn: 'transaction',
      });
      exchange.json.raw(Buffer.from(index ? ',{' : '{'));
      await work.run(exchange).catch((error) => Promise.reject(atIndex(error, index)));
      close(exchange, affectedBy(exchange));
      exchange.json.byte(125);
      keep(exchange.json.take());
    }
    await work.command('commit');
    keep(Buffer.from(']}'));
    return Buffer.concat(results, size);
  });
}

const maxBatchBytes = 64 * 1024 * 1024;
const opening = Buffer.from('{"ok":true,');

const noFrame = { before: [], after: [] };

function frame({ readOnly, dryRun, maxAffected }: QueryInput): { before: string[]; after: string[] } {
  if (!readOnly && !dryRun && maxAffected === null) return noFrame;
  // The select takes the snapshot after which a transaction can no longer be made writable.
  const before = readOnly ? ['begin read only', 'select'] : ['begin'];
  if (maxAffected !== null) return { before, after: [] };
  return { before, after: [dryRun ? 'rollback' : 'commit'] };
}

function affectedBy({ tag, rowCount }: Exchange): number {
  const count = /(\d+)$/.exec(tag ?? '')?.[1];
  return count === undefined ? (tag === null ? rowCount : 0) : Number(count);
}

function close(exchange: Exchange, affected: number): void {
  const { json, shape, rowCount, durationMs, tag, truncated } = exchange;
  const command = tag === null ? 'SELECT' : tag.replace(/[ \d]+$/, '');
  const duration = Math.round(durationMs * 1000) / 1000;
  json.text(
    `],"row_count":${rowCount},"duration_ms":${duration},"types":${shape?.types ?? '[]'},` +
      `"command":"${command}","affected":${affected},"truncated":${truncated}`,
  );
}

type Work = {
  exchange(options: Omit<ExchangeOptions, 'session' | 'aside'>): Exchange;
  run(exchange: Exchange): Promise<void>;
  /** A statement of ours, waited for. */
  command(text: string): Promise<void>;
};

/** Takes a session, keeps the time, and gives the session back clean or not at all. */
async function inSession<T>(
  { sessions, plain }: QueryDeps,
  project: ProjectLogin,
  timeoutMs: number,
  reader: Reader,
  use: (work: Work) => Promise<T>,
): Promise<T> {
  if (reader.isGone) throw hungUp();
  const session = await sessions.acquire(project);
  // It may have happened while we waited for the session.
  if (reader.isGone) {
    sessions.release(project.id, session, 'clean');
    throw hungUp();
  }
  let conduct: Conduct | 'broken' = 'clean';
  // Only of statements that are provably so; one that is not decides for all.
  let isPlain = true;
  let current: Exchange | null = null;
  let isStopped = false;
  let harder: NodeJS.Timeout | undefined;
  const stop = (because: RowhouseError) => {
    if (isStopped) return;
    isStopped = true;
    current?.stop(because);
    void session.cancel();
    // Cleared as soon as the statement has ended: the process id may belong to somebody else by then.
    harder = setTimeout(() => sessions.terminate(session), graceMs);
  };
  const clock = startClock(timeoutMs, (how) => {
    if (how === 'stalled') {
      current?.stop(hungUp());
      sessions.terminate(session);
    } else stop(errors.queryTimeout(timeoutMs));
  });
  reader.onGone = () => stop(hungUp());
  const work: Work = {
    exchange: (options) => {
      const exchange = new Exchange({
        ...options,
        session,
        aside: (look) => sessions.aside(project, look),
      });
      exchange.useClock(clock);
      return exchange;
    },
    run: async (exchange) => {
      current = exchange;
      conduct = worst(conduct as Conduct, exchange.conduct);
      // Unless it comes to its end, nothing is known of it.
      const wasPlain = isPlain;
      isPlain = false;
      await exchange.run();
      isPlain = wasPlain;
      conduct = worst(conduct as Conduct, exchange.conduct);
      isPlain &&= plain.isPlain(project, exchange.text, exchange.statement);
    },
    command: (text) => command(session, text),
  };
  try {
    const result = await use(work);
    if (isStopped) conduct = 'broken';
    return result;
  } catch (error) {
    if (!(error instanceof Sound)) {
      conduct = 'broken';
      throw error;
    }
    if (isStopped) conduct = 'broken';
    else if (error.status !== 'idle')
      await command(session, 'rollback').catch(() => {
        conduct = 'broken';
      });
    throw error.reason;
  } finally {
    clock.end();
    clearTimeout(harder);
    reader.onGone = null;
    sessions.release(project.id, session, leaves(conduct, isPlain));
  }
}

function leaves(conduct: Conduct | 'broken', isPlain: boolean): Conduct | 'plain' | 'sequences' | 'broken' {
  if (!isPlain || conduct === 'broken' || conduct === 'wild') return conduct;
  return conduct === 'clean' ? 'plain' : 'sequences';
}

function command(session: Session, text: string): Promise<void> {
  session.out.parse('', text).bind('', []).execute(0).sync();
  return new Promise((resolve, reject) => {
    let failure: Error | null = null;
    session.send({
      ...silent,
      error: (error) => {
        failure = new Sound(sqlFailure(error), 'idle');
      },
      ready: () => (failure ? reject(failure) : resolve()),
      lost: (error) => reject(errors.outcomeUnknown(error)),
    });
  });
}

/** Runs while PostgreSQL works; while the reader is slow another, more patient one does. */
function startClock(timeoutMs: number, onEnd: (how: 'late' | 'stalled') => void): Clock & { end(): void } {
  let leftMs = timeoutMs;
  let since = performance.now();
  let timer = setTimeout(() => onEnd('late'), leftMs);
  return {
    pause: () => {
      clearTimeout(timer);
      leftMs -= performance.now() - since;
      timer = setTimeout(() => onEnd('stalled'), stallMs);
    },
    resume: () => {
      clearTimeout(timer);
      since = performance.now();
      timer = setTimeout(() => onEnd('late'), Math.max(0, leftMs));
    },
    end: () => clearTimeout(timer),
  };
}

function hungUp(): RowhouseError {
  return new RowhouseError('request_timeout', 'The caller hung up or stopped reading.');
}

function atIndex(error: unknown, index: number): unknown {
  if (error instanceof Sound) return new Sound(atIndex(error.reason, index) as RowhouseError, error.status);
  if (!(error instanceof RowhouseError)) return error;
  const details = { ...(error.details as object | undefined), statement: index };
  const { code, message, hint, retryAfterS, status, sql } = error;
  return new RowhouseError(code, message, {
    details,
    status,
    cause: error.cause,
    ...(hint !== undefined && { hint }),
    ...(retryAfterS !== undefined && { retryAfterS }),
    ...(sql !== undefined && { sql }),
  });
}

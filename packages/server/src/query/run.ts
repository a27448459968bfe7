// One request: caller → statement → session → rows → bytes, with its deadline and what the caller asked for around it.
import type { ProjectLogin, Visitor } from '../engine/provision.ts';
import { errors, RowhouseError } from '../errors.ts';
import { stopLine } from '../quotas/headroom.ts';
import { closing, framedBy, type GrowthDeps, type Measure, ownSize, withinRoom } from './admission.ts';
import { beginning } from './exchange/acting-users.ts';
import type { Command } from './exchange/commands.ts';
import {
  Exchange,
  type Form,
  type Frame,
  isLargeInput,
  noFrame,
  type StatementInput,
} from './exchange/exchange.ts';
import { noteFate, triedToWrite } from './exchange/failures.ts';
import { type Answer, HeldAnswer } from './exchange/held-answer.ts';
import { hungUp, type Reader } from './exchange/statement-deadline.ts';
import { needsTypes } from './json/parameters.ts';
import { alone, type Watching } from './sessions/exclusive.ts';
import type { ProjectSessions } from './sessions/project-sessions.ts';
import { distrust, type Habit, type Habits, isPlain } from './sessions/statement-profiles.ts';
import { type Cargo, type Convoys, canTravel } from './sharing/group-commit.ts';
import { canShare, type Lane, type Lanes } from './sharing/pipelines.ts';
import type { Parser, Statement } from './statement/statement.ts';

export type QueryInput = StatementInput &
  Readonly<{ timeoutMs: number; readOnly: boolean; dryRun: boolean; maxAffected: number | null }>;

/** A statement that the service itself has compiled, and what stands around its rows. */
export type Task = Readonly<{
  statement: Statement;
  input: StatementInput;
  form: Form;
  timeoutMs: number;
  maxAffected: number | null;
  /** Nothing that it runs may write, code of the project's included, however it was judged. */
  readOnly: boolean;
}>;

export type QueryDeps = {
  sessions: ProjectSessions;
  parser: Parser;
  habits: Habits;
  lanes: Lanes;
  convoys: Convoys;
  growth: GrowthDeps;
};

/** With less time than this, a statement does not stand behind others. */
const sharedTimeoutMs = 1_000;

/** The whole answer, or null if it was streamed to the reader. */
export async function runQuery(
  deps: QueryDeps,
  project: ProjectLogin,
  input: QueryInput,
  reader: Reader,
  form = queryForm,
): Promise<Answer> {
  const statement =
    deps.parser.recall(project.id, input.query) ?? (await deps.parser.parse(project.id, input.query));
  if (input.limit !== null && statement.lazyText !== null) {
    try {
      return await runOne(deps, project, statement, { ...input, query: statement.lazyText }, form, reader);
    } catch (error) {
      // Whatever is wrong with it is told in the caller's own words. It reads, so it can be run again.
      if (!(error instanceof RowhouseError && error.sql) || reader.hasBegun) throw error;
    }
  }
  return runOne(deps, project, statement, input, form, reader);
}

/** The whole answer, or null if it was streamed to the reader. */
export function runTask(
  deps: QueryDeps,
  project: ProjectLogin,
  { statement, input, form, timeoutMs, maxAffected, readOnly }: Task,
  reader: Reader,
): Promise<Answer> {
  // Written out: this is the hottest path of tables, and a spread costs more than all of it.
  const whole: QueryInput = {
    query: input.query,
    params: input.params,
    limit: input.limit,
    bigAsString: input.bigAsString,
    timeoutMs,
    maxAffected,
    readOnly,
    dryRun: false,
  };
  return runOne(deps, project, statement, whole, form, reader);
}

/** A look-up of the service's own: the first value of the first row. `isPlain`: it calls nothing of the project's. */
export function ask(
  deps: QueryDeps,
  project: ProjectLogin,
  query: string,
  parameters: (string | null)[],
  {
    timeoutMs = askTimeoutMs,
    isPlain = true,
    first = [],
    last = [],
    changes = false,
    readOnly = false,
  }: AskOptions = {},
): Promise<string | null> {
  const use = !isPlain ? 'any' : readOnly ? 'read' : 'plain';
  const terms = { reader: noReader(), timeoutMs, use } as const;
  return alone(deps, project, terms, (work) =>
    work.ask(query, parameters, { isPlain, first, last, changes, readOnly }),
  );
}

/**
 * `first`, `last`: what runs before and after it in the same transaction. `changes`: a break while it runs is an unknown outcome. `readOnly`:
 * code of the project's that it runs after all writes nothing.
 */
type AskOptions = {
  timeoutMs?: number;
  isPlain?: boolean;
  first?: readonly Command[];
  last?: readonly Command[];
  changes?: boolean;
  readOnly?: boolean;
};

async function runOne(
  deps: QueryDeps,
  project: ProjectLogin,
  statement: Statement,
  input: QueryInput,
  form: Form,
  reader: Reader,
): Promise<Answer> {
  if (reader.isGone) throw noteFate(hungUp(), 'undone');
  const habit = deps.habits.of(project.id, statement);
  const isOrdinary =
    isPlain(habit) &&
    !needsFrame(input, project.visitor, statement.isRead && statement.isProven) &&
    input.timeoutMs >= sharedTimeoutMs &&
    !needsTypes(input.params) &&
    !isLargeInput(input);
  if (isOrdinary && canShare(habit)) {
    const taken = deps.lanes.take(project, habit);
    const lane = taken instanceof Promise ? await taken : taken;
    if (lane) {
      const exchange = await inLane(deps, project, lane, { statement, input, form, reader, habit });
      if (exchange) return answerOf(exchange, reader);
    }
  }
  if (statement.isVacuum) {
    const room = await deps.growth.rooms.admit(project.id, { evenFar: true });
    const watching: Watching = (stop) =>
      deps.growth.rooms.watch(project.id, room && stopLine(room, 'rewriting'), (because) => stop(because, 0));
    return runAlone(deps, project, statement, input, form, reader, habit, null, watching);
  }
  // By now it may run code after all.
  if (!mayGrow(statement, isPlain(habit))) {
    try {
      return await runAlone(deps, project, statement, input, form, reader, habit);
    } catch (error) {
      if (!triedToWrite(error)) throw error;
      distrust(habit);
      // It runs again below: what is `readOnly` in a read-only transaction, since it no longer counts as plain.
      if (reader.hasBegun) throw error;
    }
  }
  const options = {
    canRepeat: true,
    canCommit: statement.canCommit,
    evenFar: false,
    changes: statement.writes,
    isUndone: input.dryRun,
    canShrink: statement.canShrink,
    adds: adds(statement),
    isHarmless: isHarmless(statement),
  };
  return withinRoom(deps.growth, project, options, reader, async (measure, watching) => {
    if (isOrdinary && !measure?.isFull && !measure?.comparesOwn && canTravel(habit)) {
      const cargo = { habit, input, form, reader, timeoutMs: input.timeoutMs, measure, isStopped: false };
      const answer = await inConvoy(deps, project, cargo, watching);
      if (answer) return answer;
    }
    return runAlone(deps, project, statement, input, form, reader, habit, measure, watching);
  });
}

/** Of rows, which a statement that is kept prepared is about. */
export function adds({ preparable, writes, isDelete }: Statement): boolean {
  return preparable && writes && !isDelete;
}

/** It takes away, or reads and at most locks. */
export function isHarmless({ canShrink, isDelete, writes, conduct }: Statement): boolean {
  return canShrink || isDelete || (!writes && conduct === 'clean');
}

/** What is not known to read alone may write. */
export function mayGrow({ isRead, isVacuum }: Statement, isPlainRead: boolean): boolean {
  return !(isRead && isPlainRead) && !isVacuum;
}

function runAlone(
  deps: QueryDeps,
  project: ProjectLogin,
  statement: Statement,
  input: QueryInput,
  form: Form,
  reader: Reader,
  habit: Habit,
  measure: Measure | null = null,
  watching?: Watching,
): Promise<Answer> {
  const { timeoutMs, maxAffected, dryRun } = input;
  const use = !isPlain(habit) ? 'any' : statement.isRead ? 'read' : 'plain';
  // Decided together with `use`: without a frame, the session's mode is what keeps a read from writing.
  const frame = frameOf(input, project.visitor, use === 'read' && statement.isProven);
  const terms = { reader, timeoutMs, use, ...(watching && { watching }) } as const;
  return alone(deps, project, terms, async (work) => {
    // The project's functions in indexes run here, and shall write nothing; VACUUM itself does its work all the same.
    if (statement.isVacuum) await work.command('set default_transaction_read_only = on');
    // While it may yet be undone, nothing of it is shown.
    const held = maxAffected === null && !(measure && statement.writes) ? null : new HeldAnswer(project.id);
    work.onFailure = () => held?.release();
    // What only reads has nothing to compare.
    const own = statement.isRead ? null : await ownSize(work, measure);
    const framed = framedBy(frame, measure, own, !statement.preparable);
    const exchange = work.exchange(statement, input, held ?? reader, framed, form);
    await work.run(exchange, habit);
    if (statement.isVacuum) await work.command('reset default_transaction_read_only');
    if (maxAffected !== null) {
      const affected = affectedBy(exchange);
      const over = affected > maxAffected;
      if (over || dryRun) await work.command('rollback');
      else await work.commit(closing(measure, own));
      if (over) throw errors.tooManyAffected(affected, maxAffected);
    }
    if (!held) return answerOf(exchange, reader);
    held.finish(exchange.close());
    return held.close();
  });
}

/** Behind others in a session they share; null if it has to run alone after all. */
async function inLane(
  { sessions }: QueryDeps,
  project: ProjectLogin,
  lane: Lane,
  {
    statement,
    input,
    form,
    reader,
    habit,
  }: { statement: Statement; input: QueryInput; form: Form; reader: Reader; habit: Habit },
): Promise<Exchange | null> {
  const exchange = new Exchange({
    session: lane.session,
    statement,
    input,
    frame: noFrame,
    sink: reader,
    form,
    aside: (look) => sessions.aside(project, look),
  });
  return (await lane.run(exchange, reader, input.timeoutMs, habit)) ? exchange : null;
}

/** Together with others in one transaction; null if it has to run alone after all. */
async function inConvoy(
  { convoys }: QueryDeps,
  project: ProjectLogin,
  cargo: Cargo,
  watching: Watching,
): Promise<Buffer | null> {
  const unwatch = watching(() => {
    cargo.isStopped = true;
    convoys.halt(project.id);
  });
  try {
    return await convoys.join(project, cargo);
  } finally {
    unwatch();
  }
}

function answerOf(exchange: Exchange, reader: Reader): Buffer | null {
  const rest = exchange.close();
  if (!exchange.isStreaming) return rest;
  reader.write(rest, () => {});
  return null;
}

/** A look into the catalog takes milliseconds; more than this is a server in trouble. */
const askTimeoutMs = 10_000;

/** Of statements of the service's own, which begin now. */
export function noReader(): Reader {
  return { ...nobody, startedAt: performance.now() };
}

const nobody: Omit<Reader, 'startedAt'> = {
  hasBegun: false,
  isGone: false,
  mayHaveChanged: false,
  leftMs: 5_000,
  write: () => true,
  drained: () => {},
};

/** `isHeld`: it runs in a session that is in read-only mode, which spares a proven read the transaction. */
function needsFrame(
  { readOnly, dryRun, maxAffected }: QueryInput,
  visitor: Visitor | undefined,
  isHeld: boolean,
): boolean {
  return visitor !== undefined || (readOnly && !isHeld) || dryRun || maxAffected !== null;
}

function frameOf(input: QueryInput, visitor: Visitor | undefined, isHeld: boolean): Frame {
  if (!needsFrame(input, visitor, isHeld)) return noFrame;
  const { readOnly, dryRun, maxAffected } = input;
  const before = beginning(readOnly, visitor);
  if (maxAffected !== null) return { before, after: [], endsIn: 'transaction' };
  return { before, after: [dryRun ? 'rollback' : 'commit'], endsIn: 'idle' };
}

export function affectedBy({ tag, rowCount }: Exchange): number {
  const count = /(\d+)$/.exec(tag ?? '')?.[1];
  return count === undefined ? (tag === null ? rowCount : 0) : Number(count);
}

function queryEnd(exchange: Exchange): string {
  const { rowCount, durationMs, tag, truncated } = exchange;
  const command = tag === null ? 'SELECT' : tag.replace(/[ \d]+$/, '');
  const duration = Math.round(durationMs * 1000) / 1000;
  return (
    `],"row_count":${rowCount},"duration_ms":${duration},` +
    `"command":"${command}","affected":${affectedBy(exchange)},"truncated":${truncated}}`
  );
}

const queryForm = formOf('{"ok":true,');

/** An answer as the API gives it. */
export function formOf(opening: string): Form {
  return {
    opening: Buffer.from(opening),
    hasHead: true,
    hasRows: true,
    hidden: 0,
    onLastRow: null,
    close: queryEnd,
  };
}

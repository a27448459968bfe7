// One request: caller → statement → session → rows → bytes, with its deadline and what the caller asked for around it.
import type { ActingUser, ProjectLogin } from '../engine/provision.ts';
import { errors, RowhouseError } from '../errors.ts';
import { stopLine } from '../quotas/headroom.ts';
import { type AdmissionDeps, closing, framedBy, type Measure, ownSize, withHeadroom } from './admission.ts';
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
import { type Supervise, withSession } from './sessions/exclusive.ts';
import type { ProjectSessions } from './sessions/project-sessions.ts';
import {
  distrust,
  isPlain,
  type StatementProfile,
  type StatementProfiles,
} from './sessions/statement-profiles.ts';
import { canGroup, type Entry, type GroupCommit } from './sharing/group-commit.ts';
import { canPipeline, type Pipeline, type Pipelines } from './sharing/pipelines.ts';
import type { Parser, Statement } from './statement/statement.ts';

export type QueryInput = StatementInput &
  Readonly<{ timeoutMs: number; readOnly: boolean; dryRun: boolean; maxAffected: number | null }>;

/** A statement that the service itself has compiled, and what stands around its rows. */
export type CompiledQuery = Readonly<{
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
  profiles: StatementProfiles;
  pipelines: Pipelines;
  groupCommit: GroupCommit;
  admission: AdmissionDeps;
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
export function runCompiled(
  deps: QueryDeps,
  project: ProjectLogin,
  { statement, input, form, timeoutMs, maxAffected, readOnly }: CompiledQuery,
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
  return withSession(deps, project, terms, (exclusive) =>
    exclusive.ask(query, parameters, { isPlain, first, last, changes, readOnly }),
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
  const profile = deps.profiles.of(project.id, statement);
  const isOrdinary =
    isPlain(profile) &&
    !needsFrame(input, project.actingUser, statement.isRead && statement.isProven) &&
    input.timeoutMs >= sharedTimeoutMs &&
    !needsTypes(input.params) &&
    !isLargeInput(input);
  if (isOrdinary && canPipeline(profile)) {
    const taken = deps.pipelines.take(project, profile);
    const pipeline = taken instanceof Promise ? await taken : taken;
    if (pipeline) {
      const exchange = await inPipeline(deps, project, pipeline, { statement, input, form, reader, profile });
      if (exchange) return answerOf(exchange, reader);
    }
  }
  if (statement.isVacuum) {
    const room = await deps.admission.headroom.admit(project.id, { evenFar: true });
    const supervise: Supervise = (stop) =>
      deps.admission.headroom.watch(project.id, room && stopLine(room, 'rewriting'), (because) =>
        stop(because, 0),
      );
    return runExclusively(deps, project, statement, input, form, reader, profile, null, supervise);
  }
  // By now it may run code after all.
  if (!mayGrow(statement, isPlain(profile))) {
    try {
      return await runExclusively(deps, project, statement, input, form, reader, profile);
    } catch (error) {
      if (!triedToWrite(error)) throw error;
      distrust(profile);
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
  return withHeadroom(deps.admission, project, options, reader, async (measure, supervise) => {
    if (isOrdinary && !measure?.isFull && !measure?.comparesOwn && canGroup(profile)) {
      const entry = { profile, input, form, reader, timeoutMs: input.timeoutMs, measure, isStopped: false };
      const answer = await inGroup(deps, project, entry, supervise);
      if (answer) return answer;
    }
    return runExclusively(deps, project, statement, input, form, reader, profile, measure, supervise);
  });
}

/** Of rows, which a statement that is kept prepared is about. */
export function adds({ preparable, writes, isDelete }: Statement): boolean {
  return preparable && writes && !isDelete;
}

/** It takes away, or reads and at most locks. */
export function isHarmless({ canShrink, isDelete, writes, effect }: Statement): boolean {
  return canShrink || isDelete || (!writes && effect === 'none');
}

/** What is not known to read alone may write. */
export function mayGrow({ isRead, isVacuum }: Statement, isPlainRead: boolean): boolean {
  return !(isRead && isPlainRead) && !isVacuum;
}

function runExclusively(
  deps: QueryDeps,
  project: ProjectLogin,
  statement: Statement,
  input: QueryInput,
  form: Form,
  reader: Reader,
  profile: StatementProfile,
  measure: Measure | null = null,
  supervise?: Supervise,
): Promise<Answer> {
  const { timeoutMs, maxAffected, dryRun } = input;
  const use = !isPlain(profile) ? 'any' : statement.isRead ? 'read' : 'plain';
  // Decided together with `use`: without a frame, the session's mode is what keeps a read from writing.
  const frame = frameOf(input, project.actingUser, use === 'read' && statement.isProven);
  const terms = { reader, timeoutMs, use, ...(supervise && { supervise }) } as const;
  return withSession(deps, project, terms, async (exclusive) => {
    // The project's functions in indexes run here, and shall write nothing; VACUUM itself does its work all the same.
    if (statement.isVacuum) await exclusive.command('set default_transaction_read_only = on');
    // While it may yet be undone, nothing of it is shown.
    const held = maxAffected === null && !(measure && statement.writes) ? null : new HeldAnswer(project.id);
    exclusive.onFailure = () => held?.release();
    // What only reads has nothing to compare.
    const own = statement.isRead ? null : await ownSize(exclusive, measure);
    const framed = framedBy(frame, measure, own, !statement.preparable);
    const exchange = exclusive.exchange(statement, input, held ?? reader, framed, form);
    await exclusive.run(exchange, profile);
    if (statement.isVacuum) await exclusive.command('reset default_transaction_read_only');
    if (maxAffected !== null) {
      const affected = affectedBy(exchange);
      const over = affected > maxAffected;
      if (over || dryRun) await exclusive.command('rollback');
      else await exclusive.commit(closing(measure, own));
      if (over) throw errors.tooManyAffected(affected, maxAffected);
    }
    if (!held) return answerOf(exchange, reader);
    held.finish(exchange.close());
    return held.close();
  });
}

/** Behind others in a session they share; null if it has to run alone after all. */
async function inPipeline(
  { sessions }: QueryDeps,
  project: ProjectLogin,
  pipeline: Pipeline,
  {
    statement,
    input,
    form,
    reader,
    profile,
  }: { statement: Statement; input: QueryInput; form: Form; reader: Reader; profile: StatementProfile },
): Promise<Exchange | null> {
  const exchange = new Exchange({
    session: pipeline.session,
    statement,
    input,
    frame: noFrame,
    sink: reader,
    form,
    aside: (look) => sessions.aside(project, look),
  });
  return (await pipeline.run(exchange, reader, input.timeoutMs, profile)) ? exchange : null;
}

/** Together with others in one transaction; null if it has to run alone after all. */
async function inGroup(
  { groupCommit }: QueryDeps,
  project: ProjectLogin,
  entry: Entry,
  supervise: Supervise,
): Promise<Buffer | null> {
  const endSupervision = supervise(() => {
    entry.isStopped = true;
    groupCommit.halt(project.id);
  });
  try {
    return await groupCommit.join(project, entry);
  } finally {
    endSupervision();
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
  actingUser: ActingUser | undefined,
  isHeld: boolean,
): boolean {
  return actingUser !== undefined || (readOnly && !isHeld) || dryRun || maxAffected !== null;
}

function frameOf(input: QueryInput, actingUser: ActingUser | undefined, isHeld: boolean): Frame {
  if (!needsFrame(input, actingUser, isHeld)) return noFrame;
  const { readOnly, dryRun, maxAffected } = input;
  const before = beginning(readOnly, actingUser);
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

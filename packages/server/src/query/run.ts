// One statement from request to answer, top to bottom: parse it, then run it in the cheapest way that is safe for it.
//
//   0. a read that may be stale → a standby, if one is fresh enough (standby-reads.ts)
//   1. a short, plain read      → a pipeline: behind other reads in a session that they share
//   2. any other plain read     → an exclusive session
//   3. a short, plain, bounded insert near the limit, while there is a budget for it → group commit
//   4. everything that may grow → admission (admission.ts), and within it
//      a. a short, plain insert, or far from the limit an update or delete by key → group commit
//      b. anything else         → an exclusive session
//
// Each shared way can decline: then nothing of the statement has happened, and it takes the next way.

import { errors, RowhouseError } from '../errors/errors.ts';
import type { Measure } from '../quotas/size-check.ts';
import { stopLine } from '../quotas/stop-line.ts';
import type { ProjectLogin } from '../servers/databases/login.ts';
import {
  type AdmissionDeps,
  closing,
  framedBy,
  growthOf,
  mayGrow,
  ownSize,
  withHeadroom,
} from './admission.ts';
import { affectedBy, formOf } from './answer.ts';
import { runsAlone } from './exchange/acting-users.ts';
import type { Form, StatementInput } from './exchange/answer-writer.ts';
import { isLargeInput } from './exchange/answer-writer.ts';
import { Exchange } from './exchange/exchange.ts';
import { noteFate, triedToWrite } from './exchange/failures.ts';
import { frameOf, needsFrame, sharedFrame } from './exchange/frame.ts';
import { type Answer, HeldAnswer } from './exchange/held-answer.ts';
import type { Reader } from './exchange/reader.ts';
import { hungUp } from './exchange/statement-deadline.ts';
import type { InsertBounds } from './insert-bounds.ts';
import { needsTypes } from './json/parameters.ts';
import { passGate, type Supervise, withSession } from './sessions/exclusive.ts';
import type { ProjectSessions } from './sessions/project-sessions.ts';
import type { QueryInput, StatementRequest } from './sessions/request.ts';
import {
  distrust,
  isPlain,
  type StatementProfile,
  type StatementProfiles,
} from './sessions/statement-profiles.ts';
import { canGroup, type Entry, type GroupCommit } from './sharing/group-commit.ts';
import { canPipeline, type Pipelines, sharedTimeoutMs } from './sharing/pipelines.ts';
import { atStandby, checkStandby, unlessOutdated } from './standby-reads.ts';
import type { Parser } from './statement/parser.ts';
import type { Statement } from './statement/statement.ts';
import type { Unshared } from './unshared.ts';

export type QueryDeps = {
  sessions: ProjectSessions;
  parser: Parser;
  profiles: StatementProfiles;
  pipelines: Pipelines;
  groupCommit: GroupCommit;
  insertBounds: InsertBounds;
  unshared: Unshared;
  admission: AdmissionDeps;
};

/** A statement that the service itself has compiled, and the form of its answer. */
export type CompiledQuery = Readonly<{
  statement: Statement;
  input: StatementInput;
  form: Form;
  timeoutMs: number;
  maxAffected: number | null;
  /** Nothing that it runs may write, the project's own code included, however it was judged. */
  readOnly: boolean;
}>;

const unrefused = { isStopped: false, isOutdated: false, hasOutgrown: false };
const queryForm = formOf('{"ok":true,');

/** SQL from a caller. Gives the whole answer, or null if it was streamed to the reader. */
export async function runQuery(
  deps: QueryDeps,
  project: ProjectLogin,
  input: QueryInput,
  reader: Reader,
  form = queryForm,
): Promise<Answer> {
  const statement =
    deps.parser.recall(project.id, input.query) ?? (await deps.parser.parse(project, input.query));
  const profile = deps.profiles.of(project, statement);
  const request: StatementRequest = { project, statement, profile, input, form, reader };
  if (input.limit !== null && statement.lazyText !== null) {
    try {
      return await run(deps, { ...request, input: { ...input, query: statement.lazyText } });
    } catch (error) {
      // The caller is told about an error in its own text. The statement reads, so it can run again.
      if (!(error instanceof RowhouseError && error.sql) || reader.hasBegun) throw error;
    }
  }
  return run(deps, request);
}

/** A statement of the service. Gives the whole answer, or null if it was streamed to the reader. */
export function runCompiled(
  deps: QueryDeps,
  project: ProjectLogin,
  { statement, input, form, timeoutMs, maxAffected, readOnly }: CompiledQuery,
  reader: Reader,
): Promise<Answer> {
  // Written out: this is the hottest path of the table endpoints, and a spread costs more than the rest of it.
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
  const profile = deps.profiles.of(project, statement);
  return run(deps, { project, statement, profile, input: whole, form, reader });
}

async function run(deps: QueryDeps, request: StatementRequest): Promise<Answer> {
  const { project, statement, profile, reader } = request;
  if (deps.sessions.gate.isClosed(project.id))
    await passGate(deps.sessions, project, { reader, timeoutMs: request.input.timeoutMs });
  if (reader.isGone) throw noteFate(hungUp(), 'undone');
  if (project.staleness !== undefined) {
    const there = atStandby(deps, request);
    const answered = there && (await unlessOutdated(reader, () => inSession(deps, there, null)));
    if (answered) return answered.answer;
  }
  const isOrdinary = mayShare(request);
  if (!isPlain(profile)) deps.unshared.note(project.id, profile);
  const profiles = [profile];
  if (isOrdinary && canPipeline(profiles)) {
    const exchange = await inPipeline(deps, request, profiles);
    if (exchange) return answerOf(exchange, reader);
  }
  if (statement.isVacuum) return vacuum(deps, request);
  // While it waited for a pipeline, its profile may have changed: it may run code after all.
  if (!mayGrow(statement, isPlain(profile))) {
    try {
      return await inSession(deps, request, null);
    } catch (error) {
      if (!triedToWrite(error)) throw error;
      distrust(profile);
      // It runs again below. A `readOnly` one gets a read-only transaction, because it no longer counts as plain.
      if (reader.hasBegun) throw error;
    }
  }
  const bound = isOrdinary ? boundOf(deps, request) : null;
  const granted = bound && (await inBudget(deps, request, bound));
  if (granted instanceof Buffer) return granted;
  const growth = growthOf([statement], {
    canCommit: statement.canCommit,
    isUndone: request.input.dryRun,
    bound: granted === 'outdated' ? 0 : (bound?.bytes ?? 0),
  });
  return withHeadroom(deps.admission, { project, growth, reader }, async (measure, supervise) => {
    // Near the limit, an update that is undone with its group leaves pages that nobody reclaims while others still succeed.
    const mayGroup = measure === null || (statement.isInsert && !measure.isFull && !measure.comparesOwn);
    if (isOrdinary && mayGroup && canGroup(profile)) {
      const answer = await inGroup(deps, request, measure, supervise);
      if (answer) return answer;
    }
    return inSession(deps, request, measure, supervise);
  });
}

/** Whether the statement may share a session or a transaction with others, if its profile says so too. */
function mayShare({ project, statement, profile, input }: StatementRequest): boolean {
  return (
    isPlain(profile) &&
    !needsFrame(input, statement.isRead && statement.isProven) &&
    input.timeoutMs >= sharedTimeoutMs &&
    !needsTypes(input.params) &&
    !isLargeInput(input) &&
    !runsAlone(project)
  );
}

/** Null if it has to run elsewhere after all. */
async function inPipeline(
  deps: QueryDeps,
  { project, statement, input, form, reader }: StatementRequest,
  profiles: readonly StatementProfile[],
): Promise<Exchange | null> {
  const taken = deps.pipelines.take(project, profiles);
  const pipeline = taken instanceof Promise ? await taken : taken;
  if (!pipeline) return null;
  const exchange = new Exchange({
    session: pipeline.session,
    statement,
    input,
    frame: sharedFrame(project.actingUser),
    sink: reader,
    form,
    aside: (look) => deps.sessions.aside(project, look),
  });
  const { timeoutMs } = input;
  return (await pipeline.run(exchange, { profiles, reader, timeoutMs })) ? exchange : null;
}

/** The most that an insert adds, if that is known and the project is near its limit. */
function boundOf(
  { admission, insertBounds }: QueryDeps,
  { project, profile, statement, input }: StatementRequest,
) {
  const { insert } = statement;
  if (insert === null || !canGroup(profile) || !admission.headroom.isNear(project.id)) return null;
  return insertBounds.find(project, insert, input.params);
}

/**
 * Without a size check and without supervision. Null if there is no budget for it, or it has to run elsewhere after all. It has
 * to do so, too, if the bound is outdated.
 */
async function inBudget(
  { admission, groupCommit, insertBounds }: QueryDeps,
  request: StatementRequest,
  { insert, bytes, most, guard }: NonNullable<ReturnType<typeof boundOf>>,
): Promise<Buffer | 'outdated' | null> {
  const { project } = request;
  // Writers take turns, and admission makes it wait for its own.
  if (admission.writerQueue.isClosed(project.id)) return null;
  const budget = admission.headroom.grant(project.id, bytes);
  if (!budget) return null;
  try {
    const entry: Entry = { request, measure: null, guard, most, ...unrefused };
    const answer = await groupCommit.join(project, entry);
    if (!entry.isOutdated && !entry.hasOutgrown) return answer;
    if (entry.hasOutgrown) insertBounds.suspect(project, insert, budget.isCalm);
    else insertBounds.doubt(project, insert);
    return 'outdated';
  } finally {
    budget.endGrant(bytes);
  }
}

/** Null if it has to run elsewhere after all. */
async function inGroup(
  { groupCommit }: QueryDeps,
  request: StatementRequest,
  measure: Measure | null,
  supervise: Supervise,
): Promise<Buffer | null> {
  const entry: Entry = { request, measure, guard: null, most: 0, ...unrefused };
  const endSupervision = supervise(() => {
    entry.isStopped = true;
    groupCommit.halt(request.project.id);
  });
  try {
    return await groupCommit.join(request.project, entry);
  } finally {
    endSupervision();
  }
}

/** In a session that it has to itself. `measure` null: its size need not be checked before the commit. */
function inSession(
  deps: QueryDeps,
  request: StatementRequest,
  measure: Measure | null,
  supervise?: Supervise,
): Promise<Answer> {
  const { project, statement, profile, input, reader } = request;
  const { timeoutMs, maxAffected, dryRun } = input;
  const use = !isPlain(profile) ? 'any' : statement.isRead ? 'read' : 'plain';
  // Decided together with `use`: without a frame, the session's mode is what keeps a read from writing.
  const frame = frameOf(input, project.actingUser, use === 'read' && statement.isProven);
  const terms = { reader, timeoutMs, use, ...(supervise && { supervise }) } as const;
  return withSession(deps, project, terms, async (exclusive) => {
    if (project.standby) await checkStandby(deps, project, exclusive);
    // VACUUM runs the project's functions in indexes. They must write nothing; VACUUM itself is not affected.
    if (statement.isVacuum) await exclusive.command('set default_transaction_read_only = on');
    // As long as the change may be undone, nothing of its answer is sent.
    const held = maxAffected === null && !(measure && statement.writes) ? null : new HeldAnswer(project);
    exclusive.onFailure = () => held?.release();
    const own = statement.isRead ? null : await ownSize(exclusive, measure);
    const framed = framedBy(frame, measure, own, !statement.preparable);
    const exchange = exclusive.exchange(request, held ?? reader, framed);
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

/** It runs in no transaction, and may need room while it rewrites. */
async function vacuum(deps: QueryDeps, request: StatementRequest): Promise<Answer> {
  const { headroom } = deps.admission;
  const { id } = request.project;
  const admitted = await headroom.admit(id, { alwaysMeasured: true });
  const line = admitted && stopLine(admitted, 'rewriting');
  const supervise: Supervise = (stop) => headroom.watch(id, line, (because) => stop(because, 0));
  return inSession(deps, request, null, supervise);
}

function answerOf(exchange: Exchange, reader: Reader): Buffer | null {
  const rest = exchange.close();
  if (!exchange.isStreaming) return rest;
  reader.write(rest, () => {});
  return null;
}

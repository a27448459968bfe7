// Admission of statements that may make a project larger: how limit_mb holds without measuring every statement.
//
// A statement passes through these states:
//
//   waiting     the writer queue is closed, because a statement came to the limit lately: one writer at a time
//   admitted    headroom.ts says how far the limit is. Far: nothing is measured. Near: the size is checked before the
//               commit, in the same transaction (`sizeCheck`). Full: the project's size is compared with what it was
//               before, so that only what frees space, or adds nothing, can commit
//   running     supervised: past its line the statement is cancelled, then terminated
//   refused     space is reclaimed. If that, or a raised limit, may have made room, the statement runs again, at most
//               three times; otherwise the caller gets 507, and nothing of the statement is left behind
//
// What this rests on: nothing is committed unchecked while it could cross the limit (limits*.test.ts); a 507 is sent only
// when the statement is known to be undone; a statement whose outcome is unknown is never repeated.
import { setTimeout as sleep } from 'node:timers/promises';
import { errors, RowhouseError } from '../errors/errors.ts';
import type { Admission, Headroom } from '../quotas/headroom.ts';
import type { Reclaim } from '../quotas/reclaiming/reclaim.ts';
import { type Measure, ownSizeText, sizeCheck } from '../quotas/size-check.ts';
import { stopLine, unframedMargin } from '../quotas/stop-line.ts';
import type { WriterQueue } from '../quotas/writer-queue.ts';
import type { ProjectLogin } from '../servers/databases/login.ts';
import type { Command } from './exchange/commands.ts';
import { isLate, isOverLimit, noteFate, wantsNoTransaction, wasInterrupted } from './exchange/failures.ts';
import type { Frame } from './exchange/frame.ts';
import type { Reader } from './exchange/reader.ts';
import type { ExclusiveSession, Supervise } from './sessions/exclusive.ts';
import type { Statement } from './statement/statement.ts';

export type AdmissionDeps = Readonly<{
  headroom: Headroom;
  writerQueue: WriterQueue;
  reclaim: Reclaim;
  /** Opens a session meanwhile, if the project has none. */
  warm: (project: ProjectLogin) => void;
  /** For the metrics. */
  onRefused: (code: 'project_full' | 'server_full') => void;
}>;

/** What a statement, or several in one transaction, can do to the size of the project. */
export type Growth = Readonly<{
  /** It can run again: it reads nothing that is gone afterwards. */
  canRepeat: boolean;
  /** It can commit by itself, so that what it has done stays done. */
  canCommit: boolean;
  /** It takes long anyway: the project is measured however far its limit is. */
  alwaysMeasured: boolean;
  /** It can free space: what it deletes is reclaimed before the next statement. */
  changes: boolean;
  /** It is rolled back, and what it wrote has to be reclaimed. */
  isUndone: boolean;
  /** It can end up smaller than it is in between. */
  canShrink: boolean;
  /** If it does anything, it adds something. */
  adds: boolean;
  /** The most that it adds, in bytes. Left out or 0: unknown. */
  bound?: number;
  /** It adds nothing, or frees space: admitted even over the limit, as long as it makes nothing larger. */
  isHarmless: boolean;
}>;

/** `measure` null: it commits by itself. */
type Run<T> = (measure: Measure | null, supervise: Supervise) => Promise<T>;

type Growing = Readonly<{ project: ProjectLogin; growth: Growth; reader: Reader }>;

/** One statement under admission. `endTurn`: it holds the turn in the writer queue. */
type Admitting<T> = Growing &
  Readonly<{ deps: AdmissionDeps; run: Run<T> }> & { endTurn: (() => void) | null };

/** `stopAt`: where a statement that is not measured is stopped, if not at the usual line. */
type Attempt = Readonly<{ measure: Measure | null; stopAt: number | null; repeatsLeft: number }>;

/** What happened to an attempt while it ran. */
type Outgrown = { isOutgrown: boolean; isDiskLow: boolean };

/** For statements of a caller. */
export function growthOf(
  statements: readonly Statement[],
  more: Pick<Growth, 'canCommit' | 'isUndone'> & Partial<Pick<Growth, 'changes' | 'bound'>>,
): Growth {
  return {
    canRepeat: true,
    alwaysMeasured: false,
    changes: statements.some(({ writes }) => writes),
    canShrink: statements.some(({ canShrink }) => canShrink),
    adds: statements.some(({ preparable, writes, isDelete }) => preparable && writes && !isDelete),
    isHarmless: statements.every(isHarmless),
    ...more,
  };
}

/** It removes rows or tables, or it reads and at most locks. */
function isHarmless({ canShrink, isDelete, writes, effect }: Statement): boolean {
  return canShrink || isDelete || (!writes && effect === 'none');
}

/** A statement that is not known to only read may write. */
export function mayGrow({ isRead, isVacuum }: Statement, isPlainRead: boolean): boolean {
  return !(isRead && isPlainRead) && !isVacuum;
}

/** Runs a statement so that the project stays within its limit, or throws a 507 that leaves nothing behind. */
export async function withHeadroom<T>(deps: AdmissionDeps, growing: Growing, run: Run<T>): Promise<T> {
  const { project, growth, reader } = growing;
  const admitting: Admitting<T> = { deps, project, growth, reader, run, endTurn: null };
  if (!growth.isHarmless && deps.writerQueue.isClosed(project.id)) await waitForTurn(admitting);
  try {
    return await enter(admitting);
  } finally {
    admitting.endTurn?.();
  }
}

async function waitForTurn<T>(admitting: Admitting<T>): Promise<void> {
  admitting.endTurn ??= await admitting.deps.writerQueue.take(admitting.project.id);
}

async function enter<T>(admitting: Admitting<T>): Promise<T> {
  const { deps, project, growth } = admitting;
  const found = deps.headroom.admit(project.id, growth);
  // The project may have been idle, without a session.
  if (found instanceof Promise) deps.warm(project);
  const admission = found instanceof Promise ? await found : found;
  const isTooFull = admission && !growth.isHarmless && (growth.adds ? isOver : isFarOver)(admission);
  const granted = isTooFull ? await freeSpace(admitting) : admission;
  const measure = granted && measureBy(granted, growth);
  return attempt(admitting, { measure, stopAt: null, repeatsLeft: 3 });
}

/**
 * Reclaims space for as long as the caller has time: a known outcome must not be lost by waiting. The work goes on by
 * itself after that.
 */
function reclaim({ deps, project, reader }: Growing & { deps: AdmissionDeps }): Promise<unknown> {
  const waitMs = Math.max(0, Math.min(maxReclaimMs, reader.leftMs - answerMs));
  return Promise.race([deps.reclaim.run(project), sleep(waitMs, undefined, { ref: false })]);
}
const [maxReclaimMs, answerMs] = [10_000, 300];

/** The project is so far in its reserve that a statement that adds something is not even started. */
async function freeSpace<T>(admitting: Admitting<T>): Promise<Admission | null> {
  const { deps, project, growth } = admitting;
  deps.headroom.forget(project.id);
  await reclaim(admitting);
  const admission = await deps.headroom.admit(project.id, { alwaysMeasured: true });
  if (admission && (growth.adds ? isOver : isFarOver)(admission))
    throw admission.isServerFull ? refuseForDisk(deps) : await refuse(deps, project);
  return admission;
}

/** So far over the limit that only statements that are known to free space are tried. */
function isFarOver({ isFull, size, limit }: Admission): boolean {
  return isFull && size > limit + farOver;
}
const farOver = 8 * 1024 * 1024;

function isOver({ isFull, size, cap }: Admission): boolean {
  return isFull && size > cap;
}

function measureBy(
  admission: Admission,
  { canShrink, isHarmless }: Growth,
  before: Admission | Measure = admission,
  wantsCompared = admission.isFull,
): Measure {
  // What failed attempts left on disk must not become room for a statement that adds to it.
  const comparesOwn = wantsCompared && (isHarmless || !isOver(admission));
  const { usual, shrinking } = admission.extra;
  const left = Math.max(0, admission.size - before.size) + ('left' in before ? before.left : 0);
  const extra = canShrink ? shrinking : usual;
  return { ...admission, comparesOwn, isCapped: !isHarmless, left, extra, pending: 0 };
}

function mannerOf({ comparesOwn }: Measure, { canShrink, adds }: Growth) {
  if (comparesOwn && canShrink) return 'rewriting';
  return adds ? 'adding' : 'other';
}

/** It has not started, and has to wait for its turn in the writer queue. */
class NotNow extends Error {}

async function attempt<T>(admitting: Admitting<T>, current: Attempt): Promise<T> {
  const { deps, project, growth, run } = admitting;
  const { measure } = current;
  const state: Outgrown = { isOutgrown: false, isDiskLow: measure?.isServerFull ?? false };
  const startedAt = performance.now();
  try {
    const result = await run(measure, superviseBy(admitting, current, state));
    if (measure?.isFull && growth.changes) await reclaim(admitting);
    else if (growth.changes) written.add(project.id);
    if (measure && growth.isUndone) void deps.reclaim.run(project);
    return result;
  } catch (error) {
    if (error instanceof NotNow) {
      await waitForTurn(admitting);
      return enter(admitting);
    }
    return afterFailure(admitting, current, { error, startedAt, ...state });
  }
}

/** Stops the statement once the project has grown past the line. */
function superviseBy<T>(admitting: Admitting<T>, { measure, stopAt }: Attempt, state: Outgrown): Supervise {
  const { deps, project, growth } = admitting;
  const line = measure ? stopLine(measure, mannerOf(measure, growth)) : stopAt;
  return (stop) => {
    // The project became full while the statement waited for a session, and others are before it.
    if (!growth.isHarmless && !admitting.endTurn && deps.writerQueue.isClosed(project.id)) throw new NotNow();
    const onOutgrown = (because: RowhouseError) => {
      state.isOutgrown = true;
      state.isDiskLow ||= because.code === 'server_full';
      // A function can catch a cancel like any error and go on. A statement that can commit gets no time for that.
      stop(because, measure || !growth.canCommit ? cancelMs : 0);
    };
    const end = deps.headroom.watch(project.id, line, onOutgrown, growth.bound);
    if (measure) measure.pending = deps.headroom.pending(project.id);
    return end;
  };
}

type Failure = Outgrown & Readonly<{ error: unknown; startedAt: number }>;

/** Runs the statement again where it can succeed, or throws what the caller is told. */
async function afterFailure<T>(admitting: Admitting<T>, current: Attempt, failure: Failure): Promise<T> {
  const { deps, project, growth, reader } = admitting;
  const { measure, stopAt, repeatsLeft } = current;
  const { error, isOutgrown, isDiskLow } = failure;
  // Whether it was done is not known, so it is not done again.
  if (error instanceof RowhouseError && error.code === 'outcome_unknown') throw error;
  const hasCommitted = measure === null && growth.canCommit;
  const mayRepeat = growth.canRepeat && !hasCommitted && !reader.hasBegun && repeatsLeft > 0;
  const again = (next: Measure | null, otherLine: number | null = null) =>
    attempt(admitting, { measure: next, stopAt: otherLine, repeatsLeft: repeatsLeft - 1 });
  // Not tried again: what is reclaimed here may be all that was missing, and another attempt would fill it again.
  if (isDiskLow && (isOutgrown || isOverLimit(error)) && !hasCommitted) {
    deps.headroom.forget(project.id);
    await reclaim(admitting);
    throw refuseForDisk(deps);
  }
  if (isOutgrown && measure === null && stopAt === null && mayRepeat) {
    const next = await deps.headroom.admit(project.id, { alwaysMeasured: true });
    if (next) return again(measureBy(next, growth));
  }
  if (isOutgrown || isOverLimit(error)) {
    const next = await measureAgain(admitting, current, failure.startedAt);
    const refused = () => refuse(deps, project, 0, hasCommitted);
    if (!mayRepeat || !next) throw await refused();
    return again(next).catch(async (later) => {
      // It has come to the limit, although now it was its time that ended first.
      throw isLate(later) ? await refused() : later;
    });
  }
  if (measure && mayRepeat && wantsNoTransaction(error)) {
    // It commits by itself, so it is stopped well before the limit.
    const before = measure.limit - unframedMargin;
    if (measure.isFull || measure.size > before - unframedMargin / 4)
      throw await refuse(deps, project, unframedMargin);
    return again(null, before);
  }
  // A failed statement's pages take up space until they are reclaimed.
  if (measure || wasInterrupted(error)) void deps.reclaim.run(project);
  throw error;
}

/**
 * The statement came to the limit: from here on writers take turns, and space is reclaimed. Gives how another attempt is
 * measured; null if it would fail in the same way, or the first one took too long.
 */
async function measureAgain<T>(
  admitting: Admitting<T>,
  { measure }: Attempt,
  startedAt: number,
): Promise<Measure | null> {
  const { deps, project, growth } = admitting;
  deps.writerQueue.close(project.id);
  if (!growth.isHarmless) await waitForTurn(admitting);
  // The limit may have changed, and what was deleted before may make room for this.
  deps.headroom.forget(project.id);
  const wasWritten = written.delete(project.id);
  await reclaim(admitting);
  const next = await deps.headroom.admit(project.id, { alwaysMeasured: true });
  if (!next || !measure || performance.now() - startedAt >= repeatWithinMs) return null;
  if (growth.canShrink && !measure.comparesOwn) return measureBy(next, growth, measure, true);
  if (!wasWritten && !hasMoreRoom(measure, next)) return null;
  return measureBy(next, growth, measure, measure.comparesOwn || next.isFull);
}

/** Projects that were written to since space was last reclaimed: reclaiming may free more. */
const written = new Set<string>();
/** A statement that took longer does not run again, only to be refused again. */
const repeatWithinMs = 2_000;
/** From the cancel to the termination. */
const cancelMs = 50;

/** Whether the limit was raised, or space was freed, since the first attempt was measured. */
function hasMoreRoom(before: Measure, now: Admission): boolean {
  if (now.limit > before.limit || before.pending > 0) return true;
  const isOther = Math.abs(now.size - before.size) > 64 * 1024;
  return before.isFull !== now.isFull || (before.isFull ? isOther : isOther && now.size < before.size);
}

async function refuse(
  { headroom, onRefused }: AdmissionDeps,
  { id }: ProjectLogin,
  needs = 0,
  hasCommitted = false,
): Promise<RowhouseError> {
  const refusal = await headroom.refusal(id, { needs, hasCommitted });
  onRefused(refusal.code as 'project_full' | 'server_full');
  return hasCommitted ? noteFate(refusal, 'uncertain') : refusal;
}

function refuseForDisk({ onRefused }: AdmissionDeps): RowhouseError {
  onRefused('server_full');
  return errors.serverFull();
}

/** The size of the project before a statement that must not make it larger. */
export async function ownSize(exclusive: ExclusiveSession, measure: Measure | null): Promise<number | null> {
  if (!measure?.comparesOwn) return null;
  return Number(await exclusive.ask(ownSizeText, []));
}

/** The size check, if there is one, and the commit. */
export function closing(measure: Measure | null, own: number | null): Command[] {
  return measure ? [...sizeCheck(measure, own), 'commit'] : ['commit'];
}

/** The frame with the size check in it. `canCommit`: the statement could end a transaction that was not begun explicitly. */
export function framedBy(
  frame: Frame,
  measure: Measure | null,
  own: number | null,
  canCommit: boolean,
): Frame {
  if (!measure || frame.endsIn === 'transaction') return frame;
  const { before, after } = frame;
  if (after.length === 0 && before.length === 0 && !canCommit)
    // PostgreSQL runs everything up to the Sync message in one implicit transaction.
    return { before, after: sizeCheck(measure, own), endsIn: 'idle' };
  const end = closing(measure, own);
  if (after.length === 0 && before.length === 0) return { before: ['begin'], after: end, endsIn: 'idle' };
  return { ...frame, after: after.flatMap((command) => (command === 'commit' ? end : [command])) };
}

// Statements that may make a project larger: each is let in as its room allows, watched while it runs, and measured before
// it is committed where that could matter. What is refused leaves nothing behind, and is told once that is so.
import { setTimeout as sleep } from 'node:timers/promises';
import type { ProjectLogin } from '../engine/provision.ts';
import { errors, RowhouseError } from '../errors.ts';
import { type Admission, type Headroom, stopLine, unframedMargin } from '../quotas/headroom.ts';
import type { Reclaim } from '../quotas/reclaim.ts';
import type { WriterQueue } from '../quotas/writer-queue.ts';
import type { Command } from './exchange/commands.ts';
import type { Frame } from './exchange/exchange.ts';
import { isOverLimit, noteFate, wasRaised } from './exchange/failures.ts';
import type { Reader } from './exchange/statement-deadline.ts';
import type { ExclusiveSession, Supervise } from './sessions/exclusive.ts';

export type AdmissionDeps = Readonly<{
  headroom: Headroom;
  writerQueue: WriterQueue;
  reclaim: Reclaim;
  /** For the metrics. */
  onRefused: (code: 'project_full' | 'server_full') => void;
}>;

type Options = Readonly<{
  /** It can be run again: it reads nothing that is gone afterwards. */
  canRepeat: boolean;
  /** It can commit by itself, so that what it has done stays done. */
  canCommit: boolean;
  /** It takes long anyway: measured however far the limit is. */
  evenFar: boolean;
  /** It can make room: what it deleted is there for the next one. */
  changes: boolean;
  /** It is rolled back, and leaves what it wrote to be tidied up. */
  isUndone: boolean;
  /** It can end up smaller than it is in between. */
  canShrink: boolean;
  /** It is sure to add something, if it does anything. */
  adds: boolean;
  /** It adds nothing, or makes room: let in even over the limit, as long as it makes nothing larger. */
  isHarmless: boolean;
}>;

/** How a statement has to be measured before it is committed; `comparesOwn`: with what was there before, too. */
export type Measure = Omit<Admission, 'extra'> &
  Readonly<{
    comparesOwn: boolean;
    /** On disk no more than `cap`, whatever is compared. */
    isCapped: boolean;
    extra: number;
    /** What attempts of this very statement have left on disk. */
    left: number;
  }>;

/** `measure` null: it commits by itself. */
type Run<T> = (measure: Measure | null, supervise: Supervise) => Promise<T>;

/** A statement on its way: at its turn, once the project was found full. */
type Turn = { leave: (() => void) | null };

export async function withHeadroom<T>(
  deps: AdmissionDeps,
  project: ProjectLogin,
  options: Options,
  reader: Reader,
  run: Run<T>,
): Promise<T> {
  const turn: Turn = { leave: null };
  if (!options.isHarmless && deps.writerQueue.isClosed(project.id)) await waitForTurn(deps, project, turn);
  try {
    return await enter(deps, project, options, reader, run, turn);
  } finally {
    turn.leave?.();
  }
}

async function waitForTurn({ writerQueue }: AdmissionDeps, { id }: ProjectLogin, turn: Turn): Promise<void> {
  turn.leave ??= await writerQueue.take(id);
}

async function enter<T>(
  deps: AdmissionDeps,
  project: ProjectLogin,
  options: Options,
  reader: Reader,
  run: Run<T>,
  turn: Turn,
): Promise<T> {
  const found = deps.headroom.admit(project.id, options);
  const admission = found instanceof Promise ? await found : found;
  const hasNoBusiness = admission && !options.isHarmless && (options.adds ? isOver : isFarOver)(admission);
  const room = hasNoBusiness ? await makeRoom(deps, project, options, reader) : admission;
  const measure = room && measureBy(room, options);
  return attempt(deps, project, options, reader, run, turn, measure, null, 3);
}

/** As long as the caller has time: what is known of the outcome must not be lost by that. It goes on by itself. */
function tidy({ reclaim }: AdmissionDeps, project: ProjectLogin, { leftMs }: Reader): Promise<unknown> {
  const waitMs = Math.max(0, Math.min(maxTidyMs, leftMs - answerMs));
  return Promise.race([reclaim.run(project), sleep(waitMs, undefined, { ref: false })]);
}
const [maxTidyMs, answerMs] = [10_000, 300];

/** So far in its reserve that nothing is to be had within, nothing is even begun that adds something. */
async function makeRoom(
  deps: AdmissionDeps,
  project: ProjectLogin,
  { adds }: Options,
  reader: Reader,
): Promise<Admission | null> {
  deps.headroom.forget(project.id);
  await tidy(deps, project, reader);
  const admission = await deps.headroom.admit(project.id, { evenFar: true });
  if (admission && (adds ? isOver : isFarOver)(admission))
    throw admission.isServerFull ? refuseForDisk(deps) : await refuse(deps, project);
  return admission;
}

/** Here not even what might make room is tried, unless it is known to. */
function isFarOver({ isFull, size, limit }: Admission): boolean {
  return isFull && size > limit + farOver;
}
const farOver = 8 * 1024 * 1024;

function isOver({ isFull, size, cap }: Admission): boolean {
  return isFull && size > cap;
}

function measureBy(
  admission: Admission,
  { canShrink, isHarmless }: Options,
  before: Admission | Measure = admission,
  wantsCompared = admission.isFull,
): Measure {
  // What failed attempts have left must not become room for what adds to it.
  const comparesOwn = wantsCompared && (isHarmless || !isOver(admission));
  const { usual, shrinking } = admission.extra;
  const left = Math.max(0, admission.size - before.size) + ('left' in before ? before.left : 0);
  return { ...admission, comparesOwn, isCapped: !isHarmless, left, extra: canShrink ? shrinking : usual };
}

function mannerOf({ comparesOwn }: Measure, { canShrink, adds }: Options) {
  if (comparesOwn && canShrink) return 'rewriting';
  return adds ? 'adding' : 'other';
}

/** It has not begun, and has to wait for its turn. */
class NotNow extends Error {}

/** `stopAt`: of a statement that is not measured, other than the usual one. */
async function attempt<T>(
  deps: AdmissionDeps,
  project: ProjectLogin,
  options: Options,
  reader: Reader,
  run: Run<T>,
  turn: Turn,
  measure: Measure | null,
  stopAt: number | null,
  left: number,
): Promise<T> {
  let isOutgrown = false;
  let isDiskLow = measure?.isServerFull ?? false;
  const line = measure ? stopLine(measure, mannerOf(measure, options)) : stopAt;
  const supervise: Supervise = (stop) => {
    // While it waited for a session the project was found full, and there are others before it.
    if (!options.isHarmless && !turn.leave && deps.writerQueue.isClosed(project.id)) throw new NotNow();
    return deps.headroom.watch(project.id, line, (because) => {
      isOutgrown = true;
      isDiskLow ||= because.code === 'server_full';
      // A function can take a cancel for an error like others, and go on; what can commit has no time to.
      stop(because, measure || !options.canCommit ? cancelMs : 0);
    });
  };
  const startedAt = performance.now();
  try {
    const result = await run(measure, supervise);
    if (measure?.isFull && options.changes) await tidy(deps, project, reader);
    else if (options.changes) written.add(project.id);
    if (measure && options.isUndone) void deps.reclaim.run(project);
    return result;
  } catch (error) {
    if (error instanceof NotNow) {
      await waitForTurn(deps, project, turn);
      return enter(deps, project, options, reader, run, turn);
    }
    // Whether it is done is not known, so it is not done again.
    if (error instanceof RowhouseError && error.code === 'outcome_unknown') throw error;
    const hasCommitted = measure === null && options.canCommit;
    const mayRepeat = options.canRepeat && !hasCommitted && !reader.hasBegun && left > 0;
    const again = (next: Measure | null, otherLine: number | null = null) =>
      attempt(deps, project, options, reader, run, turn, next, otherLine, left - 1);
    const admit = () => deps.headroom.admit(project.id, { evenFar: true });
    // Told as it was: what is given back here may be all that was missing, and would be filled again by another attempt.
    if (isDiskLow && (isOutgrown || isOverLimit(error)) && !hasCommitted) {
      deps.headroom.forget(project.id);
      await tidy(deps, project, reader);
      throw refuseForDisk(deps);
    }
    if (isOutgrown && measure === null && stopAt === null && mayRepeat) {
      const next = await admit();
      if (next) return again(measureBy(next, options));
    }
    if (isOutgrown || isOverLimit(error)) {
      deps.writerQueue.close(project.id);
      if (!options.isHarmless) await waitForTurn(deps, project, turn);
      // The limit may be another one by now, and what was deleted before may make room for this.
      deps.headroom.forget(project.id);
      const wasWritten = written.delete(project.id);
      await tidy(deps, project, reader);
      const next = await admit();
      const isQuick = performance.now() - startedAt < repeatWithinMs;
      if (mayRepeat && next && measure && isQuick) {
        if (options.canShrink && !measure.comparesOwn) return again(measureBy(next, options, measure, true));
        if (wasWritten || hasMoreRoom(measure, next))
          return again(measureBy(next, options, measure, measure.comparesOwn || next.isFull));
      }
      throw await refuse(deps, project, 0, hasCommitted);
    }
    if (measure && mayRepeat && wantsNoTransaction(error)) {
      // It commits by itself, so it is stopped well before the limit.
      const before = measure.limit - unframedMargin;
      if (measure.isFull || measure.size > before - unframedMargin / 4)
        throw await refuse(deps, project, unframedMargin);
      return again(null, before);
    }
    // What a failed statement wrote still takes up room, until it is tidied up.
    if (measure || wasInterrupted(error)) void deps.reclaim.run(project);
    throw error;
  }
}

/** Where something was written since room was last made: there may be more to be had. */
const written = new Set<string>();
/** A statement that took long is not run twice to be refused twice. */
const repeatWithinMs = 2_000;
/** From being told to stop to being ended. */
const cancelMs = 50;

/** What the first attempt did not know, or what was freed since. */
function hasMoreRoom(before: Measure, now: Admission): boolean {
  if (now.limit > before.limit) return true;
  const isOther = Math.abs(now.size - before.size) > 64 * 1024;
  return before.isFull !== now.isFull || (before.isFull ? isOther : isOther && now.size < before.size);
}

/** "cannot run inside a transaction block", and a COMMIT inside one. */
function wantsNoTransaction(error: unknown): boolean {
  const state = error instanceof RowhouseError && !wasRaised(error) ? error.sql?.state : undefined;
  return state === '25001' || state === '2D000';
}

/** It may have written for long, also where nothing had to be measured. */
function wasInterrupted(error: unknown): boolean {
  return error instanceof RowhouseError && ['query_timeout', 'request_timeout'].includes(error.code);
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

/** What the project takes up, for a statement that may only make it smaller. */
export async function ownSize(exclusive: ExclusiveSession, measure: Measure | null): Promise<number | null> {
  if (!measure?.comparesOwn) return null;
  return Number(await exclusive.ask('select rowhouse.own_size()::pg_catalog.text', []));
}

/** What comes before the commit, and that. */
export function closing(measure: Measure | null, own: number | null): Command[] {
  return measure ? [...sizeCheck(measure, own), 'commit'] : ['commit'];
}

/**
 * Before its deadline the function, which takes longer than all of the rest, is not even called. After this nothing is
 * written any more: a deferred trigger can defer another one until the commit.
 */
const checkText = `select pg_catalog.set_config('transaction_read_only', 'on', true), (
  select rowhouse.check_size($1, $2, $3, $4)
  where pg_catalog.clock_timestamp() operator(pg_catalog.>=) pg_catalog.to_timestamp($4::pg_catalog.float8))`;

/** Deferred constraints first: their triggers may write. */
export function sizeCheck(measure: Measure, own: number | null): Command[] {
  const { ceiling, cap, isCapped, extra, left, deadline } = measure;
  const allowance = own === null ? -1 : Math.max(0, own - left + extra);
  const parameters = [ceiling, allowance, isCapped ? cap : -1].map((bytes) => String(Math.floor(bytes)));
  return [
    'set constraints all immediate',
    { text: checkText, parameters: [...parameters, String(deadline)] },
  ];
}

/** Both hold for what is committed by it. Of projects with room: neither is compared with what was there before. */
export function strictest(one: Measure, other: Measure): Measure {
  const [ceiling, cap, deadline] = (['ceiling', 'cap', 'deadline'] as const).map((part) =>
    Math.min(one[part], other[part]),
  ) as [number, number, number];
  return { ...one, ceiling, cap, deadline };
}

/** The same around a statement that has to be measured. `canCommit`: it could end a transaction that was not begun. */
export function framedBy(
  frame: Frame,
  measure: Measure | null,
  own: number | null,
  canCommit: boolean,
): Frame {
  if (!measure || frame.endsIn === 'transaction') return frame;
  const { before, after } = frame;
  if (after.length === 0 && before.length === 0 && !canCommit)
    // What is sent in one go is one transaction, without a word about it.
    return { before, after: sizeCheck(measure, own), endsIn: 'idle' };
  const end = closing(measure, own);
  if (after.length === 0 && before.length === 0) return { before: ['begin'], after: end, endsIn: 'idle' };
  return { ...frame, after: after.flatMap((command) => (command === 'commit' ? end : [command])) };
}

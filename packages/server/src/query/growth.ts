// Statements that may make a project larger: each is let in as its room allows, watched while it runs, and measured before
// it is committed where that could matter. What is refused leaves nothing behind, and is told once that is so.
import type { ProjectLogin } from '../engine/provision.ts';
import { RowhouseError } from '../errors.ts';
import type { Reclaim } from '../quotas/reclaim.ts';
import { type Admission, type Rooms, stopLine, unframedMargin } from '../quotas/rooms.ts';
import type { Command } from './commands.ts';
import type { Frame } from './exchange.ts';
import { isOverLimit } from './failures.ts';
import type { Reader } from './watch.ts';
import type { Watching } from './work.ts';

export type GrowthDeps = Readonly<{
  rooms: Rooms;
  reclaim: Reclaim;
  /** For the metrics. */
  onRefused: (code: 'project_full' | 'server_full') => void;
}>;

type Options = Readonly<{
  /** It can be run again: it reads nothing that is gone afterwards. */
  canRepeat: boolean;
  /** It takes long anyway: measured however far the limit is. */
  evenFar: boolean;
  /** It can make room: what it deleted is there for the next one. */
  changes: boolean;
}>;

/** `admission` null: it commits by itself. */
type Run<T> = (admission: Admission | null, watching: Watching) => Promise<T>;

export async function withinRoom<T>(
  deps: GrowthDeps,
  project: ProjectLogin,
  options: Options,
  reader: Reader,
  run: Run<T>,
): Promise<T> {
  const found = deps.rooms.admit(project.id, options);
  const admission = found instanceof Promise ? await found : found;
  return attempt(deps, project, options, reader, run, admission, admission && stopLine(admission), 2);
}

async function attempt<T>(
  deps: GrowthDeps,
  project: ProjectLogin,
  options: Options,
  reader: Reader,
  run: Run<T>,
  admission: Admission | null,
  stopAt: number | null,
  left: number,
): Promise<T> {
  let isOutgrown = false;
  const watching: Watching = (stop) =>
    deps.rooms.watch(project.id, stopAt, (because) => {
      isOutgrown = true;
      stop(because);
    });
  try {
    const result = await run(admission, watching);
    if (admission?.isFull && options.changes) await deps.reclaim(project).catch(() => {});
    return result;
  } catch (error) {
    const mayRepeat = options.canRepeat && !reader.hasBegun && left > 0;
    const again = (next: Admission | null, line: number | null) =>
      attempt(deps, project, options, reader, run, next, line, left - 1);
    if (isOutgrown && admission === null && stopAt === null && mayRepeat) {
      const next = await deps.rooms.admit(project.id, { evenFar: true });
      if (next) return again(next, stopLine(next));
    }
    if (isOutgrown || isOverLimit(error)) {
      await deps.reclaim(project).catch(() => {});
      const next = await deps.rooms.admit(project.id, { evenFar: true });
      if (mayRepeat && next && admission && isOverLimit(error) && hasMoreRoom(admission, next))
        return again(next, stopLine(next));
      throw await refuse(deps, project);
    }
    if (admission && mayRepeat && wantsNoTransaction(error)) {
      // It commits by itself, so it is stopped well before the limit.
      const line = admission.limit - unframedMargin;
      if (admission.isFull || admission.size > line - unframedMargin / 4)
        throw await refuse(deps, project, unframedMargin);
      return again(null, line);
    }
    // What a failed statement wrote still takes up room, until it is tidied up.
    if (admission) deps.reclaim(project).catch(() => {});
    throw error;
  }
}

/** What the first attempt did not know, or what was freed since. */
function hasMoreRoom(before: Admission, now: Admission): boolean {
  if (!before.isFull) return now.isFull;
  return !now.isFull || now.size < before.size - 64 * 1024;
}

/** "cannot run inside a transaction block", and a COMMIT inside one. */
function wantsNoTransaction(error: unknown): boolean {
  const state = error instanceof RowhouseError ? error.sql?.state : undefined;
  return state === '25001' || state === '2D000';
}

async function refuse(
  { rooms, onRefused }: GrowthDeps,
  { id }: ProjectLogin,
  needs = 0,
): Promise<RowhouseError> {
  const refusal = await rooms.refusal(id, needs);
  onRefused(refusal.code as 'project_full' | 'server_full');
  return refusal;
}

/** What comes before the commit. Deferred constraints first: their triggers may write. */
export function closing(admission: Admission | null): Command[] {
  if (!admission) return ['commit'];
  const { ceiling, allowance, deadline } = admission;
  const parameters = [String(Math.floor(ceiling)), String(Math.floor(allowance)), String(deadline)];
  return ['set constraints all immediate', { prepared: 'check_size', parameters }, 'commit'];
}

/** The same around a statement that has to be measured. */
export function framedBy(frame: Frame, admission: Admission | null): Frame {
  if (!admission || frame.endsIn === 'transaction') return frame;
  const { before, after } = frame;
  if (after.length === 0 && before.length === 0)
    return { before: ['begin'], after: closing(admission), endsIn: 'idle' };
  return {
    ...frame,
    after: after.flatMap((command) => (command === 'commit' ? closing(admission) : [command])),
  };
}

// Moves a project to another server, as a job. README.md has the steps, and what a crash at each of them leaves.

import type { Job, MoveProject } from '@rowhouse/api';
import { keep } from '../branches/copy.ts';
import type { BranchDeps } from '../branches/deps.ts';
import { whilePaused } from '../branches/pause.ts';
import { waitForTurn } from '../branches/server-turns.ts';
import type { Control } from '../control/control.ts';
import { newId } from '../control/new-id.ts';
import { errors } from '../errors/errors.ts';
import type { JobRun, Jobs } from '../jobs/jobs.ts';
import type { AccountCaller, OperatorCaller } from '../keys/caller.ts';
import { timeoutSignal } from '../lib/timeout-signal.ts';
import { findClosed } from '../projects/fence.ts';
import { getProjectRow } from '../projects/find.ts';
import type { ProjectRow } from '../projects/project.ts';
import { closeSource, endSessionsIn, nameTarget, verifiersOf } from '../servers/databases/move-database.ts';
import { databaseOf } from '../servers/databases/names.ts';
import { provision, sizeOf } from '../servers/databases/provision.ts';
import { resetPassword } from '../servers/databases/roles.ts';
import { isInUse } from '../servers/databases/swap-databases.ts';
import type { Fleet } from '../servers/fleet.ts';
import { defaultMaxPauseMs } from '../settings/limits/moves.ts';
import { SchemaChanged } from './catalog-fingerprint.ts';
import { checkName, checkServers, checkSwaps, waitForExport } from './checks.ts';
import { bringUpToDate, fillCopy, readerOf } from './copy.ts';
import { FellBehind } from './follow.ts';
import { type Online, type OnlineOptions, prepareOnline, startOver } from './online.ts';
import { allowedPauseMs, checkPause, notOnline, type Plan, planMove, tooLong } from './plan.ts';
import { NotOnline } from './replicable.ts';
import {
  findMove,
  insertMove,
  locateProject,
  type Move,
  setState,
  switchServer,
  withMoveLock,
} from './rows.ts';
import { actsOn, openAgain, takeStep } from './settle.ts';

export type MoveDeps = Pick<
  BranchDeps,
  'control' | 'gate' | 'inTurn' | 'ensureCurrent' | 'forget' | 'imports' | 'onError'
> &
  Readonly<{
    servers: Fleet;
    jobs: Jobs;
    /** Requests of this process find the project there from now on. */
    setHome: (projectId: string, serverId: number) => void;
    /** For tests: called before each step, which can fail there. */
    onStep?: (step: MoveStep) => Promise<void>;
  }>;
export type MoveStep =
  | 'provision'
  | 'copy'
  | 'catch up'
  | 'close'
  | 'fill'
  | 'name'
  | 'switch'
  | 'open'
  | 'drop';

export type StartedMove = { job: Job; plan: Plan };

/** A project that keeps changing its tables is moved by a dump. */
const maxOnlineAttempts = 3;

export async function startMove(
  deps: MoveDeps,
  caller: AccountCaller | OperatorCaller,
  slug: string,
  input: MoveProject,
): Promise<StartedMove> {
  return startMoveOf(deps, await getProjectRow(deps.control, caller, slug), input);
}

/** Moves a project of any account: for an operator who drains a server. */
export async function startMoveOf(
  deps: MoveDeps,
  project: ProjectRow,
  input: MoveProject,
): Promise<StartedMove> {
  const { control, servers, jobs } = deps;
  const { slug } = project;
  const { server: name, max_pause_ms: maxPauseMs = defaultMaxPauseMs } = input;
  const from = servers.of(project.server_id);
  if (from.name === name)
    throw errors.conflict(`"${slug}" is already on the server "${name}".`, 'Choose another server.');
  const { server: to } = servers.place({ limitMb: project.limit_mb, server: name });
  const isClosed = (await findClosed(control, project.id)) ?? false;
  const plan = await planMove(project, { from, to }, input, isClosed);
  checkPause(project, plan, { isClosed, maxPauseMs });
  // One that is being moved there is refused below, with a message that says so.
  if (!(await findMove(control, project.id))) await checkName(to, project.id);
  const jobId = newId();
  const move: Move = {
    projectId: project.id,
    jobId,
    copyId: newId(),
    fromServer: from.id,
    toServer: to.id,
  };
  await insertMove(control, move, to.template);
  const newJob = { id: jobId, kind: 'move' as const, accountId: project.account_id, projectId: project.id };
  try {
    const asked = { plan, maxPauseMs, mode: input.mode ?? 'auto' };
    const job = await jobs.start(newJob, (run) => runMove(deps, project, move, asked, run));
    return { job, plan };
  } catch (error) {
    // The row has no process: the background work removes it.
    await withMoveLock(control, project.id, () => finish(deps, move)).catch(deps.onError);
    throw error;
  }
}

type Asked = Readonly<{ plan: Plan; maxPauseMs: number; mode: NonNullable<MoveProject['mode']> }>;

async function runMove(
  deps: MoveDeps,
  project: ProjectRow,
  move: Move,
  asked: Asked,
  run: JobRun,
): Promise<Record<string, unknown>> {
  const { control, servers } = deps;
  const result = await withMoveLock(control, move.projectId, async (lost) => {
    const signal = AbortSignal.any([run.signal, lost]);
    const keeping = setInterval(() => keep(control, move.copyId).catch(() => {}), keepMs);
    const server = servers.of(move.toServer).name;
    try {
      return { server, ...(await copyAndSwitch(deps, project, move, asked, { ...run, signal })) };
    } catch (error) {
      // A failure after the switch, or one whose outcome was unknown there: the row knows.
      const found = await locateProject(control, move.projectId).catch(() => null);
      if (found?.serverId === move.toServer) return { server };
      throw error;
    } finally {
      clearInterval(keeping);
      // After the switch: opens the target and drops the source. Before it: undoes everything.
      await finish(deps, move).catch(deps.onError);
    }
  });
  if (!result) throw errors.unavailable('another process works on this move');
  return result;
}
const keepMs = 20_000;

/** Returns the result of the job. */
async function copyAndSwitch(
  deps: MoveDeps,
  project: ProjectRow,
  move: Move,
  { plan: planned, maxPauseMs, mode }: Asked,
  run: JobRun,
): Promise<Record<string, unknown>> {
  const { control, servers, onStep = async () => {} } = deps;
  const { projectId, copyId } = move;
  const [from, to] = [servers.of(move.fromServer), servers.of(move.toServer)];
  const isClosed = async () => (await findClosed(control, projectId)) ?? false;
  let isCurrent = false;
  await onStep('provision');
  // One that accepts no connections is brought up to date when it can be read.
  const ensureCurrent = async () => {
    if (!isCurrent) await deps.ensureCurrent(projectId);
    isCurrent = true;
  };
  if (!(await isClosed())) await ensureCurrent();
  await checkServers(from, to, projectId);
  if (planned.mode === 'online') await waitForExport(control, projectId, run.signal);
  const { emptyBytes } = await provision(to, copyId);
  const source = await readerOf(from, projectId);
  run.progress(0.1);
  let plan = planned;
  const told = () => ({ mode: plan.mode, ...(plan.reason !== undefined && { reason: plan.reason }) });
  const copying: OnlineOptions = {
    projectId,
    copyId,
    from,
    to,
    source,
    progress: run.progress,
    signal: run.signal,
    limitMb: project.limit_mb,
    spool: deps.imports.spool,
    onPhase: async (phase) => {
      run.detail({ ...told(), phase });
      if (phase === 'copying rows') await onStep('copy');
      if (phase === 'catching up') await onStep('catch up');
    },
  };
  for (let attempt = 1; ; attempt++) {
    run.signal.throwIfAborted();
    let online: Online | null = null;
    try {
      // Looked up again: the account may be resumed by now.
      const isUnused = await isClosed();
      if (!isUnused) await ensureCurrent();
      if (plan.mode === 'online') online = await prepareOnline(copying);
      else checkPause(project, plan, { isClosed: isUnused, maxPauseMs });
      const switching = { copying, online, plan, isUnused, isClosed, emptyBytes, maxPauseMs };
      const pauseMs = await switchOver(deps, project, move, switching, run);
      return { ...told(), pause_ms: pauseMs };
    } catch (error) {
      if (error instanceof NotOnline) plan = notOnline(project, mode, error.message);
      else if (!(error instanceof SchemaChanged)) throw error;
      else if (attempt >= maxOnlineAttempts)
        plan = notOnline(project, mode, 'tables, functions or privileges were changed again and again');
    } finally {
      await online?.close();
    }
    run.signal.throwIfAborted();
    // A process that was suspended must not remove what a later move has begun.
    await stillMine(control, move);
    await startOver(copying);
  }
}

type Copying = {
  copying: OnlineOptions;
  online: Online | null;
  plan: Plan;
  /** Its account was suspended at the last look. */
  isUnused: boolean;
  /** Whether it is now. */
  isClosed: () => Promise<boolean>;
  emptyBytes: number;
  maxPauseMs: number;
};

/** Returns how long requests waited. */
async function switchOver(
  deps: MoveDeps,
  project: ProjectRow,
  move: Move,
  { copying, online, plan, isUnused, isClosed, emptyBytes, maxPauseMs }: Copying,
  run: JobRun,
): Promise<number> {
  const { control, onStep = async () => {} } = deps;
  const { projectId, copyId } = move;
  const { from, to } = copying;
  const verifiers = verifiersOf(to, projectId, project.password_version);
  let pausedAt = 0;
  const act = async (closedAt: number) => {
    pausedAt = closedAt;
    await onStep('close');
    // The account may have been resumed while the move waited for its turn: now its requests wait.
    const isStillUnused = isUnused && (await isClosed());
    if (isUnused && !isStillUnused) checkPause(project, plan, { isClosed: false, maxPauseMs });
    const allowedMs = allowedPauseMs(isStillUnused, maxPauseMs);
    const signal = AbortSignal.any([run.signal, timeoutSignal(allowedMs)]);
    const explain = (error: unknown) =>
      signal.aborted && !run.signal.aborted ? tooLong(allowedMs, isStillUnused) : notInUse(error);
    if (online)
      await unlessAborted(signal, online.release()).catch((error) => {
        throw explain(error);
      });
    await closeSource(from, projectId).catch(async (error) => {
      // Requests go on before the next attempt, and the target should keep up with them.
      if (online) await unlessAborted(signal, online.resume());
      throw error;
    });
    try {
      await stillMine(control, move);
      await onStep('fill');
      if (isUnused) await unlessAborted(signal, bringUpToDate(copying));
      await unlessAborted(signal, online ? online.catchUp(signal) : fillCopy({ ...copying, signal }));
      await onStep('name');
      signal.throwIfAborted();
      const name = async () => {
        await endSessionsIn(to, databaseOf(copyId));
        await nameTarget(to, projectId, copyId, verifiers);
        return sizeOf(to, projectId);
      };
      const bytes = await unlessAborted(signal, name());
      await onStep('switch');
      const switched = await switchServer(control, move, { template: to.template, emptyBytes, bytes });
      if (!switched) throw errors.conflict('The project was deleted meanwhile.', 'Restore it first.');
      // The password was rotated since the move began.
      if (switched.passwordVersion !== project.password_version) await resetPassword(to, projectId);
    } catch (error) {
      if (error instanceof SchemaChanged || error instanceof NotOnline) {
        // The move goes on: its row stays as it is.
        await stillMine(control, move);
        await openAgain(control, from, projectId).catch((failure) => {
          throw notInUse(failure);
        });
        throw error;
      }
      await reopenEarly(deps, move);
      throw explain(error);
    }
    await onStep('open');
    deps.setHome(projectId, move.toServer);
    deps.forget(projectId);
    const found = await findMove(control, projectId);
    if (found) await takeStep(control, to, found);
  };
  const takeTurn = () =>
    waitForTurn(deps.inTurn, { server: from, account: null }, run.signal, async () => {
      await checkSwaps(control, projectId);
      await copying.onPhase('switching');
      const pausing = { done: 'moved', ...(online && { prepare: online.ready }) };
      await whilePaused({ control, server: from, gate: deps.gate }, [projectId], pausing, act);
    });
  await takeTurn().catch(async (error) => {
    if (!online || !(error instanceof FellBehind)) throw error;
    await online.approach();
    await takeTurn();
  });
  const pauseMs = Math.round(performance.now() - pausedAt);
  await onStep('drop');
  return pauseMs;
}

/** A process that was taken for dead while it waited must not go on. */
async function stillMine(control: Control, move: Move): Promise<void> {
  const found = await findMove(control, move.projectId);
  if (found?.jobId !== move.jobId || found.state !== 'copying')
    throw errors.unavailable('the move was taken for dead');
}

/**
 * While requests still wait: they find the source open again. Also if the background work has undone the move meanwhile, because
 * this process was suspended and closed the source only afterwards.
 */
async function reopenEarly(deps: MoveDeps, move: Move): Promise<void> {
  const { control, servers, onError } = deps;
  const act = async () => {
    if (await isUndone(control, move)) await openAgain(control, servers.of(move.fromServer), move.projectId);
  };
  // If this fails, `finish` or the background work does it later.
  await act().catch(onError);
}

/** Marks the move, unless it is switched. Returns whether the source counts. */
async function isUndone(control: Control, move: Move): Promise<boolean> {
  await setState(control, move, 'copying', 'undoing');
  const found = await findMove(control, move.projectId);
  if (!found) return (await locateProject(control, move.projectId))?.serverId === move.fromServer;
  return found.jobId === move.jobId && (found.state === 'undoing' || found.state === 'reopened');
}

/** All steps that are left, on both servers. */
async function finish({ control, servers, onStep = async () => {} }: MoveDeps, move: Move): Promise<void> {
  for (;;) {
    const found = await findMove(control, move.projectId);
    if (found?.jobId !== move.jobId) return;
    if (found.state === 'opened') await onStep('drop');
    const acting = actsOn[found.state];
    await takeStep(control, servers.of(acting ? found[acting] : found.fromServer), found);
  }
}

/** A server that hangs must not make requests wait for longer than they may. What still runs there ends with the copy. */
function unlessAborted<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = () => reject(signal.reason);
    if (signal.aborted) stop();
    signal.addEventListener('abort', stop, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', stop));
  });
}

/** The pause would be tried again, and the source is closed by now. */
function notInUse(error: unknown): unknown {
  return isInUse(error) ? errors.unavailable(error) : error;
}

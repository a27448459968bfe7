// A drill every night, by the process that does the background work, and whenever an operator asks for one. A failure is
// loud, stays known until the same project passes a drill, and is tried again within the hour.
import { findSetting, putSetting } from '../../control/settings.ts';
import { errors, RowhouseError } from '../../errors.ts';
import type { Caller } from '../../keys/caller.ts';
import { pause } from '../../pause.ts';
import { getProjectRow } from '../../projects/find.ts';
import type { Backups } from '../backups.ts';
import { forgetDrillProblem, listDrillProblems, putDrillProblem } from '../drill-problems.ts';
import { BusyProject, chooseNext, type Drill, type DrilledProject, findDrilled, runDrill } from './drill.ts';
import type { RestoreDeps } from './restores.ts';

type Log = Record<'info' | 'error', (details: object, message: string) => void>;

type Run = { signal: AbortSignal; progress?: (fraction: number) => void };

export type Drills = {
  run(ended: AbortSignal): Promise<void>;
  /** `slug`: null for the project whose turn it is. Rejects if it cannot be drilled. */
  choose(caller: Caller, slug: string | null): Promise<DrilledProject>;
  /** One that was chosen, now. Rejects with the reason if the drill fails. */
  drill(project: DrilledProject, run: Run): Promise<Drill>;
  /** Since the start. */
  failures(): number;
  /** How many projects have not passed a drill since one of them failed. */
  failing(): Promise<number>;
  /** When a restore was last proven. null: never. */
  verifiedAt(): Promise<number | null>;
};

const hourMs = 60 * 60_000;
const lookMs = 10_000;
const postponeMs = 10 * 60_000;
/** By UTC. A machine that sleeps at night has its drill later. */
const [fromHour, toHour] = [1, 5];
const [usualMs, latestMs] = [20 * hourMs, 30 * hourMs];

export function openDrills(
  deps: RestoreDeps,
  place: { dataFolder: string; backups: Backups },
  log: Log,
): Drills {
  const { control, now } = deps;
  let failures = 0;
  /** The next attempt, after a project was busy. */
  let postponedUntil = 0;

  const timeOf = async (name: 'drilled_at' | 'drill_tried_at') =>
    Date.parse((await findSetting(control, name)) ?? '') || null;

  const drill = async (project: DrilledProject, run: Run): Promise<Drill> => {
    const { id, slug } = project;
    try {
      const done = await runDrill(deps, place, project, run);
      if (done.problems.length > 0) throw new Error(done.problems.slice(0, 20).join('; '));
      await putSetting(control, 'drilled_at', new Date(now()).toISOString());
      await forgetDrillProblem(control, id);
      log.info(done, 'a project was restored aside and equals the live one');
      return done;
    } catch (error) {
      if (run.signal.aborted) throw error;
      const postponed = await findPostponed(project, error);
      if (postponed) {
        log.info({ project: slug, reason: postponed.message }, 'a restore drill was postponed');
        throw postponed;
      }
      failures++;
      // First of all, and whatever happens to the control database.
      log.error({ err: error, project: slug }, 'A RESTORE DRILL FAILED: backups may not be restorable');
      const problem = error instanceof Error ? error.message : String(error);
      await putDrillProblem(control, {
        ...{ projectId: id, slug, problem, failedAt: new Date(now()).toISOString() },
      });
      throw errors.drillFailed(slug, problem, error);
    }
  };

  /** A project that is busy, or was deleted or exchanged meanwhile, is no alarm: a project could raise it at will. */
  const findPostponed = async ({ id, slug }: DrilledProject, error: unknown) => {
    if (error instanceof BusyProject) return errors.drillPostponed(slug, error.message, error);
    if (await findDrilled(deps, id)) return null;
    return errors.drillPostponed(slug, 'It was deleted meanwhile.', error);
  };

  /** The failure is recorded, and the next attempt follows. */
  const tryDrill = async (project: DrilledProject, signal: AbortSignal): Promise<void> => {
    await drill(project, { signal }).catch((error: unknown) => {
      if (!(error instanceof RowhouseError)) throw error;
      if (error.code === 'conflict') postponedUntil = now() + postponeMs;
    });
  };

  const noteTurn = ({ id }: DrilledProject) => putSetting(control, 'drilled_project', id);

  /** `startedAt`: after a first start there is nothing to restore yet, and the first night is soon enough. */
  const look = async (startedAt: number, ended: AbortSignal): Promise<void> => {
    if (now() < postponedUntil) return;
    const [failed] = await listDrillProblems(control);
    if (failed && now() - Date.parse(failed.failedAt) >= hourMs) {
      const project = await findDrilled(deps, failed.projectId);
      if (project) await tryDrill(project, ended);
      else await forgetDrillProblem(control, failed.projectId);
      return;
    }
    // Of failed drills too: one that fails for all projects must not be tried with each of them at once.
    const last = Math.max((await timeOf('drill_tried_at')) ?? 0, (await timeOf('drilled_at')) ?? 0);
    if (!isDue(last || startedAt, now())) return;
    const project = await chooseNext(deps);
    if (!project) return;
    await tryDrill(project, ended);
    await noteTurn(project);
    // The next one in turn takes the place of one that is busy.
    if (now() < postponedUntil) return;
    await putSetting(control, 'drill_tried_at', new Date(now()).toISOString());
  };

  return {
    drill,
    choose: async (caller, slug) => {
      if (slug === null) {
        const next = await chooseNext(deps);
        if (!next) throw errors.nothingToDrill('There is no project to restore.');
        await noteTurn(next);
        return next;
      }
      const { id } = await getProjectRow(control, caller, slug);
      const project = await findDrilled(deps, id);
      if (!project)
        throw errors.nothingToDrill('This project is on a server that Rowhouse does not back up.');
      return project;
    },
    failures: () => failures,
    failing: async () => (await listDrillProblems(control)).length,
    verifiedAt: () => timeOf('drilled_at'),
    run: async (ended) => {
      const startedAt = now();
      while (!ended.aborted) {
        await look(startedAt, ended).catch((error: unknown) => {
          if (!ended.aborted) log.error({ err: error }, 'looking for a due restore drill failed; retrying');
        });
        await pause(lookMs, ended);
      }
    },
  };
}

export function isDue(last: number, now: number): boolean {
  const hour = new Date(now).getUTCHours();
  const isNight = hour >= fromHour && hour < toHour;
  return now - last >= (isNight ? usualMs : latestMs);
}

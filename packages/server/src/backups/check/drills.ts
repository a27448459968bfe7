// A drill of each server every night, by the process that does the background work, and whenever an operator asks for one. A failure is
// loud, stays known until the same project passes a drill, and is tried again within the hour.

import { findSetting, putSetting, settingOf } from '../../control/settings.ts';
import { errors, RowhouseError } from '../../errors/errors.ts';
import type { Caller, OperatorCaller } from '../../keys/caller.ts';
import { pause } from '../../lib/pause.ts';
import { Stalled } from '../../lib/stall-watch.ts';
import { getProjectRow } from '../../projects/find.ts';
import type { Server } from '../../servers/server.ts';
import { drillHours } from '../../settings/limits/backups.ts';
import { type FleetBackups, requireBackups } from '../fleet-backups.ts';
import type { RestoreDeps } from '../restore/deps.ts';
import { findVersionProblem } from '../restore/origin.ts';
import { BusyProject, chooseNext, type Drill, type DrilledProject, findDrilled, runDrill } from './drill.ts';
import { forgetDrillProblem, listDrillProblems, putDrillProblem } from './drill-problems.ts';

type Log = Record<'info' | 'error', (details: object, message: string) => void>;

type Run = { signal: AbortSignal; progress?: (fraction: number) => void };

export type Drills = {
  run(ended: AbortSignal): Promise<void>;
  /** `slug`: null for the project whose turn it is. Rejects if it cannot be drilled. */
  choose(caller: Caller | OperatorCaller, slug: string | null): Promise<DrilledProject>;
  /** One that was chosen, now. Rejects with the reason if the drill fails. */
  drill(project: DrilledProject, run: Run): Promise<Drill>;
  /** Since the start. */
  failures(): number;
  /** How many projects have not passed a drill since one of them failed. */
  failing(): Promise<number>;
  /** When a restore from the backups of the server was last proven. null: never. */
  verifiedAt(server: Server): Promise<number | null>;
  /** The oldest of these times, of the servers that have projects. null: there is a server without. */
  oldestVerifiedAt(): Promise<number | null>;
};

const hourMs = 60 * 60_000;
const lookMs = 10_000;
const postponeMs = 10 * 60_000;
const [usualMs, latestMs] = [20 * hourMs, 30 * hourMs];

export function openDrills(
  deps: RestoreDeps,
  place: { dataFolder: string; backups: FleetBackups },
  log: Log,
): Drills {
  const { control, servers, now } = deps;
  let failures = 0;
  /** The next attempt on a server, by its id, after a project was busy. */
  const postponed = new Map<number, number>();
  const isPostponed = (serverId: number) => now() < (postponed.get(serverId) ?? 0);

  const timeOf = async (name: 'drilled_at' | 'drill_tried_at', server: Server) =>
    Date.parse((await findSetting(control, settingOf(name, server))) ?? '') || null;
  const noteTime = (name: 'drilled_at' | 'drill_tried_at', server: Server) =>
    putSetting(control, settingOf(name, server), new Date(now()).toISOString());

  const drill = async (project: DrilledProject, run: Run): Promise<Drill> => {
    const { id, slug } = project;
    const server = servers.of(project.serverId);
    try {
      const backups = place.backups.of(server);
      const done = await runDrill(deps, { dataFolder: place.dataFolder, backups }, project, run);
      if (done.problems.length > 0) throw new Error(done.problems.slice(0, 20).join('; '));
      await noteTime('drilled_at', server);
      await forgetDrillProblem(control, id);
      log.info(done, 'a project was restored aside and equals the live one');
      return done;
    } catch (error) {
      if (run.signal.aborted) throw error;
      const refusal = await findPostponed(project, error);
      if (refusal) {
        log.info({ project: slug, reason: refusal.message }, 'a restore drill was postponed');
        throw refusal;
      }
      failures++;
      // First of all, and whatever happens to the control database.
      log.error({ err: error, project: slug }, 'A RESTORE DRILL FAILED: backups may not be restorable');
      const problem = error instanceof Error ? error.message : String(error);
      await putDrillProblem(control, {
        projectId: id,
        slug,
        problem,
        failedAt: new Date(now()).toISOString(),
      });
      throw errors.drillFailed(slug, problem, error);
    }
  };

  /** A project that is busy, or was deleted or exchanged meanwhile, is no alarm: a project could raise it at will. */
  const findPostponed = async ({ id, slug, serverId }: DrilledProject, error: unknown) => {
    // A restore would have hung, too.
    if (error instanceof Stalled) return null;
    if (error instanceof BusyProject) return errors.drillPostponed(slug, error.message, error);
    const present = await findDrilled(control, id);
    if (present?.serverId !== serverId)
      return errors.drillPostponed(slug, 'It was deleted or moved meanwhile.', error);
    if (!isAnswering(serverId)) return errors.drillPostponed(slug, 'Its server does not answer.', error);
    return null;
  };
  const isAnswering = (serverId: number) =>
    servers.members().some(({ row, isAnswering: answers }) => row.id === serverId && answers);

  /** Rejects if projects of this server cannot be restored. */
  const requireUsable = async (server: Server): Promise<void> => {
    await requireBackups(place.backups, server);
    const problem = findVersionProblem({ postgres: server.version });
    if (problem !== null) throw errors.nothingToDrill(problem);
  };

  /** The failure is recorded, and the next attempt follows. False: it was postponed. */
  const tryDrill = async (project: DrilledProject, signal: AbortSignal): Promise<boolean> => {
    try {
      await drill(project, { signal });
      return true;
    } catch (error) {
      if (!(error instanceof RowhouseError)) throw error;
      if (error.code !== 'conflict') return true;
      postponed.set(project.serverId, now() + postponeMs);
      return false;
    }
  };

  const noteTurn = ({ id }: DrilledProject, server: Server) =>
    putSetting(control, settingOf('drilled_project', server), id);

  /** True: a drill that failed was tried again, or is none any more. */
  const tryFailed = async (ended: AbortSignal): Promise<boolean> => {
    for (const { projectId, failedAt } of await listDrillProblems(control)) {
      if (now() - Date.parse(failedAt) < hourMs) continue;
      const project = await findDrilled(control, projectId);
      // One whose server is away does not hold up the others.
      if (project && (!isAnswering(project.serverId) || isPostponed(project.serverId))) continue;
      if (project && !(await isUsable(servers.of(project.serverId)))) continue;
      if (project) await tryDrill(project, ended);
      else await forgetDrillProblem(control, projectId);
      return true;
    }
    return false;
  };

  /** `startedAt`: after a first start there is nothing to restore yet, and the first night is soon enough. */
  const look = async (server: Server, startedAt: number, ended: AbortSignal): Promise<void> => {
    // Failed drills count too: one that fails for all projects must not be tried with each of them at once.
    const last = Math.max(
      (await timeOf('drill_tried_at', server)) ?? 0,
      (await timeOf('drilled_at', server)) ?? 0,
    );
    if (!isDue(last || startedAt, now())) return;
    const project = await chooseNext(control, server);
    if (!project || !(await isUsable(server))) return;
    const isTried = await tryDrill(project, ended);
    await noteTurn(project, server);
    // The next one in turn takes the place of one that is busy.
    if (isTried) await noteTime('drill_tried_at', server);
  };
  const isUsable = (server: Server) =>
    requireUsable(server).then(
      () => true,
      (error: unknown) => {
        // `unavailable`: it has just gone away.
        if (error instanceof RowhouseError && ['conflict', 'unavailable'].includes(error.code)) return false;
        throw error;
      },
    );

  const lookAtAll = async (startedAt: number, ended: AbortSignal): Promise<void> => {
    if (await tryFailed(ended)) return;
    for (const server of servers.all()) {
      if (ended.aborted) return;
      if (!isAnswering(server.id) || isPostponed(server.id)) continue;
      await look(server, startedAt, ended).catch(report(ended));
    }
  };
  /** A server that fails must not keep the others from their drills. */
  const report = (ended: AbortSignal) => (error: unknown) => {
    if (!ended.aborted) log.error({ err: error }, 'looking for a due restore drill failed; retrying');
  };

  /** Those that have projects and can be drilled. */
  const usableServers = async (): Promise<Server[]> => {
    const found: Server[] = [];
    for (const server of servers.all()) {
      if (!isAnswering(server.id) || !(await chooseNext(control, server))) continue;
      if (await isUsable(server)) found.push(server);
    }
    return found;
  };
  /** The one whose last drill is the oldest. */
  const chooseServer = async (): Promise<Server | null> => {
    const all = await Promise.all(
      (await usableServers()).map(async (server) => ({
        server,
        at: Math.max(
          (await timeOf('drilled_at', server)) ?? 0,
          (await timeOf('drill_tried_at', server)) ?? 0,
        ),
      })),
    );
    return all.sort((one, other) => one.at - other.at)[0]?.server ?? null;
  };

  return {
    drill,
    choose: async (caller, slug) => {
      if (slug === null) {
        const server = await chooseServer();
        const next = server && (await chooseNext(control, server));
        if (!server || !next) throw errors.nothingToDrill('There is no project to restore.');
        await noteTurn(next, server);
        return next;
      }
      const { id } = await getProjectRow(control, caller, slug);
      const project = await findDrilled(control, id);
      if (!project) throw errors.nothingToDrill('This project is not ready.');
      await requireUsable(servers.of(project.serverId));
      return project;
    },
    failures: () => failures,
    failing: async () => (await listDrillProblems(control)).length,
    verifiedAt: (server) => timeOf('drilled_at', server),
    oldestVerifiedAt: async () => {
      const times = await Promise.all((await usableServers()).map((server) => timeOf('drilled_at', server)));
      if (times.length === 0) return timeOf('drilled_at', servers.first);
      return times.includes(null) ? null : Math.min(...(times as number[]));
    },
    run: async (ended) => {
      const startedAt = now();
      while (!ended.aborted) {
        await lookAtAll(startedAt, ended).catch(report(ended));
        await pause(lookMs, ended);
      }
    },
  };
}

export function isDue(last: number, now: number): boolean {
  const hour = new Date(now).getUTCHours();
  const isNight = hour >= drillHours.from && hour < drillHours.to;
  return now - last >= (isNight ? usualMs : latestMs);
}

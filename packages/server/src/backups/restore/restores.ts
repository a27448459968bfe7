// Restores of single projects to a point in time. Each runs as a job that fills a new project; with `in_place` the two
// projects exchange their databases at the end. One runs at a time, of all processes: each needs disk, memory and a core.
import path from 'node:path';
import type { CreateProject, Job, Project, RestoreProject } from '@rowhouse/api';
import type { Control } from '../../control/control.ts';
import { newId } from '../../control/new-id.ts';
import type { BranchOrigin, Imports } from '../../dumps/import/import.ts';
import type { ProgramEnvironment } from '../../dumps/native.ts';
import type { DiskWatch } from '../../engine/disk.ts';
import type { Server } from '../../engine/servers.ts';
import { errors } from '../../errors.ts';
import type { Fleet } from '../../fleet/fleet.ts';
import { dropFilledProjects } from '../../jobs/abandoned.ts';
import type { JobRun, Jobs } from '../../jobs/jobs.ts';
import { type Caller, requireAccount } from '../../keys/caller.ts';
import { createProject } from '../../projects/create.ts';
import { getProjectRow } from '../../projects/find.ts';
import { type ProjectRow, toProject } from '../../projects/project.ts';
import type { Backups } from '../backups.ts';
import { findSnapshot } from '../snapshots.ts';
import { checkStored, markPresent, requestPatience, untilStored } from './mark-present.ts';
import { amountsOf, foretellSeconds, planRestore, shareOf } from './plan.ts';
import { databasesToKeep } from './recover-project.ts';
import { checkSpace, ifNoneRuns, removeLeft, restore, type Work } from './restore-job.ts';

/** `project`: the new one with its key, or the one that is replaced. */
export type StartedRestore = { project: Project; apiKey: string | null; job: Job; estimatedSeconds: number };
export type StartedBranch = { project: Project; apiKey: string; job: Job };
export type Restores = {
  /** `to` or `snapshot` is given. */
  start(caller: Caller, slug: string, input: RestoreProject): Promise<StartedRestore>;
  /** A branch of `parent` as it was at a time. */
  branch(parent: ProjectRow, at: Date, input: CreateProject, origin: BranchOrigin): Promise<StartedBranch>;
  /** Removes what a process that died has left. */
  tidy(): Promise<void>;
};

export type RestoreDeps = {
  control: Control;
  /** The first server, the only one that is backed up. */
  server: Server;
  servers: Fleet;
  disk: DiskWatch;
  jobs: Jobs;
  imports: Imports;
  /** null: they are off. */
  backups: Backups | null;
  /** Of the embedded PostgreSQL. null: PostgreSQL is run by others, and its programs are not here. */
  dataFolder: string | null;
  programs?: ProgramEnvironment;
  /** Exchanges the databases of two projects; the second one is deleted then. */
  exchange: (projectId: string, otherId: string) => Promise<void>;
  limits: { maxLimitMb: number; keepDeletedDays: number };
  now: () => number;
  onError: (error: unknown) => void;
};

export function openRestores(deps: RestoreDeps): Restores {
  const { control, server, servers, jobs } = deps;
  const folder = deps.dataFolder === null ? null : path.join(deps.dataFolder, 'restores');

  /** Checks everything that can be checked at once, then creates the project that the job fills. */
  const begin = async (
    { source, target, into }: Pick<Work, 'source' | 'target' | 'into'>,
    input: CreateProject,
    origin: Partial<BranchOrigin> = {},
  ) => {
    const { backups } = deps;
    if (!backups) throw errors.backupsOff();
    if (folder === null || deps.dataFolder === null) throw notEmbedded();
    if (source.server_id !== server.id) throw notBackedUp();
    if (target < source.created_at) throw errors.restoreNotThere();
    const mark = await markPresent(backups, server, target);
    const state = await untilStored(backups, server, mark, requestPatience);
    if (state === 'stuck') await checkStored(backups, target);
    const { timeline } = await backups.position();
    const plan = await planRestore(await backups.repository(), target, { timeline });
    const own = plan.tip.databases.find(({ name }) => name === `p_${source.id}`)?.oid ?? null;
    const amounts = amountsOf(plan, databasesToKeep(plan, source.id), own);
    checkSpace(deps.disk, amounts.layOutBytes + amounts.walBytes);
    const estimatedSeconds = foretellSeconds(amounts, shareOf(plan, target, deps.now()));
    const id = newId();
    const created = await createProject(deps, source.account_id, input, {
      ...origin,
      filledBy: id,
      serverId: server.id,
    });
    const { project, apiKey } = created;
    const kind = origin.parentId === undefined ? ('restore' as const) : ('branch' as const);
    const job = { id, kind, accountId: source.account_id, projectId: project.id };
    const place = { dataFolder: deps.dataFolder, folder: path.join(folder, id), backups };
    const missing = state === 'storing' ? mark : null;
    const work = (run: JobRun) =>
      restore(deps, place, { source, target, created, plan, into, mark: missing }, run);
    try {
      return { job: await jobs.start(job, work), estimatedSeconds, project, apiKey };
    } catch (error) {
      await dropFilledProjects({ control, servers }, id).catch(deps.onError);
      throw error;
    }
  };

  return {
    start: async (caller, slug, { to, snapshot, into = 'new' }) => {
      requireAccount(caller, 'restore a project');
      const source = await getProjectRow(control, caller, slug, { evenDeleted: true });
      const target =
        snapshot === undefined
          ? new Date(to ?? Number.NaN)
          : await findSnapshot(control, source.id, snapshot);
      if (into === 'in_place' && source.deleted_at) {
        throw errors.conflict(
          'A deleted project cannot be replaced.',
          'Restore it first, without "to". Or restore into a new project.',
        );
      }
      // Not in the middle of a character.
      const start = source.name.slice(0, 70).replace(/[\uD800-\uDBFF]$/, '');
      const name = `${start} ${target.toISOString().slice(0, 19)}Z`;
      const input = { name, limit_mb: source.limit_mb };
      const started = await begin({ source, target, into }, input);
      if (into === 'new') return started;
      return { ...started, project: toProject(source, deps.limits.keepDeletedDays), apiKey: null };
    },
    branch: (parent, at, input, origin) => begin({ source: parent, target: at, into: 'new' }, input, origin),
    tidy: async () => {
      if (folder !== null) await ifNoneRuns(control, () => removeLeft(folder));
    },
  };
}

function notBackedUp() {
  return errors.restoreUnavailable(
    'This project is on a further server, which Rowhouse does not back up.',
    'Restore that PostgreSQL server with its own tools, beside the present one. Then export the project there and import it.',
  );
}

function notEmbedded() {
  return errors.restoreUnavailable(
    'A single project can be restored to a point in time only on the embedded PostgreSQL.',
    'Restore your PostgreSQL server with its own tools, beside the present one. Then export the project there and import it.',
  );
}

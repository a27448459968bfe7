// Restores of single projects to a point in time. Each runs as a job that fills a new project; with `in_place` the two
// projects exchange their databases at the end. One runs at a time, of all processes: each needs disk, memory and a core.
import path from 'node:path';
import type { CreateProject, Job, Project, RestoreProject } from '@rowhouse/api';
import { newId } from '../../control/new-id.ts';
import { errors } from '../../errors/errors.ts';
import { dropFilledProjects } from '../../jobs/abandoned.ts';
import type { JobRun } from '../../jobs/jobs.ts';
import { type Caller, requireAccount, requireAllProjects } from '../../keys/caller.ts';
import { createProject } from '../../projects/create.ts';
import { getProjectRow } from '../../projects/find.ts';
import { type ProjectRow, toProject } from '../../projects/project.ts';
import type { BranchOrigin } from '../../transfer/import/import.ts';
import { lookAt } from '../fleet-backups.ts';
import { rangesOf } from '../restorable.ts';
import { findSnapshot } from '../snapshots.ts';
import type { RestoreDeps } from './deps.ts';
import { checkStored, markPresent, requestPatience, untilStored } from './mark-present.ts';
import { checkVersion, findHome, findOrigin, type Origin } from './origin.ts';
import { amountsOf, foretellSeconds, type Plan, planRestore, shareOf } from './plan.ts';
import { databasesToKeep } from './recover-project.ts';
import { checkSpace, removeLeft, restore, type Work } from './restore-job.ts';
import { ifNoneRestores } from './restore-turns.ts';

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

export function openRestores(deps: RestoreDeps): Restores {
  const { control, servers, jobs } = deps;
  const folder = deps.dataFolder === null ? null : path.join(deps.dataFolder, 'restores');

  /** Checks everything that can be checked at once, then creates the project that the job fills. */
  const begin = async (
    { source, target, into }: Pick<Work, 'source' | 'target' | 'into'>,
    input: CreateProject,
    branch: Partial<BranchOrigin> & Pick<BranchOrigin, 'issuer'>,
  ) => {
    const { backups } = deps;
    if (!backups) throw errors.backupsOff();
    if (folder === null || deps.dataFolder === null) throw noFolder();
    const home = findHome(servers, source.server_id);
    if (into === 'in_place' && !home) throw notInPlace();
    if (target < source.created_at) throw errors.restoreNotThere();
    const wanted = { projectId: source.id, serverId: source.server_id, target };
    const origin = await findOrigin({ control, backups, servers }, wanted);
    const { plan, mark } = await planFor(origin, target);
    checkVersion(plan.tip);
    const own = plan.tip.databases.find(({ name }) => name === `p_${source.id}`)?.oid ?? null;
    const amounts = amountsOf(plan, databasesToKeep(plan, source.id), own);
    checkSpace(deps.disk, amounts.layOutBytes + amounts.walBytes);
    const estimatedSeconds = foretellSeconds(amounts, shareOf(plan, target, deps.now()));
    const id = newId();
    // If the project's server does not answer, the copy is made on another one.
    const stays = home !== null && input.server === undefined;
    const { serverId: _parent, ...rest } = branch;
    const created = await createProject(deps, source.account_id, input, {
      ...rest,
      filledBy: id,
      ...(stays && { serverId: source.server_id }),
    });
    const { project, apiKey } = created;
    const kind = branch.parentId === undefined ? ('restore' as const) : ('branch' as const);
    const job = { id, kind, accountId: source.account_id, projectId: project.id };
    const place = { dataFolder: deps.dataFolder, folder: path.join(folder, id), origin, home };
    const work = (run: JobRun) => restore(deps, place, { source, target, created, plan, into, mark }, run);
    try {
      return { job: await jobs.start(job, work), estimatedSeconds, project, apiKey };
    } catch (error) {
      await dropFilledProjects({ control, servers }, id).catch(deps.onError);
      throw error;
    }
  };

  return {
    start: async (caller, slug, { to, snapshot, into = 'new', server }) => {
      if (into === 'in_place') requireAccount(caller, 'restore a project');
      else requireAllProjects(caller, 'restore into a new project');
      const source = await getProjectRow(control, caller, slug, { includeDeleted: true });
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
      const input = { name, limit_mb: source.limit_mb, ...(server !== undefined && { server }) };
      const started = await begin({ source, target, into }, input, { issuer: caller });
      if (into === 'new') return started;
      return { ...started, project: toProject(source, deps.limits.keepDeletedDays), apiKey: null };
    },
    branch: (parent, at, input, origin) => begin({ source: parent, target: at, into: 'new' }, input, origin),
    tidy: async () => {
      if (folder !== null) await ifNoneRestores(control, () => removeLeft(folder));
    },
  };
}

type Planned = {
  plan: Plan;
  /** Up to here, WAL has still to be stored. null: it is. */
  mark: bigint | null;
};

async function planFor({ backups, repository }: Origin, target: Date): Promise<Planned> {
  if (!backups) {
    const plan = await planRestore(repository, target);
    if (target > plan.storedAt)
      throw errors.restoreOutOfRange(target, rangesOf((await lookAt(repository)).restorable));
    return { plan, mark: null };
  }
  const mark = await markPresent(backups, target);
  const state = await untilStored(backups, mark, requestPatience);
  if (state === 'stuck') await checkStored(backups, target);
  const { timeline } = await backups.position();
  const plan = await planRestore(repository, target, { timeline });
  return { plan, mark: state === 'storing' ? mark : null };
}

function noFolder() {
  return errors.restoreUnavailable(
    'The service has no data folder, which a restore of a single project needs.',
    'Set ROWHOUSE_DATA to a folder with enough space, and restart the service.',
  );
}

function notInPlace() {
  return errors.restoreUnavailable(
    'The server of this project does not answer, so its state cannot be replaced.',
    'Restore it into a new project, on another server: leave "into" out.',
  );
}

// Restores of single projects to a point in time. Each runs as a job that fills a new project; with `in_place` the two
// projects exchange their databases at the end. One runs at a time, of all processes: each needs disk, memory and a core.
import path from 'node:path';
import type { CreateBranch, CreateProject, Job, Project, RestoreProject } from '@rowhouse/api';
import { prepareBranch } from '../../branches/create.ts';
import type { FilledBranch } from '../../branches/deps.ts';
import { newId } from '../../control/new-id.ts';
import { errors } from '../../errors/errors.ts';
import { dropFilledProjects } from '../../jobs/abandoned.ts';
import type { JobRun } from '../../jobs/jobs.ts';
import { type Caller, requireAccount, requireAllProjects } from '../../keys/caller.ts';
import { createProject } from '../../projects/create.ts';
import { getProjectRow } from '../../projects/find.ts';
import { toProject } from '../../projects/project.ts';
import type { BranchOrigin } from '../../transfer/import/import.ts';
import { findSnapshot } from '../snapshots.ts';
import type { RestoreDeps } from './deps.ts';
import { checkVersion, findHome, findOrigin } from './origin.ts';
import { amountsOf, foretellSeconds, shareOf } from './plan.ts';
import { planProject } from './plan-stored.ts';
import { databasesToKeep } from './recover-project.ts';
import { checkSpace, removeLeft, restore, type Work } from './restore-job.ts';
import { ifNoneRestores } from './restore-turns.ts';

/** `project`: the new one with its key, or the one that is replaced. */
export type StartedRestore = { project: Project; apiKey: string | null; job: Job; estimatedSeconds: number };
export type Restores = {
  /** `to` or `snapshot` is given. */
  start(caller: Caller, slug: string, input: RestoreProject): Promise<StartedRestore>;
  /** A branch of a project as it was at a time. */
  branch(caller: Caller, slug: string, input: CreateBranch & { at: string }): Promise<FilledBranch>;
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
    const planned = await planProject(origin, target);
    const { plan } = planned;
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
    const work = (run: JobRun) => restore(deps, place, { source, target, created, planned, into }, run);
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
    branch: async (caller, slug, input) => {
      const { parent, wanted, origin } = await prepareBranch(deps.branches, caller, slug, input);
      return begin({ source: parent, target: new Date(input.at), into: 'new' }, wanted, origin);
    },
    tidy: async () => {
      if (folder !== null) await ifNoneRestores(control, () => removeLeft(folder));
    },
  };
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

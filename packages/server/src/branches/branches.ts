// What can be done with a branch: list, reset, promote.

import type { Project } from '@rowhouse/api';
import { errors } from '../errors/errors.ts';
import { type Caller, requireAccount, seesProject } from '../keys/caller.ts';
import { toMb } from '../lib/bytes.ts';
import { sql } from '../postgres/sql.ts';
import { getOpenProjectRow, getProjectRow } from '../projects/find.ts';
import { type ProjectRow, projectColumns, toProject } from '../projects/project.ts';
import { keep, withCopy } from './copy.ts';
import { type BranchDeps, onServer, type ServerBranchDeps } from './deps.ts';
import { swap } from './swap.ts';

/** Newest first. */
export async function listBranches(deps: BranchDeps, caller: Caller, slug: string): Promise<Project[]> {
  requireAccount(caller, 'list branches');
  const { id } = await getProjectRow(deps.control, caller, slug);
  const rows = await deps.control.query<ProjectRow>(sql`
    select ${projectColumns} from projects where parent_id = ${id} and deleted_at is null
    order by created_at desc, id desc`);
  return rows
    .filter(({ id: branch }) => seesProject(caller, branch))
    .map((row) => toProject(row, deps.limits.keepDeletedDays));
}

/** The branch becomes a copy of its parent as it is now. Its slug, keys and limit stay. */
export async function resetBranch(deps: BranchDeps, caller: Caller, slug: string): Promise<Project> {
  requireAccount(caller, 'reset a branch');
  const { branch, parent } = await getBranch(deps, caller, slug);
  checkFits(parent, branch, 'reset');
  const here = onServer(deps, parent.server_id);
  await deps.inTurn(here.server, parent.account_id, () =>
    withCopy(here, parent.id, 'branched', async (copy) => {
      await deps.ensureCurrent(branch.id);
      await keep(deps.control, copy.id);
      await swap(here, { kind: 'reset', projectId: branch.id, otherId: copy.id }, copy);
    }),
  );
  return find(deps, branch.id);
}

/**
 * The parent becomes what the branch is: its slug, keys, connection string and limit then serve the branch's data. The
 * branch gets the parent's old data and is deleted, so that it can be undeleted for some days.
 */
export async function promoteBranch(
  deps: BranchDeps,
  caller: Caller,
  slug: string,
): Promise<{ project: Project; replaced: Project }> {
  requireAccount(caller, 'promote a branch');
  const { branch, parent } = await getBranch(deps, caller, slug);
  checkFits(branch, parent, 'promoted');
  const here = onServer(deps, parent.server_id);
  await deps.inTurn(here.server, parent.account_id, () => promote(here, parent.id, branch.id));
  return { project: await find(deps, parent.id), replaced: await find(deps, branch.id) };
}

/** Called in turn. The project becomes what the other one is, which gets the old database and is deleted. */
export async function promote(here: ServerBranchDeps, projectId: string, otherId: string): Promise<void> {
  for (const id of [otherId, projectId]) await here.ensureCurrent(id);
  await swap(here, { kind: 'promote', projectId, otherId });
}

async function getBranch(
  { control }: BranchDeps,
  caller: Caller,
  slug: string,
): Promise<{ branch: ProjectRow; parent: ProjectRow }> {
  const branch = await getOpenProjectRow(control, caller, slug);
  const [parent] = await control.query<ProjectRow>(sql`
    select ${projectColumns} from projects
    where id = (select parent_id from projects as branches where branches.id = ${branch.id})
      and account_id = ${branch.account_id} and deleted_at is null`);
  // To a member that sees only some projects, another parent does not exist.
  if (!parent || !seesProject(caller, parent.id))
    throw errors.conflict(
      `"${slug}" is not a branch, or its parent is deleted.`,
      'Only a branch with a parent can be reset or promoted.',
    );
  if (parent.filled_by !== null) throw errors.projectNotReady(parent.slug, parent.filled_by);
  if (parent.server_id !== branch.server_id)
    throw errors.conflict(
      `"${slug}" and its parent are on different servers.`,
      'Export the branch and import it. Only databases on one server can be exchanged.',
    );
  return { branch, parent };
}

function checkFits(from: ProjectRow, into: ProjectRow, done: string): void {
  const sizeMb = Math.ceil(toMb(from.stored_bytes));
  if (sizeMb <= into.limit_mb) return;
  throw errors.conflict(
    `"${from.slug}" stores ${sizeMb} MB and the limit of "${into.slug}" is ${into.limit_mb} MB, so it cannot be ${done}.`,
    `Raise limit_mb of "${into.slug}" first.`,
  );
}

async function find({ control, limits }: BranchDeps, id: string): Promise<Project> {
  const [row] = await control.query<ProjectRow>(sql`select ${projectColumns} from projects where id = ${id}`);
  if (!row) throw errors.conflict('The project was dropped meanwhile.', 'List the projects.');
  return toProject(row, limits.keepDeletedDays);
}

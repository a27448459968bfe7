// Creates a branch: a new project with a copy of its parent, as it is now or was at a time, and with its own key, users
// and limit.

import type { CreateBranch, Job, Project } from '@rowhouse/api';
import { errors } from '../errors/errors.ts';
import { type Caller, requireAllProjects } from '../keys/caller.ts';
import { newProjectKey } from '../keys/manage.ts';
import { toMb } from '../lib/bytes.ts';
import { isState } from '../postgres/admin/database.ts';
import { sql } from '../postgres/sql.ts';
import { sqlstate } from '../postgres/sqlstate.ts';
import { withinLimits } from '../projects/account-limits.ts';
import { checkLimit } from '../projects/create.ts';
import { checkExpiry } from '../projects/expire.ts';
import { getOpenProjectRow } from '../projects/find.ts';
import { type ProjectRow, projectColumns, toProject } from '../projects/project.ts';
import { slugFromName } from '../projects/slug.ts';
import type { BranchOrigin } from '../transfer/import/import.ts';
import { type Copy, withCopy } from './copy.ts';
import { type BranchDeps, onServer, type ServerBranchDeps } from './deps.ts';
import { startLiveBranch } from './live.ts';

const slugAttempts = 8;

/** A branch of the present. One of an earlier time is a restore (backups/restore/restores.ts). */
export async function createBranch(
  deps: BranchDeps,
  caller: Caller,
  slug: string,
  input: CreateBranch,
): Promise<{ project: Project; apiKey: string; job?: Job }> {
  const { parent, wanted, origin } = await prepareBranch(deps, caller, slug, input);
  if (input.mode === 'live') return startLiveBranch(deps, parent, wanted, origin);
  const here = onServer(deps, parent.server_id);
  const { project, apiKey } = await deps.inTurn(here.server, parent.account_id, () =>
    withCopy(here, parent.id, 'branched', (copy) =>
      claim(here, copy, parent, { ...input, limit_mb: wanted.limit_mb }, caller),
    ),
  );
  return { project: toProject(project, deps.limits.keepDeletedDays), apiKey };
}

type PreparedBranch = {
  parent: ProjectRow;
  wanted: { name: string; limit_mb: number; slug?: string };
  origin: BranchOrigin;
};

/** Checks what every branch has to fulfil. */
export async function prepareBranch(
  deps: BranchDeps,
  caller: Caller,
  slug: string,
  input: CreateBranch,
): Promise<PreparedBranch> {
  requireAllProjects(caller, 'create branches');
  const parent = await getOpenProjectRow(deps.control, caller, slug);
  const limitMb = input.limit_mb ?? parent.limit_mb;
  checkBranch(deps, input, parent, limitMb);
  if (input.slug !== undefined && (await isTaken(deps, input.slug))) throw errors.slugTaken(input.slug);
  const { name, expires_at: expiresAt } = input;
  // On the parent's server, so that it can be promoted.
  const { id: parentId, server_id: serverId } = parent;
  return {
    parent,
    wanted: { name, limit_mb: limitMb, ...(input.slug !== undefined && { slug: input.slug }) },
    origin: { issuer: caller, parentId, serverId, expiresAt: expiresAt ? new Date(expiresAt) : null },
  };
}

function checkBranch(deps: BranchDeps, input: CreateBranch, parent: ProjectRow, limitMb: number): void {
  // The parent's own limit is allowed, even if the installation's has become lower.
  if (input.limit_mb !== undefined) checkLimit(limitMb, deps.limits.maxLimitMb);
  if (input.at !== undefined && input.mode !== undefined)
    throw errors.invalidRequest([
      { path: 'mode', problem: 'cannot be combined with "at": the backups are read, not the project' },
    ]);
  checkExpiry(input.expires_at, deps.now());
  const sizeMb = Math.ceil(toMb(parent.stored_bytes));
  if (input.limit_mb !== undefined && limitMb < sizeMb)
    throw errors.invalidRequest([
      { path: 'limit_mb', problem: `must be at least ${sizeMb}: the project stores that much` },
    ]);
}

async function isTaken({ control }: BranchDeps, slug: string): Promise<boolean> {
  return (await control.query(sql`select from projects where slug = ${slug}`)).length > 0;
}

/** One statement: the branch exists completely, with its key, or not at all. */
async function claim(
  { control, server }: ServerBranchDeps,
  copy: Copy,
  parent: ProjectRow,
  input: CreateBranch & { limit_mb: number },
  issuer: Caller,
): Promise<{ project: ProjectRow; apiKey: string }> {
  const name = input.name.trim();
  for (let attempt = 0; attempt < slugAttempts; attempt++) {
    const slug = input.slug ?? slugFromName(name, attempt);
    try {
      const added = { projects: 1, mb: input.limit_mb };
      const insertAll = async (database: Pick<typeof control, 'change'>, issuedBy: string | null) => {
        const { insert, apiKey } = newProjectKey(
          server.masterKey,
          sql`${issuedBy}::text, account_id, id from project`,
        );
        const [project] = await database.change<ProjectRow>(sql`
        with spare as (delete from spares where id = ${copy.id} and state = 'making' returning id, server_id),
        project as (
          insert into projects (id, account_id, server_id, slug, name, limit_mb, template, empty_bytes, size_bytes,
                                parent_id, expires_at)
          select id, ${parent.account_id}, server_id, ${slug}, ${name}, ${input.limit_mb}, ${copy.template},
                 ${copy.emptyBytes}::float8::bigint, ${copy.bytes}::float8::bigint, ${parent.id},
                 ${input.expires_at == null ? null : new Date(input.expires_at)}::timestamptz
          from spare
          returning *
        ),
        key as (${insert})
        select ${projectColumns} from project as projects`);
        if (!project) throw errors.unavailable('The copy took too long and was dropped.');
        return { project, apiKey };
      };
      return await withinLimits(control, parent.account_id, added, insertAll, issuer);
    } catch (error) {
      if (!isState(error, sqlstate.uniqueViolation) || error.constraint !== 'projects_slug_key') throw error;
      if (input.slug !== undefined) throw errors.slugTaken(input.slug);
    }
  }
  throw errors.conflict('No free slug could be derived from this name.', 'Choose one with "slug".');
}

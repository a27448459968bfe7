// Lists and finds projects. Every look-up checks that the caller may see the project.
import { setTimeout as sleep } from 'node:timers/promises';
import type { ListProjects, Project } from '@rowhouse/api';
import type { Control } from '../control/control.ts';
import { isHeld } from '../control/holds.ts';
import { errors } from '../errors/errors.ts';
import { type Caller, type OperatorCaller, seesProject } from '../keys/caller.ts';
import { type Sql, sql } from '../postgres/sql.ts';
import { type ProjectRow, projectColumns, toProject } from './project.ts';
import { isSlug } from './slug.ts';

type Deps = { control: Control; limits: { keepDeletedDays: number } };

export async function listProjects(
  { control, limits }: Deps,
  caller: Caller,
  { limit = 50, page = 1, status = 'live', order = 'newest', search }: ListProjects,
): Promise<{ projects: Project[]; page: number; limit: number; has_more: boolean }> {
  const visible = visibleTo(caller);
  const wanted = status === 'live' ? sql`deleted_at is null` : sql`deleted_at is not null`;
  const part = search && `%${search.replace(/[\\%_]/g, '\\$&')}%`;
  // Without an index, as for sizes: a search reads the projects of the account until the page is full.
  const matching = part ? sql`(name ilike ${part} or slug ilike ${part})` : sql`true`;
  // Without an index on sizes, which change too often for one: this order reads all projects of the account.
  const by =
    order === 'newest'
      ? sql`projects.created_at desc, projects.id desc`
      : sql`greatest(0, projects.size_bytes - projects.empty_bytes) desc, projects.created_at desc, projects.id desc`;
  // The ids first, from an index alone: PostgreSQL computes the columns of rows that OFFSET skips, too.
  const rows = await control.query<ProjectRow>(sql`
    with page as materialized (
      select id from projects
      where ${visible} and ${wanted} and ${matching}
      order by ${by}
      limit ${limit + 1} offset ${(page - 1) * limit}
    )
    select ${projectColumns} from projects
    where projects.id in (select id from page)
    order by ${by}`);
  const projects = rows.slice(0, limit).map((row) => toProject(row, limits.keepDeletedDays));
  return { projects, page, limit, has_more: rows.length > limit };
}

function visibleTo(caller: Caller): Sql {
  if (caller.kind !== 'account') return sql`id = ${caller.projectId}`;
  const some = caller.projects === null ? sql`` : sql` and id = any (${caller.projects}::text[])`;
  return sql`account_id = ${caller.accountId}${some}`;
}

/** Finds the project by its slug; an operator finds those of all accounts. A project that the caller may not see looks like one that does not exist. */
export async function getProjectRow(
  control: Control,
  caller: Caller | OperatorCaller,
  slug: string,
  { includeDeleted = false, evenUnready = false } = {},
): Promise<ProjectRow> {
  if (!isSlug(slug) || ('slug' in caller && caller.slug !== slug)) throw errors.projectNotFound(slug);
  const own = caller.kind === 'operator' ? sql`true` : sql`account_id = ${caller.accountId}`;
  const [row] = await control.query<ProjectRow>(sql`
    select ${projectColumns} from projects where slug = ${slug} and ${own}`);
  if (!row || (caller.kind !== 'operator' && !seesProject(caller, row.id)))
    throw errors.projectNotFound(slug);
  if (row.deleted_at && !includeDeleted) throw errors.projectDeleted(slug);
  if (row.filled_by !== null && !evenUnready) throw errors.projectNotReady(slug, row.filled_by);
  return row;
}

/**
 * For what opens the database of a project by itself: waits while the project is copied, exchanged or moved, because it can be
 * on another server afterwards.
 */
export async function getOpenProjectRow(
  control: Control,
  caller: Caller | OperatorCaller,
  slug: string,
): Promise<ProjectRow> {
  for (const until = performance.now() + patienceMs; ; await sleep(lookMs)) {
    const row = await getProjectRow(control, caller, slug);
    const [held] = await control.query(sql`select from projects where id = ${row.id} and ${isHeld}`);
    if (!held) return row;
    if (performance.now() > until) throw errors.unavailable('the project is held for too long');
  }
}
const [patienceMs, lookMs] = [25_000, 50];

export async function getProject({ control, limits }: Deps, caller: Caller, slug: string): Promise<Project> {
  const row = await getProjectRow(control, caller, slug, {
    includeDeleted: caller.kind === 'account',
    evenUnready: true,
  });
  return toProject(row, limits.keepDeletedDays);
}

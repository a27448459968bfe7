// Repairs what a crash left half done, and notes what is to be dropped: deleted projects that can no longer be undeleted, and what
// a crash left. It never drops the database of an existing project: rows and databases without a counterpart are reported and
// left alone.
import type { Control } from '../control/control.ts';
import { settleAbandonedJobs } from '../jobs/abandoned.ts';
import { sql } from '../postgres/sql.ts';
import { noteDrops } from '../servers/databases/drops.ts';
import { movingDatabaseOf } from '../servers/databases/move-database.ts';
import { commentOf, databaseOf } from '../servers/databases/names.ts';
import { dropRole, listRoles } from '../servers/databases/roles.ts';
import { noteLeftSpares } from '../servers/databases/spares.ts';
import type { Server } from '../servers/server.ts';
import { isClosed, settleFence } from './fence.ts';

type Deps = { control: Control; server: Server; limits: { keepDeletedDays: number } };

/** Problems that only an operator can resolve. */
export type Discrepancies = { projectsWithoutDatabase: string[]; databasesWithoutRow: string[] };

/** Runs `act` and collects its error: a failing project must not block the others. The next pass tries again. */
type Attempt = (act: () => Promise<unknown>) => Promise<void>;

/** One pass. Every step can be repeated, and interrupted at any point. */
export async function reconcile({
  control,
  server,
}: Pick<Deps, 'control' | 'server'>): Promise<Discrepancies> {
  const failures: unknown[] = [];
  const attempt: Attempt = (act) =>
    act().then(
      () => {},
      (error) => void failures.push(error),
    );
  await dropLeftRoles(control, server, attempt);
  const found = await matchDatabases(control, server, attempt);
  if (failures.length > 0) throw failures[0];
  return found;
}

/** One pass. servers/databases/drops.ts drops what is noted. */
export async function noteLeft({ control, server, limits }: Deps): Promise<void> {
  await settleAbandonedJobs(control, server);
  await noteLeftSpares(control, server);
  await noteExpired(control, server, limits.keepDeletedDays);
}

/** Past the deadline, so nobody can undelete them (undeleteProject checks the same deadline). */
async function noteExpired(control: Control, server: Server, keepDeletedDays: number): Promise<void> {
  await control.change(sql`
    with gone as (
      delete from projects
      where server_id = ${server.id} and deleted_at < now() - make_interval(days => ${keepDeletedDays})
        and not exists (select from moves where moves.project_id = projects.id)
      returning id, server_id, template)
    ${noteDrops(sql`select * from gone`)}`);
}

/** Drops roles whose database is gone and that could not be dropped together with it. */
async function dropLeftRoles(control: Control, server: Server, attempt: Attempt): Promise<void> {
  const roles = await listRoles(server);
  const rows = await control.query<{ name: string }>(sql`
    select name from unnest(${roles}::text[]) as name, substring(name from '^p_([a-z0-9]+)') as project
    where not exists (select 1 from projects where id = project)
      and not exists (select 1 from spares where id = project)`);
  for (const { name } of rows) await attempt(() => dropRole(server, name));
}

type DatabaseRow = { name: string; open: boolean; ours: boolean };

/** Compares rows with databases: corrects fences, and reports what has no counterpart. */
async function matchDatabases(control: Control, server: Server, attempt: Attempt): Promise<Discrepancies> {
  const rows = await control.query<{ id: string; closed: boolean; project: boolean }>(sql`
    select id, ${isClosed} as closed, true as project from projects where server_id = ${server.id}
    union all
    select id, false, false from spares where server_id = ${server.id}`);
  // Databases are read after rows: one created in between looks like it has no row, so `withoutRow` checks again.
  const databases = await server.maintenance.query<DatabaseRow>(sql`
    select datname as name, datallowconn as open,
           coalesce(shobj_description(oid, 'pg_database') = ${commentOf(server)}, false) as ours
    from pg_database where datname like 'p\\_%'`);
  const byName = new Map(databases.map((database) => [database.name, database]));
  const known = new Set(rows.map(({ id }) => databaseOf(id)));

  for (const { id, closed, project } of rows) {
    const database = byName.get(databaseOf(id));
    if (!project || !database || database.open !== closed) continue;
    await attempt(() => settleFence({ control, server }, id));
  }
  const lost = databases.filter(({ name, ours }) => ours && !known.has(name)).map(({ name }) => name);
  return {
    projectsWithoutDatabase: rows
      .filter(
        ({ id, project }) => project && !byName.has(databaseOf(id)) && !byName.has(movingDatabaseOf(id)),
      )
      .map(({ id }) => id),
    databasesWithoutRow: await withoutRow(control, server, lost),
  };
}

/** A project that is being moved, or was, has a database on two servers. */
async function withoutRow(control: Control, server: Server, names: string[]): Promise<string[]> {
  if (names.length === 0) return [];
  const rows = await control.query<{ name: string }>(sql`
    select name from unnest(${names}::text[]) as name
    where not exists (select 1 from projects where projects.id = substr(name, 3) and server_id = ${server.id})
      and not exists (select 1 from spares where spares.id = substr(name, 3))
      and not exists (select 1 from moves where name in ('p_' || project_id, 'p_' || project_id || '_moving'))`);
  return rows.map(({ name }) => name);
}

// How large each project is, at most some seconds old. Only databases in which something happened are measured: an
// idle project costs nothing, however many there are.
import type { Control } from '../control/control.ts';
import { databaseOf } from '../engine/provision.ts';
import type { Server } from '../engine/servers.ts';
import { sql } from '../postgres/sql.ts';

type Deps = { control: Control; server: Server };

/** What had happened in a database when it was last measured, by PostgreSQL's own counters. */
const measuredAt = new WeakMap<Server, Map<string, string>>();

/** Returns how many databases were measured. */
export async function refreshSizes({ control, server }: Deps): Promise<number> {
  const seen = measuredAt.get(server) ?? new Map<string, string>();
  measuredAt.set(server, seen);
  const activity = await server.maintenance.query<{ name: string; counters: string }>(sql`
    select datname as name, concat_ws(' ', xact_commit, xact_rollback, blks_hit, stats_reset) as counters
    from pg_stat_database where datname like 'p\\_%'`);
  const changed = activity.filter(({ name, counters }) => seen.get(name) !== counters);
  if (changed.length === 0) return 0;
  const projects = await control.query<{ id: string }>(
    sql`select id from projects where server_id = ${server.id} and deleted_at is null`,
  );
  const ours = new Set(projects.map(({ id }) => databaseOf(id)));
  const due = changed.filter(({ name }) => ours.has(name));
  if (due.length > 0)
    await measure(
      { control, server },
      due.map(({ name }) => name),
    );
  for (const { name, counters } of changed) seen.set(name, counters);
  return due.length;
}

/** Those, now. */
export async function measure({ control, server }: Deps, names: string[]): Promise<void> {
  // Through the oid: a database dropped in the meantime gives null instead of an error.
  const sizes = await server.maintenance.query<{ name: string; bytes: number | null }>(sql`
    select datname as name, pg_database_size(oid)::float8 as bytes
    from pg_database where datname = any (${names}::text[])`);
  await control.query(sql`
    update projects set size_bytes = measured.bytes::bigint
    from unnest(${sizes.map(({ name }) => name)}::text[], ${sizes.map(({ bytes }) => bytes)}::float8[])
      as measured (name, bytes)
    where projects.id = substr(measured.name, 3) and measured.bytes is not null
      and projects.size_bytes <> measured.bytes::bigint`);
}

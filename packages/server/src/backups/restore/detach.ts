// A restored control database describes further servers as they were at the restored time, but they have gone on: a database
// that was a spare then can be a project now. So the restore detaches them. The service leaves a detached server alone until an
// operator attaches it, and what it would have completed there by itself is given up here.

import { openDatabase, type Queryable } from '../../postgres/admin/database.ts';
import { sql } from '../../postgres/sql.ts';
import type { RecoveryServer } from '../../servers/embedded/recovery-server.ts';

/** `unfinished`: the slugs of projects that a job was filling. They may be incomplete, or not exist. */
export type DetachedServer = { name: string; hosts: string[]; projects: number; unfinished: string[] };

export async function detachServers(
  { address, database }: Pick<RecoveryServer, 'address' | 'database'>,
  controlDatabase: string,
): Promise<DetachedServer[]> {
  const control = openDatabase({ ...address, database: controlDatabase }, { max: 1 });
  try {
    // A control database of an earlier version has one server.
    const [known] = await control.query(sql`select 1 where to_regclass('moves') is not null`);
    if (!known) return [];
    for (const { id } of await listClosed(control))
      await database.query(sql`alter database ${sql.id(`p_${id}`)} allow_connections true`);
    return await control.transaction(detach);
  } finally {
    await control.end();
  }
}

/** Projects whose move to the first server was recorded, but whose database there was not opened yet. */
function listClosed(control: Queryable): Promise<{ id: string }[]> {
  return control.query<{ id: string }>(sql`
    select projects.id from moves join projects on projects.id = moves.project_id and server_id = to_server
      join servers on servers.id = to_server
    where moves.state = 'switched' and deleted_at is null and servers.address is null`);
}

async function detach(control: Queryable): Promise<DetachedServer[]> {
  const further = sql`(select id from servers where address is not null)`;
  const servers = await control.query<DetachedServer>(sql`
    select name, hosts,
           (select count(*)::int from projects where server_id = servers.id and deleted_at is null) as projects,
           array(select slug from projects where server_id = servers.id and filled_by is not null order by slug) as unfinished
    from servers where address is not null order by id`);
  if (servers.length === 0) return [];
  // As in the migration of this version, which the next start applies.
  await control.query(sql`alter table servers drop constraint if exists servers_state_check`);
  await control.query(sql`
    alter table servers add constraint servers_state_check
      check (state in ('active', 'draining', 'removing', 'detached'))`);
  await control.query(sql`update servers set state = 'detached' where address is not null`);
  await control.query(sql`delete from spares where server_id in ${further}`);
  // Each has at least one further server.
  await control.query(sql`delete from moves`);
  await control.query(sql`
    delete from swaps where project_id in (select id from projects where server_id in ${further})`);
  await control.query(sql`
    update jobs set status = 'failed', ended_at = now(), error = ${JSON.stringify(ended)}::text::jsonb
    where status = 'running'`);
  await control.query(sql`update projects set filled_by = null where server_id in ${further}`);
  return servers;
}

const ended = {
  code: 'unavailable',
  message: 'The installation was restored to a time at which this job was running.',
  hint: 'Start it again.',
};

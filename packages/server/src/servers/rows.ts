// The servers of the installation in the control database.
import { recordChange } from '../control/change-feed.ts';
import type { Control } from '../control/control.ts';
import { sealBytes, unsealBytes } from '../control/seal.ts';
import type { Address, Queryable } from '../postgres/admin/database.ts';
import { sql } from '../postgres/sql.ts';

/**
 * `removing`: it gets no projects, and disappears once its spares are dropped. `detached`: the installation was restored, and
 * the server is not opened until an operator says so.
 */
export type ServerState = 'active' | 'draining' | 'removing' | 'detached';

export type ServerRow = Readonly<{
  id: number;
  name: string;
  hosts: string[];
  /** null: the first server. Its address is a setting of the service. */
  address: Buffer | null;
  state: ServerState;
  labels: string[];
  capacityMb: number | null;
  capacityConnections: number | null;
  projects: number;
  usedBytes: number;
  /** PostgreSQL's own. null: a server that an earlier version has added. */
  systemIdentifier: string | null;
}>;

export function readServers(control: Queryable): Promise<ServerRow[]> {
  return control.query<ServerRow>(sql`
    select id, name, hosts, address, state, labels, capacity_mb::float8 as "capacityMb",
           capacity_connections as "capacityConnections", projects_count as projects, used_bytes::float8 as "usedBytes",
           system_identifier as "systemIdentifier"
    from servers order by address is not null, id`);
}

/** Bound to the name: an address that was moved to another row does not open. */
export function sealAddress(masterKey: Buffer, name: string, url: string): Buffer {
  return sealBytes(masterKey, 'server addresses', Buffer.from(url), name);
}

export function openAddress(masterKey: Buffer, { name, address }: ServerRow): string | null {
  return address && unsealBytes(masterKey, 'server addresses', address, name).toString('utf8');
}

export type NewServer = Readonly<{
  name: string;
  hosts: readonly string[];
  address: Buffer;
  labels: readonly string[];
  capacityMb: number | null;
  capacityConnections: number | null;
  systemIdentifier: string;
}>;

/** Returns null if the name or the server is there already. */
export async function insertServer(control: Control, server: NewServer): Promise<number | null> {
  const { name, hosts, address, labels, capacityMb, capacityConnections, systemIdentifier } = server;
  const [row] = await control.change<{ id: number }>(sql`
    with added as (
      insert into servers (name, hosts, address, labels, capacity_mb, capacity_connections, system_identifier)
      select ${name}, ${[...hosts]}::text[], ${address}, ${[...labels]}::text[], ${capacityMb}::bigint,
             ${capacityConnections}::int, ${systemIdentifier}
      where not exists (select from servers where system_identifier = ${systemIdentifier})
      on conflict (name) do nothing
      returning id
    ),
    change as (insert into changes (server_id) select id from added)
    select id from added`);
  return row?.id ?? null;
}

export type ServerChange = Readonly<{
  state?: ServerState;
  labels?: readonly string[];
  capacityMb?: number | null;
  capacityConnections?: number | null;
}>;

/** Returns false if there is no such server. */
export async function updateServer(control: Control, id: number, change: ServerChange): Promise<boolean> {
  const { state, labels, capacityMb, capacityConnections } = change;
  const rows = await control.change(sql`
    with change as (${recordChange({ serverId: id })})
    update servers
    set state = coalesce(${state ?? null}, state),
        labels = coalesce(${labels ? [...labels] : null}::text[], labels),
        capacity_mb = case when ${capacityMb === undefined} then capacity_mb else ${capacityMb ?? null}::bigint end,
        capacity_connections = case when ${capacityConnections === undefined} then capacity_connections
                                    else ${capacityConnections ?? null}::int end
    where id = ${id}
    returning id`);
  return rows.length > 0;
}

/** Returns false if the server is not detached. */
export function attachServer(control: Control, id: number): Promise<boolean> {
  return control.transaction(async (transaction) => {
    const rows = await transaction.query(sql`
      update servers set state = 'active' where id = ${id} and state = 'detached' returning id`);
    if (rows.length === 0) return false;
    // They may have been brought back after the restored time. So none of them is dropped at once.
    await transaction.query(sql`
      update projects set deleted_at = now() where server_id = ${id} and deleted_at is not null`);
    await transaction.query(recordChange({ serverId: id }));
    return true;
  });
}

/** Deleted projects count: their databases are kept until they can no longer be restored. */
export async function countProjects(
  control: Queryable,
  id: number,
): Promise<{ live: number; deleted: number }> {
  const [row] = await control.query<{ live: number; deleted: number }>(sql`
    select count(*) filter (where deleted_at is null)::int as live,
           count(*) filter (where deleted_at is not null)::int as deleted
    from projects where server_id = ${id}`);
  return row ?? { live: 0, deleted: 0 };
}

/** The foreign keys refuse this while the server has projects. `isLost`: they are given up. Returns how many. */
export function deleteServer(
  control: Control,
  id: number,
  isLost: boolean,
): Promise<{ live: number; deleted: number }> {
  return control.transaction(async (transaction) => {
    const givenUp = await countProjects(transaction, id);
    if (isLost) await transaction.query(sql`delete from projects where server_id = ${id}`);
    await transaction.query(sql`delete from spares where server_id = ${id}`);
    // Its backups stay for a while, and only this tells whose they are.
    await transaction.query(sql`
      insert into settings (name, value)
      select 'removed_servers', json_build_array(json_build_object('cluster', system_identifier, 'removedAt', now()))::text
      from servers where id = ${id} and system_identifier is not null
      on conflict (name) do update set value = (settings.value::jsonb || excluded.value::jsonb)::text`);
    await transaction.query(sql`delete from servers where id = ${id}`);
    await transaction.query(recordChange({ serverId: id }));
    return givenUp;
  });
}

/** One pass of the background work. Reading all projects of a server for each placement would take too long. */
export async function countUse(control: Queryable, id: number): Promise<void> {
  await control.query(sql`
    update servers set projects_count = found.projects, used_bytes = found.bytes
    from (
      select count(*) filter (where deleted_at is null) as projects, coalesce(sum(size_bytes), 0) as bytes
      from projects where server_id = ${id}
    ) as found
    where servers.id = ${id} and (projects_count, used_bytes) is distinct from (found.projects::int, found.bytes::bigint)`);
}

export async function noteFirst(
  control: Queryable,
  id: number,
  hosts: readonly string[],
  systemIdentifier: string,
): Promise<void> {
  await control.query(sql`
    update servers set hosts = ${[...hosts]}::text[], system_identifier = ${systemIdentifier}
    where id = ${id} and (hosts, system_identifier) is distinct from (${[...hosts]}::text[], ${systemIdentifier})`);
}

/** Notes the identifier of a server that an earlier version has added. */
export async function noteIdentifier(
  control: Queryable,
  id: number,
  systemIdentifier: string,
): Promise<void> {
  await control.query(sql`
    update servers set system_identifier = ${systemIdentifier} where id = ${id} and system_identifier is null`);
}

export function hostNames(address: Address): string[] {
  return (address.primary?.hosts ?? [address]).map(({ host, port }) => `${host}:${port}`);
}

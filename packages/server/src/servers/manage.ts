// What operators do with servers: add, list, change, remove.

import type { AddServer, ChangeServer, ListedServer, Server as WireServer } from '@rowhouse/api';
import type { Control } from '../control/control.ts';
import { errors, RowhouseError } from '../errors/errors.ts';
import { toMb } from '../lib/bytes.ts';
import { type Address, isState, openDatabase } from '../postgres/admin/database.ts';
import { sql } from '../postgres/sql.ts';
import { sqlstate } from '../postgres/sqlstate.ts';
import { splitHosts } from '../settings/database-url.ts';
import { dropProvisioned } from './databases/provision.ts';
import type { DiskFacts, DiskWatch } from './embedded/disk.ts';
import { EngineError } from './engine-error.ts';
import { checkExternal, parseDatabaseUrl } from './external.ts';
import type { Fleet, Member } from './fleet.ts';
import {
  attachServer,
  countProjects,
  deleteServer,
  hostNames,
  insertServer,
  type ServerState,
  sealAddress,
  updateServer,
} from './rows.ts';
import { readFacts, type Server } from './server.ts';

type Deps = { control: Control; servers: Fleet; masterKey: Buffer; onError: (error: unknown) => void };
/** `slot`: of the backups. `dropSlot`: returns whether it is gone. */
type RemovalDeps = Deps & { slot: string; dropSlot: (server: Server) => Promise<boolean> };
type Removed = {
  server: WireServer;
  givenUp: { live: number; deleted: number };
  /** null: it is dropped. */
  leftSlot: string | null;
};

export async function listServers(
  { control, servers }: Pick<Deps, 'control' | 'servers'>,
  disk: DiskWatch,
): Promise<ListedServer[]> {
  await servers.refresh();
  return Promise.all(
    servers.members().map(async (member) => ({
      ...toWire(member),
      // The background work does not count what is on a server that it cannot reach.
      ...(!member.isAnswering && { projects: (await countProjects(control, member.row.id)).live }),
      connections: await readConnections(member),
      disk: member.row.id === servers.first.id ? toWireDisk(disk.facts()) : null,
    })),
  );
}

/** Servers that hang must not hold up the list of the others. */
const connectionsMs = 2_000;

/** The connections to all databases, those by programs of others included. Parallel workers count against another limit. */
async function readConnections({ server, isAnswering }: Member): Promise<ListedServer['connections']> {
  if (!server || !isAnswering) return null;
  const asked = server.maintenance.query<{ used: number; limit: number }>(
    sql`
      select count(*)::int as used, current_setting('max_connections')::int as limit from pg_stat_activity
      where datid is not null and usesysid is not null and backend_type is distinct from 'parallel worker'`,
    connectionsMs,
  );
  const [row] = await asked.catch(() => []);
  return row ?? null;
}

function toWireDisk(facts: DiskFacts | null): ListedServer['disk'] {
  if (!facts) return null;
  const { freeBytes, totalBytes, reserveBytes } = facts;
  return { free_mb: toMb(freeBytes), total_mb: toMb(totalBytes), reserve_mb: toMb(reserveBytes) };
}

/** The server is checked before it is added. Its template and roles are created when it is opened, right after. */
export async function addServer(deps: Deps, input: AddServer): Promise<WireServer> {
  const { control, servers, masterKey } = deps;
  const address = readAddress(input.address);
  if (reserved.includes(input.name)) throw nameTaken(input.name);
  await servers.refresh();
  if (servers.members().some(({ row }) => row.name === input.name)) throw nameTaken(input.name);
  const { systemIdentifier } = await examine(address);
  const id = await insertServer(control, {
    name: input.name,
    hosts: hostNames(address),
    address: sealAddress(masterKey, input.name, input.address),
    labels: input.labels ?? [],
    capacityMb: input.capacity_mb ?? null,
    capacityConnections: input.capacity_connections ?? null,
    systemIdentifier,
  });
  if (id === null)
    throw errors.conflict(
      'This PostgreSQL server is one of the servers already, under another name or address.',
      'GET /api/dbaas/v2/servers lists them.',
    );
  await servers.refresh();
  await servers.settled(id);
  return toWire(memberOf(servers, id));
}

export async function changeServer(deps: Deps, id: number, input: ChangeServer): Promise<WireServer> {
  const states: Record<NonNullable<ChangeServer['state']>, ServerState> = {
    ready: 'active',
    draining: 'draining',
  };
  await deps.servers.refresh();
  const isDetached = memberOf(deps.servers, id).row.state === 'detached';
  if (isDetached && input.state === 'draining') throw errors.serverDetached();
  const isAttached = isDetached && input.state === 'ready' && (await attachServer(deps.control, id));
  const isThere = await updateServer(deps.control, id, {
    ...(input.state && !isAttached && { state: states[input.state] }),
    ...(input.labels && { labels: input.labels }),
    ...(input.capacity_mb !== undefined && { capacityMb: input.capacity_mb }),
    ...(input.capacity_connections !== undefined && { capacityConnections: input.capacity_connections }),
  });
  if (!isThere) throw errors.serverNotFound(id);
  await deps.servers.refresh();
  if (isAttached) await deps.servers.settled(id);
  return toWire(memberOf(deps.servers, id));
}

/**
 * Refused while the server has projects. Its spares are dropped if it can be reached. `isLost`: it will never answer again, and
 * its projects are given up.
 */
export async function removeServer(deps: RemovalDeps, id: number, isLost: boolean): Promise<Removed> {
  const { control, servers } = deps;
  await servers.refresh();
  const member = memberOf(servers, id);
  if (id === servers.first.id)
    throw errors.conflict('The first server holds the control database and cannot be removed.', stayHint);
  if (isLost && member.isAnswering)
    throw errors.conflict(
      `The server "${member.row.name}" answers, so it is not lost.`,
      'Remove it without "lost": rowhouse servers remove.',
    );
  if (!isLost) await checkEmpty(control, member);
  // From now on no process places a project there. The foreign key holds off one that is just being created.
  // A detached server gets none, and stays closed.
  const isDetached = member.row.state === 'detached';
  if (!isDetached) await updateServer(control, id, { state: 'removing' });
  await servers.refresh();
  if (member.server) await dropSpares(control, member.server).catch(deps.onError);
  const isSlotGone = await dropSlotOf(deps, member);
  try {
    const givenUp = await deleteServer(control, id, isLost);
    await servers.refresh();
    return { server: toWire(member), givenUp, leftSlot: isSlotGone ? null : deps.slot };
  } catch (error) {
    if (!isState(error, sqlstate.foreignKeyViolation)) throw error;
    if (!isDetached) await updateServer(control, id, { state: 'draining' });
    if (!isLost) await checkEmpty(control, member);
    throw errors.conflict(
      'A move from or to this server is not complete.',
      'Try again in a minute. If the other server of the move does not answer, it must be back first.',
    );
  }
}

/** False: it may still be there. */
async function dropSlotOf({ dropSlot, onError }: RemovalDeps, member: Member): Promise<boolean> {
  if (!member.server || !member.isAnswering) return false;
  return dropSlot(member.server).catch((error: unknown) => {
    onError(error);
    return false;
  });
}

/** The names of the first server, by its kind. */
const reserved = ['embedded', 'external'];

const stayHint = 'Other servers can be removed.';

async function checkEmpty(control: Control, { row: { id, name }, isAnswering }: Member): Promise<void> {
  const { live, deleted } = await countProjects(control, id);
  if (live + deleted === 0) return;
  throw errors.conflict(
    `The server "${name}" has ${live} projects, and ${deleted} deleted ones that can still be restored.`,
    isAnswering
      ? 'Move them: rowhouse servers drain. Deleted ones are dropped after ROWHOUSE_KEEP_DELETED_DAYS.'
      : 'If it is lost, restore its projects into new ones on other servers. Then give it up: rowhouse servers remove --lost.',
  );
}

async function dropSpares(control: Control, server: Server): Promise<void> {
  const spares = await control.query<{ id: string }>(
    sql`select id from spares where server_id = ${server.id}`,
  );
  for (const { id } of spares) await dropProvisioned(server, id);
}

function memberOf(servers: Fleet, id: number): Member {
  const found = servers.members().find(({ row }) => row.id === id);
  if (!found) throw errors.serverNotFound(id);
  return found;
}

function toWire({ row, isAnswering }: Member): WireServer {
  const { id, name, hosts, labels, state, capacityMb, capacityConnections, usedBytes, projects } = row;
  const reached = state === 'active' ? 'ready' : 'draining';
  const silentState = state === 'detached' ? 'detached' : 'unavailable';
  return {
    id,
    name,
    hosts,
    labels,
    projects,
    state: isAnswering ? reached : silentState,
    capacity_mb: capacityMb,
    capacity_connections: capacityConnections,
    used_mb: toMb(usedBytes),
  };
}

/** Problems never contain the address: it has a password. */
function readAddress(text: string): Address {
  if (splitHosts(text)) return parseDatabaseUrl(text);
  throw errors.invalidRequest(
    [{ path: 'address', problem: 'must have the form postgres://user:password@host:port/database' }],
    'Separate the hosts of one server by commas: host1:5432,host2:5432. Encode special characters of the password: %40 for @.',
  );
}

async function examine(address: Address): Promise<{ systemIdentifier: string }> {
  const database = openDatabase(address, { max: 1, queryMs: 10_000 });
  try {
    await checkExternal(address);
    return await readFacts(database);
  } catch (error) {
    throw explain(error);
  } finally {
    await database.end();
  }
}

function explain(error: unknown): unknown {
  const refuse = (problem: string, hint?: string) =>
    errors.invalidRequest([{ path: 'address', problem }], hint);
  if (error instanceof EngineError) return refuse(error.message, error.hint);
  if (!(error instanceof RowhouseError) || error.code !== 'unavailable') return error;
  const cause = error.cause as { message?: string; code?: string } | undefined;
  return refuse(
    `the server cannot be reached: ${cause?.message || cause?.code || 'no answer'}`,
    'Check the address, the password, and that the server accepts connections from this machine.',
  );
}

function nameTaken(name: string): RowhouseError {
  return errors.conflict(`There is already a server "${name}".`, 'Choose another name.');
}

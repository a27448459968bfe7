// The login gate: tells a direct login that the project is full, or refuses it. It is a setting of the project's database. A
// guard (migrations/guards/0003) reads it at each login, so it works even while no process of the service runs.
import type { Control } from '../../control/control.ts';
import { isState, openDatabase } from '../../postgres/admin/database.ts';
import { sql } from '../../postgres/sql.ts';
import { sqlstate } from '../../postgres/sqlstate.ts';
import { databaseOf } from '../../servers/databases/names.ts';
import type { Server } from '../../servers/server.ts';

type Deps = { control: Control; server: Server };

/** Set by direct-pauses.ts. */
export const pauseSetting = 'rowhouse.direct_pause';

/** `reopenBytes`: the gate stays closed until the database is no larger than this. */
export type LoginGate = { state: 'open' } | { state: 'full' } | { state: 'closed'; reopenBytes: number };

/** Direct sessions cannot reach the socket. If our own sessions use the network too, only their name distinguishes them. */
export function sessionMark(server: Server): 'socket' | 'name' {
  return server.address.socket ? 'socket' : 'name';
}

/** `isEnabled`: the login trigger is known to be enabled already. */
export async function setLoginGate(
  server: Server,
  id: string,
  gate: LoginGate,
  isEnabled = false,
): Promise<void> {
  const database = sql.id(databaseOf(id));
  const more = gate.state === 'closed' ? ` ${Math.floor(gate.reopenBytes)}` : '';
  const value = sql.literal(`${gate.state} ${sessionMark(server)}${more}`);
  const statement =
    gate.state === 'open'
      ? sql`alter database ${database} reset rowhouse.direct`
      : sql`alter database ${database} set rowhouse.direct = ${value}`;
  // In this order: where the setting exists, the trigger that reads it is enabled.
  if (gate.state !== 'open' && !isEnabled) await enableLoginTrigger(server, id, true);
  await server.maintenance.change(statement).catch((error) => {
    if (!isState(error, sqlstate.undefinedDatabase)) throw error;
  });
  if (gate.state === 'open' && !(await findSettings(server, pauseSetting)).has(id))
    await enableLoginTrigger(server, id, false);
}

/** Without the guard (no superuser, PostgreSQL 16) logins are neither told nor refused anything. */
export async function enableLoginTrigger(server: Server, id: string, enable: boolean): Promise<void> {
  if (!server.superuser) return;
  const address = { ...server.address, database: databaseOf(id) };
  const database = openDatabase(address, { max: 1, searchPath: 'pg_catalog' });
  const how = enable ? sql`enable` : sql`disable`;
  try {
    await database.change(sql`alter event trigger rowhouse_logins ${how}`).catch((error) => {
      if (!isState(error, sqlstate.undefinedObject)) throw error;
    });
  } finally {
    await database.end();
  }
}

/**
 * Sets every gate according to the last measured sizes. Only gates that change cost a statement. Returns whether none was set
 * or had to be: then nothing changes before the next commit.
 */
export async function settleLoginGates({ control, server }: Deps): Promise<boolean> {
  const gates = await readLoginGates(server);
  const projects = await control.query<Measured>(sql`
    select id, size_bytes::float8 as bytes, (empty_bytes + limit_mb * bigint '1048576')::float8 as "limitBytes"
    from (
      -- This must match the index projects_at_limit.
      select * from projects
      where server_id = ${server.id} and deleted_at is null and size_bytes - empty_bytes >= limit_mb * bigint '1048576'
      union
      select * from projects
      where id = any (${[...gates.keys()]}::text[]) and server_id = ${server.id} and deleted_at is null
    ) as found`);
  for (const { id, bytes, limitBytes } of projects) {
    const now = gates.get(id) ?? { state: 'open' };
    // Measured now before a gate is opened: the stored size may be older than the gate.
    const size = now.state === 'open' ? bytes : await measure(server, id);
    if (now.state === 'closed' && size > Math.max(now.reopenBytes, limitBytes)) continue;
    const wanted: LoginGate = size >= limitBytes ? { state: 'full' } : { state: 'open' };
    if (wanted.state === now.state) continue;
    await setLoginGate(server, id, wanted);
  }
  return gates.size === 0 && projects.length === 0;
}

async function measure(server: Server, id: string): Promise<number> {
  const [row] = await server.maintenance.query<{ bytes: number | null }>(
    sql`select pg_database_size(oid)::float8 as bytes from pg_database where datname = ${databaseOf(id)}`,
  );
  return row?.bytes ?? 0;
}

type Measured = { id: string; bytes: number; limitBytes: number };

async function readLoginGates(server: Server): Promise<Map<string, LoginGate>> {
  const found = await findSettings(server, 'rowhouse.direct');
  return new Map([...found].map(([id, gate]) => [id, parse(gate)]));
}

/** The values of a setting of project databases, by project id. */
export async function findSettings(server: Server, name: string): Promise<Map<string, string>> {
  const rows = await server.maintenance.query<{ id: string; value: string }>(sql`
    select substr(datname, 3) as id, substr(setting, length(${name}::text) + 2) as value
    from pg_db_role_setting
    join pg_database on pg_database.oid = setdatabase, unnest(setconfig) as setting
    where setrole = 0 and datname like 'p\\_%' and starts_with(setting, ${name} || '=')`);
  return new Map(rows.map(({ id, value }) => [id, value]));
}

function parse(text: string): LoginGate {
  const [state, , bytes] = text.split(' ');
  return state === 'closed' ? { state, reopenBytes: Number(bytes) || 0 } : { state: 'full' };
}

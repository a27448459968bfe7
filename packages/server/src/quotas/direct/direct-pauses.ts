// A project that repeatedly does harm through direct connections loses them for a while. A setting of its database holds the
// end of the pause. A guard (migrations/guards/0005) reads it at each login, so it works even while no process of the
// service runs.

import { isState } from '../../postgres/admin/database.ts';
import { sql } from '../../postgres/sql.ts';
import { sqlstate } from '../../postgres/sqlstate.ts';
import { databaseOf } from '../../servers/databases/names.ts';
import type { Server } from '../../servers/server.ts';
import { enableLoginTrigger, findSettings, pauseSetting, sessionMark } from './direct-login-gate.ts';

/** `until`: milliseconds since the epoch. */
export async function pauseDirect(server: Server, id: string, until: number): Promise<void> {
  const value = sql.literal(`${Math.ceil(until / 1000)} ${sessionMark(server)}`);
  await enableLoginTrigger(server, id, true);
  await change(server, id, sql`set rowhouse.direct_pause = ${value}`);
}

/**
 * Removes expired pauses. The guard compares with the clock itself, so logins do not wait for this. Returns whether there was
 * none.
 */
export async function endPauses(server: Server, now: number): Promise<boolean> {
  const pauses = await findSettings(server, pauseSetting);
  for (const [id, value] of pauses) {
    if (Number.parseInt(value, 10) * 1000 > now) continue;
    await change(server, id, sql`reset rowhouse.direct_pause`);
    const gates = await findSettings(server, 'rowhouse.direct');
    if (!gates.has(id)) await enableLoginTrigger(server, id, false);
  }
  return pauses.size === 0;
}

async function change(server: Server, id: string, action: ReturnType<typeof sql>): Promise<void> {
  await server.maintenance.change(sql`alter database ${sql.id(databaseOf(id))} ${action}`).catch((error) => {
    if (!isState(error, sqlstate.undefinedDatabase)) throw error;
  });
}

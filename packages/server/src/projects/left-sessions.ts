// Sessions that should have ended long ago, and that nobody follows: code without interrupt checks goes on in them. Those in
// databases that are closed or to be dropped, which were terminated, and direct ones whose client has gone: PostgreSQL looks for
// that every second, but only where it looks for interrupts.
import { readFileSync } from 'node:fs';
import type { Control } from '../control/control.ts';
import { isEmbedded } from '../engine/embedded.ts';
import type { Server } from '../engine/servers.ts';
import type { Terminations } from '../engine/terminations.ts';
import { sql } from '../postgres/sql.ts';

/** One pass of the background work. */
export async function endLeftSessions(
  { control, server }: { control: Control; server: Server },
  terminations: Pick<Terminations, 'endLeft'>,
): Promise<void> {
  const dropping = await control.query<{ id: string }>(sql`
    select id from spares
    where server_id = ${server.id} and state = 'dropping' and id not in (select copy_id from moves) limit 1000`);
  const ids = dropping.map(({ id }) => id);
  const ports = isEmbedded(server.address, server.masterKey) ? abandonedPorts(server.address.port) : [];
  const left = await server.maintenance.query<{ pid: number; id: string }>(sql`
    with databases as materialized (
      select oid, datallowconn, substring(datname from '^p_([a-z0-9]+)$') as id from pg_database
      where datname ~ '^p_[a-z0-9]+$')
    select pid, databases.id from pg_stat_activity join databases on databases.oid = datid
    where backend_type = 'client backend' and usename ~ '^p_' and backend_start < now() - interval '10 seconds'
      and (not datallowconn or databases.id = any (${ids}::text[])
           or client_port = any (${ports}::int[]) and state = 'active' and query_start < now() - interval '10 seconds')`);
  for (const { pid, id } of left) terminations.endLeft(server.id, id, pid);
}

const closeWait = '08';

/** The ports of clients that have closed their connection, although PostgreSQL has not. Empty where the system does not show it. */
function abandonedPorts(port: number): number[] {
  const local = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  try {
    return readFileSync('/proc/net/tcp', 'utf8')
      .split('\n')
      .map((line) => line.trim().split(/\s+/))
      .filter(([, own, , state]) => own?.endsWith(local) && state === closeWait)
      .map(([, , remote]) => Number.parseInt(remote?.split(':')[1] ?? '', 16));
  } catch {
    return [];
  }
}

// Sessions that should have ended long ago, and that nobody follows: code without interrupt checks goes on in them. Those in
// databases that are closed or to be dropped, which were terminated, and direct ones whose client has gone: PostgreSQL looks for
// that every second, but only where it looks for interrupts.
import type { Control } from '../../control/control.ts';
import { sql } from '../../postgres/sql.ts';
import { isEmbedded } from '../embedded/embedded.ts';
import type { Server } from '../server.ts';
import { findLeftClients } from './left-clients.ts';
import type { Terminations } from './terminations.ts';

/** One pass of the background work. */
export async function endLeftSessions(
  { control, server }: { control: Control; server: Server },
  terminations: Pick<Terminations, 'endLeft'>,
): Promise<void> {
  const dropping = await control.query<{ id: string }>(sql`
    select id from spares
    where server_id = ${server.id} and state = 'dropping' and id not in (select copy_id from moves) limit 1000`);
  const ids = dropping.map(({ id }) => id);
  const gone = isEmbedded(server.address, server.masterKey) ? findLeftClients(server.address) : [];
  const addresses = gone.map(({ address }) => address);
  const ports = gone.map(({ port }) => port);
  const left = await server.maintenance.query<{ pid: number; id: string }>(sql`
    with databases as materialized (
      select oid, datallowconn, substring(datname from '^p_([a-z0-9]+)$') as id from pg_database
      where datname ~ '^p_[a-z0-9]+$')
    select pid, databases.id from pg_stat_activity join databases on databases.oid = datid
    where backend_type = 'client backend' and usename ~ '^p_' and backend_start < now() - interval '10 seconds'
      and (not datallowconn or databases.id = any (${ids}::text[])
           or (client_addr, client_port) in (select * from unnest(${addresses}::inet[], ${ports}::int[]))
             and state = 'active' and query_start < now() - interval '10 seconds')`);
  for (const { pid, id } of left) terminations.endLeft(server.id, id, pid);
}

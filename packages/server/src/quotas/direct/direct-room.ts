// The connections that a project's role may have are shared by direct clients and the API. Some are kept for the API: the proxy lets
// no more direct ones in, and where clients come in past it, or through several processes, the surplus ends as soon as the API needs
// a connection and gets none.

import { openInFlight } from '../../lib/in-flight.ts';
import { sql } from '../../postgres/sql.ts';
import { databaseOf, roleOf } from '../../servers/databases/names.ts';
import type { Server } from '../../servers/server.ts';
import { maxDirectSessions } from '../../settings/limits/direct-connections.ts';
import { isDirect } from './direct-sessions-sql.ts';

/** How long one that is ended may take to go, and all of them together. */
const [endMs, answerMs] = [300, 4_000];
const inFlight = openInFlight<number>();

/**
 * Ends the direct sessions that are more than a project may have: idle ones first, and of those the ones that came last. Returns how
 * many these are.
 */
export function makeRoomForApi(server: Server, id: string): Promise<number> {
  return inFlight(`${server.id} ${id}`, () => endSurplus(server, id));
}

async function endSurplus(server: Server, id: string): Promise<number> {
  const statement = sql`
    select count(*)::int as surplus, bool_and(pg_terminate_backend(pid, ${endMs})) from (
      select session.pid from pg_stat_get_activity(null) as session
      where session.usesysid = (select oid from pg_roles where rolname = ${roleOf(id)})
        and session.datid = (select oid from pg_database where datname = ${databaseOf(id)})
        and ${sql.script(isDirect(server))}
      order by session.state is distinct from 'idle' desc, session.backend_start
      offset ${maxDirectSessions}
    ) as surplus`;
  const [row] = await server.maintenance.query<{ surplus: number }>(statement, answerMs);
  return row?.surplus ?? 0;
}

// Which sessions of pg_stat_get_activity (as `session`) are direct ones, in SQL for the watch inside PostgreSQL.
import type { Server } from '../engine/servers.ts';
import { sessionMark } from './direct-login-gate.ts';

export function isDirect(server: Server): string {
  const client = `session.backend_type = 'client backend'`;
  return sessionMark(server) === 'socket'
    ? `${client} and session.client_port <> -1`
    : `${client} and session.application_name not in ('rowhouse', 'rowhouse query')`;
}

/** With thousands of our own sessions open, all that is told of each would take half a core. */
export function mayBeAnyone(server: Server): string {
  return sessionMark(server) === 'socket'
    ? `exists (
        select from pg_stat_get_backend_idset() as backend (id)
        where pg_stat_get_backend_client_port(id) <> -1 and pg_stat_get_backend_userid(id) <> us)`
    : 'true';
}

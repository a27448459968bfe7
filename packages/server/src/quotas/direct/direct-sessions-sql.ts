// SQL conditions that tell which sessions of pg_stat_get_activity (as `session`) are direct ones.
import type { Server } from '../../servers/server.ts';
import { sessionMark } from './direct-login-gate.ts';

export function isDirect(server: Server): string {
  const client = `session.backend_type = 'client backend'`;
  return sessionMark(server) === 'socket'
    ? `${client} and session.client_port <> -1`
    : `${client} and session.application_name not in ('rowhouse', 'rowhouse query')`;
}

/** A cheap check first: with thousands of our own sessions, reading all facts about each would take half a core. */
export function mayHaveDirectSessions(server: Server): string {
  return sessionMark(server) === 'socket'
    ? `exists (
        select from pg_stat_get_backend_idset() as backend (id)
        where pg_stat_get_backend_client_port(id) <> -1 and pg_stat_get_backend_userid(id) <> us)`
    : 'true';
}

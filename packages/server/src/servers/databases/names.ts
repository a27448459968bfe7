// The names of a project's database and roles, and the mark by which an installation knows its own.
import type { Server } from '../server.ts';

/** Names are opaque: pg_database and pg_roles are readable by every project on the server. */
export const databaseOf = (id: string) => `p_${id}`;
export const roleOf = (id: string) => `p_${id}`;
export const authRoleOf = (id: string) => `p_${id}_auth`;
/** The login for requests of end users. Its only privilege is to become `authenticated`. Created on first use. */
export const userRoleOf = (id: string) => `p_${id}_user`;
/** The login for anonymous requests. A separate role, so that code run for `anon` cannot become a user by SET ROLE. */
export const anonymousRoleOf = (id: string) => `p_${id}_anon`;
/** Reads everything of the project for an export (dump-role.ts). Made when first needed. */
export const dumpRoleOf = (id: string) => `p_${id}_dump`;
/**
 * Reads the project for the other server while it is moved there (publication.ts). REPLICATION is a right on the whole server, so
 * no code of a project may run in its sessions. PostgreSQL's own receiver opens them, with an empty search_path, and the role may
 * read plain tables only.
 */
export const replicationRoleOf = (id: string) => `p_${id}_move`;
export const rolesOf = (id: string) => [
  ...[replicationRoleOf(id), dumpRoleOf(id), anonymousRoleOf(id), userRoleOf(id), authRoleOf(id), roleOf(id)],
];

/** The comment on every database and role of the installation. */
export const commentOf = (server: Pick<Server, 'installation'>) => `rowhouse ${server.installation}`;

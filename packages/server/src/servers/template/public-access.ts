// Roles that may connect to the databases that a server has from the start. By default PostgreSQL lets every role in, and so it
// would let in the roles of projects. Other roles of the server keep the access that they had: they may belong to its
// monitoring, or to a cluster manager such as Patroni, whose old primary rejoins only if its role for pg_rewind gets in.
import type { Database } from '../../postgres/admin/database.ts';
import { sql } from '../../postgres/sql.ts';

/** The roles of projects, of this installation and of others, and those that projects share. */
const rowhouseRoles = '^(p_[a-z0-9]+(_auth|_user|_anon|_dump|_move)?|authenticated|anon|service_role)$';

/** If our role may not change it, servers/external.ts reports it. */
export async function restrictPublicAccess(maintenance: Database): Promise<void> {
  const databases = await maintenance.query<{ name: string; isPublic: boolean }>(sql`
    select datname as name, has_database_privilege('public', oid, 'connect') as "isPublic" from pg_database
    where datname in ('postgres', 'template1') and pg_has_role(current_user, datdba, 'member')`);
  for (const database of databases) await restrict(maintenance, database);
}

/** In one transaction: no role that had access is without it in between. */
async function restrict(
  maintenance: Database,
  { name, isPublic }: { name: string; isPublic: boolean },
): Promise<void> {
  await maintenance.transaction(async (transaction) => {
    if (isPublic) await transaction.query(sql`revoke all on database ${sql.id(name)} from public`);
    // Once access is restricted, an operator may have decided about other roles. Those that replicate or rewind are let in
    // even so: without them the server would lose its standbys.
    const roles = await transaction.query<{ role: string }>(sql`
      select rolname as role from pg_roles
      where rolcanlogin and not rolsuper and rolname !~ ${rowhouseRoles}
        and (${isPublic}::bool or rolreplication or has_function_privilege(oid, 'pg_read_binary_file(text)', 'execute'))
        and not has_database_privilege(oid, ${name}::text, 'connect')`);
    for (const { role } of roles)
      await transaction.query(sql`grant connect on database ${sql.id(name)} to ${sql.id(role)}`);
  });
}

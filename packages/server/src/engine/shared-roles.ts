// Roles that all projects of a server share, by the names that row security policies are commonly written for. They can
// neither log in nor do anything by themselves; what a project grants them holds in its own database alone.
import { type Database, isState } from '../postgres/database.ts';
import { sql } from '../postgres/sql.ts';
import { sqlstate } from '../postgres/sqlstate.ts';
import type { Finding } from './external.ts';

/** Whom an end user acts as. */
export const userRole = 'authenticated';
/** So that policies and grants that name them can be written; nobody acts as these. */
const otherRoles = ['anon', 'service_role'];

/** Makes them where they are missing. What keeps users from acting on tables here is among the findings. */
export async function ensureSharedRoles(maintenance: Database): Promise<Finding[]> {
  for (const name of [userRole, ...otherRoles]) {
    const [found] = await maintenance.query(sql`select 1 from pg_roles where rolname = ${name}`);
    if (found) continue;
    await maintenance.change(sql`create role ${sql.id(name)} nologin noinherit`).catch((error) => {
      // Another service was faster.
      if (!isState(error, sqlstate.duplicateObject) && !isState(error, sqlstate.uniqueViolation)) throw error;
    });
  }
  const [role] = await maintenance.query<{ powers: string[]; grantable: boolean; ours: string }>(sql`
    select array_remove(array[
             case when rolsuper then 'superuser' end, case when rolbypassrls then 'bypassrls' end,
             case when rolcreaterole then 'createrole' end, case when rolcreatedb then 'createdb' end,
             case when rolreplication then 'replication' end, case when rolcanlogin then 'login' end
           ], null) || array(select 'member of ' || roleid::regrole from pg_auth_members where member = pg_roles.oid) as powers,
           pg_has_role(current_user, oid, 'usage with admin option') as grantable,
           current_user as ours
    from pg_roles where rolname = ${userRole}`);
  if (!role) throw new Error(`The role ${userRole} is missing after it was made.`);
  const findings: Finding[] = [];
  if (role.powers.length > 0) {
    findings.push({
      missing: `a powerless role "${userRole}"`,
      risk: `users who act on tables would be ${role.powers.join(', ')}, so their requests are refused`,
      remedy: 'take that away from the role, or use a server of its own',
    });
  }
  if (!role.grantable) {
    findings.push({
      missing: `the right to grant "${userRole}"`,
      risk: "requests with a user's token are refused",
      remedy: `grant ${userRole} to "${role.ours}" with admin option`,
    });
  }
  return findings;
}

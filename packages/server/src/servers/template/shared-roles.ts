// Roles that all projects of a server share, with the names that row security policies commonly use. They can neither log in
// nor do anything by themselves; a project's grants to them apply in its own database only.
import { type Database, isState } from '../../postgres/admin/database.ts';
import { sql } from '../../postgres/sql.ts';
import { sqlstate } from '../../postgres/sqlstate.ts';
import type { Finding } from '../external.ts';

/** The role of signed-in end users. */
export const userRole = 'authenticated';
/** The role of requests with a publishable key and no user's token. Only the project itself grants it anything. */
export const anonymousRole = 'anon';
export type UserRole = typeof userRole | typeof anonymousRole;
/** Exist so that policies and grants can name them; no request runs as them. */
const otherRoles = ['service_role'];

export type SharedRoles = Readonly<{ findings: readonly Finding[]; usable: readonly UserRole[] }>;

/** Creates missing roles. The findings list what prevents requests from running as end users or as anonymous. */
export async function ensureSharedRoles(maintenance: Database): Promise<SharedRoles> {
  const actingUsers = [userRole, anonymousRole] as const;
  for (const name of [...actingUsers, ...otherRoles]) {
    const [found] = await maintenance.query(sql`select 1 from pg_roles where rolname = ${name}`);
    if (found) continue;
    await maintenance.change(sql`create role ${sql.id(name)} nologin noinherit`).catch((error) => {
      // Another service was faster.
      if (!isState(error, sqlstate.duplicateObject) && !isState(error, sqlstate.uniqueViolation)) throw error;
    });
  }
  const findings: Finding[] = [];
  const usable: UserRole[] = [];
  for (const name of actingUsers) {
    const found = await examine(maintenance, name);
    findings.push(...found);
    if (found.length === 0) usable.push(name);
  }
  return { findings, usable };
}

/** The reasons why requests cannot run as this role. */
async function examine(maintenance: Database, name: UserRole): Promise<Finding[]> {
  const [role] = await maintenance.query<{ powers: string[]; grantable: boolean; ours: string }>(sql`
    select array_remove(array[
             case when rolsuper then 'superuser' end, case when rolbypassrls then 'bypassrls' end,
             case when rolcreaterole then 'createrole' end, case when rolcreatedb then 'createdb' end,
             case when rolreplication then 'replication' end, case when rolcanlogin then 'login' end
           ], null) || array(select 'member of ' || roleid::regrole from pg_auth_members where member = pg_roles.oid) as powers,
           pg_has_role(current_user, oid, 'usage with admin option') as grantable,
           current_user as ours
    from pg_roles where rolname = ${name}`);
  if (!role) throw new Error(`The role ${name} is missing after it was made.`);
  const findings: Finding[] = [];
  if (role.powers.length > 0) {
    findings.push({
      missing: `a powerless role "${name}"`,
      risk: `requests that run as it would be ${role.powers.join(', ')}, so they are refused`,
      remedy: 'take that away from the role, or use a server of its own',
    });
  }
  if (!role.grantable) {
    findings.push({
      missing: `the right to grant "${name}"`,
      risk: refusedFor[name],
      remedy: `grant ${name} to "${role.ours}" with admin option`,
    });
  }
  return findings;
}

const refusedFor: Record<UserRole, string> = {
  authenticated: "requests with a user's token are refused",
  anon: "requests with a publishable key and no user's token are refused",
};

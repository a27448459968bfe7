// Roles that all projects of a server share, by the names that row security policies are commonly written for. They can
// neither log in nor do anything by themselves; what a project grants them holds in its own database alone.
import { type Database, isState } from '../postgres/database.ts';
import { sql } from '../postgres/sql.ts';
import { sqlstate } from '../postgres/sqlstate.ts';
import { EngineError } from './engine-error.ts';

/** Whom an end user acts as. */
export const userRole = 'authenticated';
/** So that policies and grants that name them can be written; nobody acts as these. */
const otherRoles = ['anon', 'service_role'];

export async function ensureSharedRoles(maintenance: Database): Promise<void> {
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
           ], null) || array(select 'a member of ' || roleid::regrole from pg_auth_members where member = pg_roles.oid) as powers,
           pg_has_role(current_user, oid, 'usage with admin option') as grantable,
           current_user as ours
    from pg_roles where rolname = ${userRole}`);
  if (!role || role.powers.length > 0) {
    throw new EngineError(
      `The server has a role "${userRole}" of somebody else's that is ${role?.powers.join(', ')}.`,
      { hint: 'End users of projects would have its powers. Take them away, or use a server of its own.' },
    );
  }
  if (!role.grantable) {
    throw new EngineError(`Our role may not grant "${userRole}", which the server has already.`, {
      hint: `As a superuser: grant ${userRole} to "${role.ours}" with admin option;`,
    });
  }
}

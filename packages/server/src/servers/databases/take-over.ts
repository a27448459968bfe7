// Hands the objects in a copied database over to the roles of the new project. A copy names the roles of its source as
// owners, grantees and in policies; afterwards nothing in it refers to them.
//
// Our role does this in a database that a stranger has filled. It changes owners, privileges and the roles of policies, and
// PostgreSQL evaluates no expression and runs no function of a project for that. Names are resolved in PostgreSQL's own
// schema alone, and those of objects are quoted by PostgreSQL.
//
// DROP OWNED is not used: it also revokes what a role was granted on databases, and so would lock the source's own roles
// out of the source.
import { openDatabase, PostgresError, type Queryable } from '../../postgres/admin/database.ts';
import { sql } from '../../postgres/sql.ts';
import type { Server } from '../server.ts';
import { loginOf } from './login.ts';
import { authRoleOf, databaseOf, roleOf } from './names.ts';
import { closeToAuthRole, openToRoles } from './provision.ts';
import { unpublish } from './publication.ts';

/** `to`: its roles exist, and its database is a copy of `from`'s that accepts no connections yet. */
export async function takeOver(server: Server, from: string, to: string): Promise<void> {
  await openToRoles(server, to);
  const address = { ...server.address, database: databaseOf(to) };
  const database = openDatabase(address, { max: 1, searchPath: 'pg_catalog,pg_temp' });
  const members = [roleOf(from), authRoleOf(from), roleOf(to), authRoleOf(to)];
  const inTransaction = <T>(run: (inside: Queryable) => Promise<T>) =>
    database.transaction(async (inside) => {
      await inherit(server, inside, members, true);
      await inside.query(sql`
        select set_config('rowhouse.source', ${roleOf(from)}, true), set_config('rowhouse.copy', ${roleOf(to)}, true)`);
      const result = await run(inside);
      await inherit(server, inside, members, false);
      return result;
    });
  try {
    // A move of the source that was undone may have left them. Nothing holds a lock in the copy.
    await unpublish(database);
    await inTransaction((inside) => inside.query(sql.script(privilegesAndSchemas)));
    while (await inTransaction(handOverSome));
    await inTransaction(async (inside) => {
      await inside.query(sql.script(handOverRest));
      // As its owner: where our role is not a superuser, it may not grant what it does not own.
      await inside.query(sql`set local role ${sql.id(authRoleOf(to))}`);
      await inside.query(sql`select auth.grant_users(${roleOf(to)})`);
      await inside.query(sql`set local role none`);
    });
  } finally {
    await database.end();
  }
  await copyRoleSettings({ server, id: from }, { server, id: to });
  await closeToAuthRole(server, to);
}

/**
 * Each table is locked until the end of the transaction, with its indexes, and all projects share the table of locks. So
 * many tables are handed over in many transactions. Returns whether there may be more.
 */
async function handOverSome(inside: Queryable): Promise<boolean> {
  const rows = await inside.query<{ statement: string }>(sql`
    select format('alter table %s owner to %I', class.oid::regclass,
                  current_setting('rowhouse.copy') || substr(rolname, length(current_setting('rowhouse.source')) + 1)) as statement
    from pg_class as class join pg_roles on pg_roles.oid = relowner
    where rolname in (current_setting('rowhouse.source'), current_setting('rowhouse.source') || '_auth')
      and (relkind in ('r', 'p', 'v', 'm', 'f') or relkind = 'S' and not exists (
        select from pg_depend where classid = 'pg_class'::regclass and objid = class.oid and deptype in ('a', 'i')))
    limit ${tablesAtOnce}`);
  if (rows.length > 0) await inside.query(sql.script(rows.map(({ statement }) => statement).join(';\n')));
  return rows.length === tablesAtOnce;
}

const tablesAtOnce = 200;

/** REASSIGN OWNED needs the rights of both roles, which a superuser has anyway. */
async function inherit(
  server: Server,
  inside: Queryable,
  roles: readonly string[],
  inherits: boolean,
): Promise<void> {
  if (server.superuser) return;
  const how = inherits ? sql`true` : sql`false`;
  for (const role of roles)
    await inside.query(sql`grant ${sql.id(role)} to current_user with inherit ${how}, set true`);
}

/**
 * Settings of the source's role, for itself (ALTER ROLE … SET) and for itself in its database. In a session of the new role,
 * which can set nothing that a project may not set. It has those of ours already.
 */
export async function copyRoleSettings(
  from: { server: Server; id: string; database?: string },
  to: { server: Server; id: string },
): Promise<void> {
  const rows = await from.server.maintenance.query<{ name: string; value: string; here: boolean }>(sql`
    select split_part(setting, '=', 1) as name, substr(setting, strpos(setting, '=') + 1) as value,
           setdatabase <> 0 as here
    from pg_db_role_setting, unnest(setconfig) as setting
    where setrole = (select oid from pg_roles where rolname = ${roleOf(from.id)})
      and setdatabase in (0, (select oid from pg_database where datname = ${from.database ?? databaseOf(from.id)}))`);
  const present = await to.server.maintenance.query<{ setting: string }>(sql`
    select unnest(setconfig) as setting from pg_db_role_setting
    where setrole = (select oid from pg_roles where rolname = ${roleOf(to.id)}) and setdatabase = 0`);
  const known = new Set(present.map(({ setting }) => setting));
  const wanted = rows.filter(({ name, value }) => !known.has(`${name}=${value}`));
  if (wanted.length === 0) return;
  const database = openDatabase(loginOf(to.server, { id: to.id, passwordVersion: 1 }), { max: 1 });
  try {
    for (const { name, value, here } of wanted) {
      const place = here ? sql`in database ${sql.id(databaseOf(to.id))}` : sql``;
      // A name with a dot has two parts.
      const variable = name
        .split('.')
        .map((part) => sql.id(part))
        .reduce((before, part) => sql`${before}.${part}`);
      const set = async (inside: Queryable) => {
        const alter = sql`alter role ${sql.id(roleOf(to.id))} ${place} set ${variable}`;
        // In effect, a short one would end this session: transaction_timeout, idle_in_transaction_session_timeout.
        if (name.endsWith('_timeout'))
          return void (await inside.query(sql`${alter} = ${sql.literal(value)}`));
        await inside.query(sql`select set_config(${name}, ${value}, true)`);
        // FROM CURRENT takes the value as it is: a list of names needs no quoting again.
        await inside.query(sql`${alter} from current`);
      };
      await database.transaction(set).catch((error) => {
        if (!(error instanceof PostgresError)) throw error;
      });
    }
  } finally {
    await database.end();
  }
}

/**
 * Roles with another suffix than `_auth` are logins of the service, to which a project has no reason to grant anything:
 * what they were granted ends, and a policy for one of them becomes one for the new `_auth`, which reads no table of the
 * project.
 */
const declarations = `
declare
  source constant text := current_setting('rowhouse.source');
  copy constant text := current_setting('rowhouse.copy');
  owner constant oid := (select oid from pg_roles where rolname = source);
  old constant oid[] := array(
    select oid from pg_roles
    where rolname = any (array[source, source || '_auth', source || '_user', source || '_anon', source || '_dump', source || '_move']));
  here constant oid := (select oid from pg_database where datname = current_database());
  entry record;
  item record;
  remains text;
`;

const privilegesAndSchemas = `
do $body$${declarations}
begin
  for entry in
    select polname, polrelid::regclass as relation, (
      select string_agg(distinct case when role = 0 then 'public' when role = owner then quote_ident(copy)
               when role = any (old) then quote_ident(copy || '_auth') else quote_ident(pg_get_userbyid(role)) end, ', ')
      from unnest(polroles) as role) as roles
    from pg_policy where polroles && old
  loop
    execute format('alter policy %I on %s to %s', entry.polname, entry.relation, entry.roles);
  end loop;

  for entry in
    select defaclacl as acl, pg_get_userbyid(defaclrole) as old_role,
           case when defaclrole = owner then copy else copy || '_auth' end as new_role,
           defaclnamespace = 0 as is_general,
           case when defaclnamespace = 0 then '' else format('in schema %I', nspname) end as place,
           case defaclobjtype when 'r' then 'tables' when 'S' then 'sequences' when 'f' then 'routines'
             when 'T' then 'types' when 'n' then 'schemas' else 'large objects' end as kind
    from pg_default_acl left join pg_namespace on pg_namespace.oid = defaclnamespace
    where defaclrole = any (old)
  loop
    -- A general entry replaces PostgreSQL's own defaults. One of a schema adds to them.
    if entry.is_general then
      execute format('alter default privileges for role %I revoke all on %s from public, %I', entry.new_role, entry.kind, entry.new_role);
    end if;
    for item in
      select privilege_type as privilege, is_grantable,
             case when grantee = 0 then 'public' else quote_ident(pg_get_userbyid(grantee)) end as old_grantee,
             case when grantee = 0 then 'public' when grantee = owner then quote_ident(copy)
               when grantee = any (old) then quote_ident(copy || '_auth') else quote_ident(pg_get_userbyid(grantee)) end as new_grantee
      from aclexplode(entry.acl)
    loop
      execute format('alter default privileges for role %I %s grant %s on %s to %s %s', entry.new_role, entry.place,
        item.privilege, entry.kind, item.new_grantee, case when item.is_grantable then 'with grant option' else '' end);
      execute format('alter default privileges for role %I %s revoke %s on %s from %s cascade', entry.old_role, entry.place,
        item.privilege, entry.kind, item.old_grantee);
    end loop;
    -- An entry that equals PostgreSQL's defaults is removed.
    if entry.is_general then
      execute format('alter default privileges for role %I grant all on %s to %I', entry.old_role, entry.kind, entry.old_role);
      if entry.kind in ('routines', 'types') then
        execute format('alter default privileges for role %I grant all on %s to public', entry.old_role, entry.kind);
      end if;
    end if;
  end loop;

  -- Schemas first: only a superuser can give an object to a role that may not create it in its schema.
  for entry in select nspname, nspowner = owner as is_project from pg_namespace where nspowner = any (old) loop
    execute format('alter schema %I owner to %I', entry.nspname, copy || case when entry.is_project then '' else '_auth' end);
  end loop;
end $body$`;

const handOverRest = `
do $body$${declarations}
begin
  for entry in select rolname, oid = owner as is_project from pg_roles where oid = any (old) loop
    if exists (select from pg_shdepend where dbid = here and refclassid = 'pg_authid'::regclass
               and refobjid = entry.rolname::regrole and deptype = 'o') then
      execute format('reassign owned by %I to %I', entry.rolname, copy || case when entry.is_project then '' else '_auth' end);
    end if;
  end loop;

  for entry in
    select distinct found.identity, pg_get_userbyid(refobjid) as grantee,
           case when found.type in ('function', 'procedure', 'aggregate') then 'routine'
             when found.type in ('schema', 'language', 'large object', 'foreign-data wrapper') then found.type
             when found.type = 'server' then 'foreign server'
             when classid = 'pg_type'::regclass then 'type'
             else 'table' end as kind
    from pg_shdepend, pg_identify_object(classid, objid, 0) as found
    where dbid = here and refclassid = 'pg_authid'::regclass and refobjid = any (old) and deptype = 'a'
  loop
    execute format('revoke all on %s %s from %I cascade', entry.kind, entry.identity, entry.grantee);
  end loop;

  select string_agg(pg_describe_object(classid, objid, objsubid), ', ') into remains
  from pg_shdepend where dbid = here and refclassid = 'pg_authid'::regclass and refobjid = any (old);
  if remains is not null then
    raise exception 'still refers to the roles of the source: %', remains;
  end if;
end $body$`;

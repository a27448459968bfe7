// A PostgreSQL server that holds project databases: our connections to it, its template, its guards.
import type { Control } from '../control/control.ts';
import { type Address, type Database, openDatabase, type Queryable } from '../postgres/database.ts';
import { sql } from '../postgres/sql.ts';
import { type Finding, findOpenGuards } from './external.ts';
import { type ProjectSchema, readProjectSchema } from './project-schema.ts';
import { ensureSharedRoles, type UserRole } from './shared-roles.ts';
import { ensureTemplate } from './template.ts';
import { openUserSettings, type UserSettings } from './user-settings.ts';

export type Server = Readonly<{
  id: number;
  address: Address;
  /** The service's control database, which may be on another server. */
  control: Control;
  /** Our own connections to the server's maintenance database. */
  maintenance: Database;
  /** Our own objects in project databases, in this version, and the template that contains them. */
  projectSchema: ProjectSchema;
  template: string;
  version: string;
  /** A superuser can set role settings that a project cannot remove, and need not be a member of the roles it creates. */
  superuser: boolean;
  findings: readonly Finding[];
  /** The settings with which our sessions in project databases start. */
  userSettings: UserSettings;
  /** The roles that requests for acting users can run as on this server. */
  userRoles: readonly UserRole[];
  masterKey: Buffer;
  /** Part of the comment on each of our databases, which distinguishes them from others on a shared server. */
  installation: string;
}>;

type Options = { control: Control; address: Address; name: string; masterKey: Buffer; installation: string };

/** Registers and prepares the server. Several services may do so concurrently: one of them does the work. */
export async function openServer(options: Options): Promise<Server> {
  const { control, address, name } = options;
  const maintenance = openDatabase(address, { max: 8, queryMs: 25_000 });
  const [facts] = await maintenance.query<{ version: string; superuser: boolean }>(sql`
    select current_setting('server_version') as version,
           (select rolsuper from pg_roles where rolname = current_user) as superuser`);
  if (!facts) throw new Error('PostgreSQL does not say what it is.');
  const id = await register(control, name);
  const projectSchema = await readProjectSchema(facts.superuser);
  // The lock is in the maintenance database: other installations may share the server, and advisory locks are per database.
  const { template, shared } = await maintenance.session(async (session) => {
    await session.query(sql`select pg_advisory_lock(hashtext('rowhouse template'))`);
    await revokePublicAccess(maintenance);
    const found = await ensureSharedRoles(maintenance);
    return { template: await ensureTemplate(address, maintenance, projectSchema), shared: found };
  });
  await registerTemplate(control, template, projectSchema);
  return {
    id,
    address,
    control,
    maintenance,
    projectSchema,
    template,
    version: facts.version.split(' ')[0] ?? facts.version,
    superuser: facts.superuser,
    findings: [...(await findOpenGuards(maintenance)), ...shared.findings],
    userSettings: await openUserSettings(maintenance),
    userRoles: shared.usable,
    masterKey: options.masterKey,
    installation: options.installation,
  };
}

async function register(control: Queryable, name: string): Promise<number> {
  await control.query(sql`insert into servers (name) values (${name}) on conflict (name) do nothing`);
  const [row] = await control.query<{ id: number }>(sql`select id from servers where name = ${name}`);
  if (!row) throw new Error('The server was not registered.');
  return row.id;
}

/** Before any database is created from the template: every process can then look up what such a database contains. */
async function registerTemplate(
  control: Queryable,
  name: string,
  projectSchema: ProjectSchema,
): Promise<void> {
  const { migrations, guards, guarded } = projectSchema;
  await control.query(sql`
    insert into templates (name, migrations, guards)
    values (${name}, ${migrations.length}, ${guarded ? guards.length : 0})
    on conflict (name) do nothing`);
}

/** By default every role may connect to postgres and template1. If our role may not change that, external.ts reports it. */
async function revokePublicAccess(maintenance: Database): Promise<void> {
  const databases = await maintenance.query<{ name: string }>(sql`
    select datname as name from pg_database
    where datname in ('postgres', 'template1') and pg_has_role(current_user, datdba, 'member')`);
  for (const { name } of databases) {
    await maintenance.change(sql`revoke all on database ${sql.id(name)} from public`);
  }
}

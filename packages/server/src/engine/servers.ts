// A PostgreSQL server on which project databases live, opened for use: our connections to it, its template, its guards.
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
  /** The service's own tables, which may be on another server. */
  control: Control;
  /** Our own connections to the server's maintenance database. */
  maintenance: Database;
  /** What project databases hold of ours in this version, and the template that has it. */
  projectSchema: ProjectSchema;
  template: string;
  version: string;
  /** Superuser: role settings that a project cannot remove, and no need to be a member of the roles we make. */
  superuser: boolean;
  findings: readonly Finding[];
  /** What our sessions in project databases start with. */
  userSettings: UserSettings;
  /** Whom requests can run as here. */
  userRoles: readonly UserRole[];
  masterKey: Buffer;
  /** Stands in the comment of every database of ours, to tell them from others' on a shared server. */
  installation: string;
}>;

type Options = { control: Control; address: Address; name: string; masterKey: Buffer; installation: string };

/** Registers and prepares the server. Several services may do so at once: one of them does the work. */
export async function openServer(options: Options): Promise<Server> {
  const { control, address, name } = options;
  const maintenance = openDatabase(address, { max: 8, queryMs: 25_000 });
  const [facts] = await maintenance.query<{ version: string; superuser: boolean }>(sql`
    select current_setting('server_version') as version,
           (select rolsuper from pg_roles where rolname = current_user) as superuser`);
  if (!facts) throw new Error('PostgreSQL does not say what it is.');
  const id = await register(control, name);
  const projectSchema = await readProjectSchema(facts.superuser);
  // In the maintenance database: other installations may share the server, and advisory locks are per database.
  const { template, shared } = await maintenance.session(async (session) => {
    await session.query(sql`select pg_advisory_lock(hashtext('rowhouse template'))`);
    await closeDoors(maintenance);
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

/** Before any database is made from it: whoever meets one can tell what is in it. */
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

/** By default every role may connect to postgres and template1. Where we may not change that, it is reported. */
async function closeDoors(maintenance: Database): Promise<void> {
  const doors = await maintenance.query<{ name: string }>(sql`
    select datname as name from pg_database
    where datname in ('postgres', 'template1') and pg_has_role(current_user, datdba, 'member')`);
  for (const { name } of doors) {
    await maintenance.change(sql`revoke all on database ${sql.id(name)} from public`);
  }
}

// A PostgreSQL server that holds project databases: our connections to it, its template, its guards.

import type { Control } from '../control/control.ts';
import { locks, takeLock } from '../control/lock-names.ts';
import { findSetting } from '../control/settings.ts';
import { errors } from '../errors/errors.ts';
import { type Address, type Database, openDatabase, type Queryable } from '../postgres/admin/database.ts';
import { sql } from '../postgres/sql.ts';
import { type Finding, findOpenGuards } from './external.ts';
import { type ProjectSchema, readProjectSchema } from './template/project-schema.ts';
import { restrictPublicAccess } from './template/public-access.ts';
import { ensureSharedRoles, type UserRole } from './template/shared-roles.ts';
import { ensureTemplate } from './template/template.ts';
import { openUserSettings, type UserSettings } from './template/user-settings.ts';

export type Server = Readonly<{
  id: number;
  name: string;
  address: Address;
  /** The service's control database, which may be on another server. */
  control: Control;
  /** It is on this one: the first server of the installation. */
  holdsControl: boolean;
  /** Our own connections to the server's maintenance database. */
  maintenance: Database;
  /** Our own objects in project databases, in this version, and the template that contains them. */
  projectSchema: ProjectSchema;
  template: string;
  version: string;
  /** PostgreSQL's own: two addresses with the same one lead to the same server. */
  systemIdentifier: string;
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

/** The servers of the installation, as far as this process has reached them. */
export type Servers = Readonly<{
  /** The one that holds the control database. */
  first: Server;
  /** The server of a project. Throws 503 if it has not been reached yet. */
  of(serverId: number): Server;
  /** Those that have been reached. */
  all(): readonly Server[];
}>;

/** An installation with one server. */
export function onlyServer(server: Server): Servers {
  return {
    first: server,
    of: (serverId) => {
      if (serverId !== server.id) throw errors.unavailable(`server ${serverId} is not open`);
      return server;
    },
    all: () => [server],
  };
}

type Options = {
  id: number;
  name: string;
  control: Control;
  holdsControl: boolean;
  address: Address;
  masterKey: Buffer;
  installation: string;
  /** PostgreSQL's own, as it is known. null: not known. */
  systemIdentifier?: string | null;
};

/** Prepares the server. Several services may do so concurrently: one of them does the work. */
export async function openServer(options: Options): Promise<Server> {
  const maintenance = openDatabase(options.address, { max: 8, queryMs: 25_000 });
  try {
    return await prepare(options, maintenance);
  } catch (error) {
    await maintenance.end();
    throw error;
  }
}

async function prepare(options: Options, maintenance: Database): Promise<Server> {
  const { id, name, control, address } = options;
  const facts = await readFacts(maintenance);
  // Before anything is created there.
  if (options.systemIdentifier && options.systemIdentifier !== facts.systemIdentifier)
    throw new Error('another PostgreSQL server answers at this address');
  const projectSchema = await readProjectSchema(facts.superuser);
  const { template, shared } = await maintenance.session(async (session) => {
    await takeLock(session, locks.template);
    await restrictPublicAccess(maintenance);
    const found = await ensureSharedRoles(maintenance);
    return { template: await ensureTemplate(address, maintenance, projectSchema), shared: found };
  });
  await registerTemplate(control, template, projectSchema);
  return {
    id,
    name,
    address,
    control,
    holdsControl: options.holdsControl,
    maintenance,
    projectSchema,
    template,
    version: facts.version.split(' ')[0] ?? facts.version,
    systemIdentifier: facts.systemIdentifier,
    superuser: facts.superuser,
    findings: [...(await findOpenGuards(maintenance, address)), ...shared.findings],
    userSettings: await openUserSettings(maintenance),
    userRoles: shared.usable,
    masterKey: options.masterKey,
    installation: options.installation,
  };
}

type Facts = { version: string; superuser: boolean; systemIdentifier: string };

export async function readFacts(database: Queryable): Promise<Facts> {
  const [facts] = await database.query<Facts>(sql`
    select current_setting('server_version') as version,
           (select rolsuper from pg_roles where rolname = current_user) as superuser,
           (select system_identifier::text from pg_control_system()) as "systemIdentifier"`);
  if (!facts) throw new Error('PostgreSQL does not say what it is.');
  return facts;
}

/**
 * The row of the first server, whose address is a setting of the service. `name`: the usual one. A server that has adopted the
 * installation keeps the name that it had before.
 */
export async function registerFirst(
  control: Queryable,
  name: string,
): Promise<Readonly<{ id: number; name: string }>> {
  const known = (await findSetting(control, 'first_server')) ?? name;
  await control.query(sql`insert into servers (name) values (${known}) on conflict (name) do nothing`);
  const row = await findFirst(control, name);
  if (!row) throw new Error('The server was not registered.');
  return row;
}

export async function findFirst(
  control: Queryable,
  name: string,
): Promise<Readonly<{ id: number; name: string }> | null> {
  const [row] = await control.query<{ id: number; name: string }>(sql`
    select id, name from servers
    where name = coalesce((select value from settings where name = 'first_server'), ${name})`);
  return row ?? null;
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

// Replaces the master key of an installation whose services are stopped. Further servers get the new passwords of their roles
// first; then one transaction on the first server changes its roles, everything that is sealed, and the check value of the key.
// Every step before that transaction can be repeated, and after it only files remain to be changed.
import type { Control } from '../../control/control.ts';
import { findSetting, putSetting } from '../../control/settings.ts';
import { type Address, openDatabase, type Queryable } from '../../postgres/admin/database.ts';
import { sql } from '../../postgres/sql.ts';
import { scramVerifier } from '../../postgres/wire/scram.ts';
import { masterKeyCheck } from '../../servers/embedded/master-key.ts';
import { superuser } from '../../servers/embedded/postmaster.ts';
import { EngineError } from '../../servers/engine-error.ts';
import { parseDatabaseUrl } from '../../servers/external.ts';
import { derivePassword } from '../../servers/role-passwords.ts';
import { openAddress, readServers, type ServerRow } from '../../servers/rows.ts';
import { sealAgain } from './sealed.ts';

type Request = {
  /** The address of the first server, with the key that fits now. */
  address: Address;
  controlDatabase: string;
  isEmbedded: boolean;
  from: Buffer;
  /** Called when nothing stands against it any more. From then on, only the whole rotation helps. Returns the new key. */
  begin(): Buffer;
};
export type Rotated = { projects: number; servers: number };

const slowMs = 120_000;
const [statementTimeout, lockTimeout] = [
  sql`set local statement_timeout = '120s'`,
  sql`set local lock_timeout = '10s'`,
];

export async function rotate({
  address,
  controlDatabase,
  isEmbedded,
  from,
  begin,
}: Request): Promise<Rotated> {
  const control = openDatabase(
    { ...address, database: controlDatabase },
    { max: 2, queryMs: slowMs, changeMs: slowMs },
  );
  try {
    await refuseOthers(control);
    const installation = (await findSetting(control, 'installation')) ?? '';
    const versions = await readVersions(control);
    const further = (await readServers(control)).filter((row) => row.address !== null);
    await refuseUnsettled(control, further);
    const servers = further.map((row) => openServerAt(from, row));
    let to: Buffer;
    try {
      // Before anything is changed: all of them answer.
      for (const { row, database } of servers) await ask(row, database);
      to = begin();
      for (const { database } of servers)
        await database.transaction((transaction) => changeRoles(transaction, installation, versions, to));
    } finally {
      for (const { database } of servers) await database.end();
    }
    await control.transaction(async (transaction) => {
      await changeRoles(transaction, installation, versions, to);
      if (isEmbedded) await setPassword(transaction, superuser, derivePassword(to, superuser));
      await sealAgain(transaction, from, to);
      await putSetting(transaction, 'master_key_check', masterKeyCheck(to));
    });
    return { projects: versions.size, servers: servers.length + 1 };
  } finally {
    await control.end();
  }
}

function openServerAt(from: Buffer, row: ServerRow) {
  const address = parseDatabaseUrl(openAddress(from, row) ?? '');
  return { row, database: openDatabase(address, { max: 1, queryMs: slowMs, changeMs: slowMs }) };
}

async function ask({ name, systemIdentifier }: ServerRow, database: Queryable): Promise<void> {
  const [found] = await database
    .query<{ id: string }>(sql`select system_identifier::text as id from pg_control_system()`)
    .catch(() => [null]);
  if (found && (systemIdentifier === null || found.id === systemIdentifier)) return;
  throw new EngineError(
    `The server "${name}" ${found ? 'is not the same server as before' : 'does not answer'}.`,
    {
      hint: 'Every server gets new passwords. Start it, or remove it from the installation first.',
    },
  );
}

/** Another API machine would go on with the old key. */
async function refuseOthers(control: Control): Promise<void> {
  const [others] = await control.query<{ count: number }>(sql`
    select count(*)::int as count from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'
      and application_name like 'rowhouse%'
      -- Our own pool.
      and backend_start < (select backend_start from pg_stat_activity where pid = pg_backend_pid())`);
  if (!others || others.count === 0) return;
  throw new EngineError('A service uses this installation.', {
    hint: 'Stop all processes of the service, on every machine, and run the command again.',
  });
}

async function refuseUnsettled(control: Control, further: readonly ServerRow[]): Promise<void> {
  const [{ count } = { count: 0 }] = await control.query<{ count: number }>(
    sql`select count(*)::int as count from moves`,
  );
  if (count > 0) {
    throw new EngineError('A project is being moved to another server.', {
      hint: 'Start the service, wait until the move has ended (rowhouse jobs list), stop it and run the command again.',
    });
  }
  const detached = further.filter(({ state }) => state === 'detached').map(({ name }) => name);
  if (detached.length > 0) {
    throw new EngineError(`Servers are detached: ${detached.join(', ')}.`, {
      hint: 'Attach them or remove them first: rowhouse servers attach <name>, rowhouse servers remove <name>.',
    });
  }
}

/** By project. Spares have version 1. */
async function readVersions(control: Control): Promise<Map<string, number>> {
  const rows = await control.query<{ id: string; version: number }>(
    sql`select id, password_version as version from projects`,
  );
  return new Map(rows.map(({ id, version }) => [id, version]));
}

/**
 * Changes the roles of projects, deleted ones included, and of spares. The role of a move has a password of its own and
 * expires.
 */
async function changeRoles(
  transaction: Queryable,
  installation: string,
  versions: ReadonlyMap<string, number>,
  to: Buffer,
): Promise<void> {
  await transaction.query(statementTimeout);
  await transaction.query(lockTimeout);
  const roles = await transaction.query<{ name: string }>(sql`
    select rolname as name from pg_roles
    where rolname like 'p\\_%' and shobj_description(oid, 'pg_authid') = ${`rowhouse ${installation}`}`);
  for (const { name } of roles) {
    const [, id = '', kind] = /^p_([a-z0-9]+)(?:_(auth|user|anon|dump))?$/.exec(name) ?? [];
    if (id === '') continue;
    const version = kind === undefined ? (versions.get(id) ?? 1) : 1;
    await setPassword(transaction, name, derivePassword(to, name, version));
  }
}

async function setPassword(transaction: Queryable, role: string, password: string): Promise<void> {
  await transaction.query(sql`alter role ${sql.id(role)} password ${sql.literal(scramVerifier(password))}`);
}

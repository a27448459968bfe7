// `rowhouse doctor`: the projects of the first server, and that server if it is not embedded.

import { openControl } from '../control/control.ts';
import { type Check, ok, warning } from '../lib/check.ts';
import { type Address, openDatabase } from '../postgres/admin/database.ts';
import { sql } from '../postgres/sql.ts';
import { findOutdated } from '../projects/upgrade.ts';
import { embeddedAddress } from '../servers/embedded/embedded.ts';
import { inspectInstallation } from '../servers/embedded/master-key-fit.ts';
import { inspectPidFile } from '../servers/embedded/server-processes.ts';
import { checkExternal, findOpenGuards, parseDatabaseUrl } from '../servers/external.ts';
import { hostNames } from '../servers/rows.ts';
import { findFirst } from '../servers/server.ts';
import { readProjectSchema } from '../servers/template/project-schema.ts';
import { templateOf } from '../servers/template/template.ts';
import type { Config } from '../settings/config.ts';
import { checkServerFixes } from './doctor-security-fixes.ts';

type Installation = { config: Config; cluster: string };

/** Only if PostgreSQL is running already: it is not started for this. */
export async function checkProjects({ config, cluster }: Installation): Promise<Check> {
  const key = await inspectInstallation(config);
  if (key.state === 'refused') return ok('projects', 'not checked: the master key cannot be used');
  if (key.state === 'none' || inspectPidFile(cluster)?.kind !== 'ours') {
    return ok('projects', 'not checked: PostgreSQL is not running');
  }
  return examineProjects(embeddedAddress(config.dataFolder, key.key), config, 'embedded');
}

/** Checks whether the project databases have the schema of this version. */
async function examineProjects(address: Address, config: Config, serverName: string): Promise<Check> {
  const maintenance = openDatabase(address, { max: 1 });
  const control = openControl(address, config.controlDatabase);
  try {
    const [facts] = await maintenance.query<{ superuser: boolean; made: boolean }>(sql`
      select (select rolsuper from pg_roles where rolname = current_user) as superuser,
             exists (select from pg_database where datname = ${config.controlDatabase}) as made`);
    if (!facts?.made) return ok('projects', 'none yet');
    const [known] = await control.query(sql`select 1 where to_regclass('templates') is not null`);
    if (!known) return ok('projects', 'from an earlier version; the next start upgrades them');
    const server = await findFirst(control, serverName);
    if (!server) return ok('projects', 'none yet');
    const projectSchema = await readProjectSchema(facts.superuser);
    const found = await findOutdated(control, {
      ...server,
      projectSchema,
      template: templateOf(projectSchema),
    });
    return describeVersions(found.outdated.length, found.newer.length);
  } finally {
    await maintenance.end();
    await control.end();
  }
}

function describeVersions(outdated: number, newer: number): Check {
  if (newer > 0) {
    return warning(
      'projects',
      `${newer} were used by a newer Rowhouse and are left unchanged`,
      'Start that version or a later one.',
    );
  }
  if (outdated > 0) {
    return warning(
      'projects',
      `${outdated} are from an earlier version`,
      'A running service upgrades them. If the number does not fall, see its log for the reason.',
    );
  }
  return ok('projects', 'up to date with this version');
}

export async function checkServer({ config }: Pick<Installation, 'config'>): Promise<Check[]> {
  const address = parseDatabaseUrl(config.databaseUrl ?? '');
  await checkExternal(address);
  const database = openDatabase(address, { max: 1 });
  try {
    const findings = await findOpenGuards(database, address);
    return [
      ok('PostgreSQL', `${hostNames(address).join(', ')} is usable`),
      await checkServerFixes('security fixes', database),
      ...findings.map(({ missing, risk, remedy }) =>
        warning('guard', `missing: ${missing}; ${risk}`, remedy),
      ),
      await examineProjects(address, config, 'external'),
    ];
  } finally {
    await database.end();
  }
}

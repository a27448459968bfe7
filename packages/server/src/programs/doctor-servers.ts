// `rowhouse doctor`: the further servers of the installation. Apart from doctor.ts, because these checks need the control
// database and the master key, which opens the stored addresses.

import { examineServerBackups } from '../backups/check/examine.ts';
import { openControl } from '../control/control.ts';
import { peekSetting } from '../control/settings.ts';
import type { Check } from '../lib/check.ts';
import { type Address, openDatabase } from '../postgres/admin/database.ts';
import { sql } from '../postgres/sql.ts';
import { clusterFolderOf, embeddedAddress } from '../servers/embedded/embedded.ts';
import { inspectInstallation } from '../servers/embedded/master-key-fit.ts';
import { inspectPidFile } from '../servers/embedded/server-processes.ts';
import { checkExternal, findOpenGuards, parseDatabaseUrl } from '../servers/external.ts';
import { openAddress, readServers, type ServerRow } from '../servers/rows.ts';
import type { Config } from '../settings/config.ts';
import { type Mark, placeOf, readMark } from './adoption/mark.ts';
import { checkServerFixes } from './doctor-security-fixes.ts';

/** Empty if the first server is the only one, or is not running: it is not started for this. */
export async function examineServers(config: Config): Promise<Check[]> {
  const mark = config.databaseUrl ? null : readMark(config.dataFolder);
  if (mark) return [adoptedBy(mark)];
  const inspection = await inspectInstallation(config);
  const address = 'key' in inspection ? firstAddress(config, inspection.key) : null;
  if (!('key' in inspection) || !address) return [];
  const rows = await readFurther(address, config.controlDatabase);
  const installation = await peekSetting(address, config.controlDatabase, 'installation');
  const checks = await Promise.all(
    rows.map((row) => examineServer({ config, installation }, row, inspection.key)),
  );
  return checks.flat();
}

function adoptedBy(mark: Mark): Check {
  return {
    check: 'servers',
    state: 'warning',
    found: `the installation of this data folder is on ${placeOf(mark)}`,
    todo: `Start the service with ROWHOUSE_DATABASE_URL. To come back: rowhouse servers adopt ${mark.server} --undo.`,
  };
}

function firstAddress({ databaseUrl, dataFolder }: Config, masterKey: Buffer): Address | null {
  if (databaseUrl) return parseDatabaseUrl(databaseUrl);
  if (inspectPidFile(clusterFolderOf(dataFolder))?.kind !== 'ours') return null;
  return embeddedAddress(dataFolder, masterKey);
}

async function readFurther(address: Address, controlDatabase: string): Promise<ServerRow[]> {
  const maintenance = openDatabase(address, { max: 1 });
  const control = openControl(address, controlDatabase);
  try {
    const [made] = await maintenance.query(
      sql`select 1 from pg_database where datname = ${controlDatabase} and datallowconn`,
    );
    if (!made) return [];
    // A control database of an earlier version, which the next start upgrades, has one server.
    const [known] = await control.query(sql`
      select 1 from pg_attribute where attrelid = to_regclass('servers') and attname = 'address' and not attisdropped`);
    if (!known) return [];
    return (await readServers(control)).filter((row) => row.address !== null);
  } finally {
    await maintenance.end();
    await control.end();
  }
}

async function examineServer(
  { config, installation }: { config: Config; installation: string | null },
  row: ServerRow,
  masterKey: Buffer,
): Promise<Check[]> {
  const check = `server ${row.name}`;
  if (row.state === 'detached')
    return [
      {
        check,
        state: 'warning',
        found: `${row.hosts.join(', ')} is detached since a restore`,
        todo: `Its projects answer 503. If no other service uses it: rowhouse servers attach ${row.name}.`,
      },
    ];
  try {
    const address = parseDatabaseUrl(openAddress(masterKey, row) ?? '');
    await checkExternal(address);
    const found = `${row.hosts.join(', ')} is usable, ${row.projects} projects${row.state === 'active' ? '' : ', draining'}`;
    const backups = await examineServerBackups(config, address, installation);
    return [
      { check, state: 'ok', found },
      ...(await shortcomingsOf(check, address)),
      ...backups.map((finding) => ({ check, ...finding })),
    ];
  } catch (error) {
    const { message } = error as Error;
    const cause = (error as { cause?: { message?: string; code?: string } }).cause;
    const reason = cause?.message || cause?.code || message;
    const todo =
      'Its projects answer 503 until it can be reached. Start it, or check the network. If it is lost, restore its projects from the backups into new ones: rowhouse projects restore <slug> --to <time>.';
    return [{ check, state: 'problem', found: `${row.hosts.join(', ')} cannot be used: ${reason}`, todo }];
  }
}

async function shortcomingsOf(check: string, address: Address): Promise<Check[]> {
  const database = openDatabase(address, { max: 1 });
  try {
    const fixes = await checkServerFixes(check, database);
    const findings = await findOpenGuards(database, address);
    const guards = findings.map(({ missing, risk, remedy }) => {
      return { check, state: 'warning' as const, found: `missing: ${missing}; ${risk}`, todo: remedy };
    });
    return fixes.state === 'ok' ? guards : [fixes, ...guards];
  } finally {
    await database.end();
  }
}

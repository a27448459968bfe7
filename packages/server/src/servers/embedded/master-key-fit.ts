// Whether a master key belongs to the data. A key that does not belong opens nothing, and a new key in place of a lost one
// only hides the loss: so existing data is never given a new key, and a wrong one is refused before anything is changed.
import { randomBytes } from 'node:crypto';
import { existsSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { Control } from '../../control/control.ts';
import { keepSetting, peekSetting } from '../../control/settings.ts';
import { RowhouseError } from '../../errors/errors.ts';
import type { Address } from '../../postgres/admin/database.ts';
import type { Config } from '../../settings/config.ts';
import { EngineError } from '../engine-error.ts';
import { parseDatabaseUrl } from '../external.ts';
import { clusterFolderOf, embeddedAddress, holdsData } from './embedded.ts';
import { makeMasterKey, masterKeyCheck, masterKeyFile, readKeyFile } from './master-key.ts';
import { findInterruptedRotation } from './next-key.ts';
import { inspectPidFile } from './server-processes.ts';
import { readSmallBytes, readSmallFile } from './small-files.ts';

type Given = Pick<Config, 'dataFolder' | 'masterKey' | 'databaseUrl' | 'controlDatabase'>;

/** `data`: where the data is that needs the key, null if there is none yet. `check`: of its key, null if not known. */
export type Evidence = Readonly<{ data: string | null; check: string | null }>;

/** `new`: no data needs the key yet. `unproven`: nothing to compare it with. */
export type Inspection =
  | { state: 'fits' | 'new' | 'unproven'; key: Buffer; source: string }
  | { state: 'none' }
  | { state: 'refused'; error: EngineError };

/** For the first process of a service. Makes a key only where no data needs another one. */
export async function openMasterKey(given: Given): Promise<Buffer> {
  const interrupted = findInterruptedRotation(given.dataFolder);
  if (interrupted) throw interrupted;
  const inspection = inspectMasterKey(given, await findEvidence(given));
  if (inspection.state === 'refused') throw inspection.error;
  return inspection.state === 'none' ? makeMasterKey(given.dataFolder) : inspection.key;
}

/** The start has compared the key already; of two that start at once on a new server, this refuses the second key. */
export async function checkMasterKey(control: Control, masterKey: Buffer): Promise<void> {
  const check = masterKeyCheck(masterKey);
  if ((await keepSetting(control, 'master_key_check', check)) !== check) {
    throw new EngineError('The master key is not the one with which these projects were created.', {
      hint: 'Set ROWHOUSE_MASTER_KEY to the right key, or restore it: rowhouse master-key import <file>.',
    });
  }
}

/** For a process beside the first one, which has a key or there is no service. */
export function requireMasterKey(given: Given): Buffer {
  const inspection = inspectMasterKey(given, { data: given.dataFolder, check: null });
  if (inspection.state === 'refused') throw inspection.error;
  if (inspection.state === 'none') throw lost(given, given.dataFolder);
  return inspection.key;
}

/** All that can be told without starting PostgreSQL. Changes nothing. */
export async function inspectInstallation(given: Given): Promise<Inspection> {
  const interrupted = findInterruptedRotation(given.dataFolder);
  if (interrupted) return { state: 'refused', error: interrupted };
  const evidence = await findEvidence(given).catch((error) => {
    // A server that cannot be reached says nothing about the key.
    if (error instanceof RowhouseError) return null;
    throw error;
  });
  const inspection = inspectMasterKey(given, evidence ?? { data: null, check: null });
  if (inspection.state === 'new' && !evidence) return { ...inspection, state: 'unproven' };
  if (!evidence || inspection.state !== 'unproven' || given.databaseUrl) return inspection;
  if (inspectPidFile(clusterFolderOf(given.dataFolder))?.kind !== 'ours') return inspection;
  const address = embeddedAddress(given.dataFolder, inspection.key);
  const fits = await opensEmbedded(address, given.controlDatabase, inspection.key);
  if (fits) return { ...inspection, state: 'fits' };
  return { state: 'refused', error: misfit(given, inspection.source, evidence) };
}

/** Once the embedded PostgreSQL runs, before anything in it is changed. */
export async function proveMasterKey(given: Given, address: Address, key: Buffer): Promise<void> {
  if (await opensEmbedded(address, given.controlDatabase, key)) return;
  const source = given.masterKey ? environmentName : masterKeyFile(given.dataFolder);
  throw misfit(given, source, { data: clusterFolderOf(given.dataFolder), check: null });
}

/** The login is a proof: the superuser's password follows from the key. The control database has a check of its own. */
export async function opensEmbedded(
  address: Address,
  controlDatabase: string,
  key: Buffer,
): Promise<boolean> {
  try {
    const check = await peekSetting(address, controlDatabase, 'master_key_check');
    return check === null || check === masterKeyCheck(key);
  } catch (error) {
    const cause = error instanceof RowhouseError ? (error.cause as { code?: string; severity?: string }) : {};
    if (cause?.code === '28P01' && cause.severity === 'FATAL') return false;
    throw error;
  }
}

/** What is known about the key before it is used. */
export async function findEvidence({ dataFolder, databaseUrl, controlDatabase }: Given): Promise<Evidence> {
  if (!databaseUrl) {
    const cluster = clusterFolderOf(dataFolder);
    return holdsData(cluster)
      ? { data: cluster, check: findRecorded(dataFolder) }
      : { data: null, check: null };
  }
  const address = parseDatabaseUrl(databaseUrl);
  const check = await peekSetting(address, controlDatabase, 'master_key_check');
  const data = `the database "${controlDatabase}" on ${address.host}:${address.port}`;
  return { data: check === null ? null : data, check };
}

/**
 * Kept beside the cluster, because the copy in the control database can be read only with the key. It names the cluster it
 * is about by PostgreSQL's system identifier: if another cluster is put in its place, it counts no more.
 */
export function recordMasterKey(dataFolder: string, key: Buffer): void {
  const cluster = identify(clusterFolderOf(dataFolder));
  if (cluster === null || findRecorded(dataFolder) === masterKeyCheck(key)) return;
  const file = recordFile(dataFolder);
  const draft = `${file}.${randomBytes(6).toString('hex')}`;
  try {
    writeFileSync(draft, `${cluster} ${masterKeyCheck(key)}\n`, { mode: 0o600, flag: 'wx', flush: true });
    renameSync(draft, file);
  } finally {
    rmSync(draft, { force: true });
  }
}

export function misfit(given: Given, source: string, { data }: Evidence): EngineError {
  const file = masterKeyFile(given.dataFolder);
  const unset = existsSync(file) ? `, or unset it to use ${file}` : '';
  return new EngineError(
    `The master key does not belong to this data: ${source} is not the key with which ${data} was created.`,
    {
      hint:
        source === environmentName ? `Set ${environmentName} to the right key${unset}.` : howToRestore(given),
    },
  );
}

export const environmentName = 'ROWHOUSE_MASTER_KEY';

function inspectMasterKey(given: Given, evidence: Evidence): Inspection {
  const file = masterKeyFile(given.dataFolder);
  const found = given.masterKey ? { kind: 'key' as const, key: given.masterKey } : readKeyFile(file);
  if (found.kind === 'missing') {
    return evidence.data === null
      ? { state: 'none' }
      : { state: 'refused', error: lost(given, evidence.data) };
  }
  if (found.kind === 'unusable') {
    const hint = found.remedy ?? (evidence.data === null ? howToRenew(file) : howToRestore(given));
    const error = new EngineError(`The master key cannot be used: ${found.problem}.`, { hint });
    return { state: 'refused', error };
  }
  const source = given.masterKey ? environmentName : file;
  if (evidence.data === null) return { state: 'new', key: found.key, source };
  if (evidence.check === null) return { state: 'unproven', key: found.key, source };
  return evidence.check === masterKeyCheck(found.key)
    ? { state: 'fits', key: found.key, source }
    : { state: 'refused', error: misfit(given, source, evidence) };
}

function lost(given: Given, data: string): EngineError {
  const file = masterKeyFile(given.dataFolder);
  return new EngineError(`The master key is missing: ${data} contains data, but ${file} does not exist.`, {
    hint: `${howToRestore(given)} If the service got the key from ${environmentName}, set it again.`,
  });
}

function howToRestore({ dataFolder, databaseUrl }: Given): string {
  const command = `rowhouse master-key import <file> --data ${dataFolder}`;
  const elsewhere = databaseUrl
    ? 'another control database with ROWHOUSE_CONTROL_DATABASE'
    : 'an empty data folder with ROWHOUSE_DATA';
  return `Restore the key from your backup: ${command}. To begin a new installation instead, choose ${elsewhere}.`;
}

function howToRenew(file: string): string {
  return `No data needs this key yet. Remove ${file}; the next start generates a key.`;
}

function findRecorded(dataFolder: string): string | null {
  const [cluster, check] = readSmallFile(recordFile(dataFolder)).trim().split(' ');
  const isWhole = check !== undefined && /^[0-9a-f]{64}$/.test(check);
  return isWhole && cluster === identify(clusterFolderOf(dataFolder)) ? check : null;
}

function recordFile(dataFolder: string): string {
  return `${masterKeyFile(dataFolder)}.check`;
}

/** PostgreSQL's system identifier: initdb chooses it, and it stays. The first eight bytes of pg_control. */
function identify(cluster: string): string | null {
  const bytes = readSmallBytes(path.join(cluster, 'global', 'pg_control'));
  return bytes.length < 8 ? null : bytes.readBigUInt64LE().toString();
}

// The mark in a data folder whose installation has gone to a server of the operator's (rowhouse servers adopt). The folder
// stays as it was, so without the mark a start by mistake would be a second installation on the same projects.
import { randomBytes } from 'node:crypto';
import { lstatSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { sealBytes, unsealBytes } from '../../control/seal.ts';
import { peekSetting } from '../../control/settings.ts';
import { flushFolder } from '../../servers/embedded/master-key.ts';
import { readSmallFile } from '../../servers/embedded/small-files.ts';
import { EngineError } from '../../servers/engine-error.ts';
import { parseDatabaseUrl } from '../../servers/external.ts';

export type Mark = Readonly<{
  /** `adopting`: the server decides. The adoption has taken place if it has the control database. */
  state: 'adopting' | 'adopted';
  server: string;
  hosts: readonly string[];
  controlDatabase: string;
  installation: string;
  /** The address with its password, under the master key. */
  address: string;
  at: string;
}>;

const fileOf = (dataFolder: string) => path.join(dataFolder, 'adopted.json');

/** A mark that cannot be read is not taken for a missing one. */
export function readMark(dataFolder: string): Mark | null {
  const file = fileOf(dataFolder);
  if (!lstatSync(file, { throwIfNoEntry: false })) return null;
  try {
    return JSON.parse(readSmallFile(file)) as Mark;
  } catch {
    throw new EngineError(`${file} cannot be read. It says where the installation of this folder is now.`, {
      hint: 'Restore the file. If you know that the installation was not adopted by another server, remove it.',
    });
  }
}

export function writeMark(dataFolder: string, mark: Mark): void {
  const file = fileOf(dataFolder);
  const draft = `${file}.${randomBytes(6).toString('hex')}`;
  try {
    writeFileSync(draft, `${JSON.stringify(mark, null, 2)}\n`, { mode: 0o600, flag: 'wx', flush: true });
    renameSync(draft, file);
  } finally {
    rmSync(draft, { force: true });
  }
  flushFolder(dataFolder);
}

export function removeMark(dataFolder: string): void {
  rmSync(fileOf(dataFolder), { force: true });
  flushFolder(dataFolder);
}

export function sealMarkAddress(masterKey: Buffer, server: string, url: string): string {
  return sealBytes(masterKey, 'server addresses', Buffer.from(url), server).toString('base64');
}

export function openMarkAddress(masterKey: Buffer, { server, address }: Mark): string {
  return unsealBytes(masterKey, 'server addresses', Buffer.from(address, 'base64'), server).toString('utf8');
}

/** Whether the server has the control database of this installation. */
export async function isThere(masterKey: Buffer, mark: Mark): Promise<boolean> {
  const address = parseDatabaseUrl(openMarkAddress(masterKey, mark));
  return (await peekSetting(address, mark.controlDatabase, 'installation')) === mark.installation;
}

/** For a start on the folder itself. An adoption that a crash interrupted has taken place or not; the server knows. */
export async function refuseAdopted(dataFolder: string, masterKey: Buffer): Promise<void> {
  const mark = readMark(dataFolder);
  if (!mark) return;
  if (mark.state === 'adopting') {
    const isAdopted = await isThere(masterKey, mark).catch((error) => {
      throw new EngineError(
        `The adoption by ${placeOf(mark)} was interrupted, and the server cannot be asked whether it has taken place.`,
        { lines: [reasonOf(error)], hint: 'Start the server, then start again.' },
      );
    });
    if (!isAdopted) return removeMark(dataFolder);
    writeMark(dataFolder, { ...mark, state: 'adopted' });
  }
  throw new EngineError(`This installation is on ${placeOf(mark)} now, no longer in ${dataFolder}.`, {
    hint: `Set ROWHOUSE_DATABASE_URL to its address (it is in ${environmentFile(dataFolder)}). To come back to this folder: rowhouse servers adopt ${mark.server} --undo.`,
  });
}

/** The settings with which the service starts on the server: they contain secrets. */
export function environmentFile(dataFolder: string): string {
  return path.join(dataFolder, 'adopted.env');
}

export function placeOf({ server, hosts }: Pick<Mark, 'server' | 'hosts'>): string {
  return `the server "${server}" (${hosts.join(', ')})`;
}

function reasonOf(error: unknown): string {
  const cause = (error as { cause?: { message?: string; code?: string } }).cause;
  return cause?.message || cause?.code || String(error);
}

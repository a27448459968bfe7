// Exports the master key, replaces it, or puts it back once it is proven to belong to the data. A program of its own, behind
// `rowhouse master-key`: the key comes on stdin and goes to stdout, so that no list of processes shows it.

import { RowhouseError } from '../errors/errors.ts';
import type { Address } from '../postgres/admin/database.ts';
import { lockDataFolder, openDataFolder } from '../servers/embedded/data-folder.ts';
import {
  clusterFolderOf,
  type Embedded,
  embeddedAddress,
  makeRoomToStart,
  startEmbedded,
} from '../servers/embedded/embedded.ts';
import { connectionsByMemory, machineMemoryMb } from '../servers/embedded/embedded-settings.ts';
import {
  masterKeyCheck,
  masterKeyFile,
  parseMasterKey,
  readKeyFile,
  replaceMasterKey,
} from '../servers/embedded/master-key.ts';
import {
  environmentName,
  findEvidence,
  inspectInstallation,
  opensEmbedded,
  proveMasterKey,
  recordMasterKey,
} from '../servers/embedded/master-key-fit.ts';
import { findNextKey, openNextKey, removeNextKey } from '../servers/embedded/next-key.ts';
import { inspectPidFile } from '../servers/embedded/server-processes.ts';
import { EngineError } from '../servers/engine-error.ts';
import { parseDatabaseUrl } from '../servers/external.ts';
import { backupLocation, type Config, ConfigError, readConfig } from '../settings/config.ts';
import { refuseAdopted } from './adoption/mark.ts';
import { untilInterrupted } from './answer-lines.ts';
import { type Rotated, rotate } from './rotation/rotate.ts';
import { setAsideBackups } from './rotation/set-aside.ts';

type Answer = { ok: true } & Record<string, unknown>;

/** What is longer is not a key. */
const maxInput = 4096;

async function exportKey(config: Config): Promise<Answer> {
  const found = await inspectInstallation(config);
  if (found.state === 'refused') throw found.error;
  if (found.state === 'none') {
    throw new EngineError(`There is no master key: ${config.dataFolder} contains no data.`, {
      hint: 'Start the service once, or name its data folder with --data.',
    });
  }
  const { key, source, state } = found;
  return { ok: true, master_key: key.toString('hex'), source, compared: state !== 'unproven' };
}

async function importKey(config: Config): Promise<Answer> {
  const key = parseMasterKey(await readInput());
  if (!key) {
    throw new EngineError('The input is not a master key. A key has 64 hex digits.', {
      hint: 'Use the file that "rowhouse master-key export" wrote, or a copy of master.key.',
    });
  }
  const { data, check } = await findEvidence(config);
  if (data === null) {
    const where = config.databaseUrl ? `The database "${config.controlDatabase}"` : config.dataFolder;
    throw new EngineError(`${where} contains no data, so the key cannot be compared with anything.`, {
      hint: `Name the right data folder with --data, or restore the data first. To begin a new installation with this key, set ${environmentName}.`,
    });
  }
  const fits = check === null ? await opens(config, key) : check === masterKeyCheck(key);
  if (!fits) {
    throw new EngineError(`This is not the key with which ${data} was created. Nothing was changed.`, {
      hint: 'Look for another copy of the key, or name the data folder it belongs to with --data.',
    });
  }
  return putKey(config, key);
}

function putKey(config: Config, key: Buffer): Answer {
  const file = masterKeyFile(config.dataFolder);
  const present = readKeyFile(file);
  const isThere = present.kind === 'key' && present.key.equals(key);
  openDataFolder(config.dataFolder);
  const { keptAs } = isThere ? { keptAs: null } : replaceMasterKey(config.dataFolder, key);
  if (!config.databaseUrl) recordMasterKey(config.dataFolder, key);
  const overridden = config.masterKey !== null && !config.masterKey.equals(key);
  return { ok: true, file, changed: !isThere, kept_as: keptAs, overridden };
}

/** Data that has no check value recorded: PostgreSQL is asked, and started for it if it does not run. */
async function opens(config: Config, key: Buffer): Promise<boolean> {
  const { dataFolder, controlDatabase } = config;
  if (inspectPidFile(clusterFolderOf(dataFolder))?.kind === 'ours') {
    return opensEmbedded(embeddedAddress(dataFolder, key), controlDatabase, key);
  }
  openDataFolder(dataFolder);
  const lock = lockDataFolder(dataFolder, 'rowhouse master-key import');
  try {
    return await withEmbedded(dataFolder, key, ({ address }) => opensEmbedded(address, controlDatabase, key));
  } finally {
    lock.release();
  }
}

async function withEmbedded<T>(
  dataFolder: string,
  masterKey: Buffer,
  act: (embedded: Embedded) => Promise<T>,
): Promise<T> {
  makeRoomToStart(dataFolder);
  const embedded = await startEmbedded({
    dataFolder,
    masterKey,
    connections: connectionsByMemory(machineMemoryMb()),
    say: () => {},
    onEvent: () => {},
    interrupted,
    reserveBytes: 0,
  });
  try {
    return await act(embedded);
  } finally {
    await embedded.stop();
  }
}

/** Replaces the key. After an interruption at any moment, the next call completes what this one began. */
async function rotateKey(config: Config): Promise<Answer> {
  const { dataFolder, databaseUrl } = config;
  openDataFolder(dataFolder);
  const lock = lockDataFolder(dataFolder, 'rowhouse master-key rotate');
  try {
    const { data } = await findEvidence(config);
    if (data === null) throw new EngineError('There is no data yet, so there is no key to replace.');
    const begun = findNextKey(dataFolder);
    const present = config.masterKey ?? begunOrPresent(dataFolder, begun);
    if (!databaseUrl) await refuseAdopted(dataFolder, present);
    const done = databaseUrl
      ? await rotateAt(config, () => parseDatabaseUrl(databaseUrl), present, begun)
      : await withEmbedded(dataFolder, present, () =>
          rotateAt(config, (key) => embeddedAddress(dataFolder, key), present, begun),
        );
    // While the present key is known: the file may be the only place that has it.
    const setAside = setAsideBackups(backupLocation(config), present);
    const answer = putKey(config, openNextKey(dataFolder));
    removeNextKey(dataFolder);
    const inBucket = backupLocation(config)?.kind === 's3';
    return { ...answer, ...done, backups_moved_to: setAside, backups_in_bucket: inBucket };
  } finally {
    lock.release();
  }
}

async function rotateAt(
  config: Config,
  addressWith: (key: Buffer) => Address,
  from: Buffer,
  begun: Buffer | null,
): Promise<Rotated | { resumed: true }> {
  const { controlDatabase, dataFolder, databaseUrl } = config;
  if (begun && (await opensEmbedded(addressWith(begun), controlDatabase, begun))) return { resumed: true };
  const address = addressWith(from);
  await proveMasterKey(config, address, from);
  const begin = () => openNextKey(dataFolder);
  return rotate({ address, controlDatabase, isEmbedded: !databaseUrl, from, begin });
}

/** If the file was replaced already, its key is the new one, and the data belongs to that. */
function begunOrPresent(dataFolder: string, begun: Buffer | null): Buffer {
  const found = readKeyFile(masterKeyFile(dataFolder));
  if (found.kind === 'key') return found.key;
  if (begun) return begun;
  const problem = found.kind === 'missing' ? `${masterKeyFile(dataFolder)} does not exist` : found.problem;
  throw new EngineError(`The master key cannot be used: ${problem}.`, {
    hint: 'Restore it first: rowhouse master-key import <file>',
  });
}

async function readInput(): Promise<string> {
  let text = '';
  for await (const piece of process.stdin.setEncoding('utf8')) {
    text += piece;
    if (text.length > maxInput) break;
  }
  return text;
}

function describe(error: unknown): { message: string; hint?: string | undefined } {
  if (error instanceof ConfigError) return { message: error.problems.join(' ') };
  if (error instanceof EngineError) {
    return { message: [error.message, ...error.lines].join(' '), hint: error.hint };
  }
  const cause = error instanceof RowhouseError ? (error.cause as { message?: string; code?: string }) : null;
  if (cause) {
    const message = `PostgreSQL cannot be reached: ${cause.message || cause.code}`;
    return { message, hint: 'Check that the server runs, and the address in ROWHOUSE_DATABASE_URL.' };
  }
  return { message: error instanceof Error ? error.message : String(error) };
}

// A PostgreSQL that was started for the comparison is stopped again, also when the command is broken off.
const interrupted = untilInterrupted();

const run = { import: importKey, rotate: rotateKey }[process.argv[2] ?? ''] ?? exportKey;
const answer = await Promise.resolve()
  .then(() => run(readConfig(process.env, process.cwd())))
  .catch((error) => ({ ok: false, error: { code: 'master_key_failed', ...describe(error) } }));
process.stdout.write(`${JSON.stringify(answer)}\n`);
process.stdin.destroy();

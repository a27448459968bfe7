// Restores a whole installation from its backups into an empty data folder. A program of its own, behind
// `rowhouse restore`: the service cannot run without its data. Lines of JSON on stdout: progress, then the answer.

import { DecryptionError } from '../backups/repository/encryption.ts';
import { restoreServer } from '../backups/restore/restore-server.ts';
import { openStorage } from '../backups/storage/open.ts';
import { StorageError } from '../backups/storage/storage.ts';
import { RowhouseError } from '../errors/errors.ts';
import { lockDataFolder, openDataFolder } from '../servers/embedded/data-folder.ts';
import { masterKeyFile, readKeyFile, replaceMasterKey } from '../servers/embedded/master-key.ts';
import { environmentName, recordMasterKey } from '../servers/embedded/master-key-fit.ts';
import { EngineError } from '../servers/engine-error.ts';
import { backupLocation, type Config, ConfigError, readConfig } from '../settings/config.ts';
import { say, tellProgress, untilInterrupted } from './answer-lines.ts';

type Answer = { ok: true } & Record<string, unknown>;

async function run(config: Config, to: string, cluster: string): Promise<Answer> {
  if (config.databaseUrl) {
    throw new EngineError('ROWHOUSE_DATABASE_URL is set, but everything is restored into a data folder.', {
      hint: 'Unset it. The service then starts with the restored PostgreSQL in that folder. "rowhouse servers adopt" leads from there to a server of your own.',
    });
  }
  const location = backupLocation(config);
  if (!location)
    throw new EngineError('Backups are turned off.', { hint: 'Say where they are: --from <url>.' });
  const target = to === '' ? null : new Date(to);
  if (target && Number.isNaN(target.getTime())) {
    throw new EngineError(`"${to}" is not a time.`, { hint: 'Write it as 2026-11-16T10:00:00Z.' });
  }
  if (target && target.getTime() > Date.now()) {
    throw new EngineError(`"${to}" is in the future.`, {
      hint: 'Leave out --to to restore everything that was stored.',
    });
  }
  openDataFolder(config.dataFolder);
  const masterKey = readMasterKey(config);
  const lock = lockDataFolder(config.dataFolder, 'rowhouse restore');
  const storage = openStorage(location);
  try {
    const restored = await restoreServer({
      storage,
      masterKey,
      to: target,
      signal: interrupted,
      dataFolder: config.dataFolder,
      controlDatabase: config.controlDatabase,
      cluster: cluster === '' ? null : cluster,
      progress: tellProgress,
      onComplete: () => {
        // Without its key, the data would be there and could not be opened.
        if (readKeyFile(masterKeyFile(config.dataFolder)).kind !== 'key')
          replaceMasterKey(config.dataFolder, masterKey);
      },
    });
    recordMasterKey(config.dataFolder, masterKey);
    const { lastChangeAt, backup, projects, detached, embedded, since } = restored;
    const at = lastChangeAt?.toISOString() ?? null;
    const place = { data: config.dataFolder, from: storage.place };
    return { ok: true, ...place, backup, projects, last_change_at: at, detached, embedded, since };
  } finally {
    storage.close();
    lock.release();
  }
}

/** From the environment, or from the folder: a disk can be lost without its master key, or the other way round. */
function readMasterKey({ masterKey, dataFolder }: Config): Buffer {
  const file = readKeyFile(masterKeyFile(dataFolder));
  const key = masterKey ?? (file.kind === 'key' ? file.key : null);
  if (key) return key;
  throw new EngineError('The master key is missing. Backups are encrypted with it.', {
    hint: `Set ${environmentName} to the key that "rowhouse master-key export" printed.`,
  });
}

function describe(error: unknown): { message: string; hint?: string | undefined } {
  if (interrupted.aborted) return { message: 'The restore was interrupted. Nothing was changed.' };
  if (error instanceof ConfigError) {
    const hint =
      '--from gives ROWHOUSE_BACKUP_URL, and --data gives ROWHOUSE_DATA. Others are environment variables.';
    return { message: error.problems.join(' '), hint };
  }
  if (error instanceof EngineError)
    return { message: [error.message, ...error.lines].join(' '), hint: error.hint };
  if (error instanceof RowhouseError) return { message: error.message, hint: error.hint };
  if (error instanceof DecryptionError) {
    const hint = error.problem === 'wrong_key' ? `Set ${environmentName} to the right key.` : undefined;
    return { message: error.message, hint };
  }
  if (error instanceof StorageError)
    return { message: error.message, hint: 'Check the address and the credentials.' };
  return { message: error instanceof Error ? error.message : String(error) };
}

const interrupted = untilInterrupted();

const answer = await Promise.resolve()
  .then(() => run(readConfig(process.env, process.cwd()), process.argv[2] ?? '', process.argv[3] ?? ''))
  .catch((error) => ({ ok: false, error: { code: 'restore_failed', ...describe(error) } }));
say(answer);

// Moves the control database to a server of the operator's, or back. A program of its own, behind `rowhouse servers adopt`:
// no service may run meanwhile. Lines of JSON on stdout: progress, then the answer.

import { writeFileSync } from 'node:fs';
import { RowhouseError } from '../errors/errors.ts';
import { lockDataFolder, openDataFolder } from '../servers/embedded/data-folder.ts';
import { clusterFolderOf, holdsData, makeRoomToStart, startEmbedded } from '../servers/embedded/embedded.ts';
import { connectionsByMemory, machineMemoryMb } from '../servers/embedded/embedded-settings.ts';
import { openMasterKey, proveMasterKey } from '../servers/embedded/master-key-fit.ts';
import { EngineError } from '../servers/engine-error.ts';
import { type Config, ConfigError, readConfig } from '../settings/config.ts';
import { environmentFile, readMark } from './adoption/mark.ts';
import { type Adopted, adopt, type Place } from './adoption/move-control.ts';
import { type Undone, undoAdoption } from './adoption/undo.ts';
import { say, tellProgress, untilInterrupted } from './answer-lines.ts';

type Answer = { ok: true } & Record<string, unknown>;
/** From the command line: no secrets, because a list of processes shows them. */
type Request = { action: 'finish' | 'undo'; server: string; dropDeleted?: boolean; controlDatabase?: string };

async function run(config: Config, request: Request): Promise<Answer> {
  if (config.databaseUrl)
    throw new EngineError('ROWHOUSE_DATABASE_URL is set. Only an embedded PostgreSQL can be adopted.', {
      hint: 'Unset it for this command, and name the data folder with --data.',
    });
  if (!holdsData(clusterFolderOf(config.dataFolder)))
    throw new EngineError(`${config.dataFolder} contains no data.`, {
      hint: 'Name the data folder: --data.',
    });
  openDataFolder(config.dataFolder);
  const lock = lockDataFolder(config.dataFolder, 'rowhouse servers adopt');
  try {
    const masterKey = await openMasterKey(config);
    makeRoomToStart(config.dataFolder);
    const embedded = await startEmbedded({
      dataFolder: config.dataFolder,
      masterKey,
      interrupted,
      reserveBytes: 0,
      connections: connectionsByMemory(machineMemoryMb()),
      say: () => {},
      onEvent: () => {},
    });
    try {
      await proveMasterKey(config, embedded.address, masterKey);
      const place: Place = {
        dataFolder: config.dataFolder,
        masterKey,
        embedded: embedded.address,
        controlDatabase: config.controlDatabase,
        progress: tellProgress,
        signal: interrupted,
      };
      return request.action === 'undo' ? await undo(config, place) : await finish(config, place, request);
    } finally {
      await embedded.stop();
    }
  } finally {
    lock.release();
  }
}

async function finish(config: Config, place: Place, request: Request): Promise<Answer> {
  const mark = readMark(config.dataFolder);
  if (mark && mark.server !== request.server)
    throw new EngineError(`The adoption was begun by "${mark.server}", not by "${request.server}".`, {
      hint: `Run: rowhouse servers adopt ${mark.server} --finish. Or take it back: rowhouse servers adopt ${mark.server} --undo.`,
    });
  const adopted = await adopt(place, {
    server: request.server,
    controlThere: request.controlDatabase ?? config.controlDatabase,
    dropDeleted: request.dropDeleted ?? false,
  });
  const file = environmentFile(config.dataFolder);
  writeFileSync(file, environmentOf(adopted, place.masterKey), { mode: 0o600, flush: true });
  const { mark: done, copied } = adopted;
  return {
    ok: true,
    server: done.server,
    hosts: done.hosts,
    control_database: done.controlDatabase,
    data: config.dataFolder,
    environment_file: file,
    copied,
  };
}

async function undo(config: Config, place: Place): Promise<Answer> {
  const { mark, copied, keptAs }: Undone = await undoAdoption(place);
  return { ok: true, server: mark.server, data: config.dataFolder, kept_as: keptAs, copied };
}

/** For `EnvironmentFile=` of systemd, or a shell. Plain values can be read by Docker's `--env-file` as well. */
function environmentOf({ mark, url }: Adopted, masterKey: Buffer): string {
  const lines = [
    `ROWHOUSE_DATABASE_URL=${/^[\w:/@%.,+~=?-]*$/.test(url) ? url : `'${url.replaceAll("'", '%27')}'`}`,
    ...(mark.controlDatabase === 'rowhouse' ? [] : [`ROWHOUSE_CONTROL_DATABASE=${mark.controlDatabase}`]),
    `ROWHOUSE_MASTER_KEY=${masterKey.toString('hex')}`,
  ];
  return `${lines.join('\n')}\n`;
}

function describe(error: unknown): { message: string; hint?: string | undefined } {
  if (interrupted.aborted)
    return { message: 'The command was interrupted.', hint: 'Run it again, or start the service as before.' };
  if (error instanceof ConfigError) return { message: error.problems.join(' ') };
  if (error instanceof EngineError)
    return { message: [error.message, ...error.lines].join(' '), hint: error.hint };
  const cause = error instanceof RowhouseError ? (error.cause as { message?: string; code?: string }) : null;
  if (cause)
    return {
      message: `The server cannot be reached: ${cause.message || cause.code}`,
      hint: 'The next start of the service settles what was changed. Check the server, then try again.',
    };
  return { message: error instanceof Error ? error.message : String(error) };
}

const interrupted = untilInterrupted();

const answer = await Promise.resolve()
  .then(() => run(readConfig(process.env, process.cwd()), JSON.parse(process.argv[2] ?? '{}') as Request))
  .catch((error) => ({ ok: false, error: { code: 'adoption_failed', ...describe(error) } }));
say(answer);

// The embedded PostgreSQL: created at the first start, adopted if it outlived its service, supervised, and restarted when
// it dies.
import {
  copyFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  rmSync,
  statSync,
  truncateSync,
} from 'node:fs';
import { createServer } from 'node:net';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Address } from '../../postgres/admin/database.ts';
import { EngineError } from '../engine-error.ts';
import { derivePassword } from '../role-passwords.ts';
import { makeBallast, neededToStart, removeBallast } from './ballast.ts';
import { prepareBinaries } from './binaries.ts';
import { findPort, rememberPort } from './data-folder.ts';
import { readDisk } from './disk.ts';
import { embeddedSettings, machineMemoryMb } from './embedded-settings.ts';
import {
  type Cluster,
  createCluster,
  findOrphan,
  lastLines,
  type Postmaster,
  startPostmaster,
  stopPostmaster,
  superuser,
} from './postmaster.ts';
import { findRunAs } from './run-as.ts';
import { endLeftovers, findUnnamed, inspectPidFile, removeDeadLocks } from './server-processes.ts';
import { readSmallFile, readTail } from './small-files.ts';

export type Embedded = {
  address: Address;
  version: string;
  adopted: boolean;
  /** How often PostgreSQL was restarted since the service started. */
  restarts(): number;
  stop(): Promise<void>;
};

type Options = {
  dataFolder: string;
  masterKey: Buffer;
  /** Connections to projects' databases, of all processes together. */
  connections: number;
  say: (line: string) => void;
  onEvent: (event: string, details: Record<string, unknown>) => void;
  /** The service is stopped before its start is complete. */
  interrupted?: AbortSignal;
  /** Disk space to keep free. null: the default. 0: none. */
  reserveBytes?: number | null;
  /** Settings of PostgreSQL that override the defaults. */
  more?: Readonly<Record<string, string>>;
};

const firstPauseMs = 100;
const longestPauseMs = 10_000;
const maxLogBytes = 16 * 1024 * 1024;

export async function startEmbedded({
  dataFolder,
  masterKey,
  connections,
  say,
  onEvent,
  interrupted,
  reserveBytes = null,
  more = {},
}: Options): Promise<Embedded> {
  const cluster = openCluster(dataFolder);
  const password = derivePassword(masterKey, superuser);
  if (!existsSync(path.join(cluster.folder, 'PG_VERSION'))) {
    if (holdsData(cluster.folder)) {
      throw new EngineError(`${cluster.folder} is not a PostgreSQL data folder: PG_VERSION is missing.`, {
        hint: 'If it is on another disk, mount that disk. Otherwise restore the folder from a backup, or choose an empty data folder with ROWHOUSE_DATA.',
      });
    }
    say(`Creating a PostgreSQL ${cluster.binaries.version} data folder …`);
    createCluster(cluster, password);
  }
  checkMajorVersion(cluster);

  const port = findPort(dataFolder) ?? (await choosePort(dataFolder));
  const machine = {
    memoryMb: machineMemoryMb(),
    diskMb: readDisk(cluster.folder, null).totalBytes / 1024 / 1024,
    platform: process.platform,
  };
  const settingsAt = (at: number) => {
    const { options, ...rest } = embeddedSettings(machine, at, connections);
    return { ...rest, options: { ...options, ...more } };
  };
  let settings = settingsAt(port);
  const orphan = await findOrphan(cluster, settings);
  if (orphan) onEvent('PostgreSQL adopted', { pid: orphan.pid });
  else if (!(await isFree(port))) {
    settings = settingsAt(await choosePort(dataFolder));
  }
  const wake = new AbortController();
  const signal = interrupted ? AbortSignal.any([wake.signal, interrupted]) : wake.signal;
  const start = () => {
    endLeftovers(cluster.folder);
    const named = inspectPidFile(cluster.folder);
    const isDead = (!named || named.kind === 'stale') && !findUnnamed(cluster.folder);
    if (isDead) removeDeadLocks(cluster.folder);
    if (makeRoomToStart(dataFolder)) onEvent('the disk is full: the ballast was removed', {});
    return startPostmaster(cluster, settings, signal, (s) =>
      say(`PostgreSQL is still starting (${s} s): it is recovering from a crash.`),
    );
  };

  let current: Postmaster | null = orphan ?? (await start());
  let stopping = false;
  let restarts = 0;

  const watch = async (postmaster: Postmaster): Promise<void> => {
    const how = await postmaster.exited;
    if (stopping) return;
    current = null;
    onEvent('PostgreSQL died', { how, log: lastLines(readTail(cluster.logFile), 5) });
    for (let pauseMs = firstPauseMs; !stopping; pauseMs = Math.min(pauseMs * 2, longestPauseMs)) {
      await sleep(pauseMs, undefined, { signal: wake.signal }).catch(() => {});
      if (stopping) return;
      try {
        current = await start();
        restarts++;
        onEvent('PostgreSQL restarted', { pid: current.pid, restarts });
        return watch(current);
      } catch (error) {
        const lines = error instanceof EngineError ? error.lines : [];
        onEvent('PostgreSQL could not be restarted', {
          error: String(error),
          lines,
          again_in_ms: pauseMs * 2,
        });
      }
    }
  };
  let supervise = watch(current);
  const keepBallast = () =>
    makeBallast(cluster.folder, reserveBytes).catch((error) =>
      onEvent('the ballast could not be created', { error: String(error) }),
    );
  let ballasting = keepBallast();
  const trimming = setInterval(() => {
    trimLog(cluster.logFile);
    ballasting = ballasting.then(keepBallast);
  }, 60_000).unref();

  return {
    address: addressOf(dataFolder, Number(settings.options.port), password),
    version: cluster.binaries.version,
    adopted: orphan !== null,
    restarts: () => restarts,
    stop: async () => {
      stopping = true;
      clearInterval(trimming);
      wake.abort();
      await ballasting;
      if (current) await stopPostmaster(cluster, current);
      await supervise;
      supervise = Promise.resolve();
    },
  };
}

export function clusterFolderOf(dataFolder: string): string {
  return path.join(dataFolder, 'postgres');
}

/** Anything in the folder counts, and so does a folder that cannot be read: a link to a disk that is not mounted. */
export function holdsData(clusterFolder: string): boolean {
  if (!lstatSync(clusterFolder, { throwIfNoEntry: false })) return false;
  try {
    return readdirSync(clusterFolder).length > 0;
  } catch {
    return true;
  }
}

/** Where a restore of the whole installation works until it is complete. */
export function restoreFolderOf(dataFolder: string): string {
  return `${clusterFolderOf(dataFolder)}.restored`;
}

/** Otherwise a service would begin anew, with a new master key, and whoever started the restore would find nothing. */
export function refuseInterruptedRestore(dataFolder: string): void {
  const folder = restoreFolderOf(dataFolder);
  if (holdsData(clusterFolderOf(dataFolder)) || !holdsData(folder)) return;
  throw new EngineError(`A restore into ${dataFolder} was interrupted, so its data is not complete.`, {
    hint: `Run "rowhouse restore" again. To begin a new installation instead, remove ${folder}.`,
  });
}

/** For a worker: the same folder and master key give the same address as in the process that runs PostgreSQL. */
export function embeddedAddress(dataFolder: string, masterKey: Buffer): Address {
  const port = findPort(dataFolder);
  if (port === null) throw new EngineError(`There is no PostgreSQL in ${dataFolder} yet.`);
  const password = derivePassword(masterKey, superuser);
  return addressOf(dataFolder, port, password);
}

/** Whether the address is that of the embedded server of an installation with this key: nobody else has its password. */
export function isEmbedded({ user, password }: Address, masterKey: Buffer): boolean {
  return user === superuser && password === derivePassword(masterKey, superuser);
}

function addressOf(dataFolder: string, port: number, password: string): Address {
  const socket = path.join(clusterFolderOf(dataFolder), `.s.PGSQL.${port}`);
  // The path of a socket is limited to 108 bytes, on some systems to 104.
  const fits = process.platform !== 'win32' && Buffer.byteLength(socket) < 104;
  return {
    host: '127.0.0.1',
    port,
    user: superuser,
    password,
    database: 'postgres',
    tls: false,
    ...(fits && { socket }),
  };
}

function openCluster(dataFolder: string): Cluster {
  const folder = clusterFolderOf(dataFolder);
  const logFile = logFileIn(dataFolder);
  mkdirSync(path.dirname(logFile), { recursive: true, mode: 0o700 });
  trimLog(logFile);
  const runAs = findRunAs(folder);
  return { folder, logFile, runAs, binaries: prepareBinaries(dataFolder, runAs) };
}

function logFileIn(dataFolder: string): string {
  return path.join(dataFolder, 'logs', 'postgres.log');
}

function checkMajorVersion({ folder, binaries }: Cluster): void {
  const found = readSmallFile(path.join(folder, 'PG_VERSION')).trim();
  const wanted = binaries.version.split('.')[0];
  if (found !== wanted) {
    throw new EngineError(
      `${folder} was created by PostgreSQL ${found}; this Rowhouse contains ${binaries.version}.`,
      {
        hint: 'Use the Rowhouse version that created it, or move the projects to a new data folder.',
      },
    );
  }
}

async function choosePort(dataFolder: string): Promise<number> {
  const port = await new Promise<number>((resolve, reject) => {
    const server = createServer().once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() =>
        address && typeof address === 'object' ? resolve(address.port) : reject(new Error('no port')),
      );
    });
  });
  rememberPort(dataFolder, port);
  return port;
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer().once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}

/** On a full disk: removes the ballast and the old log, so that recovery can write. Called before anything is written. */
export function makeRoomToStart(dataFolder: string): boolean {
  const folder = clusterFolderOf(dataFolder);
  if (!existsSync(folder) || readDisk(folder, null).freeBytes >= neededToStart) return false;
  rmSync(`${logFileIn(dataFolder)}.1`, { force: true });
  return removeBallast(folder);
}

/** PostgreSQL appends to the log, so truncating it while open is safe. One old part is kept. */
function trimLog(file: string): void {
  if ((statSync(file, { throwIfNoEntry: false })?.size ?? 0) <= maxLogBytes) return;
  try {
    copyFileSync(file, `${file}.1`);
  } catch {
    // No space for the old part: it is discarded.
    rmSync(`${file}.1`, { force: true });
  }
  truncateSync(file);
}

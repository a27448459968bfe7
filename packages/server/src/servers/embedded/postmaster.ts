// One PostgreSQL server process on one cluster folder: create the cluster, start, find an orphan, stop.
// Started by root on Linux, PostgreSQL reaches its folder through an inherited descriptor (/proc/self/fd/3). So it works in
// a folder that only root can enter, without privileges beyond those of its own account.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import {
  chownSync,
  closeSync,
  constants,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pause } from '../../lib/pause.ts';
import { scramVerifier } from '../../postgres/wire/scram.ts';
import { EngineError, hintFor } from '../engine-error.ts';
import { lowerPostmaster } from './backend-priority.ts';
import type { Binaries } from './binaries.ts';
import { type Computing, openComputing } from './computing.ts';
import type { EmbeddedSettings } from './embedded-settings.ts';
import type { RunAs } from './run-as.ts';
import {
  endProjectBackends,
  findUnnamed,
  inspectPidFile,
  interruptBackend,
  isRunning,
  projectBackends,
  readPidFile,
  removeDeadLocks,
} from './server-processes.ts';
import { readTail } from './small-files.ts';

export type Cluster = Readonly<{ folder: string; logFile: string; binaries: Binaries; runAs: RunAs | null }>;
export type Postmaster = { pid: number; exited: Promise<string> };
export const superuser = 'rowhouse';

/** Creates the cluster under another name first: an interrupted start leaves nothing that looks like a cluster. */
export function createCluster(cluster: Cluster, password: string): void {
  const unfinished = `${cluster.folder}.new`;
  const passwordFile = `${cluster.folder}.password`;
  rmSync(unfinished, { recursive: true, force: true });
  mkdirSync(unfinished, { mode: 0o700 });
  writeFileSync(passwordFile, `${scramVerifier(password)}\n`, { mode: 0o600 });
  const folder = openFolder({ ...cluster, folder: unfinished });
  const secret = openSync(passwordFile, 'r');
  try {
    if (cluster.runAs) {
      chownSync(unfinished, cluster.runAs.uid, cluster.runAs.gid);
      chownSync(passwordFile, cluster.runAs.uid, cluster.runAs.gid);
    }
    const result = spawnSync(
      cluster.binaries.initdb,
      [
        ...['-D', folder.path, '-U', superuser, '-A', 'scram-sha-256', '-E', 'UTF8', '--locale=C'],
        ...['--locale-provider=builtin', '--builtin-locale=C.UTF-8', '--no-instructions'],
        `--pwfile=${folder.descriptor === null ? passwordFile : '/proc/self/fd/4'}`,
      ],
      {
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'pipe', ...(folder.descriptor === null ? [] : [folder.descriptor, secret])],
        ...identity(cluster.runAs),
      },
    );
    if (result.status !== 0) {
      const lines = lastLines(`${result.stdout}\n${result.stderr}\n${result.error?.message ?? ''}`);
      throw failure('PostgreSQL could not make its data folder.', lines);
    }
  } finally {
    folder.close();
    closeSync(secret);
    rmSync(passwordFile, { force: true });
  }
  renameSync(unfinished, cluster.folder);
}

/** Starts PostgreSQL and waits until it accepts connections. Recovery after a crash can take long: `onWait` reports it. */
export async function startPostmaster(
  cluster: Cluster,
  settings: EmbeddedSettings,
  interrupted: AbortSignal,
  onWait: (seconds: number) => void,
): Promise<Postmaster> {
  const folder = openFolder(cluster);
  const log = openSync(cluster.logFile, 'a', 0o600);
  let child: ChildProcess;
  try {
    const [program, args] = withMemorySettings(
      cluster.binaries.postgres,
      argumentsFor(folder.path, settings),
      settings,
    );
    child = spawn(program, args, {
      stdio: ['ignore', log, log, ...(folder.descriptor === null ? [] : [folder.descriptor])],
      // A separate process group: Ctrl-C in the terminal reaches only the service, which then stops PostgreSQL.
      detached: true,
      ...identity(cluster.runAs),
    });
    if (child.pid) lowerPostmaster(child.pid);
  } finally {
    folder.close();
    closeSync(log);
  }
  let ended: string | undefined;
  const exited = new Promise<string>((resolve) => {
    const end = (how: string) => {
      ended = how;
      resolve(how);
    };
    child.once('exit', (code, signal) => end(signal ? `ended by ${signal}` : `ended with status ${code}`));
    child.once('error', (error) => end(error.message));
  });
  for (let waitedMs = 0; ; waitedMs += 20) {
    const state = readPidFile(cluster.folder);
    if (child.pid && state?.pid === child.pid && state.ready) return { pid: child.pid, exited };
    if (ended) throw failure(`PostgreSQL did not start (${ended}).`, lastLines(readTail(cluster.logFile)));
    if (interrupted.aborted && child.pid) {
      await stopPostmaster(cluster, { pid: child.pid, exited });
      throw new EngineError('The start was interrupted.');
    }
    if (waitedMs > 0 && waitedMs % 5000 === 0) onWait(waitedMs / 1000);
    await sleep(20);
  }
}

/** A server that outlived its service and has exactly these settings. Any other server there is refused or stopped. */
export async function findOrphan(cluster: Cluster, settings: EmbeddedSettings): Promise<Postmaster | null> {
  const named = inspectPidFile(cluster.folder);
  const found = named && named.kind !== 'stale' ? named : findUnnamed(cluster.folder);
  if (!found) {
    removeDeadLocks(cluster.folder);
    return null;
  }
  const { pid } = found;
  if (found.kind === 'foreign') {
    throw new EngineError(
      `Process ${pid} is a PostgreSQL server on ${cluster.folder} that Rowhouse did not start.`,
      {
        hint: `Stop it (kill -INT ${pid}), then start Rowhouse again.`,
      },
    );
  }
  const orphan = { pid, exited: waitForEnd(pid) };
  if (found === named && found.command.endsWith(argumentsFor('', settings).slice(2).join(' '))) {
    for (let waitedMs = 0; waitedMs < 60_000 && isRunning(pid); waitedMs += 50) {
      if (readPidFile(cluster.folder)?.ready) return orphan;
      await sleep(50);
    }
  }
  await stopPostmaster(cluster, orphan);
  return null;
}

/** Sessions that compute without looking for interrupts are interrupted (servers/guards/survivors.ts), and those that are left then are killed. */
const interruptAfterMs = 2_000;
const interruptEveryMs = 250;
const killAfterMs = 15_000;

/** Fast shutdown: ends sessions and writes everything out. Stronger signals follow only if that does not finish. */
export async function stopPostmaster(cluster: Cluster, { pid, exited }: Postmaster): Promise<void> {
  if (process.platform === 'win32') {
    spawnSync(cluster.binaries.pgCtl, ['stop', '-m', 'fast', '-w', '-D', cluster.folder]);
    return;
  }
  const stopped = new AbortController();
  void endSessions(cluster.folder, pid, stopped.signal);
  try {
    await signalUntilGone({ pid, exited });
  } finally {
    stopped.abort();
  }
}

async function endSessions(folder: string, postmaster: number, stopped: AbortSignal): Promise<void> {
  await pause(interruptAfterMs, stopped);
  const watched = new Map<number, Computing>();
  for (let waitedMs = interruptAfterMs; !stopped.aborted; waitedMs += interruptEveryMs) {
    if (waitedMs >= killAfterMs) return endProjectBackends(folder, postmaster);
    for (const pid of projectBackends(folder)) {
      const computing = watched.get(pid) ?? openComputing(pid);
      watched.set(pid, computing);
      if (computing.look()) interruptBackend(pid);
    }
    await pause(interruptEveryMs, stopped);
  }
}

async function signalUntilGone({ pid, exited }: Postmaster): Promise<void> {
  for (const [signal, waitMs] of [
    ['SIGINT', 60_000],
    ['SIGQUIT', 10_000],
    ['SIGKILL', 5_000],
  ] as const) {
    try {
      process.kill(pid, signal);
    } catch {
      return;
    }
    // This timer must keep the process alive: an orphan is not our child process, so nothing else does.
    const waiting = new AbortController();
    const timeout = sleep(waitMs, false, { signal: waiting.signal }).catch(() => false);
    const done = await Promise.race([exited.then(() => true), timeout]);
    waiting.abort();
    if (done) return;
  }
}

export function lastLines(text: string, count = 15): string[] {
  return text
    .split('\n')
    .filter((line) => line.trim() !== '')
    .slice(-count);
}

function failure(message: string, lines: string[]): EngineError {
  const hint = hintFor(lines);
  return new EngineError(message, { lines, ...(hint && { hint }) });
}

function argumentsFor(folder: string, { options }: EmbeddedSettings): string[] {
  return ['-D', folder, ...Object.entries(options).flatMap(([name, value]) => ['-c', `${name}=${value}`])];
}

/**
 * glibc's initial thresholds, fixed. By default glibc raises them after a large free, and a session that has planned one
 * complex statement keeps up to 6 MB that it no longer uses.
 */
const mallocSettings = 'MALLOC_MMAP_THRESHOLD_=131072 MALLOC_TRIM_THRESHOLD_=131072';

function withMemorySettings(
  program: string,
  args: string[],
  { addressSpaceMb }: EmbeddedSettings,
): [string, string[]] {
  if (process.platform !== 'linux') return [program, args];
  return [
    '/bin/sh',
    ['-c', `ulimit -v ${addressSpaceMb * 1024}; export ${mallocSettings}; exec "$0" "$@"`, program, ...args],
  ];
}

function identity(runAs: RunAs | null) {
  return { cwd: path.parse(process.cwd()).root, ...(runAs && { uid: runAs.uid, gid: runAs.gid }) };
}

/** The path by which a child process reaches the cluster folder. */
function openFolder({ folder, runAs }: Pick<Cluster, 'folder' | 'runAs'>) {
  if (!runAs || process.platform !== 'linux') return { path: folder, descriptor: null, close: () => {} };
  const descriptor = openSync(folder, constants.O_RDONLY | constants.O_DIRECTORY);
  return { path: '/proc/self/fd/3', descriptor, close: () => closeSync(descriptor) };
}

/** For a process that is not our child process. */
async function waitForEnd(pid: number): Promise<string> {
  while (isRunning(pid)) await sleep(200, undefined, { ref: false });
  return 'ended';
}

// One PostgreSQL server process on one cluster folder: make the cluster, start, find an orphan, stop.
// As root on Linux PostgreSQL reaches its folder through an inherited descriptor (/proc/self/fd/3), so it works in a
// folder that only root can enter, without any right beyond its own account's.
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import {
  chownSync,
  closeSync,
  constants,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { scramVerifier } from '../postgres/scram.ts';
import type { Binaries } from './binaries.ts';
import type { EmbeddedSettings } from './embedded-settings.ts';
import { EngineError, hintFor } from './engine-error.ts';
import type { RunAs } from './run-as.ts';
import { readSmallFile, readTail } from './small-files.ts';

export type Cluster = Readonly<{ folder: string; logFile: string; binaries: Binaries; runAs: RunAs | null }>;
export type Postmaster = { pid: number; exited: Promise<string> };
export const superuser = 'rowhouse';

/** Makes the cluster under another name first: a start that is interrupted leaves nothing that looks like one. */
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

/** Starts PostgreSQL and waits until it takes connections. A recovery after a crash may take long: `onWait` tells. */
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
    const [program, args] = withMemoryLimit(
      cluster.binaries.postgres,
      arguments_(folder.path, settings),
      settings,
    );
    child = spawn(program, args, {
      stdio: ['ignore', log, log, ...(folder.descriptor === null ? [] : [folder.descriptor])],
      // A group of its own: Ctrl-C in the terminal reaches the service alone, which stops PostgreSQL in its turn.
      detached: true,
      ...identity(cluster.runAs),
    });
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
      throw new EngineError('The start was broken off.');
    }
    if (waitedMs > 0 && waitedMs % 5000 === 0) onWait(waitedMs / 1000);
    await sleep(20);
  }
}

/** A server that outlived its service, with these very settings. Anything else alive there is refused or stopped. */
export async function findOrphan(cluster: Cluster, settings: EmbeddedSettings): Promise<Postmaster | null> {
  const found = inspectPidFile(cluster.folder);
  if (!found) return null;
  if (found.kind === 'stale') {
    // PostgreSQL refuses to start over this if another program has the number now, or if nobody has taken note yet that
    // it ended. If nobody has it, it sees to that itself, and better: the process may live where we cannot see it.
    if (isRunning(found.pid)) removeLocks(cluster.folder);
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
  if (found.command.endsWith(arguments_('', settings).slice(2).join(' '))) {
    for (let waitedMs = 0; waitedMs < 60_000 && isRunning(pid); waitedMs += 50) {
      if (readPidFile(cluster.folder)?.ready) return orphan;
      await sleep(50);
    }
  }
  await stopPostmaster(cluster, orphan);
  return null;
}

/** The folder's and the socket's. */
function removeLocks(folder: string): void {
  for (const name of readdirSync(folder)) {
    if (name === 'postmaster.pid' || /^\.s\.PGSQL\.\d+\.lock$/.test(name))
      rmSync(path.join(folder, name), { force: true });
  }
}

/** Who postmaster.pid names: a server of ours, one that somebody else started there, or nobody any more. */
export function inspectPidFile(
  folder: string,
): { pid: number; kind: 'ours' | 'foreign' | 'stale'; command: string } | null {
  const state = readPidFile(folder);
  if (!state) return null;
  const command = commandOf(folder, state.pid);
  const isPostgres = /(^|[/\\])postgres(\.exe)?( |$)/.test(command);
  const port = / port=(\d+)/.exec(command)?.[1];
  const isElsewhere = port !== undefined && Number(port) !== state.port;
  const isOther = !isPostgres || isElsewhere || !worksIn(folder, state.pid);
  const kind = isOther ? 'stale' : port === undefined ? 'foreign' : 'ours';
  return { pid: state.pid, kind, command };
}

/** Fast shutdown: sessions end, everything is written out. Harder only when that does not come to an end. */
export async function stopPostmaster(cluster: Cluster, { pid, exited }: Postmaster): Promise<void> {
  if (process.platform === 'win32') {
    spawnSync(cluster.binaries.pgCtl, ['stop', '-m', 'fast', '-w', '-D', cluster.folder]);
    return;
  }
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
    const done = await Promise.race([exited.then(() => true), sleep(waitMs, false, { ref: false })]);
    if (done) return;
  }
}

/**
 * After a server was killed: its processes may go on with what they do, for as long as a statement takes, and no new
 * server starts beside them. They are sent what the server itself sends when one of them crashes.
 */
export function endLeftovers({ folder }: Cluster): void {
  if (process.platform !== 'linux') return;
  for (const name of readdirSync('/proc')) {
    const pid = Number(name);
    if (!(pid > 1) || !isLeftover(folder, pid)) continue;
    try {
      process.kill(pid, 'SIGQUIT');
    } catch {
      // It has ended meanwhile.
    }
  }
}

/** Such a process writes what it is over its command line. */
function isLeftover(folder: string, pid: number): boolean {
  try {
    return /^postgres: /.test(commandOf(folder, pid)) && worksIn(folder, pid, false);
  } catch {
    return false;
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

function arguments_(folder: string, { options }: EmbeddedSettings): string[] {
  return ['-D', folder, ...Object.entries(options).flatMap(([name, value]) => ['-c', `${name}=${value}`])];
}

function withMemoryLimit(
  program: string,
  args: string[],
  { addressSpaceMb }: EmbeddedSettings,
): [string, string[]] {
  if (process.platform !== 'linux') return [program, args];
  return ['/bin/sh', ['-c', `ulimit -v ${addressSpaceMb * 1024}; exec "$0" "$@"`, program, ...args]];
}

function identity(runAs: RunAs | null) {
  return { cwd: path.parse(process.cwd()).root, ...(runAs && { uid: runAs.uid, gid: runAs.gid }) };
}

/** How a child of ours names the cluster folder. */
function openFolder({ folder, runAs }: Pick<Cluster, 'folder' | 'runAs'>) {
  if (!runAs || process.platform !== 'linux') return { path: folder, descriptor: null, close: () => {} };
  const descriptor = openSync(folder, constants.O_RDONLY | constants.O_DIRECTORY);
  return { path: '/proc/self/fd/3', descriptor, close: () => closeSync(descriptor) };
}

function readPidFile(folder: string): { pid: number; port: number; ready: boolean } | null {
  const [pid, , , port, , , , status] = readSmallFile(path.join(folder, 'postmaster.pid')).split('\n');
  if (!pid || !(Number(pid) > 0)) return null;
  return { pid: Number(pid), port: Number(port), ready: status?.trim() === 'ready' };
}

/**
 * The file is PostgreSQL's own and can name any process: as root we must not stop one that belongs to somebody else.
 * A server works in its cluster folder, as the folder's owner. Where that cannot be seen, the command line has to do.
 */
function worksIn(folder: string, pid: number, ifUnseen = true): boolean {
  if (process.platform !== 'linux') return true;
  const cluster = statSync(folder);
  if (statSync(`/proc/${pid}`, { throwIfNoEntry: false })?.uid !== cluster.uid) return false;
  try {
    const place = statSync(`/proc/${pid}/cwd`);
    return place.ino === cluster.ino && place.dev === cluster.dev;
  } catch {
    return ifUnseen;
  }
}

/** The command line of a process, its words parted by blanks; empty if there is none. */
function commandOf(folder: string, pid: number): string {
  try {
    if (process.platform === 'linux') {
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').slice(0, -1).join(' ');
    }
    // Windows does not tell; what PostgreSQL wrote down at its start stands for it.
    if (process.platform === 'win32') {
      return isRunning(pid)
        ? readSmallFile(path.join(folder, 'postmaster.opts')).trim().replaceAll('"', '')
        : '';
    }
    return execFileSync('ps', ['-p', String(pid), '-o', 'command='], { encoding: 'utf8' }).trim();
  } catch {
    return '';
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** For a process that is not our child. */
async function waitForEnd(pid: number): Promise<string> {
  while (isRunning(pid)) await sleep(200, undefined, { ref: false });
  return 'ended';
}

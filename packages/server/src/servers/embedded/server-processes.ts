// Finds the server that works in a cluster folder: by postmaster.pid if it can be trusted, else by the running processes.
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import path from 'node:path';
import { readSmallFile } from './small-files.ts';

type Found = { pid: number; kind: 'ours' | 'foreign' | 'stale'; command: string };

/** The process that postmaster.pid names: our server (`ours`), a server started otherwise (`foreign`), or none (`stale`). */
export function inspectPidFile(folder: string): Found | null {
  const state = readPidFile(folder);
  if (!state) return null;
  const command = commandOf(folder, state.pid);
  const port = portOf(command);
  const isElsewhere = port !== null && port !== state.port;
  const isOther = !isServer(command) || isElsewhere || !worksIn(folder, state.pid);
  const kind = isOther ? 'stale' : port === null ? 'foreign' : 'ours';
  return { pid: state.pid, kind, command };
}

/** A server that works in the folder although postmaster.pid is damaged or names another process: no second one may start. */
export function findUnnamed(folder: string): Found | null {
  if (process.platform === 'win32') return null;
  for (const pid of process.platform === 'linux' ? processIds() : serversByArgument(folder)) {
    const command = commandOf(folder, pid);
    if (!isServer(command) || !isIn(folder, pid)) continue;
    return { pid, kind: portOf(command) === null ? 'foreign' : 'ours', command };
  }
  return null;
}

/** On systems that do not show the working directory of a process, the command line names the folder. */
function serversByArgument(folder: string): number[] {
  return execFileSync('ps', ['-A', '-o', 'pid=,command='], { encoding: 'utf8' })
    .split('\n')
    .filter((line) => line.includes(`-D ${folder} `) || line.endsWith(`-D ${folder}`))
    .map((line) => Number.parseInt(line, 10));
}

function isServer(command: string): boolean {
  return /(^|[/\\])postgres(\.exe)?( |$)/.test(command);
}

function portOf(command: string): number | null {
  const port = / port=(\d+)/.exec(command)?.[1];
  return port === undefined ? null : Number(port);
}

/**
 * Removes the lock files of the folder and the socket, once no server works there. PostgreSQL refuses to start if a crash
 * left a lock file empty or incomplete, or if another program, or a process that ended but was not collected yet, now has
 * the process id in it. If no process has that id, PostgreSQL handles the file itself, and better: the process may run where
 * we cannot see it.
 */
export function removeDeadLocks(folder: string): void {
  for (const name of readdirSync(folder)) {
    if (name !== 'postmaster.pid' && !/^\.s\.PGSQL\.\d+\.lock$/.test(name)) continue;
    const pid = readPid(path.join(folder, name));
    if (pid === null || isRunning(pid)) rmSync(path.join(folder, name), { force: true });
  }
}

/**
 * After a server was killed: its child processes may keep running until their statements end, and no new server can start
 * beside them. They get the signal that the server itself sends when one of them crashes. If their data is not needed, SIGKILL
 * also ends those that hang.
 */
export function endLeftovers(folder: string, how: 'SIGQUIT' | 'SIGKILL' = 'SIGQUIT'): void {
  if (process.platform !== 'linux') return;
  for (const pid of processIds()) {
    if (isLeftover(folder, pid)) signal(pid, how);
  }
}

/** Whether the process is one that the server in the folder has started. False where the system does not show it. */
export function isBackend(folder: string, pid: number): boolean {
  if (process.platform !== 'linux' || !/^postgres: /.test(commandOf(folder, pid))) return false;
  try {
    const parent = /^PPid:\s+(\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
    return Number(parent) === readPidFile(folder)?.pid && worksIn(folder, pid);
  } catch {
    return false;
  }
}

/**
 * The sessions of projects that the server in the folder has, and all parallel workers: the service's own sessions use none. Empty
 * where the system does not show them.
 */
export function projectBackends(folder: string): number[] {
  return backendsAs(folder, /^postgres: (?:\S+: )?(?:p_|parallel worker )/);
}

/** A session ends only after its parallel workers. This reads the descriptions of all processes. */
export function parallelWorkersOf(folder: string, pid: number): number[] {
  return backendsAs(folder, parallelWorkerOf(pid));
}

export function isParallelWorkerOf(folder: string, pid: number, worker: number): boolean {
  return parallelWorkerOf(pid).test(commandOf(folder, worker)) && isBackend(folder, worker);
}

function parallelWorkerOf(pid: number): RegExp {
  return new RegExp(`^postgres: (?:\\S+: )?parallel worker for PID ${pid}\\b`);
}

function backendsAs(folder: string, description: RegExp): number[] {
  if (process.platform !== 'linux') return [];
  return processIds().filter((pid) => description.test(commandOf(folder, pid)) && isBackend(folder, pid));
}

/** Raises an error in a backend, wherever it computes: see servers/guards/survivors.ts. */
export function interruptBackend(pid: number): void {
  signal(pid, 'SIGFPE');
}

/** Ends sessions of projects for good, after a shutdown has asked them to end. To the server, that is a crash. */
export function endProjectBackends(folder: string, postmaster: number): void {
  if (!isRunning(postmaster)) return;
  for (const pid of projectBackends(folder)) signal(pid, 'SIGKILL');
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch {
    // It has ended in the meantime.
  }
}

/** Such a process replaces its command line by a description of itself. */
function isLeftover(folder: string, pid: number): boolean {
  return /^postgres: /.test(commandOf(folder, pid)) && isIn(folder, pid);
}

/**
 * The WAL file that the server in the folder is replaying, or waits for, by the description that its process gives of itself: a
 * server that replays does not answer before it is consistent. null: none, or the system does not show it.
 */
export function findReplayedFile(folder: string): string | null {
  if (process.platform !== 'linux') return null;
  for (const pid of processIds()) {
    const name = /^postgres: .*\bstartup (?:recovering|waiting for) ([0-9A-F]{24})\b/.exec(
      commandOf(folder, pid),
    )?.[1];
    if (name !== undefined && isIn(folder, pid)) return name;
  }
  return null;
}

/** False for a process that cannot be inspected, or that is just ending. */
function isIn(folder: string, pid: number): boolean {
  try {
    return worksIn(folder, pid, false);
  } catch {
    return false;
  }
}

function processIds(): number[] {
  return readdirSync('/proc')
    .map(Number)
    .filter((pid) => pid > 1);
}

export function readPidFile(folder: string): { pid: number; port: number; ready: boolean } | null {
  const file = path.join(folder, 'postmaster.pid');
  const pid = readPid(file);
  if (pid === null) return null;
  const [, , , port, , , , status] = readSmallFile(file).split('\n');
  return { pid, port: Number(port), ready: status?.trim() === 'ready' };
}

/** The first line of a lock file; a negative number is a server in single-user mode. null: no file, or not a number. */
function readPid(file: string): number | null {
  const number = /^-?([1-9]\d{0,9})(?=\s|$)/.exec(readSmallFile(file))?.[1];
  return number === undefined ? null : Number(number);
}

/**
 * PostgreSQL's account owns the pid file and can put any process id into it: as root we must not stop an unrelated process.
 * A server works in its cluster folder, as the folder's owner. Where that is not visible, the command line must suffice.
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

/** The command line of a process, separated by spaces. Empty if there is no such process. */
function commandOf(folder: string, pid: number): string {
  try {
    if (process.platform === 'linux') {
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').slice(0, -1).join(' ');
    }
    // Windows does not show command lines. PostgreSQL writes its own to this file when it starts.
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

export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

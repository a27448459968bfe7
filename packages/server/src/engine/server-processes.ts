// Which server works in a cluster folder: by postmaster.pid where that can be trusted, else by the processes themselves.
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import path from 'node:path';
import { readSmallFile } from './small-files.ts';

type Found = { pid: number; kind: 'ours' | 'foreign' | 'stale'; command: string };

/** Who postmaster.pid names: a server of ours, one that somebody else started there, or nobody any more. */
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

/** A server that works in the folder although postmaster.pid is damaged or names another: none is started beside it. */
export function findUnnamed(folder: string): Found | null {
  if (process.platform === 'win32') return null;
  for (const pid of process.platform === 'linux' ? processIds() : serversByArgument(folder)) {
    const command = commandOf(folder, pid);
    if (!isServer(command) || !isIn(folder, pid)) continue;
    return { pid, kind: portOf(command) === null ? 'foreign' : 'ours', command };
  }
  return null;
}

/** Where a process does not tell in which folder it works, it has been told so at its start. */
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
 * The folder's and the socket's, once no server works there. PostgreSQL refuses to start over one that a crash has left
 * empty or in pieces, and over one whose number another program has now, or nobody has taken note yet that it ended. If
 * nobody has the number, it sees to that itself, and better: the process may live where we cannot see it.
 */
export function removeDeadLocks(folder: string): void {
  for (const name of readdirSync(folder)) {
    if (name !== 'postmaster.pid' && !/^\.s\.PGSQL\.\d+\.lock$/.test(name)) continue;
    const pid = readPid(path.join(folder, name));
    if (pid === null || isRunning(pid)) rmSync(path.join(folder, name), { force: true });
  }
}

/**
 * After a server was killed: its processes may go on with what they do, for as long as a statement takes, and no new
 * server starts beside them. They are sent what the server itself sends when one of them crashes.
 */
export function endLeftovers(folder: string): void {
  if (process.platform !== 'linux') return;
  for (const pid of processIds()) {
    if (!isLeftover(folder, pid)) continue;
    try {
      process.kill(pid, 'SIGQUIT');
    } catch {
      // It has ended meanwhile.
    }
  }
}

/** Such a process writes what it is over its command line. */
function isLeftover(folder: string, pid: number): boolean {
  return /^postgres: /.test(commandOf(folder, pid)) && isIn(folder, pid);
}

/** Only what can be seen, and is not ending just now. */
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

/** The first line of a lock file; a negative number is a server for a single user. null: no such file, or no such line. */
function readPid(file: string): number | null {
  const number = /^-?([1-9]\d{0,9})(?=\s|$)/.exec(readSmallFile(file))?.[1];
  return number === undefined ? null : Number(number);
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

export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

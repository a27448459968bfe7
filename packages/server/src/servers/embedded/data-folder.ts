// The data folder: a lock for one service at a time, and the port of PostgreSQL. The master key: master-key.ts.
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  accessSync,
  constants,
  linkSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { hostname } from 'node:os';
import path from 'node:path';
import { EngineError, hintFor } from '../engine-error.ts';

export type Lock = { setAddress(address: string): void; release(): void };
type Owner = { pid: number; process: string; namespace: string; address: string; folder: string };

export function openDataFolder(folder: string): void {
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    accessSync(folder, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (error) {
    throw new EngineError(
      `The data folder ${folder} cannot be used (${(error as NodeJS.ErrnoException).code}).`,
      {
        hint: 'Set ROWHOUSE_DATA to a folder that you can write to.',
      },
    );
  }
  const { uid } = statSync(folder);
  const self = process.getuid?.();
  // This applies to root, too: in a folder of another user, every name we write to can be a link to anywhere.
  if (self !== undefined && uid !== self) {
    throw new EngineError(`The data folder ${folder} belongs to another user.`, {
      hint: 'Start Rowhouse as that user, or set ROWHOUSE_DATA to another folder.',
    });
  }
}

/**
 * Locks the folder for this process, or throws without changing anything. The lock is a file, because Node has no flock.
 * It also names the start time of its process, so neither a crash nor a reused process id blocks the next start.
 */
export function lockDataFolder(folder: string, address: string): Lock {
  const lock = path.join(folder, 'service.lock');
  const owner = { pid: process.pid, process: identify(process.pid), namespace: namespace() };
  const describe = (at: string) =>
    `${JSON.stringify({ ...owner, address: at, folder: path.resolve(folder) })}\n`;
  let mine = describe(address);
  const draft = `${lock}.${randomBytes(6).toString('hex')}`;
  try {
    writeFileSync(draft, mine, { mode: 0o600 });
    for (let attempt = 0; attempt < 10; attempt++) {
      if (link(draft, lock)) {
        const beat = setInterval(() => touch(lock), beatMs).unref();
        return {
          setAddress: (at) => {
            mine = describe(at);
            writeFileSync(draft, mine, { mode: 0o600 });
            renameSync(draft, lock);
          },
          release: () => {
            clearInterval(beat);
            if (read(lock) === mine) rmSync(lock, { force: true });
          },
        };
      }
      const theirs = read(lock);
      const other = theirs === null ? null : parse(theirs);
      if (other && isAlive(other, lock)) {
        if (isCopy(folder, other)) throw copied(folder, other);
        throw new EngineError(
          `Rowhouse is already running on ${folder} (process ${other.pid}, ${other.address}).`,
          {
            hint: 'Use that service, or stop it first. To run a second one, set ROWHOUSE_DATA to another folder and ROWHOUSE_PORT to another port.',
          },
        );
      }
      if (theirs !== null) moveAside(lock, theirs);
    }
    throw new EngineError(`The lock ${lock} could not be taken.`, { hint: 'Start again.' });
  } catch (error) {
    if (error instanceof EngineError) throw error;
    const hint = hintFor([String(error)]);
    throw new EngineError(`The lock ${lock} could not be taken: ${error}`, { ...(hint && { hint }) });
  } finally {
    rmSync(draft, { force: true });
  }
}

/** The process that holds the lock, or null. Changes nothing. */
export function findOwner(folder: string): Owner | null {
  const lock = path.join(folder, 'service.lock');
  const text = read(lock);
  const owner = text === null ? null : parse(text);
  return owner && isAlive(owner, lock) && !isCopy(folder, owner) ? owner : null;
}

/** Why the folder cannot be used, if it is a copy of one that is in use. Changes nothing. */
export function findCopied(folder: string): EngineError | null {
  const lock = path.join(folder, 'service.lock');
  const owner = parse(read(lock) ?? '');
  return owner && isAlive(owner, lock) && isCopy(folder, owner) ? copied(folder, owner) : null;
}

/** The lock came along with a copy of the folder, and its process works in the original. */
function isCopy(folder: string, owner: Owner): boolean {
  // Paths of another container mean nothing here.
  if (owner.folder === '' || owner.namespace !== namespace()) return false;
  const [original, here] = [owner.folder, folder].map((at) =>
    statSync(at, { throwIfNoEntry: false, bigint: true }),
  );
  // A folder that was renamed while it is in use is no copy.
  return original !== undefined && (original.dev !== here?.dev || original.ino !== here?.ino);
}

function copied(folder: string, owner: Owner): EngineError {
  const lock = path.join(folder, 'service.lock');
  return new EngineError(
    `${folder} is a copy of ${owner.folder}, taken while Rowhouse was running there (process ${owner.pid}, ${owner.address}).`,
    {
      hint: `Files that were copied one after the other do not fit together. Stop that service and copy the folder again, or restore a backup: rowhouse restore. Only if this is a snapshot of the whole disk at one moment, delete ${lock} and start again.`,
    },
  );
}

export function findPort(folder: string): number | null {
  const port = Number(read(path.join(folder, 'postgres.port')));
  return Number.isInteger(port) && port > 0 && port < 65_536 ? port : null;
}

export function rememberPort(folder: string, port: number): void {
  const file = path.join(folder, 'postgres.port');
  writeFileSync(`${file}.new`, `${port}\n`, { mode: 0o600 });
  renameSync(`${file}.new`, file);
}

const beatMs = 5_000;

/** A process in another container is not visible to us: then the heartbeat of the lock decides. */
function isAlive(owner: Owner, lock: string): boolean {
  if (owner.namespace === namespace()) return identify(owner.pid) === owner.process;
  const beat = statSync(lock, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  return Date.now() - beat < beatMs * 4;
}

function touch(file: string): void {
  try {
    utimesSync(file, new Date(), new Date());
  } catch {
    // The lock is gone or not writable: it no longer protects anything.
  }
}

/** Processes with the same value here see the same process ids. */
function namespace(): string {
  try {
    return `${hostname()} ${readlinkSync('/proc/self/ns/pid')}`;
  } catch {
    return hostname();
  }
}

/** Identifies a process beyond its id, which the system reuses. null: no such process. */
function identify(pid: number): string | null {
  try {
    if (process.platform === 'linux') {
      const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
      const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
      const fields = stat.slice(stat.lastIndexOf(')')).split(' ');
      // A zombie has ended; its parent has not collected it yet.
      return ['Z', 'X'].includes(fields[1] ?? '') ? null : `${boot} ${fields[20]}`;
    }
    if (process.platform === 'win32') {
      process.kill(pid, 0);
      return String(pid);
    }
    return execFileSync('ps', ['-p', String(pid), '-o', 'lstart='], { encoding: 'utf8' }).trim() || null;
  } catch {
    return null;
  }
}

/** Returns whether the link was created. */
function link(from: string, to: string): boolean {
  try {
    linkSync(from, to);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

/** Removes the lock of a dead process. If another service has just taken the lock, its lock is put back. */
function moveAside(lock: string, expected: string): void {
  const aside = `${lock}.${process.pid}.stale`;
  try {
    renameSync(lock, aside);
  } catch {
    return;
  }
  if (read(aside) !== expected) link(aside, lock);
  rmSync(aside, { force: true });
}

function read(file: string): string | null {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return null;
  }
}

function parse(text: string): Owner | null {
  try {
    const { pid, process: identity, namespace: place, address, folder } = JSON.parse(text) as Partial<Owner>;
    if (typeof pid !== 'number' || typeof identity !== 'string') return null;
    const of = { pid, process: identity, namespace: place ?? namespace() };
    // Earlier versions did not name their folder.
    return { ...of, address: String(address), folder: folder ?? '' };
  } catch {
    return null;
  }
}

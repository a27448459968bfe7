// The file master.key: read, make, put back. Nothing here decides whether a key belongs to the data: master-key-fit.ts does.
import { createHmac, randomBytes } from 'node:crypto';
import {
  closeSync,
  constants,
  fstatSync,
  fsyncSync,
  linkSync,
  lstatSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { EngineError, hintFor } from '../engine-error.ts';

/** `remedy`: what to do about a file that holds the right key but must not or cannot be used as it is. */
export type KeyFile =
  | { kind: 'key'; key: Buffer }
  | { kind: 'missing' }
  | { kind: 'unusable'; problem: string; remedy?: string };

/** Far more than 64 digits and blanks: what is larger is not a key. */
const maxBytes = 4096;

export function masterKeyFile(dataFolder: string): string {
  return path.join(dataFolder, 'master.key');
}

/** Tells whether a master key is the one this installation began with, and tells nothing else. */
export function masterKeyCheck(masterKey: Buffer): string {
  return createHmac('sha256', masterKey).update('rowhouse master key check').digest('hex');
}

/** 64 hex digits, as in the file; blanks around them are allowed. */
export function parseMasterKey(text: string): Buffer | null {
  const digits = text.trim();
  return /^[0-9a-f]{64}$/i.test(digits) ? Buffer.from(digits, 'hex') : null;
}

/** Looks at the file and changes nothing. A link is followed, because operators keep the key on another disk. */
export function readKeyFile(file: string): KeyFile {
  let descriptor: number;
  try {
    // Opening a pipe would wait for a writer.
    descriptor = openSync(file, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
  } catch (error) {
    return cannotOpen(file, (error as NodeJS.ErrnoException).code ?? String(error));
  }
  try {
    const stat = fstatSync(descriptor);
    if (!stat.isFile()) return { kind: 'unusable', problem: `${file} is not a regular file` };
    const bytes = Buffer.alloc(maxBytes + 1);
    const length = readSync(descriptor, bytes, 0, bytes.length, 0);
    const key = length > maxBytes ? null : parseMasterKey(bytes.toString('utf8', 0, length));
    if (!key) {
      const content = length === 0 ? 'it is empty' : 'a key has 64 hex digits';
      return { kind: 'unusable', problem: `${file} does not contain a master key: ${content}` };
    }
    if (process.platform !== 'win32' && (stat.mode & 0o077) !== 0) {
      const problem = `${file} is accessible to other users`;
      return { kind: 'unusable', problem, remedy: `Run: chmod 600 ${file}` };
    }
    return { kind: 'key', key };
  } finally {
    closeSync(descriptor);
  }
}

/** A new key for an installation that has no data yet. Of several processes at once, one key wins. */
export function makeMasterKey(dataFolder: string): Buffer {
  return makeKeyFile(masterKeyFile(dataFolder));
}

/** The key in this file, which is made if it does not exist. */
export function makeKeyFile(file: string): Buffer {
  try {
    write(file, randomBytes(32));
  } catch (error) {
    const hint = hintFor([String(error)]);
    throw new EngineError(`The master key ${file} cannot be written: ${(error as Error).message}`, {
      ...(hint && { hint }),
    });
  }
  const found = readKeyFile(file);
  if (found.kind === 'key') return found.key;
  throw new EngineError(`The master key ${file} cannot be read back.`);
}

/** Puts a key back. A file that was there is renamed, never deleted: it may be the key of other data. */
export function replaceMasterKey(dataFolder: string, key: Buffer): { keptAs: string | null } {
  const file = masterKeyFile(dataFolder);
  const keptAs = isThere(file) ? `${file}.replaced-${new Date().toISOString().replace(/[:.]/g, '-')}` : null;
  if (keptAs) renameSync(file, keptAs);
  write(file, key);
  const found = readKeyFile(file);
  if (found.kind !== 'key' || !found.key.equals(key)) {
    throw new EngineError(`Another process changed ${file} at the same time.`, { hint: 'Import it again.' });
  }
  return { keptAs };
}

/** Leaves a file alone that is there already. */
function write(file: string, key: Buffer): void {
  // Written whole under another name first: a crash never leaves half a key that would seal and then not open.
  const draft = `${file}.${randomBytes(6).toString('hex')}`;
  try {
    writeFileSync(draft, `${key.toString('hex')}\n`, { mode: 0o600, flag: 'wx', flush: true });
    linkSync(draft, file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  } finally {
    rmSync(draft, { force: true });
  }
  flushFolder(path.dirname(file));
}

/** The name has to survive a power failure as well: data that is sealed with a lost key is lost too. */
export function flushFolder(folder: string): void {
  // Windows opens no folders.
  if (process.platform === 'win32') return;
  const descriptor = openSync(folder, constants.O_RDONLY);
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/** Also for a link that leads nowhere. */
function isThere(file: string): boolean {
  return lstatSync(file, { throwIfNoEntry: false }) !== undefined;
}

function cannotOpen(file: string, code: string): KeyFile {
  if (code === 'ENOENT') {
    if (!isThere(file)) return { kind: 'missing' };
    const remedy = 'If the file is on another disk, mount that disk, then start again.';
    return { kind: 'unusable', problem: `${file} is a link to a file that does not exist`, remedy };
  }
  if (code === 'EACCES' || code === 'EPERM') {
    const remedy = `Make the account that runs the service the owner of ${file}.`;
    return { kind: 'unusable', problem: `${file} cannot be read (${code})`, remedy };
  }
  return { kind: 'unusable', problem: `${file} cannot be read (${code})` };
}

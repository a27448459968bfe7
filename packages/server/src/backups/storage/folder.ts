// Backups in a folder. An object is written under a temporary name, flushed to the disk and only then given its name, and
// the folder is flushed too: an object that is listed survives a power failure.
import { createHash, randomBytes } from 'node:crypto';
import type { Dirent } from 'node:fs';
import { type FileHandle, link, mkdir, open, readdir, rename, rm, rmdir, stat } from 'node:fs/promises';
import path from 'node:path';
import { readDisk } from '../../servers/embedded/disk.ts';
import {
  type Content,
  checkName,
  deleteEach,
  type Storage,
  StorageError,
  type Stored,
  type StoredObject,
} from './storage.ts';

/** Temporary names live here. A name that begins with a dot is never an object. */
const incoming = '.incoming';
/** The free space is checked before each of these. */
const checkEveryBytes = 16 * 1024 * 1024;
const readBytes = 256 * 1024;

/** `reserveBytes`: as for the disk of the data. null: the default, 0: none. */
export function openFolder(root: string, reserveBytes: number | null): Storage {
  const pathOf = (name: string) => {
    checkName(name);
    return path.join(root, name);
  };

  const put = async (name: string, content: Content, signal?: AbortSignal): Promise<Stored> => {
    const target = pathOf(name);
    const draft = path.join(root, incoming, draftStart(topOf(name)) + randomBytes(12).toString('hex'));
    await makeIncoming(root);
    try {
      const stored = await writeDraft(draft, content, signal);
      await makeFoldersBelow(root, path.dirname(target));
      await giveName(draft, target, name);
      await flushFolder(path.dirname(target));
      return stored;
    } finally {
      await rm(draft, { force: true });
    }
  };

  const writeDraft = async (draft: string, content: Content, signal?: AbortSignal): Promise<Stored> => {
    const hash = createHash('sha256');
    const handle = await open(draft, 'wx', 0o600);
    try {
      let bytes = 0;
      let checkAt = 0;
      for await (const piece of content) {
        signal?.throwIfAborted();
        if (bytes >= checkAt) {
          checkSpace(root, reserveBytes);
          checkAt = bytes + checkEveryBytes;
        }
        hash.update(piece);
        await writeAll(handle, piece);
        bytes += piece.length;
      }
      await handle.sync();
      return { bytes, sha256: hash.digest('hex') };
    } finally {
      await handle.close();
    }
  };

  const get = async (name: string, signal?: AbortSignal): Promise<AsyncIterable<Uint8Array>> => {
    const handle = await open(pathOf(name), 'r').catch((error) => {
      throw translate(error, name);
    });
    return readAll(handle, name, signal);
  };

  const deleteOne = async (name: string): Promise<void> => {
    await rm(pathOf(name), { force: true }).catch((error) => {
      throw translate(error, name);
    });
    await removeEmptyFolders(root, path.dirname(pathOf(name)));
  };

  return {
    kind: 'folder',
    source: async () => ({ location: { kind: 'folder', folder: root }, reserveBytes, repository: null }),
    place: root,
    prepare: () =>
      makeFolder(root).catch((error) => {
        throw translate(error, '');
      }),
    check: async () => {},
    put: (name, content, signal) =>
      put(name, content, signal).catch((error) => {
        throw translate(error, name);
      }),
    get,
    list: (prefix, signal) => listFiles(root, prefix, signal),
    folders: async (prefix) =>
      (await entriesOf(root, prefix)).filter((name) => name.endsWith('/')).map((name) => path.basename(name)),
    delete: deleteOne,
    deleteAll: (names) => deleteEach(names, deleteOne),
    removeUnfinished: (prefix, before) => removeDrafts(path.join(root, incoming), topOf(prefix), before),
    close: () => {},
  };
}

/** `write` may write less than it was given. */
async function writeAll(handle: FileHandle, piece: Uint8Array): Promise<void> {
  for (let at = 0; at < piece.length; ) {
    const { bytesWritten } = await handle.write(piece, at);
    at += bytesWritten;
  }
}

async function* readAll(handle: FileHandle, name: string, signal?: AbortSignal): AsyncGenerator<Uint8Array> {
  try {
    for (;;) {
      signal?.throwIfAborted();
      const { bytesRead, buffer } = await handle.read(Buffer.allocUnsafe(readBytes), 0, readBytes, null);
      if (bytesRead === 0) return;
      yield buffer.subarray(0, bytesRead);
    }
  } catch (error) {
    throw translate(error, name);
  } finally {
    await handle.close();
  }
}

/** Twice the reserve of the data: on one disk with it, backups stop before projects have to. */
function checkSpace(root: string, reserveBytes: number | null): void {
  const disk = readDisk(root, reserveBytes);
  const freeMb = Math.floor(disk.freeBytes / 1024 ** 2);
  const reserveMb = Math.ceil((disk.reserveBytes * 2) / 1024 ** 2);
  if (freeMb >= reserveMb) return;
  throw new StorageError(
    'full',
    `The disk of ${root} has ${freeMb} MB free, and backups leave ${reserveMb} MB of it free.`,
  );
}

/** A link fails if the name is taken; a rename would replace the object. File systems without links check first. */
async function giveName(draft: string, target: string, name: string): Promise<void> {
  try {
    await link(draft, target);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST') throw exists(name);
    if (!['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK'].includes(code ?? '')) throw error;
    const isTaken = await stat(target).then(
      () => true,
      () => false,
    );
    if (isTaken) throw exists(name);
    await rename(draft, target);
  }
}

function exists(name: string): StorageError {
  return new StorageError('exists', `There is already an object ${name}.`);
}

/** Never the root: it may be a disk that is not mounted. */
async function makeIncoming(root: string): Promise<void> {
  await mkdir(path.join(root, incoming), { mode: 0o700 }).catch((error) => {
    if (error.code === 'ENOENT') throw new StorageError('unavailable', `The folder ${root} is missing.`);
    if (error.code !== 'EEXIST') throw error;
  });
}

async function makeFoldersBelow(root: string, folder: string): Promise<void> {
  if (folder === root) return;
  const isThere = await stat(folder).then(
    () => true,
    () => false,
  );
  if (isThere) return;
  const parent = path.dirname(folder);
  await makeFoldersBelow(root, parent);
  await mkdir(folder, { mode: 0o700 }).catch((error) => {
    if (error.code !== 'EEXIST') throw error;
  });
  await flushFolder(parent);
}

/** Each new folder is flushed in the one that contains it. */
async function makeFolder(folder: string): Promise<void> {
  const first = await mkdir(folder, { recursive: true, mode: 0o700 });
  if (first === undefined) return;
  for (let at = path.dirname(folder); at.length >= path.dirname(first).length; at = path.dirname(at)) {
    await flushFolder(at);
    if (at === path.parse(at).root) return;
  }
}

async function flushFolder(folder: string): Promise<void> {
  // Windows opens no folders.
  if (process.platform === 'win32') return;
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function* listFiles(root: string, prefix: string, signal?: AbortSignal): AsyncGenerator<StoredObject> {
  // The folders above the last slash are known; only the rest has to be compared.
  const folder = prefix.slice(0, prefix.lastIndexOf('/') + 1);
  yield* walk(root, folder, prefix, signal);
}

async function* walk(
  root: string,
  folder: string,
  prefix: string,
  signal?: AbortSignal,
): AsyncGenerator<StoredObject> {
  signal?.throwIfAborted();
  for (const name of await entriesOf(root, folder)) {
    if (name.endsWith('/')) {
      if (name.startsWith(prefix) || prefix.startsWith(name)) yield* walk(root, name, prefix, signal);
      continue;
    }
    if (!name.startsWith(prefix)) continue;
    const found = await stat(path.join(root, name)).catch(() => null);
    if (found) yield { name, bytes: found.size, storedAt: found.mtime };
  }
}

/** Whole names, sorted as S3 sorts them: a folder by its name with the slash. */
async function entriesOf(root: string, folder: string): Promise<string[]> {
  const entries = await readdir(path.join(root, folder), { withFileTypes: true }).catch((error) => {
    if (error.code === 'ENOENT') return [] as Dirent[];
    throw translate(error, folder);
  });
  return entries
    .filter((entry) => !entry.name.startsWith('.') && (entry.isDirectory() || entry.isFile()))
    .map((entry) => `${folder}${entry.name}${entry.isDirectory() ? '/' : ''}`)
    .sort();
}

const topOf = (name: string) => name.slice(0, name.indexOf('/') + 1).slice(0, -1);
/** Temporary names begin with the topmost folder of the object, so that those of one server can be told from others. */
const draftStart = (top: string) => (top === '' ? '' : `${top}.`);

/**
 * Removes drafts below one topmost folder, or all if it is empty. A name without a dot is from an earlier version, or of an
 * object without a folder.
 */
async function removeDrafts(folder: string, top: string, before: Date): Promise<number> {
  let removed = 0;
  for (const name of await readdir(folder).catch(() => [])) {
    if (name.includes('.') && !name.startsWith(draftStart(top))) continue;
    const file = path.join(folder, name);
    const found = await stat(file).catch(() => null);
    if (!found || found.mtime >= before) continue;
    await rm(file, { force: true });
    removed++;
  }
  return removed;
}

async function removeEmptyFolders(root: string, folder: string): Promise<void> {
  for (let at = folder; at.length > root.length; at = path.dirname(at)) {
    const isRemoved = await rmdir(at).then(
      () => true,
      () => false,
    );
    if (!isRemoved) return;
  }
}

function translate(error: unknown, name: string): unknown {
  const { code, message } = error as NodeJS.ErrnoException;
  if (error instanceof StorageError || code === undefined || !/^E[A-Z]+$/.test(code)) return error;
  if (code === 'ENOENT') return new StorageError('missing', `There is no object ${name}.`, { cause: error });
  if (code === 'ENOSPC' || code === 'EDQUOT') return new StorageError('full', message, { cause: error });
  if (code === 'EACCES' || code === 'EPERM' || code === 'EROFS') {
    return new StorageError('denied', message, { cause: error });
  }
  return new StorageError('unavailable', message, { cause: error });
}

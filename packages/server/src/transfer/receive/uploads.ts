// Dumps that arrive in parts, so that a broken connection costs only what was on its way. A file in a folder that all processes
// of a machine share; its name holds the account, the upload's id, and in it the size that it may reach, so nothing else is
// stored. Its length is the offset at which the next part begins.
//
// A request that writes to a file, or imports it, first renames it: of several, in any process, one succeeds. A process that dies
// leaves its name in the name of the file; the next request takes it from there.
import { createHash, randomBytes } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { type FileHandle, open, readdir, rename, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import type { Upload } from '@rowhouse/api';
import { errors, RowhouseError } from '../../errors/errors.ts';
import { checkFirstBytes } from './first-bytes.ts';
import { atPace, type Pace } from './pace.ts';
import { isAlive, type Spool, spoolOf, writeAll } from './spool.ts';

type Options = {
  folder: string;
  pace: Pace;
  perAccount: number;
  keepMs: number;
  isDiskLow: () => boolean;
  onError: (error: unknown) => void;
};

/** A whole upload, which is being imported. */
export type Taken = {
  spool: Spool;
  /** It can be imported again. */
  putBack(): Promise<void>;
  drop(): Promise<void>;
};

type Held = Omit<Taken, 'spool'> & { handle: FileHandle; size: number; signal: AbortSignal };
type Holder = { abort: AbortController; ended: Promise<void> };

const idForm = /^([1-9]\d{0,14})-[0-9a-f]{32}$/;
const fileForm = /^([0-9a-f]{32})\.([1-9]\d{0,14}-[0-9a-f]{32})(?:\.(\d+)-[0-9a-f]{8})?$/;
/** A living holder writes at least once in each window of the pace. */
const windowsUntilStale = 5;

export type Uploads = ReturnType<typeof openUploads>;

export function openUploads({ folder, pace, perAccount, keepMs, isDiskLow, onError }: Options) {
  /** By name: who writes, in this process. */
  const holders = new Map<string, Holder>();
  let isSweepDue = false;

  const at = (name: string) => path.join(folder, name);
  const nameOf = (accountId: string, id: string) => {
    if (!idForm.test(id)) throw errors.uploadNotFound(id);
    return `${ownerOf(accountId)}.${id}`;
  };
  const maxBytesOf = (id: string) => Number(idForm.exec(id)?.[1]);

  const describe = (id: string, { size, mtimeMs }: { size: number; mtimeMs: number }): Upload => ({
    id,
    offset: size,
    max_bytes: maxBytesOf(id),
    expires_at: new Date(mtimeMs + keepMs).toISOString(),
  });

  const list = async () => {
    const files: { file: string; name: string; owner: string; id: string; pid: string | undefined }[] = [];
    for (const file of await readdir(folder).catch(orEmpty)) {
      const [, owner, id, pid] = fileForm.exec(file) ?? [];
      if (owner && id) files.push({ file, name: `${owner}.${id}`, owner, id, pid });
    }
    return files;
  };

  /** null: it went away meanwhile. */
  const look = (file: string) => stat(at(file)).catch((error) => (isMissing(error) ? null : fail(error)));

  /** Removes what has not grown for long. Again after a while: an upload may be the last request for days. */
  const sweep = async () => {
    for (const { file, name } of await list()) {
      const found = await look(file);
      if (found && !holders.has(name) && found.mtimeMs + keepMs <= Date.now())
        await rm(at(file), { force: true });
    }
    if (isSweepDue) return;
    isSweepDue = true;
    setTimeout(() => {
      isSweepDue = false;
      sweep().catch(onError);
    }, sweepMs).unref();
  };

  /**
   * Whether a file that is renamed belongs to a process that is gone. In this one, `holders` has no other by then: an earlier
   * process had the same id, as in a container.
   */
  const isAbandoned = async (file: string, pid: number) => {
    if (pid === process.pid || !isAlive(pid)) return true;
    const found = await look(file);
    return found !== null && found.mtimeMs + windowsUntilStale * pace.windowMs < Date.now();
  };

  /** Renames the file of an upload, so that no other request uses it. Returns its new name. */
  const claim = async (name: string, id: string): Promise<string> => {
    const mine = `${name}.${process.pid}-${randomBytes(4).toString('hex')}`;
    // Between two looks, another request may have given the file back or taken it.
    for (let attempt = 0; attempt < 3; attempt++) {
      if (await moved(at(name), at(mine))) return mine;
      const other = (await list()).find((found) => found.name === name);
      if (other?.pid === undefined) continue;
      if (!(await isAbandoned(other.file, Number(other.pid)))) throw errors.uploadBusy();
      if (await moved(at(other.file), at(mine))) return mine;
    }
    throw errors.uploadNotFound(id);
  };

  /** A client that sends again has given up its earlier request, although its connection may still look alive. */
  const displace = async (name: string) => {
    const earlier = holders.get(name);
    earlier?.abort.abort(errors.uploadBusy());
    await earlier?.ended;
  };

  /** The file is open, and nothing else uses it before `release`. */
  const hold = async (accountId: string, id: string): Promise<Held> => {
    const name = nameOf(accountId, id);
    await displace(name);
    if (holders.has(name)) throw errors.uploadBusy();
    const abort = new AbortController();
    let end = () => {};
    const ended = new Promise<void>((resolve) => {
      end = resolve;
    });
    holders.set(name, { abort, ended });
    const release = () => {
      holders.delete(name);
      end();
    };
    try {
      const file = at(await claim(name, id));
      const handle = await open(file, 'r+');
      const putBack = async () => {
        await moved(file, at(name)).finally(release);
      };
      const drop = () => rm(file, { force: true }).finally(release);
      return { handle, size: (await handle.stat()).size, signal: abort.signal, putBack, drop };
    } catch (error) {
      release();
      throw error;
    }
  };

  return {
    /** At the start: removes what is too old. */
    sweep,

    create: async (accountId: string, maxBytes: number): Promise<Upload> => {
      if (isDiskLow()) throw errors.serverFull();
      mkdirSync(folder, { recursive: true, mode: 0o700 });
      await sweep();
      const id = `${maxBytes}-${randomBytes(16).toString('hex')}`;
      const file = at(nameOf(accountId, id));
      const handle = await open(file, 'wx', 0o600);
      try {
        // Counted with its own file: of several requests at the same time, in any process, none counts too few.
        const own = (await list()).filter(({ owner }) => owner === ownerOf(accountId));
        if (own.length > perAccount) {
          await rm(file, { force: true });
          throw errors.uploadsPending(perAccount);
        }
        return describe(id, await handle.stat());
      } finally {
        await handle.close();
      }
    },

    list: async (accountId: string): Promise<Upload[]> => {
      const uploads: Upload[] = [];
      for (const { file, id, owner } of await list()) {
        const found = owner === ownerOf(accountId) && (await look(file));
        if (found) uploads.push(describe(id, found));
      }
      return uploads;
    },

    get: async (accountId: string, id: string): Promise<Upload> => {
      const name = nameOf(accountId, id);
      for (let attempt = 0; attempt < 3; attempt++) {
        const file = (await list()).find((found) => found.name === name)?.file;
        const found = file && (await look(file));
        if (found) return describe(id, found);
      }
      throw errors.uploadNotFound(id);
    },

    /** What arrived stays, however the request ends. It is on the disk before the caller learns of it. */
    append: async (accountId: string, id: string, offset: number, body: AsyncIterable<Buffer>) => {
      const { handle, size, signal, putBack } = await hold(accountId, id);
      try {
        if (size !== offset) throw errors.uploadOffset(size);
        const pieces = atPace(body, pace, signal);
        await write(handle, offset, maxBytesOf(id), offset === 0 ? checkFirstBytes(pieces) : pieces);
        return describe(id, await handle.stat());
      } finally {
        await handle.close().finally(putBack);
      }
    },

    /** For an import. Its end is `putBack` or `drop`. */
    take: async (accountId: string, id: string, bytes: number): Promise<Taken> => {
      const { handle, size, putBack, drop } = await hold(accountId, id);
      if (size === bytes) return { spool: spoolOf(handle, size), putBack, drop };
      await handle.close().finally(putBack);
      throw errors.uploadIncomplete(size);
    },

    remove: async (accountId: string, id: string): Promise<void> => {
      const { handle, drop } = await hold(accountId, id);
      await handle.close().finally(drop);
    },
  };

  async function write(handle: FileHandle, offset: number, maxBytes: number, pieces: AsyncIterable<Buffer>) {
    let end = offset;
    try {
      for await (const piece of pieces) {
        if (end + piece.length > maxBytes) throw errors.uploadTooLarge(maxBytes);
        if (isDiskLow()) throw errors.serverFull();
        await writeAll(handle, piece, end);
        end += piece.length;
      }
    } catch (error) {
      throw (error as { code?: unknown }).code === 'ENOSPC' && !(error instanceof RowhouseError)
        ? errors.serverFull(undefined, { cause: error })
        : error;
    } finally {
      await handle.datasync();
    }
  }
}

const sweepMs = 60 * 60_000;

/** The account in the name of a file: whatever an account's id contains, it is no path. */
function ownerOf(accountId: string): string {
  return createHash('sha256').update(accountId).digest('hex').slice(0, 32);
}

/** False: there is no such file (any more). */
async function moved(from: string, to: string): Promise<boolean> {
  try {
    await rename(from, to);
    return true;
  } catch (error) {
    return isMissing(error) ? false : fail(error);
  }
}

function isMissing(error: unknown): boolean {
  return (error as { code?: unknown }).code === 'ENOENT';
}

function orEmpty(error: unknown): string[] {
  return isMissing(error) ? [] : fail(error);
}

function fail(error: unknown): never {
  throw error;
}

// How much room is left on the disk on which the embedded PostgreSQL keeps its data. A full disk stops everybody at once
// and can stop PostgreSQL itself, so growth has to end before: at a reserve that only this file knows the state of.
import { type StatsFs, statfsSync } from 'node:fs';
import { statfs } from 'node:fs/promises';

export type DiskFacts = { freeBytes: number; totalBytes: number; reserveBytes: number };

export type DiskWatch = {
  /** Costs nothing: what the last look found, half a second ago at most, and 25 ms near the reserve. */
  isLow(): boolean;
  /** null: somebody else's disk, or it cannot be looked at. */
  facts(): DiskFacts | null;
  /** Looks now. */
  look(): Promise<void>;
  /** Called after each look that finds it low. */
  whileLow(act: () => void): void;
  stop(): void;
};

type Options = {
  /** null: the data lies on a machine of somebody else's, whose disk cannot be seen. Never low. */
  folder: string | null;
  /** null: the usual one. 0: there is none, and the disk is never low. */
  reserveBytes: number | null;
  onError: (error: unknown) => void;
};

const mb = 1024 * 1024;
/** Between two looks: the nearer to the reserve, the sooner the next. */
const [soonestMs, latestMs] = [25, 500];
/** Several sessions at once, rows and WAL together. */
const bytesPerMs = mb;
const usualReserveBytes = 1024 * mb;
/** What is written between a look and the end of those who are stopped because of it. */
const reactionBytes = 32 * mb;

/**
 * Of a disk of this size: beside what is written until everybody is stopped, as much as PostgreSQL's log of changes may still
 * grow (max_wal_size, a sixteenth of the disk).
 */
export function usualReserve(totalBytes: number): number {
  return Math.floor(Math.min(usualReserveBytes, reactionBytes + totalBytes / 16));
}

/** What is free to an ordinary account; root's own reserve is not PostgreSQL's. */
export function readDisk(folder: string, reserveBytes: number | null): DiskFacts {
  return toFacts(statfsSync(folder), reserveBytes);
}

export function openDiskWatch({ folder, reserveBytes, onError }: Options): DiskWatch {
  if (folder === null) {
    return {
      isLow: () => false,
      facts: () => null,
      look: async () => {},
      whileLow: () => {},
      stop: () => {},
    };
  }
  let facts: DiskFacts | null = null;
  let low = false;
  let told = false;
  let looking: Promise<void> | null = null;
  let isStopped = false;
  const listeners: (() => void)[] = [];

  const take = (found: DiskFacts) => {
    facts = found;
    // Fine again only well above: a disk that stands at the edge must not change its mind with every file.
    const more = Math.max(Math.min(64 * mb, found.totalBytes / 32), found.reserveBytes / 20);
    low = found.reserveBytes > 0 && found.freeBytes < found.reserveBytes + (low ? more : 0);
    told = false;
    if (low) for (const act of listeners) act();
  };
  const fail = (error: unknown) => {
    if (!told) onError(error);
    told = true;
  };
  /** Never two at once: on a disk that does not answer they would pile up. */
  const look = (): Promise<void> => {
    looking ??= statfs(folder)
      .then((found) => take(toFacts(found, reserveBytes)))
      .catch(fail)
      .finally(() => {
        looking = null;
      });
    return looking;
  };

  try {
    take(readDisk(folder, reserveBytes));
  } catch (error) {
    fail(error);
  }
  let timer: NodeJS.Timeout;
  const lookLater = () => {
    const roomMs = facts ? (facts.freeBytes - facts.reserveBytes) / bytesPerMs : latestMs;
    const pauseMs = Math.min(latestMs, Math.max(soonestMs, roomMs / 2));
    timer = setTimeout(() => look().then(() => isStopped || lookLater()), pauseMs).unref();
  };
  lookLater();
  return {
    isLow: () => low,
    facts: () => facts,
    look: async () => {
      // One that is under way may have seen the disk before whatever the caller did.
      await looking;
      await look();
    },
    whileLow: (act) => {
      listeners.push(act);
    },
    stop: () => {
      isStopped = true;
      clearTimeout(timer);
    },
  };
}

function toFacts({ bavail, blocks, bsize }: StatsFs, reserveBytes: number | null): DiskFacts {
  const totalBytes = blocks * bsize;
  return { freeBytes: bavail * bsize, totalBytes, reserveBytes: reserveBytes ?? usualReserve(totalBytes) };
}

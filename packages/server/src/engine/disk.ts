// How much room is left on the disk on which the embedded PostgreSQL keeps its data. A full disk stops everybody at once
// and can stop PostgreSQL itself, so growth has to end before: at a reserve that only this file knows the state of.
import { type StatsFs, statfsSync } from 'node:fs';
import { statfs } from 'node:fs/promises';

export type DiskFacts = { freeBytes: number; totalBytes: number; reserveBytes: number };

export type DiskWatch = {
  /** Costs nothing: what the last look found, half a second ago at most. */
  isLow(): boolean;
  /** null: somebody else's disk, or it cannot be looked at. */
  facts(): DiskFacts | null;
  /** Looks now. */
  look(): Promise<void>;
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
const lookMs = 500;
const usualReserveBytes = 1024 * mb;
const usualPart = 0.05;

/** Of a disk of this size. A twentieth at most: on a small disk a fixed reserve would refuse everything from the start. */
export function usualReserve(totalBytes: number): number {
  return Math.floor(Math.min(usualReserveBytes, totalBytes * usualPart));
}

/** What is free to an ordinary account; root's own reserve is not PostgreSQL's. */
export function readDisk(folder: string, reserveBytes: number | null): DiskFacts {
  return toFacts(statfsSync(folder), reserveBytes);
}

export function openDiskWatch({ folder, reserveBytes, onError }: Options): DiskWatch {
  if (folder === null) {
    return { isLow: () => false, facts: () => null, look: async () => {}, stop: () => {} };
  }
  let facts: DiskFacts | null = null;
  let low = false;
  let told = false;
  let looking: Promise<void> | null = null;

  const take = (found: DiskFacts) => {
    facts = found;
    // Fine again only well above: a disk that stands at the edge must not change its mind with every file.
    const enough = found.reserveBytes + (low ? Math.max(64 * mb, found.reserveBytes * usualPart) : 0);
    low = found.reserveBytes > 0 && found.freeBytes < enough;
    told = false;
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
  const timer = setInterval(look, lookMs).unref();
  return {
    isLow: () => low,
    facts: () => facts,
    look: async () => {
      // One that is under way may have seen the disk before whatever the caller did.
      await looking;
      await look();
    },
    stop: () => clearInterval(timer),
  };
}

function toFacts({ bavail, blocks, bsize }: StatsFs, reserveBytes: number | null): DiskFacts {
  const totalBytes = blocks * bsize;
  return { freeBytes: bavail * bsize, totalBytes, reserveBytes: reserveBytes ?? usualReserve(totalBytes) };
}

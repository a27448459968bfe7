// Watches the free space on the disk of the embedded PostgreSQL. A full disk stops all projects at once and can stop
// PostgreSQL itself, so growth must end earlier: at a reserve, which is defined and tracked here.

import { type StatsFs, statfsSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { mb } from '../../lib/bytes.ts';

export type DiskFacts = { freeBytes: number; totalBytes: number; reserveBytes: number };

export type DiskWatch = {
  /** Cheap: the result of the last check, which is at most two seconds old, and 25 ms near the reserve. */
  isLow(): boolean;
  /** null: the disk is on another machine, or cannot be read. */
  facts(): DiskFacts | null;
  /** Checks now. */
  look(): Promise<void>;
  /** Called after each check that finds the disk low. */
  whileLow(act: () => void): void;
  stop(): void;
};

type Options = {
  /** null: the data is on another machine, whose disk is not visible. Never low. */
  folder: string | null;
  /** null: the default. 0: no reserve, and the disk is never low. */
  reserveBytes: number | null;
  onError: (error: unknown) => void;
};

/** Time between two checks: the closer to the reserve, the shorter. */
const [soonestMs, latestMs] = [25, 2_000];
/** The assumed write rate of several sessions, rows and WAL together. */
const bytesPerMs = 4 * mb;
const usualReserveBytes = 1024 * mb;
/** Written between a check and the end of the statements that are stopped because of it. */
const reactionBytes = 32 * mb;

/**
 * The default for a disk of this size: the bytes written until all writers are stopped, plus the possible growth of the WAL
 * (max_wal_size, a sixteenth of the disk).
 */
export function usualReserve(totalBytes: number): number {
  return Math.floor(Math.min(usualReserveBytes, reactionBytes + totalBytes / 16));
}

/** Space that is free for ordinary accounts: PostgreSQL cannot use blocks reserved for root. */
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
    // Not low again only well above the reserve: at the threshold, the state must not change with every file.
    const more = Math.max(Math.min(64 * mb, found.totalBytes / 32), found.reserveBytes / 20);
    low = found.reserveBytes > 0 && found.freeBytes < found.reserveBytes + (low ? more : 0);
    told = false;
    if (low) for (const act of listeners) act();
  };
  const fail = (error: unknown) => {
    if (!told) onError(error);
    told = true;
  };
  /** Never two at once: on a disk that does not respond they would pile up. */
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
      // A check that is in progress may have read the disk before the caller's own change.
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

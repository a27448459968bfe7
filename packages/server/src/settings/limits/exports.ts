// How many exports run, how long, and with how much memory. See docs/export.md.

export const exportLimits = {
  /** On a server. Each has a thread with its own memory (about 25 MB) and reads as fast as it can. */
  slots: { all: 3, kept: 1 },
  /** Without a byte that the client takes. */
  stallMs: 60_000,
  maxMs: 60 * 60_000,
};

/**
 * pg_dump keeps all definitions in memory until it has written the last one, and 100 MB of a function's text take 1 MB in
 * PostgreSQL: a small project could take all the memory of the machine.
 */
export const maxDumpMemoryMb = 1_024;
/** How long pg_dump waits for a lock that a statement of the project holds. */
export const dumpLockWaitMs = 5_000;

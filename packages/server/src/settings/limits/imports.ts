// What an import may contain, how long it may take, and how many run. See docs/import.md.
import { mb } from '../../lib/bytes.ts';

const minuteMs = 60_000;

/** Tables, indexes and all other objects of a dump. A project can have 100,000 tables and indexes; a few entries belong to each. */
export const maxDumpObjects = 500_000;
/** Statements of a dump besides those that insert rows. pg_dump writes a few for each object: its owner, its grants, its comment. */
export const maxDumpStatements = 10 * maxDumpObjects;
/** Dependencies of an entry. They are read in one go, and all requests wait meanwhile. */
export const maxEntryDependencies = 100_000;
/** A text in an archive's table of contents. */
export const maxEntryTextBytes = 16 * mb;
/** An archive's table of contents. All its texts are in memory at once. */
export const maxContentsBytes = 128 * mb;
/** A statement of a script. */
export const maxDumpStatementBytes = 64 * mb;
/** A row. PostgreSQL would hold a larger one in memory as a whole. */
export const maxDumpRowBytes = 256 * mb;

/** The ratio of a dump's file to limit_mb: as text, data can be larger than in PostgreSQL. */
export const dumpFileFactor = 4;
/** The ratio of a dump's unpacked data to limit_mb: PostgreSQL compresses long values itself. */
export const unpackedDumpFactor = 16;
/** What a dump may have in addition, so that small projects can have one, too. */
export const extraDumpBytes = 64 * mb;

/** The slowest upload: so much has to arrive in each window. A line with 140 kbit/s is fast enough. */
export const uploadPace = { windowMs: minuteMs, minBytes: mb };

export const importLimits = {
  /** On a server. Each runs in a session of its own, as fast as PostgreSQL can. */
  running: { all: 3, kept: 1, waiting: 60 },
  /** Together with those that are arriving or waiting. */
  inAll: { all: 24, perAccount: 6, kept: 4 },
  /** Uploads that arrive at once. */
  arrivingPerAccount: 3,
  pace: uploadPace,
  /** Dumps that are kept for one account, and how long after their last byte. */
  keptPerAccount: 4,
  keepMs: 24 * 60 * minuteMs,
  statementMs: 10 * minuteMs,
  /** Without progress. Longer than a statement may take. */
  stallMs: 15 * minuteMs,
  maxMs: 6 * 60 * minuteMs,
};

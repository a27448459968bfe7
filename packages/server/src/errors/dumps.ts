// Errors of exports, imports and backups.
import { clip, RowhouseError } from './rowhouse-error.ts';

/** Ranges in a hint: the last ones. */
const maxChoices = 3;

/** The times that can be restored. */
type Range = { from: Date; to: Date };

/** Oldest first. `choices`: for a hint; empty if there are none. */
function describeRanges(ranges: readonly Range[]) {
  const restorable = ranges.map(({ from, to }) => ({ from: from.toISOString(), to: to.toISOString() }));
  return {
    choices: restorable
      .slice(-maxChoices)
      .map(({ from, to }) => `from ${from} to ${to}`)
      .join(', or '),
    details: {
      oldest_restorable: restorable[0]?.from ?? null,
      newest_restorable: restorable.at(-1)?.to ?? null,
      restorable,
    },
  };
}

/** A move that meets it goes on in another way. */
export class ExportLocked extends RowhouseError {
  constructor(cause: unknown) {
    super('conflict', 'Tables of this project are locked, so it cannot be exported now.', {
      retryAfterS: 5,
      hint: 'Try again when the statement that locks them has ended: ALTER TABLE, TRUNCATE, VACUUM FULL, REINDEX, or a transaction that is still open after one of them.',
      details: { retryable: true },
      cause,
    });
  }
}

export const dumpErrors = {
  exportRunning: () =>
    new RowhouseError('rate_limited', 'An export of this project is already running.', {
      retryAfterS: 10,
      hint: 'Try again when it has ended. A project has one export at a time.',
    }),
  /** `job`: of the move. */
  exportMoving: (job: string) =>
    new RowhouseError(
      'conflict',
      'This project is being moved to another server. Until the move has ended, it cannot be exported or branched.',
      {
        retryAfterS: 30,
        hint: `GET /api/dbaas/v2/jobs/${job} reports the progress of the move. Retry when it has ended.`,
        details: { retryable: true, job },
      },
    ),
  exportTidying: () =>
    new RowhouseError(
      'conflict',
      'A move of this project was undone and is still being cleaned up. Until then, it cannot be exported or branched.',
      {
        retryAfterS: 30,
        hint: 'Retry in a minute. A transaction that stays open delays the cleanup: end it.',
        details: { retryable: true },
      },
    ),
  exportLocked: (cause: unknown) => new ExportLocked(cause),
  /** `reason`: PostgreSQL's words. */
  exportRefused: (reason: string) =>
    new RowhouseError('conflict', `Not all of this project can be read: ${clip(reason)}.`, {
      hint: "An export reads with the rights of the owners. Grant SELECT on the table back to its owner; or, if row security is forced on it, ALTER TABLE … NO FORCE ROW LEVEL SECURITY, or give the service's own role BYPASSRLS.",
      details: { retryable: false },
    }),
  /** `reason`: the words of pg_dump. */
  exportFailed: (reason: string, cause: unknown) =>
    new RowhouseError('conflict', `pg_dump could not export this project: ${clip(reason)}.`, {
      hint: 'Try again. If it fails in the same way, change the object that the message names.',
      details: { retryable: true },
      cause,
    }),
  brokenDump: (problem: string, hint?: string) =>
    new RowhouseError('invalid_dump', `The dump cannot be imported: ${clip(problem, 200)}.`, {
      ...(hint && { hint }),
    }),
  /** `details`: as of project_full. */
  importFull: (details: unknown, hint: string) =>
    new RowhouseError('project_full', 'The data does not fit into limit_mb. Nothing was left behind.', {
      hint,
      details,
    }),
  /** `problem`: what PostgreSQL says about an entry of the dump. */
  importFailed: (problem: string) =>
    new RowhouseError('invalid_dump', `The dump cannot be imported: ${problem.slice(0, 500)}`, {
      hint: 'Nothing was left behind. Change what the message names, dump again, and import that.',
    }),
  dumpTooLarge: (maxMb: number) =>
    new RowhouseError('payload_too_large', `The dump is larger than ${maxMb} MB, four times limit_mb.`, {
      hint: 'Import it with a higher limit_mb, or dump with --format=custom, which compresses.',
      details: { max_bytes: maxMb * 1024 * 1024 },
    }),
  uploadTooSlow: () =>
    new RowhouseError('request_timeout', 'The dump arrived too slowly: less than 1 MB in a minute.', {
      hint: 'Send it again over a faster connection, or in parts: POST /uploads.',
    }),
  tooManyUploads: (most: number) =>
    new RowhouseError('rate_limited', `This account already has ${most} uploads in progress.`, {
      retryAfterS: 30,
      hint: 'Send it when one of them has ended.',
    }),
  uploadNotFound: (id: string) =>
    new RowhouseError('upload_not_found', `There is no upload "${clip(id)}".`, {
      hint: 'It was imported or deleted, has expired, or is on another machine of the service. Begin again: POST /uploads.',
    }),
  uploadBusy: () =>
    new RowhouseError('conflict', 'Another request is using this upload.', {
      retryAfterS: 5,
      hint: 'Get its offset when the other request has ended, and send the rest.',
      details: { retryable: true },
    }),
  uploadOffset: (offset: number) =>
    new RowhouseError('conflict', `The next byte of this upload is number ${offset}.`, {
      hint: `Send what comes after the first ${offset} bytes, with Upload-Offset: ${offset}.`,
      details: { retryable: true, offset },
    }),
  uploadIncomplete: (offset: number) =>
    new RowhouseError('conflict', `The upload has ${offset} bytes, which is not the size of the dump.`, {
      hint: 'Send the rest with PATCH /uploads/:id, or begin a new upload.',
      details: { retryable: true, offset },
    }),
  uploadTooLarge: (maxBytes: number) =>
    new RowhouseError('payload_too_large', `This upload takes at most ${maxBytes} bytes.`, {
      hint: 'Begin a new upload with the size of the dump, or with a higher limit_mb.',
      details: { max_bytes: maxBytes },
    }),
  uploadsPending: (most: number) =>
    new RowhouseError('rate_limited', `This account has ${most} uploads that are not imported yet.`, {
      retryAfterS: 60,
      hint: 'Import one or delete one: GET /uploads lists them. They expire by themselves.',
    }),
  /** `problem`: about the server that is to be copied. Never its address, which holds a password. */
  importSource: (problem: string) =>
    new RowhouseError('import_source_failed', `The server cannot be copied: ${clip(problem)}`, {
      hint: 'Check the address, the password, and that the server accepts connections from here. Or run pg_dump yourself, and upload the file.',
    }),
  importSourcePrivate: () =>
    new RowhouseError(
      'import_source_failed',
      'The server is in a private network, which imports may not reach.',
      {
        hint: 'Upload a dump instead; or set ROWHOUSE_IMPORT_PRIVATE_HOSTS=true, if every holder of an account key may reach the networks of this machine.',
      },
    ),
  importTooSlow: (limitMs: number) =>
    new RowhouseError(
      'query_timeout',
      `A statement of the dump took longer than ${Math.round(limitMs / 1000)} s.`,
      {
        hint: 'Nothing was left behind. Look for functions in defaults, checks and triggers that do not end.',
      },
    ),
  importTooLong: (limitMs: number) =>
    new RowhouseError(
      'query_timeout',
      `The import took longer than ${Math.round(limitMs / 60_000)} minutes.`,
      {
        hint: 'Nothing was left behind. Import it in parts, or when the machine is less busy.',
      },
    ),
  /** `time`: in words. */
  importStalled: (time: string, cause: Error) =>
    new RowhouseError('query_timeout', `The import was ended: it made no progress for ${time}.`, {
      hint: 'Nothing was left behind. Import it again; if it comes from a server, check whether a lock there blocks it.',
      cause,
    }),
  exportTooNew: (serverMajor: number) =>
    new RowhouseError(
      'unavailable',
      `This project is on PostgreSQL ${serverMajor}, which is newer than the pg_dump of the service.`,
      { hint: `Install pg_dump ${serverMajor} or newer on the machine that runs the service.` },
    ),
  backupsOff: () =>
    new RowhouseError('backups_off', 'Backups are turned off.', {
      hint: 'Set ROWHOUSE_BACKUP_URL to a folder (file:/path) or a bucket (s3://bucket/prefix), and restart the service.',
    }),
  backupsDamaged: (problems: string[]) =>
    new RowhouseError('backup_failed', `${problems.length} objects of the backups are damaged or missing.`, {
      hint: 'Take a new full backup now: POST /api/dbaas/v2/backups with {"kind": "full"}. Then look for the cause in the storage.',
      details: { problems },
    }),
  backupFailed: (message: string, hint: string, cause: unknown) =>
    new RowhouseError('backup_failed', message, { hint, cause }),
  /** `ranges`: what can be restored, oldest first. `at`: null for the last moment of all. */
  restoreOutOfRange: (at: Date | null, ranges: readonly Range[]) => {
    const { details, choices } = describeRanges(ranges);
    return new RowhouseError(
      'conflict',
      at ? `The state of ${at.toISOString()} is not in the backups.` : 'No backup can be restored.',
      {
        hint: choices
          ? `Choose a time ${choices}.`
          : 'There is no complete backup yet. The operator can start one: rowhouse backup now.',
        details: { retryable: false, ...details },
      },
    );
  },
  /** The newest changes cannot be stored now. `ranges`: as above. */
  restoreNotStored: (at: Date, ranges: readonly Range[]) => {
    const { details, choices } = describeRanges(ranges);
    return new RowhouseError(
      'conflict',
      `The state of ${at.toISOString()} is not in the backups yet: the service cannot store the newest changes at the moment.`,
      {
        retryAfterS: 60,
        hint: `Retry in a minute${choices ? `, or choose a time ${choices}` : ''}. The operator finds the cause with rowhouse doctor.`,
        details: { retryable: true, ...details },
      },
    );
  },
  drillFailed: (slug: string, problem: string, cause: unknown) =>
    new RowhouseError('backup_failed', `The restore drill of ${slug} failed: ${problem}`, {
      hint: 'Take a full backup now: POST /api/dbaas/v2/backups with {"kind": "full"}. Then look for the cause in the log.',
      cause,
    }),
  /** The live project cannot be compared now. That says nothing about the backups. */
  drillPostponed: (slug: string, reason: string, cause: unknown) =>
    new RowhouseError('conflict', `${slug} cannot be compared with a restored copy now: ${reason}`, {
      hint: 'Try again later. Or name another project.',
      details: { retryable: true },
      cause,
    }),
  drillUnavailable: () =>
    new RowhouseError('conflict', 'Restore drills need a data folder on the machine of the service.', {
      hint: 'Set ROWHOUSE_DATA to a folder with enough space, and restart the service.',
      details: { retryable: false },
    }),
  nothingToDrill: (reason: string) =>
    new RowhouseError('conflict', reason, {
      hint: 'Name a project on a server that is backed up: GET /api/dbaas/v2/backups lists them.',
      details: { retryable: false },
    }),
  snapshotNotFound: (name: string) =>
    new RowhouseError('snapshot_not_found', `The project has no snapshot "${clip(name)}".`, {
      hint: 'GET …/snapshots lists them.',
    }),
  restoreUnavailable: (reason: string, hint: string) =>
    new RowhouseError('conflict', reason, { hint, details: { retryable: false } }),
  restoreNotThere: () =>
    new RowhouseError('conflict', 'The project did not exist at that time.', {
      hint: 'Choose a time after its creation.',
      details: { retryable: false },
    }),
  restoreStalled: (cause: Error) =>
    new RowhouseError('backup_failed', `The restore was ended. ${cause.message}`, {
      hint: 'Try again. The operator looks for the cause in the log, and checks the backups: rowhouse backup verify.',
      cause,
    }),
  /** The reason names nothing of other projects. */
  restoreBroken: (reason: string) =>
    new RowhouseError('conflict', reason, {
      hint: 'Choose another time. The operator can check the backups: rowhouse backup verify.',
      details: { retryable: false },
    }),
};

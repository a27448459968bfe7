// Errors of projects, their limits and their jobs.
import { clip, type Extras, RowhouseError } from './rowhouse-error.ts';

const diskHint =
  'Reads and deletes still work. The operator must free space on the disk, or add some. Retry in 30 s.';

export const projectErrors = {
  projectNotFound: (slug: string) =>
    new RowhouseError(
      'project_not_found',
      `The project "${clip(slug)}" does not exist, or this key has no access to it.`,
      {
        hint: 'List the projects of this key with GET /api/dbaas/v2/projects.',
      },
    ),
  projectNotReady: (slug: string, job: string) =>
    new RowhouseError('project_not_ready', `The project "${slug}" is still being created.`, {
      hint: `GET /api/dbaas/v2/jobs/${job} reports the progress. DELETE cancels it.`,
      details: { job },
    }),
  jobNotFound: (id: string) => new RowhouseError('job_not_found', `There is no job "${id}".`),
  projectDeleted: (slug: string) =>
    new RowhouseError('project_not_found', `The project "${slug}" is deleted.`, {
      hint: 'Restore it with POST /api/dbaas/v2/projects/:slug/restore.',
    }),
  slugTaken: (slug: string) =>
    new RowhouseError('slug_taken', `The slug "${slug}" is taken.`, {
      hint: 'Choose another slug, or omit "slug" to get one that is derived from the name.',
    }),
  /** `what`: the statement that is in the way. */
  projectInUse: (message: string, what: { running_ms?: number; query?: string }) =>
    new RowhouseError('conflict', message, {
      hint: 'Retry when it has ended. Other requests of the project went on meanwhile.',
      details: { retryable: true, ...what },
      retryAfterS: 10,
    }),
  databaseInUse: (cause: unknown) =>
    new RowhouseError(
      'conflict',
      'Something is connected to the database of this project and does not leave it.',
      {
        hint: 'Try again in a few seconds. If this persists, end replication connections and prepared transactions of this database.',
        details: { retryable: true },
        retryAfterS: 10,
        cause,
      },
    ),
  /** `isFull`: the project is full already; otherwise it would be after this change. */
  projectFull: (facts: { limit_mb: number; size_mb: number }, isFull = true) =>
    new RowhouseError(
      'project_full',
      isFull
        ? `The project is full: it stores ${facts.size_mb} MB and limit_mb is ${facts.limit_mb}. Nothing was changed.`
        : `This change would exceed limit_mb: the project stores ${facts.size_mb} MB and limit_mb is ${facts.limit_mb}. Nothing was changed.`,
      {
        hint: 'Delete rows or drop tables, then reclaim their space with POST …/compact. Or raise limit_mb with an account key: PATCH /api/dbaas/v2/projects/:slug. Reads, DELETE, TRUNCATE, DROP and VACUUM still work.',
        details: facts,
      },
    ),
  needsMoreRoom: (facts: { limit_mb: number; size_mb: number }, needsMb: number) =>
    new RowhouseError(
      'project_full',
      `A statement that commits by itself (CONCURRENTLY, or a procedure with COMMIT) requires ${needsMb} MB of free space below limit_mb: the project stores ${facts.size_mb} MB and limit_mb is ${facts.limit_mb}. Nothing was changed.`,
      {
        hint: 'Omit CONCURRENTLY or COMMIT, delete data, or raise limit_mb with an account key: PATCH /api/dbaas/v2/projects/:slug.',
        details: facts,
      },
    ),
  stoppedHalfway: (facts: { limit_mb: number; size_mb: number }) =>
    new RowhouseError(
      'project_full',
      `The statement was stopped because the project came too close to limit_mb, which is ${facts.limit_mb}. Everything that it had already committed remains.`,
      {
        hint: 'Delete data, do less per statement, or raise limit_mb with an account key: PATCH /api/dbaas/v2/projects/:slug.',
        details: facts,
      },
    ),
  /** The machine's disk is full, not the project. Without facts, PostgreSQL itself ran out of disk space. */
  serverFull: (facts?: { free_mb: number; reserve_mb: number }, extras: Extras = {}) =>
    new RowhouseError('server_full', 'The disk of the service is nearly full. Nothing was changed.', {
      retryAfterS: 30,
      hint: diskHint,
      ...(facts && { details: facts }),
      ...extras,
    }),
  serverNotFound: (id: number | string) =>
    new RowhouseError('server_not_found', `There is no server ${clip(String(id))}.`, {
      hint: 'List the servers with GET /api/dbaas/v2/servers.',
    }),
  noRoom: () =>
    new RowhouseError('server_full', 'No server has room for this limit_mb. Nothing was changed.', {
      retryAfterS: 30,
      hint: 'Choose a lower limit_mb. Or the operator adds a server: rowhouse servers add.',
    }),
  /** For a statement that may have committed part of its work. */
  stoppedForDisk: () =>
    new RowhouseError(
      'server_full',
      'The statement was stopped because the disk of the service is nearly full. It was rolled back, except for anything that a CALL or DO had already committed.',
      { retryAfterS: 30, hint: diskHint },
    ),
  usageTimeout: (timeoutMs: number) =>
    new RowhouseError('query_timeout', `Measuring the tables took longer than ${timeoutMs} ms.`, {
      hint: 'Retry later: the machine is busy, or the project has very many tables. GET /api/dbaas/v2/projects/:slug returns the total size.',
      details: { timeout_ms: timeoutMs },
    }),
  usageLocked: (cause: unknown) =>
    new RowhouseError(
      'unavailable',
      'The tables of this project could not be measured because they are locked repeatedly.',
      {
        retryAfterS: 2,
        hint: 'Retry later. GET /api/dbaas/v2/projects/:slug returns the total size.',
        cause,
      },
    ),
};

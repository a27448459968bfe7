// Backups over HTTP, for the operator.
import {
  type Backup,
  BackupsResponse,
  DrillRestore,
  type Job,
  type JobKind,
  JobResponse,
  TakeBackup,
} from '@rowhouse/api';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { BackupStatus, Backups } from '../backups/backups.ts';
import type { BackupDescription } from '../backups/repository.ts';
import { rangesOf } from '../backups/restorable.ts';
import { errors } from '../errors.ts';
import type { JobRun } from '../jobs/jobs.ts';
import { requireAccount } from '../keys/caller.ts';
import { callerOf } from './caller.ts';
import type { Deps } from './deps.ts';

const description = 'Requires an account key.';

export function backupRoutes(app: FastifyInstance, deps: Deps): void {
  const tags = ['backups'];
  const opened = (request: FastifyRequest) => {
    const { accountId } = requireAccount(callerOf(request), 'manage backups');
    if (!deps.backups) throw errors.backupsOff();
    return { backups: deps.backups, accountId };
  };
  const start = async (
    request: FastifyRequest,
    kind: JobKind,
    work: (backups: Backups, run: JobRun) => Promise<Record<string, unknown>>,
  ): Promise<Job> => {
    const { backups, accountId } = opened(request);
    return deps.jobs.start({ kind, accountId }, (run) => work(backups, run));
  };

  app.get(
    '/backups',
    { schema: { tags, summary: 'List backups', description, response: { 200: BackupsResponse } } },
    async (request): Promise<BackupsResponse> => {
      const { backups } = opened(request);
      const [status, drills] = await Promise.all([backups.status(), drillsOf(deps)]);
      return { ...toResponse(status, backups), ...drills };
    },
  );

  app.post<{ Body: TakeBackup }>(
    '/backups',
    {
      schema: {
        tags,
        summary: 'Take a backup',
        description: `${description} Backups are also taken by themselves.`,
        body: TakeBackup,
        response: { 202: JobResponse },
      },
    },
    async (request, reply): Promise<JobResponse> => {
      const kind = request.body.kind ?? 'incremental';
      const job = await start(request, 'backup', async (backups, run) => ({
        backup: summaryOf(await backups.take(kind, run)),
      }));
      reply.status(202);
      return { ok: true, job };
    },
  );

  app.post(
    '/backups/verify',
    {
      schema: {
        tags,
        summary: 'Verify all backups',
        description: `${description} Reads everything back and decrypts it. The job fails if something is damaged or missing.`,
        response: { 202: JobResponse },
      },
    },
    async (request, reply): Promise<JobResponse> => {
      const job = await start(request, 'verify', async (backups, run) => {
        const { problems, ...verified } = await backups.verify(run);
        if (problems.length === 0) return verified;
        deps.log.error({ problems }, 'BACKUPS ARE DAMAGED');
        throw errors.backupsDamaged(problems);
      });
      reply.status(202);
      return { ok: true, job };
    },
  );

  app.post<{ Body: DrillRestore }>(
    '/backups/drill',
    {
      schema: {
        tags,
        summary: 'Prove that a project can be restored',
        description: `${description} Restores a project into a temporary copy, as of now, and compares every table with the live one. This also happens every night. The job fails if the restore fails or finds a difference. Requires the embedded PostgreSQL.`,
        body: DrillRestore,
        response: { 202: JobResponse },
      },
    },
    async (request, reply): Promise<JobResponse> => {
      const { accountId } = opened(request);
      const { drills, jobs } = deps;
      if (!drills) throw errors.drillUnavailable();
      const project = await drills.choose(callerOf(request), request.body.project ?? null);
      const job = await jobs.start({ kind: 'drill', accountId, projectId: project.id }, async (run) => {
        const { slug, compared, changed, seconds } = await drills.drill(project, run);
        return { project: slug, compared_tables: compared, changed_tables: changed, seconds };
      });
      reply.status(202);
      return { ok: true, job };
    },
  );

  app.post(
    '/backups/prune',
    {
      schema: {
        tags,
        summary: 'Delete backups that are no longer needed',
        description: `${description} This also happens by itself. A backup that another one needs is kept.`,
        response: { 202: JobResponse },
      },
    },
    async (request, reply): Promise<JobResponse> => {
      const job = await start(request, 'prune', (backups, { signal }) => backups.prune(signal));
      reply.status(202);
      return { ok: true, job };
    },
  );
}

async function drillsOf({ drills }: Deps) {
  const [verifiedAt, failing] = drills
    ? await Promise.all([drills.verifiedAt(), drills.failing()])
    : [null, 0];
  return {
    restore_verified_at: verifiedAt === null ? null : new Date(verifiedAt).toISOString(),
    failing_drills: failing,
  };
}

function toResponse(
  { backups, damaged, usable, restorable, slot, newestStoredAt, lastVerifiedAt, now }: BackupStatus,
  { place, isOnDataDisk }: Backups,
): Omit<BackupsResponse, 'restore_verified_at' | 'failing_drills'> {
  const isCurrent = slot?.restart != null && slot.lagBytes === 0;
  const ranges = rangesOf(restorable, usable.length > 0 ? (isCurrent ? now : newestStoredAt) : null);
  const behindSeconds = newestStoredAt && (now.getTime() - newestStoredAt.getTime()) / 1000;
  const lag = isCurrent ? 0 : (slot?.confirmSeconds ?? behindSeconds);
  return {
    ok: true,
    backups: backups.map(summaryOf),
    damaged,
    storage: place,
    is_on_data_disk: isOnDataDisk,
    oldest_restorable: ranges[0]?.from.toISOString() ?? null,
    newest_restorable: ranges.at(-1)?.to.toISOString() ?? null,
    restorable: ranges.map(({ from, to }) => ({ from: from.toISOString(), to: to.toISOString() })),
    lag_seconds: lag === null ? null : Math.round(Math.max(0, lag) * 10) / 10,
    lag_bytes: slot?.lagBytes ?? null,
    last_verified_at: lastVerifiedAt,
  };
}

function summaryOf(backup: BackupDescription): Backup {
  const { id, kind, parent, started_at, ended_at, databases, parts } = backup;
  const mb = (bytes: (part: BackupDescription['parts'][number]) => number) =>
    Math.round((parts.reduce((sum, part) => sum + bytes(part), 0) / 1024 ** 2) * 10) / 10;
  return {
    ...{ id, kind, parent, started_at, ended_at, databases: databases.length },
    size_mb: mb(({ bytes }) => bytes),
    stored_mb: mb(({ stored_bytes }) => stored_bytes),
  };
}

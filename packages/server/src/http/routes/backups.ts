// Backups over HTTP, for the operator.
import {
  type Backup,
  BackupsResponse,
  DrillRestore,
  type Job,
  type JobKind,
  JobResponse,
  OfServer,
  type ServerBackups,
  TakeBackup,
} from '@rowhouse/api';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import {
  chooseStored,
  chooseUsable,
  chooseVerifiable,
  pruneOn,
  takeOn,
  verifyOn,
} from '../../backups/on-servers.ts';
import type { BackupDescription } from '../../backups/repository/repository.ts';
import { listServerStatus, type ServerStatus } from '../../backups/server-status.ts';
import { errors } from '../../errors/errors.ts';
import type { JobRun } from '../../jobs/jobs.ts';
import { backupFailures } from '../../openapi/failure-sets.ts';
import type { Deps } from '../deps.ts';
import { accountOf, operatorOf } from '../request/authorize.ts';

const description = 'Requires an operator key.';

export function backupRoutes(app: FastifyInstance, deps: Deps): void {
  const tags = ['backups'];
  const opened = (request: FastifyRequest) => {
    const accountId = accountOf(operatorOf(request));
    if (!deps.backups) throw errors.backupsOff();
    return { fleet: { backups: deps.backups, servers: deps.servers }, accountId };
  };
  const start = (
    accountId: string | null,
    kind: JobKind,
    work: (run: JobRun) => Promise<Record<string, unknown>>,
  ): Promise<Job> => deps.jobs.start({ kind, accountId }, work);

  app.get<{ Querystring: OfServer }>(
    '/backups',
    {
      config: { action: 'service.operate', fails: backupFailures },
      schema: {
        operationId: 'listBackups',
        tags,
        summary: 'List backups',
        description,
        querystring: OfServer,
        response: { 200: BackupsResponse },
      },
    },
    async (request): Promise<BackupsResponse> => {
      const { fleet } = opened(request);
      const found = await listServerStatus(fleet, request.query.server ?? null);
      const described = await Promise.all(found.map((status) => toServer(deps, status)));
      const [{ name: _name, problem: _problem, hint: _hint, ...fields }] = described as [ServerBackups];
      return {
        ok: true,
        backups: found.flatMap(({ name, backups }) => backups.map((one) => summaryOf(name, one))),
        damaged: found.flatMap(({ name, damaged }) => damaged.map((one) => ({ ...one, server: name }))),
        storage: fleet.backups.place,
        is_on_data_disk: fleet.backups.isOnDataDisk,
        ...fields,
        servers: described,
        failing_drills: (await deps.drills?.failing()) ?? 0,
      };
    },
  );

  app.post<{ Body: TakeBackup }>(
    '/backups',
    {
      config: { action: 'service.operate', audit: null, fails: backupFailures },
      schema: {
        operationId: 'takeBackup',
        tags,
        summary: 'Take a backup',
        description: `${description} Backups are also taken by themselves. Without "server", one of each server that is backed up.`,
        body: TakeBackup,
        response: { 202: JobResponse },
      },
    },
    async (request, reply): Promise<JobResponse> => {
      const { kind = 'incremental', server = null, new_repository: isNew = false } = request.body;
      const { fleet, accountId } = opened(request);
      if (isNew) await fleet.backups.acceptRepository();
      const chosen = await chooseUsable(fleet, server);
      const job = await start(accountId, 'backup', async (run) => {
        const taken = await takeOn(chosen, kind, run);
        const backups = taken.map((one) => summaryOf(one.server, one.backup));
        return { backup: backups[0], backups };
      });
      reply.status(202);
      return { ok: true, job };
    },
  );

  app.post<{ Body: OfServer }>(
    '/backups/verify',
    {
      config: { action: 'service.operate', audit: null, fails: backupFailures },
      schema: {
        operationId: 'verifyBackups',
        tags,
        summary: 'Verify all backups',
        description: `${description} Reads everything back and decrypts it. The job fails if something is damaged or missing.`,
        body: OfServer,
        response: { 202: JobResponse },
      },
    },
    async (request, reply): Promise<JobResponse> => {
      const { fleet, accountId } = opened(request);
      const chosen = chooseVerifiable(fleet, request.body.server ?? null);
      const job = await start(accountId, 'verify', async (run) => {
        const { problems, ...verified } = await verifyOn(chosen, run);
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
      config: { action: 'service.operate', audit: null, fails: [...backupFailures, 'project_not_found'] },
      schema: {
        operationId: 'drillRestore',
        tags,
        summary: 'Prove that a project can be restored',
        description: `${description} Restores a project into a temporary copy, as of now, and compares every table with the live one. This also happens every night. The job fails if the restore fails or finds a difference. The machine of the service needs PostgreSQL programs of the major version of the server, which Rowhouse brings for one.`,
        body: DrillRestore,
        response: { 202: JobResponse },
      },
    },
    async (request, reply): Promise<JobResponse> => {
      const { accountId } = opened(request);
      const { drills, jobs } = deps;
      if (!drills) throw errors.drillUnavailable();
      const project = await drills.choose(operatorOf(request), request.body.project ?? null);
      const job = await jobs.start({ kind: 'drill', accountId, projectId: project.id }, async (run) => {
        const { slug, compared, changed, seconds } = await drills.drill(project, run);
        return { project: slug, compared_tables: compared, changed_tables: changed, seconds };
      });
      reply.status(202);
      return { ok: true, job };
    },
  );

  app.post<{ Body: OfServer }>(
    '/backups/prune',
    {
      config: { action: 'service.operate', audit: { action: 'backup.prune' }, fails: backupFailures },
      schema: {
        operationId: 'pruneBackups',
        tags,
        summary: 'Delete backups that are no longer needed',
        description: `${description} This also happens by itself. A backup that another one needs is kept.`,
        body: OfServer,
        response: { 202: JobResponse },
      },
    },
    async (request, reply): Promise<JobResponse> => {
      const { fleet, accountId } = opened(request);
      const chosen = chooseStored(fleet, request.body.server ?? null);
      const job = await start(accountId, 'prune', (run) => pruneOn(chosen, run));
      reply.status(202);
      return { ok: true, job };
    },
  );
}

async function toServer({ drills }: Deps, status: ServerStatus): Promise<ServerBackups> {
  const { name, server, problem, ranges, lagSeconds, lagBytes, lastVerifiedAt } = status;
  const restored = server && drills ? await drills.verifiedAt(server) : null;
  return {
    name,
    problem: problem?.reason ?? null,
    hint: problem?.hint ?? null,
    oldest_restorable: ranges[0]?.from.toISOString() ?? null,
    newest_restorable: ranges.at(-1)?.to.toISOString() ?? null,
    restorable: ranges.map(({ from, to }) => ({ from: from.toISOString(), to: to.toISOString() })),
    lag_seconds: lagSeconds === null ? null : Math.round(Math.max(0, lagSeconds) * 10) / 10,
    lag_bytes: lagBytes,
    last_verified_at: lastVerifiedAt,
    restore_verified_at: restored === null ? null : new Date(restored).toISOString(),
  };
}

function summaryOf(server: string, backup: BackupDescription): Backup {
  const { id, kind, parent, started_at, ended_at, databases, parts } = backup;
  const mb = (bytes: (part: BackupDescription['parts'][number]) => number) =>
    Math.round((parts.reduce((sum, part) => sum + bytes(part), 0) / 1024 ** 2) * 10) / 10;
  return {
    id,
    server,
    kind,
    parent,
    started_at,
    ended_at,
    databases: databases.length,
    size_mb: mb(({ bytes }) => bytes),
    stored_mb: mb(({ stored_bytes }) => stored_bytes),
  };
}

// Jobs over HTTP: progress, and an end on request.
import { JobResponse, JobsResponse } from '@rowhouse/api';
import type { FastifyInstance } from 'fastify';
import Type from 'typebox';
import { cancelJob, getJob, listJobs } from '../../jobs/rows.ts';
import type { Deps } from '../deps.ts';
import { anyCallerOf } from '../request/caller.ts';
import { visibleJob } from '../request/table-access.ts';

const JobParams = Type.Object({ id: Type.String({ description: "The job's id." }) });
type Params = { id: string };

export function jobRoutes(app: FastifyInstance, { control }: Deps): void {
  const tags = ['jobs'];

  app.get(
    '/jobs',
    {
      config: { action: 'jobs.read' },
      schema: {
        operationId: 'listJobs',
        tags,
        summary: 'List jobs',
        description:
          'Requires the scope manage. The last 100 jobs that the key can see. A job is kept for 30 days after its end. Of the result, a key that is limited to some tables sees only numbers.',
        response: { 200: JobsResponse },
      },
    },
    async (request): Promise<JobsResponse> => {
      const caller = anyCallerOf(request);
      const jobs = await listJobs(control, caller);
      return { ok: true, jobs: jobs.map((job) => visibleJob(caller, job)) };
    },
  );

  app.get<{ Params: Params }>(
    '/jobs/:id',
    {
      config: { action: 'jobs.read', fails: ['job_not_found'] },
      schema: {
        operationId: 'getJob',
        tags,
        summary: 'Get a job',
        description:
          'Requires the scope manage. A key of a project sees only jobs of that project. A job is kept for 30 days after its end.',
        params: JobParams,
        response: { 200: JobResponse },
      },
    },
    async (request): Promise<JobResponse> => {
      const caller = anyCallerOf(request);
      return { ok: true, job: visibleJob(caller, await getJob(control, caller, request.params.id)) };
    },
  );

  app.delete<{ Params: Params }>(
    '/jobs/:id',
    {
      config: { action: 'jobs.cancel', audit: null, fails: ['job_not_found', 'conflict'] },
      schema: {
        operationId: 'cancelJob',
        tags,
        summary: 'Cancel a job',
        description:
          'Requires the scope manage. The job ends within seconds and leaves nothing behind. A job that has ended is unchanged.',
        params: JobParams,
        response: { 202: JobResponse },
      },
    },
    async (request, reply): Promise<JobResponse> => {
      const caller = anyCallerOf(request);
      const job = await cancelJob(control, caller, request.params.id);
      reply.status(202);
      return { ok: true, job: visibleJob(caller, job) };
    },
  );
}

// rowhouse status: shows whether a service answers and is ready. The exit status says the same.
import type { HealthResponse, ProjectsResponse, ReadyResponse } from '@rowhouse/api';
import type { Command } from 'commander';
import { type ApiOptions, callApi, callService, readUrl, withApiOptions } from '../api.ts';
import { Failure, type FailureBody } from '../failure.ts';
import { show } from '../output.ts';
import { formatFields } from '../table.ts';

type Status = {
  ok: boolean;
  url: string;
  healthz: HealthResponse;
  readyz: ReadyResponse | FailureBody;
  /** Only with a key. */
  projects?: number | FailureBody;
};

const pageSize = 1000;

export function addStatus(program: Command): void {
  const command = program
    .command('status')
    .summary('show whether a service is ready')
    .description('Show whether a service is ready. The exit status is 0 if it is.');
  withApiOptions(command).action(status);
}

async function status(options: ApiOptions): Promise<void> {
  const healthz = await callService<HealthResponse>(options, '/healthz');
  const readyz = await orRefusal(callService<ReadyResponse>(options, '/readyz'));
  const counted = readyz.ok && options.key ? await orRefusal(countProjects(options)) : undefined;
  const answer: Status = {
    ok: readyz.ok,
    url: readUrl(options.url),
    healthz,
    readyz,
    ...(counted !== undefined && { projects: counted }),
  };
  show(options, answer, describe);
  if (!readyz.ok) process.exitCode = 1;
}

function describe({ url, healthz, readyz, projects }: Status): string {
  return formatFields([
    ['address', url],
    ['version', healthz.version],
    ['running', `for ${formatSeconds(healthz.uptime_s)}`],
    ['state', readyz.ok ? 'ready' : `not ready: ${readyz.error.message}`],
    ['PostgreSQL', readyz.ok ? readyz.postgres : 'does not answer'],
    ...(projects === undefined
      ? []
      : [
          [
            'projects',
            typeof projects === 'number' ? projects : `unknown: ${projects.error.message}`,
          ] as const,
        ]),
  ]);
}

async function countProjects(options: ApiOptions): Promise<number> {
  let count = 0;
  for (let page = 1; ; page++) {
    const query = { limit: pageSize, page };
    const answer = await callApi<ProjectsResponse>(options, 'GET', ['projects'], { query });
    count += answer.projects.length;
    if (!answer.has_more) return count;
  }
}

/** A running service may still refuse or not answer. Here that is part of the result. */
async function orRefusal<T>(work: Promise<T>): Promise<T | FailureBody> {
  return work.catch((error: unknown) => {
    if (error instanceof Failure) return error.body;
    throw error;
  });
}

function formatSeconds(seconds: number): string {
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172_800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86_400)} days`;
}

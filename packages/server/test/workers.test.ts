import { expect, it } from 'vitest';
import { soon, until } from './helpers.ts';
import { launch, newAccountKey, usedDataFolder } from './process.ts';

it('two workers: both serve, revocation holds on both, metrics are added up, a dead one is replaced', async () => {
  const service = await launch({
    ROWHOUSE_DATA: await usedDataFolder(),
    ROWHOUSE_ACCOUNT_KEY: newAccountKey(),
    ROWHOUSE_WORKERS: '2',
  });
  expect(service.output()).toContain('ready');
  const { body: created } = await service.call('POST', '/projects', { body: { name: 'Shared' } });
  const slug = created.project.slug;
  const issued = await service.call('POST', `/projects/${slug}/keys`, {
    body: { name: 'k', scopes: ['query'] },
  });
  const key = issued.body.api_key;
  const many = async () => {
    const answers = await Promise.all(
      Array.from({ length: 12 }, () => service.call('GET', '/projects', { key })),
    );
    return new Set(answers.map(({ status }) => status));
  };
  expect(await many()).toEqual(new Set([200]));
  await service.call('DELETE', `/projects/${slug}/keys/${issued.body.key.id}`);
  await until(
    'every process refuses it',
    async () => {
      const statuses = await many();
      return statuses.size === 1 && statuses.has(401);
    },
    soon,
  );

  const metrics = (await service.call('GET', '/metrics')).body as string;
  const [, count] =
    /rowhouse_http_request_seconds_count\{method="POST",route="\/api\/dbaas\/v2\/projects",status="201"\} (\d+)/.exec(
      metrics,
    ) ?? [];
  expect(count).toBe('1');
  expect(metrics).toContain('rowhouse_projects 1');
  expect(metrics).toContain('rowhouse_postgres_restarts 0');

  const children = await until('the workers are there', async () => {
    const { execFileSync } = await import('node:child_process');
    const pids = execFileSync('ps', ['--ppid', String(service.child.pid), '-o', 'pid=,comm='], {
      encoding: 'utf8',
    });
    const workers = pids.split('\n').filter((line) => line.includes('node'));
    return workers.length === 2 && workers.map((line) => Number.parseInt(line, 10));
  });
  process.kill(children[0] ?? 0, 'SIGKILL');
  await until('it goes on', async () => {
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => service.call('GET', '/readyz').catch(() => ({ status: 0 }))),
    );
    return answers.every(({ status }) => status === 200);
  });
  expect(await service.stop()).toBe(0);
});

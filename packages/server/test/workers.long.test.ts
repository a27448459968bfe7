import { execFileSync } from 'node:child_process';
import { expect, it } from 'vitest';
import { soon, until } from './helpers.ts';
import { launch, newAccountKey, usedDataFolder } from './process.ts';

it('two workers both serve, apply revocations, add up their metrics, and a dead one is replaced', async () => {
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

  const families = [...metrics.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name);
  expect(new Set(families).size, 'no family comes twice').toBe(families.length);
  const children = workersOf(service.child.pid ?? 0);
  expect(children.length).toBe(2);
  process.kill(children[0] ?? 0, 'SIGKILL');
  await until('another takes its place', async () => {
    const now = workersOf(service.child.pid ?? 0);
    return now.length === 2 && !now.includes(children[0] ?? 0);
  });
  await until('it goes on', async () => {
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => service.call('GET', '/readyz').catch(() => ({ status: 0 }))),
    );
    return answers.every(({ status }) => status === 200);
  });
  expect(await service.stop()).toBe(0);
});

function workersOf(pid: number): number[] {
  const lines = execFileSync('ps', ['--ppid', String(pid), '-o', 'pid=,comm='], { encoding: 'utf8' }).split(
    '\n',
  );
  return lines.filter((line) => line.includes('node')).map((line) => Number.parseInt(line, 10));
}

import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';
import { soon, until } from '../support/helpers.ts';
import { launch, newAccountKey, newDataFolder, usedDataFolder, workersOf } from '../support/process.ts';

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
  const children = workersOf(service);
  expect(children.length).toBe(2);
  process.kill(children[0] ?? 0, 'SIGKILL');
  await until('another takes its place', async () => {
    const now = workersOf(service);
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

it('a message to a worker that has just died does not stop the first process', () => {
  const program = path.join(newDataFolder(), 'program.mjs');
  const source = new URL('../../dist/programs/workers.js', import.meta.url).href;
  // The first process waits without its event loop, so that it sends before it hears of the death.
  writeFileSync(
    program,
    `import cluster from 'node:cluster';
     import { setTimeout as sleep } from 'node:timers/promises';
     import { startWorkers, tellReady } from '${source}';
     if (cluster.isWorker) {
       setInterval(() => {}, 1000);
       tellReady();
     } else {
       const workers = await startWorkers({ count: 1, own: null, onEvent() {} });
       for (const worker of Object.values(cluster.workers)) worker.process.kill('SIGKILL');
       Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 500);
       workers.drain();
       await sleep(200);
       await workers.stop();
       process.stdout.write('alive', () => process.exit());
     }`,
  );
  expect(execFileSync(process.execPath, [program], { encoding: 'utf8' })).toBe('alive');
});

// SIGTERM with ROWHOUSE_DRAIN_SECONDS: a load balancer hears of the stop before requests do.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { until } from '../support/helpers.ts';
import { launch, newAccountKey, type Running, usedDataFolder, workersOf } from '../support/process.ts';

const start = async (env: Record<string, string>) =>
  launch({ ROWHOUSE_DATA: await usedDataFolder(), ROWHOUSE_ACCOUNT_KEY: newAccountKey(), ...env });

/** Each request has its own connection, so that every worker gets some. */
const many = (service: Running, target: string) =>
  Promise.all(Array.from({ length: 8 }, () => service.call('GET', target)));
const isDraining = async (service: Running) =>
  (await many(service, '/readyz')).every(
    ({ status, body }) => status === 503 && body.error.message === 'The service is stopping.',
  );
const expectServed = async (service: Running) => {
  for (const { status } of await many(service, '/projects')) expect(status).toBe(200);
};

for (const workers of ['1', '2'])
  it(`SIGTERM makes /readyz return 503 while requests are served; Ctrl-C ends it (workers: ${workers})`, async () => {
    const service = await start({ ROWHOUSE_WORKERS: workers, ROWHOUSE_DRAIN_SECONDS: '600' });
    service.child.kill('SIGTERM');
    await until('every process drains', () => isDraining(service));
    // A supervisor may signal every process, and the command line passes the signal on.
    service.child.kill('SIGTERM');
    await sleep(500);
    expect(await isDraining(service)).toBe(true);
    await expectServed(service);
    service.child.kill('SIGINT');
    expect(await service.exited).toEqual({ code: 0, signal: null });
  });

it('a worker that dies while the service drains is replaced by one that drains', async () => {
  const service = await start({ ROWHOUSE_WORKERS: '2', ROWHOUSE_DRAIN_SECONDS: '600' });
  const dead = workersOf(service);
  service.child.kill('SIGTERM');
  await until('every process drains', () => isDraining(service));
  for (const pid of dead) process.kill(pid, 'SIGKILL');
  const statuses = new Set<number>();
  await until('others serve', async () => {
    const answers = await many(service, '/readyz').catch(() => []);
    for (const { status } of answers) statuses.add(status);
    const now = workersOf(service);
    return (
      now.length === 2 && !now.some((pid) => dead.includes(pid)) && isDraining(service).catch(() => false)
    );
  });
  expect(statuses).not.toContain(200);
  await expectServed(service);
  service.child.kill('SIGINT');
  expect(await service.exited).toEqual({ code: 0, signal: null });
});

it('stops by itself when the time is over', async () => {
  const service = await start({ ROWHOUSE_DRAIN_SECONDS: '6' });
  const since = performance.now();
  service.child.kill('SIGTERM');
  await until('it drains', () => isDraining(service));
  await expectServed(service);
  expect(await service.exited).toEqual({ code: 0, signal: null });
  // Timers may be a little early.
  expect(performance.now() - since).toBeGreaterThan(5_900);
});

// Fair shares: the flood of one account, by many of its projects, beside another account that sends one request after another.
import { describe, expect, it } from 'vitest';
import { api, useTestService } from './helpers.ts';

const rowhouse = useTestService({ connections: { budget: 16, share: 8 }, passwordIterations: 20_000 });

const openAccount = async (name: string, projects: number) => {
  const { body } = await rowhouse.call('POST', `${api}/accounts`, {
    key: rowhouse.operatorKey,
    body: { name },
  });
  const key: string = body.api_key;
  const made: { slug: string; key: string }[] = [];
  for (let n = 0; n < projects; n++) {
    const created = await rowhouse.call('POST', '/projects', { key, body: { name: `${name} ${n}` } });
    expect(created.status, JSON.stringify(created.body)).toBe(201);
    made.push({ slug: created.body.project.slug, key: created.body.api_key });
  }
  return made;
};
const query = async ({ slug, key }: { slug: string; key: string }, text: string) =>
  (await rowhouse.call('POST', `/projects/${slug}/query`, { key, body: { query: text } })).status;

/** Until it is stopped, `atOnce` requests are always on their way. Returns how many were answered. */
const flood = (atOnce: number, send: (n: number) => Promise<number>) => {
  let isOver = false;
  const statuses: number[] = [];
  const workers = Array.from({ length: atOnce }, async (_, n) => {
    while (!isOver) statuses.push(await send(n));
  });
  return async () => {
    isOver = true;
    await Promise.all(workers);
    return statuses;
  };
};
const measure = async (times: number, send: (n: number) => Promise<number>) => {
  const took: number[] = [];
  for (let n = 0; n < times; n++) {
    const began = performance.now();
    expect(await send(n), `request ${n} of the quiet account`).toBe(200);
    took.push(performance.now() - began);
  }
  took.sort((one, other) => one - other);
  return took[Math.ceil(took.length * 0.99) - 1] ?? 0;
};

describe('beside the flood of another account', () => {
  it('statements of a quiet account are neither refused nor slow', async () => {
    const loud = await openAccount('Loud', 5);
    const [quiet] = (await openAccount('Quiet', 1)) as [{ slug: string; key: string }];
    const send = (n: number) => query(quiet, `insert into t values (${n}) returning n`);
    expect(await query(quiet, 'create table t (n int)')).toBe(200);
    await measure(20, send);
    const alone = await measure(100, send);
    // More than the budget of 16, each for a while: without shares, all sessions would be theirs.
    const stop = flood(120, (n) => query(loud[n % loud.length] ?? quiet, 'select pg_sleep(0.2)'));
    const beside = await measure(100, send).finally(stop);
    const statuses = await stop();
    expect(statuses.filter((status) => status === 200).length).toBeGreaterThan(20);
    // At least 20 ms as the measure: a pause of the process is no unfairness.
    expect(beside / Math.max(alone, 20), `${beside} ms beside, ${alone} ms alone`).toBeLessThan(10);
  });

  it('statements of a quiet account are served while others hold sessions for long', async () => {
    const [one, two] = [await openAccount('Holding', 3), await openAccount('Holding too', 3)];
    const [quiet] = (await openAccount('Patient', 1)) as [{ slug: string; key: string }];
    const hold = flood(60, (n) => query((n % 2 ? one : two)[n % 3] ?? quiet, 'select pg_sleep(6)'));
    await new Promise((resolve) => setTimeout(resolve, 500));
    try {
      await measure(10, () => query(quiet, 'select count(*) from pg_class'));
    } finally {
      await hold();
    }
  });

  it('a queue that one account fills has room for another', async () => {
    const loud = await openAccount('Filling', 3);
    const [quiet] = (await openAccount('Late', 1)) as [{ slug: string; key: string }];
    const stop = flood(2_300, (n) => query(loud[n % 3] ?? quiet, 'select pg_sleep(0.3)'));
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    try {
      await measure(5, () => query(quiet, 'select pg_sleep(0)'));
    } finally {
      await stop();
    }
  });

  it('users of a quiet account sign in', async () => {
    const loud = await openAccount('Signing', 8);
    const [quiet] = (await openAccount('Single', 1)) as [{ slug: string; key: string }];
    const auth = async ({ slug, key }: { slug: string; key: string }, path: string, email: string) => {
      const body = { email, password: 'violet anchor seven maple' };
      return (await rowhouse.call('POST', `/projects/${slug}/auth/${path}`, { key, body })).status;
    };
    expect(await auth(quiet, 'signup', 'ada@example.com')).toBe(201);
    const stop = flood(64, (n) => auth(loud[n % 8] ?? quiet, 'signin', `nobody${n}@example.com`));
    try {
      await measure(10, () => auth(quiet, 'signin', 'ada@example.com'));
    } finally {
      await stop();
    }
  });
});

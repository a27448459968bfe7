// Fair shares: the flood of one account, by many of its projects, beside another account that sends one request after another.
import { describe, expect, it } from 'vitest';
import { api, useTestService } from '../support/helpers.ts';

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

  it('anonymous reads of a quiet account are neither refused nor slow', async () => {
    const open = async (project: { slug: string; key: string }) => {
      for (const text of [
        'create table open (n int)',
        'insert into open values (1)',
        'alter table open enable row level security',
        'create policy all_read on open for select using (true)',
        'grant select on open to anon',
        'create view slow with (security_invoker) as select n, pg_sleep(0.2)::text from open',
        'grant select on slow to anon',
      ])
        expect(await query(project, text), text).toBe(200);
      const { status, body } = await rowhouse.call('POST', `/projects/${project.slug}/keys`, {
        key: project.key,
        body: { name: 'page', kind: 'publishable' },
      });
      expect(status, JSON.stringify(body)).toBe(201);
      return { slug: project.slug, key: body.api_key as string };
    };
    const loud = await Promise.all((await openAccount('Public', 5)).map(open));
    const [quiet] = (await Promise.all((await openAccount('Reading', 1)).map(open))) as [
      { slug: string; key: string },
    ];
    const read = async ({ slug, key }: { slug: string; key: string }, table: string) =>
      (await rowhouse.call('GET', `/projects/${slug}/tables/${table}`, { key })).status;
    await measure(20, () => read(quiet, 'open'));
    const alone = await measure(100, () => read(quiet, 'open'));
    const stop = flood(120, (n) => read(loud[n % loud.length] ?? quiet, 'slow'));
    const beside = await measure(100, () => read(quiet, 'open')).finally(stop);
    const statuses = await stop();
    expect(statuses.filter((status) => status === 200).length).toBeGreaterThan(20);
    expect(beside / Math.max(alone, 20), `${beside} ms beside, ${alone} ms alone`).toBeLessThan(10);
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

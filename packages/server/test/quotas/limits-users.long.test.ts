// Users count towards limit_mb like everything else: many at once fit into the room there is, and none goes over it.
import { expect, it } from 'vitest';
import { until, useTestService } from '../support/helpers.ts';

const rowhouse = useTestService();

const newProject = async (limitMb: number) => {
  const { body } = await rowhouse.call('POST', '/projects', { body: { name: 'Users', limit_mb: limitMb } });
  const { slug } = body.project;
  const call = (method: string, path: string, given?: object) =>
    rowhouse.call(method, `/projects/${slug}${path}`, { key: body.api_key, ...(given && { body: given }) });
  const usedMb = async () => (await call('GET', '/usage')).body.usage.size_mb as number;
  /** What the last of the refused left is given back right after their answers. */
  const holds = (mostMb: number) => until(`it holds ${mostMb} MB`, async () => (await usedMb()) <= mostMb);
  return { call, usedMb, holds };
};
const password = 'correct horse battery';

it('a hundred users sign up at once in an empty project of 3 MB', async () => {
  const { call, usedMb } = await newProject(3);
  let waiting = Array.from({ length: 100 }, (_, n) => `u${n}@example.com`);
  // Hashing takes a few at a time: whoever is told to come later comes later.
  for (let round = 0; waiting.length > 0 && round < 40; round++) {
    const answers = await Promise.all(
      waiting.map(async (email) => ({ email, ...(await call('POST', '/auth/signup', { email, password })) })),
    );
    for (const { status, body } of answers) expect([201, 429], JSON.stringify(body)).toContain(status);
    waiting = answers.filter(({ status }) => status === 429).map(({ email }) => email);
  }
  expect(waiting).toEqual([]);
  expect(await usedMb()).toBeLessThan(2);
});

it('a hundred users are created at once in an empty project of 1, 2 and 3 MB', async () => {
  for (const limitMb of [1, 2, 3]) {
    const { call, usedMb } = await newProject(limitMb);
    const answers = await Promise.all(
      Array.from({ length: 100 }, (_, n) => call('POST', '/auth/users', { email: `u${n}@example.com` })),
    );
    expect(answers.map(({ status }) => status)).toEqual(Array(100).fill(201));
    expect(await usedMb()).toBeLessThanOrEqual(limitMb);
  }
});

it('as many users are created as fit, and no more', async () => {
  const { call, holds } = await newProject(3);
  const data = {
    note: Array.from({ length: 5_000 }, (_, n) => Math.sin(n).toString(36).slice(2))
      .join('')
      .slice(0, 50_000),
  };
  const answers = await Promise.all(
    Array.from({ length: 120 }, (_, n) => call('POST', '/auth/users', { email: `u${n}@example.com`, data })),
  );
  const made = answers.filter(({ status }) => status === 201).length;
  for (const { status, body } of answers) expect([201, 507, 429], JSON.stringify(body)).toContain(status);
  expect(made).toBeGreaterThan(20);
  expect(made).toBeLessThan(80);
  await holds(3);
  // A larger one of those that are there is measured the same way.
  const { body } = await call('GET', '/auth/users?limit=1');
  const changes = await Promise.all(
    Array.from({ length: 20 }, (_, n) =>
      call('PATCH', `/auth/users/${body.users[0].id}`, { data: { [`more${n}`]: data.note } }),
    ),
  );
  for (const { status } of changes) expect([200, 507, 429, 400, 409]).toContain(status);
  await holds(3);
});

it('repeated sign-ins in a full project do not exceed its limit', async () => {
  const { call, holds } = await newProject(1);
  const email = 'first@example.com';
  expect((await call('POST', '/auth/signup', { email, password })).status).toBe(201);
  await call('POST', '/query', { query: 'create table t (v text)' });
  for (let refused = 0; refused < 3; ) {
    const { status } = await call('POST', '/query', {
      query: `insert into t select repeat('x', 900) from generate_series(1, 20)`,
    });
    if (status !== 200) refused++;
  }
  const statuses: number[] = [];
  for (let n = 0; n < 15; n++) {
    const answers = await Promise.all(
      Array.from({ length: 4 }, () => call('POST', '/auth/signin', { email, password })),
    );
    statuses.push(...answers.map(({ status }) => status));
  }
  await holds(1);
  expect(statuses.filter((status) => status === 200).length).toBeGreaterThan(5);
});

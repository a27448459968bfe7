// Many small writes at once, by every way there is, in projects with little room: what is committed never takes one over its
// limit, nor does what PostgreSQL's upkeep adds afterwards.
import { beforeAll, expect, it } from 'vitest';
import { until, useTestService } from '../support/helpers.ts';

const rowhouse = useTestService();

const newProject = async (limitMb: number) => {
  const { body } = await rowhouse.call('POST', '/projects', { body: { name: 'Little', limit_mb: limitMb } });
  const { slug } = body.project;
  const call = (method: string, path: string, given: object = {}) =>
    rowhouse.call(method, `/projects/${slug}${path}`, { key: body.api_key, ...given });
  const run = (query: string, params: unknown[] = []) => call('POST', '/query', { body: { query, params } });
  const usedMb = async () => (await call('GET', '/usage')).body.usage.size_mb as number;
  return { call, run, usedMb };
};
type Project = Awaited<ReturnType<typeof newProject>>;

let neighbour: Project;
beforeAll(async () => {
  neighbour = await newProject(8);
  await neighbour.run('create table t (a int)');
});

const textOf = (n: number) => `row ${n} ${'abcdefghij'.repeat(n % 30)}`;
const ways: Record<string, (project: Project, n: number) => Promise<{ status: number }>> = {
  query: ({ run }, n) => run('insert into t (v) values ($1)', [textOf(n)]),
  table: ({ call }, n) => call('POST', '/tables/t', { body: { v: textOf(n) } }),
  batch: ({ call }, n) => {
    const statements = [1, 2, 3].map((m) => ({
      query: 'insert into t (v) values ($1)',
      params: [textOf(n + m)],
    }));
    return call('POST', '/batch', { body: { statements } });
  },
  import: ({ call }, n) =>
    call('POST', '/tables/t', {
      raw: `v\n${Array(20).fill(textOf(n)).join('\n')}\n`,
      headers: { 'content-type': 'text/csv' },
    }),
  user: ({ call }, n) => call('POST', '/auth/users', { body: { email: `u${n}@example.com` } }),
  tables: ({ run }, n) => run(`create table t_${n} (a int primary key, b text)`),
  objects: ({ run }, n) => run('select lo_from_bytea(0, $1::text::bytea)', [textOf(n)]),
  update: ({ run }, n) => run('update t set v = v || $1 where id = $2', ['x', n % 50]),
};
const names = Object.keys(ways);

/** Until so many were refused, by so many at once. Half of the room is used before, or it would take long. */
const fill = async (project: Project, way: string, limitMb: number) => {
  await project.run('create table t (id bigint generated always as identity primary key, v text)');
  await project.run('create index on t (v)');
  const { status } = await project.run(
    `insert into t (v) select 'row ' || n || repeat('abcdefghij', n % 30) from generate_series(1, $1::int) as n`,
    [Math.floor(limitMb * 1_000)],
  );
  expect(status).toBe(200);
  let [next, refused] = [10_000, 0];
  const write = async () => {
    for (let turn = 0; turn < 1_500 && refused < 40; turn++) {
      const name = way === 'all' ? (names[next % names.length] as string) : way;
      const answer = await (ways[name] as (typeof ways)[string])(project, next++);
      expect([200, 201, 429, 507], name).toContain(answer.status);
      if (answer.status === 507) refused++;
    }
  };
  await Promise.all(Array.from({ length: 16 }, write));
  expect(refused).toBeGreaterThan(0);
};

const holds = async ({ run, usedMb }: Project, limitMb: number) => {
  // Generous: PostgreSQL reports dead rows of the catalog up to ten seconds late.
  await until(`it holds ${limitMb} MB`, async () => (await usedMb()) <= limitMb, 60_000);
  // Maps and statistics come on top of what is stored.
  expect((await run('vacuum (analyze) t')).status).toBe(200);
  await until(`it holds ${limitMb} MB after VACUUM`, async () => (await usedMb()) <= limitMb, 60_000);
  for (let n = 0; n < 3; n++) {
    await new Promise((resolve) => setTimeout(resolve, 500));
    expect(await usedMb()).toBeLessThanOrEqual(limitMb);
  }
};

const cases: [way: string, limitMb: number][] = [
  ...[1, 2, 3, 4, 8].map((limitMb): [string, number] => ['all', limitMb]),
  ...['query', 'table', 'batch', 'import', 'tables', 'objects'].map((way): [string, number] => [way, 3]),
  ['query', 1],
  ['table', 1],
];
it.each(cases)('16 concurrent writers stay within the limit: %s, in %i MB', async (way, limitMb) => {
  const project = await newProject(limitMb);
  await fill(project, way, limitMb);
  await holds(project, limitMb);
  expect((await neighbour.run('insert into t values (1)')).status).toBe(200);
});

import { beforeAll, expect, it } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { asAdmin, until, useTestService } from '../support/helpers.ts';

const rowhouse = useTestService({ spares: 4, connections: { budget: 2, kept: 6, share: 2 } });
type Project = { slug: string; id: string; key: string };
const projects: Project[] = [];
beforeAll(async () => {
  for (let n = 0; n < 8; n++) projects.push(await rowhouse.project(`P${n}`));
});

const counts = () => rowhouse.service.deps.query.sessions.counts();
const run = async ({ slug, key }: Project, query: string) => {
  const { status, body } = await rowhouse.call('POST', `/projects/${slug}/query`, { key, body: { query } });
  expect([status, body.error?.code]).toEqual([200, undefined]);
  return body.rows?.[0];
};
const backendOf = async (project: Project) => (await run(project, 'select pg_backend_pid() as pid'))?.pid;

it('idle sessions are kept, and the project that was idle longest gives one up', async () => {
  const [first, ...others] = projects as [Project, ...Project[]];
  const pid = await backendOf(first);
  for (const other of others.slice(0, 5)) await backendOf(other);
  expect(counts()).toMatchObject({ open: 6, idle: 6 });
  expect(await backendOf(first)).toBe(pid);
  for (const other of others.slice(5)) await backendOf(other);
  expect(counts()).toMatchObject({ open: 6, idle: 6 });
  expect(await backendOf(first)).toBe(pid);
  await backendOf(others[0] as Project);
  expect(counts().open).toBe(6);
});

it('no more sessions are in use than the budget, however many are kept', async () => {
  let most = 0;
  const looking = setInterval(() => {
    const { open, idle } = counts();
    most = Math.max(most, open - idle);
  }, 5);
  await Promise.all(projects.map((project) => run(project, 'select pg_sleep(0.2)::text')));
  clearInterval(looking);
  expect(most).toBe(2);
  expect(counts().waiting).toBe(0);
});

it('a project keeps one of the sessions of a burst where there are more than the budget', async () => {
  const [first, second, third] = projects as [Project, Project, Project];
  await backendOf(second);
  await backendOf(third);
  await Promise.all([run(first, 'select pg_sleep(0.3)::text'), run(first, 'select pg_sleep(0.3)::text')]);
  const held = () =>
    asAdmin(async (admin) => {
      const [row] = await admin.query<{ count: number }>(sql`
        select count(*)::int as count from pg_stat_activity
        where datname = ${`p_${first.id}`} and application_name = 'rowhouse query'`);
      return row?.count;
    });
  expect(await held()).toBe(2);
  await until('one of them is closed', async () => (await held()) === 1, 25_000);
});

it('a session that described a table is closed soon after, and one that only ran a statement is not', async () => {
  const [describing, running] = projects as [Project, Project, ...Project[]];
  await run(describing, 'create table described (id int primary key)');
  const { key, slug } = describing;
  const { query, server } = rowhouse.service.deps;
  const pidsOf = ({ id }: Project) => query.sessions.pidsOf(id, server.id);
  const pid = await backendOf(running);
  expect((await rowhouse.call('GET', `/projects/${slug}/tables/described`, { key })).status).toBe(200);
  expect(pidsOf(describing)).toHaveLength(1);
  await until('it is closed', async () => pidsOf(describing).length === 0, 40_000);
  expect(pidsOf(running)).toEqual([pid]);
  // The table is known, so that the next session stays.
  expect((await rowhouse.call('GET', `/projects/${slug}/tables/described`, { key })).status).toBe(200);
  const [next] = pidsOf(describing);
  await new Promise((resolve) => setTimeout(resolve, 25_000));
  expect(pidsOf(describing)).toEqual([next]);
});

// Direct connections take none of those that are kept for the API of their project.
import pg from 'pg';
import { afterEach, beforeAll, expect, it } from 'vitest';
import { maxDirectSessions } from '../../src/settings/limits/direct-connections.ts';
import { openSecondProcess, until, useTestService } from '../support/helpers.ts';
import { connectPg, loginOf, openProxy } from '../support/proxy-clients.ts';

const rowhouse = useTestService({ connections: { budget: 30, share: 10 } });
type Project = { slug: string; id: string; key: string };
let neighbour: Project;
const open: pg.Client[] = [];
beforeAll(async () => {
  neighbour = await rowhouse.project('Neighbour');
});
afterEach(async () => {
  await Promise.all(open.splice(0).map((client) => client.end().catch(() => {})));
});

const run = ({ slug, key }: Project, query: string) =>
  rowhouse.call('POST', `/projects/${slug}/query`, { key, body: { query } });

/** Past the proxy, as many as PostgreSQL lets in. */
async function openAll({ slug }: Project): Promise<void> {
  const { body } = await rowhouse.call('GET', `/projects/${slug}/connection`);
  for (;;) {
    const client = new pg.Client({ connectionString: body.connection.url });
    client.on('error', () => {});
    try {
      await client.connect();
    } catch (error) {
      expect((error as pg.DatabaseError).code).toBe('53300');
      return;
    }
    open.push(client);
    expect(open.length).toBeLessThanOrEqual(40);
  }
}
const isServed = async (project: Project, howOften: number) => {
  const texts = Array.from({ length: howOften }, (_, n) => `select ${n} as n, pg_sleep(0.2)`);
  const answers = await Promise.all(texts.map((text) => run(project, text)));
  expect(answers.map(({ status, body }) => [status, body.rows?.[0]?.n])).toEqual(
    Array.from({ length: howOften }, (_, n) => [200, n]),
  );
};

it('40 direct sessions leave the API what it may use, and those that work go on', {
  timeout: 60_000,
}, async () => {
  const project = await rowhouse.project('Crowded');
  await openAll(project);
  expect(open.length).toBeGreaterThan(maxDirectSessions);
  const working = open.slice(-5);
  for (const client of working) await client.query('begin; create temp table mine as select 1 as one');
  await isServed(project, 10);
  for (const client of working)
    expect((await client.query('select one from mine')).rows).toEqual([{ one: 1 }]);
  const alive = await Promise.all(
    open.map((client) =>
      client.query('select 1').then(
        () => true,
        () => false,
      ),
    ),
  );
  expect(alive.filter(Boolean).length).toBe(maxDirectSessions);
  await isServed(neighbour, 2);
});

it('so do sessions that are all busy, and another process of the service gets its share, too', {
  timeout: 60_000,
}, async () => {
  const project = await rowhouse.project('Busy');
  await openAll(project);
  for (const client of open) client.query('select pg_sleep(60)').catch(() => {});
  await isServed(project, 4);
  const other = await openSecondProcess(rowhouse, { connections: { budget: 10, share: 4 } });
  try {
    const path = `/projects/${project.slug}/query`;
    const { status, body } = await other.call('POST', path, {
      key: project.key,
      body: { query: 'select 1 as one' },
    });
    expect(status, JSON.stringify(body)).toBe(200);
  } finally {
    await other.stop();
  }
});

it('the proxy says which limit was reached and what to do, and the API answers', async () => {
  const project = await rowhouse.project('Proxied');
  const login = await loginOf(rowhouse, project.slug);
  const proxy = await openProxy(rowhouse);
  for (let n = 0; n < maxDirectSessions; n++) open.push(await connectPg(proxy.port, login));
  const refused = await connectPg(proxy.port, login).then(
    () => null,
    (error: pg.DatabaseError) => error,
  );
  expect([refused?.code, refused?.message]).toEqual([
    '53300',
    `this project has ${maxDirectSessions} direct connections, and may have no more`,
  ]);
  expect(refused?.hint).toContain('PgBouncer');
  await isServed(project, 10);
  await open.pop()?.end();
  await until('there is room again', async () => proxy.counts.open < maxDirectSessions);
  open.push(await connectPg(proxy.port, login));
});

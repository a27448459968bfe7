// A queue of notifications that one flood fills nearly: here a busy listener of another project has to be ended, or NOTIFY would
// fail in all projects. Its project is not blamed for it.
import pg from 'pg';
import { afterEach, expect, it } from 'vitest';
import { sql } from '../src/postgres/sql.ts';
import { until } from './helpers.ts';
import { useOwnPostgres } from './own-postgres.ts';

const pages = 64 * 1_024;
const own = useOwnPostgres({
  ...{ spares: 2, connections: { budget: 20, share: 6 } },
  more: { max_notify_queue_pages: String(pages) },
});
type Project = { slug: string; id: string; key: string };
type Client = pg.Client & { isOver?: boolean };
const open: pg.Client[] = [];

const run = ({ slug, key }: Project, query: string) =>
  own.rowhouse.call('POST', `/projects/${slug}/query`, { key, body: { query, timeout_ms: 60_000 } });

async function connect({ slug }: Project): Promise<Client> {
  const { body } = await own.rowhouse.call('GET', `/projects/${slug}/connection`);
  const client: Client = new pg.Client({ connectionString: body.connection.url });
  client.on('error', () => {});
  client.on('end', () => {
    client.isOver = true;
  });
  await client.connect();
  open.push(client);
  return client;
}

const usage = async () => {
  const { maintenance } = own.rowhouse.service.deps.server;
  const [row] = await maintenance.query<{ usage: number }>(
    sql`select pg_notification_queue_usage() as usage`,
  );
  return row?.usage ?? 0;
};

afterEach(async () => {
  await Promise.all(open.splice(0).map((client) => client.end().catch(() => {})));
});

/** `megabytes` in one transaction. */
const flood = (megabytes: number) =>
  `do $$ begin for i in 1..${megabytes * 128} loop perform pg_notify('c', repeat('x', 7900) || i); end loop; end $$`;

it('a busy listener is ended before the queue is full, and its project is not refused for that', async () => {
  const [calm, culprit, busy] = [
    await own.rowhouse.project('Calm'),
    await own.rowhouse.project('Culprit'),
    await own.rowhouse.project('Busy'),
  ];
  for (let time = 0; time < 3; time++) {
    const holder = await connect(busy);
    await holder.query('listen c');
    await holder.query('begin');
    await holder.query('select 1');
    const failures: unknown[] = [];
    let isOver = false;
    const notifying = (async () => {
      while (!isOver) {
        const { status, body } = await run(calm, "select pg_notify('calm', 'x')");
        if (status !== 200) failures.push(body.error);
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    })();
    const { status, body } = await run(culprit, flood(400));
    expect([200, 503], JSON.stringify(body)).toContain(status);
    await until('the holder is ended', async () => holder.isOver, 20_000);
    await until('the queue is short', async () => (await usage()) < 0.02, 20_000);
    isOver = true;
    await notifying;
    expect(failures).toEqual([]);
  }
  for (const project of [busy, culprit])
    expect((await (await connect(project)).query('select 1 as fine')).rows).toEqual([{ fine: 1 }]);
  expect(own.rowhouse.log.join('')).not.toContain('direct connections are refused for a while');
});

it('a flood that leaves enough room ends no busy listener', async () => {
  const [culprit, busy] = [await own.rowhouse.project('Culprit'), await own.rowhouse.project('Busy')];
  const holder = await connect(busy);
  await holder.query('listen c');
  await holder.query('begin');
  await holder.query('select 1');
  expect((await run(culprit, flood(90))).status).toBe(200);
  expect(await usage()).toBeGreaterThan(0.125);
  await new Promise((resolve) => setTimeout(resolve, 6_000));
  expect((await holder.query('select 1 as fine')).rows).toEqual([{ fine: 1 }]);
  await holder.query('commit');
  await until('the queue is short', async () => (await usage()) < 0.02, 20_000);
});

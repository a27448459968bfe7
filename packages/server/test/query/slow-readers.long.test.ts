// Readers of large answers that stop reading: what they hold is taken back.
import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { beforeAll, expect, it } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { databaseOf } from '../../src/servers/databases/names.ts';
import { api, until, useTestService } from '../support/helpers.ts';

const rowhouse = useTestService();
let mine: { slug: string; id: string; key: string };
let publishable = '';

beforeAll(async () => {
  await rowhouse.app.listen({ port: 0, host: '127.0.0.1' });
  mine = await rowhouse.project('Slow readers');
  for (const query of [
    'create table noise as select n, repeat(md5(n::text), 30) as text from generate_series(1, 40000) as n',
    'alter table noise enable row level security',
    'create policy everyone on noise for select to anon using (true)',
    'grant select on noise to anon',
  ]) {
    const { status, body } = await rowhouse.call('POST', `/projects/${mine.slug}/query`, { body: { query } });
    expect(status, JSON.stringify(body)).toBe(200);
  }
  const issued = await rowhouse.call('POST', `/projects/${mine.slug}/keys`, {
    body: { name: 'page', kind: 'publishable' },
  });
  publishable = issued.body.api_key;
});

const busySessions = async () => {
  const { maintenance } = rowhouse.service.deps.server;
  const [row] = await maintenance.query<{ n: number }>(sql`
    select count(*)::int as n from pg_stat_activity
    where datname = ${databaseOf(mine.id)} and state <> 'idle'`);
  return row?.n;
};

it('a CSV export with a publishable key that nobody reads ends, and gives its session back', async () => {
  const { port } = rowhouse.app.server.address() as AddressInfo;
  const path = `${api}/projects/${mine.slug}/tables/noise`;
  const headers = { 'x-api-key': publishable, accept: 'text/csv' };
  const request = get({ host: '127.0.0.1', port, path, headers, agent: false });
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  response.on('error', () => {});
  request.on('error', () => {});
  expect([response.statusCode, response.headers['content-type']]).toEqual([
    ...[200, 'text/csv; charset=utf-8; header=present'],
  ]);
  expect(await busySessions()).toBe(1);
  await until('the session is free', async () => (await busySessions()) === 0, 60_000);
  response.resume();
  await new Promise((resolve) => response.once('close', resolve));
  // Half of the rows must not look like all of them.
  expect(response.complete).toBe(false);
  const after = await rowhouse.call('GET', `/projects/${mine.slug}/tables/noise?limit=1`, {
    key: publishable,
  });
  expect(after.body.rows).toHaveLength(1);
}, 120_000);

import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { openSecondProcess, until, useTestService } from '../support/helpers.ts';

const rowhouse = useTestService();

const query = (slug: string, text: string, more: object = {}) =>
  rowhouse.call('POST', `/projects/${slug}/query`, { body: { query: text, ...more } });

it('a request whose time passes while it waits gets a timeout, and nothing of it happens', async () => {
  const { id, slug, key } = await rowhouse.project('Waiting');
  const neighbour = await rowhouse.project('Beside');
  const insert = 'insert into t values (1)';
  expect((await query(slug, 'create table t (id int)')).status).toBe(200);
  // Often enough to share transactions.
  for (let n = 0; n < 20; n++) expect((await query(slug, insert)).status).toBe(200);
  const open = rowhouse.service.deps.query.sessions.gate.close(id);
  const late = Promise.all([
    query(slug, insert, { timeout_ms: 200 }),
    query(slug, 'select count(*) from t', { timeout_ms: 200 }),
    query(slug, 'alter table t add late int', { timeout_ms: 200 }),
  ]);
  const patient = Promise.all([
    query(slug, insert),
    query(slug, 'select 1 as one'),
    rowhouse.call('POST', `/projects/${slug}/tables/t`, { key, body: { id: 1 } }),
    rowhouse.call('POST', `/projects/${slug}/auth/signup`, {
      key,
      body: { email: 'ada@example.com', password: 'correct horse battery' },
    }),
  ]);
  expect((await query(neighbour.slug, 'select 1')).status).toBe(200);
  for (const { status } of await late) expect(status).toBe(504);
  open();
  expect((await patient).map(({ status }) => status)).toEqual([200, 200, 201, 201]);
  const { body } = await query(slug, 'select count(*)::int as n from t');
  expect(body.rows).toEqual([{ n: 22 }]);
  const { body: columns } = await query(slug, 'select * from t limit 1');
  expect(columns.columns).toEqual(['id']);
});

it('a hold reaches every process, and ends by itself when its process has died', async () => {
  const { id, slug } = await rowhouse.project('Held');
  const { control } = rowhouse.service.deps;
  const second = await openSecondProcess(rowhouse);
  try {
    const gates = [rowhouse, second].map(({ service }) => service.deps.query.sessions.gate);
    await control.query(sql`
      insert into holds (project_id, holder, is_closed, expires_at)
      values (${id}, gen_random_uuid(), true, now() + interval '4 seconds')`);
    await until('both hold', async () => gates.every((gate) => gate.isClosed(id)));
    let isAnswered = false;
    const waiting = query(slug, 'select 1').then((answer) => {
      isAnswered = true;
      return answer;
    });
    await sleep(300);
    expect(isAnswered).toBe(false);
    expect((await waiting).status).toBe(200);
    await until('both are open', async () => gates.every((gate) => !gate.isClosed(id)));
    const [row] = await control.query<{ over: boolean }>(
      sql`select expires_at <= now() as over from holds where project_id = ${id}`,
    );
    expect(row?.over).toBe(true);
  } finally {
    await second.stop();
  }
});

// GET /logs: recent failures and slow statements of a project.
import { LogsResponse } from '@rowhouse/api';
import { Compile } from 'typebox/compile';
import { beforeAll, expect, it } from 'vitest';
import { api, until, useTestService } from '../support/helpers.ts';

const rowhouse = useTestService();
let mine: { slug: string; id: string; key: string };
let neighbour: { slug: string; id: string; key: string };
let base: string;
beforeAll(async () => {
  mine = await rowhouse.project('Logged');
  neighbour = await rowhouse.project('Neighbour');
  base = await rowhouse.app.listen({ port: 0, host: '127.0.0.1' });
});

/** Through a socket, whose connection reads most of them itself. */
const send = async (path: string, body: object, more: Record<string, string> = {}) => {
  const response = await fetch(`${base}${api}/projects/${mine.slug}${path}`, {
    method: 'POST',
    headers: { 'x-api-key': mine.key, 'content-type': 'application/json', ...more },
    body: JSON.stringify(body),
  });
  const text = await response.text().catch(() => null);
  return { status: response.status, id: response.headers.get('x-request-id'), text };
};
const logs = async (key = mine.key, project = mine) => {
  const { status, body } = await rowhouse.call('GET', `/projects/${project.slug}/logs`, { key });
  return { status, body };
};

it('shows what failed, by every way into the service, and no value', async () => {
  await send('/query', { query: 'create table t (id int primary key, secret text)' });
  const sent = [
    await send('/query', { query: 'select nope', params: [] }),
    await send('/query', { query: 'select $1::int', params: ['hidden-value'] }),
    await send('/query', {
      query: "do $$ begin raise exception '%-value', 'hidden' using errcode = '42601'; end $$",
    }),
    // These take the way through the framework.
    await send('/query', { query: 'select again' }, { origin: 'http://example.com' }),
    await send('/batch', { statements: [{ query: 'select 1' }, { query: 'select in_batch' }] }),
    await send('/tables/t?secret=eq.hidden-value', { id: 'hidden-value' }),
    await send('/tables/unknown', { id: 1 }),
  ];
  expect(sent.map(({ status }) => status)).toEqual([400, 422, 400, 400, 400, 400, 404]);
  const { body } = await logs();
  expect(Compile(LogsResponse).Check(body)).toBe(true);
  expect(JSON.stringify(body)).not.toContain('hidden-value');
  const found = body.failures.toReversed();
  expect(found.map((one: { request_id: string }) => one.request_id)).toEqual(sent.map(({ id }) => id));
  const shown = (one: { code: string; sql_state: string; message: string; statement: string }) => [
    ...[one.code, one.sql_state, one.message, one.statement],
  ];
  expect(shown(found[0])).toEqual(['sql_error', '42703', 'column "nope" does not exist', 'select nope']);
  expect(shown(found[1])).toEqual(['constraint_violation', '22P02', null, 'select $1::int']);
  expect(shown(found[2]).slice(0, 3)).toEqual(['sql_error', '42601', null]);
  expect(shown(found[3])[3]).toBe('select again');
  expect(shown(found[4])[3]).toBe('select in_batch');
  expect(found[5]).toMatchObject({
    method: 'POST',
    path: `${api}/projects/${mine.slug}/tables/t`,
    statement: null,
  });
  expect(found[6].code).toBe('table_not_found');
  const counted = body.requests.reduce((sum: number, one: { failures: number }) => sum + one.failures, 0);
  expect(counted).toBe(7);
});

it('shows slow statements, and answers that were cut off', async () => {
  const slow = await send('/query', { query: 'select pg_sleep(1.1)', params: [] });
  expect(slow.status).toBe(200);
  const cut = await send('/query', {
    query: "select repeat('x', 1000) as t, 1 / (5000 - n) as q from generate_series(1, 10000) as n",
  });
  expect([cut.status, cut.text]).toEqual([200, null]);
  const { body } = await until('both are noted', async () => {
    const answer = await logs();
    return answer.body.failures[0].request_id === cut.id && answer;
  });
  // The other one may have been slow, too, on a busy machine.
  const noted = body.slow.find((one: { request_id: string }) => one.request_id === slow.id);
  expect(noted).toMatchObject({ status: 200, code: null, statement: 'select pg_sleep(1.1)' });
  expect(noted.duration_ms).toBeGreaterThan(1_000);
  expect(body.failures[0]).toMatchObject({
    status: 200,
    code: 'sql_error',
    sql_state: '22012',
    message: null,
  });
});

it('is for keys that may see everything in the project, and for no other project', async () => {
  const issue = async (body: object) => {
    const issued = await rowhouse.call('POST', `/projects/${mine.slug}/keys`, {
      body: { name: 'k', ...body },
    });
    return issued.body.api_key as string;
  };
  expect((await logs(rowhouse.accountKey)).body.failures.length).toBeGreaterThan(0);
  expect((await logs(await issue({ scopes: ['manage'] }))).status).toBe(200);
  expect((await logs(await issue({ scopes: ['query', 'tables:read'] }))).status).toBe(403);
  expect((await logs(await issue({ scopes: ['tables:read'], tables: ['t'] }))).status).toBe(403);
  expect((await logs(await issue({ kind: 'publishable' }))).status).toBe(403);
  expect((await logs(neighbour.key)).status).toBe(404);
  const other = (await logs(neighbour.key, neighbour)).body;
  expect([other.failures, other.slow]).toEqual([[], []]);
});

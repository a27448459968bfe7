// The log of every request: one line each, by every way into the service, with the client behind a trusted proxy and the trace
// of the caller, and without secrets.
import { mkdtempSync, readFileSync, rmSync, truncateSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { openRequestLog } from '../../src/lib/log.ts';
import { api, until, useTestService } from '../support/helpers.ts';

const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-request-log-'));
const file = path.join(folder, 'logs', 'requests.log');
afterAll(() => rmSync(folder, { recursive: true }));
const rowhouse = useTestService({
  trustedProxies: ['loopback'],
  requestLog: openRequestLog({ dataFolder: folder, requestLog: 'file' }),
});
/** The lines since the last call of `begin`. */
const read = () => readFileSync(file, 'utf8').split('\n').filter(Boolean);
const begin = () => truncateSync(file);
let base: string;
beforeAll(async () => {
  base = await rowhouse.app.listen({ port: 0, host: '127.0.0.1' });
});

const [traceId, spanId] = ['4bf92f3577b34da6a3ce929d0e0e4736', '00f067aa0ba902b7'];

it('has a line for each request, whichever server reads it', async () => {
  const { slug, id, key } = await rowhouse.project('Logged');
  const query = (headers: Record<string, string>, text = "select 'hidden-value'") =>
    fetch(`${base}${api}/projects/${slug}/query`, {
      method: 'POST',
      headers: { 'x-api-key': key, 'content-type': 'application/json', ...headers },
      body: JSON.stringify({ query: text }),
    });
  await query({});
  begin();
  const traced = {
    traceparent: `00-${traceId}-${spanId}-01`,
    'x-forwarded-for': '198.51.100.7, 203.0.113.9',
  };
  const answers = [
    await query(traced),
    await query({ ...traced, origin: 'http://example.com' }),
    await query({ traceparent: 'nonsense', 'x-request-id': 'mine' }),
    await query({}, 'select nope'),
    await fetch(`${base}${api}/projects/${slug}/tables/nope?password=eq.hidden-value`, {
      headers: { authorization: `Bearer ${key}` },
    }),
  ];
  await Promise.all(answers.map((answer) => answer.text()));
  await until('all are logged', async () => read().length >= answers.length);
  const lines = read();
  const found = lines.map((line) => JSON.parse(line));
  const ids = answers.map(({ headers }) => headers.get('x-request-id'));
  expect(found.map(({ request_id }) => request_id)).toEqual(ids);
  expect(ids.slice(0, 3)).toEqual([`${traceId}-${spanId}`, `${traceId}-${spanId}`, 'mine']);
  for (const line of found.slice(0, 2)) {
    expect(line).toEqual({
      log: 'requests',
      time: expect.any(String),
      request_id: `${traceId}-${spanId}`,
      trace_id: traceId,
      span_id: spanId,
      // The proxy is trusted, what it was told by others is not.
      client: '203.0.113.9',
      method: 'POST',
      path: `${api}/projects/${slug}/query`,
      route: `${api}/projects/:slug/query`,
      status: 200,
      ms: expect.any(Number),
      key: expect.any(String),
      project: id,
    });
  }
  expect(found[2]).toMatchObject({ client: '127.0.0.1', status: 200 });
  expect(found[2]).not.toHaveProperty('trace_id');
  expect(found.slice(3).map(({ status }) => status)).toEqual([400, 404]);
  expect(found[4].path).toBe(`${api}/projects/${slug}/tables/nope`);
  for (const secret of ['hidden-value', key, 'select']) expect(lines.join('')).not.toContain(secret);
  // The log of the service has the failures, with the same ids.
  const own = rowhouse.log.filter((line) => line.includes('"level":30') && line.includes('"msg":"request"'));
  expect(own.map((line) => JSON.parse(line).request_id)).toEqual(expect.arrayContaining(ids.slice(3)));
});

it('has lines for requests that are refused early', async () => {
  begin();
  await fetch(`${base}${api}/projects`, { headers: { 'x-api-key': 'rh_acct_unknown' } });
  await fetch(`${base}/nowhere?token=hidden-value`);
  await until('both are logged', async () => read().length >= 2);
  const lines = read();
  const found = lines.map((line) => JSON.parse(line));
  expect(found).toMatchObject([{ status: 401 }, { status: 404, path: '/nowhere', route: 'none' }]);
  expect(lines.join('')).not.toContain('hidden-value');
});

// What is sent again and what is not, with a network that is made up here.
import { getEventListeners } from 'node:events';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { type ClientOptions, createClient } from './client.ts';
import type { RowhouseError } from './errors.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

type Sent = { url: string; headers: Record<string, string>; body: unknown };

function answering(answers: readonly (Response | Error)[], options: Partial<ClientOptions> = {}) {
  const sent: Sent[] = [];
  const fetch = async (url: unknown, init: RequestInit = {}) => {
    sent.push({
      url: String(url),
      headers: init.headers as Record<string, string>,
      body: JSON.parse((init.body as string | null) ?? 'null'),
    });
    const answer = answers[sent.length - 1] ?? ok();
    if (answer instanceof Error) throw answer;
    return answer;
  };
  const own = { apiKey: 'rh_proj_x', project: 'shop', fetch: fetch as typeof globalThis.fetch };
  const db = createClient({ ...own, ...options });
  return { sent, db };
}

const ok = () => Response.json({ ok: true, columns: [], types: [], rows: [], row_count: 0 });
const failing = (status: number, code: string, more: object = {}, headers: Record<string, string> = {}) =>
  Response.json({ ok: false, error: { code, message: 'No.', ...more } }, { status, headers });
const lost = () => new TypeError('fetch failed');

async function settled<T>(work: PromiseLike<T>): Promise<T | RowhouseError> {
  const done = Promise.resolve(work).catch((error) => error);
  await vi.runAllTimersAsync();
  return done;
}

it.each([
  ['429 rate_limited', failing(429, 'rate_limited', {}, { 'retry-after': '1' })],
  ['429 overloaded', failing(429, 'overloaded', {}, { 'retry-after': '1' })],
  ['503 unavailable', failing(503, 'unavailable', {}, { 'retry-after': '1' })],
])('%s has not run and is sent again', async (_, first) => {
  const { db, sent } = answering([first]);
  expect(await settled(db.query('select 1'))).toMatchObject({ ok: true });
  expect(sent.length).toBe(2);
});

it.each([
  ['503 outcome_unknown', failing(503, 'outcome_unknown', {}, { 'retry-after': '1' })],
  ['409 conflict', failing(409, 'conflict', { details: { retryable: true } })],
  ['500 internal_error', failing(500, 'internal_error')],
  ['504 query_timeout', failing(504, 'query_timeout')],
  ['502 of a proxy', new Response('<html>', { status: 502 })],
  ['a lost connection', lost()],
])('%s may have run and is not', async (_, first) => {
  const { db, sent } = answering([first]);
  expect(await settled(db.query('insert into t values (1)'))).toMatchObject({ name: 'RowhouseError' });
  expect(sent.length).toBe(1);
});

it('what only reads, or has an Idempotency-Key, is sent again after a lost connection', async () => {
  const reading = answering([lost(), new Response('<html>', { status: 502 })]);
  expect(await settled(reading.db.table('teas'))).toMatchObject({ ok: true });
  expect(reading.sent.length).toBe(3);

  const running = failing(409, 'conflict', { details: { retryable: true } }, { 'retry-after': '1' });
  const writing = answering([lost(), running]);
  expect(await settled(writing.db.query('select 1', [], { idempotencyKey: true }))).toMatchObject({
    ok: true,
  });
  const keys = writing.sent.map(({ headers }) => headers['idempotency-key']);
  expect(keys[0]).toMatch(/^[0-9a-f-]{36}$/);
  expect(keys).toEqual([keys[0], keys[0], keys[0]]);

  const own = answering([]);
  await settled(own.db.table('teas').insert({ name: 'x' }, { idempotencyKey: 'order-66' }));
  expect(own.sent[0]?.headers['idempotency-key']).toBe('order-66');
});

it('waits as long as it is asked to, but not for minutes', async () => {
  const { db, sent } = answering([failing(429, 'rate_limited', {}, { 'retry-after': '7' })]);
  const work = Promise.resolve(db.query('select 1'));
  await vi.advanceTimersByTimeAsync(6_900);
  expect(sent.length).toBe(1);
  await vi.advanceTimersByTimeAsync(1_000);
  await work;
  expect(sent.length).toBe(2);

  const long = answering([failing(429, 'rate_limited', {}, { 'retry-after': '60' })]);
  expect(await settled(long.db.query('select 1'))).toMatchObject({ retryable: true, retryAfterS: 60 });
  expect(long.sent.length).toBe(1);
});

it('gives up after as many repeats as were asked for', async () => {
  const busy = () => failing(503, 'unavailable');
  const { db, sent } = answering([busy(), busy(), busy(), busy()]);
  expect(await settled(db.query('select 1'))).toMatchObject({ code: 'unavailable', retryable: true });
  expect(sent.length).toBe(3);
});

it('a caller who gives up while it waits is told at once', async () => {
  const controller = new AbortController();
  const fetching = vi.fn(async (_: unknown, init?: RequestInit) => {
    init?.signal?.throwIfAborted();
    return failing(503, 'unavailable', {}, { 'retry-after': '10' });
  });
  const other = createClient({ apiKey: 'rh_proj_x', project: 'shop', fetch: fetching as typeof fetch });
  const work = Promise.resolve(other.query('select 1', [], { signal: controller.signal })).catch(
    (error) => error,
  );
  await vi.advanceTimersByTimeAsync(1_000);
  controller.abort();
  await vi.advanceTimersByTimeAsync(10);
  expect(await work).toMatchObject({ code: 'aborted' });
  expect(vi.getTimerCount()).toBe(0);
});

it('a signal that lasts keeps nothing of the retries that it outlives', async () => {
  const { signal } = new AbortController();
  const { db, sent } = answering([failing(503, 'unavailable'), failing(503, 'unavailable')]);
  await settled(db.query('select 1', [], { signal }));
  expect(sent.length).toBe(3);
  expect(getEventListeners(signal, 'abort')).toEqual([]);
});

it('what does not answer in time is a timeout, with a word about what that means', async () => {
  const never = ((_: unknown, init: RequestInit) =>
    new Promise((_resolve, reject) => {
      init.signal?.addEventListener('abort', () => reject(init.signal?.reason));
    })) as typeof fetch;
  const db = createClient({ apiKey: 'rh_proj_x', project: 'shop', fetch: never, timeoutMs: 500 });
  expect(await settled(db.query('select 1'))).toMatchObject({
    code: 'timeout',
    status: 0,
    message: 'No response from http://127.0.0.1:8765: timeout after 500 ms.',
    hint: expect.stringContaining('may have taken effect'),
  });
  expect(await settled(db.table('teas'))).toMatchObject({ code: 'timeout', hint: undefined });
});

it('a statement with more time gets it', async () => {
  let started = 0;
  const slow = ((_: unknown, init: RequestInit) => {
    started = Date.now();
    return new Promise((_resolve, reject) => {
      init.signal?.addEventListener('abort', () => reject(init.signal?.reason));
    });
  }) as typeof fetch;
  const db = createClient({ apiKey: 'rh_proj_x', project: 'shop', fetch: slow, timeoutMs: 500 });
  await settled(db.query('select 1', [], { timeoutMs: 90_000 }));
  expect(Date.now() - started).toBe(100_000);
});

it.each([
  ['HTML', new Response('<html>', { status: 200 })],
  ['nothing', new Response('', { status: 200 })],
  ['other JSON', Response.json({ hello: 'world' })],
  ['a redirect', new Response(null, { status: 302, headers: { location: 'http://elsewhere/' } })],
  ['null', Response.json(null, { status: 500 })],
])('%s is no answer', async (_, answer) => {
  const { db } = answering([answer]);
  expect(await settled(db.query('select 1'))).toMatchObject({
    name: 'RowhouseError',
    code: 'invalid_response',
  });
});

it('a name never becomes another path', async () => {
  const { db, sent } = answering([]);
  for (const name of ['', '.', '..'])
    expect(await settled(db.table(name))).toMatchObject({ code: 'invalid_request' });
  expect(sent).toEqual([]);
  await settled(db.table('a/../b?x#y'));
  expect(sent[0]?.url).toBe('http://127.0.0.1:8765/api/dbaas/v2/projects/shop/tables/a%2F..%2Fb%3Fx%23y');
  expect(await settled(db.table('teas').eq('name', '\ud800'))).toMatchObject({ code: 'invalid_request' });
});

it.each(['localhost:8765', 'ftp://a/', '127.0.0.1', ''])('"%s" is no address of a service', (url) => {
  expect(() => createClient({ apiKey: 'rh_proj_x', project: 'shop', url })).toThrow(
    'is not an http or https URL',
  );
});

it.each(['', 'a b', 'ключ', 'a\nb'])('"%s" is no key', (apiKey) => {
  expect(() => createClient({ apiKey, project: 'shop' })).toThrow('apiKey');
});

/** As the service writes it. */
const at = (server: number, timeline: number, lsn: number) =>
  `${server}-${String(timeline).padStart(10, '0')}-${String(lsn).padStart(16, '0')}`;
const positioned = (position: string, more: Record<string, string> = {}) => {
  const response = ok();
  for (const [name, value] of Object.entries({ 'rowhouse-position': position, ...more }))
    response.headers.set(name, value);
  return response;
};

it('with maxStalenessMs, reads name the position of the last change', async () => {
  const { db, sent } = answering(
    [
      positioned(at(1, 1, 900)),
      // It was made before the other, and answered later.
      positioned(at(1, 1, 800)),
      ok(),
      positioned(at(1, 2, 5)),
      lost(),
      failing(400, 'sql_error'),
      positioned(at(2, 1, 7)),
      ...[ok(), positioned(at(2, 1, 9), { 'idempotency-replayed': 'true' })],
    ],
    { maxStalenessMs: 5_000 },
  );
  for (let n = 0; n < 10; n++) await settled(db.query('update t set n = 1'));
  expect(sent.map(({ headers }) => headers['rowhouse-min-position'])).toEqual([
    ...[undefined, at(1, 1, 900), at(1, 1, 900), at(1, 1, 900), at(1, 2, 5)],
    ...['unknown', 'unknown', at(2, 1, 7), at(2, 1, 7), 'unknown'],
  ]);
  expect(sent[0]?.headers['rowhouse-max-staleness']).toBe('5000ms');
});

it('a lost response to a read does not count as a change, and without maxStalenessMs nothing is asked', async () => {
  const stale = answering([positioned(at(1, 1, 1)), lost()], { maxStalenessMs: 500 });
  await settled(stale.db.query('insert into t values (1)'));
  await settled(stale.db.query('select 1', [], { readOnly: true }));
  await settled(stale.db.query('select 1', [], { readOnly: true }));
  expect(stale.sent.at(-1)?.headers['rowhouse-min-position']).toBe(at(1, 1, 1));
  const plain = answering([positioned(at(1, 1, 1))]);
  for (let n = 0; n < 2; n++) await settled(plain.db.query('select 1'));
  expect(Object.keys(plain.sent.at(-1)?.headers ?? {})).not.toContain('rowhouse-min-position');
});

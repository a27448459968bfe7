// Each endpoint gets its largest input, and statements give their largest answers, in a service of its own process.
// Nobody else may notice: the event loop is never busy for long, and memory stays bounded.
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { api, until } from '../support/helpers.ts';
import { newAccountKey, type Running } from '../support/process.ts';
import { launchWatched } from './watched-loop.ts';

const mb = 1_000_000;
/** How long the event loop may be busy at a stretch. Usual are 5 to 30. */
const maxBusyMs = 300;
const maxRssMb = 500;
/** With what was read before and is not collected yet. */
const maxRssWithBodiesMb = 600;

let service: Running;
let longestMs: () => Promise<number>;
let isOver = false;
let asking: Promise<void>;
const failures: unknown[] = [];
const key = newAccountKey();
let peakMb = 0;

beforeAll(async () => {
  ({ service, longestMs } = await launchWatched(key));
  for (const slug of ['hog', 'other', 'calm'])
    await service.call('POST', '/projects', { body: { name: slug, slug, limit_mb: 900 } });
  const table = 'create table t (id serial primary key, v text, j jsonb, js jsonb[], i int[], h varchar(3))';
  for (const slug of ['hog', 'other', 'calm'])
    await service.call('POST', `/projects/${slug}/query`, { body: { query: table } });
  await service.call('POST', '/projects/calm/query', { body: { query: "insert into t (v) values ('x')" } });
  await service.call('POST', '/projects/hog/query', {
    body: { query: "insert into t (v) select repeat(E'\\x01', 20000000) from generate_series(1, 2)" },
  });
  const watch = setInterval(() => {
    peakMb = Math.max(peakMb, rssMb());
  }, 20);
  asking = (async () => {
    while (!isOver) {
      const { status, body } = await service.call('POST', '/projects/calm/query', {
        body: { query: 'select v from t where id = 1' },
      });
      if (status !== 200 || body.row_count !== 1) failures.push(body);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    clearInterval(watch);
  })();
});

afterAll(async () => {
  isOver = true;
  await asking;
});

function rssMb(): number {
  try {
    const status = readFileSync(`/proc/${service.child.pid}/status`, 'utf8');
    return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024;
  } catch {
    return 0;
  }
}

type Sent = { status: number; size: number; start: string };
type Options = { method?: string; type?: string; headers?: Record<string, string>; until?: number };

/** Reads the answer and keeps none of it; hangs up after `until` bytes. */
async function send(target: string, body: string, options: Options = {}): Promise<Sent> {
  const { method = 'POST', type = 'application/json', headers = {}, until: most } = options;
  const abort = new AbortController();
  const response = await fetch(service.url + (target.startsWith('/sql') ? '' : api) + target, {
    method,
    headers: { 'x-api-key': key, 'content-type': type, ...headers },
    signal: abort.signal,
    ...(method !== 'GET' && { body }),
  });
  let size = 0;
  let start = '';
  try {
    for await (const piece of response.body as unknown as AsyncIterable<Uint8Array>) {
      if (size === 0) start = Buffer.from(piece.subarray(0, 300)).toString();
      size += piece.length;
      if (most !== undefined && size > most) abort.abort();
    }
  } catch (error) {
    if (!abort.signal.aborted) throw error;
  }
  return { status: response.status, size, start };
}

/** Several at once, of two projects; then all is well. */
async function together(
  count: number,
  attack: (slug: string) => Promise<Sent>,
  expected: (number | string)[],
  isBody = false,
): Promise<Sent[]> {
  await longestMs();
  peakMb = 0;
  const answers = await Promise.all(
    Array.from({ length: count }, (_, n) => attack(n % 4 === 3 ? 'other' : 'hog')),
  );
  const busyMs = await longestMs();
  for (const { status, start } of answers) expect(expected, start).toContain(status);
  expect(
    answers.some(({ status }) => status === expected[0]),
    JSON.stringify(answers).slice(0, 500),
  ).toBe(true);
  expect(busyMs).toBeLessThan(maxBusyMs);
  expect(peakMb).toBeLessThan(isBody ? maxRssWithBodiesMb : maxRssMb);
  expect(failures).toEqual([]);
  for (const slug of ['hog', 'other']) {
    const { status } = await service.call('POST', `/projects/${slug}/query`, { body: { query: 'select 1' } });
    expect(status).toBe(200);
  }
  return answers;
}

const query = (text: string, more: object = {}) => JSON.stringify({ query: text, ...more });
const overloaded = 429;

describe('the event loop during large answers', () => {
  const statements: [string, string][] = [
    ['one text, each byte of it an escape', "select repeat(E'\\x01', 120000000)"],
    ['one plain text', "select repeat('x', 60000000)"],
    ['a hundred columns', `select ${Array.from({ length: 100 }, (_, n) => `repeat('x', 1000000) as c${n}`)}`],
    ['an array', 'select array_agg(n) from generate_series(1, 1500000) as n'],
    ['an array of texts with quotes', `select array_fill('a "b" \\'::text, array[1000000])`],
    ['an array of timestamps', "select array_fill('infinity'::timestamptz, array[1000000])"],
    ['rows of infinities', "select 'infinity'::timestamptz from generate_series(1, 400000)"],
    ['a document', 'select jsonb_agg(n) from generate_series(1, 1500000) as n'],
    ['a composite', "select row(1, repeat('\"', 10000000))"],
    ['bytes', "select decode(repeat('00', 10000000), 'hex')"],
    ['many rows', "select n, repeat('x', 50) from generate_series(1, 200000) as n"],
    ['digits', "select repeat('9', 131000)::numeric from generate_series(1, 200)"],
  ];

  it.each(statements)('stays free with %s', async (_what, text) => {
    const isFirst = text === statements[0]?.[1];
    const most = (isFirst ? 20 : 7) * mb;
    const attack = (slug: string) => send(`/projects/${slug}/query`, query(text), { until: most });
    const answers = await together(isFirst ? 10 : 4, attack, [200, overloaded]);
    expect(answers.some(({ size }) => size > 7 * mb)).toBe(true);
  });

  it('stays free with rows for other drivers', async () => {
    const text = "select repeat(E'\\x01', 60000000), array_fill(interval '1 day', array[500000])";
    for (const raw of ['true', 'false']) {
      const { connection } = (await service.call('GET', '/projects/hog/connection')).body;
      const headers = { 'neon-connection-string': connection?.url ?? '', 'neon-raw-text-output': raw };
      const attack = () => send('/sql', query(text), { headers, until: 30 * mb });
      await together(3, attack, [200, overloaded]);
    }
  });

  it('stays free with a large page of a table', async () => {
    const attack = () => send('/projects/hog/tables/t?limit=1', '', { method: 'GET', until: 30 * mb });
    const [first] = await together(6, attack, [200, overloaded]);
    expect(first?.size).toBeGreaterThan(30 * mb);
  });

  it('stays free with answers that are held until the commit', async () => {
    const text = "select repeat('x', 50000000)";
    const batch = JSON.stringify({ statements: [{ query: text }] });
    const answers = await together(6, (slug) => send(`/projects/${slug}/batch`, batch), [200, overloaded]);
    expect(answers.filter(({ status }) => status === overloaded)).not.toEqual([]);
    for (const { status, size } of answers) if (status === 200) expect(size).toBeGreaterThan(50 * mb);
    const insert = "insert into t (v) select repeat('x', 10000000) from generate_series(1, 3) returning v";
    const counted = query(insert, { max_affected: 5 });
    await together(6, (slug) => send(`/projects/${slug}/query`, counted), [200, overloaded, 507]);
    // What was held is given back.
    expect((await send('/projects/hog/batch', batch)).size).toBeGreaterThan(50 * mb);
  });

  it('stays free with clients that stop reading', async () => {
    await longestMs();
    peakMb = 0;
    const abort = new AbortController();
    const bodies = ["select repeat(E'\\x01', 120000000)", "select repeat('x', 250000)"].flatMap((text) =>
      Array.from({ length: 40 }, () => query(text)),
    );
    const waiting = bodies.map((body) =>
      fetch(`${service.url}${api}/projects/hog/query`, {
        method: 'POST',
        headers: { 'x-api-key': key, 'content-type': 'application/json' },
        body,
        signal: abort.signal,
      }).catch(() => null),
    );
    await new Promise((resolve) => setTimeout(resolve, 3_000));
    expect(peakMb).toBeLessThan(maxRssMb);
    abort.abort();
    await Promise.all(waiting);
    expect(await longestMs()).toBeLessThan(maxBusyMs);
    expect(failures).toEqual([]);
  });
});

describe('the event loop during large bodies', () => {
  const deep = `${'['.repeat(2 * mb)}${']'.repeat(2 * mb)}`;
  const rows = JSON.stringify(Array.from({ length: 150_000 }, (_, n) => ({ v: `text ü ${n}`, j: { a: n } })));
  const bad = JSON.stringify(Array.from({ length: 100_000 }, (_, n) => ({ h: n < 99_999 ? 'x' : 'wrong' })));
  const long = 'ü\\n"x\\u0001'.replaceAll('"', '\\"').repeat(2 * mb);

  const bodies: [string, string, string, number[], Options?][] = [
    [
      'nested two million deep, as SQL',
      'query',
      query('select $1', { params: 0 }).replace('0', `[${deep}]`),
      [400],
    ],
    ['nested two million deep, as a batch', 'batch', `{"statements":${deep}}`, [400]],
    ['nested two million deep, as a row', 'tables/t', `{"j":${deep}}`, [400]],
    ['nested two million deep, as a change', 'tables/t?id=eq.1', `{"j":${deep}}`, [400], { method: 'PATCH' }],
    [
      'nested two million deep, as a line',
      'tables/t',
      `{"j":${deep}}\n`,
      [400],
      { type: 'application/x-ndjson' },
    ],
    ['never closed', 'query', '{"a":'.repeat(5 * mb), [400]],
    ['a parameter', 'query', `{"query":"select length($1)","params":["${long}"]}`, [200]],
    [
      'a parameter that is an array',
      'query',
      `{"query":"select cardinality($1::int[])","params":[[${'1,'.repeat(mb)}1]]}`,
      [200],
    ],
    [
      'long numbers',
      'query',
      `{"query":"select length($1::json::text)","params":[[${'12345678901234567890,'.repeat(mb)}1]]}`,
      [200],
    ],
    ['a document', 'query', `{"query":"select length($1::json::text)","params":[${rows}]}`, [200]],
    ['a statement', 'query', query(`select length('${'ü'.repeat(15 * mb)}')`), [200]],
    ['a comment', 'query', query(`select 1 /* ${'ü'.repeat(15 * mb)} */`), [200]],
    ['keys that nobody knows', 'query', `{${Array.from({ length: mb }, (_, n) => `"k${n}":1`)}}`, [400]],
    [
      'as many keys as are taken',
      'query',
      `{${Array.from({ length: 99_000 }, (_, n) => `"k${n}":1`)}}`,
      [400],
    ],
    ['empty objects', 'query', `{"query":"select 1","params":[[${'{},'.repeat(10 * mb)}{}]]}`, [400]],
    ['space', 'query', `${' \n'.repeat(15 * mb)}x`, [400]],
    ['a batch', 'batch', `{"statements":[{"query":"select length($1)","params":["${long}"]}]}`, [200]],
    ['many rows', 'tables/t?returning=minimal', rows, [201]],
    ['many rows, the last one wrong', 'tables/t', bad, [422]],
    ['a long value that does not fit', 'tables/t', `{"h":"${long}"}`, [422]],
    ['a row', 'tables/t?returning=minimal', `{"v":"${long.replaceAll('\\u0001', '')}"}`, [201]],
    ['a row with a document', 'tables/t?returning=minimal', `{"j":${rows}}`, [201]],
    ['a row with documents', 'tables/t?returning=minimal', `{"js":${rows}}`, [201]],
    ['a row with an array', 'tables/t?returning=minimal', `{"i":[${'1,'.repeat(mb)}1]}`, [201]],
    ['a change', 'tables/t?id=eq.1&returning=minimal', `{"js":${rows}}`, [200], { method: 'PATCH' }],
    [
      'a long line',
      'tables/t',
      `{"v":"${'\\\\\\tü'.repeat(mb)}"}\n`,
      [201],
      { type: 'application/x-ndjson' },
    ],
    [
      'a line with documents',
      'tables/t',
      `{"js":[${'{"a":"ü"},'.repeat(100_000)}1]}\n`,
      [201],
      { type: 'application/x-ndjson' },
    ],
    ['a field', 'tables/t', `v\n"${'ü\n""'.repeat(10 * mb)}"\n`, [201], { type: 'text/csv' }],
    ['a header', 'tables/t', `"${'""'.repeat(10 * mb)}`, [400], { type: 'text/csv' }],
    ['a sign-up', 'auth/signup', `{"email":"a@example.com","password":"${'x'.repeat(250_000)}"}`, [400]],
    [
      'a sign-up with data',
      'auth/signup',
      `{"email":"a@example.com","data":{"a":${'['.repeat(100_000)}`,
      [400],
    ],
    ['a key', 'keys', `{"name":"${'x'.repeat(250_000)}"}`, [400]],
  ];

  it.each(bodies)('stays free with %s', async (_what, target, body, expected, options) => {
    const attack = (slug: string) => send(`/projects/${slug}/${target}`, body, options);
    await together(3, attack, [...expected, overloaded, 507], true);
  });

  it('stays free with large bodies under an Idempotency-Key', async () => {
    const body = `{"query":"select length($1)","params":["${long}"]}`;
    let n = 0;
    const attack = (slug: string) =>
      send(`/projects/${slug}/query`, body, { headers: { 'idempotency-key': `k${n++}` } });
    await together(3, attack, [200, overloaded], true);
  });

  it('stays free with many bodies that are never completed', async () => {
    await longestMs();
    peakMb = 0;
    const abort = new AbortController();
    const endless = () =>
      new ReadableStream({
        start: (stream) => stream.enqueue(Buffer.alloc(20 * mb, 32)),
      });
    const sending = Array.from({ length: 20 }, () =>
      fetch(`${service.url}${api}/projects/hog/query`, {
        method: 'POST',
        headers: { 'x-api-key': key, 'content-type': 'application/json' },
        body: endless(),
        duplex: 'half',
        signal: abort.signal,
      } as RequestInit).then(
        ({ status }) => status,
        () => 0,
      ),
    );
    await new Promise((resolve) => setTimeout(resolve, 3_000));
    expect(peakMb).toBeLessThan(maxRssWithBodiesMb);
    abort.abort();
    expect(await Promise.all(sending)).toContain(overloaded);
    expect(await longestMs()).toBeLessThan(maxBusyMs);
    // What they took is given back.
    const body = `{"query":"select length($1)","params":["${'x'.repeat(30 * mb)}"]}`;
    await until('there is room', async () => (await send('/projects/hog/query', body)).status === 200, 5_000);
    expect(failures).toEqual([]);
  });
});

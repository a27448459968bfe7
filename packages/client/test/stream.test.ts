import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { until } from '../../server/test/support/helpers.ts';
import { type Client, createClient } from '../src/index.ts';
import { collect, failureOf, useLive } from './live.ts';

const live = useLive();
let db: Client;
beforeAll(() => {
  db = live.client();
});

describe('a stream', () => {
  it('returns every row as query does', async () => {
    const text = `select n, repeat('ü😀"{}[]\\', n % 50) as t, array[n] as a, jsonb_build_object('n', n, 'rows', '[]') as j
      from generate_series(1, $1::int) as n`;
    const { rows } = await db.query(text, [2_000]);
    expect(await collect(db.query.stream(text, [2_000]))).toEqual(rows);
    expect(await collect(db.query.stream(text, [0]))).toEqual([]);
    expect(await collect(db.query.stream(db.sql`select ${1}::int as n`))).toEqual([{ n: 1 }]);
    expect(await collect(db.query.stream(text, [100], { limit: 3 }))).toHaveLength(3);
  });

  it('takes no more memory for more rows', async () => {
    const text = "select n, repeat('x', 100) as t from generate_series(1, $1::int) as n";
    const heap = async (count: number) => {
      let peak = 0;
      let seen = 0;
      for await (const row of db.query.stream<{ n: number }>(text, [count])) {
        if (row.n !== ++seen) expect.fail(`row ${row.n} came as number ${seen}`);
        if (seen % 10_000 === 0) peak = Math.max(peak, process.memoryUsage().heapUsed);
      }
      expect(seen).toBe(count);
      return peak;
    };
    await heap(50_000);
    // 40 MB of JSON; collected, the rows would take more than that.
    expect((await heap(300_000)) - (await heap(50_000))).toBeLessThan(40 * 1024 * 1024);
  });

  it('that fails at its beginning throws what query throws', async () => {
    expect(await failureOf(collect(db.query.stream('select nope')))).toMatchObject({
      code: 'sql_error',
      sql: { state: '42703' },
    });
    expect(await failureOf(collect(db.query.stream('select $1', [undefined])))).toMatchObject({
      code: 'invalid_request',
    });
  });

  it('that fails in the middle throws after the rows that came', async () => {
    let count = 0;
    const broken = "select repeat('x', 1000) as t, 1 / (5000 - n) as q from generate_series(1, 10000) as n";
    const error = await failureOf(
      (async () => {
        for await (const _ of db.query.stream(broken)) count++;
      })(),
    );
    expect(error).toMatchObject({ name: 'RowhouseError', code: 'network_error' });
    expect(count).toBeLessThan(5_000);
  });

  it('that is no longer read cancels its statement', async () => {
    const endless = 'select generate_series(1, 1000000000) as n, $1::text as left_early';
    let seen = 0;
    for await (const _ of db.query.stream(endless, ['x'], { timeoutMs: 60_000 })) if (++seen === 10) break;
    expect(seen).toBe(10);
    const others = `select pid from pg_stat_activity where state = 'active' and query like '%left_early%'
      and pid <> pg_backend_pid()`;
    await until('the statement ends', async () => (await db.query(others)).row_count === 0);
  });

  it('can be aborted by a signal', async () => {
    const controller = new AbortController();
    let seen = 0;
    const reading = (async () => {
      const endless = 'select generate_series(1, 1000000000) as n';
      for await (const _ of db.query.stream(endless, [], { signal: controller.signal }))
        if (++seen === 10) controller.abort();
    })();
    expect(await failureOf(reading)).toMatchObject({ code: 'aborted' });
  });

  it('with a number that would be rounded throws', async () => {
    const text = 'select 9007199254740993 as big';
    expect(await failureOf(collect(db.query.stream(text)))).toMatchObject({
      code: 'unsafe_number',
      details: { column: 'big', value: '9007199254740993' },
    });
    expect(await collect(live.client({ numbers: 'string' }).query.stream(text))).toEqual([
      { big: '9007199254740993' },
    ]);
  });
});

/** Something in between that cuts, as proxies do. */
async function answering(answer: (response: ServerResponse) => void): Promise<Client> {
  const server = createServer((_, response) => answer(response)).listen(0, '127.0.0.1');
  onTestFinished(() => void server.close());
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address() as AddressInfo;
  return createClient({
    url: `http://127.0.0.1:${port}`,
    apiKey: 'rh_proj_x',
    project: 'shop',
    timeoutMs: 2_000,
  });
}

const bytes = Buffer.from(
  '{"ok":true,"columns":["t"],"types":["text"],"rows":[{"t":"ü😀"},{"t":"}"}],"row_count":2}',
);

it('bytes may be cut anywhere, also inside a character', async () => {
  const client = await answering(async (response) => {
    for (const byte of bytes) {
      response.write(Buffer.from([byte]));
      await new Promise((resolve) => setImmediate(resolve));
    }
    response.end();
  });
  expect(await collect(client.query.stream('select'))).toEqual([{ t: 'ü😀' }, { t: '}' }]);
});

it.each([
  ['ends as if it were whole', (response: ServerResponse) => void response.end(bytes.subarray(0, -3))],
  ['ends after its rows', (response: ServerResponse) => void response.end(bytes.subarray(0, -14))],
  ['is no JSON', (response: ServerResponse) => void response.end('<html>')],
  ['is nothing', (response: ServerResponse) => void response.end()],
  [
    'is cut off',
    (response: ServerResponse) => {
      response.write(bytes.subarray(0, 60), () => response.destroy());
    },
  ],
  ['stands still', (response: ServerResponse) => void response.write(bytes.subarray(0, 60))],
])('an answer that %s throws', async (what, answer) => {
  const client = await answering(answer);
  expect(await failureOf(collect(client.query.stream('select')))).toMatchObject({
    name: 'RowhouseError',
    code: what === 'stands still' ? 'timeout' : 'network_error',
  });
});

import { expect, it } from 'vitest';
import { freePort } from '../../server/test/support/process.ts';
import { createClient } from '../src/index.ts';
import { collect, failureOf, useLive } from './live.ts';

const live = useLive();

it('tables import and export CSV and JSON lines', async () => {
  const db = live.client();
  await db.query(
    'create table teas (id int generated always as identity primary key, name text unique, price numeric)',
  );
  const teas = db.table('teas');
  expect(await teas.import('csv', 'name,price\nAssam,4.5\n"Mate, green",3\n')).toBe(2);
  expect(await teas.import('jsonl', new Blob(['{"name":"Oolong","price":12}\n']))).toBe(1);
  const bytes = new TextEncoder().encode('name\nSencha\n');
  expect(await teas.import('csv', bytes, { idempotencyKey: 'once' })).toBe(1);
  expect(await teas.import('csv', bytes, { idempotencyKey: 'once' })).toBe(1);
  const rows = Array.from({ length: 20_000 }, (_, index) => `tea ${index},1\n`);
  const stream = ReadableStream.from(['name,price\n', ...rows].map((line) => new TextEncoder().encode(line)));
  expect(await teas.import('csv', stream as ReadableStream<Uint8Array>)).toBe(20_000);
  // All or none.
  expect(await failureOf(teas.import('csv', 'name\nMint\nAssam\n'))).toMatchObject({ code: 'conflict' });
  expect(await teas.eq('name', 'Mint').first()).toBeNull();

  const text = (pieces: string[]) => pieces.join('');
  const cheap = teas.select('name', 'price').lt('price', 5).gt('price', 1).order('price');
  expect(text(await collect(cheap.export('csv')))).toBe('name,price\n"Mate, green",3\nAssam,4.5\n');
  expect(text(await collect(cheap.export('jsonl')))).toBe(
    '{"name":"Mate, green","price":3}\n{"name":"Assam","price":4.5}\n',
  );
  expect(text(await collect(teas.export('csv'))).split('\n')).toHaveLength(20_004 + 2);
  expect(text(await collect(db.query.export('csv', 'select $1::int as n', [7])))).toBe('n\n7\n');
  expect(await failureOf(collect(db.query.export('jsonl', 'select nope')))).toMatchObject({
    code: 'sql_error',
  });
  // Leaving the loop ends the request.
  for await (const _ of db.query.export('csv', 'select generate_series(1, 100000000)')) break;
});

it('a missing key and a refused connection are named', async () => {
  const { SHOP_KEY } = {} as { SHOP_KEY: string };
  expect(() => createClient({ apiKey: SHOP_KEY, project: 'x' })).toThrow('apiKey is missing.');
  expect(
    await failureOf(Promise.resolve().then(() => createClient({ apiKey: SHOP_KEY, project: 'x' }))),
  ).toMatchObject({
    hint: expect.stringContaining('ROWHOUSE_API_KEY'),
  });
  const url = `http://127.0.0.1:${await freePort()}`;
  const away = createClient({ apiKey: 'rh_proj_x', project: 'x', url, retries: 0 });
  expect(await failureOf(away.query('select 1'))).toMatchObject({
    code: 'network_error',
    message: `${url} refused the connection.`,
    hint: 'Is the service running?',
  });
});

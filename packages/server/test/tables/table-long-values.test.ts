// max_value_chars: pages with only the beginning of long values.
import { beforeAll, expect, it } from 'vitest';
import { seatOf, type TestProject } from '../support/end-users.ts';
import { useTestService } from '../support/helpers.ts';

const rowhouse = useTestService();
let mine: TestProject;
const page = async (table: string, query: string, headers: Record<string, string> = {}) =>
  rowhouse.call('GET', `/projects/${mine.slug}/tables/${table}?${query}`, { key: mine.key, headers });

beforeAll(async () => {
  mine = await rowhouse.project('Long values');
  const { query } = await seatOf(rowhouse, mine);
  await query(
    'create table notes (id int primary key, t text, v varchar(9000), j json, b jsonb, raw bytea, list text[], n numeric)',
  );
  await query(`insert into notes values
    (1, repeat('ä', 3000), repeat('v', 3000), json_build_object('a', repeat('j', 3000)), to_jsonb(repeat('b', 3000)),
     decode(repeat('ab', 3000), 'hex'), array[repeat('x', 3000)], 1.5),
    (2, 'short', 'v', '{"a": 1}', '{"a": 1}', '\\xab', array['x'], 2),
    (3, null, null, null, null, null, null, null)`);
  await query('create table words (word text primary key, note text)');
  await query(
    `insert into words select repeat('w', 100) || i, repeat('n', 100) from generate_series(1, 9) as i`,
  );
  await query('create view shown as select word, note from words');
});

it('cuts long values by characters, keeps short ones, and leaves other types whole', async () => {
  const { status, body } = await page('notes', 'max_value_chars=10');
  expect(status, JSON.stringify(body).slice(0, 500)).toBe(200);
  expect(body.types).toEqual(['int4', 'text', 'varchar', 'json', 'jsonb', 'bytea', 'text[]', 'numeric']);
  expect(body.rows).toEqual([
    {
      id: 1,
      t: 'ä'.repeat(10),
      v: 'v'.repeat(10),
      j: '{"a" : "jj',
      b: `"${'b'.repeat(9)}`,
      raw: `\\x${'ab'.repeat(5)}`,
      list: ['x'.repeat(3000)],
      n: 1.5,
    },
    { id: 2, t: 'short', v: 'v', j: { a: 1 }, b: { a: 1 }, raw: '\\xab', list: ['x'], n: 2 },
    { id: 3, t: null, v: null, j: null, b: null, raw: null, list: null, n: null },
  ]);
  const whole = await page('notes', 'select=t,j&id=eq.1');
  expect(whole.body.rows).toEqual([{ t: 'ä'.repeat(3000), j: { a: 'j'.repeat(3000) } }]);
});

it('cuts columns under an alias and in CSV, but neither casts nor paths', async () => {
  const renamed = await page('notes', 'select=id,start:t,t&id=eq.1&max_value_chars=3');
  expect(renamed.body.rows).toEqual([{ id: 1, start: 'äää', t: 'äää' }]);
  const cast = await page('notes', 'select=n::text,j->>a&id=eq.1&max_value_chars=1');
  expect(cast.body.rows).toEqual([{ n: '1.5', a: 'j'.repeat(3000) }]);
  const csv = await page('notes', 'select=id,t&id=eq.1&max_value_chars=3', { accept: 'text/csv' });
  expect(csv.body).toBe('id,t\n1,äää\n');
});

it('never cuts the key or the order, so that cursors reach every row once', async () => {
  for (const order of ['', '&order=note.desc', '&order=note']) {
    const seen: string[] = [];
    let cursor: string | null = null;
    do {
      const { body } = await page(
        'words',
        `limit=2&max_value_chars=5${order}${cursor ? `&cursor=${cursor}` : ''}`,
      );
      for (const { word, note } of body.rows) {
        seen.push(word);
        expect(note).toBe('n'.repeat(order === '' ? 5 : 100));
      }
      cursor = body.next_cursor;
    } while (cursor);
    expect(seen.sort()).toEqual(Array.from({ length: 9 }, (_, index) => `${'w'.repeat(100)}${index + 1}`));
  }
});

it('does not cut the order of a view, which has no key', async () => {
  const { body } = await page('shown', 'limit=2&max_value_chars=5&order=word.desc');
  expect(body.rows).toEqual([
    { word: `${'w'.repeat(100)}9`, note: 'nnnnn' },
    { word: `${'w'.repeat(100)}8`, note: 'nnnnn' },
  ]);
  const unordered = await page('shown', 'limit=1&max_value_chars=5');
  expect(unordered.body.rows).toEqual([{ word: 'wwwww', note: 'nnnnn' }]);
});

it('refuses a limit that is none, and one for writes', async () => {
  for (const value of ['0', '-1', '1.5', 'all', '1000001', '']) {
    const { status, body } = await page('notes', `max_value_chars=${value}`);
    expect([status, body.error?.details?.[0]?.path], value).toEqual([400, 'max_value_chars']);
  }
  const { status, body } = await rowhouse.call(
    'DELETE',
    `/projects/${mine.slug}/tables/notes?id=eq.1&max_value_chars=3`,
    { key: mine.key },
  );
  expect([status, body.error.details[0].path]).toEqual([400, 'max_value_chars']);
});

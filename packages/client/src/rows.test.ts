import { expect, it } from 'vitest';
import { splitRows } from './rows.ts';

const rows = [
  { a: 1, s: 'plain' },
  { a: null, s: '} ] { [ " \\ \\" ,' },
  { a: { rows: [{ rows: [] }] }, s: 'ü 😀 \u0000' },
  {},
  { a: [[], [{}]], s: '"rows":[' },
];
const answer = JSON.stringify({
  ok: true,
  columns: ['a', 's', 'rows":['],
  types: ['jsonb', 'text', 'text'],
  rows,
  row_count: rows.length,
  truncated: false,
});

async function split(pieces: Iterable<string>, numbers: 'number' | 'bigint' = 'number'): Promise<unknown[]> {
  const found: unknown[] = [];
  async function* slowly() {
    yield* pieces;
  }
  for await (const row of splitRows(slowly(), numbers)) found.push(row);
  return found;
}

it('gives the rows wherever the text is cut', async () => {
  expect(await split([answer])).toEqual(rows);
  expect(await split(answer)).toEqual(rows);
  for (let at = 1; at < answer.length; at++)
    expect(await split([answer.slice(0, at), '', answer.slice(at)])).toEqual(rows);
  expect(await split(['{"rows": [ ], "row_count": 0}'])).toEqual([]);
});

it('throws wherever the text ends early, and never before the rows that came', async () => {
  for (let at = 0; at < answer.length; at++)
    await expect(split([answer.slice(0, at)]), answer.slice(0, at)).rejects.toThrow('broke off after');
  await expect(split([answer.replace(`"row_count":${rows.length}`, '"row_count":9')])).rejects.toThrow(
    'broke off after 5 rows',
  );
});

it('knows bigint columns before their rows', async () => {
  const text =
    '{"columns":["n","t"],"types":["int8[]","text"],"rows":[{"n":["1",null],"t":"1"}],"row_count":1}';
  expect(await split([text], 'bigint')).toEqual([{ n: [1n, null], t: '1' }]);
});

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

function split(pieces: Iterable<string>, numbers: 'number' | 'bigint' = 'number'): unknown[] {
  const { feed, end } = splitRows(numbers);
  const found = [...pieces].flatMap((piece) => [...feed(piece)]);
  end();
  return found;
}

it('gives the rows wherever the text is cut', () => {
  expect(split([answer])).toEqual(rows);
  expect(split(answer)).toEqual(rows);
  for (let at = 1; at < answer.length; at++)
    expect(split([answer.slice(0, at), '', answer.slice(at)])).toEqual(rows);
  expect(split(['{"rows": [ ], "row_count": 0}'])).toEqual([]);
});

it('throws wherever the text ends early, and never before the rows that came', () => {
  for (let at = 0; at < answer.length; at++)
    expect(() => split([answer.slice(0, at)]), answer.slice(0, at)).toThrow('ended after');
  expect(() => split([answer.replace(`"row_count":${rows.length}`, '"row_count":9')])).toThrow(
    'ended after 5 rows',
  );
});

it('knows bigint columns before their rows', () => {
  const text =
    '{"columns":["n","t"],"types":["int8[]","text"],"rows":[{"n":["1",null],"t":"1"}],"row_count":1}';
  expect(split([text], 'bigint')).toEqual([{ n: [1n, null], t: '1' }]);
});

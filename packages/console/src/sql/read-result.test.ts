import { expect, it } from 'vitest';
import { resultReader } from './read-result.ts';

const answer = {
  ok: true,
  columns: ['a', '"rows":['],
  types: ['text', 'jsonb'],
  rows: [
    { a: 'plain', '"rows":[': { deep: [{ '}]': '"\\' }] } },
    { a: '},{ "rows":[ ]}', '"rows":[': null },
    { a: 'é\u0000😀', '"rows":[': [] },
  ],
  row_count: 3,
  duration_ms: 1.5,
  command: 'SELECT',
  affected: 3,
  truncated: false,
};
const text = JSON.stringify(answer);

it.each([1, 2, 3, 7, 50, text.length])('reads an answer in pieces of %i characters', (size) => {
  const reader = resultReader();
  for (let at = 0; at < text.length; at += size) reader.push(text.slice(at, at + size));
  expect(reader.end()).toEqual(answer);
});

it('has rows before the answer has ended, and refuses an answer that broke off', () => {
  const reader = resultReader();
  expect(reader.soFar()).toBeNull();
  expect(reader.push(text.slice(0, text.indexOf('},{') + 2))).toBe(true);
  expect(reader.soFar()?.rows).toEqual(answer.rows.slice(0, 1));
  expect(() => reader.end()).toThrow('broke off');
});

it('reads an answer without rows', () => {
  const reader = resultReader();
  const empty = { ...answer, columns: [], types: [], rows: [], row_count: 0 };
  reader.push(JSON.stringify(empty));
  expect(reader.end()).toEqual(empty);
});

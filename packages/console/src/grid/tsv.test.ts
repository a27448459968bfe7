import { expect, it } from 'vitest';
import { readTsv, writeTsv } from './tsv.ts';

it('NULL and the empty text survive a copy', () => {
  const rows = [
    ['a', null, ''],
    ['tab\there', 'line\nbreak', 'quote "x"'],
  ];
  expect(writeTsv(rows)).toBe('a\t\t""\n"tab\there"\t"line\nbreak"\t"quote ""x"""');
  expect(readTsv(writeTsv(rows))).toEqual(rows);
});

it.each([
  [
    'a\tb\r\nc\td\r\n',
    [
      ['a', 'b'],
      ['c', 'd'],
    ],
  ],
  [
    'a\tb\nc\td',
    [
      ['a', 'b'],
      ['c', 'd'],
    ],
  ],
  ['one', [['one']]],
  ['', [[null]]],
  [
    'a\t\n\tb\n',
    [
      ['a', null],
      [null, 'b'],
    ],
  ],
  ['5" pipe\t"x', [['5" pipe', '"x']]],
])('reads %j as a spreadsheet writes it', (text, rows) => {
  expect(readTsv(text)).toEqual(rows);
});

it('a large paste takes linear time', () => {
  const text = `${'x\ty\n'.repeat(100_000)}`;
  expect(readTsv(text)).toHaveLength(100_000);
});

import { expect, it } from 'vitest';
import { guessType, previewFile, readCsv } from './import-file.ts';

it('reads quoted fields, NULL, empty texts and both line ends of CSV', () => {
  expect(readCsv('a,b,c\r\n1,"x, ""y""\nz",\n"",,3', 10, true)).toEqual([
    ['a', 'b', 'c'],
    ['1', 'x, "y"\nz', null],
    ['', null, '3'],
  ]);
});

it('leaves out a last record that may be cut', () => {
  expect(previewFile('t.csv', 'a,b\n1,2\n3,"ha', false)).toEqual({
    format: 'csv',
    columns: ['a', 'b'],
    rows: [['1', '2']],
  });
});

it('reads JSON lines, whatever the name', () => {
  expect(previewFile('t.txt', '{"a":1,"b":null}\n{"a":{"c":2},"b":"x"}\n', true)).toEqual({
    format: 'json-lines',
    columns: ['a', 'b'],
    rows: [
      ['1', null],
      ['{"c":2}', 'x'],
    ],
  });
  expect(() => previewFile('t.jsonl', '[1]\n', true)).toThrow('Line 1');
});

it('guesses a type that all values fit', () => {
  expect(guessType(['1', null, '-20'])).toBe('bigint');
  expect(guessType(['1', '2.5'])).toBe('numeric');
  expect(guessType(['12345678901234567890123'])).toBe('numeric');
  expect(guessType(['true', 'f'])).toBe('boolean');
  expect(guessType(['2026-01-01', '2026-02-30'])).toBe('date');
  expect(guessType(['2026-01-01T10:00:00Z'])).toBe('timestamptz');
  expect(guessType(['{"a":1}', '[]'])).toBe('jsonb');
  expect(guessType(['1', 'one'])).toBe('text');
  expect(guessType([null])).toBe('text');
});

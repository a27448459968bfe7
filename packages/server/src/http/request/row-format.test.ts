import { expect, it } from 'vitest';
import { readAccept } from './row-format.ts';

it.each([
  [undefined, null],
  ['*/*', null],
  ['application/json', null],
  ['text/csv', 'csv'],
  ['Text/CSV; charset=utf-8', 'csv'],
  ['application/x-ndjson', 'json-lines'],
  ['application/jsonl', 'json-lines'],
  ['application/jsonlines', 'json-lines'],
  ['text/csv, */*', null],
  ['text/csv, */*;q=0.1', 'csv'],
  ['text/csv;q=0.5, application/json', null],
  ['text/csv, application/json', null],
  ['application/json;q=0.2, application/x-ndjson;q=0.3, text/csv;q=0.1', 'json-lines'],
  ['application/x-ndjson, text/csv', 'json-lines'],
  ['text/csv;q=0', null],
  ['text/csv;q=2', null],
  ['text/csv;q=NaN', null],
  ['text/cvs', null],
  ['text/html, text/csv;q=0.9', 'csv'],
  ['__proto__, constructor, text/csv', 'csv'],
  [`text/csv,${'a/b,'.repeat(300)}`, null],
])('Accept %s', (header, format) => {
  expect(readAccept(header)?.format ?? null).toBe(format);
});

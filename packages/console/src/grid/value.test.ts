import { expect, it } from 'vitest';
import { editText, kindOf, parseText, previewOf } from './value.ts';

it.each([
  ['int8', 'number'],
  ['numeric(10,2)', 'number'],
  ['double precision', 'number'],
  ['character varying(20)', 'text'],
  ['jsonb', 'json'],
  ['_int4', 'array'],
  ['text[]', 'array'],
  ['timestamp with time zone', 'other'],
])('%s is %s', (type, kind) => {
  expect(kindOf(type)).toBe(kind);
});

it('JSON strings keep their quotes, so that "1" and 1 differ', () => {
  expect([editText('1', 'jsonb'), editText(1, 'jsonb')]).toEqual(['"1"', '1']);
  expect(previewOf('x', 'jsonb')).toBe('"x"');
});

it('a long value is cut for the cell', () => {
  expect(previewOf('x'.repeat(10_000), 'text')).toHaveLength(501);
});

it.each([
  ['12', 'int8', { value: '12' }],
  ['9007199254740993', 'int8', { value: '9007199254740993' }],
  ['', 'int4', { problem: 'A number is expected.' }],
  ['yes', 'boolean', { value: true }],
  ['perhaps', 'boolean', { problem: 'true or false is expected.' }],
  ['{"a": 1}', 'jsonb', { value: { a: 1 } }],
  ['{a', 'jsonb', { problem: 'This is not valid JSON.' }],
  ['["a"]', 'text[]', { value: ['a'] }],
  ['{a,b}', 'text[]', { value: '{a,b}' }],
  ['', 'text', { value: '' }],
])('%j for %s is %j', (text, type, parsed) => {
  expect(parseText(text, type)).toEqual(parsed);
});

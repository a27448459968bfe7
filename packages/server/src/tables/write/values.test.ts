import { describe, expect, it } from 'vitest';
import { parseJsonText } from '../../query/json/json-text.ts';
import type { Column, TypeShape } from '../catalog/catalog.ts';
import { isRewritten, isSimple, toColumnJson, toColumnText } from './values.ts';

const plain: TypeShape = { is: 'plain', isArray: false, fields: [], relation: null };
const column = (type: string, shape: Partial<TypeShape> = {}): Column => ({
  name: 'c',
  type,
  typeOid: 0,
  shape: { ...plain, ...shape },
  operators: new Map(),
  notNull: false,
  isReadable: true,
  hasDefault: false,
  identity: null,
  generated: null,
  enumValues: null,
});
const integer = column('integer');
const json = column('jsonb', { is: 'jsonb' });
const pair = column('pair', {
  is: 'composite',
  fields: [
    { name: 'a', shape: plain },
    { name: 'inner', shape: { ...plain, is: 'composite', fields: [{ name: 'b', shape: plain }] } },
  ],
});

/** Parses JSON as a request body is parsed. */
const given = (text: string) => (parseJsonText(`[${text}]`) as [unknown])[0];

describe('a value as a parameter', () => {
  it.each([
    ['null', null],
    ['"abc"', 'abc'],
    ['""', ''],
    ['5', '5'],
    ['-0.1', '-0.1'],
    ['true', 'true'],
    ['12345678901234567890.5', '12345678901234567890.5'],
    ['1e400', '1e400'],
    ['{"a": [1, 12345678901234567890]}', '{"a":[1,12345678901234567890]}'],
    ['[1, null]', '[1,null]'],
  ])('%s', (text, expected) => {
    expect(toColumnText(given(text), integer, 'c')).toBe(expected);
  });

  it.each([
    ['null', null],
    ['"abc"', '"abc"'],
    ['5', '5'],
    ['12345678901234567890.5', '12345678901234567890.5'],
    ['[null]', '[null]'],
    ['{"__proto__": 1}', '{"__proto__":1}'],
    ['"a\\u0000b"', '"a\\u0000b"'],
  ])('of json: %s', (text, expected) => {
    expect(toColumnText(given(text), json, 'c')).toBe(expected);
  });

  it('of hstore', () => {
    const hstore = column('extra.hstore');
    expect(toColumnText(given('{"a\\"": "\\\\", "b": null, "c": [1]}'), hstore, 'c')).toBe(
      '"a\\""=>"\\\\","b"=>NULL,"c"=>"[1]"',
    );
    expect(toColumnText('"a"=>"b"', hstore, 'c')).toBe('"a"=>"b"');
    expect(toColumnText({}, column('my_hstore'), 'c')).toBe('{}');
  });

  it('has no NUL, and an end', () => {
    expect(() => toColumnText('a\0', integer, '3.c')).toThrow('3.c: must not contain a NUL character');
    const deep = JSON.parse('['.repeat(100_000) + ']'.repeat(100_000));
    for (const one of [integer, json, column('hstore')]) {
      expect(() => toColumnText(deep, one, () => 'c')).toThrow('c: a value is nested too deeply');
    }
  });
});

describe('a value inside JSON', () => {
  it('is what it is', () => {
    for (const text of ['null', '"x"', '5', '[1, [2]]', '12345678901234567890']) {
      const value = given(text);
      expect(toColumnJson(value, column('integer[]', { isArray: true }), 'c')).toBe(value);
    }
  });

  it('but for an array of json, where each entry is a document', () => {
    const list = column('jsonb[]', { is: 'jsonb', isArray: true });
    expect(isRewritten(list)).toBe(true);
    expect(toColumnJson(given('[[1], "a\\"", null, {}]'), list, 'c')).toBe(
      '{"[1]","\\"a\\\\\\"\\"",NULL,"{}"}',
    );
    expect(toColumnJson('{1}', list, 'c')).toBe('{1}');
  });

  it('has no attribute that its type does not have', () => {
    expect(() => toColumnJson({ a: 1, inner: { b: 1 } }, pair, 'c')).not.toThrow();
    expect(() => toColumnJson({ a: 1, inner: { bb: 1 } }, pair, 'c')).toThrow(
      'c: the type has no attribute "bb"; the nearest is "b"',
    );
    expect(() => toColumnJson(given('{"__proto__": 1}'), pair, 'c')).toThrow('no attribute "__proto__"');
    const list = { ...pair, shape: { ...pair.shape, isArray: true } };
    expect(() => toColumnJson([[{ a: 1 }], [{ z: 1 }]], list, 'c')).toThrow('no attribute "z"');
    const deep = JSON.parse('['.repeat(100_000) + ']'.repeat(100_000));
    expect(toColumnJson(deep, list, 'c')).toBe(deep);
  });

  it('goes that way only if it has parts', () => {
    expect([integer, json, column('mood'), column('int4range')].every(isSimple)).toBe(true);
    expect([pair, column('text[]', { is: 'text', isArray: true })].some(isSimple)).toBe(false);
  });
});

import { describe, expect, it } from 'vitest';
import type { ImportColumn } from './line-copier.ts';
import { LineCopier } from './line-copier.ts';

const text = (name: string): ImportColumn => ({ name, isJson: false, isArray: false });
const json = (name: string): ImportColumn => ({ name, isJson: true, isArray: false });
const array = (name: string): ImportColumn => ({ name, isJson: false, isArray: true });

/** The row for COPY, or null if the copier declines the line. */
function copy(line: string, columns: ImportColumn[] = [text('a')]): string | null {
  const copier = new LineCopier(columns);
  const bytes = Buffer.from(`before${line}"stale":1}}`);
  const isCopied = copier.add(bytes, 6, 6 + Buffer.byteLength(line));
  const pieces = Buffer.concat(copier.take()).toString();
  expect(pieces !== '').toBe(isCopied);
  return isCopied ? pieces : null;
}

describe('an ordinary line', () => {
  it.each([
    ['{"a":"x"}', 'x\n'],
    [' { "a" : "x" } \r', 'x\n'],
    ['{"a":""}', '\n'],
    ['{"a":"é 😀 {}[],:"}', 'é 😀 {}[],:\n'],
    ['{"a":"q\\" s\\/ b\\\\ n\\n r\\r t\\t"}', 'q" s/ b\\\\ n\\n r\\r t\\t\n'],
    ['{"a":"\\\\N"}', '\\\\N\n'],
    ['{"a":null}', '\\N\n'],
    ['{"a":true}', 'true\n'],
    ['{"a":false}', 'false\n'],
    ['{"a":0}', '0\n'],
    ['{"a":-12}', '-12\n'],
    ['{"a":10.50}', '10.50\n'],
    ['{"a":1.0}', '1.0\n'],
    ['{"a":-0}', '-0\n'],
    ['{"a":-0.0}', '-0.0\n'],
    ['{"a":0.0000001}', '0.0000001\n'],
    ['{"a":0.05}', '0.05\n'],
    ['{"a":-0.05}', '-0.05\n'],
    ['{"a":0.12345678}', '0.12345678\n'],
    ['{"a":0.0}', '0.0\n'],
    ['{"a":-1.05}', '-1.05\n'],
    ['{"a":0.000001}', '0.000001\n'],
    ['{"a":100}', '100\n'],
  ])('%j is copied', (line, row) => {
    expect(copy(line)).toBe(row);
  });

  it.each([
    ['{"a":1.0}', '1\n'],
    ['{"a":-10.00}', '-10\n'],
    ['{"a":10.50}', '10.50\n'],
    ['{"a":100}', '100\n'],
  ])('%j is copied to a column of integers', (line, row) => {
    expect(copy(line, [{ ...text('a'), isInteger: true }])).toBe(row);
  });

  it('has the values of its columns in order', () => {
    expect(copy('{"a": 1, "b": "x", "c": null}', [text('a'), text('b'), text('c')])).toBe('1\tx\t\\N\n');
  });

  it.each([
    ['{"a":{"b":[1,"}"]}}', '{"b":[1,"}"]}\n'],
    ['{"a":"x"}', '"x"\n'],
    ['{"a":["a\\"b\\\\c\\n"]}', '["a\\\\"b\\\\\\\\c\\\\n"]\n'],
    ['{"a":[]}', '[]\n'],
    ['{"a":null}', '\\N\n'],
    ['{"a": {"n": 1.50} }', '{"n": 1.50}\n'],
  ])('%j is copied to a column of JSON', (line, row) => {
    expect(copy(line, [json('a')])).toBe(row);
  });
});

describe('another line is declined', () => {
  it.each([
    ...[
      '',
      '{',
      '{}',
      '{"a"',
      '{"a":',
      '{"a":}',
      '{"a":1',
      '{"a":"',
      '{"a":"x',
      '{"a":"x"',
      '[1]',
      '1',
      'null',
    ],
    ...[
      '{"b":1}',
      '{"a":1,"b":2}',
      '{"a":1,}',
      '{"a":1}}',
      '{"a":1} x',
      '{"A":1}',
      '{"\\u0061":1}',
      "{'a':1}",
    ],
    ...['{"a":1,"a":2}', '\uFEFF{"a":1}', '{a:1}', '{"a" 1}', '{"a"::1}'],
    ...['{"a":tru}', '{"a":truee}', '{"a":True}', '{"a":nul}', '{"a":undefined}', '{"a":NaN}'],
    ...['{"a":01}', '{"a":-}', '{"a":1.}', '{"a":.5}', '{"a":+1}', '{"a":1e5}', '{"a":1E5}', '{"a":1.5e3}'],
    ...[
      '{"a":1 2}',
      '{"a":0x10}',
      '{"a":--1}',
      '{"a":1.2.3}',
      '{"a":1234567890123456}',
      '{"a":0.12345678901234}',
    ],
    ...[
      '{"a":"\\u0041"}',
      '{"a":"\\b"}',
      '{"a":"\\f"}',
      '{"a":"\\x"}',
      '{"a":"\\"}',
      '{"a":"\t"}',
      '{"a":"\0"}',
    ],
    ...['{"a":{}}', '{"a":[1]}', '{"a":"x" "y"}'],
  ])('%j', (line) => {
    expect(copy(line)).toBeNull();
  });

  it.each([
    ...[
      '{"a":{}',
      '{"a":{"b":"}',
      '{"a":["\\u0000"]}',
      '{"a":["\t"]}',
      '{"a":[\t]}',
      '{"a":[1\\]}',
      '{"a":[\\x31]}',
      '{"a":{\\"x":1}}',
      '{"a":"\\\t"}',
      '{"a":"\\x"}',
      '{"a":x}',
      '{"a":]}',
    ],
    `{"a":${'['.repeat(101)}${']'.repeat(101)}}`,
  ])('%j for a column of JSON', (line) => {
    expect(copy(line, [json('a')])).toBeNull();
  });

  it.each(['{"a":[1]}', '{"a":"{1}"}', '{"a":{}}'])('%j for a column of arrays', (line) => {
    expect(copy(line, [array('a')])).toBeNull();
  });
});

describe('an object in an array', () => {
  const end = (text: string, columns = [text0], stop = Buffer.byteLength(text)) => {
    const copier = new LineCopier(columns);
    const at = copier.addObject(Buffer.from(text), 0, stop);
    return [at, Buffer.concat(copier.take()).toString()];
  };
  const text0 = text('a');

  it('is copied up to its end', () => {
    expect(end('{"a":1},{"a":2}]')).toEqual([7, '1\n']);
    expect(end('{\n  "a" :\t"x"\r\n}\n]')).toEqual([16, 'x\n']);
  });

  it('is declined if it ends too late', () => {
    const line = '{"a":"xyz"}';
    for (let stop = 0; stop < line.length; stop++) expect(end(line, [text0], stop)).toEqual([-1, '']);
  });

  it.each([
    '{"n":15}',
    '[-1.25,0.5]',
    '["1.50","e5"]',
    '[true,false,null]',
    '[12345678901234567890]',
    '[1.05,10]',
    '[1.50,1E2]',
  ])('%j is copied as JSON', (value) => {
    expect(end(`{"a":${value}}`, [json('a')])[1]).toBe(`${value}\n`);
  });
});

describe('many lines', () => {
  it('leave no trace of a declined one', () => {
    const copier = new LineCopier([text('a'), text('b')]);
    const add = (line: string) => copier.add(Buffer.from(line), 0, Buffer.byteLength(line));
    expect(add('{"a":1,"b":2}')).toBe(true);
    expect(add('{"a":3,"b":"\\u0041"}')).toBe(false);
    copier.addText('3\tA\n');
    expect(add('{"a":4,"b":5}')).toBe(true);
    expect(Buffer.concat(copier.take()).toString()).toBe('1\t2\n3\tA\n4\t5\n');
    expect(copier.take()).toEqual([]);
  });

  it('fit, however long they are', () => {
    const copier = new LineCopier([text('a')]);
    for (const size of [10, 60_000, 200_000]) {
      const line = Buffer.from(JSON.stringify({ a: '\\'.repeat(size) }));
      expect(copier.isFullFor(line.length)).toBe(size === 60_000 || size === 200_000);
      expect(copier.add(line, 0, line.length)).toBe(true);
    }
    expect(Buffer.concat(copier.take()).toString()).toBe(
      [10, 60_000, 200_000].map((size) => `${'\\\\'.repeat(size)}\n`).join(''),
    );
  });
});

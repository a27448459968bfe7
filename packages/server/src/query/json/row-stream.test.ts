import { describe, expect, it } from 'vitest';
import { toPostgresInterval, toPostgresIntervals } from './intervals.ts';
import { JsonBytes } from './json-bytes.ts';
import { RowStream } from './row-stream.ts';
import { compileRowWriter, planRows } from './row-writer.ts';
import { type Kind, string } from './value-kinds.ts';

const number: Kind = { is: 'number' };
const moment: Kind = { is: 'timestamptz' };
const array = (element: Kind, delimiter = 44): Kind => ({ is: 'array', element, delimiter });
const composite: Kind = {
  is: 'composite',
  fields: [
    { key: Buffer.from('"a":'), kind: number },
    { key: Buffer.from(',"b":'), kind: string },
    { key: Buffer.from(',"c":'), kind: array(number) },
  ],
};
const nothing: Kind = { is: 'composite', fields: [] };

const values: [string, Kind, (string | null)[]][] = [
  ['text', string, ['', 'plain', '"\\\u0001\t\n', 'äöü🙂'.repeat(5000), '\u0001'.repeat(20_000), null]],
  ['numbers', number, ['1', '-1', 'NaN', 'Infinity', '-Infinity', `-${'9'.repeat(30_000)}.5`]],
  ['big numbers', { is: 'big' }, ['1', 'NaN', '1'.repeat(20_000)]],
  ['booleans', { is: 'boolean' }, ['t', 'f']],
  ['json', { is: 'json' }, ['{"a": [1, "ü"]}', `"${'x'.repeat(20_000)}"`]],
  ['json on one line', { is: 'json_line' }, ['{"a":\n[1,\r\n"\\n"]}', `[${'1,\n'.repeat(9_000)}1]`]],
  ['timestamps', moment, ['2026-11-14 09:30:00.5+00', 'infinity', '0044-03-15 00:00:00+00 BC']],
  [
    'arrays',
    array(number),
    ['{}', '{1,NULL,null,3}', '{{1,2},{3,4}}', '[0:1]={7,8}', `{${'12345,'.repeat(9000)}1}`],
  ],
  [
    'arrays of text',
    array(string),
    ['{"NULL",NULL,nulls,"a \\"b\\"","\\\\",x,äö}', `{${'"a,{}\\"",bare,'.repeat(3000)}"end"}`],
  ],
  ['boxes', array(string, 59), ['{(1,1),(0,0);(2,2),(1,1)}']],
  [
    'arrays of timestamps',
    array(moment),
    [`{${'"2026-11-14 09:30:00+00",infinity,NULL,'.repeat(1000)}infinity}`],
  ],
  ['vectors', { is: 'vector', element: number }, ['', '1', '1 2 3', `${'123 '.repeat(5000)}4`]],
  [
    'composites',
    composite,
    [
      '(1,"a ""b""","{1,2}")',
      '(,,)',
      '(1,bare,{3})',
      '(1,"\\\\x",)',
      `(1,${'y'.repeat(20_000)},"{${'1,'.repeat(9000)}1}")`,
    ],
  ],
  ['a type that has changed', composite, ['(1)', '(1,a,{1},more,"and more")']],
  ['no fields', nothing, ['()']],
  ['records', { is: 'record' }, ['(1,"a,b",)', '()', '(,)', '("",x)']],
  ['arrays of composites', array(composite), ['{"(1,\\"a \\"\\"b\\"\\"\\",\\"{1,2}\\")",NULL,"(,,)"}']],
  ['hstore', { is: 'hstore' }, ['', '"a"=>"1"', '"a"=>"1", "b"=>NULL, "c\\"d"=>"e\\\\"', '"NULL"=>NULL']],
  ['intervals', { is: 'rewritten', rewrite: toPostgresInterval }, ['P1Y2M', 'infinity']],
  [
    'lists of intervals',
    { is: 'rewritten', rewrite: toPostgresIntervals, isList: true },
    [
      '{}',
      '{P1Y,NULL,PT5M}',
      '[2:3]={P1D,P2D}',
      `{${'P1Y2M3DT4H5M6.5S,NULL,'.repeat(900)}P1D}`,
      '{{P1D},{P2D}}',
    ],
  ],
];

describe('a row that comes in parts is written as one that came whole', () => {
  it.each(values)('%s', (_what, kind, texts) => {
    for (const asArrays of [false, true])
      for (const text of texts) {
        const row = rowOf([text, 'another', text, null, text]);
        const types = [{ kind }, { kind: string }, { kind }, { kind: string }, { kind }];
        const columns = types.map((_, index) => ({ name: `c"${index}`, oid: 0, given: {} as never }));
        const plan = planRows(columns, types, asArrays);
        const whole = new JsonBytes({ bigAsString: false });
        compileRowWriter(plan)(row, 0, row.length, whole);
        const expected = whole.end().toString();
        for (const size of [1, 2, 3, 7, 1000, row.length]) {
          if (row.length / size > 100_000) continue;
          // Not toBe: it would print the whole of a difference this large.
          expect(inParts(plan, row, size).text === expected, `${size} of ${text?.slice(0, 100)}`).toBe(true);
        }
      }
  });

  it('without columns, and with some that are not shown', () => {
    expect(inParts(planRows([], []), rowOf([]), 1).text).toBe('{}');
    const shown = planRows([{ name: 'a', oid: 0, given: {} as never }], [{ kind: string }]);
    expect(inParts(shown, rowOf(['x', 'hidden']), 1).text).toBe('{"a":"x"}');
  });

  it('never holds more than a piece, and gives what a cursor needs', () => {
    const plan = planRows([{ name: 'a', oid: 0, given: {} as never }], [{ kind: string }]);
    const row = rowOf(['\u0001'.repeat(5_000_000), 'key', null]);
    const { text, mostHeld, shortened } = inParts(plan, row, 100_000);
    expect(text.length).toBe(30_000_000 + 8);
    expect(mostHeld).toBeLessThan(128 * 1024);
    expect(shortened.equals(rowOf(['\u0001'.repeat(8193), 'key', null]))).toBe(true);
  });
});

function inParts(plan: ReturnType<typeof planRows>, row: Buffer, size: number) {
  const json = new JsonBytes({ bigAsString: false });
  const pieces: Buffer[] = [];
  let mostHeld = 0;
  const onSlice = () => {
    mostHeld = Math.max(mostHeld, json.length);
    if (json.length > 64 * 1024) pieces.push(json.take());
  };
  const stream = new RowStream(plan, json, onSlice, true);
  for (let at = 0; at < row.length; at += size) {
    const part = Buffer.from(row.subarray(at, at + size));
    stream.push(part, 0, part.length);
  }
  stream.end();
  return { text: Buffer.concat([...pieces, json.end()]).toString(), mostHeld, shortened: stream.shortened() };
}

function rowOf(texts: (string | null)[]): Buffer {
  const count = Buffer.alloc(2);
  count.writeUInt16BE(texts.length);
  const parts = texts.map((text) => {
    const size = Buffer.alloc(4);
    size.writeInt32BE(text === null ? -1 : Buffer.byteLength(text));
    return Buffer.concat([size, Buffer.from(text ?? '')]);
  });
  return Buffer.concat([count, ...parts]);
}

import { describe, expect, it } from 'vitest';
import { atOnce } from '../../lib/fair-reads.ts';
import { type Column, plainShape, type Table } from '../catalog/catalog.ts';
import { mayCopy, readArrayRows } from './array-rows.ts';

const column = (name: string, more: Partial<Column> = {}): [string, Column] => [
  name,
  {
    name,
    type: 'text',
    typeOid: 25,
    shape: plainShape,
    operators: new Map(),
    notNull: false,
    isReadable: true,
    hasDefault: false,
    identity: null,
    generated: null,
    enumValues: null,
    ...more,
  },
];
const table = {
  columns: new Map([
    column('a'),
    column('b'),
    column('i', { shape: { ...plainShape, isInteger: true } }),
    column('j', { shape: { ...plainShape, is: 'jsonb' } }),
    column('raw', { shape: { ...plainShape, is: 'json' } }),
    column('list', { shape: { ...plainShape, isArray: true } }),
    column('made', { generated: 'stored' }),
    column('always', { identity: 'always' }),
  ]),
} as unknown as Table;

/** The text for COPY, or null if the body is declined. */
function read(body: string | Buffer): string | null {
  const rows = atOnce(readArrayRows(table, Buffer.from(body as string)));
  return rows && Buffer.concat(rows.pieces).toString();
}

describe('the rows of an array', () => {
  it.each([
    ['[{"a":1}]', '1\n'],
    ['[ {"a":1} , {"a":2}\n]\n', '1\n2\n'],
    ['[{"a":1,"b":"x"},{"b":"y","a":2}]', '1\tx\n2\ty\n'],
    ['[{"a":"\\u00e9\\ud83d\\ude00"}]', 'é😀\n'],
    ['[{"a":1e2},{"a":1.50},{"a":12345678901234567890}]', '1e2\n1.50\n12345678901234567890\n'],
    ['[{"i":1e2},{"i":1.0},{"i":-0.0}]', '100\n1\n-0\n'],
    ['[{"j":{"n":1.50}},{"j":{"n":1.5}},{"j":"x"},{"j":null}]', '{"n":1.50}\n{"n":1.5}\n"x"\n\\N\n'],
    ['[{"j":12345678901234567890.5},{"j":[\n1]}]', '12345678901234567890.5\n[1]\n'],
    ['[{"a":1,"a":2}]', '2\n'],
    [`[{"a":"${'x'.repeat(40_000)}"},{"a":1}]`, `${'x'.repeat(40_000)}\n1\n`],
  ])('%.60j', (body, rows) => {
    expect(read(body)).toBe(rows);
  });

  it.each([
    ...[
      '[]',
      '[1]',
      '{"a":1}',
      '[{}]',
      '[{"a":1}',
      '[{"a":1},]',
      '[{"a":1}]]',
      '[{"a":1}{"a":2}]',
      '[[{"a":1}]]',
    ],
    ...[
      '[{"a":1},{"b":1}]',
      '[{"a":1},{"a":1,"b":1}]',
      '[{"a":1,"b":1},{"a":1}]',
      '[{"x":1}]',
      '[{"a":1},null]',
    ],
    ...['[{"raw":{}}]', '[{"list":[]}]', '[{"made":1}]', '[{"always":1}]'],
    ...['[{"a":"\\u0000"}]', '[{"a":"\\ud800"}]', '[{"a":"\t"}]', '[{"a":01}]', '[{"a":1}', '[{"a":"x]'],
    `[{"a":"${'x'.repeat(70_000)}"}]`,
  ])('%.60j is declined', (body) => {
    expect(read(body)).toBeNull();
  });

  it('that are not valid UTF-8 are declined', () => {
    expect(read(Buffer.from('[{"a":"\xff"}]', 'latin1'))).toBeNull();
  });

  it('are the same as those that JSON.parse finds, wherever the array is cut into pieces', () => {
    const values = ['x', 'tab\t', 'é', 'back\\slash', 5, 1.25, true, null, '"'];
    const rows = Array.from({ length: 20_000 }, (_, n) => ({ a: values[n % 9], b: values[(n * 7) % 9] }));
    const escapes: Record<string, string> = { '\\': '\\\\', '\t': '\\t' };
    const cell = (value: unknown) =>
      value === null ? '\\N' : String(value).replace(/[\\\t]/g, (one) => escapes[one] as string);
    expect(read(JSON.stringify(rows))).toBe(rows.map(({ a, b }) => `${cell(a)}\t${cell(b)}\n`).join(''));
  });
});

describe('a large array leaves the processor to others', () => {
  const ofRows = (row: string, bytes = 2 * 1024 * 1024) =>
    Buffer.from(`[${Array.from({ length: Math.ceil(bytes / row.length) }, () => row).join(',')}]`);
  it.each([
    ['long rows', `{"a":"${'x'.repeat(17 * 1024)}"}`],
    ['rows that leave little', `{${'"a":[[[{}]]],'.repeat(1_000)}"a":1.000000000000000000001}`],
    ['spaces', `{"a":1${' '.repeat(8 * 1024)}}`],
    ['short rows', '{"a":1}'],
  ])('%s', (_, row) => {
    const body = ofRows(row);
    const slices = readArrayRows(table, body);
    let turns = 0;
    let step = slices.next();
    for (; !step.done; step = slices.next()) turns++;
    // One for each 64 KB, and the last row of a slice can be as long.
    expect(turns).toBeGreaterThan(body.length / (128 * 1024) - 2);
    const held = (step.value?.pieces ?? []).reduce((sum, { buffer }) => sum + buffer.byteLength, 0);
    expect(held).toBeGreaterThan(0);
    expect(held).toBeLessThan(3 * body.length);
  });
});

describe('a body may be copied', () => {
  const large = Buffer.from(`[${'{"a":1},'.repeat(2_000)}{"a":1}]`);

  it('if it is a large array, and no rows are wanted back', () => {
    expect(mayCopy('returning=minimal', large)).toBe(true);
    for (const query of [
      '',
      'returning=row',
      'returning=minimal&resolution=merge',
      'select=a&returning=minimal',
    ])
      expect(mayCopy(query, large)).toBe(false);
    expect(mayCopy('returning=minimal', large.subarray(0, 1_000))).toBe(false);
    expect(mayCopy('returning=minimal', large.subarray(1))).toBe(false);
  });
});

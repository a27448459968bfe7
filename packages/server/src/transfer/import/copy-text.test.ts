import { describe, expect, it } from 'vitest';
import { readCopyHead, readCopyRows } from './copy-text.ts';

async function rowsOf(text: string, size = 7) {
  const bytes = Buffer.from(text);
  async function* pieces() {
    for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
  }
  const rows = [];
  for await (const row of readCopyRows(pieces(), ['a', 'b'])) rows.push([row.get('a'), row.get('b')]);
  return rows;
}

describe('rows of COPY', () => {
  it('are read with their escapes, whatever the size of a piece', async () => {
    const text = '1\t\\N\n\\\\N\ta\\tb\\nc\\\\d\\re\nü🍵\t\nlast\tone';
    const expected = [
      ['1', null],
      ['\\N', 'a\tb\nc\\d\re'],
      ['ü🍵', ''],
      ['last', 'one'],
    ];
    for (const size of [1, 2, 5, 1000]) expect(await rowsOf(text, size)).toEqual(expected);
  });

  it.each([
    ['one column too few', '1\n'],
    ['one column too many', '1\t2\t3\n'],
    ['a line without end', `1\t${'x'.repeat(2_000_000)}`],
  ])('with %s are refused', async (_what, text) => {
    await expect(rowsOf(text, 65_536)).rejects.toThrow('a row of users');
  });

  it('that are no UTF-8 are refused', async () => {
    const bad = async () => {
      async function* pieces() {
        yield Buffer.from([97, 9, 255, 10]);
      }
      for await (const row of readCopyRows(pieces(), ['a', 'b'])) expect(row).toBeUndefined();
    };
    await expect(bad()).rejects.toThrow('UTF-8');
  });
});

describe('the head of a COPY', () => {
  it.each([
    ['COPY auth.users (id, email) FROM stdin;', { schema: 'auth', table: 'users', columns: ['id', 'email'] }],
    ['copy "auth"."users" ("id") from stdin;', { schema: 'auth', table: 'users', columns: ['id'] }],
    ['copy auth . "users" (id) from stdin;', { schema: 'auth', table: 'users', columns: ['id'] }],
    ['COPY users (id) FROM stdin;', null],
    ['COPY (select 1) TO stdout;', null],
  ])('%s', (text, expected) => {
    expect(readCopyHead(text)).toEqual(expected);
  });
});

import { describe, expect, it } from 'vitest';
import { openCsv, refuseEndMarks } from './csv.ts';

async function* inPieces(text: string | Buffer, size: number): AsyncGenerator<Buffer, void> {
  const bytes = Buffer.from(text as string);
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

const read = async (text: string | Buffer, size = 1_000_000) => {
  const { names, rest } = await openCsv(inPieces(text, size));
  const pieces: Buffer[] = [];
  for await (const piece of rest) pieces.push(piece);
  return { names, rest: Buffer.concat(pieces).toString('latin1') };
};

describe('a header', () => {
  it.each([
    ['names', 'id,name\n1,a\n', ['id', 'name'], '1,a\n'],
    ['CRLF', 'id,name\r\n1,a\r\n', ['id', 'name'], '1,a\r\n'],
    ['a byte order mark', '\uFEFFid,name\n1', ['id', 'name'], '1'],
    ['a byte order mark and quotes', '\uFEFF"id","name"\n1', ['id', 'name'], '1'],
    ['quotes', '"a,b","c ""d""","e\nf",g\n"1\n', ['a,b', 'c "d"', 'e\nf', 'g'], '"1\n'],
    ['no rows', 'id,name', ['id', 'name'], ''],
    ['no rows, CRLF', 'id\r\n', ['id'], ''],
    ['blanks as they are', ' id , name\n', [' id ', ' name'], ''],
    [
      'names of every kind',
      '__proto__,constructor,é,"a;b",\\.\n\\.\n',
      ['__proto__', 'constructor', 'é', 'a;b', '\\.'],
      '\\.\n',
    ],
    ['one name in quotes', '"a;b"\n1', ['a;b'], '1'],
  ])('with %s', async (_what, text, names, rest) => {
    for (const size of [1, 2, 3, 5, 1000]) expect(await read(text, size)).toEqual({ names, rest });
  });

  it('and rows behind it byte for byte, whatever they are', async () => {
    const rows = Buffer.from(Array.from({ length: 70_000 }, (_, index) => (index * 7) % 256));
    for (const size of [1, 100, 65_536]) {
      const { names, rest } = await read(Buffer.concat([Buffer.from('a,b\n'), rows]), size);
      expect(names).toEqual(['a', 'b']);
      expect(Buffer.from(rest, 'latin1').equals(rows)).toBe(true);
    }
  });

  it.each([
    ['nothing', '', 'is missing'],
    ['a blank line', '\r\n1,2\n', 'is missing'],
    ['a name too few', 'a,,b\n', 'has no name for column 2'],
    ['a comma at the end', 'a,b,\n', 'has no name for column 3'],
    ['empty quotes', 'a,""\n', 'has no name for column 2'],
    ['a name twice', 'a,b,a\n', 'has the column "a" twice'],
    ['semicolons', 'a;b;c\n1;2;3\n', 'has one column, with ";" in it'],
    ['tabs', 'a\tb\n', 'has one column, with "\\t" in it'],
    ['an open quote', 'a,"b\n1,2\n', 'has a quote that is not closed'],
    ['a quote inside', 'a"b,c\n1,2\n', 'has a quote inside the name "a\\"b"'],
    ['text behind quotes', '"a"b,c\n', 'has text after the closing quote of column 1'],
    ['a NUL', 'a,b\0\n', 'must not contain a NUL character'],
    ['old line ends', 'a,b\r1,2\r', 'has a bare carriage return'],
    [
      'too many columns',
      `${Array.from({ length: 1601 }, (_, index) => `c${index}`)}\n`,
      'has more than 1600 columns',
    ],
    ['no end', `"${'a'.repeat(300_000)}`, 'is longer than 262144 bytes'],
  ])('with %s is refused', async (_what, text, problem) => {
    for (const size of [1, 1_000_000]) {
      const error = await read(text, size).catch((thrown) => thrown);
      expect([error.status, error.code, error.message]).toEqual([
        ...[400, 'invalid_request', expect.stringContaining(`the header line ${problem}`)],
      ]);
    }
  });

  it('that is no UTF-8 is refused', async () => {
    await expect(read(Buffer.from([97, 255, 10]))).rejects.toMatchObject({ status: 400 });
  });
});

describe('where a header ends', () => {
  it.each([
    ['a,b', 1],
    ['a,b\n', 1],
    ['a,b\r\n1,2\n', 1],
    ['"a\nb",c\n1,2\n', 2],
    ['"a\r\n\nb"', 3],
  ])('%j: %i lines', async (text, lines) => {
    expect((await openCsv(inPieces(text, 2))).lines).toBe(lines);
  });
});

describe('an end mark', () => {
  const pass = async (text: string, size: number) => {
    const pieces: Buffer[] = [];
    for await (const piece of refuseEndMarks(inPieces(text, size), 2)) pieces.push(piece);
    return Buffer.concat(pieces).toString();
  };

  it.each(['', '\\', '\\.x\n', 'a\\.\n', '"\\."\n', '\\\\.\n', ' \\.\n', '\\.\r\r\n', 'x\n\n\\N\n\\,.\n'])(
    'is not in %j',
    async (text) => {
      for (const size of [1, 2, 3, 100]) expect(await pass(text, size)).toBe(text);
    },
  );

  it.each([
    ['\\.', 2],
    ['\\.\n1\n', 2],
    ['a,b\r\n\r\n\\.\r\nc', 4],
    ['"x\n\\.\ny"\n', 3],
    ['1\n\\.', 3],
  ])('is in %j, at line %i', async (text, line) => {
    for (const size of [1, 2, 3, 100])
      await expect(pass(text, size)).rejects.toMatchObject({
        status: 400,
        message: `line ${line}: contains only \\., which this version of PostgreSQL reads as the end of the data`,
      });
  });
});

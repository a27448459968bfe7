import { describe, expect, it } from 'vitest';
import { BrokenDump } from './broken-dump.ts';
import { type DumpFile, dumpInMemory } from './dump-file.ts';
import { readRows, readScript, splitStatements } from './script.ts';

async function read(text: string | Buffer, size = 1_000_000) {
  const file = dumpInMemory(Buffer.from(text as string));
  const found: (string | [string, string])[] = [];
  for await (const { text: statement, rowsAt, refused } of readScript(file, size)) {
    if (rowsAt === null) {
      found.push(refused ? `refused ${statement}` : statement);
      continue;
    }
    const rows: Buffer[] = [];
    for await (const piece of readRows(file, rowsAt, size)) rows.push(Buffer.from(piece));
    found.push([statement, Buffer.concat(rows).toString()]);
  }
  return found;
}

async function all(statements: AsyncIterable<{ text: string }>): Promise<string[]> {
  const found: string[] = [];
  for await (const { text } of statements) found.push(text);
  return found;
}

describe('statements', () => {
  it.each([
    ['two', 'select 1; select 2;', ['select 1;', 'select 2;']],
    ['empty ones', ';; ; select 1;;', ['select 1;']],
    ['a semicolon in a string', "select 'a;b';select 2;", ["select 'a;b';", 'select 2;']],
    ['a doubled quote', "select 'a'';b';select 2;", ["select 'a'';b';", 'select 2;']],
    ['a backslash in a string', "select '\\';select 2;", ["select '\\';", 'select 2;']],
    ['an escaped quote', "select E'\\';b';select 2;", ["select E'\\';b';", 'select 2;']],
    ['an e that ends a name', "select abe'\\';select 2;", ["select abe'\\';", 'select 2;']],
    ['an escape string in two lines', "select E'a'\n'\\';';x;", ["select E'a'\n'\\';';", 'x;']],
    ['a quoted name', 'select ";""; ";x;', ['select ";""; ";', 'x;']],
    ['dollar quotes', 'do $$ a; $b$ ; $$;x;', ['do $$ a; $b$ ; $$;', 'x;']],
    ['dollar quotes with a tag', 'do $a_1$ ; $$ ; $a_1$;x;', ['do $a_1$ ; $$ ; $a_1$;', 'x;']],
    ['a dollar in a name', 'select a$b$c;x$y$;', ['select a$b$c;', 'x$y$;']],
    ['parameters', 'select $1;$2;', ['select $1;', '$2;']],
    ['a line comment', '-- a;b\nselect 1 -- c;d\n;x;', ['select 1 -- c;d\n;', 'x;']],
    ['a nested comment', '/* a /* ; */ ; */ select 1 /*;*/;x;', ['select 1 /*;*/;', 'x;']],
    ['parentheses', 'create rule r as on x do (a; b);x;', ['create rule r as on x do (a; b);', 'x;']],
    [
      'a body between BEGIN ATOMIC and END',
      'CREATE OR REPLACE FUNCTION f() RETURNS int BEGIN ATOMIC select case when a then b end; select 2; END;x;',
      [
        'CREATE OR REPLACE FUNCTION f() RETURNS int BEGIN ATOMIC select case when a then b end; select 2; END;',
        'x;',
      ],
    ],
    ['begin as a statement', 'BEGIN;select 1;END;', ['BEGIN;', 'select 1;', 'END;']],
    [
      'strings by the setting',
      "SET standard_conforming_strings = off;select '\\';';x;",
      ['SET standard_conforming_strings = off;', "select '\\';';", 'x;'],
    ],
    ['known commands of psql', '\\restrict aB1\nselect 1;\n\\unrestrict aB1\n', ['select 1;']],
    [
      'other commands of psql',
      '\\connect x\n\\! id\nselect 1;',
      ['refused \\connect x', 'refused \\! id', 'select 1;'],
    ],
    [
      'a command inside of a statement',
      'select 1 \\g |id\n;select 2;',
      ['refused select 1 \\g |id\n;', 'select 2;'],
    ],
    [
      'rows',
      'COPY a (b) FROM stdin;\n1\n\\\\.\nx;y\n\\.\n\nx;',
      [['COPY a (b) FROM stdin;', '1\n\\\\.\nx;y\n'], 'x;'],
    ],
    ['no rows', 'copy "from stdin" FROM STDIN;\n\\.\nx;', [['copy "from stdin" FROM STDIN;', ''], 'x;']],
    ['rows with CRLF', 'COPY a FROM stdin;\r\n1\r\n\\.\r\nx;', [['COPY a FROM stdin;', '1\r\n'], 'x;']],
    ['rows at the end', 'COPY a FROM stdin;\n1\n\\.', [['COPY a FROM stdin;', '1\n']]],
    ['a COPY from elsewhere', "copy a from 'stdin';x;", ["copy a from 'stdin';", 'x;']],
  ])('%s', async (_what, text, expected) => {
    for (const size of [1, 2, 3, 7, 1_000_000])
      expect([size, await read(text, size)]).toEqual([size, expected]);
  });

  it('long rows are found whatever the size of a piece', async () => {
    const rows = `${'abc\\\\.\n'.repeat(200_000)}\\N\n`;
    const text = `COPY a FROM stdin;\n${rows}\\.\nselect 1;`;
    for (const size of [65_537, 1_000_000]) {
      const [copy, next] = await read(text, size);
      expect([(copy as string[])[1] === rows, next]).toEqual([true, 'select 1;']);
    }
  });

  it('carry the heading that pg_dump wrote before them', async () => {
    const text =
      '--\n-- Name: a; b; Type: TABLE; Schema: public; Owner: ada\n--\n\ncreate table "a; b" ();\nalter table x;\n' +
      '--\n-- Data for Name: t; Type: TABLE DATA; Schema: -; Owner: -\n--\n\nselect 1;';
    const found = [];
    for await (const { heading } of readScript(dumpInMemory(Buffer.from(text)))) found.push(heading);
    const table = { kind: 'TABLE', name: 'a; b', schema: 'public', owner: 'ada' };
    expect(found).toEqual([table, table, { kind: 'TABLE DATA', name: 't', schema: null, owner: null }]);
  });
});

describe('hostile statements', () => {
  it.each([
    ['a heading of many parts', `--${' Name: x; Type: '.repeat(800)}${'; Schema: '.repeat(200)}\nselect 1;`],
    ['many dollars', `copy ${'$a'.repeat(200_000)} from x;`],
    ['a long tag', `copy $${'a'.repeat(400_000)} from x;`],
    ['open quotes', `select ${'$ '.repeat(300_000)};`],
    ['deep comments', `copy ${'/*'.repeat(100_000)}${'*/'.repeat(100_000)} x;`],
    ['many parentheses', `copy ${'('.repeat(300_000)}${')'.repeat(300_000)} x;`],
  ])('take no longer than their length: %s', { timeout: 5_000 }, async (_what, text) => {
    const startedAt = performance.now();
    expect(await read(text)).toHaveLength(1);
    expect(performance.now() - startedAt).toBeLessThan(4_000);
  });
});

describe('a script', () => {
  it.each([
    ['is empty', '', 'empty'],
    ['is compressed', Buffer.from([0x1f, 0x8b, 8, 0]), 'gzip'],
    ['is an export as CSV', Buffer.from('PK\x03\x04\x2d\x00'), 'zip'],
    ['is UTF-16', Buffer.from('\uFEFFselect 1;', 'utf16le'), 'UTF-16'],
    ['is of a whole server', '--\n-- PostgreSQL database cluster dump\n--\n', 'whole server'],
    ['is in another encoding', "SET client_encoding = 'LATIN1';", 'LATIN1'],
    ['is no UTF-8', Buffer.from([...Buffer.from("select '"), 255, ...Buffer.from("';")]), 'UTF-8'],
    ['ends in a string', "select 'a", 'too early'],
    ['ends in a comment', '/* a', 'too early'],
    ['ends in a statement', 'select 1; select 2', 'too early'],
    ['ends in rows', 'COPY a FROM stdin;\n1\n2', 'too early'],
    ['ends before pg_dump was done', '--\n-- PostgreSQL database dump\n--\n\nselect 1;\n', 'too early'],
    ['has rows on the line of their COPY', 'COPY a FROM stdin; select 1;\n\\.\n', 'followed by'],
  ])('that %s is refused', async (_what, text, message) => {
    for (const size of [1_000, 1_000_000]) {
      const error = await read(text, size).catch((thrown) => thrown);
      expect(error).toBeInstanceOf(BrokenDump);
      expect(error.message).toContain(message);
    }
  });

  it('with a statement that never ends is refused before it fills the memory', async () => {
    const piece = Buffer.alloc(64_000_000, 'a ');
    const endless: DumpFile = {
      size: 10_000_000_000,
      read: async (_at, length) => piece.subarray(0, length),
    };
    const all = async () => {
      for await (const item of readScript(endless)) expect(item).toBeUndefined();
    };
    await expect(all()).rejects.toThrow('longer than 64 MB');
  });

  it.each([
    ['a script', () => read(';'.repeat(300_000))],
    ['an entry of an archive', () => all(splitStatements(';'.repeat(300_000)))],
  ])('with very many statements lets other work run meanwhile: %s', async (_what, act) => {
    let turns = 0;
    let isOver = false;
    const count = () => {
      turns++;
      if (!isOver) setImmediate(count);
    };
    count();
    expect(await act()).toEqual([]);
    isOver = true;
    expect(turns).toBeGreaterThan(250);
  });

  it.each([
    ['insert into t values (1);', 1],
    ['INSERT INTO "values" (a, b) VALUES (1, (2)), (f(1, 2), \'), (\');', 2],
    ["insert into t values (E'\\'), ('), ($$), ($$), /* ), ( */ (2) -- ), (\n, (3)", 4],
    ['insert into public.t as x (a) overriding system value values (1),(2) on conflict (a) do nothing;', 2],
    ['insert into t values (1), (2) returning (a);', 2],
    ['insert into t default values;', 1],
    ['insert into t (a) select * from (values (1), (2)) as x (a);', null],
    ['insert into t select 1 union all values (2), (3);', null],
    ['insert into t values (1), (2) limit 1;', null],
    ['with x as (values (1)) insert into t select * from x;', null],
    ['create table values (a int);', null],
  ])('count the rows of %s', async (text, rows) => {
    for (const size of [1, 2, 7, 1_000_000]) {
      const found: unknown[] = [];
      const script = `select 1;\n${text.replace(/;?$/, ';')}\nselect (2), (3);`;
      for await (const { listedRows } of readScript(dumpInMemory(Buffer.from(script)), size))
        found.push(listedRows);
      expect(found).toEqual([null, rows, null]);
    }
    for await (const { listedRows } of splitStatements(text)) expect(listedRows).toBe(rows);
  });

  it('loses no statement to a byte order mark', async () => {
    for (const text of ['select 1;\n', '-- a\nselect 1;', "\\set a 'b'\nselect 1;", '\r\nselect 1;\r\n'])
      for (const size of [1, 1_000_000]) expect((await read(`\uFEFF${text}`, size)).at(-1)).toBe('select 1;');
    expect(await read('\uFEFF')).toEqual([]);
  });

  it('cut off at any place is never taken for a whole one', async () => {
    const text =
      "--\n-- PostgreSQL database dump\n--\n\nSET a = 'b';\nCOPY a FROM stdin;\n1\n\\.\n\nselect $$;$$;\n" +
      '--\n-- PostgreSQL database dump complete\n--\n\n';
    const done = text.indexOf('complete') + 'complete'.length;
    for (let size = 40; size < done; size++)
      await expect(read(text.slice(0, size)), `cut at ${size}`).rejects.toBeInstanceOf(BrokenDump);
    expect(await read(text)).toHaveLength(3);
  });
});

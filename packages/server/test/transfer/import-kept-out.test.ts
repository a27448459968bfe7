// Rows that a dump holds and its own triggers, rules, conditions or statements keep out: the import is never quietly done.
import { describe, expect, it } from 'vitest';
import { writeArchive } from '../support/archives.ts';
import { run } from '../support/exports.ts';
import { importDump, lostOf, useImports } from '../support/importing.ts';

const rowhouse = useImports();

const table = 'CREATE TABLE public.a (id int UNIQUE, name text);\n';
const trigger = (body: string, when = 'BEFORE INSERT ON public.a FOR EACH ROW') =>
  `CREATE FUNCTION public.act() RETURNS trigger LANGUAGE plpgsql AS $$ begin ${body} end $$;\nCREATE TRIGGER act ${when} EXECUTE FUNCTION public.act();\n`;
const onlyFirst = trigger('if new.id = 1 then return new; end if; return null;');
const copy = 'COPY public.a (id, name) FROM stdin;\n1\tone\n2\ttwo\n3\tthr\\\\ee\n\\.\n';
const inserts =
  "INSERT INTO public.a VALUES (1, 'one');\nINSERT INTO public.a VALUES (2, 'two');\nINSERT INTO public.a VALUES (3, ');(');\n";
const rows = "INSERT INTO public.a (id, name) VALUES\n(1, 'one'),\n(2, 'two'), -- (9)\n(3, '), (');\n";

describe('what the dump keeps out is a loss', () => {
  it.each([
    ['a trigger, COPY', table + onlyFirst + copy, 1, 2],
    ['a trigger, INSERTs', table + onlyFirst + inserts, 1, 2],
    ['a trigger, an INSERT of several rows', table + onlyFirst + rows, 1, 2],
    [
      'a trigger, in a transaction',
      `${table}${onlyFirst}BEGIN;\n${inserts}${copy.replace('1\t', '4\t')}COMMIT;\n`,
      1,
      5,
    ],
    ['a trigger, of all rows', table + trigger('return null;') + copy, 0, 3],
    [
      'a trigger, DEFAULT VALUES',
      `${table}${trigger('return null;')}INSERT INTO public.a DEFAULT VALUES;\n`,
      0,
      1,
    ],
    [
      'a trigger, a query',
      `${table}${trigger('return null;')}INSERT INTO public.a SELECT 1, 'x' UNION ALL SELECT 2, 'y';\n`,
      0,
      1,
    ],
    [
      'a trigger of a partition',
      `CREATE TABLE public.p (id int, name text) PARTITION BY RANGE (id);\nCREATE TABLE public.a PARTITION OF public.p FOR VALUES FROM (0) TO (9);\n${onlyFirst}${copy.replace('public.a', 'public.p')}`,
      1,
      2,
    ],
    [
      'a trigger of a view',
      `${table}CREATE VIEW public.v AS SELECT * FROM public.a;\n${trigger('return null;', 'INSTEAD OF INSERT ON public.v FOR EACH ROW')}${inserts.replaceAll('public.a', 'public.v')}`,
      0,
      3,
    ],
    [
      'a rule, of all rows',
      `${table}CREATE RULE r AS ON INSERT TO public.a DO INSTEAD NOTHING;\n${rows}${inserts}`,
      0,
      6,
    ],
    [
      'a rule, of some',
      `${table}CREATE RULE r AS ON INSERT TO public.a WHERE new.id > 2 DO INSTEAD NOTHING;\n${rows}`,
      2,
      1,
    ],
    [
      'ON CONFLICT',
      `${table}${inserts}${rows.replace(';\n', ' ON CONFLICT DO NOTHING;\n').replace('(3,', '(4,')}`,
      4,
      2,
    ],
    ['a condition of COPY', `${table}${copy.replace('stdin', 'stdin WHERE id = 2')}`, 1, 2],
    [
      'COPY that ignores errors',
      `${table}${copy.replace('stdin', 'stdin (ON_ERROR ignore)').replace('2\t', 'x\t')}`,
      2,
      1,
    ],
    [
      'COPY of CSV',
      `${table}${onlyFirst}COPY public.a FROM stdin WITH (FORMAT csv, HEADER);\nid,name\n1,"o\n""ne"\n2,two\n\\.\n`,
      1,
      1,
    ],
  ])('%s', async (_what, dump, stored, lost) => {
    const { project, job } = await importDump(rowhouse, dump);
    expect(job.error).toBeNull();
    expect([job.status, job.result.rows, job.result.lost_count]).toEqual(['done_with_losses', stored, lost]);
    const [line] = lostOf(job);
    expect(line).toMatch(
      /^rows of public\.\w( \(\d entries\))?: The table took fewer rows than the dump holds/,
    );
    expect((await run(rowhouse, project, 'select count(*)::int as n from a')).rows).toEqual([{ n: stored }]);
  });

  it.each([
    [
      'a trigger that deletes',
      trigger(
        'delete from public.a where id = new.id; return null;',
        'AFTER INSERT ON public.a FOR EACH ROW',
      ),
    ],
    [
      'a trigger of the statement',
      trigger('delete from public.a where id < 9; return null;', 'AFTER INSERT ON public.a'),
    ],
    ['a rule', 'CREATE RULE r AS ON INSERT TO public.a DO ALSO DELETE FROM public.a WHERE id < 9;\n'],
  ])('rows that are deleted again: %s', async (_what, code) => {
    for (const held of [rows, copy]) {
      if (held === copy && code.includes('RULE')) continue;
      const { project, job } = await importDump(rowhouse, table + code + held);
      expect([job.status, job.result.lost_count]).toEqual(['done_with_losses', 3]);
      expect(lostOf(job)).toEqual([
        expect.stringMatching(/^rows that were stored .*They were deleted again/),
      ]);
      expect((await run(rowhouse, project, 'select count(*)::int as n from a')).rows).toEqual([{ n: 0 }]);
    }
  });

  it('an archive whose triggers come first', async () => {
    const entries = [
      { kind: 'TABLE', name: 'a', schema: 'public', text: table },
      { kind: 'FUNCTION', name: 'act', schema: 'public', text: onlyFirst },
      {
        kind: 'TABLE DATA',
        name: 'a',
        schema: 'public',
        copy: 'COPY public.a (id, name) FROM stdin;\n',
        data: '1\tone\n2\ttwo\n',
      },
    ];
    const { job } = await importDump(rowhouse, writeArchive(entries));
    expect([job.status, job.result.rows, job.result.lost_count]).toEqual(['done_with_losses', 1, 1]);
  });

  it.each([
    [
      'a block that catches errors',
      `${table}DO $$ begin insert into public.a values (1), (1); exception when others then null; end $$;\n`,
      'catches errors',
    ],
    ['another database', `${table}\\connect other\n${rows}`, '\\connect other: A project has one database'],
    ['another role', `${table}\\c - alice\n${rows}`, '\\c - alice: A project has one database'],
    [
      'a second database',
      `CREATE DATABASE one;\n\\connect one\n${table}CREATE DATABASE two;\n\\connect "two"\n${rows}`,
      '\\connect "two": A project has one database',
    ],
    [
      'a command behind another',
      `CREATE DATABASE one;\n\\connect one \\i more.sql\n${table}`,
      '\\connect one \\i more.sql',
    ],
    [
      'a command under a heading that is left out',
      `-- Name: shop; Type: DATABASE; Schema: -; Owner: ada\n\nCREATE DATABASE shop;\n\\i more.sql\n${table}`,
      '\\i more.sql',
    ],
    ['another encoding', `\\encoding LATIN1\n${table}`, '\\encoding LATIN1'],
  ])('%s', async (_what, dump, line) => {
    const { job } = await importDump(rowhouse, dump);
    expect([job.error, job.status]).toEqual([null, 'done_with_losses']);
    expect(lostOf(job).join('\n')).toContain(line);
  });
});

it.each([
  ['comments', '-- CREATE TABLE a (id int);\n/* INSERT INTO a VALUES (1); */\n'],
  ['blanks', '\n \n'],
  ['empty statements', ';;\n;'],
  ['commands of psql', '\\set a 1\n\\i more.sql\n\\echo done\n'],
])('a script that has only %s is refused', async (_what, dump) => {
  const { job } = await importDump(rowhouse, dump);
  expect([job.status, job.error?.code]).toEqual(['failed', 'invalid_dump']);
  expect(job.error.message).toContain('no SQL statement');
});

it.each([
  ['COPY', table + copy, 3],
  ['COPY without rows', `${table}COPY public.a FROM stdin;\n\\.\n`, 0],
  ['values with line breaks', `${table}COPY public.a FROM stdin;\n1\ta\\\nb\n2\t\\\\\n\\.\n`, 2],
  ['CSV', `${table}COPY public.a FROM stdin CSV HEADER QUOTE '''';\nid,name\n1,'a\n''b'\n2,"\n\\.\n`, 2],
  ['several rows', `${table}BEGIN;\n${rows.replace(';\n', ' ON CONFLICT (id) DO NOTHING;\n')}COMMIT;\n`, 3],
  [
    'an upsert',
    `${table}${rows}${rows.replace(';\n', ' ON CONFLICT (id) DO UPDATE SET name = excluded.name;\n')}`,
    6,
  ],
  ['a trigger that changes rows', `${table}${trigger("new.name := 'x'; return new;")}${copy}`, 3],
  ['its own DELETE', `${table}${rows}DELETE FROM public.a WHERE id = 1;\n`, 3],
  [
    'the database of pg_dump --create',
    `CREATE DATABASE "my shop" WITH TEMPLATE = template0;\n\\connect -reuse-previous=on "dbname='my shop'"\n${table}${rows}`,
    3,
  ],
  [
    'what is there already',
    `${table}${rows}DO $$ BEGIN\n CREATE TABLE public.a (id int);\nEXCEPTION\n WHEN duplicate_table THEN null;\nEND $$;\n`,
    3,
  ],
])('nothing is lost of a dump with %s', async (_what, dump, stored) => {
  const { job } = await importDump(rowhouse, dump);
  expect(job.error).toBeNull();
  expect([job.status, lostOf(job), job.result.rows]).toEqual(['done', [], stored]);
});

// What is remembered of a dump does not grow with its users.
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, it } from 'vitest';
import { dumpInMemory } from '../read/dump-file.ts';
import { readScript } from '../read/script.ts';
import { readAuthInsert } from './insert-text.ts';
import { InsertedRows } from './inserted-rows.ts';
import { Reporting } from './report.ts';

/** Without what nothing refers to. */
function heapMb(): number {
  setFlagsFromString('--expose-gc');
  runInNewContext('gc')();
  return process.memoryUsage().heapUsed / 1024 ** 2;
}

const idOf = (n: number) => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`;

it('the places of INSERTs', () => {
  const inserted = new InsertedRows(dumpInMemory(Buffer.alloc(0)), () => {});
  const before = heapMb();
  for (const name of ['users', 'passwords', 'sessions']) {
    const head = { table: name, columns: ['id'], valuesAt: 0 };
    for (let n = 0; n < 1_000_000; n++) inserted.note(head, n * 100, n * 100 + 99);
  }
  expect(heapMb() - before).toBeLessThan(5);
  expect(inserted.tables().map(({ table }) => table)).toEqual(['users', 'passwords']);
});

it('the users who are missing, with their lines and their reasons', () => {
  const report = new Reporting();
  const before = heapMb();
  for (let n = 0; n < 300; n++) {
    const line = `${idOf(n)}\t${String(n).repeat(400_000)}`;
    report.noteMissingUser(line.slice(0, 36), `no address: ${line.slice(37)}`);
    report.noteMissingUser(line.slice(30, 100_000), 'the id is not valid');
    report.skipInGroup(line.slice(37, 90_000), line.slice(37, 90_000));
    report.skip(line.slice(37, 90_000), line.slice(37, 90_000));
  }
  expect(heapMb() - before).toBeLessThan(10);
  const detail = (n: number) => ({ message: 'x', detail: `Key (id)=(${idOf(n)}) is not present` });
  expect(report.explainReference(detail(0))).toMatch(/who was not imported: no address: 0000/);
  expect(report.explainReference(detail(299))).toMatch(
    /who was not imported: the user cannot be stored here/,
  );
  expect(report.explainReference(detail(300))).toContain('is not present');
});

it('the rows are found again, whatever stands between them', async () => {
  const script = [
    "insert into auth.users (id) values ('first');",
    "copy public.t (id) from stdin;\ninsert into auth.users (id) values ('no statement');\n\\.",
    'SET standard_conforming_strings = off;',
    `insert into public.t values ('\\'; insert into auth.users (id) values (1);');`,
    "insert into auth.sessions (id) values ('other');",
    "insert into auth.users (id) values ('second'), ('third');",
    '-- the end',
    "insert into auth.passwords (id) values ('last');",
  ].join('\n');
  const file = dumpInMemory(Buffer.from(script));
  let counted = 0;
  const inserted = new InsertedRows(file, (bytes) => {
    counted += bytes;
  });
  for await (const { text, from, at } of readScript(file)) inserted.note(readAuthInsert(text), from, at);
  const found = [];
  for (const { table, rows } of inserted.tables())
    for await (const row of rows()) found.push(`${table} ${row?.get('id')}`);
  expect(found).toEqual(['users first', 'users second', 'users third', 'passwords last']);
  expect(counted).toBeGreaterThan(100);
});

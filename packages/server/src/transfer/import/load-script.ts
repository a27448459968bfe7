// Loads a plain dump: statement by statement, in its own order. It is read twice. The first time finds its owners, its
// users, and whether it is whole, before anything runs.
import { BrokenDump } from '../read/broken-dump.ts';
import type { CountContents } from '../read/contents.ts';
import { type Count, counted } from '../read/counted.ts';
import type { DumpFile } from '../read/dump-file.ts';
import { readRows, readScript, type ScriptItem } from '../read/script.ts';
import { Subjects } from '../read/subject.ts';
import { readAuthHead, readCopyRows } from './copy-text.ts';
import { readAuthColumns, readAuthInsert } from './insert-text.ts';
import { InsertedRows } from './inserted-rows.ts';
import { type Entry, isTelling, type Origin, OriginSearch } from './origin.ts';
import { PsqlCommands } from './psql-commands.ts';
import type { Runner } from './runner.ts';
import { type AuthRows, isOfUsers } from './users.ts';

export async function lookThrough(
  file: DumpFile,
  count: Count,
  countContents: CountContents,
): Promise<{ origin: Origin; authRows: AuthRows[] }> {
  const search = new OriginSearch();
  const authRows: AuthRows[] = [];
  const inserted = new InsertedRows(file, count);
  const subjects = new Subjects();
  let last: Entry | null = null;
  let isEmpty = true;
  for await (const item of readScript(file)) {
    const { heading, text, rowsAt } = item;
    isEmpty &&= item.refused !== null;
    countContents(text);
    if (heading && heading !== last) search.note(heading);
    last = heading;
    const subject = isTelling(text, heading !== null) ? subjects.of(text) : null;
    search.noteStatement(text, subject, heading !== null);
    const head = rowsAt === null ? null : readAuthHead(text);
    if (rowsAt !== null && head && isOfUsers(head.table)) {
      if (authRows.length === maxUserParts) throw tooManyParts();
      const { columns } = head;
      authRows.push({ ...head, rows: () => readCopyRows(counted(readRows(file, rowsAt), count), columns) });
    }
    if (subject?.kind === 'TABLE' && subject.schema === 'auth') inserted.noteTable(readAuthColumns(text));
    if (subject?.kind === 'TABLE DATA' && subject.schema === 'auth')
      inserted.note(readAuthInsert(text), item.from, item.at);
  }
  if (isEmpty) throw new BrokenDump('the dump has no SQL statement', 'Commands of psql are not run.');
  return { origin: search.result(), authRows: [...authRows, ...inserted.tables()] };
}

const maxUserParts = 1_000;
const tooManyParts = () =>
  new BrokenDump(
    `the users of the dump are in more than ${maxUserParts} parts`,
    'Join the rows of COPY auth.users into one.',
  );

export async function loadScript(
  file: DumpFile,
  runner: Runner,
  count: Count,
  progress: (fraction: number) => void,
): Promise<void> {
  let last: Entry | null = null;
  let isAdmitted = true;
  const subjects = new Subjects();
  const commands = new PsqlCommands();
  for await (const item of readScript(file)) {
    const { text, refused, rowsAt, listedRows } = item;
    progress(item.at / file.size);
    const entry = entryOf(item, subjects);
    commands.note(entry, text);
    // Whatever heading it stands under.
    if (refused !== null) {
      const left = commands.judge(text, refused);
      if (left) runner.skip(text, text.startsWith('\\') ? null : entry, left.reason, left.weight);
      continue;
    }
    if (entry && !isSame(entry, last)) {
      const isEmpty = rowsAt !== null && !runner.wouldRun(entry) && (await hasNoRows(file, rowsAt));
      isAdmitted = runner.admits(entry, text, isEmpty);
    }
    last = entry ?? last;
    // They are written before the heading of the entry that they are for.
    const isSetting = /^(?:set|reset|select\s+pg_catalog\.set_config)\b/i.test(text);
    if (!isAdmitted && entry && !isSetting) continue;
    if (rowsAt === null) await runner.statement(text, entry, listedRows);
    else await runner.copy(text, entry, () => counted(readRows(file, rowsAt), count));
  }
}

/** In an edited dump, a heading can be that of another statement: the statement itself decides. */
function entryOf({ heading, text }: ScriptItem, subjects: Subjects): Entry | null {
  const subject = subjects.of(text);
  if (!heading || !subject) return heading ?? subject;
  return fits(heading, subject) ? heading : subject;
}

function fits(heading: Entry, { kind, schema, name }: Entry): boolean {
  if (schema === null) {
    const words = heading.name.split(' ');
    return heading.kind.startsWith(kind) || words.includes(name) || heading.name.endsWith(name);
  }
  if (heading.schema !== schema) return heading.name === `SCHEMA ${schema}` || heading.name === schema;
  return (kind !== 'TABLE DATA' && kind !== 'TABLE') || heading.name.includes(name);
}

/** Several INSERTs into one table are one entry. Other statements without a heading each stand for themselves. */
function isSame(one: Entry, other: Entry | null): boolean {
  if (one === other) return true;
  if (one.kind !== 'TABLE DATA') return false;
  return other !== null && one.kind === other.kind && one.schema === other.schema && one.name === other.name;
}

async function hasNoRows(file: DumpFile, rowsAt: number): Promise<boolean> {
  return /^\\\.\r?(?:\n|$)/.test((await file.read(rowsAt, 4)).toString('latin1'));
}

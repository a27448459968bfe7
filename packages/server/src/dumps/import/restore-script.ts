// Restores a plain dump: statement by statement, in its own order. It is read twice. The first time finds its owners, its
// users, and whether it is whole, before anything runs.

import type { CountContents } from '../read/contents.ts';
import { type Count, counted } from '../read/counted.ts';
import type { DumpFile } from '../read/dump-file.ts';
import { readRows, readScript } from '../read/script.ts';
import { readAuthHead } from './copy-text.ts';
import { type Entry, type Origin, OriginSearch } from './origin.ts';
import type { Runner } from './runner.ts';
import type { AuthRows } from './users.ts';

export async function lookThrough(
  file: DumpFile,
  count: Count,
  countContents: CountContents,
): Promise<{ origin: Origin; authRows: AuthRows[] }> {
  const search = new OriginSearch();
  const authRows: AuthRows[] = [];
  let last: Entry | null = null;
  for await (const { heading, text, rowsAt } of readScript(file)) {
    countContents(text);
    if (heading && heading !== last) search.note(heading);
    last = heading;
    const head = rowsAt === null ? null : readAuthHead(text);
    if (rowsAt === null || !head || authRows.length >= maxAuthTables) continue;
    authRows.push({ ...head, rows: () => counted(readRows(file, rowsAt), count) });
  }
  return { origin: search.result(), authRows };
}

/** We have nine, Supabase about twenty. */
const maxAuthTables = 100;

export async function restoreScript(
  file: DumpFile,
  runner: Runner,
  count: Count,
  progress: (fraction: number) => void,
): Promise<void> {
  let last: Entry | null = null;
  let isAdmitted = true;
  for await (const { heading, text, refused, rowsAt, at } of readScript(file)) {
    progress(at / file.size);
    if (heading && heading !== last) isAdmitted = runner.admits(heading);
    last = heading;
    // They are written before the heading of the entry that they are for.
    const isSetting = /^(?:set|reset|select\s+pg_catalog\.set_config)\b/i.test(text);
    if (!isAdmitted && !isSetting) continue;
    if (refused !== null) runner.skip(text, heading, refused);
    else if (rowsAt === null) await runner.statement(text, heading);
    else if (!readAuthHead(text))
      await runner.copy(text, heading, () => counted(readRows(file, rowsAt), count));
  }
}

// A project as CSV: a zip with one file for each table, all of one moment.

import { copyOut } from '../postgres/copy-out.ts';
import type { Address } from '../postgres/database.ts';
import type { Session } from '../postgres/session.ts';
import { sql } from '../postgres/sql.ts';
import { lockTables, nameOf, openReader, type Table } from './tables.ts';
import { type ZipFile, zip } from './zip.ts';

export async function* exportCsv(
  address: Address,
  sessionName: string,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const session = await openReader(address, sessionName);
  const stop = () => session.destroy();
  signal.addEventListener('abort', stop, { once: true });
  if (signal.aborted) stop();
  try {
    const tables = (await lockTables(session, signal)).filter(isExported);
    yield* zip(filesOf(session, tables));
  } finally {
    signal.removeEventListener('abort', stop);
    session.close();
  }
}

/** Rows of partitions are in the file of their table. Of the users, nothing that is a secret. */
function isExported({ schema, name, isPartition, columns }: Table): boolean {
  return !isPartition && columns.length > 0 && (schema !== 'auth' || name === 'users');
}

async function* filesOf(session: Session, tables: readonly Table[]): AsyncGenerator<ZipFile> {
  for (const table of tables) yield { name: fileOf(table), pieces: copyOut(session, copyOf(table)) };
}

/** A child's rows are not its parent's here: each table has its own file. */
function copyOf(table: Table): string {
  const columns = table.columns.map((name) => sql.id(name).text).join(', ');
  const from = table.isPartitioned ? nameOf(table) : `only ${nameOf(table)}`;
  return `copy (select ${columns} from ${from}) to stdout with (format csv, header true)`;
}

/** Characters that mean something to a file system are written as in a URL, so that no name leads out of the folder. */
function fileOf({ schema, name }: Table): string {
  return `${[schema, name].map(encode).join('.')}.csv`;
}

function encode(name: string): string {
  return name.replace(/[%/\\:*?"<>|.\p{Cc}]/gu, (character) =>
    [...Buffer.from(character)]
      .map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`)
      .join(''),
  );
}

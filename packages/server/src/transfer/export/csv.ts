// A project as CSV: a zip with one file for each table, all of one moment.

import type { Address } from '../../postgres/admin/database.ts';
import { sql } from '../../postgres/sql.ts';
import { copyOut } from '../../postgres/wire/copy-out.ts';
import type { Session } from '../../postgres/wire/session.ts';
import { lockAndFindOwnCode, lockTables, nameOf, openReader, type Table } from './tables.ts';
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
    const tables = await lockTables(session, signal);
    // Other columns than those that were given can be read by a query alone, and planning it must not run the project's code.
    const computing = tables.filter(({ columns, given }) => given.length < columns.length);
    const openAnother = () => openReader(address, sessionName);
    const ownCode =
      computing.length > 0
        ? await lockAndFindOwnCode(session, openAnother, computing, signal)
        : new Set<string>();
    yield* zip(filesOf(session, tables, ownCode));
  } finally {
    signal.removeEventListener('abort', stop);
    session.close();
  }
}

/** Rows of partitions are in the file of their table. Of the users, nothing that is a secret. */
function isExported({ schema, name, isPartition, columns }: Table): boolean {
  return !isPartition && columns.length > 0 && (schema !== 'auth' || name === 'users');
}

async function* filesOf(
  session: Session,
  tables: readonly Table[],
  ownCode: ReadonlySet<string>,
): AsyncGenerator<ZipFile> {
  for (const table of tables.filter(isExported)) {
    const leaves = table.isPartitioned
      ? tables.filter(({ root, isPartitioned }) => root === table.oid && !isPartitioned)
      : [table];
    const isPlain = [table, ...leaves].some(({ oid }) => ownCode.has(oid));
    const columns = isPlain ? table.given : table.columns;
    if (columns.length > 0) yield { name: fileOf(table), pieces: rowsOf(session, leaves, columns) };
  }
}

async function* rowsOf(
  session: Session,
  leaves: readonly Table[],
  columns: readonly string[],
): AsyncGenerator<Uint8Array> {
  yield Buffer.from(`${columns.map(field).join(',')}\n`);
  const names = columns.map((name) => sql.id(name).text).join(', ');
  for (const leaf of leaves) {
    const isGiven = columns.every((name) => leaf.given.includes(name));
    const rows = isGiven ? `${nameOf(leaf)} (${names})` : `(select ${names} from only ${nameOf(leaf)})`;
    yield* copyOut(session, `copy ${rows} to stdout with (format csv)`);
  }
}

/** As PostgreSQL writes it. */
function field(name: string): string {
  return /[",\r\n]/.test(name) || name === '\\.' ? `"${name.replaceAll('"', '""')}"` : name;
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

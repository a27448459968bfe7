// A checksum of every table of a project, as of one moment. The rows are hashed here, as COPY writes them: a cast or a
// comparison in SQL could run the project's own functions.
import { createHash } from 'node:crypto';
import { lockTables, nameOf, openReader, type Table } from '../../dumps/tables.ts';
import { ask } from '../../postgres/ask.ts';
import { copyOut } from '../../postgres/copy-out.ts';
import type { Address } from '../../postgres/database.ts';
import type { Session } from '../../postgres/session.ts';
import { sql } from '../../postgres/sql.ts';

/** By the name of the table. */
export type Fingerprint = ReadonlyMap<string, { rows: number; sum: string }>;

const newline = 10;

/** `address`: as the role that reads the project (engine/dump-role.ts). */
export async function fingerprint(address: Address, signal: AbortSignal): Promise<Fingerprint> {
  const session = await openReader(address, 'rowhouse drill');
  const stop = () => session.destroy();
  signal.addEventListener('abort', stop, { once: true });
  if (signal.aborted) stop();
  try {
    // A busy server begins a scan where another one is: the order of rows would differ.
    await run(session, 'set synchronize_seqscans = off', signal);
    const tables = await lockTables(session, signal);
    const unlogged = new Set((await run(session, listUnlogged, signal)).map((row) => row.join('.')));
    const found = new Map<string, { rows: number; sum: string }>();
    for (const table of tables) {
      // Rows of a partitioned table are in its partitions. Unlogged tables are empty after a recovery.
      if (table.isPartitioned || table.columns.length === 0) continue;
      if (unlogged.has(`${table.schema}.${table.name}`)) continue;
      found.set(nameOf(table), await hash(session, table));
    }
    return found;
  } finally {
    signal.removeEventListener('abort', stop);
    session.close();
  }
}

async function hash(session: Session, table: Table): Promise<{ rows: number; sum: string }> {
  const columns = table.columns.map((name) => sql.id(name).text).join(', ');
  // A row that was changed and changed back is another version in another place. In a recovered copy, both are the same.
  const text = `copy (select ctid, xmin, ${columns} from only ${nameOf(table)}) to stdout`;
  const digest = createHash('sha256');
  let rows = 0;
  for await (const piece of copyOut(session, text)) {
    digest.update(piece);
    for (let at = piece.indexOf(newline); at >= 0; at = piece.indexOf(newline, at + 1)) rows++;
  }
  return { rows, sum: digest.digest('hex') };
}

const listUnlogged = `
  select nspname, relname from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = relnamespace
  where relpersistence = 'u' and relkind = 'r'`;

function run(session: Session, text: string, signal: AbortSignal) {
  return ask(session, text, [], { timeoutMs: 30_000, signal, terminate: (given) => given.destroy() });
}

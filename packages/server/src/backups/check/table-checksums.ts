// A checksum of every table of a project, as of one moment. The rows are hashed here, as COPY writes them: a cast or a
// comparison in SQL could run the project's own functions.
import { createHash } from 'node:crypto';
import type { Address } from '../../postgres/admin/database.ts';
import { sql } from '../../postgres/sql.ts';
import { ask } from '../../postgres/wire/ask.ts';
import { copyOut } from '../../postgres/wire/copy-out.ts';
import type { Session } from '../../postgres/wire/session.ts';
import { findOwnCode, lockTables, nameOf, openReader, type Table } from '../../transfer/export/tables.ts';
import type { Turn } from '../restore/restore-turns.ts';

export type Fingerprint = Readonly<{
  /** By their names. */
  tables: ReadonlyMap<string, { rows: number; sum: string }>;
  /** Changes with every definition and every right, even if it is changed back. */
  definitions: string;
}>;

const newline = 10;

/** `address`: as the role that reads the project (servers/databases/dump-role.ts). */
export async function fingerprint(address: Address, { signal, touch }: Turn): Promise<Fingerprint> {
  const session = await openReader(address, 'rowhouse drill');
  const stop = () => session.destroy();
  signal.addEventListener('abort', stop, { once: true });
  if (signal.aborted) stop();
  try {
    // A busy server begins a scan where another one is: the order of rows would differ.
    await run(session, 'set synchronize_seqscans = off', signal);
    const tables = await lockTables(session, signal, 'drill');
    const ownCode = await findOwnCode(session, tables, signal);
    const [[definitions = null] = []] = await run(session, sumDefinitions, signal);
    const unlogged = new Set((await run(session, listUnlogged, signal)).map((row) => row.join('.')));
    const found = new Map<string, { rows: number; sum: string }>();
    for (const table of tables) {
      // Rows of a partitioned table are in its partitions. Unlogged tables are empty after a recovery.
      if (table.isPartitioned || table.columns.length === 0) continue;
      if (unlogged.has(`${table.schema}.${table.name}`) || ownCode.has(table.oid)) continue;
      found.set(nameOf(table), await hash(session, table, touch));
    }
    return { tables: found, definitions: definitions ?? '' };
  } finally {
    signal.removeEventListener('abort', stop);
    session.close();
  }
}

async function hash(
  session: Session,
  table: Table,
  touch: () => void,
): Promise<{ rows: number; sum: string }> {
  const columns = table.columns.map((name) => sql.id(name).text).join(', ');
  // A row that was changed and changed back is another version in another place. In a recovered copy, both are the same.
  const text = `copy (select ctid, xmin, ${columns} from only ${nameOf(table)}) to stdout`;
  const digest = createHash('sha256');
  let rows = 0;
  for await (const piece of copyOut(session, text)) {
    touch();
    digest.update(piece);
    for (let at = piece.indexOf(newline); at >= 0; at = piece.indexOf(newline, at + 1)) rows++;
  }
  return { rows, sum: digest.digest('hex') };
}

const listUnlogged = `
  select nspname, relname from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = relnamespace
  where relpersistence = 'u' and relkind = 'r'`;

/**
 * The versions of all rows that decide what a table is called, who may read it and how its values are written: a label of an enum
 * can be renamed, and a column of type regclass shows the names of other tables. Temporary tables come and go.
 */
const sumDefinitions = `
  select pg_catalog.md5(pg_catalog.string_agg(version, ',' order by version)) from (
    select 'c' || c.oid || ':' || c.xmin from pg_catalog.pg_class c
    where relpersistence <> 't' and relkind <> 't' and c.oid >= 16384
    union all
    select 'a' || attrelid || '.' || attnum || ':' || a.xmin from pg_catalog.pg_attribute a
    join pg_catalog.pg_class c on c.oid = attrelid and relkind in ('r', 'p') and relpersistence <> 't'
    where attrelid >= 16384 and attnum > 0
    union all
    select 'n' || oid || ':' || xmin from pg_catalog.pg_namespace where nspname !~ '^pg_'
    union all
    select 'e' || oid || ':' || xmin from pg_catalog.pg_enum
    union all
    select 'p' || oid || ':' || xmin from pg_catalog.pg_proc where oid >= 16384
    union all
    select 'o' || oid || ':' || xmin from pg_catalog.pg_operator where oid >= 16384
    union all
    select 't' || t.oid || ':' || t.xmin from pg_catalog.pg_type t join pg_catalog.pg_namespace n on n.oid = typnamespace
    where t.oid >= 16384 and nspname !~ '^pg_'
    union all
    select 'f' || oid || ':' || xmin from pg_catalog.pg_ts_config where oid >= 16384
    union all
    select 'd' || oid || ':' || xmin from pg_catalog.pg_ts_dict where oid >= 16384
    union all
    select 'l' || oid || ':' || xmin from pg_catalog.pg_collation where oid >= 16384
  ) as versions (version)`;

function run(session: Session, text: string, signal: AbortSignal) {
  return ask(session, text, [], { timeoutMs: 30_000, signal, terminate: (given) => given.destroy() });
}

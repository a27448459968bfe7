// Copies the control database to another server: its tables by COPY into one that the migrations have made, in one
// transaction, and compared row by row before that transaction ends.

import type { Address } from '../../postgres/admin/database.ts';
import { type Sql, sql } from '../../postgres/sql.ts';
import { ask, type TextRow } from '../../postgres/wire/ask.ts';
import { CopyIn } from '../../postgres/wire/copy-in.ts';
import { copyOut } from '../../postgres/wire/copy-out.ts';
import { Session } from '../../postgres/wire/session.ts';
import { startupOptions } from '../../postgres/wire/startup-options.ts';

type Options = Readonly<{
  from: Address;
  /** Migrated like `from`, and empty. */
  to: Address;
  /** What is different there, as part of the same transaction. */
  afterwards: readonly Sql[];
  progress: (fraction: number) => void;
  signal: AbortSignal;
}>;

export type Copied = Readonly<{ table: string; rows: number }>;

/**
 * `migrations` is filled by the migrations. `changes` has transaction ids of its server, and says nothing to a process that
 * starts; `holds` says nothing when no process runs.
 */
const notCopied = ['migrations', 'changes', 'holds'];

/** Equal values are equal text under these. */
const settings = {
  search_path: 'public',
  default_transaction_isolation: 'repeatable read',
  DateStyle: 'ISO, MDY',
  TimeZone: 'UTC',
  IntervalStyle: 'iso_8601',
  bytea_output: 'hex',
  extra_float_digits: '1',
  client_min_messages: 'error',
};

export async function copyControl({ from, to, afterwards, progress, signal }: Options): Promise<Copied[]> {
  const source = await open(from);
  try {
    const target = await open(to);
    try {
      await run(source, 'begin read only', signal);
      await run(target, 'begin', signal);
      const tables = await listTables(source, signal);
      await compareMigrations(source, target, signal);
      const copied: Copied[] = [];
      for (const table of tables) {
        copied.push({ table: table.name, rows: await copyTable(source, target, table, signal) });
        progress(copied.length / tables.length);
      }
      for (const statement of afterwards) await runSql(target, statement, signal);
      await run(target, 'commit', signal);
      return copied;
    } finally {
      target.close();
    }
  } finally {
    source.close();
  }
}

type Table = Readonly<{ name: string; columns: readonly string[]; identity: string | null }>;

async function copyTable(
  source: Session,
  target: Session,
  table: Table,
  signal: AbortSignal,
): Promise<number> {
  const name = sql.id(table.name).text;
  const columns = table.columns.map((column) => sql.id(column).text).join(', ');
  const copy = new CopyIn({
    session: target,
    before: [],
    text: `copy ${name} (${columns}) from stdin`,
    after: { count: 0, write: () => {} },
    source: copyOut(source, `copy ${name} (${columns}) to stdout`),
    clock: { pause: () => {}, resume: () => {} },
  });
  const stop = () => copy.stop();
  signal.addEventListener('abort', stop, { once: true });
  const end = await copy.run().finally(() => signal.removeEventListener('abort', stop));
  signal.throwIfAborted();
  if (end instanceof Error) throw end;
  if (copy.sourceFailure) throw copy.sourceFailure.error;
  if (!copy.isComplete) throw new Error(`The table ${table.name} was not copied: ${copy.failure?.message}`);
  if (table.identity) await copySequence(source, target, table.name, table.identity, signal);
  const digest = `select count(*), coalesce(sum(hashtextextended(row(${columns})::text, 0)::numeric), 0) from ${name}`;
  const [before, after] = [await run(source, digest, signal), await run(target, digest, signal)];
  if (JSON.stringify(before) !== JSON.stringify(after))
    throw new Error(`The copy of the table ${table.name} differs from the original.`);
  return Number(after[0]?.[0]);
}

/** Ids of servers that were removed are not given to others. */
async function copySequence(
  source: Session,
  target: Session,
  table: string,
  column: string,
  signal: AbortSignal,
): Promise<void> {
  const sequence = sql`pg_get_serial_sequence(${sql.literal(table)}, ${sql.literal(column)})`;
  const [row] = await runSql(source, sql`select pg_sequence_last_value(${sequence}::regclass)`, signal);
  const last = row?.[0];
  if (last) await runSql(target, sql`select setval(${sequence}, ${sql.literal(last)}::bigint)`, signal);
}

/** Those that others refer to come first. */
async function listTables(source: Session, signal: AbortSignal): Promise<Table[]> {
  const rows = await runSql(
    source,
    sql`
    select relname,
      (select json_agg(attname order by attnum) from pg_attribute
       where attrelid = class.oid and attnum > 0 and not attisdropped and attgenerated = ''),
      (select min(attname) from pg_attribute where attrelid = class.oid and attidentity <> ''),
      (select coalesce(json_agg(distinct referred.relname), '[]')
       from pg_constraint join pg_class as referred on referred.oid = confrelid
       where conrelid = class.oid and contype = 'f' and confrelid <> conrelid)
    from pg_class as class
    where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') order by relname`,
    signal,
  );
  const waiting = new Map(rows.map(([name, ...rest]) => [name ?? '', rest]));
  const tables: Table[] = [];
  while (waiting.size > 0) {
    const ready = [...waiting].filter(([, [, , refersTo]]) =>
      (JSON.parse(refersTo ?? '[]') as string[]).every((name) => !waiting.has(name)),
    );
    if (ready.length === 0)
      throw new Error('The tables of the control database refer to each other in a circle.');
    for (const [name, [columns, identity]] of ready) {
      waiting.delete(name);
      if (notCopied.includes(name)) continue;
      tables.push({ name, columns: JSON.parse(columns ?? '[]') as string[], identity: identity ?? null });
    }
  }
  return tables;
}

async function compareMigrations(source: Session, target: Session, signal: AbortSignal): Promise<void> {
  const list = 'select number, checksum from migrations order by number';
  const [here, there] = [await run(source, list, signal), await run(target, list, signal)];
  if (JSON.stringify(here) !== JSON.stringify(there))
    throw new Error('The two control databases have different migrations.');
}

function open(address: Address): Promise<Session> {
  return Session.open(address, { application_name: 'rowhouse adopt', options: startupOptions(settings) });
}

/** A comparison of a million rows takes some seconds. */
const timeoutMs = 15 * 60_000;

function run(session: Session, text: string, signal: AbortSignal): Promise<TextRow[]> {
  return ask(session, text, [], { timeoutMs, signal, terminate: (given) => given.destroy() });
}

function runSql(session: Session, { text, values }: Sql, signal: AbortSignal): Promise<TextRow[]> {
  const parameters = values.map((value) => (value === null ? null : String(value)));
  return ask(session, text, parameters, { timeoutMs, signal, terminate: (given) => given.destroy() });
}

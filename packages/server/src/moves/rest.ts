// What logical replication does not carry, copied from the closed source during the pause of an online move.

import { errors } from '../errors/errors.ts';
import type { Queryable } from '../postgres/admin/database.ts';
import { sql } from '../postgres/sql.ts';
import { ask } from '../postgres/wire/ask.ts';
import type { Session } from '../postgres/wire/session.ts';
import { openReader } from '../transfer/export/tables.ts';
import type { ImportSession } from '../transfer/import/import-session.ts';
import { type CopyOptions, check, copyLargeObjects, copyTable, openWriter } from './copy.ts';
import type { Rest } from './replicable.ts';

/**
 * `closed`: a session of the service in the source, which is there already: another login would make the pause longer. Reading a
 * sequence runs no code of a project. `writer`: in the copy, as the role of the project.
 */
export async function copySequences(closed: Queryable, writer: ImportSession): Promise<void> {
  const names = await closed.query<{ name: string }>(sql.script(listSequences));
  for (let at = 0; at < names.length; at += atOnce) {
    const selects = names
      .slice(at, at + atOnce)
      .map(
        ({ name }) =>
          `select ${sql.literal(name).text} as name, last_value::text as value, is_called as "isCalled" from ${name}`,
      );
    const values = await closed.query<{ name: string; value: string; isCalled: boolean }>(
      sql.script(selects.join(' union all ')),
    );
    const set = values.map(
      ({ name, value, isCalled }) =>
        `select pg_catalog.setval(${sql.literal(name).text}::pg_catalog.regclass, ${BigInt(value)}, ${isCalled})`,
    );
    if (!(await writer.runTogether(set)))
      throw errors.conflict('A sequence cannot be set on the other server.', 'Start the move again.');
  }
}
const atOnce = 500;

/**
 * The search path has no schema of a project, so that names are complete. Those of an extension are created with it, and a dump
 * does not carry their values either.
 */
const listSequences = `
  select pg_class.oid::pg_catalog.regclass::pg_catalog.text as name
  from pg_catalog.pg_class join pg_catalog.pg_namespace on pg_namespace.oid = relnamespace
  where relkind = 'S' and relpersistence <> 't' and nspname not in ('rowhouse', 'pg_catalog', 'information_schema')
    and not exists (
      select from pg_catalog.pg_depend
      where classid = 'pg_catalog.pg_class'::pg_catalog.regclass and objid = pg_class.oid and deptype = 'e')`;

/** After the target has all replicated rows: materialized views are computed from them. */
export async function copyRest(options: CopyOptions, rest: Rest): Promise<void> {
  const { unlogged, views, hasLargeObjects } = rest;
  if (unlogged.length > 0) {
    const reader = await openReader(options.source, 'rowhouse move');
    await inCopy(options, (writer) => copyAll(reader, writer, unlogged, options.signal)).finally(() =>
      reader.close(),
    );
  }
  // The role that reads has two connections, and this needs both.
  if (hasLargeObjects) await copyLargeObjects(options);
  if (views.length > 0) await inCopy(options, (writer) => refresh(writer, views));
}

async function copyAll(
  reader: Session,
  writer: ImportSession,
  names: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  for (const name of names) {
    const [[columns = null] = []] = await ask(reader, listColumns, [name], {
      timeoutMs: statementMs,
      signal,
      terminate: () => reader.destroy(),
    });
    if (columns !== null) await copyTable(reader, writer, name, `(${columns})`);
  }
}

const statementMs = 60_000;
/** null: the table has none that hold values. */
const listColumns = `
  select pg_catalog.string_agg(pg_catalog.quote_ident(attname), ', ' order by attnum) from pg_catalog.pg_attribute
  where attrelid = $1::pg_catalog.regclass and attnum > 0 and not attisdropped and attgenerated = ''`;

/** In the order in which they were created, which fails if one was replaced meanwhile: then again, while it helps. */
async function refresh(writer: ImportSession, views: readonly string[]): Promise<void> {
  for (let left = views; left.length > 0; ) {
    const failed: string[] = [];
    let problem: { message: string } | null = null;
    for (const name of left) {
      const { error } = await writer.run(`refresh materialized view ${name}`);
      if (error) failed.push(name);
      problem ??= error;
    }
    if (failed.length === left.length) check(problem);
    left = failed;
  }
}

async function inCopy(options: CopyOptions, act: (writer: ImportSession) => Promise<void>): Promise<void> {
  const writer = await openWriter(options);
  await act(writer).finally(() => writer.close());
}

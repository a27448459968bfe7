// What an online move has put into a project for its time: publications, and REPLICA IDENTITY FULL for tables without a key. An
// export shows the project's own instead.
import type { ExportFormat } from '@rowhouse/api';
import { publications } from '../engine/publication.ts';
import { ask } from '../postgres/ask.ts';
import type { Session } from '../postgres/session.ts';
import { openArchiveFilter } from './archive-filter.ts';
import { openScriptFilter } from './script-filter.ts';

export type MoveTraces = Readonly<{
  publications: ReadonlySet<string>;
  /** By the qualified name, as pg_dump quotes it: what the table had before. */
  identities: ReadonlyMap<string, 'default' | 'nothing'>;
}>;
/** Takes a dump piece by piece. What is held back comes with a later piece, or at the end. */
export type DumpFilter = { take(piece: Buffer): Buffer[]; end(): Buffer[] };

/** A project can have a publication with such a name, but it is no superuser's. */
export async function readTraces(session: Session, signal: AbortSignal): Promise<MoveTraces> {
  const rows = await ask(session, findTraces, [], {
    ...{ timeoutMs: readMs, signal, terminate: (given) => given.destroy() },
  });
  const identities = new Map<string, 'default' | 'nothing'>();
  for (const [publication = null, table = null] of rows)
    if (table !== null && publication !== publications[0])
      identities.set(table, publication?.endsWith('_nothing') ? 'nothing' : 'default');
  return { publications: new Set(rows.map(([publication]) => publication ?? '')), identities };
}

const readMs = 30_000;
const findTraces = `
  select pubname, pg_catalog.quote_ident(nspname) || '.' || pg_catalog.quote_ident(relname)
  from pg_catalog.pg_publication
  left join pg_catalog.pg_publication_rel on prpubid = pg_publication.oid
  left join pg_catalog.pg_class on pg_class.oid = prrelid
  left join pg_catalog.pg_namespace on pg_namespace.oid = relnamespace
  where pubname in (${publications.map((name) => `'${name}'`).join(', ')})
    and (select rolsuper from pg_catalog.pg_roles where pg_roles.oid = pubowner)`;

/**
 * `before`: read before pg_dump began. `readNow`: when its first piece is there, it has locked all tables, so that no identity
 * changes any more. A move can begin or end in between.
 */
export async function* withoutTraces(
  format: Exclude<ExportFormat, 'csv'>,
  pieces: AsyncIterable<Uint8Array>,
  before: MoveTraces,
  readNow: () => Promise<MoveTraces>,
): AsyncGenerator<Uint8Array> {
  let filter: DumpFilter | null = null;
  let isFirst = true;
  for await (const piece of pieces) {
    if (isFirst) {
      const now = await readNow();
      const traces = {
        publications: new Set([...before.publications, ...now.publications]),
        identities: new Map([...before.identities, ...now.identities]),
      };
      if (traces.publications.size > 0)
        filter = format === 'sql' ? openScriptFilter(traces) : openArchiveFilter(traces);
      isFirst = false;
    }
    if (!filter) yield piece;
    else yield* filter.take(Buffer.from(piece));
  }
  if (filter) yield* filter.end();
}

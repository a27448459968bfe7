// The history of statements that people ran. It is written only by a request of its own, so that no other statement pays
// for it, and is bounded in number, length, size and age.

import type { AddHistory, HistoryEntry, ListHistory } from '@rowhouse/api';
import { errors } from '../../errors/errors.ts';
import { sql } from '../../postgres/sql.ts';
import {
  historyDays,
  maxHistoryBytes,
  maxHistoryChars,
  maxHistoryEntries,
} from '../../settings/limits/saved-queries.ts';
import type { Control } from '../control.ts';
import { isId, newId } from '../new-id.ts';
import { refuseNul } from './text.ts';

export async function addHistory(
  control: Control,
  projectId: string,
  keyId: string,
  { query, duration_ms = null, row_count = null, error = null }: AddHistory,
): Promise<HistoryEntry> {
  refuseNul(query, 'query');
  if (error !== null) refuseNul(error, 'error');
  const [row] = await control.change<Row>(sql`
    with oldest as (
      delete from query_history where project_id = ${projectId} and id = any (array(
        select id from (
          select id, row_number() over newest as place, sum(octet_length(query)) over newest as bytes
          from query_history where project_id = ${projectId} window newest as (order by at desc, id)
        ) as entries
        where place >= ${maxHistoryEntries}::int
          or bytes + octet_length(left(${query}::text, ${maxHistoryChars}::int)) > ${maxHistoryBytes}::int))
    )
    insert into query_history (project_id, id, key_id, query, duration_ms, row_count, error)
    values (${projectId}, ${newId()}, ${keyId}, left(${query}::text, ${maxHistoryChars}::int), ${duration_ms},
            ${row_count}, ${error})
    returning ${columns}`);
  return toEntry(row as Row);
}

export async function listHistory(
  control: Control,
  projectId: string,
  { limit = 50, page = 1, search }: ListHistory,
): Promise<{ history: HistoryEntry[]; page: number; limit: number; has_more: boolean }> {
  if (search !== undefined) refuseNul(search, 'search');
  const rows = await control.query<Row>(sql`
    select ${columns} from query_history
    where project_id = ${projectId}
      and (${search ?? null}::text is null or strpos(lower(query), lower(${search ?? null}::text)) > 0)
    order by at desc, id limit ${limit + 1} offset ${(page - 1) * limit}`);
  return { history: rows.slice(0, limit).map(toEntry), page, limit, has_more: rows.length > limit };
}

/** Returns the number of deleted entries. `id` null: all of them. */
export async function deleteHistory(control: Control, projectId: string, id: string | null): Promise<number> {
  if (id !== null && !isId(id)) throw errors.queryNotFound();
  const rows = await control.change(sql`
    delete from query_history where project_id = ${projectId} and (${id}::text is null or id = ${id})
    returning id`);
  if (id !== null && rows.length === 0) throw errors.queryNotFound();
  return rows.length;
}

/** Part of the background work. */
export async function forgetOldHistory(control: Control): Promise<void> {
  await control.query(
    sql`delete from query_history where at < now() - make_interval(days => ${historyDays}::int)`,
  );
}

const columns = sql`id, at, key_id as "keyId", query, duration_ms as "durationMs", row_count::float8 as "rowCount", error`;
type Row = {
  id: string;
  at: Date;
  keyId: string;
  query: string;
  durationMs: number | null;
  rowCount: number | null;
  error: string | null;
};

function toEntry({ id, at, keyId, query, durationMs, rowCount, error }: Row): HistoryEntry {
  return {
    id,
    at: at.toISOString(),
    key_id: keyId,
    query,
    error,
    duration_ms: durationMs,
    row_count: rowCount,
  };
}

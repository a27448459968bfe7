// Saved queries and drafts of a project, in the control database: they take no room of the project, survive a restore of
// it, and are the same for everybody who works on it.

import type { ChangeSavedQuery, CreateSavedQuery, ListedQuery, SavedQuery } from '@rowhouse/api';
import { errors } from '../../errors/errors.ts';
import { sql } from '../../postgres/sql.ts';
import { maxSavedMb, maxSavedQueries } from '../../settings/limits/saved-queries.ts';
import type { Control } from '../control.ts';
import { locks, takeLockForTransaction } from '../lock-names.ts';
import { isId, newId } from '../new-id.ts';
import { refuseNul } from './text.ts';

type Kind = SavedQuery['kind'];
const previewLength = 200;

export async function listQueries(
  control: Control,
  projectId: string,
  kind: Kind | undefined,
): Promise<ListedQuery[]> {
  const rows = await control.query<Row>(sql`
    select ${columns}, left(query, ${previewLength}::int) as query from saved_queries
    where project_id = ${projectId} and (${kind ?? null}::text is null or kind = ${kind ?? null})
    order by lower(name), name, id`);
  return rows.map((row) => {
    const { query: preview, ...rest } = toSaved(row);
    return { ...rest, preview };
  });
}

export async function getQuery(control: Control, projectId: string, id: string): Promise<SavedQuery> {
  const [row] = isId(id)
    ? await control.query<Row>(sql`
        select ${columns}, query from saved_queries where project_id = ${projectId} and id = ${id}`)
    : [];
  if (!row) throw errors.queryNotFound();
  return toSaved(row);
}

export async function createQuery(
  control: Control,
  projectId: string,
  { name, query, kind = 'saved' }: CreateSavedQuery,
): Promise<SavedQuery> {
  refuseNul(query, 'query');
  return control.transaction(async (transaction) => {
    await takeLockForTransaction(transaction, locks.savedQueries(projectId));
    await requireRoom(transaction, projectId, kind);
    const [row] = await transaction.query<Row>(sql`
      insert into saved_queries (id, project_id, kind, name, query)
      values (${newId()}, ${projectId}, ${kind}, ${name}, ${query})
      returning ${columns}, query`);
    await requireSize(transaction, projectId);
    return toSaved(row as Row);
  });
}

export async function changeQuery(
  control: Control,
  projectId: string,
  id: string,
  { name, query, kind, if_updated_at: expected }: ChangeSavedQuery,
): Promise<SavedQuery> {
  if (query !== undefined) refuseNul(query, 'query');
  return control.transaction(async (transaction) => {
    await takeLockForTransaction(transaction, locks.savedQueries(projectId));
    const [before] = isId(id)
      ? await transaction.query<{ kind: Kind; updatedAt: Date }>(sql`
          select kind, updated_at as "updatedAt" from saved_queries
          where project_id = ${projectId} and id = ${id}`)
      : [];
    if (!before) throw errors.queryNotFound();
    // Times are shown in milliseconds.
    if (expected !== undefined && Date.parse(expected) !== before.updatedAt.getTime())
      throw errors.queryChanged(before.updatedAt.toISOString());
    if (kind !== undefined && kind !== before.kind) await requireRoom(transaction, projectId, kind);
    const [row] = await transaction.query<Row>(sql`
      update saved_queries
      set name = coalesce(${name ?? null}, name), query = coalesce(${query ?? null}, query),
          kind = coalesce(${kind ?? null}, kind),
          -- Never the same twice, so that it tells two versions apart.
          updated_at = greatest(date_trunc('milliseconds', clock_timestamp()), updated_at + interval '1 ms')
      where project_id = ${projectId} and id = ${id}
      returning ${columns}, query`);
    if (query !== undefined) await requireSize(transaction, projectId);
    return toSaved(row as Row);
  });
}

export async function deleteQuery(control: Control, projectId: string, id: string): Promise<void> {
  const rows = isId(id)
    ? await control.change(sql`
        delete from saved_queries where project_id = ${projectId} and id = ${id} returning id`)
    : [];
  if (rows.length === 0) throw errors.queryNotFound();
}

async function requireRoom(
  transaction: Pick<Control, 'query'>,
  projectId: string,
  kind: Kind,
): Promise<void> {
  const [found] = await transaction.query<{ count: number }>(sql`
    select count(*)::int as count from saved_queries where project_id = ${projectId} and kind = ${kind}`);
  if ((found?.count ?? 0) >= maxSavedQueries[kind]) throw errors.tooManyQueries(kind, maxSavedQueries[kind]);
}

/** After the change, which is rolled back if it was too large. */
async function requireSize(transaction: Pick<Control, 'query'>, projectId: string): Promise<void> {
  const [found] = await transaction.query<{ isTooLarge: boolean }>(sql`
    select sum(octet_length(query)) > ${maxSavedMb * 1024 * 1024} as "isTooLarge"
    from saved_queries where project_id = ${projectId}`);
  if (found?.isTooLarge) throw errors.queriesTooLarge(maxSavedMb);
}

const columns = sql`id, kind, name, date_trunc('milliseconds', created_at) as "createdAt",
  date_trunc('milliseconds', updated_at) as "updatedAt"`;
type Row = { id: string; kind: Kind; name: string; query: string; createdAt: Date; updatedAt: Date };

function toSaved({ id, kind, name, query, createdAt, updatedAt }: Row): SavedQuery {
  return {
    id,
    kind,
    name,
    query,
    created_at: createdAt.toISOString(),
    updated_at: updatedAt.toISOString(),
  };
}

// The table `repeats`: one row for each Idempotency-Key. Rows of many requests are written by one statement. It gives up soon when
// another transaction has locked one of them, because the others must not wait for it; each then runs alone and waits as usual.
//
// Two statements never wait for each other: new rows come in the order of their ids, and rows that exist are not locked by
// `do nothing`. A row is updated by its holder alone, once, except for the sign of life, which skips locked rows.

import type { Control } from '../control/control.ts';
import { byteaArray } from '../postgres/bytea-array.ts';
import { type Sql, sql } from '../postgres/sql.ts';

/** A reserved key. Another holder may take it over when this one counts as dead. */
export type Held = Readonly<{ id: Buffer; holder: string }>;

export type NewRow = Held &
  Readonly<{
    accountId: string;
    isPublic: boolean;
    fingerprint: Buffer | null;
  }>;

export type EndedRow = Held &
  Readonly<{
    accountId: string;
    /** null: the row is removed, and the key is free again. */
    state: 'kept' | 'not_kept' | 'unknown' | null;
    fingerprint: Buffer | null;
    status: number | null;
    contentType: string | null;
    location: string | null;
    /** Sealed. */
    answer: Buffer | null;
  }>;

export type FoundRow = {
  state: 'running' | 'kept' | 'not_kept' | 'unknown';
  isAlive: boolean;
  fingerprint: Buffer | null;
  status: number | null;
  contentType: string | null;
  location: string | null;
  answer: Buffer | null;
};

type Times = Readonly<{ at: Date; expiresAt: Date; aliveMs: number }>;

/** How long a statement for many rows waits for the lock of one. */
const sharedLockMs = 100;
/** How long a statement for one row waits, as all statements on the control database do. */
const lockMs = 2_000;

/** Which rows are reserved. Those that exist are not, even if they have expired. Two of them must not have the same id. */
export async function reserveTogether(
  control: Control,
  rows: readonly NewRow[],
  { expiresAt, aliveMs }: Omit<Times, 'at'>,
): Promise<boolean[]> {
  const sorted = rows.toSorted((one, other) => one.id.compare(other.id));
  const reserved = await control.query<{ holder: string }>(sql`
    insert into repeats (id, account_id, is_public, holder, alive_until, fingerprint, expires_at)
    select added.id, added.account_id, added.is_public, added.holder,
           clock_timestamp() + make_interval(secs => ${aliveMs / 1000}), added.fingerprint, ${expiresAt}
    from ${lockTimeout(sharedLockMs)},
         unnest(${byteaArray(sorted.map(({ id }) => id))}::bytea[],
                ${sorted.map(({ accountId }) => accountId)}::text[],
                ${sorted.map(({ isPublic }) => isPublic)}::boolean[],
                ${sorted.map(({ holder }) => holder)}::uuid[],
                ${byteaArray(sorted.map(({ fingerprint }) => fingerprint))}::bytea[])
           as added (id, account_id, is_public, holder, fingerprint)
    on conflict (id) do nothing
    returning holder`);
  const holders = new Set(reserved.map(({ holder }) => holder));
  return rows.map(({ holder }) => holders.has(holder));
}

/** Also takes over a row that has expired, unless it is of a request that still runs. */
export async function reserveAlone(
  control: Control,
  { id, holder, accountId, isPublic, fingerprint }: NewRow,
  { at, expiresAt, aliveMs }: Times,
): Promise<boolean> {
  const reserved = await control.query(sql`
    insert into repeats (id, account_id, is_public, holder, alive_until, fingerprint, expires_at)
    values (${id}, ${accountId}, ${isPublic}, ${holder},
            clock_timestamp() + make_interval(secs => ${aliveMs / 1000}), ${fingerprint}, ${expiresAt})
    on conflict (id) do update
      set state = 'running', holder = excluded.holder, alive_until = excluded.alive_until,
          fingerprint = excluded.fingerprint, expires_at = excluded.expires_at,
          status = null, content_type = null, location = null, answer = null
      where repeats.expires_at <= ${at}
        and (repeats.state <> 'running' or repeats.alive_until < clock_timestamp())
    returning 1`);
  return reserved.length > 0;
}

/** Not a row that `reserveAlone` can take over. */
export async function findRow(control: Control, id: Buffer, at: Date): Promise<FoundRow | null> {
  const [row] = await control.query<FoundRow>(sql`
    select state, alive_until >= clock_timestamp() as "isAlive", fingerprint, status,
           content_type as "contentType", location, answer
    from repeats
    where id = ${id} and (expires_at > ${at} or (state = 'running' and alive_until >= clock_timestamp()))`);
  return row ?? null;
}

export function endTogether(control: Control, rows: readonly EndedRow[]): Promise<void> {
  return endRows(control, rows, sharedLockMs);
}

export function endAlone(control: Control, row: EndedRow): Promise<void> {
  return endRows(control, [row], lockMs);
}

/** Rows that were ended before are left as they are: their outcome was stored, and only the confirmation was lost. */
async function endRows(control: Control, rows: readonly EndedRow[], waitMs: number): Promise<void> {
  const kept = rows.filter(({ state }) => state !== null);
  const removed = rows.filter(({ state }) => state === null);
  if (kept.length > 0)
    await control.query(sql`
      update repeats
      set state = ended.state, status = ended.status, content_type = ended.content_type, location = ended.location,
          answer = ended.answer, fingerprint = coalesce(ended.fingerprint, repeats.fingerprint)
      from ${lockTimeout(waitMs)},
           unnest(${byteaArray(kept.map(({ id }) => id))}::bytea[],
                  ${kept.map(({ holder }) => holder)}::uuid[],
                  ${kept.map(({ state }) => state)}::text[],
                  ${kept.map(({ status }) => status)}::smallint[],
                  ${kept.map(({ contentType }) => contentType)}::text[],
                  ${kept.map(({ location }) => location)}::text[],
                  ${byteaArray(kept.map(({ answer }) => answer))}::bytea[],
                  ${byteaArray(kept.map(({ fingerprint }) => fingerprint))}::bytea[])
             as ended (id, holder, state, status, content_type, location, answer, fingerprint)
      where repeats.id = ended.id and repeats.holder = ended.holder and repeats.state = 'running'`);
  if (removed.length > 0)
    await control.query(sql`
      delete from repeats
      using ${lockTimeout(waitMs)},
            unnest(${byteaArray(removed.map(({ id }) => id))}::bytea[],
                   ${removed.map(({ holder }) => holder)}::uuid[]) as freed (id, holder)
      where repeats.id = freed.id and repeats.holder = freed.holder`);
}

/** A locked row is about to be ended. */
export async function stayAlive(control: Control, held: Iterable<Held>, aliveMs: number): Promise<void> {
  const all = [...held];
  await control.query(sql`
    update repeats set alive_until = clock_timestamp() + make_interval(secs => ${aliveMs / 1000})
    where id in (
      select id from repeats
      where id = any (${byteaArray(all.map(({ id }) => id))}::bytea[])
        and holder = any (${all.map(({ holder }) => holder)}::uuid[]) and state = 'running'
      for no key update skip locked)`);
}

/** For this statement alone. Being read with the rows, it is set before the first of them is written. */
function lockTimeout(ms: number): Sql {
  return sql`(select set_config('lock_timeout', ${String(ms)}, true)) as patience`;
}

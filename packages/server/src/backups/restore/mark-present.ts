// Makes sure that the backups reach beyond a moment: replaying stops at the first commit after it, so there must be one,
// and it must be stored.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Server } from '../../engine/servers.ts';
import { errors } from '../../errors.ts';
import { parseLsn } from '../../postgres/lsn.ts';
import { sql } from '../../postgres/sql.ts';
import type { Backups } from '../backups.ts';
import { findSlot } from '../slot.ts';
import { rangeOf } from './plan.ts';

/** WAL is stored every second or two. */
const storedWithinMs = 20_000;
const lookMs = 100;
/** Between the clocks of PostgreSQL and of the storage, and between a commit and its storing. */
const doubtMs = 10_000;

/** Rejects with a conflict that names the newest time if `target` is later than what is stored. */
export async function markPresent(backups: Backups, server: Server, target: Date): Promise<void> {
  const { maintenance } = server;
  const [row] = await maintenance.query<{ now: Date }>(sql`select clock_timestamp() as now`);
  const now = row?.now ?? new Date(0);
  if (target > now) throw errors.restoreOutOfRange(target, { ...(await range(backups)), newest: now });
  await maintenance.query(sql`select pg_current_xact_id()`);
  const [mark] = await maintenance.query<{ lsn: string }>(
    sql`select pg_current_wal_flush_lsn()::text as lsn`,
  );
  const lsn = parseLsn(mark?.lsn ?? '');
  for (let waitedMs = 0; waitedMs < storedWithinMs; waitedMs += lookMs) {
    const stored = (await findSlot(maintenance, backups.slot))?.restart ?? null;
    if (stored !== null && stored >= lsn) return;
    await sleep(lookMs);
  }
  // The storage is unavailable. Earlier moments are in it.
  const { oldest, newest } = await range(backups);
  if (newest === null || target.getTime() > newest.getTime() - doubtMs)
    throw errors.restoreOutOfRange(target, { oldest, newest });
}

async function range(backups: Backups) {
  return rangeOf(await backups.repository(), (await backups.status()).backups);
}

// Makes sure that the backups reach beyond a moment: replaying stops at the first commit after it, so there must be one,
// and it must be stored.
import { setTimeout as sleep } from 'node:timers/promises';
import { errors } from '../../errors/errors.ts';
import { parseLsn } from '../../postgres/replication/lsn.ts';
import { sql } from '../../postgres/sql.ts';
import type { Server } from '../../servers/server.ts';
import type { Backups } from '../backups.ts';
import { doubtMs, findRestorable, type Restorable, rangesOf } from '../restorable.ts';
import { findSlot } from '../wal/slot.ts';

const lookMs = 100;

/** `touch`: called whenever more is stored. */
type Patience = { withinMs: number; stuckMs: number; signal?: AbortSignal; touch?: () => void };

/** A request is not kept waiting while very much WAL is being stored. */
export const requestPatience: Patience = { withinMs: 10_000, stuckMs: 8_000 };
/** A whole segment can take long on a slow line. */
export const jobPatience: Patience = { withinMs: 24 * 60 * 60_000, stuckMs: 60_000 };

/** Commits something, and gives the position that has to be stored before `target` can be restored. */
export async function markPresent(backups: Backups, target: Date): Promise<bigint> {
  const { maintenance } = backups.server;
  const [row] = await maintenance.query<{ now: Date }>(sql`select clock_timestamp() as now`);
  const now = row?.now ?? new Date(0);
  if (target > now) throw errors.restoreOutOfRange(target, rangesOf((await backups.look()).restorable, now));
  // Not only a transaction id: PostgreSQL flushes the commit of a transaction that has written nothing some time later, and the
  // position below would lie before it.
  await maintenance.query(sql`select pg_logical_emit_message(true, 'rowhouse', 'mark')`);
  const [mark] = await maintenance.query<{ lsn: string }>(
    sql`select pg_current_wal_flush_lsn()::text as lsn`,
  );
  return parseLsn(mark?.lsn ?? '');
}

/**
 * Waits until WAL is stored up to `mark`, which is a second or two, and minutes after very much was written. `storing`: not
 * within `withinMs`. `stuck`: nothing more was stored for `stuckMs`.
 */
export async function untilStored(
  { slot, server: { maintenance } }: Pick<Backups, 'slot'> & { server: Pick<Server, 'maintenance'> },
  mark: bigint,
  { withinMs, stuckMs, signal, touch }: Patience,
): Promise<'stored' | 'storing' | 'stuck'> {
  const since = performance.now();
  let last = { stored: null as bigint | null, at: since };
  for (;;) {
    const stored = (await findSlot(maintenance, slot))?.restart ?? null;
    const now = performance.now();
    if (stored !== null && stored >= mark) return 'stored';
    if (stored !== last.stored) {
      last = { stored, at: now };
      touch?.();
    }
    if (now - last.at > stuckMs) return 'stuck';
    if (now - since > withinMs) return 'storing';
    await sleep(lookMs, undefined, { signal });
  }
}

/** For a storage that is unavailable: earlier moments are in it. Rejects with a conflict that names what certainly is. */
export async function checkStored(backups: Pick<Backups, 'look'>, target: Date): Promise<void> {
  const { restorable } = await backups.look();
  const found = findRestorable(restorable, target);
  if (found && (found.isClosed || target <= certainEnd(found))) return;
  const certain = restorable
    .map((one) => (one.isClosed ? one : { ...one, storedAt: certainEnd(one) }))
    .filter(({ tip, storedAt }) => storedAt >= new Date(tip.ended_at));
  throw errors.restoreNotStored(target, rangesOf(certain));
}

/** Every earlier commit is stored, whatever the clocks of PostgreSQL and of the storage say. */
function certainEnd({ storedAt }: Restorable): Date {
  return new Date(storedAt.getTime() - doubtMs);
}

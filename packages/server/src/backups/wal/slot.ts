// The replication slot, which makes PostgreSQL keep WAL until it is stored. max_slot_wal_keep_size bounds what it keeps:
// beyond that, PostgreSQL gives the slot up rather than fill the disk.
import { setTimeout as sleep } from 'node:timers/promises';
import { isState, type Queryable } from '../../postgres/admin/database.ts';
import { parseLsn } from '../../postgres/replication/lsn.ts';
import { sql } from '../../postgres/sql.ts';
import { sqlstate } from '../../postgres/sqlstate.ts';

export type SlotState = {
  /** WAL from here on is kept. null: PostgreSQL has given the slot up. */
  restart: bigint | null;
  /** What PostgreSQL has flushed and the slot has not been told to be stored. */
  lagBytes: number;
  /** How long the receiver took to confirm recent WAL. null: no receiver is connected, or nothing is to confirm. */
  confirmSeconds: number | null;
  isActive: boolean;
};

/** Installations can share a server, and each has its own repository. */
export function slotName(installation: string): string {
  return `rowhouse_backup_${installation.replaceAll('-', '').slice(0, 8)}`;
}

export async function findSlot(maintenance: Queryable, name: string): Promise<SlotState | null> {
  const [row] = await maintenance.query<{
    restart: string | null;
    lag: string | null;
    seconds: string | null;
    active: boolean;
  }>(sql`
    select case when wal_status is distinct from 'lost' then restart_lsn end::text as restart,
           pg_wal_lsn_diff(pg_current_wal_flush_lsn(), restart_lsn)::text as lag, active,
           extract(epoch from (select flush_lag from pg_stat_replication where pid = active_pid))::text as seconds
    from pg_replication_slots where slot_name = ${name} and slot_type = 'physical'`);
  if (!row) return null;
  return {
    restart: row.restart === null ? null : parseLsn(row.restart),
    lagBytes: Math.max(0, Number(row.lag ?? 0)),
    confirmSeconds: row.seconds === null ? null : Number(row.seconds),
    isActive: row.active,
  };
}

/** Creates the slot where it is missing, and replaces one that PostgreSQL has given up. Several processes may do so at once. */
export async function ensureSlot(maintenance: Queryable, name: string): Promise<{ wasLost: boolean }> {
  const found = await findSlot(maintenance, name);
  if (found?.restart != null) return { wasLost: false };
  if (found) await dropSlot(maintenance, name);
  await maintenance
    .query(sql`select pg_create_physical_replication_slot(${name}, true)`)
    .catch((error: unknown) => {
      if (!isState(error, sqlstate.duplicateObject)) throw error;
    });
  return { wasLost: found !== null };
}

/**
 * Removes the slot of a server that is removed. The process that stores WAL hears of it a moment later, and may begin again until
 * then. False: the slot is still there.
 */
export async function removeSlot(maintenance: Queryable, name: string): Promise<boolean> {
  if (!(await findSlot(maintenance, name))) return true;
  let gone = 0;
  for (let looks = 0; looks < removeLooks && gone < goneLooks; looks++) {
    await maintenance.query(sql`
      select pg_terminate_backend(active_pid) from pg_replication_slots
      where slot_name = ${name} and slot_type = 'physical' and active`);
    await dropSlot(maintenance, name);
    await sleep(removeMs);
    gone = (await findSlot(maintenance, name)) ? 0 : gone + 1;
  }
  return gone === goneLooks;
}
const [removeMs, removeLooks, goneLooks] = [300, 30, 5];

/** Without backups, a slot that was left behind would keep WAL for nothing. */
export async function dropSlot(maintenance: Queryable, name: string): Promise<void> {
  await maintenance.query(sql`
    select pg_drop_replication_slot(slot_name) from pg_replication_slots
    where slot_name = ${name} and slot_type = 'physical' and not active`);
}

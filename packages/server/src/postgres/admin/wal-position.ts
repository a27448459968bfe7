// Places in the write-ahead log of a server, and what a host says about its own.
import { ask } from '../wire/ask.ts';
import type { Session } from '../wire/session.ts';

/** Positions on different timelines say nothing about each other. `lsn` as a float: exact up to 8 PB. */
export type WalPosition = Readonly<{ timeline: number; lsn: number }>;

/** `timeline`: on which a primary writes. null: a standby. */
export type Look = Readonly<{
  timeline: number | null;
  /** The timeline of the WAL that a standby receives. null: it receives none, or our role may not know. */
  receives: number | null;
  /** The end of the WAL that a primary has flushed, or a standby has replayed. */
  lsn: number;
}>;

/** The name of the WAL file that a primary writes begins with its timeline. */
export async function lookAtHost(session: Session, timeoutMs: number): Promise<Look> {
  const [row] = await ask(
    session,
    `select case when not is_standby then substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) end,
            case when is_standby then (select received_tli from pg_stat_wal_receiver where status = 'streaming') end,
            case when is_standby then pg_last_wal_replay_lsn() else pg_current_wal_flush_lsn() end
     from (select pg_is_in_recovery() as is_standby) as role`,
    [],
    { timeoutMs, terminate: () => session.destroy() },
  );
  const [timeline, receives, lsn] = row ?? [];
  return {
    timeline: timeline == null ? null : Number.parseInt(timeline, 16),
    receives: receives == null ? null : Number(receives),
    lsn: readLsn(lsn) ?? 0,
  };
}

/** A place behind everything that was committed before it was asked for, also without waiting for the disk. */
export async function lookAtEnd(session: Session, timeoutMs: number): Promise<WalPosition | null> {
  const [row] = await ask(
    session,
    'select substr(pg_walfile_name(lsn), 1, 8), lsn from (select pg_current_wal_insert_lsn() as lsn) as here',
    [],
    { timeoutMs, terminate: () => session.destroy() },
  );
  const lsn = readLsn(row?.[1]);
  return lsn === null ? null : { timeline: Number.parseInt(row?.[0] ?? '', 16), lsn };
}

/** As PostgreSQL writes it: `16/B374D848`. */
export function readLsn(text: string | null | undefined): number | null {
  const [, high, low] = /^([0-9A-F]{1,8})\/([0-9A-F]{1,8})$/i.exec(text ?? '') ?? [];
  if (high === undefined || low === undefined) return null;
  return Number.parseInt(high, 16) * 2 ** 32 + Number.parseInt(low, 16);
}

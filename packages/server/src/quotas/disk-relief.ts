// What is done while the disk is low, for as long as it is. Growth through the API is refused before it begins, or stopped
// (headroom.ts); here are those whom nobody asks first: direct connections that write, and sorts that spill to disk, are
// stopped. PostgreSQL is asked for a checkpoint, after which it gives back old WAL.
import type { DiskWatch } from '../engine/disk.ts';
import type { Server } from '../engine/servers.ts';
import { errors, type RowhouseError } from '../errors.ts';
import { openDatabase } from '../postgres/database.ts';
import { sql } from '../postgres/sql.ts';
import { gentle } from './direct-guard.ts';
import { isDirect } from './direct-sessions-sql.ts';

type Options = {
  server: Server;
  disk: DiskWatch;
  /** Stops what this process runs in that session; false: it runs nothing there. */
  stop: (pid: number, because: RowhouseError) => boolean;
  onError: (error: unknown) => void;
};

type Writer = { pid: number; statement: string; isDirect: boolean };

/** Temporary files of this size are worth a statement. */
const spilledBytes = 8 * 1024 * 1024;
/** Under this much, or this part of the reserve, whoever writes is stopped, even to delete: PostgreSQL has to go on. */
const criticalBytes = 64 * 1024 * 1024;
const criticalPart = 0.25;
/** From a cancel to the end of the session, if that was not enough. */
const patienceMs = 200;
const checkpointAgainMs = 10_000;

export function openDiskRelief({ server, disk, stop, onError }: Options): { stop(): Promise<void> } {
  // Of its own: it must not wait behind what fills the disk.
  const database = openDatabase(server.address, { max: 2 });
  /** By process and the beginning of its statement: a session of ours runs one after the other. */
  const cancelled = new Map<string, number>();
  let checkpointAt = Number.NEGATIVE_INFINITY;
  let relieving: Promise<void> | null = null;
  let checkpointing: Promise<unknown> = Promise.resolve();

  const relieve = async () => {
    const facts = disk.facts();
    const isCritical =
      facts !== null && facts.freeBytes < Math.min(criticalBytes, facts.reserveBytes * criticalPart);
    const now = performance.now();
    if (now - checkpointAt > checkpointAgainMs) {
      checkpointAt = now;
      checkpointing = database.query(sql`checkpoint`).catch(onError);
    }
    const writers = await database.query<Writer>(findWriters(server, isCritical));
    const seen = new Set(writers.map(({ statement }) => statement));
    for (const statement of cancelled.keys()) if (!seen.has(statement)) cancelled.delete(statement);
    for (const { pid, statement, isDirect: isForeign } of writers) {
      const since = cancelled.get(statement);
      cancelled.set(statement, since ?? now);
      const isPatient = since === undefined || now - since < patienceMs;
      if (isPatient && stop(pid, errors.stoppedForDisk())) continue;
      // What another process of the service runs is that one's to stop.
      if (isPatient && !isForeign) continue;
      const signal = isPatient ? sql`pg_cancel_backend` : sql`pg_terminate_backend`;
      await database.query(sql`select ${signal}(${pid}::int)`);
    }
  };

  disk.whileLow(() => {
    relieving ??= relieve()
      .catch(onError)
      .finally(() => {
        relieving = null;
      });
  });
  return {
    stop: async () => {
      await relieving;
      await checkpointing;
      await database.end();
    },
  };
}

function findWriters(server: Server, isCritical: boolean) {
  return sql`
    select session.pid, session.pid || ' ' || session.query_start as statement, ${sql.script(isDirect(server))} as "isDirect"
    from pg_stat_get_activity(null) as session
      join pg_roles on pg_roles.oid = session.usesysid
      left join (
        select substring(name from '^pgsql_tmp(\\d+)')::int as pid, sum(size) as bytes from pg_ls_tmpdir() group by 1
      ) as spilled on spilled.pid = session.pid
    where rolname like 'p\\_%' and session.state in ('active', 'fastpath function call')
      and (spilled.bytes > ${spilledBytes}::bigint
        or ${sql.script(isDirect(server))} and session.backend_xid is not null and session.query !~* ${gentle}
        or ${isCritical} and session.backend_xid is not null)`;
}

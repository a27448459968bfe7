// Runs while the disk is low. Growth through the API is refused before it begins, or stopped (quotas/headroom.ts). This file
// stops what needs no admission: direct connections that write, and sorts that spill to disk. It also requests a checkpoint,
// after which PostgreSQL removes old WAL.

import { errors, type RowhouseError } from '../../errors/errors.ts';
import { openDatabase } from '../../postgres/admin/database.ts';
import { sql } from '../../postgres/sql.ts';
import type { DiskWatch } from '../../servers/embedded/disk.ts';
import type { Server } from '../../servers/server.ts';
import { freeingPattern } from './direct-guard.ts';
import { isDirect } from './direct-sessions-sql.ts';

type Options = {
  server: Server;
  disk: DiskWatch;
  /** Stops the statement that this process runs in that session. Returns false if it runs none there. */
  stop: (pid: number, because: RowhouseError) => boolean;
  onError: (error: unknown) => void;
};

type Writer = { pid: number; statement: string; isDirect: boolean };

/** A statement whose temporary files are larger than this is stopped. */
const spilledBytes = 8 * 1024 * 1024;
/** Below this, or below this part of the reserve, every writer is stopped, even one that deletes: PostgreSQL must survive. */
const criticalBytes = 64 * 1024 * 1024;
const criticalPart = 0.25;
/** From a cancel to the termination, if the cancel was not enough. */
const patienceMs = 200;
const checkpointAgainMs = 10_000;

export function openDiskRelief({ server, disk, stop, onError }: Options): { stop(): Promise<void> } {
  // Separate connections: this must not wait behind the statements that fill the disk.
  const database = openDatabase(server.address, { max: 2 });
  /** By process id and start of the statement: our sessions run many statements, one after another. */
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
      // A statement of another process of the service is stopped by that process.
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
        or ${sql.script(isDirect(server))} and session.backend_xid is not null and session.query !~* ${freeingPattern}
        or ${isCritical} and session.backend_xid is not null)`;
}

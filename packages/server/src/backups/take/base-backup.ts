// Takes one base backup, full or incremental, and stores it part by part. The description is stored last: until then the
// backup does not exist for anyone.
import type { Address, Queryable } from '../../postgres/admin/database.ts';
import { formatLsn } from '../../postgres/replication/lsn.ts';
import { sql } from '../../postgres/sql.ts';
import {
  type BackupDescription,
  names,
  namesOf,
  putObject,
  type Repository,
  readObject,
} from '../repository/repository.ts';
import { copyInThread } from './base-backup-thread.ts';
import { refuseTablespaces } from './tablespaces.ts';

type Request = {
  repository: Repository;
  address: Address;
  maintenance: Queryable;
  isEmbedded: boolean;
  /** For an incremental backup. null: a full one. */
  parent: BackupDescription | null;
  maxRateKb: number | null;
  signal: AbortSignal;
  progress?: (fraction: number) => void;
};

const removeMs = 5_000;

/** Rejects with what PostgreSQL or the storage reported. */
export async function takeBaseBackup(request: Request): Promise<BackupDescription> {
  const { repository, address, maintenance, parent, signal, progress = () => {} } = request;
  const before = await readServer(maintenance);
  const kind = parent ? 'incremental' : 'full';
  const id = `${before.at.replace(/[-:.]/g, '')}-${kind}`;
  // A clock that was set back may give an id twice: a failure must not remove the parts of an earlier backup.
  for await (const { name } of repository.storage.list(names.part(repository, id, ''), signal)) {
    throw new Error(`There is already an object ${name}.`);
  }
  const parentManifest = parent
    ? await readObject(repository, names.part(repository, parent.id, parent.manifest.name))
    : null;
  try {
    const copying = { id, address, parentManifest, maxRateKb: request.maxRateKb };
    const { parts, manifest, range } = await copyInThread(repository, copying, signal, progress);
    // Created while the backup ran: one of them would make the whole backup useless.
    await refuseTablespaces(maintenance);
    const name = 'manifest';
    const stored = await putObject(
      repository,
      names.part(repository, id, name),
      [Buffer.from(manifest)],
      signal,
    );
    const after = await readServer(maintenance);
    const backup: BackupDescription = {
      format: 1,
      id,
      kind,
      parent: parent?.id ?? null,
      cluster: repository.cluster,
      timeline: range.timeline,
      postgres: after.version,
      superuser: after.superuser,
      segment_bytes: after.segmentBytes,
      configuration: request.isEmbedded ? null : after.configuration,
      start_lsn: formatLsn(range.startLsn),
      end_lsn: formatLsn(range.endLsn),
      started_at: before.at,
      ended_at: after.at,
      databases: after.databases,
      parts,
      manifest: { name, bytes: manifest.length, stored_bytes: stored.bytes, sha256: stored.sha256 },
    };
    signal.throwIfAborted();
    await putObject(repository, names.backup(repository, id), [Buffer.from(JSON.stringify(backup))], signal);
    return backup;
  } catch (error) {
    await removeParts(repository, id).catch(() => {});
    signal.throwIfAborted();
    throw error;
  }
}

/** The parts that were stored only take space. If deleting fails too, pruning removes them after a day. */
async function removeParts(repository: Repository, id: string): Promise<void> {
  // A service that is stopped does not wait for thousands of deletions.
  const signal = AbortSignal.timeout(removeMs);
  await repository.storage.deleteAll(
    namesOf(repository.storage.list(names.part(repository, id, ''), signal)),
    signal,
  );
}

async function readServer(maintenance: Queryable) {
  const [facts] = await maintenance.query<{
    at: Date;
    version: string;
    superuser: string;
    configuration: Record<string, string>;
    segmentBytes: string;
    databases: { oid: number; name: string }[];
  }>(sql`
    select clock_timestamp() as at, split_part(current_setting('server_version'), ' ', 1) as version,
           (select rolname::text from pg_roles where oid = 10) as superuser,
           -- What the results of statements depend on, as the server sets it for all databases.
           (select json_object_agg(name, reset_val) from pg_settings
            where name in ('default_text_search_config', 'DateStyle', 'IntervalStyle')) as configuration,
           (select setting from pg_settings where name = 'wal_segment_size') as "segmentBytes",
           (select json_agg(json_build_object('oid', oid::bigint, 'name', datname) order by oid) from pg_database)
             as databases`);
  if (!facts) throw new Error('PostgreSQL does not describe itself.');
  return { ...facts, at: new Date(facts.at).toISOString(), segmentBytes: Number(facts.segmentBytes) };
}

// Takes one base backup, full or incremental, and stores it part by part. The description is stored last: until then the
// backup does not exist for anyone.
import { baseBackup } from '../postgres/base-backup.ts';
import type { Address, Queryable } from '../postgres/database.ts';
import { formatLsn } from '../postgres/lsn.ts';
import { identifySystem, openReplication } from '../postgres/replication.ts';
import { sql } from '../postgres/sql.ts';
import { PartWriter } from './part-writer.ts';
import {
  type BackupDescription,
  names,
  namesOf,
  putObject,
  type Repository,
  readObject,
} from './repository.ts';
import { refuseTablespaces } from './tablespaces.ts';
import { TarParts } from './tar-parts.ts';

type Request = {
  repository: Repository;
  address: Address;
  maintenance: Queryable;
  /** For an incremental backup. null: a full one. */
  parent: BackupDescription | null;
  maxRateKb: number | null;
  signal: AbortSignal;
  progress?: (fraction: number) => void;
};

const removeMs = 5_000;

/** Rejects with what PostgreSQL or the storage reported. */
export async function takeBaseBackup(request: Request): Promise<BackupDescription> {
  const { repository, address, maintenance, parent, signal } = request;
  const before = await readServer(maintenance);
  const kind = parent ? 'incremental' : 'full';
  const id = `${before.at.replace(/[-:.]/g, '')}-${kind}`;
  // Of a clock that was set back: a failure must not remove the parts of an earlier backup.
  for await (const { name } of repository.storage.list(names.part(repository, id, ''), signal)) {
    throw new Error(`There is already an object ${name}.`);
  }
  const session = await openReplication(address);
  const stop = () => session.destroy();
  signal.addEventListener('abort', stop, { once: true });
  const writer = new PartWriter(repository, id);
  try {
    const { cluster } = await identifySystem(session);
    if (cluster !== repository.cluster) throw new Error('This is another PostgreSQL server.');
    const parentManifest = parent
      ? await readObject(repository, names.part(repository, parent.id, parent.manifest.name))
      : null;
    const events = baseBackup(session, {
      label: `rowhouse ${id}`,
      maxRateKb: request.maxRateKb,
      parentManifest,
    });
    const { manifest, range } = await store(events, writer, request.progress);
    const parts = await writer.finish();
    // Created while the backup ran: one of them would make the whole backup useless.
    await refuseTablespaces(maintenance);
    const name = 'manifest';
    const stored = await putObject(repository, names.part(repository, id, name), [manifest], signal);
    const after = await readServer(maintenance);
    const backup: BackupDescription = {
      format: 1,
      ...{ id, kind, parent: parent?.id ?? null, cluster, timeline: range.timeline },
      ...{ postgres: after.version, segment_bytes: after.segmentBytes },
      ...{ start_lsn: formatLsn(range.startLsn), end_lsn: formatLsn(range.endLsn) },
      ...{ started_at: before.at, ended_at: after.at, databases: after.databases, parts },
      manifest: { name, bytes: manifest.length, stored_bytes: stored.bytes, sha256: stored.sha256 },
    };
    signal.throwIfAborted();
    await putObject(repository, names.backup(repository, id), [Buffer.from(JSON.stringify(backup))], signal);
    return backup;
  } catch (error) {
    await writer.abort();
    await removeParts(repository, id).catch(() => {});
    signal.throwIfAborted();
    throw error;
  } finally {
    signal.removeEventListener('abort', stop);
    session.close();
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

async function store(
  events: ReturnType<typeof baseBackup>,
  writer: PartWriter,
  progress: (fraction: number) => void = () => {},
) {
  let parts: TarParts | null = null;
  const manifest: Buffer[] = [];
  let range: { startLsn: bigint; endLsn: bigint; timeline: number } | null = null;
  let [expected, received] = [0, 0];
  for await (const event of events) {
    if (event.kind === 'size') expected = event.bytes;
    else if (event.kind === 'archive') {
      // A tablespace that was created after the server was checked (tablespaces.ts).
      if (event.name !== 'base.tar') throw new Error('A tablespace was created during the backup.');
      parts = new TarParts();
    } else if (event.kind === 'end') range = event;
    else if (event.kind === 'manifest') {
      if (!parts?.isComplete) throw new Error('PostgreSQL sent an incomplete archive.');
      parts = null;
    } else if (parts) {
      for (const { part, bytes } of parts.cut(event.bytes)) await writer.write(part, bytes);
      received += event.bytes.length;
      if (expected > 0) progress(Math.min(0.99, received / expected));
    } else manifest.push(event.bytes);
  }
  if (!range || manifest.length === 0) throw new Error('PostgreSQL did not complete the backup.');
  return { manifest: Buffer.concat(manifest), range };
}

async function readServer(maintenance: Queryable) {
  const [facts] = await maintenance.query<{
    at: Date;
    version: string;
    segmentBytes: string;
    databases: { oid: number; name: string }[];
  }>(sql`
    select clock_timestamp() as at, split_part(current_setting('server_version'), ' ', 1) as version,
           (select setting from pg_settings where name = 'wal_segment_size') as "segmentBytes",
           (select json_agg(json_build_object('oid', oid::bigint, 'name', datname) order by oid) from pg_database)
             as databases`);
  if (!facts) throw new Error('PostgreSQL does not describe itself.');
  return { ...facts, at: new Date(facts.at).toISOString(), segmentBytes: Number(facts.segmentBytes) };
}

// A repository in a folder with made-up backups, for tests that need no PostgreSQL.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { onTestFinished } from 'vitest';
import {
  type BackupDescription,
  names,
  openRepository,
  putObject,
} from '../../src/backups/repository/repository.ts';
import { openFolder } from '../../src/backups/storage/folder.ts';
import { formatLsn, segmentName } from '../../src/postgres/replication/lsn.ts';

export const segmentBytes = 1024 * 1024;

export function newRepository() {
  const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-stored-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const storage = openFolder(folder, 0);
  const repository = openRepository(storage, Buffer.alloc(32, 7), '1');

  const store = async (name: string, content: Buffer) => {
    const { bytes: stored_bytes, sha256 } = await putObject(repository, name, [content]);
    return { bytes: content.length, stored_bytes, sha256 };
  };
  const storeWal = (timeline: number, segment: number) =>
    store(
      names.wal(repository, timeline) + segmentName(timeline, BigInt(segment * segmentBytes), segmentBytes),
      Buffer.alloc(segmentBytes, segment),
    );
  /** It ended in this hour; its WAL is one segment. Full, unless it has a parent. */
  const storeBackup = async (
    hour: number,
    timeline: number,
    segment: number,
    parent: BackupDescription | null = null,
  ): Promise<BackupDescription> => {
    const at = `2026-11-16T0${hour}:00:00.000Z`;
    const kind = parent ? 'incremental' : 'full';
    const id = `${at.replace(/[-:.]/g, '')}-${kind}`;
    await storeWal(timeline, segment);
    const backup: BackupDescription = {
      format: 1,
      id,
      kind,
      parent: parent?.id ?? null,
      cluster: '1',
      timeline,
      postgres: '18.4',
      segment_bytes: segmentBytes,
      started_at: at,
      ended_at: at,
      databases: [],
      start_lsn: formatLsn(BigInt(segment * segmentBytes)),
      end_lsn: formatLsn(BigInt(segment * segmentBytes + 100)),
      parts: [{ name: 'rest.tar', ...(await store(names.part(repository, id, 'rest.tar'), tar)) }],
      manifest: {
        name: 'manifest',
        ...(await store(names.part(repository, id, 'manifest'), Buffer.from('{}'))),
      },
    };
    await store(names.backup(repository, id), Buffer.from(JSON.stringify(backup)));
    return backup;
  };
  const remove = (name: string) => rmSync(path.join(folder, name), { recursive: true });
  /** Returns what undoes it. */
  const damage = (name: string, change: (bytes: Buffer) => Buffer) => {
    const file = path.join(folder, name);
    const bytes = readFileSync(file);
    writeFileSync(file, change(Buffer.from(bytes)));
    return () => writeFileSync(file, bytes);
  };
  return { repository, store, storeWal, storeBackup, remove, damage };
}

/** One file without content. */
const tar = Buffer.alloc(512);
tar.write('PG_VERSION');
tar.write('00000000000', 124);

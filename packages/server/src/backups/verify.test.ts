import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { formatLsn, segmentName } from '../postgres/lsn.ts';
import { type BackupDescription, names, openRepository, putObject } from './repository.ts';
import { planRestore } from './restore/plan.ts';
import { openFolder } from './storage/folder.ts';
import { verify } from './verify.ts';

const segmentBytes = 1024 * 1024;
const { signal } = new AbortController();

function newRepository() {
  const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-verify-'));
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
  /** A full backup that ended in this hour; its WAL is one segment. */
  const storeBackup = async (hour: number, timeline: number, segment: number): Promise<BackupDescription> => {
    const at = `2026-11-16T0${hour}:00:00.000Z`;
    const id = `${at.replace(/[-:.]/g, '')}-full`;
    await storeWal(timeline, segment);
    const backup: BackupDescription = {
      ...{ format: 1, id, kind: 'full', parent: null, cluster: '1', timeline, postgres: '18.4' },
      ...{ segment_bytes: segmentBytes, started_at: at, ended_at: at, databases: [] },
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
  return { repository, storeBackup, remove };
}

/** One file without content. */
const tar = Buffer.alloc(512);
tar.write('PG_VERSION');
tar.write('00000000000', 124);

it('what pruning deletes meanwhile is not reported as missing, and what is lost is', async () => {
  const { repository, storeBackup, remove } = newRepository();
  const [first, second] = [await storeBackup(1, 1, 1), await storeBackup(2, 1, 2)];
  const wal = names.wal(repository, 1) + segmentName(1, BigInt(segmentBytes), segmentBytes);
  expect((await verify(repository, { signal })).problems).toEqual([]);

  remove(names.part(repository, second.id, 'rest.tar'));
  const { problems } = await verify(repository, { signal });
  expect(problems).toEqual([expect.stringContaining(`${second.id}/rest.tar: There is no object`)]);

  // The first part of the first backup was read; its manifest and its WAL are still to be read.
  let steps = 0;
  const progress = () => {
    if (++steps > 1) return;
    for (const name of [names.part(repository, first.id, ''), wal]) remove(name);
  };
  expect((await verify(repository, { signal, progress })).problems).toEqual(problems);
  expect(steps).toBe(6);
});

it('a server is not restored from a copy of it that stores into the same place', async () => {
  const { repository, storeBackup } = newRepository();
  const [own, copy] = [await storeBackup(1, 1, 1), await storeBackup(2, 2, 2)];
  const at = new Date('2026-11-16T03:00:00Z');
  expect((await planRestore(repository, at, { timeline: 1 })).tip.id).toBe(own.id);
  expect((await planRestore(repository, at, { timeline: 2 })).tip.id).toBe(copy.id);
  expect((await planRestore(repository, at)).tip.id).toBe(copy.id);
});

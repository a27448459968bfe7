// A backup whose description cannot be read: it is reported, and everything else works.
import { expect, it } from 'vitest';
import { newRepository } from '../../../test/support/stored-repository.ts';
import { prune } from '../prune.ts';
import { findRestorable, listRestorable, listWal, rangesOf } from '../restorable.ts';
import { planRestore } from '../restore/plan.ts';
import { verify } from '../verify.ts';
import { listBackupIds, readBackups } from './descriptions.ts';
import { names, openRepository } from './repository.ts';

const { signal } = new AbortController();
const at = (hour: number, minute = 30) => new Date(Date.UTC(2026, 10, 16, hour, minute));
const hourMs = 3_600_000;

const flip = (byte: (length: number) => number) => (bytes: Buffer) => {
  const place = byte(bytes.length);
  bytes[place] = (bytes[place] as number) ^ 1;
  return bytes;
};
const damages = {
  'a flipped bit': flip((length) => length - 5),
  'a flipped bit in the name of the key': flip(() => 6),
  'an empty object': () => Buffer.alloc(0),
  'a truncated object': (bytes: Buffer) => bytes.subarray(0, bytes.length >> 1),
  'other content': (bytes: Buffer) => Buffer.alloc(bytes.length, 120),
};

it.each(Object.entries(damages))('%s hides no other backup', async (_, change) => {
  const { repository, storeBackup, damage } = newRepository();
  const first = await storeBackup(1, 1, 1);
  const second = await storeBackup(2, 1, 2);
  const third = await storeBackup(3, 1, 3, second);
  const fourth = await storeBackup(4, 1, 4);
  const repair = damage(names.backup(repository, second.id), change);

  const { backups, damaged } = await readBackups(repository);
  expect(backups.map(({ id }) => id)).toEqual([first.id, third.id, fourth.id]);
  expect(damaged).toEqual([{ id: second.id, problem: expect.stringContaining(second.id) }]);
  // The third backup needs it. So its moments are restored with the WAL after the first one.
  expect((await planRestore(repository, at(3))).tip.id).toBe(first.id);
  expect((await planRestore(repository, at(4))).tip.id).toBe(fourth.id);
  const { problems } = await verify(repository, { signal });
  expect(problems).toEqual([
    expect.stringContaining(`${second.id}/backup: `),
    expect.stringContaining(`${third.id}: a backup that it needs`),
  ]);

  // The third backup is past the retention, the fourth is not. The first one would be deleted, if all could be read.
  const pruneAt = (now: Date) =>
    prune(repository, { retentionDays: 1, now: now.getTime() + 24 * hourMs, isBackupRunning: false });
  expect((await pruneAt(at(3))).backups).toEqual([]);
  expect(await listBackupIds(repository)).toEqual([first.id, second.id, third.id, fourth.id]);
  repair();
  expect((await planRestore(repository, at(3))).tip.id).toBe(third.id);
  expect((await pruneAt(at(3))).backups).toEqual([first.id]);
});

it('a damaged backup is deleted when a newer one is past the retention', async () => {
  const { repository, storeBackup, damage } = newRepository();
  const [first, second, third] = [
    await storeBackup(1, 1, 1),
    await storeBackup(2, 1, 2),
    await storeBackup(3, 1, 3),
  ];
  damage(names.backup(repository, first.id), damages['an empty object']);
  const pruneAt = (now: Date) =>
    prune(repository, { retentionDays: 1, now: now.getTime() + 24 * hourMs, isBackupRunning: false });
  expect((await pruneAt(at(1))).backups).toEqual([]);
  expect((await pruneAt(at(2))).backups).toEqual([first.id]);
  expect(await listBackupIds(repository)).toEqual([second.id, third.id]);
});

it('a wrong master key is not taken for damage', async () => {
  const { repository, storeBackup } = newRepository();
  await storeBackup(1, 1, 1);
  await storeBackup(2, 1, 2);
  const other = openRepository(repository.storage, Buffer.alloc(32, 8), '1');
  await expect(readBackups(other)).rejects.toThrow('another master key');
  await expect(
    prune(other, { retentionDays: 1, now: Date.now() + 99 * 24 * hourMs, isBackupRunning: false }),
  ).rejects.toThrow('another master key');
});

it('folders that are not backups are neither read nor deleted', async () => {
  const { repository, storeBackup, store } = newRepository();
  await storeBackup(1, 1, 1);
  await store('1/base/notes/backup', Buffer.from('mine'));
  expect((await readBackups(repository)).damaged).toEqual([]);
  await prune(repository, { retentionDays: 1, now: Date.now() + 99 * 24 * hourMs, isBackupRunning: false });
  expect(await repository.storage.folders('1/base/')).toContain('notes');
});

it('the parts of a backup that runs are kept, however old they are', async () => {
  const { repository, storeBackup, remove } = newRepository();
  await storeBackup(1, 1, 1);
  const { id } = await storeBackup(2, 1, 2);
  remove(names.backup(repository, id));
  const now = Date.now() + 25 * hourMs;
  const pruneNow = (isBackupRunning: boolean) =>
    prune(repository, { retentionDays: 999, now, isBackupRunning });
  expect((await pruneNow(true)).unfinished).toBe(0);
  expect(await listBackupIds(repository)).toContain(id);
  expect((await pruneNow(false)).unfinished).toBe(1);
  expect(await listBackupIds(repository)).not.toContain(id);
});

it('moments before a gap and before a restore of the server are offered, and those in between are not', async () => {
  const { repository, storeBackup, storeWal } = newRepository();
  await storeBackup(1, 1, 1);
  await storeBackup(2, 1, 2);
  // Segment 3 is missing.
  await storeBackup(3, 1, 4);
  await storeWal(1, 5);
  // The server goes on with the second timeline, after it was restored.
  await storeBackup(5, 2, 5);
  const { backups } = await readBackups(repository);
  const stored = await listWal(repository, backups);
  const storedAt = new Map([
    ['1/2', at(2, 45)],
    ['1/5', at(4, 10)],
    ['2/5', at(5, 1)],
  ]);
  const wal = new Map(
    [...stored].map(([timeline, segments]) => [
      timeline,
      segments.map((segment) => {
        const number = Number.parseInt(segment.name.slice(-8), 16);
        return { ...segment, storedAt: storedAt.get(`${timeline}/${number}`) ?? at(1) };
      }),
    ]),
  );
  const restorable = listRestorable(backups, wal, 2);
  expect(rangesOf(restorable, at(7))).toEqual([
    { from: at(1, 0), to: at(2, 45) },
    { from: at(3, 0), to: at(4, 10) },
    { from: at(5, 0), to: at(7) },
  ]);
  const tipAt = (moment: Date) => findRestorable(restorable, moment)?.tip.ended_at ?? null;
  expect([at(0), at(2), at(2, 50), at(4, 0), at(4, 30), at(6)].map(tipAt)).toEqual([
    ...[null, backups[1]?.ended_at, null, backups[2]?.ended_at, null, backups[3]?.ended_at],
  ]);
  // A copy that stores into the same place is not the past of the first server, whose WAL is not closed.
  const own = listRestorable(backups, wal, 1);
  expect(findRestorable(own, at(6))?.tip.id).toBe(backups[2]?.id);
});

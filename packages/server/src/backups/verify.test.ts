import { expect, it } from 'vitest';
import { newRepository, segmentBytes } from '../../test/support/stored-repository.ts';
import { segmentName } from '../postgres/replication/lsn.ts';
import { names } from './repository/repository.ts';
import { planRestore } from './restore/plan.ts';
import { verify } from './verify.ts';

const { signal } = new AbortController();

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

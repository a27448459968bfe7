// The rhythm of the keeper, with backups that always fail.
import { expect, it } from 'vitest';
import type { Server } from '../servers/server.ts';
import type { Backups } from './backups.ts';
import { openBackupKeeper } from './keeper.ts';

it('prunes also while backups fail: storage that is full gets space again only by this', async () => {
  const ending = new AbortController();
  const failed = async () => {
    throw new Error('The storage is full.');
  };
  const errors: string[] = [];
  const log = { info: () => {}, warn: () => {}, error: (_: object, message: string) => errors.push(message) };
  // Two hours pass between any two looks at the clock.
  let clock = 0;
  const now = () => {
    clock += 2 * 60 * 60_000;
    return clock;
  };
  let prunings = 0;
  const prune = async () => {
    prunings++;
    ending.abort();
    return { backups: [], segments: 0, unfinished: 0 };
  };
  const others = {
    prepareSlot: failed,
    prune,
    recordProblem: async () => {},
    place: '/backups',
    options: {},
  };
  const backups = { checkServer: failed, checkRepository: failed, ...others };
  const deps = { backups: backups as unknown as Backups, server: {} as Server, now };
  const keeper = openBackupKeeper(deps, log);
  // Without a pruning, the next attempt is a minute away.
  const timer = setTimeout(() => ending.abort(), 3_000);
  await keeper.run(ending.signal);
  clearTimeout(timer);
  expect(prunings).toBe(1);
  expect(errors).toContain('WAL cannot be stored; PostgreSQL keeps it and storing is retried');
});

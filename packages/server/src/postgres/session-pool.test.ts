import { expect, it } from 'vitest';
import type { Session } from './session.ts';
import { createSessionPool } from './session-pool.ts';

const open = async () => ({ isUsable: true, close: () => {}, destroy: () => {} }) as unknown as Session;

it('sessions that the service opened first count as those of the account, once it uses the project', async () => {
  // The last two of the budget are kept for accounts that use none.
  const limits = { budget: 16, maxOpen: 16, share: 16, waiting: 100, waitMs: 60_000, idleMs: 60_000 };
  const pool = createSessionPool(limits);
  pool.release('quiet', await pool.acquire('quiet', open, 'quiet'), true);
  const held = [await pool.acquire('loud', open, null)];
  while (held.length < 14) held.push(await pool.acquire('loud', open, 'loud'));
  const waiting = pool.acquire('loud too', open, 'loud');
  expect(pool.counts().waiting).toBe(1);
  pool.release('quiet', await pool.acquire('quiet', open, 'quiet'), true);
  expect(pool.counts().waiting).toBe(1);
  for (const session of held) pool.release('loud', session, true);
  pool.release('loud too', await waiting, true);
  expect(pool.counts()).toEqual({ open: 16, idle: 16, waiting: 0 });
  await pool.end();
});

it('a session that cannot be opened uses up nothing', async () => {
  const limits = { budget: 1, maxOpen: 1, share: 1, waiting: 1, waitMs: 60_000, idleMs: 60_000 };
  const pool = createSessionPool(limits);
  for (let n = 0; n < 3; n++)
    await expect(pool.acquire('p', () => Promise.reject(new Error('no')), 'a')).rejects.toThrow('no');
  pool.release('p', await pool.acquire('p', open, 'a'), false);
  expect(pool.counts()).toEqual({ open: 0, idle: 0, waiting: 0 });
  await pool.end();
});

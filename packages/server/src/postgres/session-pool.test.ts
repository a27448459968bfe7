import { describe, expect, it } from 'vitest';
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

it('a session that has grown is closed soon after its last request, and others stay', async () => {
  const limits = { budget: 4, maxOpen: 4, share: 4, waiting: 1, waitMs: 60_000, idleMs: 2_000 };
  const pool = createSessionPool(limits);
  const sessions = [await pool.acquire('p', open, 'a'), await pool.acquire('p', open, 'a')] as const;
  sessions[0].hasGrown = true;
  for (const session of sessions) pool.release('p', session, true);
  expect(pool.counts()).toEqual({ open: 2, idle: 2, waiting: 0 });
  await expect.poll(() => pool.counts().open, { timeout: 1_500, interval: 20 }).toBe(1);
  expect(pool.takeIdle('p')).toBe(sessions[1]);
  pool.release('p', sessions[1], true);
  await pool.end();
  expect(pool.counts()).toEqual({ open: 0, idle: 0, waiting: 0 });
});

describe('a session that is opened ahead', () => {
  const limits = { budget: 2, maxOpen: 2, share: 2, waiting: 1, waitMs: 60_000, idleMs: 60_000 };
  const openAhead = (isReusable = true) => {
    const pool = createSessionPool(limits);
    let done: (session: Session) => void = () => {};
    let fail: (error: Error) => void = () => {};
    let opened = 0;
    const opening = () => {
      opened++;
      return new Promise<Session>((resolve, reject) => {
        done = resolve;
        fail = reject;
      });
    };
    pool.warm('p', { open: opening, account: 'a', isReusable: () => isReusable });
    return {
      pool,
      opening,
      opened: () => opened,
      done: (one: Session) => done(one),
      fail: () => fail(new Error('no')),
    };
  };

  it('goes to the next request, and is opened once', async () => {
    const { pool, opening, opened, done } = openAhead();
    pool.warm('p', { open: opening, account: 'a', isReusable: () => true });
    const acquired = pool.acquire('p', opening, 'a');
    const session = await open();
    done(session);
    expect(await acquired).toBe(session);
    expect(opened()).toBe(1);
    expect(pool.counts()).toEqual({ open: 1, idle: 0, waiting: 0 });
    // Only one request gets it.
    expect(await pool.acquire('p', open, 'a')).not.toBe(session);
    expect(pool.counts()).toEqual({ open: 2, idle: 0, waiting: 0 });
  });

  it('is idle if nobody asks for it, and closed if it must not be used', async () => {
    const kept = openAhead();
    const session = await open();
    kept.done(session);
    await new Promise(setImmediate);
    expect(kept.pool.counts()).toEqual({ open: 1, idle: 1, waiting: 0 });
    expect(kept.pool.takeIdle('p')).toBe(session);
    const closed = openAhead(false);
    closed.done(await open());
    await new Promise(setImmediate);
    expect(closed.pool.counts()).toEqual({ open: 0, idle: 0, waiting: 0 });
  });

  it('uses up nothing if it cannot be opened, and its error goes to whoever acquired it', async () => {
    const alone = openAhead();
    alone.fail();
    await new Promise(setImmediate);
    expect(alone.pool.counts()).toEqual({ open: 0, idle: 0, waiting: 0 });
    const claimed = openAhead();
    const acquired = claimed.pool.acquire('p', claimed.opening, 'a');
    claimed.fail();
    await expect(acquired).rejects.toThrow('no');
    expect(claimed.pool.counts()).toEqual({ open: 0, idle: 0, waiting: 0 });
  });

  it('is not opened beyond the budget', async () => {
    const pool = createSessionPool({ ...limits, budget: 1, maxOpen: 1 });
    const held = await pool.acquire('other', open, 'a');
    pool.warm('p', { open, account: 'a', isReusable: () => true });
    expect(pool.counts().open).toBe(1);
    pool.release('other', held, true);
  });
});

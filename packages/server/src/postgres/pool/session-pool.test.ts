import { describe, expect, it } from 'vitest';
import type { Session } from '../wire/session.ts';
import { createSessionPool } from './session-pool.ts';

const open = async () => ({ isUsable: true, close: () => {}, destroy: () => {} }) as unknown as Session;

it('sessions that the service opened first count as those of the account, once it uses the project', async () => {
  // The last two of the budget are kept for accounts that use none.
  const limits = { budget: 16, maxOpen: 16, share: 32, waiting: 100, waitMs: 60_000, idleMs: 60_000 };
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

describe('the callers of a project', () => {
  const limits = { budget: 20, maxOpen: 20, share: 10, waiting: 4, waitMs: 60_000, idleMs: 60_000 };
  const fill = async () => {
    const pool = createSessionPool(limits);
    const held = await Promise.all(Array.from({ length: 8 }, () => pool.acquire('p', open, 'a', 'loud')));
    return { pool, held };
  };

  it('leave the last sessions to those that use none, and the next one goes to whoever uses the fewest', async () => {
    const { pool, held } = await fill();
    const served: string[] = [];
    const acquire = (caller: string) =>
      pool.acquire('p', open, 'a', caller).then((session) => {
        served.push(caller);
        return session;
      });
    const loud = [acquire('loud'), acquire('loud')];
    const one = await acquire('one');
    const second = acquire('one');
    const other = await acquire('other');
    expect([served, pool.counts().waiting]).toEqual([['one', 'other'], 3]);
    expect(pool.takeIdle('p', undefined, 'loud')).toBe(null);
    // Ten are in use: whoever gives one back, it goes to a caller that uses none, or to the one that uses the fewest.
    pool.release('p', other, true);
    expect(pool.counts()).toEqual({ open: 10, idle: 1, waiting: 3 });
    pool.release('p', one, true);
    pool.release('p', await second, true);
    for (const session of held) pool.release('p', session, true);
    for (const session of await Promise.all(loud)) pool.release('p', session, true);
    expect(served).toEqual(['one', 'other', 'one', 'loud', 'loud']);
    expect(pool.counts()).toEqual({ open: 10, idle: 10, waiting: 0 });
    await pool.end();
  });

  it('have room in a queue that one of them fills', async () => {
    const { pool, held } = await fill();
    const loud = Array.from({ length: 5 }, () => pool.acquire('p', open, 'a', 'loud').catch(() => null));
    await Promise.resolve();
    expect(pool.counts().waiting).toBe(4);
    const quiet = await Promise.all(['one', 'other'].map((caller) => pool.acquire('p', open, 'a', caller)));
    const late = pool.acquire('p', open, 'a', 'one');
    expect(pool.counts().waiting).toBe(4);
    for (const session of [...quiet, ...held]) pool.release('p', session, true);
    pool.release('p', await late, true);
    const last = await Promise.all(loud);
    for (const session of last) if (session) pool.release('p', session, true);
    expect(last.map((session) => session !== null)).toEqual([true, true, true, false, false]);
    expect(pool.counts()).toEqual({ open: 10, idle: 10, waiting: 0 });
    await pool.end();
  });

  it('take turns where there is one session', async () => {
    const pool = createSessionPool({ ...limits, budget: 1, maxOpen: 1, waiting: 10 });
    const served: string[] = [];
    const first = await pool.acquire('p', open, 'a', 'loud');
    const all = ['loud', 'loud', 'loud', 'one', 'other'].map(async (caller) => {
      const session = await pool.acquire('p', open, 'a', caller);
      served.push(caller);
      pool.release('p', session, true);
    });
    pool.release('p', first, true);
    await Promise.all(all);
    expect(served).toEqual(['loud', 'one', 'other', 'loud', 'loud']);
    await pool.end();
  });

  it('share a small project as they come', async () => {
    const pool = createSessionPool({ ...limits, share: 2 });
    for (let n = 0; n < 2; n++) await pool.acquire('p', open, 'a', 'loud');
    expect(pool.counts()).toEqual({ open: 2, idle: 0, waiting: 0 });
  });
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

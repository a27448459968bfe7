// The rules by which accounts share slots, without the work behind them.
import { describe, expect, it } from 'vitest';
import { AccountSlots, type LeaveSlot } from '../../src/lib/account-slots.ts';
import { Stalled, whileItProgresses } from '../../src/lib/stall-watch.ts';
import { jobEnd, useTestService } from '../support/helpers.ts';
import { upload } from '../support/importing.ts';

const overloaded = { code: 'overloaded', status: 429, retryAfterS: 10 };
const tick = () => new Promise((resolve) => setImmediate(resolve));

describe('slots', () => {
  it('keep the last ones for accounts that have none', () => {
    const slots = new AccountSlots('exports', { all: 3, kept: 1 });
    const leaves = [slots.enter('loud'), slots.enter('loud')];
    expect(() => slots.enter('loud')).toThrow(
      'The exports of this account use up its share: 2 of them are running or waiting.',
    );
    leaves.push(slots.enter('quiet'));
    expect(() => slots.enter('third')).toThrow('Too many exports are running or waiting.');
    leaves[2]?.();
    leaves[2]?.();
    expect(() => slots.enter('loud')).toThrow();
    expect(() => slots.enter('third')).not.toThrow();
  });

  it('have a share for each account', () => {
    const slots = new AccountSlots('imports', { all: 10, perAccount: 2 });
    const leave = slots.enter('loud');
    slots.enter('loud');
    expect(() => slots.enter('loud')).toThrow('2 of them');
    leave();
    expect(() => slots.enter('loud')).not.toThrow();
  });

  it('of the service and of operators are an account of their own', () => {
    const slots = new AccountSlots('drills', { all: 2, kept: 1 });
    slots.enter(null);
    expect(() => slots.enter(null)).toThrow();
    expect(() => slots.enter('quiet')).not.toThrow();
  });
});

describe('turns', () => {
  /** Everything that was asked for, in the order in which it began. */
  const line = (slots: AccountSlots) => {
    const begun: string[] = [];
    const leaves: LeaveSlot[] = [];
    const ask = (account: string, signal?: AbortSignal) =>
      slots.acquire(account, signal).then((leave) => {
        begun.push(account);
        leaves.push(leave);
      });
    const next = async () => {
      leaves.shift()?.();
      await tick();
    };
    return { begun, ask, next };
  };

  it('go by accounts, whatever order they came in', async () => {
    const { begun, ask, next } = line(new AccountSlots('restores', { all: 1, waiting: 40 }));
    const asked = ['a', 'a', 'a', 'b', 'a', 'b', 'c'].map((account) => ask(account));
    for (let n = 0; n < 7; n++) await next();
    await Promise.all(asked);
    expect(begun).toEqual(['a', 'b', 'c', 'a', 'b', 'a', 'a']);
  });

  it('of one account never take the last slot, however many wait', async () => {
    const { begun, ask, next } = line(new AccountSlots('imports', { all: 3, kept: 1, waiting: 40 }));
    const asked = Array.from({ length: 6 }, () => ask('loud'));
    await tick();
    expect(begun).toEqual(['loud', 'loud']);
    const quiet = ask('quiet');
    await tick();
    expect(begun).toEqual(['loud', 'loud', 'quiet']);
    for (let n = 0; n < 7; n++) await next();
    await Promise.all([...asked, quiet]);
    expect(begun.length).toBe(7);
  });

  it('are bounded, with room for accounts of which nothing waits', async () => {
    const slots = new AccountSlots('branches', { all: 1, waiting: 8, waitingPerAccount: 3 });
    const { begun, ask, next } = line(slots);
    const asked = ['a', 'a', 'a', 'a', 'b', 'b', 'b'].map((account) => ask(account));
    await expect(ask('a')).rejects.toMatchObject(overloaded);
    await expect(ask('b')).rejects.toMatchObject(overloaded);
    asked.push(ask('c'), ask('d'));
    await expect(ask('e')).rejects.toMatchObject({ message: 'Too many branches are running or waiting.' });
    expect(() => slots.requireRoom('a')).toThrow();
    for (let n = 0; n < 9; n++) await next();
    await Promise.all(asked);
    expect(begun.toSorted().join('')).toBe('aaaabbbcd');
    expect(slots.waits).toBe(0);
  });

  it('are left by what is called off, and by what fails', async () => {
    const slots = new AccountSlots('imports', { all: 1, waiting: 8 });
    const stop = new AbortController();
    const failing = slots.take('a', async () => {
      await tick();
      throw new Error('failed');
    });
    const called = slots.take('b', async () => 'began', stop.signal);
    stop.abort(new Error('called off'));
    await expect(called).rejects.toThrow('called off');
    await expect(slots.take('b', async () => 'began', stop.signal)).rejects.toThrow('called off');
    await expect(failing).rejects.toThrow('failed');
    expect(await slots.take('c', async () => 'began')).toBe('began');
  });
});

describe('work without progress', () => {
  const rowhouse = useTestService({
    imports: {
      allowPrivateHosts: false,
      limits: { statementMs: 60_000, stallMs: 1_000, running: { all: 1, waiting: 5 } },
    },
  });

  it('is ended, and what makes progress is not', async () => {
    const { signal } = new AbortController();
    const stepping = whileItProgresses(signal, 300, async ({ touch }) => {
      for (let n = 0; n < 8; n++) {
        await new Promise((resolve) => setTimeout(resolve, 100));
        touch();
      }
      return 'done';
    });
    expect(await stepping).toBe('done');
    const ended = whileItProgresses(signal, 100, ({ signal: ending }) => {
      return new Promise((_, reject) => ending.addEventListener('abort', () => reject(ending.reason)));
    });
    await expect(ended).rejects.toThrow(Stalled);
  });

  it('ends an import with a message that says so, and the next one gets its turn', async () => {
    const stuck = await upload(rowhouse, 'create table t ();\nselect pg_catalog.pg_sleep(50);\n');
    const steps = 'select pg_catalog.pg_sleep(0.4);\n'.repeat(5);
    const next = await upload(rowhouse, `create table t (n int);\n${steps}`, 'name=Next');
    expect([stuck.status, next.status]).toEqual([202, 202]);
    const { status, error } = await jobEnd(rowhouse, stuck.body.job.id);
    expect([status, error.code, error.message]).toEqual([
      'failed',
      'query_timeout',
      'The import was ended: it made no progress for 1 s.',
    ]);
    expect((await jobEnd(rowhouse, next.body.job.id)).status).toBe('done');
  });
});

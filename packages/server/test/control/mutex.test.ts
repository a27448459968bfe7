import { expect, it, onTestFinished } from 'vitest';
import { openControl } from '../../src/control/control.ts';
import { locks } from '../../src/control/lock-names.ts';
import { ifFree, openMutex } from '../../src/control/mutex.ts';
import { address, openGate } from '../support/helpers.ts';

/** As many processes as wanted, with one mutex. It is held by what `holdUntil` was given. */
function processes(count: number) {
  const lock = locks.branches(Math.floor(Math.random() * 2 ** 31));
  const limits = { waiting: 4, waitingPerAccount: 2 };
  return Array.from({ length: count }, () => {
    const control = openControl(address(), 'postgres');
    onTestFinished(() => control.end());
    return { control, lock, mutex: openMutex(control, { what: 'drills', lock, limits, lookMs: 5 }) };
  });
}
const someone = { account: 'someone', signal: new AbortController().signal };

it('runs one at a time among all processes', async () => {
  const all = processes(3);
  let running = 0;
  let most = 0;
  const work = async () => {
    most = Math.max(most, ++running);
    await new Promise((resolve) => setTimeout(resolve, 10));
    return running--;
  };
  const done = await Promise.all(all.flatMap(({ mutex }) => [mutex(someone, work), mutex(someone, work)]));
  expect(done).toEqual([1, 1, 1, 1, 1, 1]);
  expect(most).toBe(1);
});

it('ends the wait for this process and for others with the reason of the signal, and runs nothing then', async () => {
  const [one, other] = processes(2) as [Process, Process];
  const gate = openGate();
  const begun: string[] = [];
  const note = (name: string) => async () => void begun.push(name);
  const held = one.mutex(someone, () => gate.passed);
  await isHeld(one);
  const late = new AbortController();
  const waiting = [one, other].map(({ mutex }, n) =>
    mutex({ account: 'someone', signal: late.signal }, note(`${n}`)),
  );
  const failed = Promise.all(waiting.map((wait) => expect(wait).rejects.toThrow('too late')));
  late.abort(new Error('too late'));
  await failed;
  gate.open();
  await held;
  await other.mutex(someone, note('next'));
  expect(begun).toEqual(['next']);
});

it('refuses what may not wait, and can do without the wait', async () => {
  const [one, other] = processes(2) as [Process, Process];
  const gate = openGate();
  const held = one.mutex(someone, () => gate.passed);
  await isHeld(one);
  expect(await ifFree(other.control, other.lock, async () => 'ran')).toBeNull();
  const waiting = [one.mutex(someone, async () => 1), one.mutex(someone, async () => 2)];
  await expect(one.mutex(someone, async () => 3)).rejects.toMatchObject({ code: 'overloaded' });
  gate.open();
  await held;
  expect(await Promise.all(waiting)).toEqual([1, 2]);
  expect(await ifFree(other.control, other.lock, async () => 'ran')).toBe('ran');
});

type Process = ReturnType<typeof processes>[number];

async function isHeld({ control, lock }: Process): Promise<void> {
  await expect.poll(() => ifFree(control, lock, async () => 'free')).toBeNull();
}

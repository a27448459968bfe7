import { expect, it } from 'vitest';
import { openInFlight } from './in-flight.ts';

/** Runs that end when they are told. */
function runs() {
  const inFlight = openInFlight<number>();
  const begun: ((error?: Error) => void)[] = [];
  const ask = (key: string) =>
    inFlight(key, () => {
      const number = begun.length;
      return new Promise((resolve, reject) => {
        begun.push((error) => (error ? reject(error) : resolve(number)));
      });
    });
  return { inFlight, begun, ask };
}

it('shares one run among callers with the same key, until it has ended', async () => {
  const { begun, ask } = runs();
  const asked = [ask('a'), ask('a'), ask('b')];
  for (const end of begun) end();
  expect(await Promise.all(asked)).toEqual([0, 0, 1]);
  const again = ask('a');
  begun[2]?.();
  expect(await again).toBe(2);
});

it('begins another run after a failure, which all its callers see', async () => {
  const { begun, ask } = runs();
  const asked = [ask('a'), ask('a')];
  begun[0]?.(new Error('it failed'));
  expect((await Promise.allSettled(asked)).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  const again = ask('a');
  begun[1]?.();
  expect(await again).toBe(1);
});

it('gives nobody the result of a run from before a change, and keeps the run that began after it', async () => {
  const { inFlight, begun, ask } = runs();
  const before = ask('a');
  inFlight.forget();
  const after = ask('a');
  begun[0]?.();
  expect(await before).toBe(0);
  const joined = ask('a');
  begun[1]?.();
  expect(await Promise.all([after, joined])).toEqual([1, 1]);
});

it('settles when all runs have ended', async () => {
  const { inFlight, begun, ask } = runs();
  const asked = [ask('a'), ask('b')];
  let isSettled = false;
  const settled = inFlight.settled().then(() => {
    isSettled = true;
  });
  begun[0]?.();
  await asked[0];
  expect(isSettled).toBe(false);
  const failed = expect(asked[1]).rejects.toThrow('it failed');
  begun[1]?.(new Error('it failed'));
  await failed;
  await settled;
});

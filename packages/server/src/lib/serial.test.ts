import { expect, it } from 'vitest';
import { openSerial } from './serial.ts';

const tick = () => new Promise((resolve) => setImmediate(resolve));

/** Starts work that goes on until `end`. */
function line(most: number) {
  const serial = openSerial({ most, tooMany: () => new Error('too many') });
  const begun: string[] = [];
  const ends = new Map<string, (error?: Error) => void>();
  const ask = (key: string, name: string) =>
    serial(key, () => {
      begun.push(name);
      return new Promise<string>((resolve, reject) => {
        ends.set(name, (error) => (error ? reject(error) : resolve(name)));
      });
    });
  const end = async (name: string, error?: Error) => {
    ends.get(name)?.(error);
    await tick();
  };
  return { begun, ask, end };
}

it('runs one at a time for each key, in order of arrival', async () => {
  const { begun, ask, end } = line(10);
  const all = [ask('a', 'a1'), ask('a', 'a2'), ask('b', 'b1'), ask('a', 'a3')];
  await tick();
  expect(begun).toEqual(['a1', 'b1']);
  await end('a1');
  expect(begun).toEqual(['a1', 'b1', 'a2']);
  await end('a2');
  await end('b1');
  await end('a3');
  expect(await Promise.all(all)).toEqual(['a1', 'a2', 'b1', 'a3']);
});

it('goes on after a failure, which only its own caller sees', async () => {
  const { begun, ask, end } = line(10);
  const failing = ask('a', 'a1');
  const next = ask('a', 'a2');
  await tick();
  const failed = expect(failing).rejects.toThrow('it failed');
  await end('a1', new Error('it failed'));
  await failed;
  expect(begun).toEqual(['a1', 'a2']);
  await end('a2');
  await expect(next).resolves.toBe('a2');
});

it('refuses what is too much for a key, until something with it has ended', async () => {
  const { ask, end } = line(2);
  const [first, second] = [ask('a', 'a1'), ask('a', 'a2')];
  await tick();
  await expect(ask('a', 'a3')).rejects.toThrow('too many');
  const other = ask('b', 'b1');
  await end('a1');
  const third = ask('a', 'a3');
  for (const name of ['b1', 'a2', 'a3']) {
    await tick();
    await end(name);
  }
  expect(await Promise.all([first, second, other, third])).toEqual(['a1', 'a2', 'b1', 'a3']);
});

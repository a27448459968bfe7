import { describe, expect, it } from 'vitest';
import { FairQueue } from './fair-queue.ts';

/** A queue whose jobs the test ends. `begun`: the jobs in the order in which they reached the worker. */
function open(maxRunning: number) {
  const begun: string[] = [];
  const ends = new Map<string, { resolve: (result: string) => void; reject: (error: Error) => void }>();
  const run = (job: string) =>
    new Promise<string>((resolve, reject) => {
      begun.push(job);
      ends.set(job, { resolve, reject });
    });
  const queue = new FairQueue(run, maxRunning);
  const finish = async (job: string, error?: Error) => {
    if (error) ends.get(job)?.reject(error);
    else ends.get(job)?.resolve(`${job} done`);
    await new Promise(setImmediate);
  };
  return { queue, begun, finish };
}

describe('a fair queue', () => {
  it('gives a newcomer the next turn, however many of another project wait', async () => {
    const { queue, begun, finish } = open(1);
    for (let n = 0; n < 100; n++) void queue.add('flood', `flood ${n}`);
    const answer = queue.add('neighbour', 'one');
    await finish('flood 0');
    expect(begun).toEqual(['flood 0', 'one']);
    await finish('one');
    expect(await answer).toBe('one done');
    expect(begun.at(-1)).toBe('flood 1');
  });

  it('takes the projects in turn, and the jobs of each in the order in which they came', async () => {
    const { queue, begun, finish } = open(1);
    for (const job of ['a1', 'a2', 'a3', 'b1', 'b2', 'c1']) void queue.add(job.charAt(0), job);
    for (let n = 0; n < 6; n++) await finish(begun.at(-1) as string);
    expect(begun).toEqual(['a1', 'b1', 'c1', 'a2', 'b2', 'a3']);
  });

  it('gives an account with many projects no more turns than one with a single project', async () => {
    for (const slots of [1, 2]) {
      const { queue, begun, finish } = open(slots);
      for (let n = 0; n < 50; n++) void queue.add(`loud ${n}`, `loud ${n}`, 'loud');
      for (let n = 0; n < 3; n++) void queue.add('quiet', `quiet ${n}`, 'quiet');
      for (let n = 0; n < 7; n++) await finish(begun[n] as string);
      expect(begun.filter((job) => job.startsWith('quiet')).length, `${slots} slots`).toBe(3);
    }
  });

  it('serves a newcomer next while thousands of projects of another account wait', async () => {
    const { queue, begun, finish } = open(1);
    for (let n = 0; n < 20_000; n++) void queue.add(`loud ${n}`, `loud ${n}`, 'loud');
    void queue.add('quiet', 'quiet', 'quiet');
    for (let n = 0; n < 1_000; n++) await finish(begun.at(-1) as string);
    expect(begun.slice(0, 3)).toEqual(['loud 0', 'quiet', 'loud 1']);
    expect(begun.at(-1)).toBe('loud 999');
  });

  it('hands over no more at a time than it may', async () => {
    const { queue, begun, finish } = open(2);
    for (let n = 0; n < 5; n++) void queue.add('a', `${n}`);
    expect(begun).toEqual(['0', '1']);
    await finish('1');
    expect(begun).toEqual(['0', '1', '2']);
  });

  it('goes on after a failure, which only its own caller sees', async () => {
    const { queue, begun, finish } = open(1);
    const failing = queue.add('a', 'bad');
    const fine = queue.add('a', 'good');
    const refused = expect(failing).rejects.toThrow('no');
    await finish('bad', new Error('no'));
    await refused;
    await finish('good');
    expect(await fine).toBe('good done');
    expect(begun).toEqual(['bad', 'good']);
  });
});

import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { type GroupOptions, openGroups } from './groups.ts';

type Entry = { name: string; bytes?: number };

/** Groups whose statements end when they are told. */
function groups(options: Partial<GroupOptions<Entry, string>> = {}) {
  const statements: { names: string; end: (error?: Error) => void }[] = [];
  const alone: string[] = [];
  const { run, settled } = openGroups<Entry, string>({
    runTogether: (entries) =>
      new Promise((resolve, reject) => {
        const results = entries.map(({ name }) => name.toUpperCase());
        const end = (error?: Error) => (error ? reject(error) : resolve(results));
        statements.push({ names: entries.map(({ name }) => name).join(' '), end });
      }),
    runAlone: async ({ name }) => {
      alone.push(name);
      if (name.startsWith('bad')) throw new Error(name);
      return `${name} alone`;
    },
    isUndone: (error) => (error as Error).message === 'undone',
    maxEntries: 4,
    maxUnderWay: 1,
    maxBytes: 100,
    bytesOf: ({ bytes = 0 }) => bytes,
    ...options,
  });
  const add = (account: string, name: string, bytes?: number) =>
    run(account, { name, ...(bytes !== undefined && { bytes }) });
  const names = () => statements.map((statement) => statement.names);
  const end = async (index: number, error?: Error) => {
    statements[index]?.end(error);
    await turn();
    await turn();
  };
  return { add, end, names, alone, settled };
}

describe('writes in groups', () => {
  it('share a statement if they come in the same turn, and each gets its own result', async () => {
    const { add, end, names } = groups();
    const results = [add('x', 'a'), add('x', 'b')];
    expect(names()).toEqual([]);
    await turn();
    expect(names()).toEqual(['a b']);
    await end(0);
    expect(await Promise.all(results)).toEqual(['A', 'B']);
  });

  it('wait for the next statement while as many as allowed are under way', async () => {
    const { add, end, names } = groups({ maxUnderWay: 2 });
    void add('x', 'a');
    await turn();
    void add('x', 'b');
    await turn();
    for (const name of ['c', 'd', 'e']) void add('x', name);
    await turn();
    expect(names()).toEqual(['a', 'b']);
    await end(1);
    expect(names()).toEqual(['a', 'b', 'c d e']);
    await end(0);
    expect(names()).toHaveLength(3);
  });

  it('take turns by account, from one statement to the next', async () => {
    const { add, end, names } = groups({ maxEntries: 3 });
    for (let n = 0; n < 5; n++) void add('many', `m${n}`);
    for (const account of ['one', 'two', 'three']) void add(account, account);
    await turn();
    expect(names()).toEqual(['m0 one two']);
    void add('two', 'two again');
    await end(0);
    await end(1);
    expect(names()).toEqual(['m0 one two', 'three m1 two again', 'm2 m3 m4']);
  });

  it('fill a statement up to its bytes, and a larger one runs alone at once', async () => {
    const { add, end, names, alone } = groups();
    const large = add('x', 'large', 101);
    for (const name of ['a', 'b', 'c']) void add('x', name, 50);
    expect(await large).toBe('large alone');
    expect(alone).toEqual(['large']);
    await turn();
    await end(0);
    expect(names()).toEqual(['a b', 'c']);
  });

  it('run alone if nothing of their statement has happened, so that each fails by itself only', async () => {
    const { add, end, names } = groups();
    const results = Promise.allSettled(['a', 'bad', 'c'].map((name) => add('x', name)));
    await turn();
    await end(0, new Error('undone'));
    expect(await results).toEqual([
      { status: 'fulfilled', value: 'a alone' },
      { status: 'rejected', reason: new Error('bad') },
      { status: 'fulfilled', value: 'c alone' },
    ]);
    void add('x', 'd');
    await turn();
    expect(names()).toEqual(['a bad c', 'd']);
  });

  it('do not wait for those that run alone', async () => {
    const slow = groups({ runAlone: () => new Promise(() => {}) });
    void slow.add('x', 'a');
    await turn();
    void slow.add('x', 'b');
    await slow.end(0, new Error('undone'));
    expect(slow.names()).toEqual(['a', 'b']);
  });

  it('all fail if it is not known what has happened', async () => {
    const { add, end, alone } = groups();
    const results = Promise.allSettled(['a', 'b'].map((name) => add('x', name)));
    await turn();
    await end(0, new Error('broken'));
    expect((await results).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    expect(alone).toEqual([]);
  });

  it('are settled when the last one has ended, alone or together', async () => {
    const { add, end, settled, alone } = groups({ maxEntries: 1 });
    await settled();
    let isSettled = false;
    void add('x', 'a');
    void add('x', 'b');
    void settled().then(() => {
      isSettled = true;
    });
    await turn();
    await end(0);
    expect(isSettled).toBe(false);
    await end(1, new Error('undone'));
    expect(isSettled).toBe(true);
    expect(alone).toEqual(['b']);
  });
});

import { describe, expect, it } from 'vitest';
import { type Candidate, choosePlace } from './placement.ts';

const server = (id: number, more: Partial<Candidate> = {}): Candidate => ({
  id,
  name: `s${id}`,
  isActive: true,
  isAnswering: true,
  labels: [],
  capacityMb: 1_000,
  usedMb: 0,
  load: 0,
  ...more,
});
const small = { limitMb: 10 };

describe('the server of a new project', () => {
  it('is the one that uses the smallest part of its capacity', () => {
    const servers = [
      server(1, { usedMb: 500 }),
      server(2, { usedMb: 600, capacityMb: 2_000 }),
      server(3, { usedMb: 400 }),
    ];
    expect(choosePlace(servers, small)).toEqual({ id: 2 });
  });

  it('is not one whose sessions are in use, however empty its disk is', () => {
    expect(choosePlace([server(1, { load: 0.9 }), server(2, { usedMb: 500 })], small)).toEqual({ id: 2 });
  });

  it('has room for the whole limit of the project', () => {
    const servers = [server(1, { usedMb: 995 }), server(2, { usedMb: 100, load: 0.99 })];
    expect(choosePlace(servers, small)).toEqual({ id: 2 });
    expect(choosePlace(servers, { limitMb: 901 })).toEqual({ refused: 'full' });
    expect(choosePlace(servers, { limitMb: 900 })).toEqual({ id: 2 });
  });

  it('has all the labels that are asked for', () => {
    const servers = [server(1, { labels: ['eu'] }), server(2, { labels: ['eu', 'ssd'], usedMb: 900 })];
    expect(choosePlace(servers, { ...small, labels: ['ssd', 'eu'] })).toEqual({ id: 2 });
    expect(choosePlace(servers, { ...small, labels: ['us'] })).toEqual({ refused: 'labels' });
  });

  it('is the one that is named, or none', () => {
    const servers = [server(1), server(2, { usedMb: 900 }), server(3, { isActive: false })];
    expect(choosePlace(servers, { ...small, server: 's2' })).toEqual({ id: 2 });
    expect(choosePlace(servers, { ...small, server: 's9' })).toEqual({ refused: 'unknown' });
    expect(choosePlace(servers, { ...small, server: 's3' })).toEqual({ refused: 'draining' });
  });

  it('answers, and did not fail a moment ago', () => {
    const servers = [server(1, { isAnswering: false }), server(2), server(3, { usedMb: 100 })];
    expect(choosePlace(servers, small)).toEqual({ id: 2 });
    expect(choosePlace(servers, { ...small, without: new Set([2]) })).toEqual({ id: 3 });
    expect(choosePlace(servers, { ...small, without: new Set([2, 3]) })).toEqual({ refused: 'unavailable' });
  });

  it('is chosen by what it stores where capacities are not known', () => {
    const unknown = { capacityMb: null };
    const servers = [server(1, { ...unknown, usedMb: 300 }), server(2, { ...unknown, usedMb: 200 })];
    expect(choosePlace(servers, small)).toEqual({ id: 2 });
    const mixed = [server(1, { ...unknown, usedMb: 300 }), server(2, { usedMb: 200 })];
    expect(choosePlace(mixed, small)).toEqual({ id: 2 });
  });

  it('spreads equal projects evenly over equal servers', () => {
    const used = [0, 0, 0];
    for (let count = 0; count < 300; count++) {
      const servers = used.map((usedMb, at) => server(at + 1, { usedMb, capacityMb: 10_000 }));
      const choice = choosePlace(servers, small);
      if (!('id' in choice)) throw new Error('no place');
      used[choice.id - 1] = (used[choice.id - 1] ?? 0) + 8;
    }
    expect(used).toEqual([800, 800, 800]);
  });
});

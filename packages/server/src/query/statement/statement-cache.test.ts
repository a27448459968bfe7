import { describe, expect, it } from 'vitest';
import type { Statement } from './statement.ts';
import { StatementCache } from './statement-cache.ts';

const statement = (): Statement => ({
  effect: 'none',
  preparable: true,
  writes: false,
  isRead: true,
  reached: null,
  because: null,
  isProven: false,
  lazyText: null,
  isDelete: false,
  isInsert: false,
  changes: false,
  canShrink: false,
  insert: null,
  rowKey: null,
  isVacuum: false,
  canCommit: false,
  isParsed: true,
});
/** Room for about a hundred short texts. */
const maxBytes = 101_000;
const fill = (cache: StatementCache, project: string, count: number, prefix = 'x') => {
  for (let n = 0; n < count; n++) cache.add(project, `${prefix}${n}`, statement());
};
const count = (cache: StatementCache, project: string, of: number, prefix = 'x') =>
  Array.from({ length: of }, (_, n) => cache.get(project, `${prefix}${n}`)).filter(Boolean).length;

describe('the cache of statements', () => {
  it('knows a text only in the project that sent it', () => {
    const cache = new StatementCache(maxBytes);
    const [one, other] = [statement(), statement()];
    cache.add('a', 'select 1', one);
    expect(cache.get('b', 'select 1')).toBeUndefined();
    cache.add('b', 'select 1', other);
    expect(cache.get('a', 'select 1')).toBe(one);
    expect(cache.get('b', 'select 1')).toBe(other);
  });

  it('a flood of new texts evicts its own alone', () => {
    const cache = new StatementCache(maxBytes);
    fill(cache, 'neighbour', 20);
    fill(cache, 'flood', 10_000);
    expect(count(cache, 'neighbour', 20)).toBe(20);
  });

  it('a project alone has all the room, and one that comes later gets its half', () => {
    const cache = new StatementCache(maxBytes);
    fill(cache, 'first', 100);
    expect(count(cache, 'first', 100)).toBe(100);
    fill(cache, 'second', 1_000);
    const left = count(cache, 'first', 100);
    expect(left).toBeGreaterThan(40);
    expect(left).toBeLessThan(60);
  });

  it('what a project uses outlives what it does not', () => {
    const cache = new StatementCache(maxBytes);
    fill(cache, 'a', 10, 'hot');
    for (let n = 0; n < 1_000; n++) {
      cache.add('a', `once ${n}`, statement());
      count(cache, 'a', 10, 'hot');
    }
    expect(count(cache, 'a', 10, 'hot')).toBe(10);
  });

  it('makes room for more projects than it has entries', () => {
    const cache = new StatementCache(maxBytes);
    for (let n = 0; n < 1_000; n++) cache.add(`project ${n}`, 'select 1', statement());
    expect(cache.get('project 999', 'select 1')).toBeDefined();
    expect(cache.get('project 0', 'select 1')).toBeUndefined();
  });

  it('a project that went quiet gives way to one at work', () => {
    let now = 0;
    const cache = new StatementCache(maxBytes, () => now);
    fill(cache, 'quiet', 50);
    for (let minute = 0; minute < 20; minute++) {
      now += 61_000;
      fill(cache, 'busy', 95);
    }
    expect(count(cache, 'busy', 95)).toBe(95);
  });

  it('counts long texts as such', () => {
    const cache = new StatementCache(maxBytes);
    for (let n = 0; n < 100; n++) cache.add('a', `${n}${'x'.repeat(8_000)}`, statement());
    const known = Array.from({ length: 100 }, (_, n) => cache.get('a', `${n}${'x'.repeat(8_000)}`));
    expect(known.filter(Boolean)).toHaveLength(11);
  });
});

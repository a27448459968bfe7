import { describe, expect, it } from 'vitest';
import { AccountQueues, AccountTurns } from './account-turns.ts';

describe('it is the turn of the account', () => {
  it('of which the fewest run', () => {
    const turns = new AccountTurns();
    turns.begin('loud');
    turns.begin('loud');
    turns.begin('quiet');
    expect([turns.isBefore('quiet', 'loud'), turns.isBefore('loud', 'quiet')]).toEqual([true, false]);
    expect([turns.count('loud'), turns.count('quiet'), turns.count('new')]).toEqual([2, 1, 0]);
    for (const account of ['loud', 'loud', 'quiet']) turns.end(account);
    expect(turns.count('loud')).toBe(0);
  });

  it('whose last turn was longest ago, if as many run; one without a turn comes first', () => {
    const turns = new AccountTurns();
    for (const account of ['a', 'b', 'a']) {
      turns.begin(account);
      turns.end(account);
    }
    expect([turns.isBefore('b', 'a'), turns.isBefore('a', 'b')]).toEqual([true, false]);
    expect([turns.isBefore('new', 'b'), turns.isBefore('new', 'new')]).toEqual([true, false]);
  });
});

it('finds the first project of the account whose turn it is, however many projects another one has', () => {
  const turns = new AccountTurns();
  const queues = new AccountQueues<string>();
  for (let n = 0; n < 5; n++) queues.set('loud', `loud ${n}`, [`l${n}`]);
  queues.set('quiet', 'quiet 0', []);
  queues.set('quiet', 'quiet 1', ['q']);
  const served: string[] = [];
  for (let found = queues.next(turns); found; found = queues.next(turns)) {
    const { account, project, queue } = found;
    served.push(...queue.splice(0));
    turns.begin(account);
    turns.end(account);
    queues.delete(account, project);
  }
  expect(served).toEqual(['l0', 'q', 'l1', 'l2', 'l3', 'l4']);
  expect(queues.count()).toBe(0);
});

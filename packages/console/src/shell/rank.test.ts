import { expect, it } from 'vitest';
import { type Command, rankCommands } from './rank.ts';

const command = (label: string, words = ''): Command => ({
  key: label,
  label,
  words,
  kind: 'Table',
  icon: 'grid',
  run: () => {},
});
const labels = (search: string, ...names: string[]) =>
  rankCommands(
    names.map((name) => command(name)),
    search,
  ).map(({ label }) => label);

it('a prefix comes before a word, a word before a part, a part before letters in order', () => {
  expect(labels('or', 'o_x_r', 'authors', 'my orders', 'orders')).toEqual([
    'orders',
    'my orders',
    'authors',
    'o_x_r',
  ]);
});

it('what does not match is left out, and nothing typed leaves the order', () => {
  expect(labels('zz', 'a', 'b')).toEqual([]);
  expect(labels('', 'b', 'a')).toEqual(['b', 'a']);
});

it('finds a project by its slug', () => {
  expect(rankCommands([command('Tea Shop', 'tea-shop-2')], 'shop-2')).toHaveLength(1);
});

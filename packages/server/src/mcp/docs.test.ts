import { expect, it } from 'vitest';
import { indexOf, search, sectionsOf } from './docs.ts';

const index = indexOf(
  sectionsOf(
    `<!-- docs/teas.md -->
# Brewing
Brewing tea takes water.
## Storage
Keep tea dry. Storage matters, and storing well matters more.
\`\`\`
# no heading
\`\`\`
<!-- docs/cups.md -->
# Cups
A cup holds water.`,
  ),
);
const found = (query: string) => search(index, query).map(({ heading }) => heading);

it('a search finds sections by the beginnings of words, those in headings first', () => {
  expect(found('cup')).toEqual(['Cups']);
  expect(found('stor')).toEqual(['Storage']);
  expect(found('WATER brew')[0]).toBe('Brewing');
  expect(found('teas')).toEqual(['Brewing', 'Storage']);
  for (const nothing of ['', '!', 'zzzz', 'constructor']) expect(found(nothing)).toEqual([]);
});

it('a search uses the first words of a long query only, each once', () => {
  expect(found('cup '.repeat(50))).toEqual(['Cups']);
  const others = Array.from({ length: 12 }, (_, n) => `zz${n}`).join(' ');
  expect(found(`${others} cup`)).toEqual([]);
});

// 100,000 random inserts into some thousand random tables: none adds more than its bound.
import { expect, it } from 'vitest';
import { useTestService } from '../support/helpers.ts';
import { seed, seeded } from '../support/random.ts';
import { attackBounds } from './insert-attack.ts';
import { newSmallProject } from './small-projects.ts';

const rowhouse = useTestService();

it('100,000 random inserts into random tables add no more than their bounds', {
  timeout: 1_800_000,
}, async () => {
  const { id } = await newSmallProject(rowhouse, 4_000);
  const { tables, trusted, inserts, failed } = await attackBounds(id, seeded(seed + 1), {
    count: 100_000,
    perTable: 150,
  });
  expect(trusted).toBeGreaterThan(tables / 4);
  expect(failed).toBeLessThan(inserts / 3);
});

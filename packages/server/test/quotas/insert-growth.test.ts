// The bound of an insert against what random inserts really add. insert-growth.long.test.ts has 100,000 of them.
import { expect, it } from 'vitest';
import { useTestService } from '../support/helpers.ts';
import { seed, seeded } from '../support/random.ts';
import { attackBounds } from './insert-attack.ts';
import { newSmallProject } from './small-projects.ts';

const rowhouse = useTestService();

it('random inserts into random tables add no more than their bounds', async () => {
  const { id } = await newSmallProject(rowhouse, 4_000);
  const { tables, trusted, inserts, failed } = await attackBounds(id, seeded(seed), {
    count: 1_000,
    perTable: 50,
  });
  // Otherwise it would not compare much.
  expect(trusted).toBeGreaterThan(tables / 4);
  expect(failed).toBeLessThan(inserts / 3);
});

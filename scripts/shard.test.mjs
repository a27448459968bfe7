import { expect, it } from 'vitest';
import { chooseShard, readShard } from './shard.mjs';

const files = Array.from({ length: 60 }, (_, n) => `packages/server/test/room${n % 6}/t${n}.long.test.ts`);
const alone = 'packages/server/test/room0/slow.long.alone.test.ts';
const choose = (more) =>
  chooseShard({ files, seconds: {}, changed: [], importsOf: () => [], commit: 'a', ...more });

it('takes what has changed first, then what imports it, then its room', () => {
  const [itself, importing] = [files[7], files[20]];
  const chosen = choose({
    changed: [itself, 'packages/server/src/room3/x.ts', 'packages/server/src/keys/y.ts'],
    importsOf: (file) => (file === importing ? ['packages/server/src/keys/y.ts'] : []),
  });
  expect(chosen.slice(0, 2)).toEqual([itself, importing]);
  expect(chosen[2]).toContain('/room3/');
});

it('leaves time for others, however much has changed', () => {
  const changed = files.slice(0, 50);
  const chosen = choose({ changed });
  expect(chosen.filter((file) => changed.includes(file)).length).toBeGreaterThan(10);
  expect(chosen.length).toBeGreaterThan(chosen.filter((file) => changed.includes(file)).length);
});

it('runs each file within some commits', () => {
  const left = new Set([...files, alone]);
  for (let commit = 0; left.size > 0 && commit < 40; commit++)
    for (const file of choose({
      files: [...files, alone],
      commit: String(commit),
      seconds: { [alone]: 3_600 },
    }))
      left.delete(file);
  expect([...left].filter((file) => file !== alone)).toEqual([]);
});

it('fits its time, and takes a file that is longer than it when that comes first', () => {
  const costs = (chosen) => chosen.reduce((sum, file) => sum + (file === alone ? 500 : 48), 0);
  const chosen = choose({ files: [...files, alone], seconds: { [alone]: 500 }, changed: [alone] });
  expect(chosen[0]).toBe(alone);
  expect(costs(chosen)).toBeLessThanOrEqual(18 * 60);
  expect(choose({ files: [alone], seconds: { [alone]: 9_000 } })).toEqual([alone]);
});

it('finds long tests in this checkout, whole files and those with long tests', () => {
  const { chosen, all } = readShard();
  expect(chosen.length).toBeGreaterThan(3);
  expect(all).toEqual(expect.arrayContaining(chosen));
  expect(all.some((file) => /\.long\.test\./.test(file))).toBe(true);
  expect(all).toContain('packages/cli/test/cli.test.ts');
  expect(all).toContain('packages/console/test/console.test.ts');
  expect(all).not.toContain('scripts/check-imports.test.mjs');
});

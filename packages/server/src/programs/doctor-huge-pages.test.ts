import { expect, it } from 'vitest';
import { checkHugePages, judgeHugePages } from './doctor-huge-pages.ts';

const meminfo = (total: number, sizeKb = 2048) =>
  `MemTotal:       24684134 kB\nHugePages_Total:    ${total}\nHugePages_Free:        0\nHugepagesize:       ${sizeKb} kB\n`;

it('asks for huge pages from a thousand databases on, and tells how many are needed', () => {
  expect(judgeHugePages(999, 2560, meminfo(0))).toEqual([]);
  const [check] = judgeHugePages(1_000, 2560, meminfo(0));
  expect(check).toMatchObject({ check: 'huge pages', state: 'warning' });
  expect(check?.todo).toContain('sysctl -w vm.nr_hugepages=1280.');
});

it('reports success if enough are reserved, and warns about fewer', () => {
  expect(judgeHugePages(3_000, 2560, meminfo(1_280))).toEqual([
    { check: 'huge pages', state: 'ok', found: '1280 reserved; PostgreSQL uses them from its next start on' },
  ]);
  expect(judgeHugePages(3_000, 2560, meminfo(1_279))[0]?.state).toBe('warning');
  expect(judgeHugePages(3_000, 2560, meminfo(3, 1_048_576))[0]?.state).toBe('ok');
});

it('says nothing on a kernel without huge pages, and before there is a cluster', () => {
  expect(judgeHugePages(3_000, 2560, 'MemTotal:       24684134 kB\n')).toEqual([]);
  expect(checkHugePages({ config: { keptConnections: null }, cluster: '/nonexistent' })).toEqual([]);
});

import { expect, it } from 'vitest';
import { detailsText, readFilters, toQuery } from './audit-filters.ts';

it('takes known filters out of the address, and leaves out what the service would refuse', () => {
  const address = 'actor=ada%40example.com&outcome=nonsense&from=yesterday&action=%20&other=1';
  expect(readFilters(new URLSearchParams(address))).toEqual({ actor: 'ada@example.com' });
  const times = readFilters(new URLSearchParams('from=2026-01-02T03:04&outcome=done'));
  expect(toQuery(times)).toEqual({ outcome: 'done', from: new Date('2026-01-02T03:04').toISOString() });
});

it('writes the fields of a request in one line', () => {
  expect(detailsText({ role: 'viewer', projects: ['shop'], max_projects: null })).toBe(
    'role: viewer, projects: ["shop"], max_projects: null',
  );
  expect(detailsText(null)).toBe('');
});

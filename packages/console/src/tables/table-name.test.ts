import { describe, expect, it } from 'vitest';
import { tableInAddress } from './table-name.ts';

describe('the table that an address names', () => {
  it.each(['teas', 'a=b', 'a/b', 'a?b#c&d', 'a%b', 'a%3Db', 'other.teas', '<b>', 'Größe'])('%s', (name) => {
    const at = `/console/projects/shop/tables/${encodeURIComponent(name)}`;
    expect(tableInAddress(at)).toBe(name);
  });

  it('takes what cannot be decoded as it is', () => {
    expect(tableInAddress('/console/projects/shop/tables/100%')).toBe('100%');
  });
});

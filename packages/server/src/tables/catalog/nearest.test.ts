import { expect, it } from 'vitest';
import { nearestName } from './nearest.ts';

it('finds what was meant', () => {
  const names = ['orders', 'order_items', 'customers', 'id', 'naïve'];
  expect(nearestName('order', names)).toBe('orders');
  expect(nearestName('ordres', names)).toBe('orders');
  expect(nearestName('ORDERS', names)).toBe('orders');
  expect(nearestName('cutsomers', names)).toBe('customers');
  expect(nearestName('ids', names)).toBe('id');
  expect(nearestName('naive', names)).toBe('naïve');
});

it('suggests nothing far off, and gives up on the absurd', () => {
  expect(nearestName('zebra', ['orders', 'id'])).toBeNull();
  expect(nearestName('x', [])).toBeNull();
  expect(nearestName('x'.repeat(100_000), ['x'])).toBeNull();
  expect(nearestName('orders', ['x'.repeat(100_000)])).toBeNull();
  expect(nearestName('__proto__', ['id'])).toBeNull();
});

it('takes no time that others would notice, however alike and many the names are', () => {
  const names = Array.from({ length: 5_000 }, (_, n) => `${'a'.repeat(56)}${String(n).padStart(5, '0')}b`);
  // CPU time instead of wall time, and the best of three: other processes may be running.
  const tries = [1, 2, 3].map(() => {
    const before = process.cpuUsage();
    expect(nearestName(`${'a'.repeat(56)}zzzzzb`, names)).toBeNull();
    return process.cpuUsage(before).user;
  });
  expect(Math.min(...tries)).toBeLessThan(250_000);
  expect(nearestName(`${'a'.repeat(55)}00077b`, names)).toBe(names[77]);
});

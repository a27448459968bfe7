import { describe, expect, it } from 'vitest';
import { isAddress, networkOf } from './rate-limits.ts';

describe('what counts as one address', () => {
  it('is an IPv4 address, and a /64 of IPv6, however they are written', () => {
    expect(networkOf('192.0.2.7')).toBe('192.0.2.7');
    expect(networkOf('::ffff:192.0.2.7')).toBe('192.0.2.7');
    for (const same of ['2001:db8::1', '2001:db8:0:0:ffff::', '2001:0DB8:0000::9', '2001:db8::1%eth0'])
      expect(networkOf(same), same).toBe('2001:db8:0:0::/64');
    expect(networkOf('2001:db8:0:1::1')).not.toBe(networkOf('2001:db8::1'));
  });

  it('is one address, not a list, a name or a part of one', () => {
    for (const good of ['192.0.2.7', '192.0.2.7:80', '2001:db8::1', '[2001:db8::1]:443', '::ffff:192.0.2.7'])
      expect(isAddress(good), good).toBe(true);
    for (const bad of [
      '',
      ' ',
      'localhost',
      '192.0.2',
      '192.0.2.256',
      '192.0.2.7, 192.0.2.8',
      '192.0.2.7/24',
      '[x]',
      '::g',
    ])
      expect(isAddress(bad), bad).toBe(false);
  });

  it('has no port', () => {
    for (const port of [1, 443, 65_535]) {
      expect(networkOf(`192.0.2.7:${port}`)).toBe('192.0.2.7');
      expect(networkOf(`[2001:db8::1]:${port}`)).toBe('2001:db8:0:0::/64');
    }
    expect(networkOf('[2001:db8::1]')).toBe('2001:db8:0:0::/64');
  });
});

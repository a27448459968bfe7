import { describe, expect, it } from 'vitest';
import { addressBytes, isAddress, isLoopback, isRange, networkOf, plainAddress } from './networks.ts';

describe('what counts as one address', () => {
  it('is an IPv4 address, and a /64 of IPv6, however they are written', () => {
    expect(networkOf('192.0.2.7')).toBe('192.0.2.7');
    expect(networkOf('::ffff:192.0.2.7')).toBe('192.0.2.7');
    for (const same of ['2001:db8::1', '2001:db8:0:0:ffff::', '2001:0DB8:0000::9', '2001:db8::1%eth0'])
      expect(networkOf(same), same).toBe('2001:db8:0:0::/64');
    expect(networkOf('2001:db8:0:1::1')).not.toBe(networkOf('2001:db8::1'));
    expect(networkOf('2001:db8:1:2:3:4:5:6')).toBe('2001:db8:1:2::/64');
    expect(networkOf('::1')).toBe('0:0:0:0::/64');
    expect(networkOf('fe80::1%br-0.100')).toBe('fe80:0:0:0::/64');
    expect(networkOf('')).toBe('');
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

it('recognizes loopback addresses', () => {
  expect(plainAddress('::ffff:127.0.0.2')).toBe('127.0.0.2');
  expect(['127.0.0.1', '127.9.9.9', '::1', 'localhost'].map(isLoopback)).toEqual([true, true, true, true]);
  expect(['10.0.0.1', '::2', '127.example.com', ''].map(isLoopback)).toEqual([false, false, false, false]);
});

it('writes an address as bytes', () => {
  expect([...addressBytes('192.0.2.7')]).toEqual([192, 0, 2, 7]);
  expect(addressBytes('2001:db8::1%eth0').toString('hex')).toBe('20010db8000000000000000000000001');
  expect(addressBytes('::ffff:192.0.2.7').toString('hex')).toBe('00000000000000000000ffffc0000207');
});

it('takes an address or a range for a range, and no range that contains everybody', () => {
  for (const good of ['192.0.2.7', '10.0.0.0/8', '2001:db8::1', 'fd00::/8', '10.0.0.1/32', '::/128'])
    expect(isRange(good), good).toBe(true);
  for (const bad of [
    '',
    '0.0.0.0/0',
    '::/0',
    '10.0.0.0/33',
    '::/129',
    '10.0.0/8',
    'loopback',
    'fe80::1%eth0',
  ])
    expect(isRange(bad), bad).toBe(false);
});

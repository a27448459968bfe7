import { describe, expect, it } from 'vitest';
import { seal, unseal } from '../control/seal.ts';
import { hashKey, isKeyId, looksLikeKey, makeKey, newKeyId, readKeyPrefix, startOf } from './form.ts';

describe('keys', () => {
  it('have their form, and no two are the same', () => {
    const keys = Array.from({ length: 500 }, () => makeKey('rh_proj_'));
    for (const key of keys) expect(key).toMatch(/^rh_proj_[0-9A-Za-z]{49}$/);
    expect(new Set(keys).size).toBe(500);
    expect(readKeyPrefix(makeKey('rh_pub_'))).toBe('rh_pub_');
  });

  it('any single wrong character is noticed', () => {
    const key = makeKey('rh_acct_');
    for (let at = 0; at < key.length; at++) {
      const wrong = key.slice(0, at) + (key[at] === 'A' ? 'B' : 'A') + key.slice(at + 1);
      expect(readKeyPrefix(wrong)).toBeNull();
    }
    for (const other of [
      '',
      'x',
      key.slice(1),
      `${key}0`,
      key.slice(0, -1),
      key.replace('acct', 'proj'),
      `${key}\n`,
    ]) {
      expect(readKeyPrefix(other)).toBeNull();
    }
    expect(looksLikeKey('rh_proj_typo')).toBe(true);
    expect(looksLikeKey('sk_live_x')).toBe(false);
  });

  it('show only their beginning, and hash to 32 bytes', () => {
    const key = makeKey('rh_acct_');
    expect(startOf(key)).toBe(key.slice(0, 12));
    expect(hashKey(key).length).toBe(32);
    expect(isKeyId(newKeyId())).toBe(true);
  });
});

describe('seals', () => {
  const master = Buffer.alloc(32, 7);

  it('open with the right master key and name only', () => {
    const sealed = seal(master, 'secret', 'key_1');
    expect(sealed.includes('secret')).toBe(false);
    expect(unseal(master, sealed, 'key_1')).toBe('secret');
    expect(() => unseal(master, sealed, 'key_2')).toThrow();
    expect(() => unseal(Buffer.alloc(32, 8), sealed, 'key_1')).toThrow();
    sealed[sealed.length - 1] = (sealed.at(-1) ?? 0) ^ 1;
    expect(() => unseal(master, sealed, 'key_1')).toThrow();
    expect(seal(master, 'secret', 'key_1').equals(seal(master, 'secret', 'key_1'))).toBe(false);
  });
});

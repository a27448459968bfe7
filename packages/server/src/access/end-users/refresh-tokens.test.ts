import { randomBytes, randomUUID } from 'node:crypto';
import { expect, it } from 'vitest';
import { hashRefreshToken, makeRefreshToken, readRefreshToken, refreshTokenKey } from './refresh-tokens.ts';

const masterKey = randomBytes(32);
const key = refreshTokenKey(masterKey);
const project = randomUUID();
const token = { sessionId: randomUUID(), generation: 1 };

it('are read as they were made, whatever the session and the generation', () => {
  for (const generation of [0, 1, 2, 255, 65_536, 2 ** 32, 2 ** 48 - 1]) {
    for (const sessionId of [randomUUID(), '00000000-0000-0000-0000-000000000000']) {
      const text = makeRefreshToken(key, project, { sessionId, generation });
      expect(text).toMatch(/^rh_ref_[\w-]{72}$/);
      expect(readRefreshToken(key, project, text)).toEqual({ sessionId, generation });
    }
  }
});

it('are the same when made again, also after a restart, and differ from each other', () => {
  const again = refreshTokenKey(Buffer.from(masterKey));
  expect(makeRefreshToken(again, project, token)).toBe(makeRefreshToken(key, project, token));
  const others = [
    makeRefreshToken(key, project, token),
    makeRefreshToken(key, project, { ...token, generation: 2 }),
    makeRefreshToken(key, project, { ...token, sessionId: randomUUID() }),
    makeRefreshToken(key, randomUUID(), token),
    makeRefreshToken(refreshTokenKey(randomBytes(32)), project, token),
  ];
  expect(new Set(others.map((text) => text.slice(-43))).size).toBe(others.length);
  expect(new Set(others.map((text) => hashRefreshToken(text).toString('hex'))).size).toBe(others.length);
  expect(hashRefreshToken(others[0] ?? '').length).toBe(32);
});

it('are forged with another key, the master key itself, or for another project', () => {
  const text = makeRefreshToken(key, project, token);
  expect(readRefreshToken(refreshTokenKey(randomBytes(32)), project, text)).toBeNull();
  expect(readRefreshToken(key, randomUUID(), text)).toBeNull();
  expect(readRefreshToken(key, '', text)).toBeNull();
  expect(readRefreshToken(key, project, makeRefreshToken(masterKey, project, token))).toBeNull();
});

it('of the next generation cannot be made out of the present one', () => {
  const bytes = Buffer.from(makeRefreshToken(key, project, token).slice(7), 'base64url');
  bytes.writeUIntBE(2, 16, 6);
  expect(readRefreshToken(key, project, `rh_ref_${bytes.toString('base64url')}`)).toBeNull();
});

it('any single wrong character is noticed, and anything that is no token', () => {
  const text = makeRefreshToken(key, project, token);
  for (let at = 0; at < text.length; at++) {
    for (const character of 'ABab01-_.= \n\0é') {
      const other = text.slice(0, at) + character + text.slice(at + 1);
      if (other !== text) expect(readRefreshToken(key, project, other), other).toBeNull();
    }
  }
  const spellings = [`${text}=`, `${text}A`, `${text}\n`, ` ${text}`, text.slice(0, -1), text.slice(7), ''];
  const others = [
    'rh_ref_',
    `rh_ref_${'A'.repeat(72)}`,
    text.replace('rh_ref_', 'rh_code_'),
    'x'.repeat(10_000_000),
  ];
  for (const other of [...spellings, ...others]) expect(readRefreshToken(key, project, other)).toBeNull();
});

it('are not made for what they could not hold', () => {
  for (const generation of [-1, 2 ** 48, Number.NaN, Number.POSITIVE_INFINITY, 1.5]) {
    expect(() => makeRefreshToken(key, project, { ...token, generation }), String(generation)).toThrow();
  }
  for (const sessionId of ['', 'x', token.sessionId.toUpperCase(), `${token.sessionId}0`, '../../x']) {
    expect(() => makeRefreshToken(key, project, { ...token, sessionId })).toThrow();
  }
});

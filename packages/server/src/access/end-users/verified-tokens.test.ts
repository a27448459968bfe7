import { randomUUID } from 'node:crypto';
import { beforeEach, expect, it } from 'vitest';
import type { SigningKey } from '../../keys/signing-keys.ts';
import { type Claims, issuerOf, signToken } from './access-tokens.ts';
import { openVerifiedTokens, type VerifiedTokens } from './verified-tokens.ts';

const shop = { projectId: 'p1', slug: 'shop' };
const key: SigningKey = { id: 'k1', secret: 'rh_proj_one', expiresAt: null };
let now: number;
/** null: they are not cached. */
let keys: readonly SigningKey[] | null;
let tokens: VerifiedTokens;
beforeEach(() => {
  now = 1_800_000_000_000;
  keys = [key];
  const ring = { signingKeys: async () => keys ?? [], recallSigningKeys: () => keys };
  tokens = openVerifiedTokens(ring, () => now);
});

function claims(more: Partial<Claims> = {}): Claims {
  const iat = Math.floor(now / 1000);
  const who = { sub: randomUUID(), email: 'ann@example.com', role: 'authenticated', sid: randomUUID() };
  return { ...who, iss: issuerOf(shop.slug), iat, exp: iat + 3600, ...more };
}

it('a token is known once it was verified, with its user', async () => {
  const made = claims();
  const token = signToken(key, made);
  expect(tokens.recall(shop, token)).toBeNull();
  const { user } = await tokens.verify(shop, token);
  expect(user).toMatchObject({ role: 'authenticated', sessionId: made.sid, userId: made.sub });
  expect(JSON.parse(user.claims)).toEqual(made);
  expect(tokens.recall(shop, token)?.user).toBe(user);
  expect(tokens.recall(shop, token)?.claims).toEqual(made);
});

it('a token that differs in one character is not known and not valid, wherever it differs', async () => {
  const token = signToken(key, claims());
  await tokens.verify(shop, token);
  for (let at = 0; at < token.length; at++) {
    const other = token.slice(0, at) + (token[at] === 'A' ? 'B' : 'A') + token.slice(at + 1);
    expect(tokens.recall(shop, other), String(at)).toBeNull();
    await expect(tokens.verify(shop, other), String(at)).rejects.toMatchObject({ code: 'invalid_token' });
  }
  for (const other of [`${token} `, `${token}A`, token.slice(0, -1), token.toUpperCase()])
    expect(tokens.recall(shop, other)).toBeNull();
});

it('a known token is valid for its project only', async () => {
  const token = signToken(key, claims());
  await tokens.verify(shop, token);
  for (const owner of [
    { ...shop, projectId: 'p2' },
    { ...shop, slug: 'other' },
  ])
    expect(tokens.recall(owner, token)).toBeNull();
  await expect(tokens.verify({ ...shop, slug: 'other' }, token)).rejects.toMatchObject({
    code: 'invalid_token',
  });
});

it('a known token ends when it expires', async () => {
  const token = signToken(key, claims());
  await tokens.verify(shop, token);
  now += 3_599_999;
  expect(tokens.recall(shop, token)).not.toBeNull();
  now += 1;
  expect(tokens.recall(shop, token)).toBeNull();
  await expect(tokens.verify(shop, token)).rejects.toMatchObject({ code: 'invalid_token' });
});

it('a known token ends with the key that signed it', async () => {
  const token = signToken(key, claims());
  await tokens.verify(shop, token);
  const changes: (readonly SigningKey[] | null)[] = [
    [],
    [{ ...key, id: 'k2' }],
    [{ ...key, secret: 'rh_proj_two' }],
    [{ ...key, expiresAt: now }],
  ];
  for (keys of changes) {
    expect(tokens.recall(shop, token)).toBeNull();
    await expect(tokens.verify(shop, token)).rejects.toMatchObject({ code: 'invalid_token' });
  }
  // Whether it is still valid has to be looked up.
  keys = null;
  expect(tokens.recall(shop, token)).toBeNull();
  // Rotated, and still in its grace period.
  keys = [
    { ...key, id: 'k2', secret: 'rh_proj_two' },
    { ...key, expiresAt: now + 1_000 },
  ];
  expect(tokens.recall(shop, token)).not.toBeNull();
});

it('a token that was refused is not kept', async () => {
  const token = signToken({ id: 'k1', secret: 'rh_proj_wrong' }, claims());
  for (let n = 0; n < 2; n++)
    await expect(tokens.verify(shop, token)).rejects.toMatchObject({ code: 'invalid_token' });
  expect(tokens.recall(shop, token)).toBeNull();
});

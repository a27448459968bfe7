// Encrypts secrets that must be stored, with AES-256-GCM and a key derived from the master key: project keys, which
// sign and verify users' tokens, responses that may have to be sent again (idempotency), addresses of further servers, second
// factors of people, and what a page keeps between two steps of a sign-in.
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';

/** Each purpose has its own key: a value sealed for one cannot be opened for another. */
export type Purpose =
  | 'project keys'
  | 'kept answers'
  | 'server addresses'
  | 'second factors'
  | 'sign-in flows';

/** `boundTo` (the key's id) is authenticated too: a sealed value that was moved to another row does not open. */
export function seal(masterKey: Buffer, plain: string, boundTo: string): Buffer {
  return sealBytes(masterKey, 'project keys', Buffer.from(plain), boundTo);
}

export function unseal(masterKey: Buffer, sealed: Buffer, boundTo: string): string {
  return unsealBytes(masterKey, 'project keys', sealed, boundTo).toString('utf8');
}

export function sealBytes(masterKey: Buffer, purpose: Purpose, plain: Buffer, boundTo: string): Buffer {
  const nonce = randomBytes(12);
  const cipher = createCipheriv('aes-256-gcm', sealingKey(masterKey, purpose), nonce);
  cipher.setAAD(Buffer.from(boundTo));
  const sealed = Buffer.concat([cipher.update(plain), cipher.final()]);
  return Buffer.concat([nonce, cipher.getAuthTag(), sealed]);
}

export function unsealBytes(masterKey: Buffer, purpose: Purpose, sealed: Buffer, boundTo: string): Buffer {
  const decipher = createDecipheriv('aes-256-gcm', sealingKey(masterKey, purpose), sealed.subarray(0, 12));
  decipher.setAAD(Buffer.from(boundTo));
  decipher.setAuthTag(sealed.subarray(12, 28));
  return Buffer.concat([decipher.update(sealed.subarray(28)), decipher.final()]);
}

const sealingKeys = new WeakMap<Buffer, Map<Purpose, Buffer>>();

/** Deriving it takes longer than sealing a small response. */
function sealingKey(masterKey: Buffer, purpose: Purpose): Buffer {
  const known = sealingKeys.get(masterKey) ?? new Map<Purpose, Buffer>();
  sealingKeys.set(masterKey, known);
  const key = known.get(purpose) ?? Buffer.from(hkdfSync('sha256', masterKey, '', `rowhouse ${purpose}`, 32));
  known.set(purpose, key);
  return key;
}

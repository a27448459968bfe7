// What is kept although it is secret, under AES-256-GCM with the master key: project keys, which sign and verify users'
// tokens, and answers that may have to be given again.
import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes } from 'node:crypto';

/** What is sealed for one purpose does not open for another. */
type Purpose = 'project keys' | 'kept answers';

/** `boundTo` (the key's id) is part of the seal: a sealed value moved to another row does not open. */
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

/** Tells whether a master key is the one this installation began with, and tells nothing else. */
export function masterKeyCheck(masterKey: Buffer): string {
  return createHmac('sha256', masterKey).update('rowhouse master key check').digest('hex');
}

function sealingKey(masterKey: Buffer, purpose: Purpose): Buffer {
  return Buffer.from(hkdfSync('sha256', masterKey, '', `rowhouse ${purpose}`, 32));
}

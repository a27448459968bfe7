// Project keys are kept so that they can sign and verify users' tokens: under AES-256-GCM with the master key.
import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes } from 'node:crypto';

/** `boundTo` (the key's id) is part of the seal: a sealed value moved to another row does not open. */
export function seal(masterKey: Buffer, plain: string, boundTo: string): Buffer {
  const nonce = randomBytes(12);
  const cipher = createCipheriv('aes-256-gcm', sealingKey(masterKey), nonce);
  cipher.setAAD(Buffer.from(boundTo));
  const sealed = Buffer.concat([cipher.update(plain, 'utf8'), cipher.final()]);
  return Buffer.concat([nonce, cipher.getAuthTag(), sealed]);
}

export function unseal(masterKey: Buffer, sealed: Buffer, boundTo: string): string {
  const decipher = createDecipheriv('aes-256-gcm', sealingKey(masterKey), sealed.subarray(0, 12));
  decipher.setAAD(Buffer.from(boundTo));
  decipher.setAuthTag(sealed.subarray(12, 28));
  return Buffer.concat([decipher.update(sealed.subarray(28)), decipher.final()]).toString('utf8');
}

/** Tells whether a master key is the one this installation began with, and tells nothing else. */
export function masterKeyCheck(masterKey: Buffer): string {
  return createHmac('sha256', masterKey).update('rowhouse master key check').digest('hex');
}

function sealingKey(masterKey: Buffer): Buffer {
  return Buffer.from(hkdfSync('sha256', masterKey, '', 'rowhouse project keys', 32));
}

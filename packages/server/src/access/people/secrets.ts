// The secrets of the console: both halves of a session, links that sign in once, invitations, and codes that prove an address.
// Each has a prefix, by which the log and secret scanners recognize it. Only hashes are stored.
import { createHash, randomBytes } from 'node:crypto';

export type SecretKind = 'cookie' | 'token' | 'link' | 'invite' | 'recover' | 'email';

export function newSecret(kind: SecretKind): string {
  return `rh_${kind}_${randomBytes(32).toString('base64url')}`;
}

/** 256 random bits need no salt and no slow hash. null: the text cannot be such a secret, so that no look-up is needed. */
export function hashSecret(kind: SecretKind, text: string): Buffer | null {
  const [, found] = /^rh_([a-z]+)_[\w-]{43}$/.exec(text) ?? [];
  return found === kind ? createHash('sha256').update(text).digest() : null;
}

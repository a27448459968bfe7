// The format of tokens for acting as an end user. Not a JWT: nothing that verifies the tokens of users accepts one.
import { createHash, randomBytes } from 'node:crypto';

const prefix = 'rh_act_';

export function makeActingToken(): string {
  return prefix + randomBytes(32).toString('base64url');
}

/** Checks the format only. */
export function isActingToken(text: string): boolean {
  return /^rh_act_[\w-]{43}$/.test(text);
}

/** 256 random bits need no salt and no slow hash. */
export function hashActingToken(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}

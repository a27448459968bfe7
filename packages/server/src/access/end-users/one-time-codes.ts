// The format of one-time codes, which prove control of an e-mail address. They are long, because a guessed code gives
// access to the account; only their hash is stored.
import { createHash, randomInt } from 'node:crypto';

const digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
/** 32 base-62 digits: 190 random bits. */
const length = 32;

export function makeCode(): string {
  return `rh_code_${Array.from({ length }, () => digits.charAt(randomInt(digits.length))).join('')}`;
}

/** Checks the format only, not whether the code exists. */
export function isCode(text: string): boolean {
  return /^rh_code_[0-9A-Za-z]{32}$/.test(text);
}

/** 190 random bits need no salt and no slow hash. */
export function hashCode(code: string): Buffer {
  return createHash('sha256').update(code).digest();
}

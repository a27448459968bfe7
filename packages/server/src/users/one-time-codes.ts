// One-time codes that prove who reads an e-mail address. Long, because whoever guesses one has the account; only a hash of
// them is kept.
import { createHash, randomInt } from 'node:crypto';

const digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
/** Of 62 digits: 190 random bits. */
const length = 32;

export function makeCode(): string {
  return `rh_code_${Array.from({ length }, () => digits.charAt(randomInt(digits.length))).join('')}`;
}

/** Has it the form of one? Says nothing about whether it exists. */
export function isCode(text: string): boolean {
  return /^rh_code_[0-9A-Za-z]{32}$/.test(text);
}

/** 190 random bits need no salt and no slow hash. */
export function hashCode(code: string): Buffer {
  return createHash('sha256').update(code).digest();
}

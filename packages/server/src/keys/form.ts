// The format of API keys: a prefix, 32 random bytes and a checksum, so that a mistyped key is refused without a look-up
// and secret scanners can find a leaked one.
import { createHash, randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';

export type KeyPrefix = 'rh_acct_' | 'rh_proj_' | 'rh_pub_' | 'rh_oper_';

const digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const form = /^(rh_acct_|rh_proj_|rh_pub_|rh_oper_)([0-9A-Za-z]{43})([0-9A-Za-z]{6})$/;

export function makeKey(prefix: KeyPrefix): string {
  const body = prefix + base62(BigInt(`0x${randomBytes(32).toString('hex')}`), 43);
  return body + checksum(body);
}

/** The prefix of a well-formed key, or null. Checks the format only, not whether the key exists. */
export function readKeyPrefix(text: string): KeyPrefix | null {
  const [, prefix, random, sum] = form.exec(text) ?? [];
  return prefix && checksum(prefix + random) === sum ? (prefix as KeyPrefix) : null;
}

/** Whether the text was probably meant to be a key; for a better error message. */
export function looksLikeKey(text: string): boolean {
  return /^rh_(acct|proj|pub|oper)_/.test(text);
}

/** 256 random bits need no salt and no slow hash. */
export function hashKey(key: string): Buffer {
  return createHash('sha256').update(key).digest();
}

/** The beginning of a key: enough to recognize it, far too little to guess it. */
export function startOf(key: string): string {
  return key.slice(0, key.lastIndexOf('_') + 5);
}

export function newKeyId(): string {
  return `key_${base62(BigInt(`0x${randomBytes(12).toString('hex')}`), 17)}`;
}

export function isKeyId(text: string): boolean {
  return /^key_[0-9A-Za-z]{17}$/.test(text);
}

function checksum(text: string): string {
  return base62(BigInt(crc32(text)), 6);
}

function base62(value: bigint, width: number): string {
  let text = '';
  for (let rest = value; rest > 0n; rest /= 62n) text = digits.charAt(Number(rest % 62n)) + text;
  return text.padStart(width, '0');
}

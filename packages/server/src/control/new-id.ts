// The ids of projects and jobs.
import { randomBytes } from 'node:crypto';

/** 16 characters of a-z0-9: 82 random bits, valid in database and role names without quoting. */
export function newId(): string {
  return Array.from(randomBytes(16), (byte) => 'abcdefghijklmnopqrstuvwxyz0123456789'[byte % 36]).join('');
}

export function isId(text: string): boolean {
  return /^[a-z0-9]{16}$/.test(text);
}

// What a password may be, and how the hash of one is written down.
import { settings } from '@rowhouse/api/settings';
import { errors } from '../errors.ts';

export type PasswordHash = Readonly<{ iterations: number; salt: Buffer; hash: Buffer }>;

export const saltBytes = 16;
export const hashBytes = 32;
const minBytes = 8;
const maxBytes = 1_024;
/**
 * The rounds of PBKDF2 are a setting: its declaration holds the default for new hashes and the bounds. A stored hash with
 * more rounds than the maximum would delay all other sign-ins.
 */
const { max: maxIterations } = settings.ROWHOUSE_PASSWORD_ITERATIONS;
const form = /^\$pbkdf2-sha256\$i=([1-9]\d{0,7})\$([A-Za-z0-9+/]{22})\$([A-Za-z0-9+/]{43})$/;

/** One that is to be kept. */
export function checkPassword(password: string, path = 'password'): void {
  checkGiven(password, path);
  if (Buffer.byteLength(password) < minBytes) throw wrongLength(path);
}

/** One that is compared with what is kept: a short one is wrong like any other, what cannot be kept is not hashed. */
export function checkGiven(password: string, path = 'password'): void {
  const refuse = (problem: string) => errors.invalidRequest([{ path, problem }]);
  // A unit is at least one byte: a long text is not even looked through.
  if (password.length > maxBytes || Buffer.byteLength(password) > maxBytes) throw wrongLength(path);
  if (!password.isWellFormed()) throw refuse('holds half a character (a lone surrogate)');
  // HMAC fills up its key with zeros: "x" and "x\0" would be the same password.
  if (password.includes('\0')) throw refuse('must not hold a NUL character');
}

function wrongLength(path: string) {
  return errors.invalidRequest([{ path, problem: 'must have 8 to 1,024 bytes as UTF-8' }]);
}

export function formatHash({ iterations, salt, hash }: PasswordHash): string {
  return `$pbkdf2-sha256$i=${iterations}$${base64(salt)}$${base64(hash)}`;
}

/** null: not as formatHash writes it, to the last bit. */
export function parseHash(text: string): PasswordHash | null {
  const [, iterations, salt, hash] = form.exec(text) ?? [];
  if (!iterations || !salt || !hash) return null;
  const parsed = {
    iterations: Number(iterations),
    salt: Buffer.from(salt, 'base64'),
    hash: Buffer.from(hash, 'base64'),
  };
  // The last digit of each has bits that mean nothing.
  return parsed.iterations <= maxIterations && formatHash(parsed) === text ? parsed : null;
}

function base64(bytes: Buffer): string {
  return bytes.toString('base64').replaceAll('=', '');
}

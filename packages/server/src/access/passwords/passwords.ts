// Which passwords are allowed, and the text format of a stored hash: $pbkdf2-sha256$i=<rounds>$<salt>$<hash>. The
// rounds of new hashes come from ROWHOUSE_PASSWORD_ITERATIONS; hashing.ts applies them. Imports also bring hashes of bcrypt. They are
// verified, and replaced at the first sign-in.
import { errors } from '../../errors/errors.ts';
import { hashIterations, maxPasswordBytes, minPasswordBytes } from '../../settings/limits/passwords.ts';

export type PasswordHash = Readonly<{ iterations: number; salt: Buffer; hash: Buffer }>;

/** `setting`: version, cost and salt. */
export type BcryptHash = Readonly<{ setting: string; hash: Buffer }>;

export const saltBytes = 16;
export const hashBytes = 32;
const form = /^\$pbkdf2-sha256\$i=([1-9]\d{0,7})\$([A-Za-z0-9+/]{22})\$([A-Za-z0-9+/]{43})$/;

/** Checks a password that is to be stored. */
export function checkPassword(password: string, path = 'password'): void {
  checkGiven(password, path);
  if (Buffer.byteLength(password) < minPasswordBytes) throw wrongLength(path);
}

/** Checks a password that is to be verified: a short one is just wrong; one that could not be stored is not hashed. */
export function checkGiven(password: string, path = 'password'): void {
  const refuse = (problem: string) => errors.invalidRequest([{ path, problem }]);
  // A UTF-16 unit is at least one byte, so a long text is rejected without iterating over it.
  if (password.length > maxPasswordBytes || Buffer.byteLength(password) > maxPasswordBytes)
    throw wrongLength(path);
  if (!password.isWellFormed()) throw refuse('must not contain an unpaired surrogate');
  // HMAC pads its key with zeros: "x" and "x\0" would be the same password.
  if (password.includes('\0')) throw refuse('must not contain a NUL character');
}

function wrongLength(path: string) {
  return errors.invalidRequest([{ path, problem: 'must be 8 to 1,024 bytes long in UTF-8' }]);
}

export function formatHash({ iterations, salt, hash }: PasswordHash): string {
  return `$pbkdf2-sha256$i=${iterations}$${base64(salt)}$${base64(hash)}`;
}

/** null: not exactly what formatHash writes. */
export function parseHash(text: string): PasswordHash | null {
  const [, iterations, salt, hash] = form.exec(text) ?? [];
  if (!iterations || !salt || !hash) return null;
  const parsed = {
    iterations: Number(iterations),
    salt: Buffer.from(salt, 'base64'),
    hash: Buffer.from(hash, 'base64'),
  };
  // The last base64 digit of salt and hash has unused bits.
  return parsed.iterations <= hashIterations.max && formatHash(parsed) === text ? parsed : null;
}

const bcryptForm = /^(\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{22})([./A-Za-z0-9]{31})$/;
/**
 * Each step doubles the time: 10, which Supabase uses, took 0.08 s, 12 took 0.3 s, and 14 took 1.3 s, when 600,000 iterations
 * of PBKDF2 took 0.16 s. All hashes of bcrypt share one thread, and a sign-in waits at most two seconds for its turn.
 */
const bcryptCost = { min: 4, max: 12 };

/** null: not a hash of bcrypt, or one that takes too long. */
export function parseBcrypt(text: string): BcryptHash | null {
  const [, setting, cost, hash] = bcryptForm.exec(text) ?? [];
  if (!setting || !hash || Number(cost) < bcryptCost.min || Number(cost) > bcryptCost.max) return null;
  return { setting, hash: Buffer.from(hash, 'latin1') };
}

/** Whether a stored hash can be verified. */
export function isKnownHash(text: string): boolean {
  return parseHash(text) !== null || parseBcrypt(text) !== null;
}

function base64(bytes: Buffer): string {
  return bytes.toString('base64').replaceAll('=', '');
}

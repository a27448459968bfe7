// Access tokens of end users: JWTs signed with HS256 and the project key as the secret, so any library can verify them
// with that key alone. Reading is strict: a token that signToken would not have written byte for byte is rejected.
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { errors } from '../../errors/errors.ts';

/** `id` goes into the header as `kid`; the secret is the text of the project key. */
export type SigningKey = Readonly<{ id: string; secret: string }>;

export type Claims = Readonly<{
  sub: string;
  email: string;
  role: string;
  iss: string;
  iat: number;
  exp: number;
  /** The session, so that signing out can end a token before its one-day lifetime is over. */
  sid: string;
}>;

type Expected = {
  issuer: string;
  /** In milliseconds. */
  now: number;
  /** The secret of a key of this project that is valid now, or null. */
  secretOf: (kid: string) => string | null;
};

export const tokenLifetimeS = 86_400;

/** Tolerates clock skew between machines. */
const leewayS = 60;
const maxLength = 8192;
/** The 32 bytes of an HMAC are 43 base64url characters. */
const form = /^([\w-]+)\.([\w-]+)\.([\w-]{43})$/;
/** As PostgreSQL writes it. */
export const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

export function issuerOf(slug: string): string {
  return `rowhouse-auth:${slug}`;
}

export function signToken(key: SigningKey, claims: Claims): string {
  const signed = `${headerOf(key.id)}.${payloadOf(claims)}`;
  const token = `${signed}.${hmac(key.secret, signed).toString('base64url')}`;
  if (token.length > maxLength)
    throw new Error('The claims are too long for a token that can be read again.');
  return token;
}

/** Throws errors.invalidToken unless this service issued the token and it is valid now. */
export function readToken(token: string, { issuer, now, secretOf }: Expected): Claims {
  if (token.length > maxLength) throw errors.invalidToken();
  const [, header = '', payload = '', signature = ''] = form.exec(token) ?? [];
  const kid = readKid(header);
  if (kid === null) throw errors.invalidToken();
  // An unknown key costs the same work as a wrong signature. `||` instead of `??`: anyone could sign with an empty
  // secret.
  const secret = secretOf(kid) || randomBytes(32);
  const given = Buffer.from(signature, 'base64url');
  const isSigned = timingSafeEqual(hmac(secret, `${header}.${payload}`), given);
  // The last base64url character has two unused bits: one signature must not have four spellings.
  if (!isSigned || given.toString('base64url') !== signature) throw errors.invalidToken();
  const claims = readClaims(payload);
  if (!claims || claims.iss !== issuer) throw errors.invalidToken();
  if (claims.iat * 1000 > now + leewayS * 1000) throw errors.invalidToken();
  if (claims.exp - claims.iat > tokenLifetimeS) throw errors.invalidToken();
  if (claims.exp * 1000 <= now) {
    throw errors.invalidToken(
      'This access token has expired.',
      'Get a new one with POST …/auth/refresh and the refresh token, or sign in again.',
    );
  }
  return claims;
}

function headerOf(kid: string): string {
  return encode({ alg: 'HS256', typ: 'JWT', kid });
}

function payloadOf({ sub, email, role, iss, iat, exp, sid }: Claims): string {
  return encode({ sub, email, role, iss, iat, exp, sid });
}

/**
 * Re-encodes the header and compares it: this allows no other algorithm, no extra or repeated members, no whitespace
 * and one base64url spelling.
 */
function readKid(header: string): string | null {
  const kid = decode(header)?.kid;
  return typeof kid === 'string' && headerOf(kid) === header ? kid : null;
}

/** Re-encoded and compared, like the header. The type checks also catch missing claims, which JSON.stringify omits. */
function readClaims(payload: string): Claims | null {
  const { sub, email, role, iss, iat, exp, sid } = decode(payload) ?? {};
  if (!isUuid(sub) || !isUuid(sid) || !isInteger(iat) || !isInteger(exp)) return null;
  if (!isText(email) || !isText(role) || !isText(iss)) return null;
  const claims: Claims = { sub, email, role, iss, iat, exp, sid };
  return payloadOf(claims) === payload ? claims : null;
}

function encode(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url');
}

function decode(part: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(Buffer.from(part, 'base64url').toString('utf8'));
    return typeof value === 'object' ? (value as Record<string, unknown> | null) : null;
  } catch {
    return null;
  }
}

function hmac(secret: string | Buffer, text: string): Buffer {
  return createHmac('sha256', secret).update(text).digest();
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}

function isUuid(value: unknown): value is string {
  return typeof value === 'string' && uuid.test(value);
}

function isInteger(value: unknown): value is number {
  return Number.isSafeInteger(value);
}

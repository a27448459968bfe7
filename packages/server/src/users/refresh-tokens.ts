// Refresh tokens: each names its session and its generation under a MAC. So a forged one is told from an old one (an old
// one that comes again means theft), and the one that follows a given one is always the same: an answer that was lost on
// its way can be given again. The database keeps a hash, and cannot be used to make any.
import { createHash, createHmac, hkdfSync, timingSafeEqual } from 'node:crypto';

export type RefreshToken = Readonly<{ sessionId: string; generation: number }>;

/** 16 bytes of the session, 6 of the generation, 32 of the MAC: 72 characters with no bit to spare. */
const form = /^rh_ref_([\w-]{72})$/;
const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const sessionBytes = 16;
const bodyBytes = 22;

export function refreshTokenKey(masterKey: Buffer): Buffer {
  return Buffer.from(hkdfSync('sha256', masterKey, '', 'rowhouse refresh tokens', 32));
}

export function makeRefreshToken(key: Buffer, projectId: string, token: RefreshToken): string {
  if (!uuid.test(token.sessionId)) throw new Error('The id of a session must be a UUID in lower case.');
  if (!Number.isInteger(token.generation)) throw new Error('A generation is a whole number.');
  const body = Buffer.alloc(bodyBytes);
  body.write(token.sessionId.replaceAll('-', ''), 'hex');
  // Throws for what is negative or does not fit.
  body.writeUIntBE(token.generation, sessionBytes, bodyBytes - sessionBytes);
  return `rh_ref_${Buffer.concat([body, mac(key, projectId, body)]).toString('base64url')}`;
}

/** Null: forged, malformed, or of another project. Says nothing about whether the token is still the newest. */
export function readRefreshToken(key: Buffer, projectId: string, text: string): RefreshToken | null {
  const [, encoded] = form.exec(text) ?? [];
  if (!encoded) return null;
  const bytes = Buffer.from(encoded, 'base64url');
  const body = bytes.subarray(0, bodyBytes);
  if (!timingSafeEqual(mac(key, projectId, body), bytes.subarray(bodyBytes))) return null;
  const hex = body.toString('hex', 0, sessionBytes);
  return {
    sessionId: hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5'),
    generation: body.readUIntBE(sessionBytes, bodyBytes - sessionBytes),
  };
}

/** The MAC cannot be guessed: no salt and no slow hash is needed. */
export function hashRefreshToken(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

/** The body has one length, so nothing can slide between it and the project. */
function mac(key: Buffer, projectId: string, body: Buffer): Buffer {
  return createHmac('sha256', key).update(body).update(projectId).digest();
}

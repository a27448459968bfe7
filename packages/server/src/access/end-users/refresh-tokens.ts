// The format of refresh tokens: session id and generation under a MAC. The MAC distinguishes a forged token from an old
// one (reuse of an old token means theft). The successor of a token is deterministic, so a response that was lost can
// be sent again. The database stores only a hash, from which no token can be made.

import { createHash, createHmac, hkdfSync, timingSafeEqual } from 'node:crypto';
import { uuid } from './access-tokens.ts';

export type RefreshToken = Readonly<{ sessionId: string; generation: number }>;

/** 16 bytes of session id, 6 of generation, 32 of MAC: 72 characters without unused bits. */
const form = /^rh_ref_([\w-]{72})$/;
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
  // Throws if the number is negative or does not fit.
  body.writeUIntBE(token.generation, sessionBytes, bodyBytes - sessionBytes);
  return `rh_ref_${Buffer.concat([body, mac(key, projectId, body)]).toString('base64url')}`;
}

/** null: forged, malformed, or of another project. Does not check whether the token is the newest. */
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

/** The MAC cannot be guessed, so neither a salt nor a slow hash is needed. */
export function hashRefreshToken(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

/** The body has a fixed length, so the concatenation with the project id is unambiguous. */
function mac(key: Buffer, projectId: string, body: Buffer): Buffer {
  return createHmac('sha256', key).update(body).update(projectId).digest();
}

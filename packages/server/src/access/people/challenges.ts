// Challenges, which prove that an answer is fresh. Everyone may ask for one, so that none is stored: it carries its own proof and
// expiry. Once an answer is accepted, its challenge is stored as used.

import { createHash, createHmac, hkdfSync, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Control } from '../../control/control.ts';
import { sql } from '../../postgres/sql.ts';
import { passkeyChallengeMinutes } from '../../settings/limits/people.ts';

type Deps = { control: Control; masterKey: Buffer; now: () => number };

const [randomLength, timeLength] = [16, 6];

/** `purpose`: what it is for, and for whom. An answer for another purpose does not count. */
export function newChallenge({ masterKey, now }: Deps, purpose: string): Buffer {
  const body = Buffer.alloc(randomLength + timeLength);
  randomBytes(randomLength).copy(body);
  body.writeUIntBE(now() + passkeyChallengeMinutes * 60_000, randomLength, timeLength);
  return Buffer.concat([body, proofOf(masterKey, purpose, body)]);
}

/** Whether it was made here for this purpose, and has not expired. `text`: base64url. */
export function isChallenge({ masterKey, now }: Deps, purpose: string, text: string): boolean {
  const given = Buffer.from(text, 'base64url');
  const body = given.subarray(0, randomLength + timeLength);
  const proof = given.subarray(randomLength + timeLength);
  if (given.length !== randomLength + timeLength + 32) return false;
  return timingSafeEqual(proof, proofOf(masterKey, purpose, body)) && expiryOf(body) > now();
}

/** False: it was used before. Of two at once, one gets true. */
export async function useChallenge({ control }: Deps, text: string): Promise<boolean> {
  const given = Buffer.from(text, 'base64url');
  const made = await control.change(sql`
    insert into used_challenges (hash, expires_at)
    values (${createHash('sha256').update(given).digest()}, ${new Date(expiryOf(given))})
    on conflict (hash) do nothing returning 1`);
  return made.length > 0;
}

/** Called by the background work. Kept for longer: the clocks of machines differ. */
export async function forgetUsedChallenges({ control, now }: Pick<Deps, 'control' | 'now'>): Promise<void> {
  await control.query(
    sql`delete from used_challenges where expires_at < ${new Date(now())}::timestamptz - interval '1 hour'`,
  );
}

function expiryOf(body: Buffer): number {
  return body.readUIntBE(randomLength, timeLength);
}

function proofOf(masterKey: Buffer, purpose: string, body: Buffer): Buffer {
  const key = Buffer.from(hkdfSync('sha256', masterKey, '', 'rowhouse challenges', 32));
  return createHmac('sha256', key)
    .update(JSON.stringify([purpose, body.toString('hex')]))
    .digest();
}

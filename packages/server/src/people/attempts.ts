// Limits attempts to guess the password of a person, and requests for links, in all processes together. Two buckets count an attempt: that of the address
// from one network, and a larger one of the address from everywhere, so that a stranger cannot easily lock a person out.
import { createHash } from 'node:crypto';
import type { Control } from '../control/control.ts';
import { errors } from '../errors.ts';
import { sql } from '../postgres/sql.ts';

type Bucket = { id: Buffer; burst: number; refillMs: number };

/** Throws if there were too many. `forgive` is to be called if the attempt succeeds. */
export async function countAttempt(
  control: Control,
  emailKey: string,
  network: string,
): Promise<{ forgive(): Promise<void> }> {
  const buckets: Bucket[] = [
    { id: idOf(['near', emailKey, network]), burst: 10, refillMs: 60_000 },
    { id: idOf(['all', emailKey]), burst: 100, refillMs: 36_000 },
  ];
  for (const bucket of buckets) await take(control, bucket);
  return {
    forgive: async () => {
      const [near, all] = buckets as [Bucket, Bucket];
      await control.query(sql`delete from sign_in_attempts where id = ${near.id}`);
      await control.query(sql`
        update sign_in_attempts set used_until = used_until - ${all.refillMs}::float8 * interval '1 millisecond'
        where id = ${all.id}`);
    },
  };
}

/** Links for a new password, whether somebody has the address or not. */
export async function countRecovery(control: Control, emailKey: string, network: string): Promise<void> {
  const tooMany = 'Too many links were requested.';
  await take(control, { id: idOf(['recovery', emailKey, network]), burst: 3, refillMs: 300_000 }, tooMany);
  await take(control, { id: idOf(['recovery', emailKey]), burst: 10, refillMs: 360_000 }, tooMany);
}

/** Mailed invitations: an account must not be a way to flood a mailbox, or many. */
export async function countInvitation(control: Control, accountId: string, emailKey: string): Promise<void> {
  const tooMany = 'Too many invitations were mailed.';
  await take(control, { id: idOf(['invite', accountId, emailKey]), burst: 5, refillMs: 600_000 }, tooMany);
  await take(control, { id: idOf(['invite', accountId]), burst: 200, refillMs: 60_000 }, tooMany);
}

async function take(
  control: Control,
  { id, burst, refillMs }: Bucket,
  tooMany = 'Too many sign-in attempts failed.',
): Promise<void> {
  const [refill, all] = [refillMs, burst * refillMs].map(
    (ms) => sql`${ms}::float8 * interval '1 millisecond'`,
  );
  const [taken] = await control.query(sql`
    insert into sign_in_attempts as known (id, used_until) values (${id}, now() + ${refill})
    on conflict (id) do update set used_until = greatest(known.used_until, now()) + ${refill}
    where greatest(known.used_until, now()) + ${refill} <= now() + ${all}
    returning 1`);
  if (!taken) throw errors.rateLimited(tooMany, Math.ceil(refillMs / 1000));
}

function idOf(parts: readonly string[]): Buffer {
  return createHash('sha256').update(JSON.stringify(parts)).digest();
}

/** Called by the background work. */
export async function forgetOldAttempts(control: Control): Promise<void> {
  await control.query(sql`delete from sign_in_attempts where used_until < now()`);
}

// Limits attempts to guess the password or the second factor of a person, and requests for mail, in all processes together. Two
// buckets count an attempt: that of the address from one network, and one of the address from everywhere. Networks from which
// the person has signed in before have a bucket of their own, so that a stranger cannot lock a person out.

import { createHash } from 'node:crypto';
import type { Control } from '../../control/control.ts';
import { errors } from '../../errors/errors.ts';
import type { Rate } from '../../lib/rate-limits.ts';
import { sql } from '../../postgres/sql.ts';
import { refundStored, type StoredBucket, takeStored } from '../../postgres/stored-rate-limits.ts';
import { knownNetworkDays } from '../../settings/limits/people.ts';

type Bucket = Rate & { id: Buffer };

/** Attempts to guess a password. Throws if there were too many. `forgive` is to be called if the attempt succeeds. */
export async function countAttempt(control: Control, emailKey: string, network: string): Promise<Attempt> {
  return countGuess(control, emailKey, network, {
    near: { burst: 10, refillMs: 60_000 },
    all: { burst: 100, refillMs: 36_000 },
  });
}

/** A code has six digits, so that all networks together get few attempts: 20, and 20 more a day. */
export async function countFactor(control: Control, personId: string, network: string): Promise<Attempt> {
  return countGuess(control, `second factor of ${personId}`, network, {
    near: { burst: 10, refillMs: 600_000 },
    all: { burst: 20, refillMs: 4_320_000 },
  });
}

type Attempt = { forgive(): Promise<void> };

/**
 * Attempts from a known network have a limit of their own, which a stranger cannot use up. `near`: from one network. `all`: from
 * all unknown networks together.
 */
async function countGuess(
  control: Control,
  about: string,
  network: string,
  rules: { near: Rate; all: Rate },
): Promise<Attempt> {
  const isKnown = await isKnownNetwork(control, about, network);
  const near = { id: idOf([isKnown ? 'known' : 'near', about, network]), ...rules.near };
  const all = { id: idOf(['all', about]), ...rules.all };
  await take(control, near);
  if (!isKnown) await take(control, all);
  return {
    forgive: async () => {
      await control.query(sql`delete from sign_in_attempts where id = ${near.id}`);
      if (!isKnown) await refund(control, all);
      await rememberNetwork(control, about, network);
    },
  };
}

/** A network in which the same was proved before. It has a row of its own among the attempts, until it is forgotten. */
async function isKnownNetwork(control: Control, about: string, network: string): Promise<boolean> {
  const rows = await control.query(sql`
    select 1 from sign_in_attempts where id = ${idOf(['network', about, network])} and used_until > now()`);
  return rows.length > 0;
}

async function rememberNetwork(control: Control, about: string, network: string): Promise<void> {
  await control.query(sql`
    insert into sign_in_attempts (id, used_until)
    values (${idOf(['network', about, network])}, now() + ${knownNetworkDays}::float8 * interval '1 day')
    on conflict (id) do update set used_until = excluded.used_until`);
}

/** Whether so many codes were wrong that the person must hear of it: once a day. */
export async function isManyWrong(control: Control, personId: string): Promise<boolean> {
  const isUsual = await isTaken(control, {
    id: idOf(['wrong codes', personId]),
    burst: 4,
    refillMs: 3_600_000,
  });
  if (isUsual) return false;
  return isTaken(control, { id: idOf(['wrong codes, told', personId]), burst: 1, refillMs: 86_400_000 });
}

/** Links for a new password, whether somebody has the address or not. */
export async function countRecovery(control: Control, emailKey: string, network: string): Promise<void> {
  const tooMany = 'Too many links were requested.';
  await take(control, { id: idOf(['recovery', emailKey, network]), burst: 3, refillMs: 300_000 }, tooMany);
  if (await isKnownNetwork(control, emailKey, network)) return;
  await take(control, { id: idOf(['recovery', emailKey]), burst: 10, refillMs: 360_000 }, tooMany);
}

/** Mails to an address that nobody has proved yet: a person must not be a way to flood a mailbox, or many. */
export async function countEmailChange(control: Control, personId: string, emailKey: string): Promise<void> {
  const tooMany = 'Too many links to new addresses were mailed.';
  await take(control, { id: idOf(['email of', personId]), burst: 10, refillMs: 360_000 }, tooMany);
  await take(control, { id: idOf(['email to', emailKey]), burst: 5, refillMs: 600_000 }, tooMany);
}

/** Mailed invitations: an account must not be a way to flood a mailbox, or many. */
export async function countInvitation(control: Control, accountId: string, emailKey: string): Promise<void> {
  const tooMany = 'Too many invitations were mailed.';
  await take(control, { id: idOf(['invite', accountId, emailKey]), burst: 5, refillMs: 600_000 }, tooMany);
  await take(control, { id: idOf(['invite', accountId]), burst: 200, refillMs: 60_000 }, tooMany);
}

async function take(
  control: Control,
  bucket: Bucket,
  tooMany = 'Too many sign-in attempts failed.',
): Promise<void> {
  if (!(await isTaken(control, bucket))) throw errors.rateLimited(tooMany, Math.ceil(bucket.refillMs / 1000));
}

/** False: the bucket is empty. */
async function isTaken(control: Control, bucket: Bucket): Promise<boolean> {
  const taken = await control.query(takeStored(stored(bucket)));
  return taken.length > 0;
}

async function refund(control: Control, bucket: Bucket): Promise<void> {
  await control.query(refundStored(stored(bucket)));
}

function stored({ id, ...rate }: Bucket): StoredBucket {
  return { table: sql`sign_in_attempts`, id: sql`${id}`, rate };
}

function idOf(parts: readonly string[]): Buffer {
  return createHash('sha256').update(JSON.stringify(parts)).digest();
}

/** Called by the background work. */
export async function forgetOldAttempts(control: Control): Promise<void> {
  await control.query(sql`delete from sign_in_attempts where used_until < now()`);
}

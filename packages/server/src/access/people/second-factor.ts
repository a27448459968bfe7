// The second factor of a person: codes of an authenticator app (TOTP, RFC 6238), and recovery codes, each of which works once.
import { createHash, randomInt } from 'node:crypto';
import { Secret, TOTP } from 'otpauth';
import type { Control } from '../../control/control.ts';
import { sealBytes, unsealBytes } from '../../control/seal.ts';
import { errors } from '../../errors/errors.ts';
import type { Queryable } from '../../postgres/admin/database.ts';
import { sql } from '../../postgres/sql.ts';
import type { PeopleMail } from './mail.ts';
import { countFactor, isManyWrong } from './sign-in-attempts.ts';

export type FactorDeps = { control: Control; masterKey: Buffer; now: () => number; peopleMail: PeopleMail };

const period = 30;
/** Steps before and after the present one: clocks of phones differ. */
const window = 1;
const recoveryCodes = 10;
const letters = 'ABCDEFGHJKLMNPQRSTUVWXYZ23456789';

function generatorOf(secret: Secret, email = ''): TOTP {
  return new TOTP({ issuer: 'Rowhouse', label: email, secret, period, digits: 6, algorithm: 'SHA1' });
}

/** A new secret, which counts once a code has proved that the app has it. */
export async function beginFactor(
  { control, masterKey }: FactorDeps,
  person: { id: string; email: string },
  sessionId: string,
): Promise<{ secret: string; uri: string }> {
  await requireOwnFactor(control, person.id, sessionId);
  const secret = new Secret({ size: 20 });
  const sealed = sealBytes(masterKey, 'second factors', Buffer.from(secret.base32), person.id);
  const [row] = await control.change(sql`
    update people set totp_sealed = ${sealed} where id = ${person.id} and totp_confirmed_at is null returning id`);
  if (!row) throw errors.conflict('You already have a second factor.', 'Remove it first.');
  return { secret: secret.base32, uri: generatorOf(secret, person.email).toString() };
}

/** Proves the secret. Returns the recovery codes, which are shown only once. */
export async function confirmFactor(
  deps: FactorDeps,
  personId: string,
  code: string,
  sessionId: string,
): Promise<string[]> {
  const codes = newRecoveryCodes();
  await deps.control.transaction(async (transaction) => {
    const found = await lock(transaction, personId);
    if (!found?.sealed || found.isConfirmed)
      throw errors.conflict('No second factor is being set up.', 'Begin again.');
    // A passkey may have been added since it was begun.
    await requireOwnFactor(transaction, personId, sessionId);
    const step = stepOf(deps, personId, found, code);
    if (step === null) throw errors.wrongFactor();
    await transaction.query(sql`
      update people set totp_confirmed_at = now(), totp_last_step = ${step} where id = ${personId}`);
    await storeRecoveryCodes(transaction, personId, codes);
    // This session has proved it now. Sessions without it do not count where an account requires it: they end.
    await transaction.query(
      sql`update console_sessions set has_second_factor = true where id = ${sessionId}`,
    );
    await transaction.query(
      sql`delete from console_sessions where person_id = ${personId} and not has_second_factor`,
    );
  });
  return codes;
}

/**
 * Whoever has only the password must not add a factor of the own choice beside the one that the person has, passkeys included.
 * So a session that has not proved it changes no way to sign in.
 */
export async function requireOwnFactor(
  control: Pick<Queryable, 'query'>,
  personId: string,
  sessionId: string,
): Promise<void> {
  const unproved = await control.query(sql`
    select 1 from people where id = ${personId} and ${hasFactor}
      and not exists (select from console_sessions where id = ${sessionId} and person_id = people.id and has_second_factor)`);
  if (unproved.length > 0) throw errors.factorUnproved();
}

/** Whether a row of people has a second factor. */
export const hasFactor = sql`(
  people.totp_confirmed_at is not null or exists (select from passkeys where passkeys.person_id = people.id))`;

/** Whether the person has one. Then the code must be right: of the app, or a recovery code. Each counts once. */
export async function proveFactor(
  deps: FactorDeps,
  personId: string,
  code: string | null,
  network: string,
): Promise<{ hasSecondFactor: boolean }> {
  const { control } = deps;
  const [row] = await control.query<{ email: string; isConfirmed: boolean }>(
    sql`select email, totp_confirmed_at is not null as "isConfirmed" from people where id = ${personId}`,
  );
  if (!row?.isConfirmed) return { hasSecondFactor: false };
  if (code === null) throw errors.factorMissing();
  // A code has six digits: without a limit it could be guessed by whoever has the password.
  const attempt = await countFactor(control, personId, network);
  if (await isRight(deps, personId, code)) {
    await attempt.forgive();
    return { hasSecondFactor: true };
  }
  if (await isManyWrong(control, personId))
    deps.peopleMail.notifyLater('member_second_factor_tried', row.email);
  throw errors.wrongFactor();
}

/** Uses up the code. */
async function isRight(deps: FactorDeps, personId: string, code: string): Promise<boolean> {
  return deps.control.transaction(async (transaction) => {
    const found = await lock(transaction, personId);
    if (!found) return false;
    const step = stepOf(deps, personId, found, code);
    if (step !== null) {
      await transaction.query(sql`update people set totp_last_step = ${step} where id = ${personId}`);
      return true;
    }
    const used = await transaction.query(sql`
      delete from recovery_codes where person_id = ${personId} and hash = ${hashOf(code)} returning 1`);
    return used.length > 0;
  });
}

/** The caller has proved the password and the factor. */
export async function removeFactor({ control }: FactorDeps, personId: string): Promise<void> {
  await control.transaction((transaction) => dropFactors(transaction, personId));
}

export async function dropFactors(transaction: Queryable, personId: string): Promise<void> {
  await transaction.query(sql`
    update people set totp_sealed = null, totp_confirmed_at = null, totp_last_step = 0 where id = ${personId}`);
  await transaction.query(sql`delete from recovery_codes where person_id = ${personId}`);
  await transaction.query(sql`
    update console_sessions set has_second_factor = false where person_id = ${personId}`);
}

/** The caller has proved the password and the factor. The old codes no longer work. */
export async function replaceRecoveryCodes({ control }: FactorDeps, personId: string): Promise<string[]> {
  const codes = newRecoveryCodes();
  await control.transaction(async (transaction) => {
    const found = await lock(transaction, personId);
    if (!found?.isConfirmed) throw errors.conflict('You have no second factor.', 'Set one up first.');
    await storeRecoveryCodes(transaction, personId, codes);
  });
  return codes;
}

async function storeRecoveryCodes(transaction: Queryable, personId: string, codes: string[]): Promise<void> {
  await transaction.query(sql`delete from recovery_codes where person_id = ${personId}`);
  await transaction.query(sql`
    insert into recovery_codes (person_id, hash) select ${personId}, unnest(${codes.map(hashOf)}::bytea[])`);
}

type Found = { sealed: Buffer | null; isConfirmed: boolean; lastStep: number };

/** Locks the person's row: the second of two requests with one code waits here, and finds the step used. */
async function lock(transaction: Queryable, personId: string): Promise<Found | null> {
  const [row] = await transaction.query<Found>(sql`
    select totp_sealed as sealed, totp_confirmed_at is not null as "isConfirmed", totp_last_step::float8 as "lastStep"
    from people where id = ${personId} for update`);
  return row ?? null;
}

/** The time step of the code. null: it is wrong, or of a step that was used before. */
function stepOf({ masterKey, now }: FactorDeps, personId: string, found: Found, code: string): number | null {
  if (!found.sealed || !/^\d{6}$/.test(code.trim())) return null;
  const secret = Secret.fromBase32(
    unsealBytes(masterKey, 'second factors', found.sealed, personId).toString('latin1'),
  );
  const at = now();
  const delta = generatorOf(secret).validate({ token: code.trim(), timestamp: at, window });
  if (delta === null) return null;
  const step = Math.floor(at / 1000 / period) + delta;
  return step > found.lastStep ? step : null;
}

function newRecoveryCodes(): string[] {
  return Array.from({ length: recoveryCodes }, newRecoveryCode);
}

/** 10 of 32 letters: 50 random bits, of which a few attempts are allowed. */
function newRecoveryCode(): string {
  const part = () => Array.from({ length: 5 }, () => letters.charAt(randomInt(letters.length))).join('');
  return `${part()}-${part()}`;
}

function hashOf(code: string): Buffer {
  const plain = code.toUpperCase().replace(/[^A-Z0-9]/g, '');
  return createHash('sha256').update(`rowhouse recovery code ${plain}`).digest();
}

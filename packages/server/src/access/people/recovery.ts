// A new password for a person who has lost the old one, by a link that works once: mailed to the address, or given by the
// operator.

import { errors } from '../../errors/errors.ts';
import type { Queryable } from '../../postgres/admin/database.ts';
import { sql } from '../../postgres/sql.ts';
import { givenRecoveryMinutes, mailedRecoveryMinutes } from '../../settings/limits/people.ts';
import { readEmail } from '../mail/emails.ts';
import { dropIdentities } from './identities.ts';
import { dropPasskeys } from './passkeys.ts';
import { hashPassword, type PasswordDeps } from './passwords.ts';
import { dropFactors } from './second-factor.ts';
import { hashSecret, newSecret } from './secrets.ts';

type Deps = PasswordDeps & { now: () => number };

export type Recovery = Readonly<{ personId: string; code: string; email: string; expiresAt: Date }>;

/**
 * null: nobody has the address. Earlier links no longer work, except that anybody can ask for a mail, which must not end the
 * link that the operator gave.
 */
export async function startRecovery(
  { control, now }: Deps,
  email: string,
  { isMailed, resetsFactor = false }: { isMailed: boolean; resetsFactor?: boolean },
): Promise<Recovery | null> {
  const { key } = readEmail(email);
  const code = newSecret('recover');
  const expiresAt = new Date(now() + (isMailed ? mailedRecoveryMinutes : givenRecoveryMinutes) * 60_000);
  const [row] = await control.change<{ personId: string; email: string }>(sql`
    with person as (select id, email from people where email_key = ${key}),
    old as (delete from person_codes where kind = 'recovery' and person_id in (select id from person) and (is_mailed or not ${isMailed}::boolean)),
    made as (
      insert into person_codes (hash, person_id, kind, expires_at, is_mailed, resets_factor)
      select ${hashSecret('recover', code)}::bytea, id, 'recovery', ${expiresAt}::timestamptz, ${isMailed}, ${resetsFactor}
      from person)
    select id as "personId", email from person`);
  return row ? { code, expiresAt, ...row } : null;
}

/** Sets a new password, once. All sessions of the person end. */
export async function recover(
  deps: Deps,
  code: string,
  password: string,
): Promise<{ personId: string; email: string }> {
  const isUsable = sql`
    hash = ${hashSecret('recover', code)} and kind = 'recovery' and expires_at > ${new Date(deps.now())}`;
  // Looked up before the expensive hash; used up together with the change.
  const found = await deps.control.query(sql`select 1 from person_codes where ${isUsable}`);
  if (found.length === 0) throw errors.invalidRecovery();
  const stored = await hashPassword(deps, password);
  return deps.control.transaction(async (transaction) => {
    const [used] = await transaction.query<Used>(sql`
      delete from person_codes where ${isUsable}
      returning person_id as "personId", is_mailed as "isMailed", resets_factor as "resetsFactor"`);
    if (!used) throw errors.invalidRecovery();
    return setPassword(transaction, used, stored);
  });
}

type Used = { personId: string; isMailed: boolean; resetsFactor: boolean };

/**
 * Whoever made the person may have been somebody else than the owner of the address, as long as nobody has proved it. Then
 * everything with which that one could sign in ends, also by a link of the operator, who knows to whom it goes.
 */
async function setPassword(
  transaction: Queryable,
  { personId, isMailed, resetsFactor }: Used,
  hash: string,
): Promise<{ personId: string; email: string }> {
  const [person] = await transaction.query<{ email: string; isProved: boolean }>(sql`
    select email, email_proved_at is not null as "isProved" from people where id = ${personId} for update`);
  if (!person) throw errors.invalidRecovery();
  if (resetsFactor || !person.isProved) {
    await dropFactors(transaction, personId);
    await dropPasskeys(transaction, personId);
    await dropIdentities(transaction, personId);
  }
  await transaction.query(sql`
    update people set password_hash = ${hash},
      email_proved_at = case when ${isMailed} then coalesce(email_proved_at, now()) else email_proved_at end
    where id = ${personId}`);
  await transaction.query(sql`delete from console_sessions where person_id = ${personId}`);
  return { personId, email: person.email };
}

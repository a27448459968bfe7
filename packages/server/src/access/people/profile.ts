// A person's own profile: name, password and email address.

import type { Role } from '@rowhouse/api';
import type { Control } from '../../control/control.ts';
import { errors } from '../../errors/errors.ts';
import { isState } from '../../postgres/admin/database.ts';
import { sql } from '../../postgres/sql.ts';
import { sqlstate } from '../../postgres/sqlstate.ts';
import { emailChangeMinutes } from '../../settings/limits/people.ts';
import { readNewEmail } from '../mail/emails.ts';
import { hashPassword, type PasswordDeps } from './passwords.ts';
import { hashSecret, newSecret } from './secrets.ts';

type Deps = PasswordDeps & { now: () => number };

export type Profile = Readonly<{
  id: string;
  email: string;
  name: string | null;
  hasPassword: boolean;
  hasSecondFactor: boolean;
  accounts: readonly { id: string; name: string; role: Role }[];
}>;

export async function getProfile(control: Control, personId: string): Promise<Profile> {
  const [row] = await control.query<Profile>(sql`
    select people.id, people.email, people.name, people.password_hash is not null as "hasPassword",
           people.totp_confirmed_at is not null as "hasSecondFactor",
           coalesce((
             select json_agg(json_build_object('id', accounts.id, 'name', accounts.name, 'role', members.role)
                             order by accounts.name)
             from members join accounts on accounts.id = members.account_id
             where members.person_id = people.id and accounts.deleted_at is null), '[]') as accounts
    from people where people.id = ${personId}`);
  if (!row) throw errors.sessionRequired();
  return row;
}

export async function changeName(control: Control, personId: string, name: string | null): Promise<void> {
  await control.change(sql`update people set name = ${name} where id = ${personId}`);
}

/** All sessions of the person end, except the one that asks. */
export async function changePassword(
  deps: Deps,
  personId: string,
  password: string,
  exceptSession: string | null,
): Promise<void> {
  const hash = await hashPassword(deps, password);
  await deps.control.transaction(async (transaction) => {
    await transaction.query(sql`update people set password_hash = ${hash} where id = ${personId}`);
    await transaction.query(sql`
      delete from console_sessions where person_id = ${personId} and id is distinct from ${exceptSession}`);
    await transaction.query(
      sql`delete from person_codes where person_id = ${personId} and kind = 'recovery'`,
    );
  });
}

/** A code that proves the new address. The old one counts until then. */
export async function startEmailChange(
  { control, now }: Deps,
  personId: string,
  given: string,
): Promise<{ code: string; email: string; expiresAt: Date }> {
  const email = readNewEmail(given);
  const code = newSecret('email');
  const expiresAt = new Date(now() + emailChangeMinutes * 60_000);
  await control.change(sql`
    with old as (delete from person_codes where kind = 'email' and person_id = ${personId})
    insert into person_codes (hash, person_id, kind, email, email_key, expires_at)
    values (${hashSecret('email', code)}, ${personId}, 'email', ${email.typed}, ${email.key}, ${expiresAt})`);
  return { code, email: email.typed, expiresAt };
}

/** Returns the address before. Links that were sent there no longer work. */
export async function confirmEmailChange(
  { control, now }: Deps,
  personId: string,
  code: string,
): Promise<{ before: string; email: string }> {
  try {
    const [changed] = await control.change<{ before: string; email: string }>(sql`
      with used as (
        delete from person_codes
        where hash = ${hashSecret('email', code)} and kind = 'email' and person_id = ${personId}
          and expires_at > ${new Date(now())}
        returning email, email_key),
      old as (
        delete from person_codes
        where person_id = ${personId} and kind = 'recovery' and exists (select from used)),
      before as (select email from people where id = ${personId} for update)
      update people set email = used.email, email_key = used.email_key, email_proved_at = now()
      from used, before where people.id = ${personId}
      returning before.email as before, people.email`);
    if (!changed) throw errors.invalidRecovery();
    return changed;
  } catch (error) {
    if (isState(error, sqlstate.uniqueViolation)) throw errors.emailTaken();
    throw error;
  }
}

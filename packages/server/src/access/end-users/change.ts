// Changes a user's row, for the user itself or for an administrator. One statement makes all changes, so they apply
// together or not at all.
import type { User } from '@rowhouse/api';
import { errors } from '../../errors/errors.ts';
import { type Email, readEmail } from '../mail/emails.ts';
import type { AuthContext } from './auth-context.ts';
import { maxDataBytes, tooMuchData } from './data.ts';
import type { UserDeps } from './deps.ts';
import { clearedByNewPassword } from './password-attempts.ts';
import { attemptId } from './rate-limits.ts';
import { liveUser } from './sessions.ts';
import { lockById, userJson } from './store.ts';

/** null: unchanged. */
export type Columns = Readonly<{
  email: Email | null;
  /** JSON text, merged into the stored object by top-level key; null removes a key. */
  data: string | null;
  role: string | null;
  isVerified: boolean | null;
  isBanned: boolean | null;
}>;

/** `old` must be the stored hash; null: any stored hash will do. */
export type Hashes = Readonly<{ old: string | null; fresh: string }>;

type Outcome = { found: boolean; live: boolean; taken: boolean; user: User | null };

/**
 * `by`: the session in which users change their own row; it must still be live. A new password ends all other sessions.
 * Throws if there is no such user.
 */
export async function changeColumns(
  deps: UserDeps,
  context: AuthContext,
  { id, email: known }: Pick<User, 'id' | 'email'>,
  { email, data, role, isVerified, isBanned }: Columns,
  hashes: Hashes | null,
  by: string | null,
): Promise<User> {
  const params = [
    ...[id, email?.typed ?? null, email?.key ?? null, data, role, flag(isVerified), flag(isBanned)],
    ...[hashes?.old ?? null, hashes?.fresh ?? null, by, clearedByNewPassword(context, readEmail(known).key)],
    by && attemptId('session', by),
  ];
  // A ban, a role or an e-mail can be set even when the project is full. `data` counts as growth.
  const changed =
    data === null
      ? deps.store.ask<Outcome>(context, changing, params, lockById(id))
      : deps.store.add<Outcome>(context, changing, params, lockById(id));
  const outcome = await changed.catch((error) => {
    // Two concurrent changes to the same e-mail.
    if (isTaken(error)) throw errors.emailTaken();
    throw error;
  });
  if (outcome && !outcome.live) throw errors.sessionEnded();
  if (outcome?.taken) throw errors.emailTaken();
  if (outcome?.user) return outcome.user;
  if (outcome?.found && hashes?.old) throw errors.invalidCredentials();
  if (outcome?.found) throw tooMuchData();
  throw errors.userNotFound();
}

function flag(value: boolean | null): string | null {
  return value === null ? null : String(value);
}

function isTaken(error: unknown): boolean {
  const { cause } = error as { cause?: { sql?: { state?: string } } };
  return cause?.sql?.state === '23505';
}

const mergedData = `(users.data || $4::jsonb) - array(
  select key from jsonb_each($4::jsonb) as given (key, value) where given.value = 'null'::jsonb)`;

const changing = `
  with target as (select id from auth.users where id = $1::uuid),
  live as (select where $10::uuid is null or exists (${liveUser('$10', '$1')})),
  taken as (select from auth.users where email_key = $3 and id <> $1::uuid),
  changed as (
    update auth.users set
      email = coalesce($2, email), email_key = coalesce($3, email_key),
      data = case when $4::jsonb is null then users.data else ${mergedData} end,
      role = coalesce($5, role),
      email_verified_at = case
        when $6::boolean then coalesce(email_verified_at, now())
        when not $6::boolean and ($3::text is null or $3::text <> email_key) then null
        else email_verified_at end,
      banned_at = case when $7::boolean then coalesce(banned_at, now()) when not $7::boolean then null else banned_at end,
      updated_at = now()
    from target
    where users.id = target.id and exists (select from live) and not exists (select from taken)
      and ($4::jsonb is null or octet_length((${mergedData})::text) <= ${maxDataBytes})
      and ($8::text is null or exists (select from auth.passwords where user_id = target.id and hash = $8))
    returning users.*
  ), password as (
    insert into auth.passwords (user_id, hash) select id, $9 from changed where $9::text is not null
    on conflict (user_id) do update set hash = excluded.hash
  ), ended as (
    delete from auth.sessions using changed
    where sessions.user_id = changed.id and (($9::text is not null and sessions.id is distinct from $10::uuid) or $7::boolean)
  ), codes as (
    delete from auth.codes using changed where codes.user_id = changed.id and ($9::text is not null or $3::text is not null)
  ), forgiven as (
    delete from auth.attempts
    where (id = any ($11::bytea[]) or id = $12::bytea) and $9::text is not null and exists (select from changed)
  )
  select json_build_object('found', exists (select from target), 'live', exists (select from live),
    'taken', exists (select from taken),
    'user', (select ${userJson('changed')} from changed))`;

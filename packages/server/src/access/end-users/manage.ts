// Administration of users, for keys that may manage the project. self.ts is what users do with their own account.
import type { ChangeUser, CreateUser, ListUsers, User } from '@rowhouse/api';
import { errors } from '../../errors/errors.ts';
import { readNewEmail } from '../mail/emails.ts';
import type { AuthContext } from './auth-context.ts';
import { changeColumns } from './change.ts';
import { defaultRole, readData, readRole } from './data.ts';
import type { UserDeps } from './deps.ts';
import { hashNew } from './new-passwords.ts';
import { removeUser } from './remove.ts';
import { userJson } from './store.ts';

export async function listUsers(
  { store }: UserDeps,
  context: AuthContext,
  { limit = 50, page = 1, search }: ListUsers,
): Promise<{ users: User[]; page: number; limit: number; has_more: boolean }> {
  if (search?.includes('\0'))
    throw errors.invalidRequest([{ path: 'search', problem: 'must not contain a NUL character' }]);
  const part = search === undefined ? null : `%${search.normalize('NFKC').replace(/[\\%_]/g, '\\$&')}%`;
  const whole = search !== undefined && isUserId(search) ? search : null;
  const found = await store.ask<User[]>(context, listing, [
    part,
    whole,
    String(limit + 1),
    String((page - 1) * limit),
  ]);
  const users = found ?? [];
  return { users: users.slice(0, limit), page, limit, has_more: users.length > limit };
}

const listing = `
  select json_agg(${userJson('found')} order by found.created_at desc, found.id desc) from (
    select * from auth.users
    where $1::text is null or id = $2::uuid or email ilike $1 or email_key ilike $1
    order by created_at desc, id desc limit $3::int offset $4::bigint
  ) as found`;

export async function getUser({ store }: UserDeps, context: AuthContext, id: string): Promise<User> {
  const user = isUserId(id) ? await store.ask<User>(context, reading, [id]) : null;
  if (!user) throw errors.userNotFound();
  return user;
}

const reading = `select ${userJson('users')} from auth.users where id = $1::uuid`;

export async function createUser(deps: UserDeps, context: AuthContext, input: CreateUser): Promise<User> {
  const email = readNewEmail(input.email);
  const data = readData(input.data);
  const role = input.role ?? readRole(context, input.data) ?? defaultRole;
  // Checked before the expensive hash.
  await deps.query.admission.headroom.require(context.projectId);
  const hash = input.password === undefined ? null : await hashNew(deps, context, input.password);
  const params = [email.typed, email.key, role, data, hash, String(input.email_verified ?? false)];
  const user = await deps.store.add<User>(context, creating, params);
  if (!user) throw errors.emailTaken();
  return user;
}

const creating = `
  with made as (
    insert into auth.users (email, email_key, role, data, email_verified_at)
    values ($1, $2, $3, $4::jsonb, case when $6::boolean then now() end)
    on conflict (email_key) do nothing returning *
  ), password as (insert into auth.passwords (user_id, hash) select id, $5 from made where $5::text is not null)
  select ${userJson('made')} from made`;

/** A new password or a ban ends all sessions of the user. */
export async function changeUser(
  deps: UserDeps,
  context: AuthContext,
  id: string,
  input: ChangeUser,
): Promise<User> {
  const data = input.data === undefined ? null : readData(input.data);
  const role = input.role ?? readRole(context, input.data);
  const user = await getUser(deps, context, id);
  const email = input.email === undefined ? null : readNewEmail(input.email, user.email);
  const fresh = input.password === undefined ? null : await hashNew(deps, context, input.password);
  const isVerified = input.email_verified ?? (email ? false : null);
  const columns = { email, data, role, isVerified, isBanned: input.banned ?? null };
  return changeColumns(deps, context, user, columns, fresh === null ? null : { old: null, fresh }, null);
}

export async function deleteUser(deps: UserDeps, context: AuthContext, id: string): Promise<User> {
  return removeUser(deps, context, await getUser(deps, context, id));
}

/** A UUID. */
export function isUserId(text: string): boolean {
  return /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i.test(text);
}

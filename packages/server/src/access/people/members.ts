// The members of an account. An account that has an owner always keeps one.

import type { ChangeMember, Member, Role } from '@rowhouse/api';
import type { Control } from '../../control/control.ts';
import { isId } from '../../control/new-id.ts';
import { errors } from '../../errors/errors.ts';
import type { AccountCaller } from '../../keys/caller.ts';
import { isAllowed, rankOf } from '../../keys/roles.ts';
import type { Queryable } from '../../postgres/admin/database.ts';
import { sql } from '../../postgres/sql.ts';
import { maxMembers } from '../../settings/limits/people.ts';
import { endIssuedKeys, type MemberKeys } from './issued-keys.ts';
import { hasFactor } from './second-factor.ts';

type Deps = { control: Control };
type Row = {
  id: string;
  email: string;
  name: string | null;
  role: Role;
  projects: string[] | null;
  hasSecondFactor: boolean;
  joinedAt: Date;
  lastSignInAt: Date | null;
};

/** `projects`: their slugs. */
const columns = sql`
  people.id, people.email, people.name, members.role, ${hasFactor} as "hasSecondFactor", members.created_at as "joinedAt",
  people.last_sign_in_at as "lastSignInAt",
  case when members.projects is not null then (
    select coalesce(array_agg(slug order by slug), '{}') from projects
    where projects.id = any (members.projects) and projects.account_id = members.account_id) end as projects`;

export async function listMembers({ control }: Deps, accountId: string): Promise<Member[]> {
  const rows = await control.query<Row>(sql`
    select ${columns} from members join people on people.id = members.person_id
    where members.account_id = ${accountId} order by people.email_key limit ${maxMembers}`);
  return rows.map(toMember);
}

/** Ids of the accounts to which a person belongs. [null]: to none, or nobody is it. */
export async function accountsOf(
  control: Control,
  person: { id: string } | { emailKey: string },
): Promise<(string | null)[]> {
  const isIt = 'id' in person ? sql`people.id = ${person.id}` : sql`people.email_key = ${person.emailKey}`;
  const rows = await control.query<{ id: string }>(sql`
    select members.account_id as id from members join people on people.id = members.person_id
    where ${isIt} order by members.created_at limit 100`);
  return rows.length === 0 ? [null] : rows.map(({ id }) => id);
}

export async function changeMember(
  { control }: Deps,
  caller: AccountCaller,
  id: string,
  { role, projects }: ChangeMember,
): Promise<Member> {
  const { accountId } = caller;
  return control.transaction(async (transaction) => {
    const before = await lockMember(transaction, accountId, id);
    const next = role ?? before.role;
    requireRank(caller, before.role);
    requireRank(caller, next);
    const ids = await resolveProjects(transaction, accountId, next, projects);
    const kept = projects === undefined && canBeLimited(next);
    await transaction.query(sql`
      update members set role = ${next}, projects = case when ${kept} then projects else ${ids}::text[] end
      where account_id = ${accountId} and person_id = ${id}`);
    if (before.role === 'owner' && next !== 'owner') await requireOwner(transaction, accountId);
    const [row] = await transaction.query<Row>(sql`
      select ${columns} from members join people on people.id = members.person_id
      where members.account_id = ${accountId} and members.person_id = ${id}`);
    if (!row) throw errors.memberNotFound(id);
    return toMember(row);
  });
}

/**
 * Also the way to leave an account. The sessions of the person in it end with the statement. Returns the keys that the person
 * issued and that worked until now: they go on working unless `isRevokingKeys`.
 */
export async function removeMember(
  { control }: Deps,
  caller: AccountCaller,
  id: string,
  { isRevokingKeys = false } = {},
): Promise<MemberKeys> {
  const { accountId } = caller;
  return control.transaction(async (transaction) => {
    const before = await lockMember(transaction, accountId, id);
    if (caller.person?.id !== id) {
      if (!isAllowed(caller.role, 'members.manage')) throw errors.roleForbidden(caller.role);
      requireRank(caller, before.role);
    }
    await transaction.query(sql`delete from members where account_id = ${accountId} and person_id = ${id}`);
    await transaction.query(
      sql`delete from console_sessions where account_id = ${accountId} and person_id = ${id}`,
    );
    if (before.role === 'owner') await requireOwner(transaction, accountId);
    return endIssuedKeys(transaction, caller, id, isRevokingKeys);
  });
}

/** Nobody gives or takes a role that is above the own. */
export function requireRank({ role: own }: Pick<AccountCaller, 'role'>, role: Role): void {
  if (rankOf(role) > rankOf(own)) throw errors.roleForbidden(own);
}

/** Changes of an account's members come one after the other: of two owners who leave at once, one stays. */
async function lockMember(transaction: Queryable, accountId: string, id: string): Promise<{ role: Role }> {
  await transaction.query(sql`select from accounts where id = ${accountId} for update`);
  const [row] = await transaction.query<{ role: Role }>(sql`
    select role from members where account_id = ${accountId} and person_id = ${isId(id) ? id : ''}`);
  if (!row) throw errors.memberNotFound(id);
  return row;
}

async function requireOwner(transaction: Queryable, accountId: string): Promise<void> {
  const [owner] = await transaction.query(
    sql`select from members where account_id = ${accountId} and role = 'owner' limit 1`,
  );
  if (!owner) {
    throw errors.conflict(
      'This is the only owner of the account.',
      'Make another member an owner first: PATCH …/account/members/:id.',
    );
  }
}

/** The ids of the projects with these slugs. null: all projects of the account. */
export async function resolveProjects(
  queryable: Queryable,
  accountId: string,
  role: Role,
  slugs: readonly string[] | null | undefined,
): Promise<string[] | null> {
  if (slugs == null) return null;
  if (!canBeLimited(role))
    throw errors.invalidRequest([{ path: 'projects', problem: `cannot be set for the role ${role}` }]);
  const rows = await queryable.query<{ id: string; slug: string }>(sql`
    select id, slug from projects where account_id = ${accountId} and slug = any (${slugs.map((slug) => slug.replaceAll('\0', '\ufffd'))}::text[])`);
  const missing = slugs.filter((slug) => rows.every((row) => row.slug !== slug));
  if (missing.length > 0)
    throw errors.invalidRequest([{ path: 'projects', problem: `there is no project "${missing[0]}"` }]);
  return rows.map(({ id }) => id);
}

function canBeLimited(role: Role): boolean {
  return role === 'developer' || role === 'viewer';
}

function toMember({ hasSecondFactor, joinedAt, lastSignInAt, ...row }: Row): Member {
  return {
    ...row,
    has_second_factor: hasSecondFactor,
    joined_at: joinedAt.toISOString(),
    last_sign_in_at: lastSignInAt?.toISOString() ?? null,
  };
}

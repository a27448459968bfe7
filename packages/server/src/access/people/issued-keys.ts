// The keys that a person issued in an account, signed in or with a key that they had issued. They stay valid after the person
// leaves, unless they are revoked with the removal.
import type { MemberKey } from '@rowhouse/api';
import type { Control } from '../../control/control.ts';
import { isId } from '../../control/new-id.ts';
import { errors } from '../../errors/errors.ts';
import { requireOwnerLeft } from '../../keys/account-keys.ts';
import { type AccountCaller, seesProject } from '../../keys/caller.ts';
import { isAllowed, rankOf } from '../../keys/roles.ts';
import type { Queryable } from '../../postgres/admin/database.ts';
import { sql } from '../../postgres/sql.ts';

/** `unknownIssuerCount`: further ones that work and name no issuer. The person may know them. */
export type MemberKeys = { keys: MemberKey[]; unknownIssuerCount: number };

/** Those that work, also of a person who is no longer a member. */
export async function listMemberKeys(
  { control }: { control: Control },
  caller: AccountCaller,
  personId: string,
): Promise<MemberKeys> {
  const { accountId } = caller;
  const id = isId(personId) ? personId : '';
  const keys = await findIssued(control, accountId, id);
  const unknownIssuerCount = await countUnknown(control, caller);
  if (keys.length > 0) return { keys: keys.map(toMemberKey), unknownIssuerCount };
  const [member] = await control.query(
    sql`select from members where account_id = ${accountId} and person_id = ${id}`,
  );
  if (!member) throw errors.memberNotFound(personId);
  return { keys: [], unknownIssuerCount };
}

/** For a transaction that has locked the account and removed the member. All are revoked, except project keys, or none. */
export async function endIssuedKeys(
  transaction: Queryable,
  caller: AccountCaller,
  personId: string,
  isRevoking: boolean,
): Promise<MemberKeys> {
  const keys = await findIssued(transaction, caller.accountId, personId);
  if (isRevoking) await revoke(transaction, caller, keys.filter(isRevocable));
  return {
    keys: keys
      .filter((key) => maySee(caller, key))
      .map((key) => toMemberKey({ ...key, ...(isRevoking && isRevocable(key) && { status: 'revoked' }) })),
    unknownIssuerCount: await countUnknown(transaction, caller),
  };
}

type Issued = MemberKey & { projectId: string | null };

function findIssued(queryable: Queryable, accountId: string, personId: string): Promise<Issued[]> {
  return queryable.query<Issued>(sql`
    select keys.id, keys.kind, keys.name, keys.start, keys.role, projects.slug as project, keys.project_id as "projectId",
           case when keys.rotated_at is null then 'active' else 'rotated' end as status
    from keys left join projects on projects.id = keys.project_id
    where keys.account_id = ${accountId} and keys.issued_by = ${personId} and ${isWorking}
    order by keys.created_at, keys.id`);
}

/**
 * How many keys of the projects that the caller sees have no known issuer. Publishable keys are public, and a deleted project
 * has no key that works.
 */
async function countUnknown(queryable: Queryable, { accountId, projects }: AccountCaller): Promise<number> {
  const [row] = await queryable.query<{ count: number }>(sql`
    select count(*)::int as count from keys left join projects on projects.id = keys.project_id
    where keys.account_id = ${accountId} and keys.issued_by is null and keys.kind <> 'publishable' and ${isWorking}
      and (keys.project_id is null or projects.deleted_at is null
        and (${projects === null} or keys.project_id = any (${[...(projects ?? [])]}::text[])))`);
  return row?.count ?? 0;
}

const isWorking = sql`
  (keys.revoked_at is null and (keys.expires_at is null or keys.expires_at > now()))`;

/** A project key also signs the tokens of users: it is rotated instead. */
function isRevocable({ kind }: Issued): boolean {
  return kind !== 'project';
}

async function revoke(transaction: Queryable, caller: AccountCaller, keys: readonly Issued[]): Promise<void> {
  if (keys.some((key) => !mayRevoke(caller, key))) throw errors.roleForbidden(caller.role);
  const ids = keys.map(({ id }) => id);
  await transaction.query(sql`insert into changes (key_id) select unnest(${ids}::text[])`);
  await transaction.query(sql`delete from console_sessions where key_id = any (${ids}::text[])`);
  await transaction.query(sql`delete from console_links where key_id = any (${ids}::text[])`);
  await transaction.query(
    sql`update keys set revoked_at = now() where id = any (${ids}::text[]) and revoked_at is null`,
  );
  if (keys.some(({ role }) => role === 'owner')) await requireOwnerLeft(transaction, caller.accountId);
}

/** What the caller could revoke one by one. Somebody who leaves may have had another role when they issued it. */
function mayRevoke(caller: AccountCaller, { role, projectId }: Issued): boolean {
  if (role !== null) return isAllowed(caller.role, 'account.manage') && rankOf(role) <= rankOf(caller.role);
  return isAllowed(caller.role, 'projects.manage') && seesProject(caller, projectId ?? '');
}

function maySee(caller: AccountCaller, { projectId }: Issued): boolean {
  return projectId === null || seesProject(caller, projectId);
}

function toMemberKey({ projectId: _, ...key }: Issued): MemberKey {
  return key;
}

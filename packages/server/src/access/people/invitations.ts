// Invitations to an account: a link that works once. Whoever has it becomes a member, as the person with the invited address:
// a new one, who chooses a password, or one that exists, who proves to be that person by signing in.

import type { Invitation, InviteMember, Role } from '@rowhouse/api';
import type { Logger } from 'pino';
import type { Control } from '../../control/control.ts';
import { isId, newId } from '../../control/new-id.ts';
import { errors } from '../../errors/errors.ts';
import type { AccountCaller } from '../../keys/caller.ts';
import type { Queryable } from '../../postgres/admin/database.ts';
import { type Sql, sql } from '../../postgres/sql.ts';
import { invitationDays, maxMembers } from '../../settings/limits/people.ts';
import { readEmail, readNewEmail } from '../mail/emails.ts';
import type { PeopleMail } from './mail.ts';
import { requireRank, resolveProjects } from './members.ts';
import { hashPassword, type PasswordDeps } from './passwords.ts';
import { hashSecret, newSecret } from './secrets.ts';
import { countInvitation } from './sign-in-attempts.ts';

type Deps = { control: Control; now: () => number };
export type MailDeps = Deps & { peopleMail: PeopleMail; log: Logger };
type Inviter = Pick<AccountCaller, 'accountId' | 'role' | 'keyId' | 'person'>;
type Row = {
  id: string;
  email: string;
  role: Role;
  projects: string[] | null;
  createdAt: Date;
  expiresAt: Date;
};

const columns = sql`
  id, email, role, created_at as "createdAt", expires_at as "expiresAt",
  case when projects is not null then (
    select coalesce(array_agg(slug order by slug), '{}') from projects
    where projects.id = any (invitations.projects)) end as projects`;

/**
 * Mails the link, or returns it if that is not possible. A link that was only mailed proves the address: whoever invites
 * never gets to see it.
 */
export async function invite(
  deps: MailDeps,
  caller: Inviter,
  input: InviteMember,
): Promise<{ invitation: Invitation; link: string | null }> {
  const { control, peopleMail } = deps;
  if (peopleMail.isConfigured)
    await countInvitation(control, caller.accountId, readNewEmail(input.email).key);
  const made = await control.transaction((transaction) => insertInvitation(deps, transaction, caller, input));
  return { invitation: made.invitation, link: await mailInvitation(deps, made) };
}

type Made = { invitation: Invitation; code: string; account: { id: string; name: string } };

/** After the transaction of the invitation. Returns the link if it was not mailed, or if that could not be noted; never throws. */
export async function mailInvitation(
  { control, peopleMail, log }: MailDeps,
  { invitation: { id, email, expires_at }, code, account }: Made,
): Promise<string | null> {
  const link = peopleMail.link('invitation', code);
  if (!peopleMail.isConfigured) return link;
  try {
    await peopleMail.send({
      kind: 'member_invitation',
      account,
      email,
      link,
      expiresAt: new Date(expires_at),
    });
    await control.change(sql`update invitations set is_mailed = true where id = ${id}`);
    return null;
  } catch (error) {
    log.warn({ err: error, invitation: id }, 'an invitation was not mailed');
    return link;
  }
}

/** Another invitation of the same address replaces the first one. */
export async function insertInvitation(
  { now }: Pick<Deps, 'now'>,
  transaction: Queryable,
  caller: Inviter,
  { email: given, role, projects }: InviteMember,
): Promise<Made> {
  const email = readNewEmail(given);
  requireRank(caller, role);
  const { accountId } = caller;
  const code = newSecret('invite');
  const expiresAt = new Date(now() + invitationDays * 86_400_000);
  const [account] = await transaction.query<{ id: string; name: string }>(
    sql`select id, name from accounts where id = ${accountId} for update`,
  );
  await checkRoom(transaction, accountId, email.key);
  const ids = await resolveProjects(transaction, accountId, role, projects);
  await transaction.query(
    sql`delete from invitations where account_id = ${accountId} and email_key = ${email.key}`,
  );
  const [row] = await transaction.query<Row>(sql`
    insert into invitations (id, account_id, email, email_key, role, projects, hash, invited_by, expires_at)
    values (${newId()}, ${accountId}, ${email.typed}, ${email.key}, ${role}, ${ids}::text[],
            ${hashSecret('invite', code)}, ${caller.person?.id ?? caller.keyId}, ${expiresAt})
    returning ${columns}`);
  if (!row || !account) throw new Error('The invitation was not stored.');
  return { invitation: toInvitation(row), code, account };
}

async function checkRoom(transaction: Queryable, accountId: string, emailKey: string): Promise<void> {
  const [found] = await transaction.query<{ isMember: boolean; count: number }>(sql`
    select exists (
             select from members join people on people.id = members.person_id
             where members.account_id = ${accountId} and people.email_key = ${emailKey}) as "isMember",
           ((select count(*) from members where account_id = ${accountId})
            + (select count(*) from invitations where account_id = ${accountId} and expires_at > now()))::int as count`);
  if (found?.isMember)
    throw errors.conflict(
      'This person is already a member.',
      'Change the role: PATCH …/account/members/:id.',
    );
  if (found && found.count >= maxMembers)
    throw errors.conflict(`The account has ${maxMembers} members and invitations.`, 'Remove some of them.');
}

/** Those that can still be used. */
export async function listInvitations({ control, now }: Deps, accountId: string): Promise<Invitation[]> {
  const rows = await control.query<Row>(sql`
    select ${columns} from invitations
    where account_id = ${accountId} and expires_at > ${new Date(now())} order by created_at, id`);
  return rows.map(toInvitation);
}

export async function revokeInvitation({ control }: Deps, caller: AccountCaller, id: string): Promise<void> {
  const known = sql`account_id = ${caller.accountId} and id = ${isId(id) ? id : ''}`;
  await control.transaction(async (transaction) => {
    const [row] = await transaction.query<{ role: Role }>(
      sql`select role from invitations where ${known} for update`,
    );
    if (!row) throw errors.memberNotFound(id);
    requireRank(caller, row.role);
    await transaction.query(sql`delete from invitations where ${known}`);
  });
}

export type Opened = Readonly<{
  email: string;
  role: Role;
  account: { id: string; name: string };
  /** Somebody with this address exists: the password is the present one. */
  isKnown: boolean;
  /** The address of the person who invites. null: a key of the account. */
  invitedBy: string | null;
}>;

/** What an invitation says to whoever opens it. */
export async function openInvitation({ control, now }: Deps, code: string): Promise<Opened> {
  const [row] = await control.query<{
    email: string;
    role: Role;
    accountId: string;
    accountName: string;
    isKnown: boolean;
    invitedBy: string | null;
  }>(sql`
    select invitations.email, invitations.role, accounts.id as "accountId", accounts.name as "accountName",
           exists (select from people where people.email_key = invitations.email_key) as "isKnown",
           (select people.email from people where people.id = invitations.invited_by) as "invitedBy"
    from invitations join accounts on accounts.id = invitations.account_id
    where hash = ${hashSecret('invite', code)} and expires_at > ${new Date(now())} and accounts.deleted_at is null
      and ${isStillBacked}`);
  if (!row) throw errors.invalidInvitation();
  const { email, role, isKnown, invitedBy } = row;
  return { email, role, isKnown, invitedBy, account: { id: row.accountId, name: row.accountName } };
}

/** A new person, who chooses a password. Returns its id. */
export async function acceptAsNew(
  deps: Deps & PasswordDeps,
  code: string,
  password: string,
): Promise<{ personId: string; accountId: string }> {
  const { isKnown } = await openInvitation(deps, code);
  if (isKnown) throw errors.personExists();
  const hash = await hashPassword(deps, password);
  return use(deps, code, async (transaction, { email, emailKey, isMailed }) => {
    const [made] = await transaction.query<{ id: string }>(sql`
      insert into people (id, email, email_key, password_hash, email_proved_at)
      values (${newId()}, ${email}, ${emailKey}, ${hash}, case when ${isMailed} then now() end)
      on conflict (email_key) do nothing returning id`);
    if (!made) throw errors.personExists();
    return made.id;
  });
}

/** For a person who is signed in, in whatever way. The invitation must be for their own address. */
export async function acceptSignedIn(
  deps: Deps,
  code: string,
  person: { id: string; email: string },
): Promise<{ accountId: string }> {
  const { email } = await openInvitation(deps, code);
  if (readEmail(email).key !== readEmail(person.email).key) throw errors.invitedOther(email, person.email);
  return acceptAs(deps, code, person.id);
}

/** For a person who has proved who they are. The caller has checked that the invitation is for their address. */
export async function acceptAs(
  deps: Deps,
  code: string,
  personId: string,
): Promise<{ personId: string; accountId: string }> {
  return use(deps, code, async (transaction, { emailKey, isMailed }) => {
    await transaction.query(sql`
      update people set email_proved_at = now()
      where id = ${personId} and ${isMailed} and email_key = ${emailKey} and email_proved_at is null`);
    return personId;
  });
}

/** Whoever invited is still there, and might still invite to that role: who was removed must not come back by an own invitation. */
const isStillBacked = sql`(
  exists (select from members where members.account_id = invitations.account_id and person_id = invited_by
            and ${mayInvite(sql`members.role`)})
  or exists (select from keys where keys.account_id = invitations.account_id and keys.id = invited_by
            and revoked_at is null and (keys.expires_at is null or keys.expires_at > now())
            and ${mayInvite(sql`keys.role`)}))`;

function mayInvite(role: Sql): Sql {
  return sql`(${role} = 'owner' or (${role} = 'admin' and invitations.role <> 'owner'))`;
}

/** The link is used up by the transaction that adds the member: of two requests with one link, one succeeds. */
async function use(
  { control, now }: Deps,
  code: string,
  findPerson: (
    transaction: Queryable,
    invitation: { email: string; emailKey: string; isMailed: boolean },
  ) => Promise<string>,
): Promise<{ personId: string; accountId: string }> {
  return control.transaction(async (transaction) => {
    const [used] = await transaction.query<{
      accountId: string;
      email: string;
      emailKey: string;
      isMailed: boolean;
      role: Role;
      projects: string[] | null;
    }>(sql`
      delete from invitations where hash = ${hashSecret('invite', code)} and expires_at > ${new Date(now())}
        and ${isStillBacked}
      returning account_id as "accountId", email, email_key as "emailKey", is_mailed as "isMailed", role, projects`);
    if (!used) throw errors.invalidInvitation();
    const personId = await findPerson(transaction, used);
    await transaction.query(sql`
      insert into members (account_id, person_id, role, projects)
      values (${used.accountId}, ${personId}, ${used.role}, ${used.projects}::text[])
      on conflict (account_id, person_id) do nothing`);
    return { personId, accountId: used.accountId };
  });
}

/** All invitations of an address that was proved another way. Returns how many. */
export async function acceptAllFor(
  transaction: Queryable,
  emailKey: string,
  personId: string,
): Promise<number> {
  const rows = await transaction.query(sql`
    with used as (
      delete from invitations using accounts
      where accounts.id = invitations.account_id and accounts.deleted_at is null
        and email_key = ${emailKey} and expires_at > now() and ${isStillBacked}
      returning account_id, invitations.role, invitations.projects)
    insert into members (account_id, person_id, role, projects)
    select account_id, ${personId}, role, projects from used
    on conflict (account_id, person_id) do nothing returning 1`);
  return rows.length;
}

/** Called by the background work. */
export async function forgetOldInvitations({ control }: Deps): Promise<void> {
  await control.query(sql`delete from invitations where expires_at < now() - interval '30 days'`);
  await control.query(sql`delete from person_codes where expires_at < now()`);
}

function toInvitation({ createdAt, expiresAt, ...row }: Row): Invitation {
  return { ...row, created_at: createdAt.toISOString(), expires_at: expiresAt.toISOString() };
}

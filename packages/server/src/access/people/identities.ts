// Which person somebody is who signed in with another provider: the one to whom this identity was linked. The first time, the
// verified address decides, if it cannot make anybody another person than before.
import type { Control } from '../../control/control.ts';
import { newId } from '../../control/new-id.ts';
import { errors } from '../../errors/errors.ts';
import type { Queryable } from '../../postgres/admin/database.ts';
import { type Sql, sql } from '../../postgres/sql.ts';
import { readNewEmail } from '../mail/emails.ts';
import { acceptAllFor } from './invitations.ts';
import type { PeopleMail } from './mail.ts';
import type { Identity, Provider } from './provider.ts';
import { hasFactor } from './second-factor.ts';

type Deps = { control: Control };
type MailDeps = Deps & { peopleMail: PeopleMail };

/** Whoever has an address of a listed domain joins the first account, and sees. Its admins can give more. */
const joined = { accountId: 'default', role: 'viewer' };

export async function findPerson(deps: MailDeps, provider: Provider, identity: Identity): Promise<string> {
  const { issuer, subject } = identity;
  const [linked] = await deps.control.change<{ personId: string }>(sql`
    update person_identities set last_used_at = now() where issuer = ${issuer} and subject = ${subject}
    returning person_id as "personId"`);
  return linked?.personId ?? firstSignIn(deps, provider, identity);
}

async function firstSignIn(
  { control, peopleMail }: MailDeps,
  provider: Provider,
  identity: Identity,
): Promise<string> {
  if (identity.email === null) throw errors.providerEmailUnverified(provider.name);
  const email = readNewEmail(identity.email);
  const { personId, isKnown } = await control.transaction(async (transaction) => {
    const [known] = await transaction.query<{ id: string; mayLink: boolean }>(sql`
      select id, ${mayLink(identity.issuer)} as "mayLink" from people where email_key = ${email.key} for update`);
    if (known && !known.mayLink) throw errors.providerNotLinked(provider.name);
    const personId = known?.id ?? (await addPerson(transaction, provider, email));
    await link(transaction, personId, identity);
    return { personId, isKnown: known !== undefined };
  });
  if (isKnown) peopleMail.notifyLater('member_provider_connected', email.typed);
  return personId;
}

/**
 * Whether the address alone may decide. Not if nobody has proved it yet: whoever made that person may be somebody else. Nor if
 * the provider knew the person as somebody else: the address was given to another person there. Nor if the person has a
 * second factor, which would have to be proved first.
 */
function mayLink(issuer: string): Sql {
  return sql`(
    email_proved_at is not null and not ${hasFactor}
    and not exists (select from person_identities where person_id = people.id and issuer = ${issuer}))`;
}

/** Only what the invitations give, or the operator for the domain. */
async function addPerson(
  transaction: Queryable,
  { name, domains }: Provider,
  email: { typed: string; key: string },
): Promise<string> {
  const id = newId();
  const [made] = await transaction.query(sql`
    insert into people (id, email, email_key, email_proved_at) values (${id}, ${email.typed}, ${email.key}, now())
    on conflict (email_key) do nothing returning 1`);
  // Another request was faster. The next one finds that person.
  if (!made) throw errors.invalidProviderAnswer(name);
  const accepted = await acceptAllFor(transaction, email.key, id);
  const domain = email.key.slice(email.key.lastIndexOf('@') + 1);
  if (!domains.includes(domain)) {
    if (accepted === 0) throw errors.providerNotInvited(email.typed);
    return id;
  }
  // Before those of the invitations, which anybody can send: the session opens in the account that was joined first.
  await transaction.query(sql`
    insert into members (account_id, person_id, role, created_at)
    select id, ${id}, ${joined.role}, now() - interval '1 second' from accounts where id = ${joined.accountId} and deleted_at is null
    on conflict (account_id, person_id) do nothing`);
  return id;
}

/** For a person who has signed in another way. */
export async function linkIdentity({ control }: Deps, personId: string, identity: Identity): Promise<void> {
  await control.transaction((transaction) => link(transaction, personId, identity));
}

async function link(transaction: Queryable, personId: string, identity: Identity): Promise<void> {
  const { issuer, subject } = identity;
  const [row] = await transaction.query<{ personId: string }>(sql`
    insert into person_identities as known (issuer, subject, person_id, last_used_at)
    values (${issuer}, ${subject}, ${personId}, now())
    on conflict (issuer, subject) do update set last_used_at = now() where known.person_id = ${personId}
    returning person_id as "personId"`);
  if (!row) throw errors.identityTaken();
}

export async function isLinked({ control }: Deps, personId: string, issuer: string): Promise<boolean> {
  const rows = await control.query(
    sql`select 1 from person_identities where person_id = ${personId} and issuer = ${issuer} limit 1`,
  );
  return rows.length > 0;
}

/** Keeps another way to sign in. */
export async function unlinkIdentities({ control }: Deps, personId: string): Promise<void> {
  await control.transaction(async (transaction) => {
    const [person] = await transaction.query<{ hasOther: boolean }>(sql`
      select password_hash is not null or exists (select from passkeys where person_id = people.id) as "hasOther"
      from people where id = ${personId} for update`);
    if (!person?.hasOther)
      throw errors.conflict('You could no longer sign in.', 'Add a passkey first, or set a password.');
    await dropIdentities(transaction, personId);
  });
}

export async function dropIdentities(transaction: Queryable, personId: string): Promise<void> {
  await transaction.query(sql`delete from person_identities where person_id = ${personId}`);
}

// Sessions of the console. A request needs both halves: the cookie, which a server on another port of the same host gets too,
// and the token, which only pages of the console's origin can read. Each request reads the session together with its key
// from the control database, not from a cache: what ends the key, narrows it or ends the session counts at once in every
// process.

import { timingSafeEqual } from 'node:crypto';
import type { Role } from '@rowhouse/api';
import type { Control } from '../../control/control.ts';
import { newId } from '../../control/new-id.ts';
import { errors } from '../../errors/errors.ts';
import type { Caller } from '../../keys/caller.ts';
import { isOperatorRole, rankOf } from '../../keys/roles.ts';
import { type CallerRow, callerColumns, toCaller } from '../../keys/verify.ts';
import { type Sql, sql } from '../../postgres/sql.ts';
import {
  sessionConfirmedMs,
  sessionIdleMs,
  sessionMaxMs,
  sessionsPerKey,
} from '../../settings/limits/console-sessions.ts';
import { hashSecret, newSecret } from './secrets.ts';

/** How exact the time of the last request is. */
const seenMs = 60_000;

type Deps = { control: Control; now: () => number };
export type ConsoleSession = Readonly<{
  id: string;
  caller: Caller;
  account: { id: string; name: string };
  /** Why the account is suspended. A person's session then reaches only the own profile and other accounts. */
  suspendedBecause: string | null;
  /** The account requires a second factor, and the person has proved none: only the own profile can be used. */
  lacksSecondFactor: boolean;
  expiresAt: Date;
  confirmedUntil: Date;
}>;
export type Halves = Readonly<{ cookie: string; token: string }>;
/** Where a sign-in comes from. */
export type Visitor = Readonly<{
  address: string;
  userAgent: string | null;
  /** The cookies that the new one replaces. Their sessions end. */
  cookies: readonly string[];
}>;
/** What was proved: a link from the start, an API key, or who a person is. `accountId` null: the first account of the person. */
export type Proof = Readonly<
  | { link: string }
  | { caller: Caller }
  | { personId: string; accountId: string | null; hasSecondFactor: boolean }
>;

export async function signIn(
  deps: Deps,
  proof: Proof,
  visitor: Visitor,
): Promise<{ session: ConsoleSession; halves: Halves }> {
  const { control, now } = deps;
  const halves = { cookie: newSecret('cookie'), token: newSecret('token') };
  const at = now();
  const [seen, end, confirmedUntil] = [at, at + sessionMaxMs, at + sessionConfirmedMs].map(
    (ms) => new Date(ms),
  );
  const made = await control.change<Owner>(sql`
    with ${provedOwner(proof, new Date(at))},
    -- Only by a sign-in that succeeds: a link that is invalid can come from any website.
    replaced as (
      delete from console_sessions
      where cookie_hash = any (${hashesOf(visitor.cookies)}::bytea[]) and exists (select from proved)),
    noted as (
      update people set last_sign_in_at = ${seen}::timestamptz where id in (select person_id from proved))
    insert into console_sessions (id, account_id, key_id, person_id, has_second_factor, cookie_hash, token_hash,
                                  address, user_agent, created_at, seen_at, expires_at, confirmed_until)
    select ${newId()}, account_id, key_id, person_id, ${'personId' in proof && proof.hasSecondFactor},
           ${hashSecret('cookie', halves.cookie)}::bytea, ${hashSecret('token', halves.token)}::bytea,
           ${visitor.address}, ${visitor.userAgent}::text, ${seen}::timestamptz, ${seen},
           least(${end}::timestamptz, ends_at), ${confirmedUntil}::timestamptz
    from proved
    returning key_id as "keyId", person_id as "personId"`);
  if (!made[0]) throw refusalOf(proof);
  await endOldest(control, made[0]);
  const session = await findSession(deps, halves.token, [halves.cookie]);
  if (!session) throw errors.sessionRequired();
  return { session, halves };
}

/** Either is null. */
type Owner = { keyId: string | null; personId: string | null };

/** The link is used up by the statement that opens the session: of two requests with one link, one gets a session. */
function provedOwner(proof: Proof, at: Date): Sql {
  if ('personId' in proof) {
    return sql`proved as (
      select members.account_id, null::text as key_id, members.person_id, null::timestamptz as ends_at
      from members join accounts on accounts.id = members.account_id
      where members.person_id = ${proof.personId} and accounts.deleted_at is null
        and (${proof.accountId}::text is null or members.account_id = ${proof.accountId})
      order by accounts.suspended_at is not null, members.created_at, members.account_id limit 1)`;
  }
  const key =
    'caller' in proof
      ? sql`select ${proof.caller.keyId}::text as key_id`
      : sql`delete from console_links where hash = ${hashSecret('link', proof.link)} and expires_at > ${at} returning key_id`;
  return sql`given as (${key}),
    proved as (
      select keys.account_id, keys.id as key_id, null::text as person_id, keys.expires_at as ends_at
      from keys join given on given.key_id = keys.id where keys.revoked_at is null and keys.account_id is not null)`;
}

function refusalOf(proof: Proof): Error {
  if ('link' in proof) return errors.invalidLink();
  return 'personId' in proof ? errors.noAccount() : errors.invalidApiKey();
}

async function endOldest(control: Control, owner: Owner): Promise<void> {
  await control.query(sql`
    delete from console_sessions where id in (
      select id from console_sessions where ${ownedBy(owner)}
      order by seen_at desc, created_at desc offset ${sessionsPerKey})`);
}

function ownedBy({ keyId, personId }: Owner): Sql {
  return personId === null ? sql`key_id = ${keyId}` : sql`person_id = ${personId}`;
}

function ownerOf({ caller }: ConsoleSession): Owner {
  const personId = caller.kind === 'account' ? (caller.person?.id ?? null) : null;
  return { keyId: caller.keyId, personId };
}

type Row = Omit<CallerRow, 'kind'> & {
  /** null: the session is a person's. */
  kind: CallerRow['kind'] | null;
  personId: string | null;
  email: string | null;
  memberRole: Role | null;
  memberProjects: string[] | null;
  hasSecondFactor: boolean;
  requiresSecondFactor: boolean;
  sessionAccountId: string;
  sessionId: string;
  cookieHash: Buffer;
  accountName: string;
  seenAt: Date;
  endsAt: Date;
  confirmedUntil: Date;
};

/**
 * `isUse`: the session goes on for longer. null: no such session, or it has ended. Found by the token, and then compared with
 * the cookies: another server on this host can add a cookie of the same name, but not remove this one.
 */
export async function findSession(
  { control, now }: Deps,
  token: string,
  cookies: readonly string[],
  isUse = true,
): Promise<ConsoleSession | null> {
  const hash = hashSecret('token', token);
  const given = hashesOf(cookies);
  if (hash === null || given.length === 0) return null;
  const at = now();
  const [row] = await control.query<Row>(sql`
    select ${callerColumns}, accounts.name as "accountName", console_sessions.id as "sessionId",
           console_sessions.account_id as "sessionAccountId", console_sessions.person_id as "personId",
           console_sessions.has_second_factor as "hasSecondFactor",
           accounts.requires_second_factor as "requiresSecondFactor", people.email,
           members.role as "memberRole", members.projects as "memberProjects",
           console_sessions.cookie_hash as "cookieHash", console_sessions.seen_at as "seenAt",
           console_sessions.expires_at as "endsAt", console_sessions.confirmed_until as "confirmedUntil"
    from console_sessions
    join accounts on accounts.id = console_sessions.account_id
    left join keys on keys.id = console_sessions.key_id
    left join projects on projects.id = keys.project_id
    left join people on people.id = console_sessions.person_id
    left join members on members.person_id = people.id and members.account_id = accounts.id
    where console_sessions.token_hash = ${hash} and ${isLive(at)}
      and accounts.deleted_at is null
      and (console_sessions.person_id is not null or keys.revoked_at is null)
      and (keys.expires_at is null or keys.expires_at > ${new Date(at)})
      and (keys.project_id is null or projects.deleted_at is null)`);
  if (!row || !given.some((cookie) => timingSafeEqual(cookie, row.cookieHash))) return null;
  const caller = row.kind === null ? memberOf(row) : toCaller({ ...row, kind: row.kind });
  if (!caller) return null;
  if (isUse && at - row.seenAt.getTime() > seenMs) await noteUse(control, row.sessionId, at);
  return {
    id: row.sessionId,
    caller,
    account: { id: caller.accountId, name: row.accountName },
    suspendedBecause: row.suspendedBecause,
    lacksSecondFactor: row.personId !== null && row.requiresSecondFactor && !row.hasSecondFactor,
    expiresAt: row.endsAt,
    confirmedUntil: row.confirmedUntil,
  };
}

/** Read with every request: who is no longer a member, or has another role, has it at once. */
function memberOf(row: Row): Caller | null {
  const { personId, email, memberRole: role, memberProjects: projects } = row;
  if (personId === null || email === null || role === null) return null;
  return {
    kind: 'account',
    keyId: personId,
    accountId: row.sessionAccountId,
    role,
    projects,
    isOperator: isOperatorRole(role) && row.isOperator === true,
    person: { id: personId, email },
    maxPerSecond: row.maxPerSecond,
    expiresAt: null,
  };
}

function isLive(at: number): Sql {
  const idleSince = new Date(at - sessionIdleMs);
  return sql`console_sessions.expires_at > ${new Date(at)} and console_sessions.seen_at > ${idleSince}`;
}

async function noteUse(control: Control, id: string, at: number): Promise<void> {
  await control.query(sql`
    update console_sessions set seen_at = greatest(seen_at, ${new Date(at)}) where id = ${id}`);
}

/** At most as many as a browser would send. */
function hashesOf(cookies: readonly string[]): Buffer[] {
  return cookies.slice(0, 8).flatMap((cookie) => hashSecret('cookie', cookie) ?? []);
}

/** Proved by the session's own key, or by a key of the account. A person proves the password instead. */
export function requireOwnKey(session: ConsoleSession, proved: Caller): void {
  const isOwner =
    proved.keyId === session.caller.keyId ||
    (proved.kind === 'account' &&
      proved.accountId === session.caller.accountId &&
      rankOf(proved.role) >= rankOf(session.caller.kind === 'account' ? session.caller.role : 'developer'));
  if (!isOwner) {
    throw errors.forbidden(
      'This API key is not the one with which the session was opened.',
      'Enter the key with which you signed in, or an account key.',
    );
  }
}

/** For some minutes, the session may read keys and connection strings. A passkey also proves the second factor. */
export async function confirm(
  { control, now }: Deps,
  session: ConsoleSession,
  { hasSecondFactor }: { hasSecondFactor: boolean },
): Promise<ConsoleSession> {
  const confirmedUntil = new Date(now() + sessionConfirmedMs);
  await control.change(sql`
    update console_sessions
    set confirmed_until = ${confirmedUntil}, has_second_factor = has_second_factor or ${hasSecondFactor}
    where id = ${session.id}`);
  return { ...session, confirmedUntil, lacksSecondFactor: session.lacksSecondFactor && !hasSecondFactor };
}

export type ListedSession = Readonly<{
  id: string;
  address: string;
  userAgent: string | null;
  createdAt: Date;
  seenAt: Date;
  expiresAt: Date;
}>;

/** The sessions of the same owner, the last used first. */
export async function listSessions(
  { control, now }: Deps,
  session: ConsoleSession,
): Promise<ListedSession[]> {
  return control.query<ListedSession>(sql`
    select id, address, user_agent as "userAgent", created_at as "createdAt", seen_at as "seenAt",
           expires_at as "expiresAt"
    from console_sessions where ${ownedBy(ownerOf(session))} and ${isLive(now())}
    order by seen_at desc, created_at desc`);
}

/** Ends a session of the same owner. */
export async function endSession(
  { control }: Pick<Deps, 'control'>,
  session: ConsoleSession,
  id: string,
): Promise<void> {
  const ended = await control.change(
    sql`delete from console_sessions where id = ${id} and ${ownedBy(ownerOf(session))} returning 1`,
  );
  if (ended.length === 0) throw errors.consoleSessionNotFound();
}

/** Ends all other sessions of the same owner. */
export async function endOtherSessions(
  { control }: Pick<Deps, 'control'>,
  session: ConsoleSession,
): Promise<void> {
  await control.change(
    sql`delete from console_sessions where id <> ${session.id} and ${ownedBy(ownerOf(session))}`,
  );
}

/** The person goes on in another account. */
export async function switchAccount(
  { control }: Pick<Deps, 'control'>,
  session: ConsoleSession,
  accountId: string,
): Promise<void> {
  const changed = await control.change(sql`
    update console_sessions set account_id = members.account_id
    from members join accounts on accounts.id = members.account_id
    where console_sessions.id = ${session.id} and members.person_id = console_sessions.person_id
      and members.account_id = ${accountId.includes('\0') ? '' : accountId} and accounts.deleted_at is null
    returning 1`);
  if (changed.length === 0) throw errors.accountNotFound(accountId);
}

/** Called by the background work. A key that was revoked and is set again must not bring back its sessions. */
export async function forgetEndedSessions({ control, now }: Deps): Promise<void> {
  const at = now();
  await control.query(sql`
    delete from console_sessions where not (${isLive(at)})
       or exists (select from keys where keys.id = console_sessions.key_id and keys.revoked_at is not null)`);
  await control.query(sql`delete from console_links where expires_at < ${new Date(at)}`);
}

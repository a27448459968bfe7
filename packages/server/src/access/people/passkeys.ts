// Passkeys of a person: WebAuthn credentials that verify the person by themselves (by a PIN or a finger), so that one counts as
// two factors. The origin comes from the configuration, never from a request.

import { isIP } from 'node:net';
import type { Passkey, PasskeyAnswer } from '@rowhouse/api';
import type { AuthenticationResponseJSON, RegistrationResponseJSON } from '@simplewebauthn/server';
import type { Control } from '../../control/control.ts';
import { isId, newId } from '../../control/new-id.ts';
import { errors } from '../../errors/errors.ts';
import { isLoopback, withoutBrackets } from '../../lib/networks.ts';
import type { Queryable } from '../../postgres/admin/database.ts';
import { sql } from '../../postgres/sql.ts';
import { maxPasskeys, passkeyChallengeMinutes } from '../../settings/limits/people.ts';
import { isChallenge, newChallenge, useChallenge } from './challenges.ts';

/** Where passkeys are valid: WebAuthn's relying party. */
export type RelyingParty = Readonly<{ id: string; origin: string }>;
export type PasskeyDeps = {
  control: Control;
  masterKey: Buffer;
  now: () => number;
  /** null: the console has no address under which browsers know passkeys. */
  relyingParty: RelyingParty | null;
};

const timeout = passkeyChallengeMinutes * 60_000;
const signingIn = 'sign in with a passkey';
const adding = (personId: string) => `add a passkey of ${personId}`;
/** ES256, EdDSA, RS256: what authenticators have. */
const supportedAlgorithmIDs = [-7, -8, -257];

/** Browsers know passkeys for names only. On this machine the name is localhost, whose other ports are other origins. */
export function relyingPartyOf(page: string | null): RelyingParty | null {
  if (page === null || !URL.canParse(page)) return null;
  const { protocol, hostname, port, origin } = new URL(page);
  if (isLoopback(hostname))
    return { id: 'localhost', origin: `${protocol}//localhost${port === '' ? '' : `:${port}`}` };
  return isIP(withoutBrackets(hostname)) ? null : { id: hostname, origin };
}

type Row = {
  id: string;
  name: string;
  isBackedUp: boolean;
  createdAt: Date;
  lastUsedAt: Date | null;
};
const columns = sql`
  id, name, is_backed_up as "isBackedUp", created_at as "createdAt", last_used_at as "lastUsedAt"`;

export async function listPasskeys({ control }: PasskeyDeps, personId: string): Promise<Passkey[]> {
  const rows = await control.query<Row>(
    sql`select ${columns} from passkeys where person_id = ${personId} order by created_at, id`,
  );
  return rows.map(toPasskey);
}

/** What the browser needs to make one. Excludes authenticators that have one already. */
export async function beginPasskey(
  deps: PasskeyDeps,
  person: { id: string; email: string },
): Promise<Record<string, unknown>> {
  const { id } = requireParty(deps);
  const known = await deps.control.query<{ credentialId: Buffer }>(
    sql`select credential_id as "credentialId" from passkeys where person_id = ${person.id}`,
  );
  refuseTooMany(known.length);
  const { generateRegistrationOptions } = await webAuthn();
  const options = await generateRegistrationOptions({
    rpName: 'Rowhouse',
    rpID: id,
    userName: person.email,
    userID: toBytes(Buffer.from(person.id)),
    challenge: toBytes(newChallenge(deps, adding(person.id))),
    timeout,
    attestationType: 'none',
    supportedAlgorithmIDs,
    excludeCredentials: known.map(({ credentialId }) => ({ id: credentialId.toString('base64url') })),
    authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
  });
  return { ...options };
}

export async function addPasskey(
  deps: PasskeyDeps,
  { personId, sessionId }: { personId: string; sessionId: string },
  name: string,
  answer: PasskeyAnswer,
): Promise<Passkey> {
  const { id, origin } = requireParty(deps);
  const { verifyRegistrationResponse } = await webAuthn();
  const verified = await verifyRegistrationResponse({
    response: answer as unknown as RegistrationResponseJSON,
    expectedOrigin: origin,
    expectedRPID: id,
    requireUserVerification: true,
    supportedAlgorithmIDs,
    expectedChallenge: (text) => isChallenge(deps, adding(personId), text),
  }).catch(() => null);
  if (!verified?.verified) throw errors.invalidPasskey();
  if (!(await useChallenge(deps, challengeOf(answer)))) throw errors.invalidPasskey();
  const { credential, credentialBackedUp } = verified.registrationInfo;
  const row = await deps.control.transaction(async (transaction) => {
    await transaction.query(sql`select from people where id = ${personId} for update`);
    const [{ count } = { count: 0 }] = await transaction.query<{ count: number }>(
      sql`select count(*)::int as count from passkeys where person_id = ${personId}`,
    );
    refuseTooMany(count);
    const [made] = await transaction.query<Row>(sql`
      insert into passkeys (id, person_id, credential_id, public_key, counter, transports, is_backed_up, name)
      values (${newId()}, ${personId}, ${Buffer.from(credential.id, 'base64url')}, ${Buffer.from(credential.publicKey)},
              ${credential.counter}, ${credential.transports ?? []}::text[], ${credentialBackedUp}, ${name.trim()})
      on conflict (credential_id) do nothing returning ${columns}`);
    // The authenticator has verified the person: this session has proved the factor now.
    if (made)
      await transaction.query(
        sql`update console_sessions set has_second_factor = true where id = ${sessionId}`,
      );
    return made;
  });
  // Also if it is another person's: a credential belongs to whoever registered it first.
  if (!row) throw errors.invalidPasskey();
  return toPasskey(row);
}

/** For whoever wants to sign in: nobody knows yet who that is. */
export async function beginPasskeySignIn(deps: PasskeyDeps): Promise<Record<string, unknown>> {
  const { generateAuthenticationOptions } = await webAuthn();
  const options = await generateAuthenticationOptions({
    rpID: requireParty(deps).id,
    timeout,
    userVerification: 'required',
    challenge: toBytes(newChallenge(deps, signingIn)),
  });
  return { ...options };
}

/** The person whose passkey signed the challenge. It counts once. */
export async function provePasskey(deps: PasskeyDeps, answer: PasskeyAnswer): Promise<string> {
  const { id, origin } = requireParty(deps);
  const [found] = await deps.control.query<Found>(sql`
    select id, person_id as "personId", public_key as "publicKey", counter::float8 as counter
    from passkeys where credential_id = ${Buffer.from(answer.id, 'base64url')}`);
  if (!found || !isHandleOf(answer, found.personId)) throw errors.invalidPasskey();
  const { verifyAuthenticationResponse } = await webAuthn();
  const verified = await verifyAuthenticationResponse({
    response: answer as unknown as AuthenticationResponseJSON,
    expectedOrigin: origin,
    expectedRPID: id,
    requireUserVerification: true,
    expectedChallenge: (text) => isChallenge(deps, signingIn, text),
    credential: { id: answer.id, publicKey: toBytes(found.publicKey), counter: found.counter },
  }).catch(() => null);
  if (!verified?.verified) throw errors.invalidPasskey();
  if (!(await useChallenge(deps, challengeOf(answer)))) throw errors.invalidPasskey();
  const { newCounter, credentialBackedUp } = verified.authenticationInfo;
  const [used] = await deps.control.change<{ personId: string }>(sql`
    update passkeys set counter = ${newCounter}, is_backed_up = ${credentialBackedUp}, last_used_at = now()
    where id = ${found.id} and (counter < ${newCounter} or (counter = 0 and ${newCounter} = 0))
    returning person_id as "personId"`);
  if (!used) throw errors.invalidPasskey();
  return used.personId;
}

export async function renamePasskey(
  { control }: PasskeyDeps,
  personId: string,
  id: string,
  name: string,
): Promise<Passkey> {
  const [row] = await control.change<Row>(sql`
    update passkeys set name = ${name.trim()} where person_id = ${personId} and id = ${isId(id) ? id : ''}
    returning ${columns}`);
  if (!row) throw errors.passkeyNotFound();
  return toPasskey(row);
}

export async function removePasskey({ control }: PasskeyDeps, personId: string, id: string): Promise<void> {
  const removed = await control.change(sql`
    delete from passkeys where person_id = ${personId} and id = ${isId(id) ? id : ''} returning 1`);
  if (removed.length === 0) throw errors.passkeyNotFound();
}

export async function dropPasskeys(transaction: Queryable, personId: string): Promise<void> {
  await transaction.query(sql`delete from passkeys where person_id = ${personId}`);
}

type Found = { id: string; personId: string; publicKey: Buffer; counter: number };

/** Loaded at the first use: it takes long, and many installations never need it. */
function webAuthn() {
  return import('@simplewebauthn/server');
}

function requireParty({ relyingParty }: PasskeyDeps): RelyingParty {
  if (!relyingParty) throw errors.noPasskeys();
  return relyingParty;
}

function refuseTooMany(count: number): void {
  if (count >= maxPasskeys)
    throw errors.conflict(`You have ${maxPasskeys} passkeys, which is the limit.`, 'Remove one of them.');
}

/** The challenge that an answer names. The answer was verified before. */
function challengeOf({ response }: PasskeyAnswer): string {
  return JSON.parse(Buffer.from(response.clientDataJSON, 'base64url').toString()).challenge;
}

/** Authenticators say for whom the passkey was made. */
function isHandleOf({ response: { userHandle } }: PasskeyAnswer, personId: string): boolean {
  return userHandle == null || Buffer.from(userHandle, 'base64url').toString() === personId;
}

/** The library wants arrays that are no Buffer. */
function toBytes(buffer: Buffer): Uint8Array<ArrayBuffer> {
  return new Uint8Array(buffer);
}

function toPasskey({ id, name, isBackedUp, createdAt, lastUsedAt }: Row): Passkey {
  return {
    id,
    name,
    is_backed_up: isBackedUp,
    created_at: createdAt.toISOString(),
    last_used_at: lastUsedAt?.toISOString() ?? null,
  };
}

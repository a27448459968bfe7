// The person behind a session.

import type { Provider } from '../../access/people/provider.ts';
import { requireOwnFactor } from '../../access/people/second-factor.ts';
import type { ConsoleSession } from '../../access/people/sessions.ts';
import { errors } from '../../errors/errors.ts';
import type { Deps } from '../deps.ts';

export type Person = Readonly<{ id: string; email: string }>;

/** null: the session is that of a key. */
export function personOf({ caller }: ConsoleSession): Person | null {
  return caller.kind === 'account' ? caller.person : null;
}

export function requirePerson(session: ConsoleSession): Person {
  const person = personOf(session);
  if (!person)
    throw errors.forbidden('This session is that of a key.', 'Sign in with an email address and a password.');
  return person;
}

/**
 * A way to sign in is for good: to change one, neither a session that somebody left open suffices, nor the password alone
 * where the person has a second factor.
 */
export async function requireConfirmedPerson(
  { now, control }: Deps,
  session: ConsoleSession,
): Promise<Person> {
  const person = requirePerson(session);
  if (session.confirmedUntil.getTime() <= now()) throw errors.personNotConfirmed();
  await requireOwnFactor(control, person.id, session.id);
  return person;
}

export function requireProvider({ provider }: Deps): Provider {
  if (!provider) throw errors.noProvider();
  return provider;
}

/** What the functions for people need. */
export function peopleOf({ control, users: { hashing }, masterKey, now, peopleMail }: Deps) {
  return { control, hashing, masterKey, now, peopleMail };
}

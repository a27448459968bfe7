// The person behind a session.
import { errors } from '../../errors.ts';
import type { ConsoleSession } from '../../people/sessions.ts';
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

/** What the functions for people need. */
export function peopleOf({ control, users: { hashing }, masterKey, now }: Deps) {
  return { control, hashing, masterKey, now };
}

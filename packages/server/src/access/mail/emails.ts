// Defines what a valid e-mail is and when two are the same. No other code may decide this: SQL's lower() and
// toLowerCase() differ for İ, and é has two encodings.
import { domainToASCII } from 'node:url';
import { errors } from '../../errors/errors.ts';

/** `typed`: as sent, trimmed. `key`: the normalized form, unique within a project. */
export type Email = Readonly<{ typed: string; key: string }>;

const maxCharacters = 254;
/** NFKC expands some characters to 18; an index entry of PostgreSQL holds at most 2,704 bytes. */
const maxKeyBytes = 4 * maxCharacters;
/**
 * Whitespace and invisible characters: with them, two different e-mails could look the same. \p{C} also contains
 * characters that Unicode has not assigned yet: a later version may normalize them differently.
 */
const invisible = /[\s\p{Z}\p{C}\p{Default_Ignorable_Code_Point}\u2800]/u;
/** The rule of HTML's `<input type=email>`, plus letters, marks, digits and symbols of any script. */
const localPart = /^[\p{L}\p{M}\p{N}\p{So}.!#$%&'*+/=?^_`{|}~-]+$/u;
const label = /^[\p{L}\p{N}\p{So}](?:[\p{L}\p{M}\p{N}\p{So}-]*[\p{L}\p{M}\p{N}\p{So}])?$/u;
const maxLocalBytes = 64;
const maxLabelBytes = 63;
const maxDomainBytes = 253;

/** For look-ups. Accepts more than `readNewEmail`: e-mails stored before those rules existed are still in use. */
export function readEmail(input: string, path = 'email'): Email {
  const refuse = (problem: string) => errors.invalidRequest([{ path, problem }]);
  const typed = input.trim();
  if (typed === '') throw refuse('must not be empty');
  // A character is at most two UTF-16 units, so a long text is rejected without iterating over it.
  if (typed.length > 2 * maxCharacters || [...typed].length > maxCharacters)
    throw refuse(`must have at most ${maxCharacters} characters`);
  if (!typed.isWellFormed()) throw refuse('must not contain an unpaired surrogate');
  const key = normalizedForm(typed);
  // Both forms: NFKC turns ¨ into a space with a combining diaeresis.
  if (invisible.test(typed) || invisible.test(key))
    throw refuse('must not contain spaces or invisible characters');
  const [name, domain, ...more] = key.split('@');
  if (!name || !domain || more.length > 0) throw refuse('must be an email address, such as ada@example.com');
  if (Buffer.byteLength(key) > maxKeyBytes) throw refuse('is too long after Unicode normalization');
  return { typed, key };
}

/**
 * For e-mails to be stored. `present`: the user's current e-mail, which is accepted again even if it breaks the rules.
 */
export function readNewEmail(input: string, present?: string): Email {
  const email = readEmail(input);
  if (present !== undefined && readEmail(present).key === email.key) return email;
  const problem = problemOf(email.key);
  if (problem !== null) throw errors.invalidRequest([{ path: 'email', problem }]);
  return email;
}

/** Checks the normalized form: a character that looks like a letter may normalize to a bracket. */
function problemOf(key: string): string | null {
  const [name = '', domain = ''] = key.split('@');
  if (!localPart.test(name)) return "must contain only letters, digits and .!#$%&'*+/=?^_`{|}~- before the @";
  if (Buffer.byteLength(name) > maxLocalBytes) return `must have at most ${maxLocalBytes} bytes before the @`;
  if (!domain.split('.').every((part) => label.test(part)))
    return 'must have a valid domain after the @: letters, digits, hyphens and single dots';
  const ascii = isAscii.test(domain) ? domain : domainToASCII(domain);
  if (ascii === '') return 'must have a valid domain after the @';
  if (ascii.length > maxDomainBytes || ascii.split('.').some(({ length }) => length > maxLabelBytes))
    return `must have a domain of at most ${maxDomainBytes} bytes, and ${maxLabelBytes} between two dots`;
  return null;
}

const isAscii = /^[\x21-\x7e]*$/;

/** Lowercasing can undo NFKC, and it writes a sigma at the end of a word as ς. */
function normalizedForm(text: string): string {
  return text.normalize('NFKC').toLowerCase().normalize('NFKC').replaceAll('ς', 'σ');
}

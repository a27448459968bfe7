// What counts as an e-mail, and when two are the same one. The only place that decides it: lower() in SQL and
// toLowerCase() here differ for İ, and é can be written in two ways.
import { domainToASCII } from 'node:url';
import { errors } from '../errors.ts';

/** `typed`: as it came, without blanks around it. `key`: what is unique in a project. */
export type Email = Readonly<{ typed: string; key: string }>;

const maxCharacters = 254;
/** Some single characters stand for 18 in their plain form; an index of PostgreSQL takes no more than 2,704 bytes. */
const maxKeyBytes = 4 * maxCharacters;
/**
 * Blanks, and what nobody sees: with it, two e-mails could look the same. \p{C} holds characters that Unicode has not
 * assigned too: a later version may give them another plain form.
 */
const unseen = /[\s\p{Z}\p{C}\p{Default_Ignorable_Code_Point}\u2800]/u;
/** As HTML has it for `<input type=email>`, and letters, marks, digits and pictures of any script. */
const localPart = /^[\p{L}\p{M}\p{N}\p{So}.!#$%&'*+/=?^_`{|}~-]+$/u;
const label = /^[\p{L}\p{N}\p{So}](?:[\p{L}\p{M}\p{N}\p{So}-]*[\p{L}\p{M}\p{N}\p{So}])?$/u;
const maxLocalBytes = 64;
const maxLabelBytes = 63;
const maxDomainBytes = 253;

/** One that is looked for: some that were taken before the rules of `readNewEmail` are still in use. */
export function readEmail(input: string, path = 'email'): Email {
  const refuse = (problem: string) => errors.invalidRequest([{ path, problem }]);
  const typed = input.trim();
  if (typed === '') throw refuse('must not be empty');
  // A character is at most two units: a long text is not even looked through.
  if (typed.length > 2 * maxCharacters || [...typed].length > maxCharacters)
    throw refuse(`must have at most ${maxCharacters} characters`);
  if (!typed.isWellFormed()) throw refuse('holds half a character (a lone surrogate)');
  const key = plainForm(typed);
  // Both: ¨ is a blank with dots above in its plain form.
  if (unseen.test(typed) || unseen.test(key)) throw refuse('must not hold blanks or invisible characters');
  const [name, domain, ...more] = key.split('@');
  if (!name || !domain || more.length > 0)
    throw refuse('must be an e-mail address: something, one @, and something after it');
  if (Buffer.byteLength(key) > maxKeyBytes) throw refuse('is too long in its plain form');
  return { typed, key };
}

/** One that is to be kept. `present`: the user's own, which can be sent again whatever it is. */
export function readNewEmail(input: string, present?: string): Email {
  const email = readEmail(input);
  if (present !== undefined && readEmail(present).key === email.key) return email;
  const problem = problemOf(email.key);
  if (problem !== null) throw errors.invalidRequest([{ path: 'email', problem }]);
  return email;
}

/** Of the plain form: what only looks like a letter may become a bracket in it. */
function problemOf(key: string): string | null {
  const [name = '', domain = ''] = key.split('@');
  if (!localPart.test(name)) return "may hold letters, digits and .!#$%&'*+/=?^_`{|}~- before the @";
  if (Buffer.byteLength(name) > maxLocalBytes) return `must have at most ${maxLocalBytes} bytes before the @`;
  if (!domain.split('.').every((part) => label.test(part)))
    return 'must have a domain after the @: parts of letters, digits and hyphens, with single dots between them';
  const ascii = isAscii.test(domain) ? domain : domainToASCII(domain);
  if (ascii === '') return 'has a domain that cannot be one in any script';
  if (ascii.length > maxDomainBytes || ascii.split('.').some(({ length }) => length > maxLabelBytes))
    return `has a domain that is too long: at most ${maxDomainBytes} bytes, and ${maxLabelBytes} between two dots`;
  return null;
}

const isAscii = /^[\x21-\x7e]*$/;

/** Lower case can take a text out of its normal form, and writes a sigma at the end of a word in another way. */
function plainForm(text: string): string {
  return text.normalize('NFKC').toLowerCase().normalize('NFKC').replaceAll('ς', 'σ');
}

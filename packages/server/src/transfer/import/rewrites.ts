// Rewrites statements of a dump for the new project: roles that the dump names are replaced by those that exist here. What of a dump
// runs at all is decided in allowed-contents.ts.
//
// PostgreSQL's dumps name one role a GRANT; a statement of another form is left as it is, and PostgreSQL judges it.
import { sql } from '../../postgres/sql.ts';
import { findWords, type Word } from '../read/words.ts';
import type { Origin } from './origin.ts';
import { isOfPlatform, sharedRoles } from './platforms.ts';
import type { Weight } from './report.ts';

export type Rewritten =
  | Readonly<{ run: string }>
  /** null: nothing is lost. `owner`: whom the statement would have made an owner. */
  | Readonly<{ skip: string | null; owner?: string | null; weight?: Weight }>;

/** Longer statements of these kinds do not exist. */
const maxChars = 64 * 1024;
const maxSetChars = 1_000;

export function rewrite(text: string, origin: Origin, role: string): Rewritten {
  const [, first = ''] = /^(\w+)/.exec(text) ?? [];
  switch (first.toLowerCase()) {
    case 'set':
    case 'reset':
      return rewriteSet(text);
    case 'alter':
      return rewriteAlter(text, origin, role);
    case 'grant':
      return replaceRole(text, 'to', origin, role);
    case 'revoke':
      return replaceRole(text, 'from', origin, role);
    case 'create':
      return /^create\s+policy\b/i.test(text) ? rewritePolicy(text, origin, role) : { run: text };
    default:
      return { run: text };
  }
}

const nothingLost: Rewritten = { skip: null };

function rewriteSet(text: string): Rewritten {
  if (/^(?:set|reset)\s+(?:local\s+|session\s+)?(?:session\s+authorization|role)\b/i.test(text))
    return nothingLost;
  if (text.length > maxSetChars) return { run: text };
  // No two parts of the pattern match the same text: spaces in a hostile statement would take seconds otherwise.
  const [, name = '', rest = ''] = /^set\s+(\w+)\s*(?:=|to\b)(.*)$/is.exec(text) ?? [];
  const value = rest.trim().replace(/;$/, '').trim();
  if (name.toLowerCase() === 'default_tablespace' && !/^(?:''|"")$/.test(value)) return nothingLost;
  return { run: text };
}

function rewriteAlter(text: string, origin: Origin, role: string): Rewritten {
  if (text.length > maxChars) return { run: text };
  const words = findWords(text, maxChars);
  const [owner, to, named] = words.slice(-3);
  if (isWord(owner, 'owner') && isWord(to, 'to')) return { skip: null, owner: nameOf(named) };
  // Those that check foreign keys belong to the service. If they reject a row, the key is set aside (set-aside.ts).
  if (isWord(to, 'trigger') && isWord(named, 'all') && named)
    return { run: `${text.slice(0, named.start)}user${text.slice(named.end)}` };
  if (!isWord(words[1], 'default') || !isWord(words[2], 'privileges')) return { run: text };
  const at = words.findIndex((word, index) => isWord(word, 'role') && isWord(words[index - 1], 'for'));
  const of = words[at + 1];
  if (at === -1 || !of) return { run: text };
  // The defaults of another role would become those of everything that the project creates.
  if (of.word !== origin.mainOwner) return missing(of.word);
  const isRevoke = words.some((word) => isWord(word, 'revoke'));
  const replaced = `${text.slice(0, of.start)}${quote(role)}${text.slice(of.end)}`;
  return replaceRole(replaced, isRevoke ? 'from' : 'to', origin, role);
}

/** The role behind the last TO or FROM. */
function replaceRole(text: string, before: 'to' | 'from', origin: Origin, role: string): Rewritten {
  if (text.length > maxChars) return { run: text };
  const words = findWords(text, maxChars);
  const at = words.findLastIndex((word) => isWord(word, before) && word.depth === 0);
  const named = words[at + 1];
  if (at === -1 || !named) return { run: text };
  const here = roleHere(named, origin, role);
  if (here === null) return missing(named.word);
  return { run: `${text.slice(0, named.start)}${here}${text.slice(named.end)}` };
}

/** A policy for several roles keeps those that exist: without it, a restrictive one would no longer restrict them. */
function rewritePolicy(text: string, origin: Origin, role: string): Rewritten {
  const words = findWords(text, maxChars);
  const to = words.findIndex((word) => isWord(word, 'to') && word.depth === 0);
  const end = words.findIndex(
    (word, index) => index > to && word.depth === 0 && (isWord(word, 'using') || isWord(word, 'with')),
  );
  if (to === -1) return { run: text };
  const named = words.slice(to + 1, end === -1 ? undefined : end);
  const last = named.at(-1);
  const first = named[0];
  if (!first || !last) return { run: text };
  const here = named.map((word) => roleHere(word, origin, role)).filter((found) => found !== null);
  // Lost, also if the role is one of the service's own: who can read the rows has changed.
  if (here.length === 0) return { skip: missing(first.word).skip };
  return { run: `${text.slice(0, first.start)}${here.join(', ')}${text.slice(last.end)}` };
}

/** null for CURRENT_USER and the like: that is the project's role. */
function nameOf(named: Word | undefined): string | null {
  return !named || isOwnRole(named) ? null : named.word;
}

function isOwnRole({ word, isQuoted }: Word): boolean {
  return !isQuoted && /^(?:current|session)_(?:user|role)$/.test(word);
}

function roleHere(named: Word, { owners }: Origin, role: string): string | null {
  const { word, isQuoted } = named;
  if (isOwnRole(named) || (!isQuoted && word === 'public')) return word;
  if (sharedRoles.has(word)) return quote(word);
  return owners.has(word) || word === role ? quote(role) : null;
}

function quote(role: string): string {
  return sql.id(role).text;
}

function missing(role: string) {
  const weight = isOfPlatform(role) ? 'needless' : 'lost';
  return { skip: `The role "${role}" does not exist here.`, weight } as const;
}

function isWord(found: Word | undefined, word: string): boolean {
  return found?.word === word && !found.isQuoted;
}

// Passwords that attackers try first: a list of the commonest ones, and what people usually make of them when a form asks
// for more. What is added to a common word costs a guesser a few tries, so it does not make the password a good one.
import { readFileSync } from 'node:fs';

/** A shorter word says too little: "al8213-77" would be "al" with something behind it. */
const minLetters = 4;
/** Digits and punctuation next to the word may stand for letters of it: "$unshine", "princes$". */
const maxEdge = 4;
/** What is added to a common number: a year, or "123!". */
const maxAdded = 4;

/**
 * True for a password of the list and for a common word (one of the list, or the word inside one) after these changes, in
 * any combination: upper case; digits, punctuation and blanks before, behind or between the letters; digits and signs that
 * look like letters; the word repeated. Also for a common number with up to four characters added, and for anything that
 * repeats up to four characters all the way.
 */
export function isCommon(password: string): boolean {
  const text = password.normalize('NFKC').toLowerCase();
  const { list, words } = common();
  if (list.has(text) || isMonotonous(text)) return true;
  const edges = /^([^\p{L}]*)(.*?)([^\p{L}]*)$/su.exec(text);
  const [before = '', word = '', behind = ''] = edges?.slice(1) ?? [];
  if (word === '') return isCommonNumber(text, list);
  for (let left = 0; left <= Math.min(maxEdge, before.length); left++) {
    for (let right = 0; right <= Math.min(maxEdge, behind.length); right++) {
      const part = before.slice(before.length - left) + word + behind.slice(0, right);
      if (spellings(part).some((spelling) => words.has(spelling))) return true;
    }
  }
  return false;
}

/** How a word may be meant: as it is, without what divides it, and with letters for what looks like one. */
function spellings(part: string): string[] {
  const joined = part.replace(/[^\p{L}\p{N}@$!]/gu, '');
  const letters = joined.replace(/[^\p{L}]/gu, '');
  const repeated = unitOf(letters);
  const all = [part, joined, joined.replace(/[@$!]/g, ''), ...(repeated === letters ? [] : [repeated])];
  // In "901f" there is no word, although it can be read as "golf".
  if (letters.length * 2 >= joined.length) all.push(asLetters(joined, 'i'), asLetters(joined, 'l'));
  return all.flatMap((text) => [text, unitOf(text)]);
}

function asLetters(text: string, one: 'i' | 'l'): string {
  return [...text].map((char) => (char === '1' ? one : (alike[char] ?? char))).join('');
}

const alike: Record<string, string> = {
  ...{ '@': 'a', '4': 'a', '8': 'b', '3': 'e', '6': 'g', '9': 'g', '!': 'i' },
  ...{ '0': 'o', $: 's', '5': 's', '7': 't', '2': 'z' },
};

function isCommonNumber(text: string, list: ReadonlySet<string>): boolean {
  const digits = text.replace(/[^\p{N}]/gu, '');
  for (let start = 0; start <= maxAdded; start++) {
    for (let end = 0; end <= maxAdded - start; end++) {
      const rest = digits.slice(start, digits.length - end);
      if (list.has(rest)) return true;
    }
  }
  return isMonotonous(digits);
}

/** It repeats a few characters all the way. */
function isMonotonous(text: string): boolean {
  const { length } = unitOf(text);
  return length < text.length && length <= maxAdded;
}

/** What the text repeats from its beginning to its end; the text itself if it repeats nothing. */
function unitOf(text: string): string {
  const period = `${text}${text}`.indexOf(text, 1);
  return period > 0 && period < text.length ? text.slice(0, period) : text;
}

type Common = Readonly<{ list: ReadonlySet<string>; words: ReadonlySet<string> }>;
let kept: Common | undefined;

/** Most projects never ask: it is read when the first one does. */
function common(): Common {
  if (kept) return kept;
  const list = new Set(readLines('common-passwords.txt'));
  const words = new Set(readLines('common-words.txt'));
  for (const entry of list) {
    const word = entry.replace(/^[^a-z]+|[^a-z]+$/g, '');
    for (const one of [word, unitOf(word)])
      if (one.replace(/[^a-z]/g, '').length >= minLetters) words.add(one);
  }
  kept = { list, words };
  return kept;
}

function readLines(name: string): string[] {
  const text = readFileSync(new URL(`../../data/${name}`, import.meta.url), 'utf8');
  return text.split(/\r?\n/).filter((line) => line !== '' && !line.startsWith('#'));
}

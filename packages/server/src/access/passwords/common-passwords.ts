// Detects the passwords that attackers try first: a list of the most common ones, and the usual variations when a form
// asks for more. An addition to a common word costs an attacker only a few more tries, so it does not make a password
// strong.
import { readFileSync } from 'node:fs';

/** Shorter words would match too much: "al8213-77" would count as "al" with a suffix. */
const minLetters = 4;
/** Digits and punctuation next to the word may replace letters of it: "$unshine", "princes$". */
const maxEdge = 4;
/** Characters added to a common number: a year, or "123!". */
const maxAdded = 4;

/**
 * True for a password on the list, and for a common word (an entry of the list, or the word inside one) after any
 * combination of these changes: upper case; digits, punctuation and spaces before, after or between the letters; digits
 * and symbols that look like letters; the word repeated. Also true for a common number with up to four characters
 * added, and for a text that only repeats a unit of up to four characters.
 */
export function isCommon(password: string): boolean {
  const text = password.normalize('NFKC').toLowerCase();
  const { list, words } = common();
  if (list.has(text) || isRepetition(text)) return true;
  const edges = /^([^\p{L}]*)(.*?)([^\p{L}]*)$/su.exec(text);
  const [before = '', word = '', after = ''] = edges?.slice(1) ?? [];
  if (word === '') return isCommonNumber(text, list);
  for (let left = 0; left <= Math.min(maxEdge, before.length); left++) {
    for (let right = 0; right <= Math.min(maxEdge, after.length); right++) {
      const part = before.slice(before.length - left) + word + after.slice(0, right);
      if (spellings(part).some((spelling) => words.has(spelling))) return true;
    }
  }
  return false;
}

/** Possible readings of a word: as written, without separators, and with look-alike characters as letters. */
function spellings(part: string): string[] {
  const joined = part.replace(/[^\p{L}\p{N}@$!]/gu, '');
  const letters = joined.replace(/[^\p{L}]/gu, '');
  const repeated = unitOf(letters);
  const all = [part, joined, joined.replace(/[@$!]/g, ''), ...(repeated === letters ? [] : [repeated])];
  // "901f" is not a word, although it can be read as "golf".
  if (letters.length * 2 >= joined.length) all.push(asLetters(joined, 'i'), asLetters(joined, 'l'));
  return all.flatMap((text) => [text, unitOf(text)]);
}

function asLetters(text: string, one: 'i' | 'l'): string {
  return [...text].map((char) => (char === '1' ? one : (lookAlikes[char] ?? char))).join('');
}

const lookAlikes: Record<string, string> = {
  '@': 'a',
  '4': 'a',
  '8': 'b',
  '3': 'e',
  '6': 'g',
  '9': 'g',
  '!': 'i',
  '0': 'o',
  $: 's',
  '5': 's',
  '7': 't',
  '2': 'z',
};

function isCommonNumber(text: string, list: ReadonlySet<string>): boolean {
  const digits = text.replace(/[^\p{N}]/gu, '');
  for (let start = 0; start <= maxAdded; start++) {
    for (let end = 0; end <= maxAdded - start; end++) {
      const rest = digits.slice(start, digits.length - end);
      if (list.has(rest)) return true;
    }
  }
  return isRepetition(digits);
}

/** The text only repeats a few characters. */
function isRepetition(text: string): boolean {
  const { length } = unitOf(text);
  return length < text.length && length <= maxAdded;
}

/** The unit that the whole text repeats, or the text itself. */
function unitOf(text: string): string {
  const period = `${text}${text}`.indexOf(text, 1);
  return period > 0 && period < text.length ? text.slice(0, period) : text;
}

type Common = Readonly<{ list: ReadonlySet<string>; words: ReadonlySet<string> }>;
let loaded: Common | undefined;

/** Read at the first use: most projects do not enable this check. */
function common(): Common {
  if (loaded) return loaded;
  const list = new Set(readLines('common-passwords.txt'));
  const words = new Set(readLines('common-words.txt'));
  for (const entry of list) {
    const word = entry.replace(/^[^a-z]+|[^a-z]+$/g, '');
    for (const one of [word, unitOf(word)])
      if (one.replace(/[^a-z]/g, '').length >= minLetters) words.add(one);
  }
  loaded = { list, words };
  return loaded;
}

function readLines(name: string): string[] {
  const text = readFileSync(new URL(`../../../data/${name}`, import.meta.url), 'utf8');
  return text.split(/\r?\n/).filter((line) => line !== '' && !line.startsWith('#'));
}

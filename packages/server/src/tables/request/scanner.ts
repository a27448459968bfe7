// The text of one parameter and how far it has been read. Every problem names the parameter and the place in it.
import { errors } from '../../errors.ts';

export type Source = { readonly parameter: string; readonly text: string; at: number };

/** `a`, `data->>color`, `"a.b"`. */
export type Field = Readonly<{ name: string; steps: readonly Step[] }>;

/** `->key`, `->>key`; a whole number without quotes is a place in an array. */
export type Step = Readonly<{ arrow: '->' | '->>'; key: string | number }>;

/** What an unquoted name is made of: anything that has no meaning of its own, and a dash that is no arrow. */
const bareName = /(?:[^",().:!*{}-]|-(?!>))+/y;
const maxSteps = 32;
const maxIndex = 2 ** 31 - 1;

export function open(parameter: string, text: string): Source {
  return { parameter, text, at: 0 };
}

export function fail(source: Source, problem: string, at = source.at): never {
  const rest = source.text.slice(at, at + 20);
  const place = rest === '' ? 'at the end' : `at character ${at + 1}, before "${rest}"`;
  throw errors.invalidRequest([{ path: source.parameter.slice(0, 100), problem: `${problem} (${place})` }]);
}

export function isAtEnd(source: Source): boolean {
  return source.at === source.text.length;
}

/** Goes past `word` if it is next. */
export function take(source: Source, word: string): boolean {
  if (!source.text.startsWith(word, source.at)) return false;
  source.at += word.length;
  return true;
}

export function match(source: Source, sticky: RegExp): RegExpExecArray | null {
  sticky.lastIndex = source.at;
  const found = sticky.exec(source.text);
  if (found) source.at = sticky.lastIndex;
  return found;
}

/** A name, with or without double quotes; `isQuoted` because only an unquoted word can have a meaning of its own. */
export function readName(source: Source): { name: string; isQuoted: boolean } {
  const at = source.at;
  if (source.text[at] === '"') {
    const name = readQuoted(source);
    if (name === '') fail(source, 'a name is empty', at);
    return { name, isQuoted: true };
  }
  const name = match(source, bareName)?.[0].trim() ?? '';
  if (name === '') fail(source, 'a name is missing; one with special characters goes in double quotes', at);
  return { name, isQuoted: false };
}

/** "…", in which a backslash takes the next character as it is. */
export function readQuoted(source: Source): string {
  const { text } = source;
  const start = source.at;
  let value = '';
  let from = start + 1;
  for (let at = from; at < text.length; at++) {
    if (text[at] === '"') {
      source.at = at + 1;
      return value + text.slice(from, at);
    }
    if (text[at] === '\\') {
      value += text.slice(from, at);
      from = ++at;
    }
  }
  return fail(source, 'a double quote is not closed', start);
}

export function readField(source: Source): Field {
  const { name } = readName(source);
  return { name, steps: readSteps(source) };
}

export function readSteps(source: Source): Step[] {
  const steps: Step[] = [];
  for (;;) {
    const at = source.at;
    const arrow = take(source, '->>') ? '->>' : take(source, '->') ? '->' : null;
    if (!arrow) return steps;
    if (steps.at(-1)?.arrow === '->>') fail(source, 'after ->> there is only text, no way further in', at);
    if (steps.length === maxSteps) fail(source, `a path has more than ${maxSteps} steps`, at);
    const { name, isQuoted } = readName(source);
    steps.push({ arrow, key: !isQuoted && /^-?\d+$/.test(name) ? readIndex(source, name, at) : name });
  }
}

function readIndex(source: Source, digits: string, at: number): number {
  const index = Number(digits);
  if (Math.abs(index) > maxIndex) fail(source, 'a place in an array is too large; a key goes in quotes', at);
  return index;
}

export function spell({ name, steps }: Field): string {
  return name + steps.map(({ arrow, key }) => `${arrow}${key}`).join('');
}

/** A message never repeats more of the caller's text than a person would read. */
export function shorten(text: string): string {
  return text.length > 80 ? `${text.slice(0, 80)}…` : text;
}

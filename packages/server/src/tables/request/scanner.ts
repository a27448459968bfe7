// A scanner over the text of one parameter. Every error names the parameter and the position in it.
import { errors } from '../../errors/errors.ts';

export type Scanner = { readonly parameter: string; readonly text: string; at: number };

/** `a`, `data->>color`, `"a.b"`. */
export type Field = Readonly<{ name: string; steps: readonly Step[] }>;

/** `->key`, `->>key`; an unquoted integer is an array index. */
export type Step = Readonly<{ arrow: '->' | '->>'; key: string | number }>;

/** An unquoted name: any characters that are not syntax, and a dash that does not begin an arrow. */
const bareName = /(?:[^",().:!*{}-]|-(?!>))+/y;
const maxSteps = 32;
const maxIndex = 2 ** 31 - 1;

export function open(parameter: string, text: string): Scanner {
  return { parameter, text, at: 0 };
}

export function fail(scanner: Scanner, problem: string, at = scanner.at): never {
  const rest = scanner.text.slice(at, at + 20);
  const position = rest === '' ? 'at the end' : `at character ${at + 1}, before "${rest}"`;
  throw errors.invalidRequest([
    { path: scanner.parameter.slice(0, 100), problem: `${problem} (${position})` },
  ]);
}

export function isAtEnd(scanner: Scanner): boolean {
  return scanner.at === scanner.text.length;
}

/** Consumes `word` if it comes next. */
export function take(scanner: Scanner, word: string): boolean {
  if (!scanner.text.startsWith(word, scanner.at)) return false;
  scanner.at += word.length;
  return true;
}

export function match(scanner: Scanner, sticky: RegExp): RegExpExecArray | null {
  sticky.lastIndex = scanner.at;
  const found = sticky.exec(scanner.text);
  if (found) scanner.at = sticky.lastIndex;
  return found;
}

/** A name, with or without double quotes. `isQuoted`, because only an unquoted word can be a keyword. */
export function readName(scanner: Scanner): { name: string; isQuoted: boolean } {
  const at = scanner.at;
  if (scanner.text[at] === '"') {
    const name = readQuoted(scanner);
    if (name === '') fail(scanner, 'a name is empty', at);
    return { name, isQuoted: true };
  }
  const name = match(scanner, bareName)?.[0].trim() ?? '';
  if (name === '') fail(scanner, 'a name is missing; quote a name with special characters', at);
  return { name, isQuoted: false };
}

/** "…", in which a backslash escapes the next character. */
export function readQuoted(scanner: Scanner): string {
  const { text } = scanner;
  const start = scanner.at;
  let value = '';
  let from = start + 1;
  for (let at = from; at < text.length; at++) {
    if (text[at] === '"') {
      scanner.at = at + 1;
      return value + text.slice(from, at);
    }
    if (text[at] === '\\') {
      value += text.slice(from, at);
      from = ++at;
    }
  }
  return fail(scanner, 'a double quote is not closed', start);
}

export function readField(scanner: Scanner): Field {
  const { name } = readName(scanner);
  return { name, steps: readSteps(scanner) };
}

export function readSteps(scanner: Scanner): Step[] {
  const steps: Step[] = [];
  for (;;) {
    const at = scanner.at;
    const arrow = take(scanner, '->>') ? '->>' : take(scanner, '->') ? '->' : null;
    if (!arrow) return steps;
    if (steps.at(-1)?.arrow === '->>') fail(scanner, '->> returns text and must be the last step', at);
    if (steps.length === maxSteps) fail(scanner, `a path has more than ${maxSteps} steps`, at);
    const { name, isQuoted } = readName(scanner);
    steps.push({ arrow, key: !isQuoted && /^-?\d+$/.test(name) ? readIndex(scanner, name, at) : name });
  }
}

function readIndex(scanner: Scanner, digits: string, at: number): number {
  const index = Number(digits);
  if (Math.abs(index) > maxIndex) fail(scanner, 'an array index is too large; quote it if it is a key', at);
  return index;
}

export function spell({ name, steps }: Field): string {
  return name + steps.map(({ arrow, key }) => `${arrow}${key}`).join('');
}

/** Limits how much of the caller's text an error message repeats. */
export function shorten(text: string): string {
  return text.length > 80 ? `${text.slice(0, 80)}…` : text;
}

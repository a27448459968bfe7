// Parses filters in PostgREST's syntax: `price=gte.10`, `id=in.(1,2)`, `or=(a.eq.1,and(b.gt.2,c.not.is.null))`.
import {
  type Field,
  fail,
  isAtEnd,
  match,
  open,
  readField,
  readQuoted,
  type Scanner,
  shorten,
  take,
} from './scanner.ts';

export type Condition = Group | Test;

export type Group = Readonly<{
  is: 'and' | 'or';
  isNegated: boolean;
  conditions: readonly Condition[];
}>;

export type Test = Readonly<{
  is: 'test';
  /** The query parameter that it came from, for error messages. */
  parameter: string;
  field: Field;
  isNegated: boolean;
}> &
  Claim;

type Claim =
  | Readonly<{ operator: Operator; value: string }>
  | Readonly<{ operator: Quantified; each: 'any' | 'all'; values: readonly (string | null)[] }>
  | Readonly<{ operator: 'in'; values: readonly string[] }>
  | Readonly<{ operator: 'is'; value: IsValue }>
  | Readonly<{ operator: TextSearch; config: string | null; value: string }>;

const quantified = ['eq', 'gt', 'gte', 'lt', 'lte', 'like', 'ilike', 'match', 'imatch'] as const;
const others = ['neq', 'isdistinct', 'cs', 'cd', 'ov', 'sl', 'sr', 'nxr', 'nxl', 'adj'] as const;
const textSearches = ['fts', 'plfts', 'phfts', 'wfts'] as const;
const isValues = ['null', 'not_null', 'true', 'false', 'unknown'] as const;
export type Quantified = (typeof quantified)[number];
export type Operator = Quantified | (typeof others)[number];
export type TextSearch = (typeof textSearches)[number];
export type IsValue = (typeof isValues)[number];

const known = [...quantified, ...others, ...textSearches, 'in', 'is'];
const maxDepth = 16;
const maxConditions = 200;
const maxValues = 10_000;

/** Counts conditions over the whole request. */
export type Tally = { conditions: number };

/** `field=value`, as in `price=gte.10`. */
export function readFilter(parameter: string, field: Field, value: string, tally: Tally): Condition {
  const scanner = open(parameter, value);
  const test = readTest(scanner, field, false, tally);
  if (!isAtEnd(scanner)) fail(scanner, 'unexpected text after the value');
  return test;
}

/** `or=(…)`, `not.and=(…)`. */
export function readGroup(
  parameter: string,
  is: 'and' | 'or',
  isNegated: boolean,
  value: string,
  tally: Tally,
): Condition {
  const scanner = open(parameter, value);
  const group = readGroupIn(scanner, is, isNegated, 1, tally);
  if (!isAtEnd(scanner)) fail(scanner, 'unexpected text after the closing parenthesis');
  return group;
}

function readGroupIn(
  scanner: Scanner,
  is: 'and' | 'or',
  isNegated: boolean,
  depth: number,
  tally: Tally,
): Group {
  if (depth > maxDepth) fail(scanner, `conditions must be nested at most ${maxDepth} deep`);
  if (!take(scanner, '(')) fail(scanner, 'conditions must be in parentheses, such as (a.eq.1,b.gt.2)');
  const conditions: Condition[] = [];
  do conditions.push(readCondition(scanner, depth, tally));
  while (take(scanner, ','));
  if (!take(scanner, ')')) fail(scanner, '"," or ")" is missing');
  return { is, isNegated, conditions };
}

const groupWord = /\s*(not\.)?(and|or)(?=\()/y;

function readCondition(scanner: Scanner, depth: number, tally: Tally): Condition {
  const group = match(scanner, groupWord);
  if (group) {
    return readGroupIn(scanner, group[2] as 'and' | 'or', group[1] !== undefined, depth + 1, tally);
  }
  const field = readField(scanner);
  if (!take(scanner, '.')) fail(scanner, 'an operator is missing; write, for example, a.eq.1');
  return readTest(scanner, field, true, tally);
}

const operatorWord = /([a-z]+)(?:\(([^()]*)\))?\./y;

/** Whether a value begins with a filter operator. */
export function hasOperator(value: string): boolean {
  const scanner = open('', value);
  take(scanner, 'not.');
  return known.includes(match(scanner, operatorWord)?.[1] ?? '');
}

/** `isInside`: inside parentheses, where a comma or a closing parenthesis ends an unquoted value. */
function readTest(scanner: Scanner, field: Field, isInside: boolean, tally: Tally): Test {
  if (++tally.conditions > maxConditions) fail(scanner, `there are more than ${maxConditions} conditions`);
  const isNegated = take(scanner, 'not.');
  const at = scanner.at;
  const [, operator = '', modifier = null] = match(scanner, operatorWord) ?? [];
  if (!known.includes(operator)) {
    const problem =
      operator === '' ? 'an operator is missing, such as eq.1' : `unknown operator "${shorten(operator)}"`;
    fail(scanner, `${problem}; known operators: ${known.join(', ')}`, at);
  }
  const claim = readClaim(scanner, operator, modifier, isInside, at);
  return { is: 'test', parameter: scanner.parameter, field, isNegated, ...claim };
}

function readClaim(
  scanner: Scanner,
  operator: string,
  modifier: string | null,
  isInside: boolean,
  at: number,
): Claim {
  if (isOneOf(textSearches, operator)) {
    return { operator, config: modifier, value: readValue(scanner, isInside) };
  }
  if (modifier !== null) {
    if (!isOneOf(quantified, operator) || (modifier !== 'any' && modifier !== 'all')) {
      fail(
        scanner,
        `"(${shorten(modifier)})" does not go with ${operator}; (any) and (all) go with ${quantified.join(', ')}`,
        at,
      );
    }
    const values = readArray(scanner).map((value) => (value === null ? null : pattern(operator, value)));
    return { operator, each: modifier, values };
  }
  if (operator === 'in') return { operator, values: readList(scanner) };
  if (operator === 'is') {
    const word = readValue(scanner, isInside).toLowerCase();
    if (!isOneOf(isValues, word)) fail(scanner, `"is" must be followed by one of ${isValues.join(', ')}`, at);
    return { operator, value: word };
  }
  const value = readValue(scanner, isInside);
  return { operator: operator as Operator, value: pattern(operator as Operator, value) };
}

/** `*` is an alias of `%`, which would have to be encoded in a URL. */
function pattern(operator: Operator, value: string): string {
  return operator === 'like' || operator === 'ilike' ? value.replaceAll('*', '%') : value;
}

const insideValue = /[^,)]*/y;

function readValue(scanner: Scanner, isInside: boolean): string {
  if (!isInside) {
    const value = scanner.text.slice(scanner.at);
    scanner.at = scanner.text.length;
    return value;
  }
  const first = scanner.text[scanner.at];
  if (first === '"') {
    const value = readQuoted(scanner);
    if (!isAtEnd(scanner) && !/[,)]/.test(scanner.text[scanner.at] ?? '')) {
      fail(scanner, 'expected "," or ")" after a quoted value');
    }
    return value;
  }
  if (first === '{') return readBraces(scanner);
  return match(scanner, insideValue)?.[0] ?? '';
}

/** Reads an array or a JSON object verbatim, up to its closing brace. */
function readBraces(scanner: Scanner): string {
  const { text } = scanner;
  const start = scanner.at;
  let depth = 0;
  for (let at = start; at < text.length; at++) {
    if (text[at] === '"') {
      scanner.at = at;
      readQuoted(scanner);
      at = scanner.at - 1;
    } else if (text[at] === '{') depth++;
    else if (text[at] === '}' && --depth === 0) {
      scanner.at = at + 1;
      return text.slice(start, at + 1);
    }
  }
  return fail(scanner, 'a brace is not closed', start);
}

/** (a,"b,c",d) */
function readList(scanner: Scanner): string[] {
  if (!take(scanner, '(')) fail(scanner, 'values must be in parentheses, such as in.(1,2)');
  const values: string[] = [];
  if (take(scanner, ')')) return values;
  do {
    if (values.length === maxValues) fail(scanner, `a list has more than ${maxValues} values`);
    values.push(readValue(scanner, true));
  } while (take(scanner, ','));
  if (!take(scanner, ')')) fail(scanner, '"," or ")" is missing');
  return values;
}

const arrayValue = /[^,{}"\\]*/y;

/** {a,"b,c",NULL}: PostgreSQL's array syntax, with one dimension. */
function readArray(scanner: Scanner): (string | null)[] {
  if (!take(scanner, '{')) fail(scanner, 'values must be in braces, such as eq(any).{1,2}');
  const values: (string | null)[] = [];
  if (take(scanner, '}')) return values;
  do {
    if (values.length === maxValues) fail(scanner, `a list has more than ${maxValues} values`);
    if (scanner.text[scanner.at] === '"') values.push(readQuoted(scanner));
    else {
      const at = scanner.at;
      const value = match(scanner, arrayValue)?.[0].trim() ?? '';
      if (value === '') fail(scanner, 'a value is missing; write "" for an empty one', at);
      values.push(value.toLowerCase() === 'null' ? null : value);
    }
  } while (take(scanner, ','));
  if (!take(scanner, '}')) fail(scanner, '"," or "}" is missing');
  return values;
}

function isOneOf<const Words extends readonly string[]>(words: Words, word: string): word is Words[number] {
  return words.includes(word);
}

// Parses the query string of a table endpoint to one typed value. Nothing is corrected or ignored: invalid input is
// refused, and the error names the parameter and the position in it.

import { errors } from '../../errors/errors.ts';
import { pageRows } from '../../settings/limits/requests.ts';
import { type Condition, hasOperator, readFilter, readGroup, type Tally } from './conditions.ts';
import { type Order, readOrder } from './order.ts';
import { type Pair, readPairs } from './query-string.ts';
import {
  type Field,
  fail,
  isAtEnd,
  open,
  readName,
  readSteps,
  type Scanner,
  shorten,
  take,
} from './scanner.ts';
import { allColumns, type Embed, findEmbed, type Item, readSelect, setOrder } from './select.ts';

export type PageRequest = Readonly<{
  select: readonly Item[];
  where: readonly Condition[];
  order: readonly Order[];
  limit: number;
  page: number;
  cursor: string | null;
  count: 'exact' | 'estimated' | null;
  numbersAsStrings: boolean;
  /** null: values are whole. */
  maxValueChars: number | null;
}>;

export type ChangeRequest = Readonly<{
  select: readonly Item[];
  where: readonly Condition[];
  numbersAsStrings: boolean;
  /** Values of the parameters that the calling function asked for. */
  own: ReadonlyMap<string, string>;
}>;

const maxPage = 1_000_000_000;
const maxMaxValueChars = 1_000_000;
export const pageParameters = [
  ...['select', 'order', 'limit', 'page', 'cursor', 'count', 'numbers', 'max_value_chars'],
];

/** As many as PostgreSQL's protocol can limit a result to. */
const allRows = 2_147_483_646;

/** For answers that have the rows alone: all of them, unless there is a limit. */
export function readRowsRequest(rawQuery: string): PageRequest {
  const request = readPageRequest(rawQuery);
  const { own } = divide(readPairs(rawQuery), pageParameters);
  if (own.has('count')) refuse('count', 'works with JSON only: CSV and JSON lines have no place for it');
  if (own.has('limit')) return request;
  if (own.has('page')) refuse('page', 'needs limit: without one, all rows are returned');
  return { ...request, limit: allRows };
}

export function readPageRequest(rawQuery: string): PageRequest {
  const { own, filters } = divide(readPairs(rawQuery), pageParameters);
  const select = own.get('select');
  const items = select === undefined ? allColumns : readSelect(select);
  const order = own.get('order');
  const cursor = own.get('cursor') ?? null;
  if (cursor !== null && own.has('page')) refuse('page', 'cannot be combined with cursor; omit it');
  return {
    select: items,
    where: readFilters(filters, items),
    order: order === undefined ? [] : readOrder('order', order),
    limit: readInteger(own, 'limit', pageRows.max) ?? pageRows.usual,
    page: readInteger(own, 'page', maxPage) ?? 1,
    cursor,
    count: readWord(own, 'count', ['exact', 'estimated']),
    numbersAsStrings: readWord(own, 'numbers', ['number', 'string']) === 'string',
    maxValueChars: readInteger(own, 'max_value_chars', maxMaxValueChars),
  };
}

/** For writes: which rows, and what is returned of them. */
export function readChangeRequest(rawQuery: string, parameters: readonly string[]): ChangeRequest {
  const { own, filters } = divide(readPairs(rawQuery), ['select', 'numbers', ...parameters]);
  const select = own.get('select');
  const items = select === undefined ? allColumns : readSelect(select);
  if (items.some(({ is }) => is === 'embed'))
    refuse('select', 'must not embed other tables when rows are changed');
  return {
    select: items,
    where: readFilters(filters, items),
    numbersAsStrings: readWord(own, 'numbers', ['number', 'string']) === 'string',
    own,
  };
}

/** A column with the name of a parameter can be filtered by `and=(limit.eq.5)` or in quotes: `"limit"=eq.5`. */
function divide(pairs: readonly Pair[], names: readonly string[]) {
  const own = new Map<string, string>();
  const filters: Pair[] = [];
  for (const pair of pairs) {
    if (!names.includes(pair.name)) {
      const advice = otherMethods.get(pair.name);
      if (advice !== undefined && !hasOperator(pair.value)) refuse(pair.name, advice);
      filters.push(pair);
    } else if (own.has(pair.name)) refuse(pair.name, 'must not be sent twice');
    else own.set(pair.name, pair.value);
  }
  return { own, filters };
}

/** Parameters of other methods, or of PostgREST. Unless the value has an operator, these are not meant as filters. */
const otherMethods = new Map([
  ...['limit', 'order', 'page', 'cursor', 'count', 'max_value_chars'].map(
    (name) => [name, 'works with GET only'] as const,
  ),
  ...['on_conflict', 'resolution'].map((name) => [name, 'works with inserts (POST) only'] as const),
  ['max_affected', 'works with PATCH and DELETE only'],
  ['returning', 'works with POST, PATCH and DELETE only'],
  ['offset', 'is not supported; use page, or cursor with the next_cursor of the previous page'],
  ['columns', 'is not supported; an omitted column gets its default'],
]);

/** Also sets the conditions, order and limit of the embeds in `items`. */
function readFilters(pairs: readonly Pair[], items: readonly Item[]): Condition[] {
  const where: Condition[] = [];
  const tally: Tally = { conditions: 0 };
  const given = new Set<string>();
  for (const { name, value } of pairs) {
    const target = readTarget(name, items);
    if (target.is === 'setting') {
      if (given.has(name)) refuse(name, 'must not be sent twice');
      given.add(name);
      if (target.word === 'order') setOrder(target.embed, name, value);
      else target.embed.limit = readInteger(new Map([[name, value]]), name, pageRows.max);
    } else {
      const condition =
        target.is === 'field'
          ? readFilter(name, target.field, value, tally)
          : readGroup(name, target.word, target.isNegated, value, tally);
      (target.embed?.where ?? where).push(condition);
    }
  }
  return where;
}

type Target =
  | { is: 'field'; embed: Embed | null; field: Field }
  | { is: 'group'; embed: Embed | null; word: 'and' | 'or'; isNegated: boolean }
  | { is: 'setting'; embed: Embed; word: 'order' | 'limit' };

/** Parses a parameter's name: `price`, `data->>color`, `or`, `not.or`, `comments.text`, `comments.order`. */
function readTarget(name: string, items: readonly Item[]): Target {
  const scanner = open(name, name);
  let embed: Embed | null = null;
  let isNegated = false;
  for (;;) {
    const at = scanner.at;
    const part = readName(scanner);
    const isLast = isAtEnd(scanner);
    const word = part.isQuoted ? '' : part.name;
    if (isLast && (word === 'and' || word === 'or')) return { is: 'group', embed, word, isNegated };
    if (isNegated) fail(scanner, 'expected "and" or "or" after "not." in a name', at);
    if (isLast && embed && (word === 'order' || word === 'limit')) return { is: 'setting', embed, word };
    const steps = isLast ? [] : readSteps(scanner);
    if (isAtEnd(scanner)) return { is: 'field', embed, field: { name: part.name, steps } };
    if (steps.length > 0 || !take(scanner, '.')) fail(scanner, 'unexpected text after a name');
    if (word === 'not') isNegated = true;
    else embed = step(scanner, embed?.items ?? items, part.name, at);
  }
}

function step(scanner: Scanner, items: readonly Item[], name: string, at: number): Embed {
  const embed = findEmbed(items, name);
  if (embed) return embed;
  return fail(
    scanner,
    `"${shorten(name)}" is not embedded by select; a name that holds a dot goes in double quotes`,
    at,
  );
}

function readInteger(own: ReadonlyMap<string, string>, name: string, max: number): number | null {
  const text = own.get(name);
  if (text === undefined) return null;
  const value = /^\d{1,15}$/.test(text) ? Number(text) : 0;
  if (value < 1 || value > max) refuse(name, `must be an integer from 1 to ${max}`);
  return value;
}

/** null: the parameter is missing. */
export function readWord<const Word extends string>(
  own: ReadonlyMap<string, string>,
  name: string,
  words: readonly Word[],
): Word | null {
  const text = own.get(name);
  if (text === undefined) return null;
  const word = words.find((one) => one === text);
  return word ?? refuse(name, `must be ${words.join(' or ')}`);
}

function refuse(path: string, problem: string): never {
  throw errors.invalidRequest([{ path: path.slice(0, 100), problem }]);
}

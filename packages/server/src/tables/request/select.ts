// Parses the columns and embedded tables of a row:
// `select=id,name,total:amount::text,data->>color,author(name),comments!fk(text)`.
import type { Condition } from './conditions.ts';
import { type Order, readOrder } from './order.ts';
import {
  type Field,
  fail,
  isAtEnd,
  match,
  open,
  readName,
  readQuoted,
  readSteps,
  type Scanner,
  take,
} from './scanner.ts';

export type Item =
  | Readonly<{ is: 'all' }>
  | Readonly<{ is: 'column'; field: Field; cast: Cast | null; alias: string | null }>
  | Embed;

/** Rows of another table inside a row. Its conditions, order and limit come from other parameters. */
export type Embed = {
  readonly is: 'embed';
  /** The name of the table, of the foreign key, or of its column. */
  readonly name: string;
  readonly alias: string | null;
  readonly hint: string | null;
  /** Leaves out rows without a match. */
  readonly isInner: boolean;
  /** Its columns become columns of the outer row instead of an object. */
  readonly isSpread: boolean;
  readonly items: readonly Item[];
  readonly where: Condition[];
  order: readonly Order[];
  limit: number | null;
};

export type Cast = Readonly<{ name: string; isQuoted: boolean; size: string; dimensions: number }>;

const maxDepth = 4;
const maxEmbeds = 16;
/** PostgreSQL's own limit for the columns of a result. */
const maxItems = 1600;

export const allColumns: readonly Item[] = [{ is: 'all' }];

export function readSelect(text: string): Item[] {
  const scanner = open('select', text);
  const items = readItems(scanner, 0, { items: 0, embeds: 0 });
  if (!isAtEnd(scanner)) fail(scanner, '"," is missing');
  if (items.length === 0) fail(scanner, 'no column is named');
  return items;
}

/** Finds an embed by its name in the response, for `comments.order=…`. */
export function findEmbed(items: readonly Item[], name: string): Embed | undefined {
  const embeds = items.filter((item) => item.is === 'embed');
  return embeds.find(({ alias, name: table }) => (alias ?? table) === name);
}

export function setOrder(embed: Embed, parameter: string, text: string): void {
  embed.order = readOrder(parameter, text);
}

type Tally = { items: number; embeds: number };

function readItems(scanner: Scanner, depth: number, tally: Tally): Item[] {
  const items: Item[] = [];
  match(scanner, /\s*/y);
  if (isAtEnd(scanner) || scanner.text[scanner.at] === ')') return items;
  do {
    match(scanner, /\s*/y);
    if (++tally.items > maxItems) fail(scanner, `more than ${maxItems} columns are named`);
    items.push(readItem(scanner, depth, tally));
    match(scanner, /\s*/y);
  } while (take(scanner, ','));
  return items;
}

function readItem(scanner: Scanner, depth: number, tally: Tally): Item {
  if (take(scanner, '*')) return { is: 'all' };
  const at = scanner.at;
  const isSpread = take(scanner, '...');
  let { name } = readName(scanner);
  let alias: string | null = null;
  if (!scanner.text.startsWith('::', scanner.at) && take(scanner, ':')) {
    if (isSpread) fail(scanner, 'a spread cannot have an alias', at);
    if (Buffer.byteLength(name) > 63) fail(scanner, 'a name has more than 63 bytes', at);
    alias = name;
    match(scanner, /\s*/y);
    name = readName(scanner).name;
  }
  const next = scanner.text[scanner.at];
  if (next === '(' || next === '!') return readEmbed(scanner, { name, alias, isSpread }, depth + 1, tally);
  if (isSpread) fail(scanner, 'only another table can be spread, such as ...author(name)', at);
  if (next === '.') {
    if (aggregate.test(scanner.text.slice(scanner.at)))
      fail(scanner, 'aggregates are not supported; use SQL', at);
    fail(scanner, 'unexpected dot; quote a name that contains one');
  }
  const field = { name, steps: readSteps(scanner) };
  return { is: 'column', field, cast: take(scanner, '::') ? readCast(scanner) : null, alias };
}

const aggregate = /^\.(?:avg|count|max|min|sum)\(\)/;

function readEmbed(
  scanner: Scanner,
  start: Pick<Embed, 'name' | 'alias' | 'isSpread'>,
  depth: number,
  tally: Tally,
): Embed {
  if (depth > maxDepth) fail(scanner, `tables must be embedded at most ${maxDepth} deep`);
  if (++tally.embeds > maxEmbeds) fail(scanner, `more than ${maxEmbeds} tables are embedded`);
  let hint: string | null = null;
  let isInner = false;
  while (take(scanner, '!')) {
    const at = scanner.at;
    const { name, isQuoted } = readName(scanner);
    if (!isQuoted && name === 'inner') isInner = true;
    else if (isQuoted || name !== 'left') {
      if (hint !== null) fail(scanner, 'unexpected second "!"; only one foreign key can be named', at);
      hint = name;
    }
  }
  if (!take(scanner, '(')) fail(scanner, '"(" is missing');
  const items = readItems(scanner, depth, tally);
  if (!take(scanner, ')')) fail(scanner, '"," or ")" is missing');
  return { is: 'embed', ...start, hint, isInner, items, where: [], order: [], limit: null };
}

const typeWords = /[A-Za-z_][A-Za-z0-9_ ]*/y;
const typeSize = /\(\s*\d{1,9}(?:\s*,\s*\d{1,9})?\s*\)/y;

function readCast(scanner: Scanner): Cast {
  const isQuoted = scanner.text[scanner.at] === '"';
  const at = scanner.at;
  const name = isQuoted ? readQuoted(scanner) : (match(scanner, typeWords)?.[0].trim() ?? '');
  if (name === '') fail(scanner, 'a type is missing; write, for example, price::text', at);
  const size = match(scanner, typeSize)?.[0] ?? '';
  let dimensions = 0;
  while (take(scanner, '[]')) dimensions++;
  if (dimensions > 6) fail(scanner, 'an array has at most 6 dimensions', at);
  return { name, isQuoted, size, dimensions };
}

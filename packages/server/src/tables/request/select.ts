// What a row shows: `select=id,name,total:amount::text,data->>color,author(name),comments!fk(text)`.
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
  type Source,
  take,
} from './scanner.ts';

export type Item =
  | Readonly<{ is: 'all' }>
  | Readonly<{ is: 'column'; field: Field; cast: Cast | null; alias: string | null }>
  | Embed;

/** Rows of another table inside a row. Its own conditions, order and limit come from further parameters. */
export type Embed = {
  readonly is: 'embed';
  /** The table's name, or that of the foreign key or its column. */
  readonly name: string;
  readonly alias: string | null;
  readonly hint: string | null;
  /** Rows without a match are left out. */
  readonly isInner: boolean;
  /** Its columns stand beside the others instead of in an object. */
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
  const source = open('select', text);
  const items = readItems(source, 0, { items: 0, embeds: 0 });
  if (!isAtEnd(source)) fail(source, '"," is missing');
  if (items.length === 0) fail(source, 'no column is named');
  return items;
}

/** `comments.order=…`, found by what the embedded rows are called in the answer. */
export function findEmbed(items: readonly Item[], name: string): Embed | undefined {
  const embeds = items.filter((item) => item.is === 'embed');
  return embeds.find(({ alias, name: table }) => (alias ?? table) === name);
}

export function setOrder(embed: Embed, parameter: string, text: string): void {
  embed.order = readOrder(parameter, text);
}

type Tally = { items: number; embeds: number };

function readItems(source: Source, depth: number, tally: Tally): Item[] {
  const items: Item[] = [];
  match(source, /\s*/y);
  if (isAtEnd(source) || source.text[source.at] === ')') return items;
  do {
    match(source, /\s*/y);
    if (++tally.items > maxItems) fail(source, `more than ${maxItems} columns are named`);
    items.push(readItem(source, depth, tally));
    match(source, /\s*/y);
  } while (take(source, ','));
  return items;
}

function readItem(source: Source, depth: number, tally: Tally): Item {
  if (take(source, '*')) return { is: 'all' };
  const at = source.at;
  const isSpread = take(source, '...');
  let { name } = readName(source);
  let alias: string | null = null;
  if (!source.text.startsWith('::', source.at) && take(source, ':')) {
    if (isSpread) fail(source, 'what is spread has no name of its own', at);
    if (Buffer.byteLength(name) > 63) fail(source, 'a name has more than 63 bytes', at);
    alias = name;
    match(source, /\s*/y);
    name = readName(source).name;
  }
  const next = source.text[source.at];
  if (next === '(' || next === '!') return readEmbed(source, { name, alias, isSpread }, depth + 1, tally);
  if (isSpread) fail(source, 'only rows of another table can be spread, as in ...author(name)', at);
  if (next === '.') {
    if (aggregate.test(source.text.slice(source.at))) fail(source, 'aggregates are not there: use SQL', at);
    fail(source, 'a dot has no meaning here; a name that holds one goes in double quotes');
  }
  const field = { name, steps: readSteps(source) };
  return { is: 'column', field, cast: take(source, '::') ? readCast(source) : null, alias };
}

const aggregate = /^\.(?:avg|count|max|min|sum)\(\)/;

function readEmbed(
  source: Source,
  start: Pick<Embed, 'name' | 'alias' | 'isSpread'>,
  depth: number,
  tally: Tally,
): Embed {
  if (depth > maxDepth) fail(source, `tables are embedded more than ${maxDepth} deep`);
  if (++tally.embeds > maxEmbeds) fail(source, `more than ${maxEmbeds} tables are embedded`);
  let hint: string | null = null;
  let isInner = false;
  while (take(source, '!')) {
    const at = source.at;
    const { name, isQuoted } = readName(source);
    if (!isQuoted && name === 'inner') isInner = true;
    else if (isQuoted || name !== 'left') {
      if (hint !== null) fail(source, 'one "!" names the foreign key; there is a second', at);
      hint = name;
    }
  }
  if (!take(source, '(')) fail(source, '"(" is missing');
  const items = readItems(source, depth, tally);
  if (!take(source, ')')) fail(source, '"," or ")" is missing');
  return { is: 'embed', ...start, hint, isInner, items, where: [], order: [], limit: null };
}

const typeWords = /[A-Za-z_][A-Za-z0-9_ ]*/y;
const typeSize = /\(\s*\d{1,9}(?:\s*,\s*\d{1,9})?\s*\)/y;

function readCast(source: Source): Cast {
  const isQuoted = source.text[source.at] === '"';
  const at = source.at;
  const name = isQuoted ? readQuoted(source) : (match(source, typeWords)?.[0].trim() ?? '');
  if (name === '') fail(source, 'a type is missing, as in price::text', at);
  const size = match(source, typeSize)?.[0] ?? '';
  let dimensions = 0;
  while (take(source, '[]')) dimensions++;
  if (dimensions > 6) fail(source, 'an array has at most 6 dimensions', at);
  return { name, isQuoted, size, dimensions };
}

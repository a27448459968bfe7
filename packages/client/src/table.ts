// The rows of a table: filters and order are collected, and sent when the table is awaited, iterated or written to.
import type { AnyRow } from './database.ts';
import { misuse } from './errors.ts';
import { missing, type Numbers, toBigInts, toText } from './json.ts';
import type { Call, CallOptions, PostOptions } from './request.ts';
import type { Selected } from './select.ts';

/** A page of rows. */
export type Page<Row> = {
  ok: true;
  columns: string[];
  /** The PostgreSQL type of each column. */
  types: string[];
  rows: Row[];
  /** The number of rows on this page. */
  row_count: number;
  /** null for a request with a cursor. */
  page: number | null;
  limit: number;
  has_more: boolean;
  next_cursor: string | null;
  /** Present if it was requested. null: counting took too long. */
  count?: { rows: number; kind: 'exact' | 'estimated' } | null;
};

/** The operators of the service; docs/tables.md describes them. */
export type Operator =
  | ('eq' | 'neq' | 'gt' | 'gte' | 'lt' | 'lte' | 'like' | 'ilike' | 'match' | 'imatch' | 'in' | 'is')
  | (
      | 'isdistinct'
      | 'cs'
      | 'cd'
      | 'ov'
      | 'sl'
      | 'sr'
      | 'nxr'
      | 'nxl'
      | 'adj'
      | 'fts'
      | 'plfts'
      | 'phfts'
      | 'wfts'
    );

/** A column, or a path into a json column: `data->>color`. */
export type Column<Row> = (keyof Row & string) | `${keyof Row & string}->${string}`;
type Given<Type> =
  | NonNullable<Type>
  | (number extends Type ? bigint : never)
  | (string extends Type ? Date : never);
/** The type of values that a column can be compared with. */
export type ValueOf<Row, Name> = Name extends keyof Row
  ? Given<Row[Name]>
  : string | number | bigint | boolean;

/** Options for an insert. */
export type WriteOptions = PostOptions;
/** Options for an update or a delete. */
export type ChangeOptions = CallOptions & {
  /** If more rows are affected, nothing is changed and the call throws `conflict`. */
  maxAffected?: number;
};
/** Options for an upsert. */
export type UpsertOptions = PostOptions & {
  /** The key that identifies an existing row. Default: the primary key. */
  onConflict?: string | readonly string[];
  /** `merge` (the default) updates the existing row, `ignore` keeps it. */
  resolution?: 'merge' | 'ignore';
};
/** CSV, or one JSON object per line. */
export type Format = 'csv' | 'jsonl';
export const formats = { csv: 'text/csv', jsonl: 'application/x-ndjson' };
/** What is imported: text, or bytes of any size. Browsers send a stream only over HTTP/2. */
export type Source = string | Blob | Uint8Array | ReadableStream<Uint8Array>;
/** Return the number of rows instead of the rows. */
export type Minimal = { returning: 'minimal' };

/**
 * A table or view. Every method returns a new object, so that a query can be stored and extended several times.
 *
 * @example
 * const page = await db.table('teas').select('id', 'name').gte('price', 4).order('price', 'desc').limit(10);
 * for await (const tea of db.table('teas').ilike('name', '*green*')) console.log(tea.name);
 */
export interface Table<Row = AnyRow, Insert = AnyRow, Update = AnyRow, Shown = Row, Embeds = unknown>
  extends PromiseLike<Page<Shown>>,
    AsyncIterable<Shown> {
  /**
   * Columns, or anything that `select` of the service supports: aliases, casts, `authors(name)`. With generated types, the
   * rows have the type of what is selected, embedded rows included; otherwise pass the type.
   *
   * @example
   * const { rows } = await db.table('plants').select('id', 'species(latin)'); // { id: number; species: { latin: string } }[]
   */
  select<const Columns extends readonly ((keyof Row & string) | (string & {}))[]>(
    ...columns: Columns
  ): Table<Row, Insert, Update, Selected<Row, Embeds, Columns>, Embeds>;
  select<Other = AnyRow>(...columns: string[]): Table<Row, Insert, Update, Other, Embeds>;
  eq<Name extends Column<Row>>(column: Name, value: ValueOf<Row, Name>): this;
  neq<Name extends Column<Row>>(column: Name, value: ValueOf<Row, Name>): this;
  gt<Name extends Column<Row>>(column: Name, value: ValueOf<Row, Name>): this;
  gte<Name extends Column<Row>>(column: Name, value: ValueOf<Row, Name>): this;
  lt<Name extends Column<Row>>(column: Name, value: ValueOf<Row, Name>): this;
  lte<Name extends Column<Row>>(column: Name, value: ValueOf<Row, Name>): this;
  /** `*` and `%` match any text. */
  like(column: Column<Row>, pattern: string): this;
  /** Like `like`, but case-insensitive. */
  ilike(column: Column<Row>, pattern: string): this;
  in<Name extends Column<Row>>(column: Name, values: readonly ValueOf<Row, Name>[]): this;
  is(column: Column<Row>, value: null | boolean | 'not_null' | 'unknown'): this;
  /** Any operator of the service: `filter('tags', 'cs', '{a,b}')`. */
  filter(column: Column<Row>, operator: Operator, value: unknown): this;
  /** The negation of a filter: `not('id', 'in', [1, 2])`. */
  not(column: Column<Row>, operator: Operator, value: unknown): this;
  /** At least one of several conditions: `or((t) => t.lt('price', 3), (t) => t.gt('price', 9).eq('name', 'Oolong'))`. */
  or(...branches: ((table: this) => this)[]): this;
  order(column: Column<Row>, direction?: 'asc' | 'desc', nulls?: 'nullsfirst' | 'nullslast'): this;
  /** The maximum number of rows. A page has 50 by default and at most 10,000. Iterating has no limit by default. */
  limit(rows: number): this;
  /** From 1. */
  page(number: number): this;
  /** `next_cursor` of the previous page. Use the same filters and order. */
  cursor(cursor: string): this;
  /** Adds `count` to the page: the number of all matching rows. */
  count(kind?: 'exact' | 'estimated'): this;
  /** Any parameter of the service, for those without a method: `param('authors.name', 'eq.Ann')`. */
  param(name: string, value: string): this;
  /** Aborts the request. */
  signal(signal: AbortSignal): this;
  /** The first row, or null. */
  first(): Promise<Shown | null>;

  /** Inserts rows and returns them as stored, including defaults. Either all rows are inserted or none. */
  insert(row: Insert | readonly Insert[], options: WriteOptions & Minimal): Promise<number>;
  insert(rows: readonly Insert[], options?: WriteOptions): Promise<Shown[]>;
  insert(row: Insert, options?: WriteOptions): Promise<Shown>;
  /** Inserts rows. Existing rows with the same key are updated, or kept (then they are not returned). */
  upsert(row: Insert | readonly Insert[], options: UpsertOptions & Minimal): Promise<number>;
  upsert(rows: readonly Insert[], options?: UpsertOptions): Promise<Shown[]>;
  upsert(row: Insert, options: UpsertOptions & { resolution: 'ignore' }): Promise<Shown | null>;
  upsert(row: Insert, options?: UpsertOptions): Promise<Shown>;
  /**
   * Inserts rows of CSV (with column names in the first line) or JSON lines: all or none. Returns their number.
   *
   * @example
   * await db.table('teas').import('csv', 'name,price\nAssam,4.5\n');
   */
  import(format: Format, rows: Source, options?: WriteOptions): Promise<number>;
  /**
   * Yields all rows that match, as text, piece by piece.
   *
   * @example
   * for await (const piece of db.table('teas').export('csv')) process.stdout.write(piece);
   */
  export(format: Format): AsyncGenerator<string, void, undefined>;
  /** Updates the rows that match the filters. Without a filter, the service rejects it. */
  update(changes: Update, options: ChangeOptions & Minimal): Promise<number>;
  update(changes: Update, options?: ChangeOptions): Promise<Shown[]>;
  /** Deletes the rows that match the filters. Without a filter, the service rejects it. */
  delete(options: ChangeOptions & Minimal): Promise<number>;
  delete(options?: ChangeOptions): Promise<Shown[]>;
}

/** The dependencies of a table. */
export type TableDeps = {
  name: string;
  numbers: Numbers;
  // biome-ignore lint/suspicious/noExplicitAny: each caller knows what it requested
  send(call: Call): Promise<any>;
  read(call: Call): AsyncGenerator<string>;
};

type Query = Readonly<{
  conditions: readonly string[];
  order: readonly string[];
  params: Readonly<Record<string, string | number>>;
  signal?: AbortSignal;
}>;
type Options = UpsertOptions & ChangeOptions & Partial<Minimal>;
type Answer = Page<AnyRow> & { row?: AnyRow | null };

const operators = 'eq neq gt gte lt lte like ilike in is'.split(' ');
/** The number of rows in each request of an iteration. */
const pieceRows = 1_000;

export function makeTable(deps: TableDeps, query: Query = { conditions: [], order: [], params: {} }): Table {
  const { name, numbers } = deps;
  const { conditions, order, params, signal } = query;
  const withQuery = (more: Partial<Query>) => makeTable(deps, { ...query, ...more });
  const param = (key: string, value: string | number) => withQuery({ params: { ...params, [key]: value } });
  const where = (condition: string) => withQuery({ conditions: [...conditions, condition] });
  const filter = (column: string, operator: string, value: unknown, not = '') =>
    where(`${quotePath(column)}.${not}${operator}.${operand(operator, value)}`);

  const place = {
    signal,
    path: ['tables', name],
    query: {
      ...params,
      order: order.join() || undefined,
      and: conditions.length > 0 ? `(${conditions.join()})` : undefined,
    },
  };
  const send = async (
    method: Call['method'],
    more?: object,
    body?: unknown,
    { maxAffected: max_affected, returning, idempotencyKey, ...options }: Options = {},
  ): Promise<Answer> => {
    const answer: Answer = await deps.send({
      ...place,
      signal: options.signal ?? signal,
      idempotencyKey,
      method,
      query: {
        ...place.query,
        numbers: numbers === 'number' || returning ? undefined : 'string',
        max_affected,
        returning,
        ...more,
      },
      body,
    });
    const { rows, row, columns, types } = answer;
    toBigInts(numbers, rows ?? (row ? [row] : []), columns, types);
    return answer;
  };
  const write = async (method: Call['method'], body: unknown, options?: Options, more?: object) => {
    for (const row of [body ?? {}].flat() as AnyRow[])
      for (const column in row) if (row[column] === undefined) throw missing(`of "${column}"`);
    const { rows, row, row_count } = await send(method, more, body, options);
    return rows ?? (row === undefined ? row_count : row);
  };

  async function* iterate(): AsyncGenerator<AnyRow> {
    const { page, limit } = params;
    let left = Number(limit ?? Number.POSITIVE_INFINITY);
    let place: object = {};
    for (let number = 1; ; number++) {
      // A page that was requested by its number is a single page of the requested size.
      const size = page ? {} : { limit: Math.min(left, pieceRows) };
      const { rows, has_more, next_cursor } = await send('GET', { ...size, ...place });
      yield* rows;
      left -= rows.length;
      if (!has_more || left <= 0 || page) return;
      // Views have no cursors.
      place = next_cursor ? { cursor: next_cursor } : { page: number + 1 };
    }
  }

  const table = {
    select: (...columns: string[]) => param('select', columns.join()),
    filter,
    not: (column: string, operator: string, value: unknown) => filter(column, operator, value, 'not.'),
    or: (...branches: ((table: Table) => Table)[]) => {
      const parts = branches.map((branch) => `and(${conditionsOf.get(branch(makeTable(deps)))?.join()})`);
      return where(`or(${parts.join()})`);
    },
    order: (column: string, direction = 'asc', nulls?: string) =>
      withQuery({ order: [...order, `${quotePath(column)}.${direction}${nulls ? `.${nulls}` : ''}`] }),
    count: (kind = 'exact') => param('count', kind),
    param,
    signal: (given: AbortSignal) => withQuery({ signal: given }),
    first: async () => (await send('GET', { limit: 1 })).rows[0] ?? null,
    insert: (body: unknown, options?: Options) => write('POST', body, options),
    upsert: (body: unknown, { onConflict, resolution = 'merge', ...options }: Options = {}) =>
      write('POST', body, options, { resolution, on_conflict: onConflict && String(onConflict) }),
    update: (changes: unknown, options?: Options) => write('PATCH', changes, options),
    delete: (options?: Options) => write('DELETE', undefined, options),
    import: async (format: Format, body: Source, options?: Options) =>
      (await deps.send({ ...place, ...options, method: 'POST', type: formats[format], body })).row_count,
    export: (format: Format) => deps.read({ ...place, method: 'GET', accept: formats[format] }),
    // biome-ignore lint/suspicious/noThenProperty: awaiting is how a page is read
    then: (resolve: never, reject: never) => send('GET').then(resolve, reject),
    [Symbol.asyncIterator]: iterate,
  } as Record<string | symbol, unknown>;
  for (const operator of operators)
    table[operator] = (column: string, value: unknown) => filter(column, operator, value);
  for (const key of ['limit', 'page', 'cursor']) table[key] = (value: string | number) => param(key, value);
  conditionsOf.set(table, conditions);
  return table as unknown as Table;
}

const conditionsOf = new WeakMap<object, readonly string[]>();

/** A quoted name or value has no special meaning. */
function quote(text: string): string {
  return `"${text.replace(/["\\]/g, '\\$&')}"`;
}

/** `data->items->0`: a number is an array index. */
function quotePath(column: string): string {
  return column
    .split(/(->>?)/)
    .map((part, index) => (index % 2 || (index && /^-?\d+$/.test(part)) ? part : quote(part)))
    .join('');
}

function operand(operator: string, value: unknown): string {
  if (operator === 'is') return String(value);
  if (operator !== 'in') return quote(toText(value));
  if (!Array.isArray(value)) throw misuse('in() requires an array.');
  return `(${value.map((one) => quote(toText(one))).join()})`;
}

// sql`…`: values become parameters, wherever they come from; names go through sql.id alone.
import { misuse } from './errors.ts';

/** What `sql.id` gives: a quoted name to put into sql`…`. */
export type SqlName = { readonly [kind]: 'name' };

/** A statement, or part of one. It runs when it is awaited. */
export interface Sql<Result = unknown> extends PromiseLike<Result> {
  readonly [kind]: 'statement';
}

declare const kind: unique symbol;

export type Statement = { query: string; params: unknown[] };
type Parts = { strings: readonly string[]; values: readonly unknown[] };

/** What was made here, so that nothing out of a JSON body passes for it. */
const known = new WeakMap<object, Parts>();

export function makeSql<Result>(
  strings: TemplateStringsArray,
  values: readonly unknown[],
  run: (statement: Sql) => Promise<Result>,
): Sql<Result> {
  if (!Array.isArray(strings?.raw))
    throw misuse('sql is a tag: sql`…` without parentheses.', 'query() takes a text.');
  let running: Promise<Result> | undefined;
  const sql = {
    // biome-ignore lint/suspicious/noThenProperty: awaiting is how it runs
    then: (resolve, reject) => {
      running ??= run(sql);
      return running.then(resolve, reject);
    },
  } as Pick<Sql<Result>, 'then'> as Sql<Result>;
  known.set(sql, { strings, values });
  return sql;
}

export function makeName(...names: string[]): SqlName {
  const quoted = names.map((name) => {
    // PostgreSQL would cut a longer name, and find another table by what is left.
    if (!/^[^\0]+$/.test(name) || new TextEncoder().encode(name).length > 63)
      throw misuse(`"${name}" is no name.`);
    return `"${name.replaceAll('"', '""')}"`;
  });
  const sqlName = {} as SqlName;
  known.set(sqlName, { strings: [quoted.join('.')], values: [] });
  return sqlName;
}

/** null: it is none. */
export function statementOf(sql: unknown): Statement | null {
  const parts = known.get(sql as object);
  if (!parts) return null;
  const params: unknown[] = [];
  return { query: write(parts, params), params };
}

function write({ strings, values }: Parts, params: unknown[]): string {
  return values.reduce((text: string, value, index) => {
    const parts = known.get(value as object);
    const next = strings[index + 1] as string;
    // A digit behind it would make another parameter of it.
    return (
      text + (parts ? write(parts, params) : `$${params.push(value)}${/^\d/.test(next) ? ' ' : ''}`) + next
    );
  }, strings[0] as string);
}

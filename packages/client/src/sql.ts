// sql`…`: all values become parameters. Only sql.id puts names into the text.
import { misuse } from './errors.ts';

/** The result of `sql.id`: a quoted name for use in sql`…`. */
export type SqlName = { readonly [kind]: 'name' };

/** A statement, or a part of one. It runs when it is awaited. */
export interface Sql<Result = unknown> extends PromiseLike<Result> {
  readonly [kind]: 'statement';
}

declare const kind: unique symbol;

export type Statement = { query: string; params: unknown[] };
type Parts = { strings: readonly string[]; values: readonly unknown[] };

/** The statements and names that were created here, so that no value from a JSON body is mistaken for one. */
const known = new WeakMap<object, Parts>();

export function makeSql<Result>(
  strings: TemplateStringsArray,
  values: readonly unknown[],
  run: (statement: Sql) => Promise<Result>,
): Sql<Result> {
  if (!Array.isArray(strings?.raw)) throw misuse('sql is a tag: write sql`…`.', 'query() takes a string.');
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
    // PostgreSQL would truncate a longer name and might find another table.
    if (!/^[^\0]+$/.test(name) || new TextEncoder().encode(name).length > 63)
      throw misuse(`"${name}" is not a name of 1 to 63 bytes.`);
    return `"${name.replaceAll('"', '""')}"`;
  });
  const sqlName = {} as SqlName;
  known.set(sqlName, { strings: [quoted.join('.')], values: [] });
  return sqlName;
}

/** null: not a statement of sql`…`. */
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
    // Without the space, a digit that follows would change the number of the parameter.
    return (
      text + (parts ? write(parts, params) : `$${params.push(value)}${/^\d/.test(next) ? ' ' : ''}`) + next
    );
  }, strings[0] as string);
}

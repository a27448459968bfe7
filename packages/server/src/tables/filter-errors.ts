// Rewrites PostgreSQL's errors about a filter so that they name the filter. As in write/errors.ts, only message, hint
// and details change: code and status stay.
import type { RowhouseError } from '../errors/errors.ts';
import type { Column, Table } from './catalog/catalog.ts';
import type { Condition, Test } from './request/conditions.ts';
import { shorten, spell } from './request/scanner.ts';
import type { Item } from './request/select.ts';
import { symbols, toArray } from './sql/expressions.ts';
import { expectation, reword } from './write/errors.ts';

export type Filtered = Readonly<{
  table: Table;
  select: readonly Item[];
  where: readonly Condition[];
  /** All parameters of the statement, including those of the filters. */
  params: readonly unknown[];
}>;

/**
 * `column`: the tested column; null: a value inside JSON, or a column of an embedded table, which is not known here.
 */
type Found = Readonly<{ test: Test; column: Column | null }>;

const noSuchOperator = '42883';

/** `context`: PostgreSQL's CONTEXT, which names the parameter it could not read. It is not passed on to the caller. */
export function explainFilterError(
  error: RowhouseError,
  filtered: Filtered,
  context: string | undefined,
): RowhouseError {
  if (error.sql?.state === noSuchOperator) return explainOperator(error, filtered, context);
  const number = /\bparameter \$(\d+)/.exec(context ?? '')?.[1];
  const text = number === undefined ? null : (filtered.params[Number(number) - 1] ?? null);
  const found = text === null ? null : onlyOne(filtered, ({ test }) => textOf(test) === text);
  if (!found) return reword(error, {});
  const hint = hintOf(found);
  return reword(error, {
    message: `The filter ${nameOf(found)}: ${error.message}`,
    ...(hint && { hint }),
    details: detailsOf(found),
  });
}

function explainOperator(
  error: RowhouseError,
  filtered: Filtered,
  context: string | undefined,
): RowhouseError {
  const { message } = error;
  // An error with a CONTEXT was raised by the project's own code.
  const found = context
    ? null
    : onlyOne(
        filtered,
        ({ test, column }) => message.includes(spellingOf(test)) && message.includes(column?.type ?? ''),
      );
  if (!found) return reword(error, {});
  const type = found.column?.type ?? 'this type';
  return reword(error, {
    message: `The filter ${nameOf(found)}: "${found.test.operator}" does not support ${type}.`,
    hint: 'like, ilike, match, imatch and full-text search require text; cs, cd and ov require arrays, ranges or jsonb; sl, sr, nxr, nxl and adj require ranges.',
    details: detailsOf(found),
  });
}

/** How PostgreSQL's message spells the operator that the test was compiled to. */
function spellingOf({ operator }: Test): string {
  if (operator === 'is') return 'IS ';
  if (operator === 'in') return 'pg_catalog.= ';
  if (operator === 'isdistinct') return 'pg_catalog.<> ';
  return operator in symbols ? `pg_catalog.${symbols[operator as keyof typeof symbols]} ` : 'to_tsvector(';
}

/** The only matching test; null: none, or several different ones. */
function onlyOne({ table, select, where }: Filtered, is: (found: Found) => boolean): Found | null {
  const all = [
    ...testsOf(where).map((test) => {
      const column = test.field.steps.length === 0 ? table.columns.get(test.field.name) : null;
      return { test, column: column ?? null };
    }),
    ...testsInEmbeds(select).map((test) => ({ test, column: null })),
  ];
  const [first, ...others] = all.filter(is);
  return first && others.every((other) => nameOf(other) === nameOf(first)) ? first : null;
}

function testsOf(where: readonly Condition[]): Test[] {
  return where.flatMap((condition) =>
    condition.is === 'test' ? [condition] : testsOf(condition.conditions),
  );
}

function testsInEmbeds(select: readonly Item[]): Test[] {
  return select.flatMap((item) =>
    item.is === 'embed' ? [...testsOf(item.where), ...testsInEmbeds(item.items)] : [],
  );
}

function textOf(test: Test): string | null {
  if ('values' in test) return toArray(test.values);
  return test.operator === 'is' ? null : test.value;
}

function hintOf({ test, column }: Found): string | null {
  if (!column || 'values' in test) return null;
  return column.shape.isArray ? 'Write an array in braces, such as {1,2}.' : expectation(column);
}

/** For a test inside `or` or `and`, names the field too. */
function nameOf({ test: { parameter, field } }: Found): string {
  const name = spell(field);
  return parameter.endsWith(name)
    ? `"${shorten(parameter)}"`
    : `"${shorten(name)}" in "${shorten(parameter)}"`;
}

function detailsOf({ test: { parameter, field } }: Found) {
  return { parameter: shorten(parameter), columns: [shorten(field.name)] };
}

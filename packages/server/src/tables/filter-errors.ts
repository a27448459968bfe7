// What PostgreSQL refused of a filter, told with the filter's name. As with values that are written, only words change:
// code and status stay as they are.
import type { RowhouseError } from '../errors.ts';
import type { Column, Table } from './catalog/catalog.ts';
import type { Condition, Test } from './request/conditions.ts';
import { shorten, spell } from './request/scanner.ts';
import type { Item } from './request/select.ts';
import { symbols, toArray } from './sql/expressions.ts';
import { expectation, retell } from './write/errors.ts';

export type Filtered = Readonly<{
  table: Table;
  select: readonly Item[];
  where: readonly Condition[];
  /** The statement's; those of filters among them. */
  params: readonly unknown[];
}>;

/** `column`: what the test is about; null: inside JSON, or of an embedded table, whose columns are not at hand. */
type Found = Readonly<{ test: Test; column: Column | null }>;

const noSuchOperator = '42883';

/** `context`: PostgreSQL's, in which it names the parameter it could not read. It is not passed on. */
export function explainFilterError(
  error: RowhouseError,
  filtered: Filtered,
  context: string | undefined,
): RowhouseError {
  if (error.sql?.state === noSuchOperator) return ofOperator(error, filtered, context);
  const number = /\bparameter \$(\d+)/.exec(context ?? '')?.[1];
  const text = number === undefined ? null : (filtered.params[Number(number) - 1] ?? null);
  const found = text === null ? null : onlyOne(filtered, ({ test }) => textOf(test) === text);
  if (!found) return retell(error, {});
  const hint = hintOf(found);
  return retell(error, {
    message: `The filter ${nameOf(found)}: ${error.message}`,
    ...(hint && { hint }),
    details: detailsOf(found),
  });
}

function ofOperator(error: RowhouseError, filtered: Filtered, context: string | undefined): RowhouseError {
  const { message } = error;
  // With a context it was raised by code of the project's own.
  const found = context
    ? null
    : onlyOne(
        filtered,
        ({ test, column }) => message.includes(spellingOf(test)) && message.includes(column?.type ?? ''),
      );
  if (!found) return retell(error, {});
  const type = found.column?.type ?? 'what is there';
  return retell(error, {
    message: `The filter ${nameOf(found)}: "${found.test.operator}" does not go with ${type}.`,
    hint: 'like, ilike, match, imatch and full text are for text, cs, cd and ov for arrays, ranges and jsonb, sl, sr, nxr, nxl and adj for ranges.',
    details: detailsOf(found),
  });
}

/** As PostgreSQL's message has what the test was compiled to. */
function spellingOf({ operator }: Test): string {
  if (operator === 'is') return 'IS ';
  if (operator === 'in') return 'pg_catalog.= ';
  if (operator === 'isdistinct') return 'pg_catalog.<> ';
  return operator in symbols ? `pg_catalog.${symbols[operator as keyof typeof symbols]} ` : 'to_tsvector(';
}

/** null: none, or several that differ. */
function onlyOne({ table, select, where }: Filtered, is: (found: Found) => boolean): Found | null {
  const all = [
    ...testsOf(where).map((test) => {
      const column = test.field.steps.length === 0 ? table.columns.get(test.field.name) : null;
      return { test, column: column ?? null };
    }),
    ...testsWithin(select).map((test) => ({ test, column: null })),
  ];
  const [first, ...others] = all.filter(is);
  return first && others.every((other) => nameOf(other) === nameOf(first)) ? first : null;
}

function testsOf(where: readonly Condition[]): Test[] {
  return where.flatMap((condition) =>
    condition.is === 'test' ? [condition] : testsOf(condition.conditions),
  );
}

function testsWithin(select: readonly Item[]): Test[] {
  return select.flatMap((item) =>
    item.is === 'embed' ? [...testsOf(item.where), ...testsWithin(item.items)] : [],
  );
}

function textOf(test: Test): string | null {
  if ('values' in test) return toArray(test.values);
  return test.operator === 'is' ? null : test.value;
}

function hintOf({ test, column }: Found): string | null {
  if (!column || 'values' in test) return null;
  return column.shape.isArray ? 'An array is written in braces, as in {1,2}.' : expectation(column);
}

/** `or` alone would say too little: the field inside it does. */
function nameOf({ test: { parameter, field } }: Found): string {
  const name = spell(field);
  return parameter.endsWith(name)
    ? `"${shorten(parameter)}"`
    : `"${shorten(name)}" in "${shorten(parameter)}"`;
}

function detailsOf({ test: { parameter, field } }: Found) {
  return { parameter: shorten(parameter), columns: [shorten(field.name)] };
}

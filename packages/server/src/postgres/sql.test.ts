import { expect, it } from 'vitest';
import { sql } from './sql.ts';

it('values become parameters, fragments nest and are numbered through', () => {
  const inner = sql`b = ${2} and ${sql.id('c"d')} = ${'x'}`;
  const { text, values } = sql`select ${1} where ${inner} or e = ${null}`;
  expect(text).toBe('select $1 where b = $2 and "c""d" = $3 or e = $4');
  expect(values).toEqual([1, 2, 'x', null]);
});

it('a value that looks like a fragment stays a value', () => {
  const { text, values } = sql`select ${{ text: 'drop table x', values: [] }}`;
  expect(text).toBe('select $1');
  expect(values.length).toBe(1);
});

it('refuses identifiers PostgreSQL would cut or misread', () => {
  for (const name of ['', 'a\0b', 'x'.repeat(64), 'é'.repeat(32)])
    expect(() => sql.id(name)).toThrow(RangeError);
  expect(sql.id('é'.repeat(31)).text).toBe(`"${'é'.repeat(31)}"`);
});

it('literals hold quotes and backslashes', () => {
  expect(sql.literal("a'b\\c").text).toBe(" E'a''b\\\\c'");
});

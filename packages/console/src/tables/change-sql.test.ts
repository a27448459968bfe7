import { expect, it } from 'vitest';
import type { Table } from '../api/queries.ts';
import { emptyHistory, insertRows, setCells, stagedOf, toggleDeleted } from '../grid/staged.ts';
import { arrayText } from './array-text.ts';
import { changeStatements, readableStatements } from './change-sql.ts';

const column = (name: string, type: string) => ({
  name,
  type,
  not_null: false,
  default: null,
  identity: null,
  generated: null,
  enum: null,
  comment: null,
});
const table: Table = {
  schema: 'public',
  name: 'te"as',
  kind: 'table',
  comment: null,
  row_security: false,
  columns: [
    column('id', 'bigint'),
    column('name', 'text'),
    column('price', 'numeric(10,2)'),
    column('data', 'jsonb'),
    column('spot', 'point'),
  ],
  primary_key: ['id'],
  uniques: [],
  references: [],
};
const values = { id: '1', name: "O'Neill", price: '1.50', data: { a: 1 }, spot: '(1,2)' };
const row = { key: '["1"]', values };

it('an update names the row by its key and by the values that were seen', () => {
  const staged = stagedOf(
    setCells(emptyHistory, [
      { row, column: 'name', value: 'Mate' },
      { row, column: 'data', value: 7 },
    ]),
  );
  expect(changeStatements(table, staged)).toEqual([
    {
      query:
        'update "te""as" set "name" = $1::text, "data" = $2::jsonb where "id" = $3::bigint and "name" = $4::text and "data"::jsonb = $5::jsonb',
      params: ['Mate', '7', '1', "O'Neill", '{"a":1}'],
      expect_affected: 1,
    },
  ]);
});

it('a delete compares the whole row, also types without an equality', () => {
  const [statement] = changeStatements(table, stagedOf(toggleDeleted(emptyHistory, [row])));
  expect(statement?.query).toBe(
    'delete from "te""as" where "id" = $1::bigint and "name" = $2::text and "price" = $3::numeric and "data"::jsonb = $4::jsonb and "spot"::text = $5',
  );
});

it('a NULL that was seen must still be NULL', () => {
  const withNull = { key: '["2"]', values: { ...values, name: null } };
  const [statement] = changeStatements(
    table,
    stagedOf(setCells(emptyHistory, [{ row: withNull, column: 'name', value: '' }])),
  );
  expect(statement?.query).toContain('"name" is null');
});

it('deletes run before updates and inserts; columns without a value get their default', () => {
  const history = insertRows(toggleDeleted(emptyHistory, [row]), [{ name: 'New' }, {}]);
  expect(
    changeStatements(table, stagedOf(history)).map(({ query }) => query.split(' ').slice(0, 2).join(' ')),
  ).toEqual(['delete from', 'insert into', 'insert into']);
  expect(changeStatements(table, stagedOf(history)).at(-1)?.query).toBe(
    'insert into "te""as" default values',
  );
});

it('the statements to be read have literals, also where a name looks like a parameter', () => {
  const odd: Table = { ...table, columns: [...table.columns, column('a$1', 'smallint')] };
  const staged = stagedOf(
    setCells(emptyHistory, [
      { row: { key: '["1"]', values: { ...values, a$1: 2 } }, column: 'a$1', value: -32768 },
      { row, column: 'name', value: "a'$3" },
    ]),
  );
  expect(readableStatements(odd, staged)).toEqual([
    `update "te""as" set "a$1" = '-32768'::smallint, "name" = 'a''$3'::text where "id" = '1'::bigint and "a$1" = '2'::smallint and "name" = 'O''Neill'::text`,
  ]);
});

it('arrays are written as PostgreSQL reads them', () => {
  expect(arrayText(['pasted', 'a"b\\c', '', null, 'NULL'], 'text[]')).toBe(
    '{"pasted","a\\"b\\\\c","",NULL,"NULL"}',
  );
  expect(
    arrayText(
      [
        [1, 2],
        [3, null],
      ],
      'integer[]',
    ),
  ).toBe('{{"1","2"},{"3",NULL}}');
  expect(arrayText([[1], { a: 'b' }, 'c'], 'jsonb[]')).toBe('{"[1]","{\\"a\\":\\"b\\"}","\\"c\\""}');
});

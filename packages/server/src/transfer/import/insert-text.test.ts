import { describe, expect, it } from 'vitest';
import { readAuthColumns, readAuthInsert, readInsertRows } from './insert-text.ts';

function read(text: string) {
  const head = readAuthInsert(text);
  const columns = head?.columns ?? ['a', 'b'];
  return [...readInsertRows(text, head?.valuesAt ?? -1, columns)].map((row) => row && [...row.values()]);
}

describe('the rows of an INSERT', () => {
  it('as Supabase writes them', () => {
    const text = `INSERT INTO "auth"."users" ("instance_id", "id", "email", "data", "is_anonymous", "n", "banned") VALUES
\t('00000000', '1', 'it''s@example.com', '{"a": "b\\n), ("}', false, -1.5, NULL),
\t('00000000', '2', NULL, '{}', true, 2, DEFAULT);`;
    expect(readAuthInsert(text)).toMatchObject({
      table: 'users',
      columns: ['instance_id', 'id', 'email', 'data', 'is_anonymous', 'n', 'banned'],
    });
    expect(read(text)).toEqual([
      ['00000000', '1', "it's@example.com", '{"a": "b\\n), ("}', 'f', '-1.5', null],
      ['00000000', '2', null, '{}', 't', '2', null],
    ]);
  });

  it('with escapes, casts and spaces; expressions are known as such', () => {
    expect(
      read(
        `insert into auth.users (a, b) values (E'x\\'y\\n', 'z'::text) , ( 1 , 'a'::"pg_catalog"."text" );`,
      ),
    ).toEqual([
      ["x'y\n", 'z'],
      ['1', 'a'],
    ]);
    expect(
      read(
        `insert into auth.users values (gen_random_uuid(), crypt('a), (', gen_salt('bf'))), ('1', 'x' || 'y'), ('2', 'b');`,
      ),
    ).toEqual([null, null, ['2', 'b']]);
    expect(read('insert into auth.users select 1, 2;')).toEqual([null]);
    expect(read(`insert into auth.users (a, b) values (1, 2) on conflict (a, b) do nothing;`)).toEqual([
      ['1', '2'],
    ]);
  });

  it.each([
    ['of another number of columns', "insert into auth.users (a, b) values ('1');"],
    ['without an end', "insert into auth.users (a, b) values ('1', '2"],
  ])('%s are refused', (_what, text) => {
    expect(() => read(text)).toThrow();
  });

  it('of other tables are not read', () => {
    expect(readAuthInsert('insert into public.users values (1);')).toBeNull();
    expect(readAuthInsert('insert into auth_users values (1);')).toBeNull();
  });

  it('in a time proportional to their length', () => {
    const started = performance.now();
    const row = `('x', '${'y'.repeat(50)}')`;
    const text = `insert into auth.users (a, b) values ${Array(50_000).fill(row).join(',')};`;
    expect(read(text)).toHaveLength(50_000);
    expect(performance.now() - started).toBeLessThan(5_000);
  });
});

describe('the columns of a table of auth', () => {
  it('without constraints and types', () => {
    const text = `CREATE TABLE IF NOT EXISTS "auth"."users" (
    "instance_id" "uuid", "id" uuid NOT NULL,
    "price" numeric(10,2) DEFAULT 1,
    "role" character varying(255) DEFAULT 'a, b'::character varying,
    CONSTRAINT "users_check" CHECK ((("price" >= 0) AND ("price" <= 2)))
);`;
    expect(readAuthColumns(text)).toEqual({
      table: 'users',
      columns: ['instance_id', 'id', 'price', 'role'],
    });
    expect(readAuthColumns('CREATE TABLE public.users (id int);')).toBeNull();
  });
});

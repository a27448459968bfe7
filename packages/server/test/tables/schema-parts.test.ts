// GET /schema with `include`: definitions of indexes, policies, functions and more.
import { SchemaResponse } from '@rowhouse/api';
import { Compile } from 'typebox/compile';
import { beforeAll, describe, expect, it } from 'vitest';
import { useTestService } from '../support/helpers.ts';

const rowhouse = useTestService();
let mine: { slug: string; id: string; key: string };
const run = async (query: string) => {
  const { status, body } = await rowhouse.call('POST', `/projects/${mine.slug}/query`, {
    key: mine.key,
    body: { query },
  });
  expect(status, JSON.stringify(body)).toBe(200);
};
const schema = (include?: string, key = mine.key) =>
  rowhouse.call('GET', `/projects/${mine.slug}/schema${include === undefined ? '' : `?include=${include}`}`, {
    key,
  });

beforeAll(async () => {
  mine = await rowhouse.project('Parts');
  for (const text of [
    "create table authors (id int primary key, name text not null check (name <> ''))",
    `create table books (id int primary key, title text unique, author_id int references authors, price numeric)`,
    'create index books_cheap on books (lower(title)) where price < 10',
    'alter table books enable row level security',
    `create policy "own books" on books for update to authenticated using (author_id = 1) with check (price > 0)`,
    'create policy everyone on books as restrictive for select using (true)',
    'create view cheap with (security_invoker) as select title from books where price < 10',
    'create materialized view counted as select count(*) from books',
    `create function noted() returns trigger language plpgsql as $$ begin return new; end $$`,
    `create function add(a int, b int default 1) returns int language sql immutable as $$ select a + b $$`,
    'create aggregate total (int) (sfunc = int4pl, stype = int)',
    'create trigger note before insert on books for each row execute function noted()',
    'alter table books disable trigger note',
    'create extension hstore',
  ])
    await run(text);
});

describe('the schema', () => {
  it('without include is what it was', async () => {
    const { body } = await schema();
    expect(Object.keys(body)).toEqual(['ok', 'tables', 'enums', 'functions']);
    expect(body.functions[0]).not.toHaveProperty('definition');
  });

  it('bounds its comments and defaults together', async () => {
    const long = await rowhouse.project('Long texts');
    const columns = Array.from(
      { length: 40 },
      (_, n) => `c${n} text default repeat('d', 1) || '${'d'.repeat(9_000)}'`,
    );
    const comments = Array.from(
      { length: 40 },
      (_, n) => `comment on column %1$I.c${n} is '${'ä'.repeat(9_000)}'`,
    );
    for (const table of ['a', 'b', 'c']) {
      const statements = [
        `create table ${table} (${columns.join(', ')})`,
        ...comments.map((text) => text.replace('%1$I', table)),
        `comment on table ${table} is 'table ${table}'`,
      ];
      const query = `do $$ begin ${statements.join('; ')}; end $$`;
      const { status, body } = await rowhouse.call('POST', `/projects/${long.slug}/query`, {
        key: long.key,
        body: { query },
      });
      expect(status, JSON.stringify(body)).toBe(200);
    }
    const { body } = await rowhouse.call('GET', `/projects/${long.slug}/schema`, { key: long.key });
    type Column = { default: string | null; comment: string | null };
    const all: Column[] = body.tables.flatMap((table: { columns: Column[] }) => table.columns);
    expect(all).toHaveLength(120);
    for (const text of ['default', 'comment'] as const) {
      const given = all.map((column) => column[text]);
      const kept = given.filter((value) => value !== null);
      const bytes = Buffer.byteLength(kept.join(''));
      expect([bytes > 480 * 1024, bytes <= 512 * 1024]).toEqual([true, true]);
      // Those at the beginning.
      expect(given.slice(kept.length).every((value) => value === null)).toBe(true);
    }
    expect(body.tables.map((table: { comment: string }) => table.comment)).toEqual([
      ...['table a', 'table b', 'table c'],
    ]);
    const listed = await rowhouse.call('GET', `/projects/${long.slug}/tables`, { key: long.key });
    expect(listed.body.tables).toMatchObject([
      { name: 'a', kind: 'table', comment: 'table a' },
      ...[{ name: 'b' }, { name: 'c' }],
    ]);
  });

  it('has every part that is asked for, with its definition', async () => {
    const all = 'indexes,constraints,policies,triggers,views,functions,extensions';
    const { status, body } = await schema(all);
    expect(status).toBe(200);
    expect(Compile(SchemaResponse).Check(body)).toBe(true);
    expect(body.truncated).toEqual([]);
    expect(body.indexes.map((one: { name: string }) => one.name)).toEqual([
      ...['authors_pkey', 'books_pkey', 'books_title_key', 'books_cheap'],
    ]);
    expect(body.indexes[3]).toMatchObject({
      schema: 'public',
      table: 'books',
      unique: false,
      primary: false,
      valid: true,
      definition: expect.stringMatching(/^CREATE INDEX books_cheap ON public.books .* WHERE/),
    });
    expect(body.constraints).toContainEqual({
      schema: 'public',
      table: 'books',
      name: 'books_author_id_fkey',
      kind: 'foreign_key',
      valid: true,
      definition: 'FOREIGN KEY (author_id) REFERENCES authors(id)',
    });
    expect(body.policies).toEqual([
      {
        schema: 'public',
        table: 'books',
        name: 'everyone',
        command: 'select',
        permissive: false,
        roles: ['public'],
        using: 'true',
        check: null,
      },
      {
        schema: 'public',
        table: 'books',
        name: 'own books',
        command: 'update',
        permissive: true,
        roles: ['authenticated'],
        using: '(author_id = 1)',
        check: '(price > (0)::numeric)',
      },
    ]);
    expect(body.triggers).toMatchObject([{ table: 'books', name: 'note', enabled: false }]);
    expect(body.views).toMatchObject([
      { name: 'cheap', kind: 'view', security_invoker: true },
      { name: 'counted', kind: 'materialized_view', security_invoker: false },
    ]);
    expect(body.views[0].definition).toContain('WHERE');
    const functions = new Map(body.functions.map((one: { name: string }) => [one.name, one]));
    expect(functions.get('add')).toMatchObject({
      arguments: 'a integer, b integer DEFAULT 1',
      identity_arguments: 'a integer, b integer',
      returns: 'integer',
      security_definer: false,
      volatility: 'immutable',
      definition: expect.stringContaining('select a + b'),
    });
    expect(functions.get('total')).toMatchObject({ kind: 'aggregate', definition: null });
    const extensions = new Map(body.extensions.map((one: { name: string }) => [one.name, one]));
    expect(extensions.get('hstore')).toMatchObject({ schema: 'public', version: expect.any(String) });
    expect([...extensions.values()].some((one) => (one as { version: null }).version === null)).toBe(true);
  });

  it('has one part alone, and says what can be asked for', async () => {
    const { body } = await schema('policies,policies');
    expect(Object.keys(body)).toEqual(['ok', 'tables', 'enums', 'functions', 'policies', 'truncated']);
    for (const wrong of ['', 'policy', 'indexes,', 'indexes, policies', '__proto__']) {
      const refused = await schema(encodeURIComponent(wrong));
      expect([wrong, refused.status]).toEqual([wrong, 400]);
      expect(refused.body.error.details[0].problem).toContain('extensions');
    }
  });

  it('gives definitions only to keys that can read them by SQL, or manage', async () => {
    const issue = async (scopes: string[], tables?: string[]) => {
      const issued = await rowhouse.call('POST', `/projects/${mine.slug}/keys`, {
        body: { name: scopes.join(), scopes, ...(tables && { tables }) },
      });
      return issued.body.api_key as string;
    };
    const listed = await issue(['tables:read'], ['books']);
    expect((await schema(undefined, listed)).status).toBe(200);
    expect((await schema('functions', listed)).status).toBe(403);
    expect((await schema('functions', await issue(['tables:read']))).body.error.code).toBe('forbidden');
    for (const scope of ['query', 'query:read', 'manage'])
      expect((await schema('functions', await issue(['tables:read', scope]))).status).toBe(200);
  });

  it('does not run the code of the project, whatever it shadows', async () => {
    await run('create schema tricks');
    await run(`create function public.pg_get_viewdef(oid) returns text language plpgsql as $$
      begin raise exception 'called'; end $$`);
    await run(`create function tricks.equal(name, name) returns boolean language plpgsql as $$
      begin raise exception 'called'; end $$`);
    await run('create operator public.= (leftarg = name, rightarg = name, function = tricks.equal)');
    expect((await schema('views,policies,functions')).status).toBe(200);
  });

  it('is bounded: long definitions are left out, many entries are cut', async () => {
    const other = await rowhouse.project('Many parts');
    const ask = (query: string) =>
      rowhouse.call('POST', `/projects/${other.slug}/query`, { key: other.key, body: { query } });
    await ask(`do $$ begin for n in 1..5100 loop
      execute format('create function f%s() returns int language sql as %L', lpad(n::text, 4, '0'),
        'select ' || n || repeat(' ', case when n = 3 then 600000 else 0 end)); end loop; end $$`);
    const { body } = await rowhouse.call('GET', `/projects/${other.slug}/schema?include=functions`, {
      key: other.key,
    });
    expect(body.truncated).toEqual(['functions']);
    expect(body.functions).toHaveLength(5000);
    const definitions = body.functions.map((one: { definition: string | null }) => one.definition !== null);
    expect(definitions.slice(0, 4)).toEqual([true, true, false, false]);
    expect((await schema('functions')).status).toBe(200);
  });

  it('is bounded: long comments, defaults and arguments are cut, or left out', async () => {
    const other = await rowhouse.project('Long comments');
    const ask = (query: string) =>
      rowhouse.call('POST', `/projects/${other.slug}/query`, { key: other.key, body: { query } });
    for (const text of [
      `create table t (id int default length('${'d'.repeat(20_000)}'))`,
      `create function a() returns int language sql as 'select 1'`,
      `create function b(x text default '${'d'.repeat(20_000)}') returns int language sql as 'select 1'`,
      `do $$ begin
        execute format('comment on table t is %L', repeat('t', 3000000));
        execute format('comment on column t.id is %L', repeat('c', 3000000));
        execute format('comment on function a is %L', repeat('f', 3000000));
      end $$`,
    ])
      expect((await ask(text)).status).toBe(200);
    const read = (include: string) =>
      rowhouse.call('GET', `/projects/${other.slug}/schema${include}`, { key: other.key });
    const { body } = await read('');
    const [table] = body.tables;
    for (const cut of [
      ...[table.comment, table.columns[0].comment, table.columns[0].default],
      ...[body.functions[0].comment, body.functions[1].arguments],
    ])
      expect(cut).toHaveLength(10_000);
    const listed = await rowhouse.call('GET', `/projects/${other.slug}/tables`, { key: other.key });
    expect(listed.body.tables[0].comment).toHaveLength(10_000);
    const [a, b] = (await read('?include=functions')).body.functions;
    // Each text has a limit of its own: a long comment leaves the definitions.
    expect([a.comment, b.comment, a.definition === null, b.definition === null]).toEqual([
      ...[null, null, false, false],
    ]);
    expect(b.arguments.length).toBeGreaterThan(20_000);
  });
});

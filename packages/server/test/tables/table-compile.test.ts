import { beforeAll, describe, expect, it } from 'vitest';
import { RowhouseError } from '../../src/errors/errors.ts';
import { findTables, getTable } from '../../src/tables/catalog/catalog.ts';
import { readChangeRequest, readPageRequest } from '../../src/tables/request/request.ts';
import { compileCount, compileFilter, readEstimate } from '../../src/tables/sql/compile.ts';
import { relate } from '../../src/tables/sql/embeds.ts';
import { collectParameters } from '../../src/tables/sql/expressions.ts';
import { useTestService } from '../support/helpers.ts';
import { type Random, seed, seeded } from '../support/random.ts';
import { type Text, useTableSessions } from '../support/table-session.ts';

const rowhouse = useTestService({ spares: 1 });
const { session, other } = useTableSessions(rowhouse);

const make = (text: string) => session.client.query(text);
const encode = encodeURIComponent;
/** The first column of a page's rows. */
const first = async (table: string, query: string) =>
  (await session.page(table, query)).rows.map(([id]) => id);

async function problemOf(table: string, query: string): Promise<string> {
  const error = await session.page(table, query).catch((thrown) => thrown);
  expect(error, query).toBeInstanceOf(RowhouseError);
  expect(error.status).toBe(400);
  return error.message;
}

/** Page after page by cursor. */
async function readOn(table: string, query: string, onPage?: () => Promise<void>): Promise<Text[][]> {
  const rows: Text[][] = [];
  let cursor: string | null = null;
  for (let pages = 0; pages < 1000; pages++) {
    const page = await session.page(table, `${query}${cursor ? `&cursor=${cursor}` : ''}`);
    rows.push(...page.rows);
    if (!page.hasMore) return rows;
    expect(page.cursor).not.toBeNull();
    cursor = page.cursor;
    await onPage?.();
  }
  throw new Error('no end of pages');
}

describe('table filters', () => {
  beforeAll(async () => {
    await make(`
      create type mood as enum ('sad', 'ok', 'happy');
      create table things (
        id int primary key, n int, name text, code varchar(20), price numeric, real_price float8, mood mood, live boolean,
        tags text[], data jsonb, raw json, span int4range, words tsvector, body text, day date, at timestamptz, u uuid);
      insert into things values
        (1, 10, 'Assam', 'A-1', 4.50, 0.1, 'sad', true, '{red,hot}', '{"color": "red", "size": {"w": 1}, "list": [1, 2]}', '{"a": {"b": "x"}}', '[1,5)', 'fat cat', 'fat cats sat', '2026-01-01', '2026-01-01 10:00:00.123456+00', '00000000-0000-0000-0000-000000000001'),
        (2, 20, 'oolong', 'B_2', 12, 0.2, 'ok', false, '{blue}', '{"color": "blue", "size": {"w": 10}}', '{"a": {"b": "y"}}', '[5,9)', 'thin dog', 'thin dogs ran', '2026-02-01', '2026-02-01 10:00:00+00', '00000000-0000-0000-0000-000000000002'),
        (3, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null),
        (4, 30, 'a,b"c(d)', '100%', 0.000000000000000000001, 1e300, 'happy', true, '{}', '{"n": null, "color": "it''s \\"x\\""}', '{}', 'empty', '', '', 'infinity', '-infinity', 'ffffffff-ffff-ffff-ffff-ffffffffffff');
    `);
  });

  it.each([
    ['id=eq.2', [2]],
    ['n=neq.10', [2, 4]],
    ['n=gt.10', [2, 4]],
    ['n=gte.20&n=lt.30', [2]],
    ['n=lte.10', [1]],
    ['name=like.A*', [1]],
    ['name=ilike.*O*', [2]],
    ['code=like.100%', [4]],
    ['name=match.^o', [2]],
    ['name=imatch.^a', [1, 4]],
    ['name=in.(Assam,"a,b\\"c(d)")', [1, 4]],
    ['id=in.(1,2,99)', [1, 2]],
    ['id=in.()', []],
    ['mood=in.(sad,happy)', [1, 4]],
    ['code=in.(A-1)', [1]],
    ['u=in.(00000000-0000-0000-0000-000000000001)', [1]],
    ['n=is.null', [3]],
    ['n=is.not_null', [1, 2, 4]],
    ['n=not.is.null', [1, 2, 4]],
    ['live=is.true', [1, 4]],
    ['live=is.false', [2]],
    ['live=is.unknown', [3]],
    ['live=not.is.true', [2, 3]],
    ['live=eq.true', [1, 4]],
    ['n=isdistinct.10', [2, 3, 4]],
    ['n=not.isdistinct.10', [1]],
    ['mood=eq.ok', [2]],
    ['mood=gt.sad', [2, 4]],
    ['price=eq.4.5', [1]],
    ['price=lt.0.00000000000000000001', [4]],
    ['real_price=eq.0.1', [1]],
    ['day=eq.2026-01-01', [1]],
    ['at=eq.2026-01-01T10:00:00.123456Z', [1]],
    ['at=lt.2026-01-01', [4]],
    ['u=gt.00000000-0000-0000-0000-000000000001', [2, 4]],
    ['id=eq(any).{1,3}', [1, 3]],
    ['name=like(any).{A*,o*}', [1, 2]],
    ['name=ilike(all).{*a*,*s*}', [1]],
    ['n=gt(all).{5,15}', [2, 4]],
    ['n=eq(any).{}', []],
    ['tags=cs.{red}', [1]],
    ['tags=cd.{red,hot,blue}', [1, 2, 4]],
    ['tags=ov.{blue,hot}', [1, 2]],
    ['tags=eq.{blue}', [2]],
    ['data=cs.{"color": "red"}', [1]],
    ['span=cs.[2,3)', [1]],
    ['span=cd.[0,10)', [1, 2, 4]],
    ['span=ov.[4,6)', [1, 2]],
    ['span=sl.[5,6)', [1]],
    ['span=sr.[1,5)', [2]],
    ['span=nxr.[1,5)', [1]],
    ['span=nxl.[5,9)', [2]],
    ['span=adj.[5,9)', [1]],
    ['words=fts.cat', [1]],
    ['body=fts(english).cat', [1]],
    ['body=plfts(english).thin dog', [2]],
    ['body=phfts(english).fat cat', [1]],
    ['body=wfts(english)."fat cat" or dog', [1, 2]],
    ['body=not.fts(english).cat', [2, 4]],
    ['data->>color=eq.red', [1]],
    ['data->size->>w=eq.10', [2]],
    ['data->size->w=gt.1', [2]],
    ['data->list->0=eq.1', [1]],
    ['data->list->>-1=eq.2', [1]],
    ['data->>color=is.null', [3]],
    ['data->>n=is.null', [1, 2, 3, 4]],
    ['data->>color=eq.it\'s "x"', [4]],
    ['raw->a->>b=eq.x', [1]],
    ['raw->a->b=eq."y"', [2]],
    ['tags->>0=eq.red', [1]],
    ['or=(id.eq.1,and(n.gt.10,live.is.true))', [1, 4]],
    ['not.or=(id.eq.1,id.eq.2)', [3, 4]],
    ['and=(id.gt.1,not.or(id.eq.2,id.eq.3))', [4]],
    ['or=(name.eq."a,b\\"c(d)",tags.cs.{blue},id.in.(3))', [2, 3, 4]],
    ['not.and=(id.gt.1,n.is.null)', [1, 2, 4]],
  ])('%s', async (query, ids) => {
    const [name = '', ...value] = query.split('&').length > 1 ? [query] : query.split('=');
    const text = value.length > 0 ? `${encode(name)}=${encode(value.join('='))}` : query;
    expect(await first('things', `${text}&select=id`)).toEqual(ids.map(String));
  });

  it.each([
    ['id=eq.x', '22P02'],
    ['mood=eq.mad', '22P02'],
    ['day=eq.soon', '22007'],
    ['n=like.1*', '42883'],
    ['name=match.(', '2201B'],
    ['body=fts(klingon).x', '42704'],
    ["body=fts(x'; drop table things).x", '42602'],
    ['n=is.true', '42804'],
  ])('PostgreSQL says no to %s', async (query, state) => {
    const [name = '', value = ''] = query.split('=');
    await expect(session.page('things', `${encode(name)}=${encode(value)}`)).rejects.toMatchObject({
      code: state,
    });
  });

  it('names the nearest column', async () => {
    expect(await problemOf('things', 'nane=eq.1')).toBe(
      'nane: "things" has no column "nane"; the nearest is "name"',
    );
    expect(await problemOf('things', 'or=(zzzzzz.eq.1)')).toBe('or: "things" has no column "zzzzzz"');
    expect(await problemOf('things', 'select=id,pric')).toMatch(/^select: .*"price"$/);
    expect(await problemOf('things', 'order=prise')).toMatch(/^order: .*"price"$/);
    expect((await problemOf('things', `${'x'.repeat(5000)}=eq.1`)).length).toBeLessThan(400);
    for (const name of ['__proto__', 'constructor', 'toString', 'ctid', 'tableoid', 'x'.repeat(64)]) {
      await problemOf('things', `${name}=eq.1`);
    }
  });

  it('compile to the same text for every value, except the limit', async () => {
    const shape = async (query: string) => (await session.compile('things', query)).text;
    expect(await shape('id=eq.1&name=in.(a,b)')).toBe(await shape('id=eq.99&name=in.(c)'));
    expect(await shape('page=2')).toBe(await shape('page=77'));
    expect(await shape('id=eq.1')).not.toBe(await shape('id=gt.1'));
    const { params } = await session.compile('things', `name=eq.${encode("'; drop table things; --")}`);
    expect(params).toEqual(["'; drop table things; --"]);
  });

  it('say whether the session stays clean', async () => {
    await make('create table clean (id int primary key, name text, mood mood)');
    expect((await session.compile('clean', 'name=eq.x&select=id,name::text')).isPlain).toBe(true);
    expect((await session.compile('clean', 'select=name::mood')).isPlain).toBe(false);
    await make('create view cleaned as select id from clean');
    expect((await session.compile('cleaned')).isPlain).toBe(true);
    await make("create view spoiled as select id, set_config('app.left', name, false) from clean");
    expect((await session.compile('spoiled')).isPlain).toBe(false);
  });

  it('work for changes as well', async () => {
    const table = await getTable(session.ask, 'clean');
    await make("insert into clean values (1, 'a'), (2, 'b'), (3, 'a')");
    const parameters = collectParameters();
    const value = parameters.add('c');
    const where = compileFilter(table, readChangeRequest('name=eq.a&id=gt.1', []).where, parameters);
    const rows = await session.run(
      `update "public"."clean" as t0 set name = ${value} where ${where} returning t0.id`,
      parameters.values,
    );
    expect(rows).toEqual([['3']]);
    expect(compileFilter(table, [], collectParameters())).toMatch(/^rowhouse\.is_unchanged\(\d+, E'\w+'\)$/);
  });
});

describe('random filters', () => {
  type Row = {
    id: number;
    n: number | null;
    t: string | null;
    f: number | null;
    b: boolean | null;
    a: string[] | null;
  };
  const words = [
    '',
    'a',
    'b',
    'ab',
    'ba',
    'abc',
    'A',
    'a,b',
    'a)b',
    '"',
    '\\',
    '*',
    '%',
    '_',
    "'",
    'null',
    '{a}',
    ' a',
    '(',
    'a.b',
    '$1',
    'é',
  ];
  let rows: Row[] = [];

  beforeAll(async () => {
    const { below, pick } = seeded(seed);
    const maybe = <T>(value: T): T | null => (below(5) === 0 ? null : value);
    rows = Array.from({ length: 80 }, (_, id) => ({
      id,
      n: maybe(below(12) - 4),
      t: maybe(pick(words)),
      f: maybe(below(40) / 4),
      b: maybe(below(2) === 1),
      a: maybe(Array.from({ length: below(4) }, () => pick(['x', 'y', 'z', 'q,r']))),
    }));
    await make(
      'create table dice (id int primary key, n int, t text, f numeric, b boolean, a text[], j jsonb)',
    );
    await make('create index on dice (n); create index on dice (t)');
    for (const { id, n, t, f, b, a } of rows) {
      await session.client.query('insert into dice values ($1, $2, $3, $4, $5, $6, $7)', [
        ...[id, n, t, f, b, a, JSON.stringify({ n, t })],
      ]);
    }
  });

  type Truth = boolean | null;
  type Tried = { text: string; holds(row: Row): Truth };
  const not = (truth: Truth): Truth => (truth === null ? null : !truth);
  const quote = (value: string) => `"${value.replace(/["\\]/g, '\\$&')}"`;
  const like = (value: string, pattern: string, flags: string) =>
    new RegExp(
      `^${[...pattern].map((c) => (c === '*' || c === '%' ? '.*' : c === '_' ? '.' : c.replace(/[\\^$.|?+()[\]{}]/g, '\\$&'))).join('')}$`,
      `su${flags}`,
    ).test(value);

  /** A test on one column, as it stands inside parentheses. */
  function tryOne({ below, pick }: Random): Tried {
    const column = pick(['n', 't', 'f', 'b', 'a', 'j'] as const);
    const negated = below(4) === 0;
    const build = (name: string, claim: string, holds: (row: Row) => Truth): Tried => ({
      text: `${name}.${negated ? 'not.' : ''}${claim}`,
      holds: (row) => (negated ? not(holds(row)) : holds(row)),
    });
    if (below(8) === 0)
      return build(
        column === 'j' ? 'n' : column,
        'is.null',
        (row) => row[column === 'j' ? 'n' : column] === null,
      );
    if (column === 'b') return build('b', 'is.true', ({ b }) => b === true);
    if (column === 'a') {
      const values = Array.from({ length: below(3) }, () => pick(['x', 'y', 'q,r']));
      const list = `{${values.map(quote).join(',')}}`;
      const operator = pick(['cs', 'cd', 'ov'] as const);
      return build('a', `${operator}.${list}`, ({ a }) => {
        if (a === null) return null;
        if (operator === 'cs') return values.every((value) => a.includes(value));
        return operator === 'cd'
          ? a.every((value) => values.includes(value))
          : a.some((value) => values.includes(value));
      });
    }
    if (column === 'j') {
      const value = pick(words);
      return build('j->>t', `eq.${quote(value)}`, ({ t }) => (t === null ? null : t === value));
    }
    if (column === 't') {
      const value = pick(words);
      const kind = below(4);
      if (kind === 0) {
        // A backslash escapes in a pattern, and one at its end is refused.
        const pattern = `${value.replaceAll('\\', '')}*`;
        const operator = pick(['like', 'ilike'] as const);
        return build('t', `${operator}.${quote(pattern)}`, ({ t }) =>
          t === null ? null : like(t, pattern, operator === 'ilike' ? 'i' : ''),
        );
      }
      if (kind === 1) {
        const values = [value, pick(words), pick(words)];
        return build('t', `in.(${values.map(quote).join(',')})`, ({ t }) =>
          t === null ? null : values.includes(t),
        );
      }
      if (kind === 2) return build('t', `isdistinct.${quote(value)}`, ({ t }) => t !== value);
      const operator = pick(['eq', 'neq'] as const);
      return build('t', `${operator}.${quote(value)}`, ({ t }) =>
        t === null ? null : (t === value) === (operator === 'eq'),
      );
    }
    const value = column === 'n' ? below(12) - 4 : below(40) / 4;
    const operator = pick(['eq', 'neq', 'gt', 'gte', 'lt', 'lte'] as const);
    const compare = {
      eq: (x: number) => x === value,
      neq: (x: number) => x !== value,
      gt: (x: number) => x > value,
      gte: (x: number) => x >= value,
      lt: (x: number) => x < value,
      lte: (x: number) => x <= value,
    }[operator];
    return build(column, `${operator}.${value}`, (row) => {
      const found = row[column];
      return found === null ? null : compare(found);
    });
  }

  function tryAny(random: Random, depth: number): Tried {
    if (depth === 0 || random.below(3) === 0) return tryOne(random);
    const parts = Array.from({ length: 1 + random.below(3) }, () => tryAny(random, depth - 1));
    const word = random.pick(['and', 'or'] as const);
    const negated = random.below(4) === 0;
    return {
      text: `${negated ? 'not.' : ''}${word}(${parts.map(({ text }) => text).join(',')})`,
      holds: (row) => {
        const truths = parts.map((part) => part.holds(row));
        const decisive = word === 'or';
        const truth = truths.includes(decisive) ? decisive : truths.includes(null) ? null : !decisive;
        return negated ? not(truth) : truth;
      },
    };
  }

  it("select the same rows as the test's own filter, in 400 tries", { tags: 'long' }, async () => {
    const random = seeded(seed + 1);
    const table = await getTable(session.ask, 'dice');
    for (let round = 0; round < 400; round++) {
      const parts = Array.from({ length: 1 + random.below(2) }, () => tryAny(random, random.below(4)));
      const query = `and=${encode(`(${parts.map(({ text }) => text).join(',')})`)}`;
      const expected = rows
        .filter((row) => parts.every((part) => part.holds(row) === true))
        .map(({ id }) => String(id));
      const found = await first('dice', `${query}&limit=100`);
      expect(found, `seed ${seed}, round ${round}: ${decodeURIComponent(query)}`).toEqual(expected);
      if (round % 20 === 0) {
        const counted = compileCount({ ...readPageRequest(query), count: 'exact' }, table);
        expect(await session.run(counted.text, counted.params)).toEqual([[String(expected.length)]]);
      }
    }
  });
});

describe('pages', () => {
  beforeAll(async () => {
    await make(`
      create table many (id int primary key, n int, s text);
      insert into many select n, n % 7, 's' || n % 3 from generate_series(1, 157) as n;
      create table pairs (a text, b timestamptz, c int, primary key (a, b));
      insert into pairs select 'k' || n % 5, timestamptz '2026-01-01' + n * interval '1 microsecond', n from generate_series(1, 60) as n;
      create table keyless (n int, s text);
      insert into keyless select n, repeat('x', n * 20) from generate_series(1, 130) as n;
      create table by_unique (code text not null unique, n int);
      insert into by_unique select 'c' || n, n from generate_series(1, 30) as n;
      create view seen as select id, n from many;
      create table parted (id int, n int) partition by range (id);
      create table parted_1 partition of parted for values from (0) to (50);
      create table parted_2 partition of parted for values from (50) to (500);
      insert into parted select n, n from generate_series(1, 120) as n;
      create table parent (id int primary key, n int); create table child () inherits (parent);
      insert into parent select n, n from generate_series(1, 30) as n; insert into child select n, n from generate_series(20, 50) as n;
    `);
  });

  it.each([
    ['many', '', 157],
    ['many', 'n=gt.2', 89],
    ['many', 'id=gt.20', 137],
    ['many', 'order=n.desc,s', 157],
    ['pairs', '', 60],
    ['pairs', 'a=eq.k1', 12],
    ['keyless', '', 130],
    ['by_unique', '', 30],
    ['seen', 'order=id', 157],
    ['parted', '', 120],
    ['parent', '', 61],
  ])('by number: %s %s', async (table, filter, count) => {
    const seen: string[] = [];
    for (let page = 1; ; page++) {
      const { rows, hasMore } = await session.page(table, `${filter}&limit=10&page=${page}`);
      seen.push(...rows.map((row) => JSON.stringify(row)));
      if (!hasMore) break;
    }
    expect(seen.length).toBe(count);
    if (table !== 'parent') expect(new Set(seen).size).toBe(count);
    const { rows, hasMore } = await session.page(table, `${filter}&limit=10&page=1000000000`);
    expect([rows, hasMore]).toEqual([[], false]);
  });

  it('a deep one by cursor is found by the index alone', async () => {
    const { text } = await session.compile('many', 'page=2');
    expect(text).toMatch(/join "public"\."many"/);
    expect(
      (await session.compile('many', 'page=2&n=gt.1')).text,
      'a filter has to look at the rows',
    ).not.toContain('join');
    await make('vacuum analyze many');
    const plan = (await session.run(`explain ${text.replace('$1', "'100'")}`)).flat().join('\n');
    expect(plan).toContain('Index Only Scan');
  });

  it.each([
    ['many', ''],
    ['many', 'select=s'],
    ['many', 'order=s.desc,n.asc'],
    ['pairs', ''],
    ['pairs', 'order=c.desc'],
    ['keyless', ''],
    ['keyless', 'n=gt.100'],
    ['keyless', 'order=s.desc'],
    ['by_unique', ''],
    ['parted', ''],
    ['parent', ''],
    ['parent', 'order=n.desc'],
  ])('by cursor: %s %s', async (table, query) => {
    const whole = await session.page(table, `${query}&limit=1000`);
    expect(await readOn(table, `${query}&limit=9`)).toEqual(whole.rows);
  });

  it('a view has pages but no cursor', async () => {
    const { hasMore, cursor } = await session.page('seen', 'order=id&limit=5');
    expect([hasMore, cursor]).toEqual([true, null]);
    const { cursor: foreign } = await session.page('many', 'limit=5');
    expect(await problemOf('seen', `cursor=${foreign}`)).toMatch(/^cursor: belongs to another table/);
  });

  it('a cursor is valid for its table and order only', async () => {
    const { cursor } = await session.page('many', 'order=n&limit=5');
    expect(await problemOf('many', `cursor=${cursor}`)).toContain('another order');
    expect(await problemOf('many', `order=n.desc&cursor=${cursor}`)).toContain('another order');
    expect(await problemOf('pairs', `order=n&cursor=${cursor}`)).toMatch(/column|table/);
    expect(await problemOf('many', 'cursor=nonsense!')).toContain('cursor');
    const forge = (content: unknown) => Buffer.from(JSON.stringify(content)).toString('base64url');
    expect(await problemOf('many', `cursor=${forge([1, 'public.many', ['id.asc'], [null]])}`)).toContain(
      'cursor',
    );
    expect(
      await problemOf('keyless', `cursor=${forge([1, 'public.keyless', ['ctid.asc'], ["(0,1)' or true"]])}`),
    ).toContain('cursor');
    const forged = forge([1, 'public.many', ['id.asc'], ["1' or true --"]]);
    await expect(session.page('many', `cursor=${forged}`)).rejects.toMatchObject({ code: '22P02' });
  });

  it('a cursor still works after the schema has changed', async () => {
    await make(
      'create table moving (id int primary key, n int); insert into moving select n, n from generate_series(1, 30) as n',
    );
    const { cursor } = await session.page('moving', 'limit=10');
    await make('alter table moving add more text; alter table moving drop n');
    expect((await session.page('moving', `limit=5&cursor=${cursor}`)).rows.map(([id]) => id)).toEqual([
      '11',
      '12',
      '13',
      '14',
      '15',
    ]);
  });

  it('rows that come and go neither repeat nor hide others', async () => {
    const { below } = seeded(seed + 2);
    for (const query of ['', 'order=n', 'order=n.desc.nullslast,id', 'order=t.desc']) {
      await make(
        'drop table if exists busy; create table busy (id int primary key, n int, t timestamptz default clock_timestamp())',
      );
      await make(
        'insert into busy select n * 10, case when n % 6 > 0 then n % 5 end from generate_series(1, 200) as n',
      );
      const gone = new Set<number>();
      const rows = await readOn('busy', `select=id,n,t&limit=7${query && `&${query}`}`, async () => {
        const id = below(2000);
        await other.client.query('insert into busy values ($1, $2) on conflict do nothing', [
          id * 10 + 1 + below(9),
          below(5),
        ]);
        const victim = (1 + below(200)) * 10;
        gone.add(victim);
        await other.client.query('delete from busy where id = $1', [victim]);
      });
      const ids = rows.map(([id]) => Number(id));
      expect(new Set(ids).size, `seed ${seed}: repeated with ${query}`).toBe(ids.length);
      const always = Array.from({ length: 200 }, (_, n) => (n + 1) * 10).filter((id) => !gone.has(id));
      expect(
        always.filter((id) => !ids.includes(id)),
        `seed ${seed}: hidden with ${query}`,
      ).toEqual([]);
    }
  });
});

describe('continuing by cursor in any order', () => {
  beforeAll(async () => {
    await make(`
      create extension if not exists citext;
      create type grade as enum ('low', 'mid', 'high');
      create table mixed (
        id uuid primary key default gen_random_uuid(), i int, b bigint, num numeric, f float8, t text not null, v varchar(9), c char(5), ci citext,
        d date, ts timestamp, tz timestamptz not null, g grade, yes boolean, arr int[], j jsonb, iv interval, ip inet, by bytea, r int4range);
    `);
    const { below, pick } = seeded(seed + 3);
    const maybe = (value: string) => (below(4) === 0 ? null : value);
    for (let n = 0; n < 90; n++) {
      const micro = () => `2026-01-01 00:00:00.${String(below(4)).padStart(6, '0')}`;
      await session.client.query(
        `insert into mixed (i, b, num, f, t, v, c, ci, d, ts, tz, g, yes, arr, j, iv, ip, by, r)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)`,
        [
          maybe(String(below(4))),
          maybe(`900719925474099${below(4)}`),
          maybe(
            pick(['1.10', '1.1', '0.00000000000000000001', '-5', 'NaN', '123456789012345678901234567890.5']),
          ),
          maybe(pick(['0.1', '0.30000000000000004', '0.3', '-0', 'Infinity', 'NaN', '5e-324'])),
          pick(['', 'a', 'B', 'é', '日', '😀', '"', "'", '\\', ' ', 'a b', '%']),
          maybe(pick(['x', 'Y', ''])),
          maybe(pick(['ab', 'abc', ''])),
          maybe(pick(['abc', 'ABC', 'b', 'C'])),
          maybe(pick(['2026-01-01', 'infinity', '0044-03-15 BC'])),
          maybe(micro()),
          pick([micro(), '-infinity', '0044-03-15 00:00:00 BC']),
          maybe(pick(['low', 'mid', 'high'])),
          maybe(pick(['t', 'f'])),
          maybe(pick(['{1,2}', '{}', '{NULL}', '{1}'])),
          maybe(pick(['{"a": 1}', '{"a": 2}', '{"a": null}', '[]', '{"a": "x"}'])),
          maybe(pick(['1 day', '24 hours', '1 month', '-3 microseconds'])),
          maybe(pick(['10.0.0.1', '::1', '10.0.0.0/8'])),
          maybe(pick(['\\x00', '\\xff01', ''])),
          maybe(pick(['[1,5)', 'empty', '(,3)'])),
        ],
      );
    }
  });

  it('returns each row once, in 150 random orders', { tags: 'long' }, async () => {
    const { below, pick } = seeded(seed + 4);
    const columns = [
      'i',
      'b',
      'num',
      'f',
      't',
      'v',
      'c',
      'ci',
      'd',
      'ts',
      'tz',
      'g',
      'yes',
      'arr',
      'j',
      'iv',
      'ip',
      'by',
      'r',
      'j->a',
      'j->>a',
      'id',
    ];
    for (let round = 0; round < 150; round++) {
      const chosen = new Set(Array.from({ length: 1 + below(3) }, () => pick(columns)));
      const order = [...chosen].map(
        (name) => `${name}${pick(['', '.asc', '.desc'])}${pick(['', '.nullsfirst', '.nullslast'])}`,
      );
      const query = `order=${encode(order.join(','))}&select=${pick(['id', 'id,t,num', '*', 'x:i,id'])}`;
      const whole = await session.page('mixed', `${query}&limit=1000`);
      expect(whole.rows.length).toBe(90);
      const found = await readOn('mixed', `${query}&limit=${4 + below(30)}`);
      expect(found, `seed ${seed}, round ${round}: ${order}`).toEqual(whole.rows);
    }
  });

  it('begins at the right place of an index', async () => {
    await make(
      'create index on mixed (tz, id); create index on mixed (i, id); set enable_seqscan = off; set enable_sort = off; set enable_bitmapscan = off',
    );
    for (const query of [
      'order=tz',
      'order=tz.desc',
      'order=i',
      'order=i.desc.nullslast',
      'order=tz.desc,id.asc',
    ]) {
      const { cursor } = await session.page('mixed', `${query}&limit=40`);
      const { text, params } = await session.compile('mixed', `${query}&limit=40&cursor=${cursor}`);
      const bound = text.replace(/\$(\d+)/g, (_, n) => `'${params[n - 1]}'`);
      const plan = (await session.run(`explain ${bound}`)).flat().join('\n');
      expect(plan, query).toMatch(/Index Cond: .*(tz|i)\W/);
    }
    await make('reset enable_seqscan; reset enable_sort; reset enable_bitmapscan');
  });

  it('gives no cursor instead of a wrong one for a value too long for a URL', async () => {
    await make(
      "create table long (id text primary key); insert into long select repeat('x', 2000) || repeat('y', n * 3000) from generate_series(1, 3) as n".replace(
        'n * 3000',
        'n * 200',
      ),
    );
    expect((await session.page('long', 'limit=1')).cursor).not.toBeNull();
    await make(
      "create table longer (id int primary key, t text); insert into longer select n, repeat('x', 20000) from generate_series(1, 3) as n",
    );
    const page = await session.page('longer', 'order=t&limit=1');
    expect([page.hasMore, page.cursor]).toEqual([true, null]);
  });
});

describe('unusual names', () => {
  const nasty = [
    'a"b',
    "it's",
    'a.b',
    'first name',
    'größe',
    '日本',
    'select',
    'order',
    'limit',
    'or',
    'and',
    'not',
    'user',
    'a;b',
    'a--b',
    '$1',
    '%s',
    '\\',
    'a:b',
    'a!b',
    'a(b)',
    '*',
    'a->b',
    '😀',
    'ID',
    'null',
    'a,b',
    '{x}',
    '__proto__',
    'x'.repeat(63),
  ];

  it('of columns work in select, filters, order and cursors', async () => {
    const ident = (name: string) => `"${name.replaceAll('"', '""')}"`;
    const quoted = (name: string) => `"${name.replace(/["\\]/g, '\\$&')}"`;
    await make(
      `create table ${ident('we"ird. 表')} (${nasty.map((name) => `${ident(name)} text not null`).join(', ')}, primary key (${ident('a"b')}, ${ident('a.b')}))`,
    );
    for (const n of [1, 2, 3]) {
      await session.client.query(
        `insert into ${ident('we"ird. 表')} values (${nasty.map((_, at) => `$${at + 1}`).join(', ')})`,
        nasty.map((name) => `${name}${n}`),
      );
    }
    for (const name of nasty) {
      const field = encode(quoted(name));
      const query = `select=${field}&${field}=${encode(`gte.${name}2`)}&and=${encode(`(${quoted(name)}.neq."x")`)}&order=${field}.desc`;
      const page = await session.page('we"ird. 表', query);
      expect(page.columns).toEqual([name]);
      expect(page.rows).toEqual([[`${name}3`], [`${name}2`]]);
      expect(await readOn('we"ird. 表', `select=${field}&order=${field}&limit=1`)).toEqual(
        [1, 2, 3].map((n) => [`${name}${n}`]),
      );
    }
    expect((await session.page('we"ird. 表', '')).columns).toEqual(nasty);
  });

  it('as aliases of columns work, also repeated', async () => {
    await make(
      'create table named (id int primary key, data jsonb); insert into named values (1, \'{"a b": {"it\'\'s \\"q\\"": 1}}\')',
    );
    const query = `select=${encode('"x y":id,data->"a b"->>"it\'s \\"q\\"",kept:data->"a b"')}`;
    expect(await session.page('named', query)).toMatchObject({
      columns: ['x y', 'it\'s "q"', 'kept'],
      rows: [['1', '1', '{"it\'s \\"q\\"": 1}']],
    });
    expect(await problemOf('named', 'select=id,id')).toContain('occurs twice');
    expect(await problemOf('named', 'select=*,id')).toContain('occurs twice');
    expect(await problemOf('named', `select=${encode(`data->>${'k'.repeat(64)}`)}`)).toContain('63 bytes');
  });

  it('of types work', async () => {
    const cast = async (type: string) =>
      (await session.page('named', `select=${encode(`id::${type}`)}`)).rows;
    for (const type of [
      'text',
      'TEXT',
      'numeric(10,2)',
      'double precision',
      'character varying(3)',
      'int8',
      'bigint',
      'float',
      'oid',
    ])
      await cast(type);
    expect(await cast('numeric(10,2)')).toEqual([['1.00']]);
    await expect(cast('"TEXT"')).rejects.toMatchObject({ code: '42704' });
    await expect(cast('nope')).rejects.toMatchObject({ code: '42704' });
    for (const type of [
      'text from named',
      'text as x',
      'text, secret',
      'text) from named --',
      "text'",
      '"text" x',
    ]) {
      await problemOf('named', `select=${encode(`id::${type}`)}`);
    }
  });
});

describe('embedding', () => {
  beforeAll(async () => {
    await make(`
      create table authors (id bigint primary key, name text not null, born timestamptz, worth numeric, boss bigint references authors);
      create table books (
        id int primary key, title text, author bigint not null references authors, editor bigint constraint edited_by references authors,
        out date, seen timestamp, sold bigint);
      create table tags (name text primary key);
      create table book_tags (book int references books, tag text references tags, primary key (book, tag));
      create table covers (book int primary key references books, colour text);
      create table notes (id int primary key, book int references books, said text, at timestamptz[]);
      insert into authors values (1, 'Ann', '2026-01-02 03:04:05.600000+00', 12345678901234567890.10, null), (2, 'Bob', 'infinity', 'NaN', 1), (3, 'Cid', null, null, 1);
      insert into books values (1, 'One', 1, 2, '2026-05-06', '2026-01-02 03:04:05.000001', 9007199254740993), (2, 'Two', 1, null, null, null, null), (3, 'Three', 2, 1, null, '0044-03-15 12:00 BC', 1);
      insert into tags values ('old'), ('new'), ('red');
      insert into book_tags values (1, 'old'), (1, 'red'), (3, 'new');
      insert into covers values (1, 'blue');
      insert into notes select n, 1 + n % 2, 'note ' || n, array['2026-01-01 00:00+00'::timestamptz, null] from generate_series(1, 6) as n;
    `);
  });

  const read = async (table: string, query: string) => {
    const { columns, rows } = await session.page(table, query);
    return rows.map((row) =>
      Object.fromEntries(
        columns.map((name, at) => {
          const text = row[at] ?? null;
          return [name, text !== null && /^[[{]/.test(text) ? JSON.parse(text) : text];
        }),
      ),
    );
  };

  it('gives one row as an object or null', async () => {
    expect(await read('books', 'select=id,author(name),edited_by(name)&limit=2')).toEqual([
      { id: '1', author: { name: 'Ann' }, edited_by: { name: 'Bob' } },
      { id: '2', author: { name: 'Ann' }, edited_by: null },
    ]);
    expect(
      await read('books', 'select=id,who:authors!author(name),by:authors!edited_by(name)&id=eq.3'),
    ).toEqual([{ id: '3', who: { name: 'Bob' }, by: { name: 'Ann' } }]);
    expect(
      await read('books', 'select=id,covers(colour)&limit=2'),
      'its key is unique, so there is one',
    ).toEqual([
      { id: '1', covers: { colour: 'blue' } },
      { id: '2', covers: null },
    ]);
  });

  it('gives many rows as an array, ordered, limited and filtered', async () => {
    expect(await read('books', 'select=id,notes(id)&limit=3')).toEqual([
      { id: '1', notes: [{ id: 2 }, { id: 4 }, { id: 6 }] },
      { id: '2', notes: [{ id: 1 }, { id: 3 }, { id: 5 }] },
      { id: '3', notes: [] },
    ]);
    expect(
      await read('books', 'select=id,n:notes(said)&n.order=id.desc&n.limit=1&n.id=lt.6&id=lt.3'),
    ).toEqual([
      { id: '1', n: [{ said: 'note 4' }] },
      { id: '2', n: [{ said: 'note 5' }] },
    ]);
  });

  it('goes through a join table', async () => {
    expect(await read('books', 'select=id,tags(name)')).toEqual([
      { id: '1', tags: [{ name: 'old' }, { name: 'red' }] },
      { id: '2', tags: [] },
      { id: '3', tags: [{ name: 'new' }] },
    ]);
    expect(await read('tags', 'select=name,books(title)&name=eq.new')).toEqual([
      { name: 'new', books: [{ title: 'Three' }] },
    ]);
  });

  it('can be nested', async () => {
    expect(
      await read(
        'authors',
        'select=name,books!author(title,tags(name),notes(id,books(title,author(name))))&id=eq.1&books.notes.limit=1&books.order=title.desc',
      ),
    ).toEqual([
      {
        name: 'Ann',
        books: [
          { title: 'Two', tags: [], notes: [{ id: 1, books: { title: 'Two', author: { name: 'Ann' } } }] },
          {
            title: 'One',
            tags: [{ name: 'old' }, { name: 'red' }],
            notes: [{ id: 2, books: { title: 'One', author: { name: 'Ann' } } }],
          },
        ],
      },
    ]);
  });

  it('works for a table that references itself', async () => {
    expect(await read('authors', 'select=name,boss(name)&order=id.desc&limit=1')).toEqual([
      { name: 'Cid', boss: { name: 'Ann' } },
    ]);
    expect(await read('authors', 'select=name,team:authors!authors_boss_fkey(name)&id=eq.1')).toEqual([
      { name: 'Ann', team: [{ name: 'Bob' }, { name: 'Cid' }] },
    ]);
    expect(await problemOf('authors', 'select=authors(name)')).toMatch(
      /is ambiguous: authors!boss, authors!authors_boss_fkey/,
    );
  });

  it('can select rows that have some, or none', async () => {
    expect(await read('books', 'select=id,tags!inner(name)&tags.name=eq.new')).toEqual([
      { id: '3', tags: [{ name: 'new' }] },
    ]);
    expect(await read('books', 'select=id,covers!inner()')).toEqual([{ id: '1' }]);
    expect(
      await read('authors', 'select=name,books!author!inner(title,tags!inner(name))&books.tags.name=eq.red'),
    ).toEqual([{ name: 'Ann', books: [{ title: 'One', tags: [{ name: 'red' }] }] }]);
    expect(await read('books', 'select=id,notes()&notes=is.null')).toEqual([{ id: '3' }]);
    expect(await read('books', 'select=id,notes()&notes=not.is.null&notes.id=eq.1')).toEqual([{ id: '2' }]);
    expect(
      await read(
        'books',
        'select=id,tags(name),covers()&or=(tags.not.is.null,covers.not.is.null)&order=id.desc',
      ),
    ).toEqual([
      { id: '3', tags: [{ name: 'new' }] },
      { id: '1', tags: [{ name: 'old' }, { name: 'red' }] },
    ]);
    expect(await problemOf('books', 'select=id,notes()&notes=eq.1')).toContain('is.null');
  });

  it('can spread columns into the parent', async () => {
    expect(await read('books', 'select=id,...author(writer:name,worth)&id=eq.1')).toEqual([
      { id: '1', writer: 'Ann', worth: '12345678901234567890.10' },
    ]);
    expect(await read('notes', 'select=id,books(title,...author(name,born))&id=eq.1')).toEqual([
      { id: '1', books: { title: 'Two', name: 'Ann', born: '2026-01-02T03:04:05.6Z' } },
    ]);
    expect(await problemOf('books', 'select=id,...notes(said)')).toContain('cannot be spread');
    expect(await problemOf('books', 'select=title,...author(title:name)')).toContain('occurs twice');
  });

  it('writes values as everywhere else', async () => {
    expect(await session.page('books', 'select=author(*),out,seen,sold&id=eq.1')).toMatchObject({
      rows: [
        [
          '{"id":1,"name":"Ann","born":"2026-01-02T03:04:05.6Z","worth":12345678901234567890.10,"boss":null}',
          '2026-05-06',
          '2026-01-02 03:04:05.000001',
          '9007199254740993',
        ],
      ],
    });
    expect((await session.page('authors', 'select=books!author(*)&id=eq.2')).rows).toEqual([
      [
        '[{"id":3,"title":"Three","author":2,"editor":1,"out":null,"seen":"0044-03-15T12:00:00Z BC","sold":1}]',
      ],
    ]);
    expect((await session.page('books', 'select=author(born,worth,id)&id=eq.3&numbers=string')).rows).toEqual(
      [['{"born":"infinity","worth":"NaN","id":"2"}']],
    );
    expect((await session.page('books', 'select=notes(at)&id=eq.3')).rows).toEqual([['[]']]);
    expect((await session.page('books', 'select=notes(at)&id=eq.1&notes.limit=1')).rows).toEqual([
      ['[{"at":["2026-01-01T00:00:00Z",null]}]'],
    ]);
  });

  it('writes composites as everywhere else', async () => {
    await make(`
      create type visit as (place text, at timestamptz, miles bigint);
      create table trips (id int primary key, book int references books, v visit, vs visit[], big bigint[]);
      insert into trips values (1, 1, row('T10:00:00', '2026-01-01', 7), array[row('a+00:00', '2026-01-02', null)::visit, null], '{1,NULL}'), (2, 1, null, null, null), (3, 1, row(null, null, null), '{}', '{}');
    `);
    expect(await read('books', 'select=trips(v,vs,big)&id=eq.1&numbers=string')).toEqual([
      {
        trips: [
          {
            v: { place: 'T10:00:00', at: '2026-01-01T00:00:00Z', miles: '7' },
            vs: [{ place: 'a+00:00', at: '2026-01-02T00:00:00Z', miles: null }, null],
            big: ['1', null],
          },
          { v: null, vs: null, big: null },
          { v: { place: null, at: null, miles: null }, vs: [], big: [] },
        ],
      },
    ]);
  });

  it('refuses an ambiguous relationship instead of guessing', async () => {
    await make(`
      create table red (id int primary key); create table green (id int primary key, red int references red);
      create table red_green (red int references red, green int references green, primary key (red, green));
      insert into red values (1), (2); insert into green values (1, 2); insert into red_green values (1, 1)`);
    expect(await problemOf('red', 'select=id,green(id)')).toMatch(
      /is ambiguous: green!green_red_fkey, green!red_green \(green!red_green_green_fkey\)/,
    );
    expect(await read('red', 'select=id,green!red_green(id)')).toEqual([
      { id: '1', green: [{ id: 1 }] },
      { id: '2', green: [] },
    ]);
    expect(await read('red', 'select=id,green!red(id)&id=eq.2')).toEqual([{ id: '2', green: [{ id: 1 }] }]);
  });

  it('shows only what the role may see', async () => {
    await make('create table guarded (id int primary key, secret text); insert into guarded values (1, 2)');
    await make('revoke all on guarded from current_user; grant select (id) on guarded to current_user');
    expect(await session.page('guarded')).toMatchObject({ columns: ['id'], rows: [['1']] });
    await expect(session.page('guarded', 'select=secret')).rejects.toMatchObject({ code: '42501' });
    await make('grant select on guarded to current_user');
    expect((await session.page('guarded')).columns).toEqual(['id', 'secret']);
  });

  it('suggests what could be meant', async () => {
    expect(await problemOf('books', 'select=id,authors(name)')).toMatch(
      /"authors" is ambiguous: authors!author, authors!editor/,
    );
    expect(await problemOf('books', 'select=id,authors!nope(name)')).toMatch(
      /"authors" has no foreign key "nope": authors!author, authors!editor/,
    );
    expect(await problemOf('books', 'select=id,note(said)')).toMatch(/the nearest is "notes"/);
    expect(await problemOf('tags', 'select=zzzzzz(said)')).toMatch(/related tables: book_tags, books/);
    expect(await problemOf('books', 'select=id,notes(nope)')).toMatch(/"notes" has no column "nope"/);
    expect(await problemOf('books', 'select=id,notes(id)&notes.order=nope')).toMatch(/^notes.order/);
    expect(await problemOf('books', 'select=id,notes(id,id)')).toContain('occurs twice');
  });

  it('works with pages and cursors', async () => {
    const whole = await session.page('notes', 'select=id,books(title)&order=said.desc&limit=100');
    expect(await readOn('notes', 'select=id,books(title)&order=said.desc&limit=2')).toEqual(whole.rows);
    expect(
      (await session.page('notes', 'select=id,books(title)&limit=2&page=2')).rows.map(([id]) => id),
    ).toEqual(['3', '4']);
    await make(
      'create table loose (book int references books, said text); insert into loose select 1 + n % 3, n::text from generate_series(1, 20) as n',
    );
    expect(await readOn('loose', 'select=said,books(title)&limit=3')).toHaveLength(20);
  });
});

describe('counting', () => {
  it('is exact or estimated', async () => {
    await make(
      'create table counted (id int primary key, n int); insert into counted select n, n % 10 from generate_series(1, 5000) as n; analyze counted',
    );
    const table = await getTable(session.ask, 'counted');
    const count = async (query: string) => {
      const request = readPageRequest(query);
      const relations = await relate((oids) => findTables(session.ask, oids), table, request.select);
      const { text, params } = compileCount(request, table, relations);
      const [[value] = []] = await session.run(text, params);
      return request.count === 'exact' ? Number(value) : readEstimate(value ?? '');
    };
    expect(await count('count=exact')).toBe(5000);
    expect(await count('count=exact&n=eq.3&page=4')).toBe(500);
    expect(await count('count=estimated')).toBe(5000);
    expect(Math.abs((await count('count=estimated&n=eq.3')) - 500)).toBeLessThan(100);
  });
});

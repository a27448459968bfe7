import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { AnyRow, Client } from '../src/index.ts';
import { collect, failureOf, useLive } from './live.ts';

const live = useLive();
let db: Client;
const names = async (query: PromiseLike<{ rows: Record<string, unknown>[] }>) =>
  (await query).rows.map(({ name }) => name);

beforeAll(async () => {
  db = live.client();
  await db.batch([
    'create table shops (id int primary key, name text)',
    `create table teas (id int primary key, name text not null unique, price numeric(6,2), data jsonb, tags text[],
       "limit" int, "odd ""name"".here" text, shop_id int references shops)`,
    'create view cheap as select * from teas where price < 5',
    'create schema depot',
    'create table depot.boxes (id bigint generated always as identity primary key, n int)',
    "insert into shops values (1, 'Ann''s'), (2, 'Ben''s')",
  ]);
});
beforeEach(async () => {
  await db.batch([
    'truncate teas',
    `insert into teas values
       (1, 'Assam', 4.5, '{"color": "black", "size": [1, 2]}', '{a,b}', 5, 'x', 1),
       (2, 'Oolong', 12, '{"color": "blue"}', '{}', null, null, 2),
       (3, 'Sencha', 7, null, null, 7, null, 1),
       (4, 'a,b."c")\\(', 3, null, null, null, null, null)`,
  ]);
});

describe('reading', () => {
  it('returns a page', async () => {
    expect(await db.table('teas').select('id', 'name').order('id').limit(2)).toEqual({
      ok: true,
      columns: ['id', 'name'],
      types: ['int4', 'text'],
      rows: [
        { id: 1, name: 'Assam' },
        { id: 2, name: 'Oolong' },
      ],
      row_count: 2,
      page: 1,
      limit: 2,
      has_more: true,
      next_cursor: expect.any(String),
    });
    const second = await db.table('teas').select('id').limit(2).page(2).count();
    expect(second).toMatchObject({
      rows: [{ id: 3 }, { id: 4 }],
      page: 2,
      count: { rows: 4, kind: 'exact' },
    });
    const { next_cursor } = await db.table('teas').limit(3);
    expect(
      (
        await db
          .table('teas')
          .cursor(next_cursor ?? '')
          .select('id')
      ).rows,
    ).toEqual([{ id: 4 }]);
    expect(await db.table('teas').eq('id', 2).select('name').first()).toEqual({ name: 'Oolong' });
    expect(await db.table('teas').eq('id', 9).first()).toBeNull();
  });

  it('filters', async () => {
    const teas = db.table('teas').order('id');
    const found: [PromiseLike<{ rows: Record<string, unknown>[] }>, number[]][] = [
      [teas.eq('name', 'Assam'), [1]],
      [teas.eq('name', 'a,b."c")\\('), [4]],
      [teas.neq('id', 1), [2, 3, 4]],
      [teas.gt('price', 4.5).lte('price', 12), [2, 3]],
      [teas.gte('price', 4.5).lt('price', 12), [1, 3]],
      [teas.like('name', 'A*'), [1]],
      [teas.like('name', '%g'), [2]],
      [teas.ilike('name', '*SEN*'), [3]],
      [teas.in('id', [1, 3n, 99]), [1, 3]],
      [teas.in('name', ['a,b."c")\\(', 'Assam']), [1, 4]],
      [teas.in('id', []), []],
      [teas.is('data', null), [3, 4]],
      [teas.is('data', 'not_null'), [1, 2]],
      [teas.not('data', 'is', null), [1, 2]],
      [teas.not('id', 'in', [1, 2]), [3, 4]],
      [teas.not('name', 'ilike', '*s*'), [2, 4]],
      [teas.eq('limit', 5), [1]],
      [teas.eq('odd "name".here', 'x'), [1]],
      [teas.eq('data->>color', 'blue'), [2]],
      [teas.eq('data->size->>1', 2), [1]],
      [teas.filter('tags', 'cs', '{a}'), [1]],
      [teas.filter('data', 'cs', { color: 'black' }), [1]],
      [teas.filter('name', 'imatch', '^(as|oo)'), [1, 2]],
      [
        teas.or(
          (t) => t.lt('price', 4),
          (t) => t.gt('price', 5).eq('name', 'Sencha'),
        ),
        [3, 4],
      ],
      [
        teas.neq('id', 3).or(
          (t) => t.eq('id', 1),
          (t) =>
            t.or(
              (u) => u.eq('id', 3),
              (u) => u.eq('id', 4),
            ),
        ),
        [1, 4],
      ],
    ];
    for (const [index, [query, ids]] of found.entries())
      expect(
        (await query).rows.map(({ id }) => id),
        `filter ${index}`,
      ).toEqual(ids);
  });

  it('orders', async () => {
    expect(await names(db.table('teas').order('price', 'desc').limit(2))).toEqual(['Oolong', 'Sencha']);
    expect(await names(db.table('teas').order('limit', 'asc', 'nullsfirst').order('id', 'desc'))).toEqual([
      'a,b."c")\\(',
      'Oolong',
      'Assam',
      'Sencha',
    ]);
  });

  it('embeds rows of other tables and passes other options on', async () => {
    const { rows } = await db
      .table('teas')
      .select('name', 'shops!inner(name)', 'cost:price::text')
      .param('shops.name', "eq.Ann's")
      .order('id');
    expect(rows).toEqual([
      { name: 'Assam', shops: { name: "Ann's" }, cost: '4.50' },
      { name: 'Sencha', shops: { name: "Ann's" }, cost: '7.00' },
    ]);
  });

  it('a query that is being built can be used twice', async () => {
    const all = db.table('teas').select('id');
    const [cheap, dear] = [all.lt('price', 5).order('id'), all.gt('price', 5).order('id', 'desc')];
    expect((await cheap).rows).toEqual([{ id: 1 }, { id: 4 }]);
    expect((await dear).rows).toEqual([{ id: 3 }, { id: 2 }]);
    expect((await all).row_count).toBe(4);
  });

  it('refuses meaningless calls', async () => {
    const teas = db.table('teas');
    for (const value of [null, undefined]) expect(() => teas.eq('name', value as never)).toThrow('The value');
    expect(() => teas.in('id', 1 as never)).toThrow('an array');
    expect(await failureOf(teas.eq('nope', 1))).toMatchObject({ code: 'invalid_request', status: 400 });
    expect(await failureOf(teas.or())).toMatchObject({ code: 'invalid_request' });
    expect(await failureOf(teas.or((t) => t))).toMatchObject({ code: 'invalid_request' });
    expect(await failureOf(teas.limit(0))).toMatchObject({ code: 'invalid_request' });
    expect(await failureOf(teas.eq('name', 'a\0b'))).toMatchObject({ code: 'invalid_request' });
    expect(await failureOf(teas.signal(AbortSignal.abort()))).toMatchObject({ code: 'aborted' });
  });
});

describe('iterating', () => {
  beforeAll(() => db.query('insert into depot.boxes (n) select generate_series(1, 2500)'));

  it('goes through every page', async () => {
    const boxes = await collect(db.table('depot.boxes').select('n'));
    expect(boxes).toEqual(Array.from({ length: 2500 }, (_, index) => ({ n: index + 1 })));
    const back = await collect(db.table('depot.boxes').select('id').order('n', 'desc').gt('n', 400));
    expect(back.map(({ id }) => id)).toEqual(Array.from({ length: 2100 }, (_, index) => 2500 - index));
  });

  it('stops at the limit, and at the end of the page that was asked for', async () => {
    expect(await collect(db.table('depot.boxes').limit(1_500))).toHaveLength(1_500);
    expect((await collect(db.table('depot.boxes').limit(3))).map(({ n }) => n)).toEqual([1, 2, 3]);
    expect((await collect(db.table('depot.boxes').limit(3).page(2))).map(({ n }) => n)).toEqual([4, 5, 6]);
    let seen = 0;
    for await (const _ of db.table('depot.boxes')) if (++seen === 10) break;
    expect(seen).toBe(10);
  });

  it('goes through views, which have no cursors', async () => {
    await db.query('create view boxed as select id, n from depot.boxes order by id');
    const rows = await collect(db.table('boxed').order('id'));
    expect(rows.map(({ n }) => n)).toEqual(Array.from({ length: 2500 }, (_, index) => index + 1));
    expect((await collect(db.table('cheap').order('id'))).map(({ id }) => id)).toEqual([1, 4]);
  });

  it('goes on from a cursor', async () => {
    const { next_cursor } = await db.table('depot.boxes').limit(2_000);
    expect(await collect(db.table('depot.boxes').cursor(next_cursor ?? ''))).toHaveLength(500);
  });
});

describe('writing', () => {
  it('inserts one or many', async () => {
    const made = await db.table('depot.boxes').insert({ n: 1 });
    expect(made).toEqual({ id: expect.any(Number), n: 1 });
    const many = await db
      .table('depot.boxes')
      .select('n')
      .insert([{ n: 2 }, { n: null }]);
    expect(many).toEqual([{ n: 2 }, { n: null }]);
    expect(await db.table('depot.boxes').insert([{ n: 3 }, { n: 4 }], { returning: 'minimal' })).toBe(2);
    expect(await db.table('depot.boxes').insert([])).toEqual([]);
    const hostile: AnyRow = JSON.parse(
      '{"id": 9, "name": "x", "data": {"__proto__": {"a": 1}, "constructor": "y"}}',
    );
    expect((await db.table('teas').insert(hostile)).data).toEqual(hostile.data);
  });

  it('inserts once with an Idempotency-Key', async () => {
    const options = { idempotencyKey: 'box-1' };
    const first = await db.table('depot.boxes').insert({ n: 77 }, options);
    expect(await db.table('depot.boxes').insert({ n: 77 }, options)).toEqual(first);
  });

  it('upserts', async () => {
    const teas = db.table('teas').select('id', 'name', 'price');
    expect(await teas.upsert({ id: 1, name: 'Assam', price: 5 })).toEqual({ id: 1, name: 'Assam', price: 5 });
    const both = [
      { id: 1, name: 'Assam', price: 6 },
      { id: 10, name: 'Mint', price: 2 },
    ];
    expect(await teas.upsert(both, { onConflict: ['name'] })).toEqual(both);
    expect(await teas.upsert({ id: 1, name: 'Assam', price: 0 }, { resolution: 'ignore' })).toBeNull();
    expect(await teas.upsert(both, { resolution: 'ignore', onConflict: 'name' })).toEqual([]);
    expect(await teas.upsert(both, { returning: 'minimal' })).toBe(2);
  });

  it('changes and deletes the rows that match filters, and none without filters', async () => {
    const teas = db.table('teas').select('id', 'price');
    expect(
      await teas
        .lt('price', 5)
        .order('id')
        .update({ price: 1 })
        .catch((error) => error),
    ).toMatchObject({
      code: 'invalid_request',
    });
    expect(await teas.eq('id', 1).update({ price: 1 })).toEqual([{ id: 1, price: 1 }]);
    expect(await teas.eq('id', 1).update({ price: null, data: { a: [1] } }, { returning: 'minimal' })).toBe(
      1,
    );
    for (const work of [() => teas.update({ price: 0 }), () => teas.delete()])
      expect(await failureOf(work())).toMatchObject({ code: 'invalid_request', status: 400 });
    expect(await failureOf(teas.gt('id', 0).delete({ maxAffected: 1 }))).toMatchObject({ code: 'conflict' });
    expect(await teas.in('id', [2, 3]).delete()).toHaveLength(2);
    expect((await teas).rows.map(({ id }) => id)).toEqual([1, 4]);
  });

  it('never drops a value that is undefined', async () => {
    const teas = db.table('teas');
    for (const work of [
      () => teas.insert({ id: 5, name: undefined }),
      () => teas.insert([{ id: 5, name: 'x' }, { id: undefined }]),
      () => teas.eq('id', 1).update({ price: undefined }),
    ])
      expect(await failureOf(work())).toMatchObject({ code: 'invalid_request', status: 0 });
  });

  it('says what is wrong with a row', async () => {
    expect(
      await failureOf(
        db.table('teas').insert([
          { id: 20, name: 'a' },
          { id: 21, name: 'b', price: 'much' },
        ]),
      ),
    ).toMatchObject({
      code: 'constraint_violation',
      status: 422,
      details: { index: 1, columns: ['price'] },
    });
    expect(await failureOf(db.table('teas').insert({ id: 30, name: 'Assam' }))).toMatchObject({
      code: 'conflict',
    });
  });
});

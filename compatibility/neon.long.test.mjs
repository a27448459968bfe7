// Over HTTP: Neon's driver, and libraries built on it.
import { neon, neonConfig, types as neonTypes } from '@neondatabase/serverless';
import { PrismaNeonHttp } from '@prisma/adapter-neon';
import { eq, sql as raw } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/neon-http';
import { migrate } from 'drizzle-orm/neon-http/migrator';
import { Kysely } from 'kysely';
import { NeonDialect } from 'kysely-neon';
import pg from 'pg';
import { beforeAll, describe, expect, it } from 'vitest';
import { notesTable } from './drizzle/schema.mjs';
import { folder, notes, useLiveService } from './service.mjs';

const live = useLiveService();

beforeAll(() => {
  neonConfig.fetchEndpoint = live.endpoint;
  neonConfig.disableWarningInBrowsers = true;
});

describe('@neondatabase/serverless', () => {
  let project;
  let sql;
  beforeAll(async () => {
    project = await live.project('Neon');
    sql = neon(project.url);
    await sql.query(notes);
  });

  it('supports templates, query(), array mode and full results', async () => {
    const [{ id }] = await sql`insert into notes (text, size) values (${'tea'}, ${7n}) returning id`;
    expect(await sql`select id, text, size from notes where id = ${id}`).toEqual([
      { id, text: 'tea', size: '7' },
    ]);
    expect(await sql.query('select text from notes where id = $1', [id], { arrayMode: true })).toEqual([
      ['tea'],
    ]);
    const full = await sql.query('select id, text from notes', [], { fullResults: true });
    expect(full).toMatchObject({
      command: 'SELECT',
      rowCount: 1,
      rowAsArray: false,
      fields: [
        { name: 'id', dataTypeID: 23, columnID: 1, format: 'text' },
        { name: 'text', dataTypeID: 25, columnID: 2 },
      ],
      rows: [{ id, text: 'tea' }],
    });
    const part = sql`where text = ${'tea'}`;
    expect(await sql`select ${sql.unsafe('text')} from notes ${part}`).toEqual([{ text: 'tea' }]);
    expect(await neon(project.url, { arrayMode: true })`select 1 as a, 2 as a`).toEqual([[1, 2]]);
  });

  it('accepts an API key as the password or as the token', async () => {
    const user = [{ current_user: `p_${project.id}` }];
    expect(await neon(project.byKey)`select current_user`).toEqual(user);
    const url = `postgresql://anybody@rowhouse.example/${project.slug}`;
    expect(await neon(url, { authToken: project.key })`select current_user`).toEqual(user);
  });

  it('runs transactions atomically', async () => {
    const [, rows] = await sql.transaction([
      sql`insert into notes (text) values ('in a transaction')`,
      sql`select text from notes where text = ${'in a transaction'}`,
    ]);
    expect(rows).toEqual([{ text: 'in a transaction' }]);
    const failing = sql.transaction((tx) => [
      tx`insert into notes (text) values ('undone')`,
      tx`insert into notes (text) values ('tea')`,
    ]);
    await expect(failing).rejects.toMatchObject({ code: '23505', constraint: 'notes_text_key' });
    expect(await sql`select from notes where text = 'undone'`).toEqual([]);
    expect(await sql.transaction([])).toEqual([]);
  });

  it.each(['ReadUncommitted', 'ReadCommitted', 'RepeatableRead', 'Serializable'])(
    'runs a read-only transaction at the isolation level %s',
    async (isolationLevel) => {
      const options = { isolationLevel, readOnly: true, deferrable: isolationLevel === 'Serializable' };
      const [[row]] = await sql.transaction(
        [
          sql`select current_setting('transaction_isolation') as level, current_setting('transaction_read_only') as read`,
        ],
        options,
      );
      expect(row.level.replaceAll(' ', '')).toBe(isolationLevel.toLowerCase());
      expect(row.read).toBe('on');
      const writing = sql.transaction([sql`delete from notes`], options);
      await expect(writing).rejects.toMatchObject({ code: '25006' });
    },
  );

  it('reports the fields of PostgreSQL errors', async () => {
    await expect(sql`insert into notes (text) values ('tea')`).rejects.toMatchObject({
      name: 'NeonDbError',
      severity: 'ERROR',
      code: '23505',
      detail: 'Key (text)=(tea) already exists.',
      schema: 'public',
      table: 'notes',
      constraint: 'notes_text_key',
      message: expect.stringContaining('duplicate key'),
    });
    await expect(sql`insert into notes (text) values (null)`).rejects.toMatchObject({
      code: '23502',
      column: 'text',
    });
    await expect(sql`select nope`).rejects.toMatchObject({ code: '42703', position: '8' });
    await expect(sql.query('select 1; select 2')).rejects.toMatchObject({ code: '42601' });
    await expect(sql.query('begin')).rejects.toMatchObject({ code: '0A000', hint: expect.any(String) });
    const stranger = neon(project.url.replace(/:[^:@]+@/, ':wrong@'));
    await expect(stranger`select 1`).rejects.toMatchObject({ code: '28P01' });
    const gone = AbortSignal.timeout(300);
    const slow = sql.query('select pg_sleep(20)', [], { fetchOptions: { signal: gone } });
    await expect(slow).rejects.toThrow('Error connecting to database');
  });

  it('returns every type as pg does on a direct connection', async () => {
    const queries = [
      `select 1::int2, 2147483647::int4, 9223372036854775807::int8, 0.1234567890123456789::numeric, 'NaN'::numeric,
              1.5::float4, 'Infinity'::float8, true, false, null`,
      `select 'x'::text, 'y'::varchar(5), 'z '::char(3), 'n'::name, E'quote " back \\\\ tab \\t nul-free é 漢 😀'::text, ''`,
      `select '\\x00ff10'::bytea, '{"a": [1, "b", null]}'::json, '{"a": 1e400}'::jsonb, 'null'::jsonb,
              'a81bc81b-dead-4e5d-abff-90865d1e13b1'::uuid`,
      `select '2026-01-02 03:04:05.678901+00'::timestamptz, '2026-01-02'::date, '12:34:56.5'::time, '12:34:56+02'::timetz,
              'infinity'::timestamptz, '0044-03-15 BC'::date`,
      `select '1 year 2 mons -3 days 04:05:06.789'::interval, '0'::interval, '-1 sec'::interval, 'P1M'::interval`,
      `select '{1,2,NULL}'::int4[], '{{1,2},{3,4}}'::int8[], '{"a b","c,\\"d\\"",NULL}'::text[], '{}'::text[],
              '{1.10,2}'::numeric[], '{t,f}'::bool[], '{2026-01-02 03:04:05+00}'::timestamptz[], '{\\\\x01,\\\\xff}'::bytea[],
              '{"{\\"a\\": 1}"}'::jsonb[], '{1 day,02:00:00,NULL}'::interval[], '{1.5,-0}'::float8[]`,
      `select '[1,5)'::int4range, '(1,2)'::point, '<(1,2),3>'::circle, '10.0.0.0/8'::inet, '08:00:2b:01:02:03'::macaddr,
              B'101', '$1.50'::money, 'a & b'::tsquery, row(1, 'a b', null), 1::oid, 'notes'::regclass`,
      'select 1 as same, 2 as same',
      'select from notes limit 0',
      'select',
    ];
    const client = new pg.Client(project.url);
    await client.connect();
    try {
      await client.query("set timezone = 'UTC'");
      for (const query of queries) {
        const direct = await client.query({ text: query, rowMode: 'array' });
        const overHttp = await sql.query(query, [], { arrayMode: true, fullResults: true });
        expect(overHttp.rows, query).toEqual(direct.rows);
        expect(overHttp.rowCount, query).toBe(direct.rowCount);
        const described = ({
          name,
          tableID,
          columnID,
          dataTypeID,
          dataTypeSize,
          dataTypeModifier,
          format,
        }) => ({
          name,
          tableID,
          columnID,
          dataTypeID,
          dataTypeSize,
          dataTypeModifier,
          format,
        });
        expect(overHttp.fields.map(described), query).toEqual(direct.fields.map(described));
      }
    } finally {
      await client.end();
    }
  });

  it('passes every kind of parameter unchanged', async () => {
    const at = new Date('2026-01-02T03:04:05.678Z');
    const [row] =
      await sql`select ${1}::int4 as i, ${9007199254740993n}::int8 as big, ${1.5}::float8 as f, ${true}::bool as b,
      ${'it\'s "x"'}::text as t, ${null}::text as n, ${at}::timestamptz as at, ${Buffer.from([0, 255])}::bytea as bytes,
      ${{ a: [1] }}::jsonb as j, ${[1, 2]}::int4[] as list, ${['a "b"', null]}::text[] as texts`;
    expect(row).toEqual({
      i: 1,
      big: '9007199254740993',
      f: 1.5,
      b: true,
      t: 'it\'s "x"',
      n: null,
      at,
      bytes: Buffer.from([0, 255]),
      j: { a: [1] },
      list: [1, 2],
      texts: ['a "b"', null],
    });
  });

  it('supports user-defined types and custom type parsers', async () => {
    await sql.query("create type mood as enum ('sad', 'happy')");
    await sql.query('create domain positive as int check (value > 0)');
    await sql.query('create type pair as (a int, b text)');
    const [row] = await sql`select 'happy'::mood as mood, '{sad,happy}'::mood[] as moods, 5::positive as five,
      (1, 'x y')::pair as pair`;
    expect(row).toEqual({ mood: 'happy', moods: '{sad,happy}', five: 5, pair: '(1,"x y")' });
    const big = { getTypeParser: (oid) => (oid === 20 ? BigInt : neonTypes.getTypeParser(oid)) };
    expect(await sql.query('select 7::int8 as n', [], { types: big })).toEqual([{ n: 7n }]);
  });
});

describe('drizzle-orm/neon-http', () => {
  it('migrates, inserts, selects, runs a batch and reports errors', async () => {
    const { url } = await live.project('Drizzle over HTTP');
    const client = neon(url);
    const db = drizzle({ client });
    await migrate(db, { migrationsFolder: `${folder}drizzle` });
    await migrate(db, { migrationsFolder: `${folder}drizzle` });
    const [made] = await db
      .insert(notesTable)
      .values({ text: 'tea', tags: ['hot', 'a "b"'], data: { a: 1 }, size: 9007199254740993n })
      .returning();
    expect(made).toMatchObject({ id: 1, tags: ['hot', 'a "b"'], data: { a: 1 }, size: 9007199254740993n });
    expect(made.at).toBeInstanceOf(Date);
    expect(await db.select().from(notesTable).where(eq(notesTable.text, 'tea'))).toEqual([made]);
    const [, all] = await db.batch([
      db.insert(notesTable).values({ text: 'coffee' }),
      db.select({ text: notesTable.text }).from(notesTable).orderBy(notesTable.id),
    ]);
    expect(all).toEqual([{ text: 'tea' }, { text: 'coffee' }]);
    const failing = db.batch([
      db.insert(notesTable).values({ text: 'undone' }),
      db.insert(notesTable).values({ text: 'tea' }),
    ]);
    await expect(failing).rejects.toMatchObject({ code: '23505' });
    expect(await db.$count(notesTable)).toBe(2);
    const error = await db
      .insert(notesTable)
      .values({ text: 'tea' })
      .catch((caught) => caught);
    expect(error.cause ?? error).toMatchObject({ code: '23505', constraint: 'notes_text_key' });
    expect((await db.execute(raw`select ${1}::int + 1 as two`)).rows).toEqual([{ two: 2 }]);
  });
});

describe('kysely-neon', () => {
  it('creates, inserts, selects, reads the schema and reports errors', async () => {
    const { byKey } = await live.project('Kysely over HTTP');
    const db = new Kysely({ dialect: new NeonDialect({ neon: neon(byKey) }) });
    await db.schema
      .createTable('notes')
      .addColumn('id', 'integer', (column) => column.primaryKey().generatedAlwaysAsIdentity())
      .addColumn('text', 'text', (column) => column.notNull().unique())
      .execute();
    const made = await db
      .insertInto('notes')
      .values({ text: 'tea' })
      .returningAll()
      .executeTakeFirstOrThrow();
    expect(made).toEqual({ id: 1, text: 'tea' });
    const found = await db.selectFrom('notes').selectAll().where('text', '=', 'tea').execute();
    expect(found).toEqual([made]);
    const changed = await db
      .updateTable('notes')
      .set({ text: 'chai' })
      .where('id', '=', 1)
      .executeTakeFirst();
    expect(changed.numUpdatedRows).toBe(1n);
    await expect(db.insertInto('notes').values({ text: 'chai' }).execute()).rejects.toMatchObject({
      code: '23505',
    });
    const tables = await db.introspection.getTables();
    expect(tables.filter(({ schema }) => schema === 'public')).toMatchObject([
      { name: 'notes', schema: 'public', columns: [{ name: 'id', dataType: 'int4' }, { name: 'text' }] },
    ]);
    await db.destroy();
  });
});

describe('@prisma/adapter-neon', () => {
  it('inserts, selects, counts and reports errors', async () => {
    const { url } = await live.project('Prisma over HTTP');
    await neon(url).query(notes);
    const { PrismaClient } = (await import('@prisma/client')).default;
    const prisma = new PrismaClient({ adapter: new PrismaNeonHttp(url, {}) });
    const made = await prisma.note.create({
      data: { text: 'tea', tags: ['hot'], data: { a: [1] }, size: 9007199254740993n },
    });
    expect(made).toMatchObject({ id: 1, tags: ['hot'], data: { a: [1] }, size: 9007199254740993n });
    expect(made.at).toBeInstanceOf(Date);
    expect(await prisma.note.findMany({ where: { text: { startsWith: 'te' } } })).toEqual([made]);
    expect(await prisma.note.count()).toBe(1);
    expect(await prisma.$queryRaw`select ${1}::int + 1 as two`).toEqual([{ two: 2 }]);
    // Over HTTP, the adapter reports PostgreSQL's own code.
    await expect(prisma.note.create({ data: { text: 'tea' } })).rejects.toMatchObject({ code: '23505' });
    await prisma.$disconnect();
  });
});

import { tmpdir } from 'node:os';
import { beforeAll, describe, expect, it } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { databaseOf } from '../../src/servers/databases/names.ts';
import {
  type Answer,
  address,
  asAdmin,
  openSecondProcess,
  until,
  useTestService,
} from '../support/helpers.ts';

const rowhouse = useTestService();
type Project = { slug: string; id: string; key: string; empty: number };
const mb = 1024 * 1024;

const sizeOf = async (id: string) => {
  const [row] = await asAdmin((admin) =>
    admin.query<{ bytes: number }>(sql`select pg_database_size(${databaseOf(id)})::float8 as bytes`),
  );
  return row?.bytes ?? 0;
};
const newProject = async (limitMb: number, name = 'Small'): Promise<Project> => {
  const { body } = await rowhouse.call('POST', '/projects', { body: { name, limit_mb: limitMb } });
  const { slug, id } = body.project;
  const [row] = await rowhouse.service.deps.control.query<{ empty: number }>(
    sql`select empty_bytes::float8 as empty from projects where id = ${id}`,
  );
  return { slug, id, key: body.api_key, empty: row?.empty ?? 0 };
};
const storedMb = async ({ id, empty }: Project) => ((await sizeOf(id)) - empty) / mb;
const run = (project: Project, query: string, params: unknown[] = [], more: object = {}) =>
  rowhouse.call('POST', `/projects/${project.slug}/query`, {
    key: project.key,
    body: { query, params, ...more },
  });
const fine = async (project: Project, query: string, params: unknown[] = []) => {
  const answer = await run(project, query, params);
  expect(answer.status, `${query}: ${JSON.stringify(answer.body)}`).toBe(200);
  return answer.body;
};
const codeOf = ({ status, body }: Answer) => [status, body.error?.code];
const full = [507, 'project_full'];

/** The largest the database was on disk while `act` ran. */
async function peakOf<T>(project: Project, act: () => Promise<T>): Promise<{ result: T; peakMb: number }> {
  let peak = 0;
  let isOver = false;
  const watch = (async () => {
    while (!isOver) {
      peak = Math.max(peak, await sizeOf(project.id));
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  })();
  const result = await act();
  isOver = true;
  await watch;
  return { result, peakMb: (peak - project.empty) / mb };
}

let neighbour: Project;
beforeAll(async () => {
  neighbour = await newProject(64, 'Neighbour');
  await fine(neighbour, 'create table t (a int)');
});

const limitMb = 4;
const filler = `insert into t select n, repeat(md5(n::text), 10) from generate_series(1, 100000) as n`;
const paths: [name: string, prepare: string[], grow: string][] = [
  ['heap', ['create table t (a int, b text)'], filler],
  [
    'wide rows out of line',
    ['create table t (a int, b text)', 'alter table t alter b set storage external'],
    `insert into t select n, repeat('x', 100000) from generate_series(1, 2000) as n`,
  ],
  [
    'one huge row',
    ['create table t (a int, b text)', 'alter table t alter b set storage external'],
    `insert into t values (1, repeat('x', 50000000))`,
  ],
  [
    'indexes',
    ['create table t (a int, b text)', 'insert into t select n, n::text from generate_series(1, 20000) as n'],
    `create index on t (${Array(30).fill("(b || 'some more text')").join(', ')})`,
  ],
  [
    'a hash index with faked statistics',
    [
      'create table t (a int)',
      'insert into t values (1)',
      "select pg_restore_relation_stats('schemaname', 'public', 'relname', 't', 'reltuples', 50000000::real, 'relpages', 1)",
    ],
    `create index on t using hash (a)`,
  ],
  [
    'large objects',
    [],
    `select lo_from_bytea(0, (select string_agg(md5((n * m)::text), '')::bytea from generate_series(1, 2000) as m))
     from generate_series(1, 200) as n`,
  ],
  [
    'an unlogged table',
    [],
    `create unlogged table t as select n, repeat('x', 500) from generate_series(1, 100000) as n`,
  ],
  [
    'a temporary table',
    [],
    `create temp table t as select n, repeat('x', 500) from generate_series(1, 100000) as n`,
  ],
  ['a new table', [], `create table t as select n, repeat('x', 500) from generate_series(1, 100000) as n`],
  [
    'a materialized view',
    [],
    `create materialized view v as select n, repeat('x', 500) from generate_series(1, 100000) as n`,
  ],
  [
    'an update of all rows',
    [
      'create table t (a int, b text)',
      "insert into t select n, repeat('x', 500) from generate_series(1, 5000) as n",
    ],
    'update t set a = a + 1',
  ],
  [
    'a DO block that catches its failures',
    ['create table t (a int, b text)'],
    `do $$ begin for i in 1..200 loop begin
       insert into t select n, repeat('x', 500) from generate_series(1, 2000) as n; raise 'undone';
     exception when raise_exception then null; end; end loop; end $$`,
  ],
  [
    'a function that a SELECT calls',
    [
      'create table t (a int, b text)',
      `create function grow() returns int language plpgsql as $$ begin
         insert into t select n, repeat('x', 500) from generate_series(1, 100000) as n; return 1; end $$`,
    ],
    'select grow()',
  ],
  [
    'a trigger',
    [
      'create table t (a int, b text)',
      'create table s (a int)',
      `create function more() returns trigger language plpgsql as $$ begin
         insert into t select n, repeat('x', 500) from generate_series(1, 100000) as n; return new; end $$`,
      'create trigger more after insert on s for each row execute function more()',
    ],
    'insert into s values (1)',
  ],
  [
    'a deferred trigger',
    [
      'create table t (a int, b text)',
      'create table s (a int)',
      `create function more() returns trigger language plpgsql as $$ begin
         insert into t select n, repeat('x', 500) from generate_series(1, 20000) as n; return new; end $$`,
      `create constraint trigger more after insert on s deferrable initially deferred
         for each row execute function more()`,
    ],
    'insert into s values (1)',
  ],
  [
    'tables by the thousand',
    [],
    `do $$ begin for i in 1..3000 loop execute format('create table t_%s (a int primary key)', i); end loop; end $$`,
  ],
  [
    'sequences',
    [],
    `do $$ begin for i in 1..3000 loop execute format('create sequence s_%s', i); end loop; end $$`,
  ],
];

describe.each(paths)('growth by %s', (_name, prepare, grow) => {
  it('is refused before the commit, stores nothing, and does not disturb the neighbour', async () => {
    const project = await newProject(limitMb);
    for (const query of prepare) await run(project, query);
    expect(await storedMb(project)).toBeLessThan(limitMb);
    const { result, peakMb } = await peakOf(project, () => run(project, grow, [], { timeout_ms: 30_000 }));
    expect(codeOf(result), JSON.stringify(result.body)).toEqual(full);
    expect(result.body.error.details).toMatchObject({ limit_mb: limitMb });
    expect(peakMb).toBeLessThan(limitMb + 32);
    expect(await storedMb(project)).toBeLessThanOrEqual(limitMb);
    await fine(project, 'select 1');
    await fine(neighbour, 'insert into t values (1)');
  });
});

describe('a full project', () => {
  const fill = async (limit = 6) => {
    const project = await newProject(limit);
    await fine(project, 'create table t (a int primary key, b text)');
    await fine(project, 'create table other (a int)');
    await fine(project, 'create view seen as select a, length(b) as size from t');
    await fine(
      project,
      `create function twice(int) returns int language plpgsql as $$ begin return $1 * 2; end $$`,
    );
    for (let n = 0; n < 1000; n++) {
      const { status } = await run(
        project,
        "insert into t select g, repeat('x', 1000) from generate_series($1::int, $1::int + 199) as g",
        [n * 200],
      );
      if (status === 507) return project;
      expect(status).toBe(200);
    }
    throw new Error('It was never full.');
  };
  const status = async ({ slug }: Project) =>
    (await rowhouse.call('GET', `/projects/${slug}`)).body.project.status;

  it('is filled up to its limit and not beyond, and reports that', async () => {
    const project = await fill();
    const stored = await storedMb(project);
    expect(stored).toBeLessThanOrEqual(6);
    expect(stored).toBeGreaterThan(4.5);
    const refused = await run(
      project,
      "insert into t select g, repeat('x', 1000) from generate_series(100001, 100800) as g",
    );
    expect(codeOf(refused)).toEqual(full);
    expect(refused.body.error).toMatchObject({
      details: { limit_mb: 6, size_mb: expect.any(Number) },
      hint: expect.stringContaining('DELETE'),
    });
    expect(await storedMb(project)).toBeLessThanOrEqual(6);
  });

  it('can be read, emptied and vacuumed', async () => {
    const project = await fill();
    const lowered = await rowhouse.call('PATCH', `/projects/${project.slug}`, { body: { limit_mb: 2 } });
    expect(lowered.body.project).toMatchObject({ limit_mb: 2, status: 'full' });
    await fine(project, 'select count(*) from t');
    await fine(project, 'select sum(size) from seen');
    await fine(project, 'select twice(max(a)) from t');
    await fine(project, 'select * from t where a < 10 for update');
    await fine(project, 'vacuum t');
    await fine(project, 'analyze t');
    expect(
      (await rowhouse.call('GET', `/projects/${project.slug}/tables/t?limit=5`, { key: project.key })).status,
    ).toBe(200);
    for (const refused of [
      'insert into other values (1)',
      "update t set b = b || 'more'",
      'create table more as select * from t',
      'create index on t (b)',
    ])
      expect(codeOf(await run(project, refused)), refused).toEqual(full);
    await fine(project, 'drop view seen');
    await fine(project, 'alter table t drop column b');
    await fine(project, 'delete from t where a % 2 = 0');
    await fine(project, 'drop table other');
    await fine(project, 'truncate t');
    expect(await storedMb(project)).toBeLessThan(2);
    await fine(project, 'insert into t values (1)');
    expect(await status(project)).toMatch(/ready|full/);
  });

  it('accepts rows again as soon as others are deleted', async () => {
    const project = await fill();
    const more = "insert into t select g, repeat('y', 1000) from generate_series(200001, 200500) as g";
    expect(codeOf(await run(project, more))).toEqual(full);
    await fine(project, 'delete from t where a < 2000');
    await fine(project, more);
    expect(await storedMb(project)).toBeLessThanOrEqual(6);
  });

  it('accepts rows as soon as its limit is raised, and not when it is lowered', async () => {
    const project = await fill();
    const more =
      "insert into t select g, repeat('y', 1000) from generate_series($1::int, $1::int + 999) as g";
    expect(codeOf(await run(project, more, [300_000]))).toEqual(full);
    await rowhouse.call('PATCH', `/projects/${project.slug}`, { body: { limit_mb: 12 } });
    await fine(project, more, [300_000]);
    await rowhouse.call('PATCH', `/projects/${project.slug}`, { body: { limit_mb: 3 } });
    expect(codeOf(await run(project, more, [400_000]))).toEqual(full);
    expect((await fine(project, 'select count(*) as n from t where a >= 300000')).rows).toEqual([
      { n: 1000 },
    ]);
  });
});

describe('a write', () => {
  it('by table endpoint, batch, import or max_affected is held to the limit', async () => {
    const project = await newProject(3);
    await fine(project, 'create table t (a int, b text)');
    const table = (method: string, query: string, body: unknown, type = 'application/json') =>
      rowhouse.call(method, `/projects/${project.slug}/tables/t${query}`, {
        key: project.key,
        headers: { 'content-type': type },
        ...(typeof body === 'string' ? { raw: body } : { body }),
      });
    const rows = Array.from({ length: 5000 }, (_, a) => ({ a, b: 'x'.repeat(1000) + a }));
    expect(codeOf(await table('POST', '?returning=minimal', rows))).toEqual(full);
    expect(codeOf(await table('POST', '', rows))).toEqual(full);
    const csv = `a,b\n${rows.map(({ a, b }) => `${a},${b}`).join('\n')}\n`;
    expect(codeOf(await table('POST', '', csv, 'text/csv'))).toEqual(full);
    const statements = Array.from({ length: 10 }, () => ({
      query: "insert into t select n, repeat('x', 1000) from generate_series(1, 500) as n",
    }));
    const batch = await rowhouse.call('POST', `/projects/${project.slug}/batch`, {
      key: project.key,
      body: { statements },
    });
    expect(codeOf(batch)).toEqual(full);
    const held = await run(
      project,
      "insert into t select n, repeat('x', 1000) from generate_series(1, 5000) as n",
      [],
      { max_affected: 10_000 },
    );
    expect(codeOf(held)).toEqual(full);
    expect((await fine(project, 'select count(*) as n from t')).rows).toEqual([{ n: 0 }]);
    expect(await storedMb(project)).toBeLessThanOrEqual(3);
    expect((await table('POST', '?returning=minimal', rows.slice(0, 1500))).status).toBe(201);
    expect(
      codeOf(
        await table('PATCH', '?a=gte.0', {
          b: Array.from({ length: 800 }, (_, n) => (n * 7919).toString(36)).join(''),
        }),
      ),
    ).toEqual(full);
    expect((await table('DELETE', '?a=lt.400&returning=minimal', undefined)).status).toBe(200);
  });

  it('by sign-up is held to the limit, and users still sign in', async () => {
    const project = await newProject(1);
    const auth = (path: string, body: object) =>
      rowhouse.call('POST', `/projects/${project.slug}/auth/${path}`, { key: project.key, body });
    const words = (n: number) =>
      Array.from({ length: 1000 }, (_, m) => (n * 7919 * m).toString(36)).join(' ');
    let last: Answer | null = null;
    for (let n = 0; n < 300; n++) {
      last = await auth('signup', {
        email: `u${n}@example.com`,
        password: 'correct horse',
        data: { a: words(n) },
      });
      if (last.status !== 201) break;
    }
    expect(codeOf(last as Answer)).toEqual(full);
    expect(await storedMb(project)).toBeLessThanOrEqual(1);
    expect((await auth('signin', { email: 'u0@example.com', password: 'correct horse' })).status).toBe(200);
    expect(await storedMb(project)).toBeLessThanOrEqual(1);
  });

  it('by one of several processes at once is held to the limit', { tags: 'long' }, async () => {
    const second = await openSecondProcess(rowhouse);
    try {
      const project = await newProject(8);
      await fine(project, 'create table t (a int, b text)');
      const insert = (n: number, size: number) =>
        (n % 2 ? rowhouse : second).call('POST', `/projects/${project.slug}/query`, {
          key: project.key,
          body: {
            query: `insert into t select n, repeat('x', 1000) from generate_series(1, $1) as n`,
            params: [size],
          },
        });
      let committed = 0;
      let most = 0;
      const write = async (n: number) => {
        for (let turn = 0; turn < 12; turn++) {
          const size = 50 * (1 + ((n * 7 + turn * 3) % 8));
          const { status } = await insert(n, size);
          expect([200, 507, 429]).toContain(status);
          if (status === 200) committed += size;
          most = Math.max(most, await storedMb(project));
        }
      };
      await Promise.all(Array.from({ length: 8 }, (_, n) => write(n)));
      expect((await fine(project, 'select count(*) as n from t')).rows).toEqual([{ n: committed }]);
      expect(committed).toBeGreaterThan(3000);
      // What the last of the refused left is given back right after their answers.
      await until('it holds', async () => (await storedMb(project)) <= 8);
      expect(most).toBeLessThan(8 + 32);
    } finally {
      await second.stop();
    }
  });

  it('of sixteen at once, repeated, leaves no more on disk than the limit', {
    tags: 'long',
  }, async () => {
    const project = await newProject(40);
    await fine(project, 'create table t (a int, b text)');
    let committed = 0;
    const write = async (n: number) => {
      for (let refused = 0, turn = 0; refused < 3; turn++) {
        const rows = 500 + ((n * 997 + turn * 631) % 3000);
        const { status, body } = await run(
          project,
          `insert into t select n, repeat('x', 1000) from generate_series(1, ${rows}) as n`,
        );
        if (status === 200) committed += rows;
        else refused++;
        if (status !== 200) expect(codeOf({ status, body } as Answer)).toEqual(full);
      }
    };
    const { peakMb } = await peakOf(project, () =>
      Promise.all(Array.from({ length: 16 }, (_, n) => write(n))),
    );
    expect(peakMb).toBeLessThan(40 + 32);
    await until('it holds', async () => (await storedMb(project)) <= 40);
    expect((await fine(project, 'select count(*) as n from t')).rows).toEqual([{ n: committed }]);
    expect(committed).toBeGreaterThan(20_000);
    // With room again, nobody waits for anybody's turn.
    await fine(project, 'truncate t');
    await until(
      'the door is open',
      async () => !rowhouse.service.deps.query.admission.writerQueue.isClosed(project.id),
    );
    await fine(project, `insert into t values (1, 'x')`);
    await fine(neighbour, 'insert into t values (1)');
  });

  it('far below the limit is not measured, and is still held to it', async () => {
    const project = await newProject(300);
    const { query } = rowhouse.service.deps;
    await until('it is far', async () => (await query.admission.headroom.admit(project.id)) === null);
    const make = (rows: number) =>
      run(
        project,
        `create unlogged table t_${rows} as select repeat('x', 2000) from generate_series(1, ${rows}) as n`,
        [],
        { timeout_ms: 60_000 },
      );
    const tooMuch = await peakOf(project, () => make(400_000));
    expect(codeOf(tooMuch.result), JSON.stringify(tooMuch.result.body)).toEqual(full);
    expect(tooMuch.peakMb).toBeLessThan(332);
    // More than what is never looked at, less than the limit.
    const enough = await make(100_000);
    expect(enough.status, JSON.stringify(enough.body)).toBe(200);
    expect(await storedMb(project)).toBeLessThanOrEqual(300);
  });

  it('that commits by itself needs some room, and gets it where there is enough', {
    tags: 'long',
  }, async () => {
    const small = await newProject(4);
    await fine(small, 'create table t (a int)');
    const procedure = `create procedure many() language plpgsql as $$ begin
      for i in 1..5 loop insert into t values (i); commit; end loop; end $$`;
    await fine(small, procedure);
    for (const query of ['create index concurrently on t (a)', 'call many()']) {
      const refused = await run(small, query);
      expect(codeOf(refused), query).toEqual(full);
      expect(refused.body.error.message).toContain('commits by itself');
    }
    const larger = await newProject(100);
    await fine(larger, 'create table t (a int)');
    await fine(larger, procedure);
    await fine(larger, 'create index concurrently on t (a)');
    await fine(larger, 'call many()');
    expect((await fine(larger, 'select count(*) as n from t')).rows).toEqual([{ n: 5 }]);
    await fine(
      larger,
      `create procedure grow() language plpgsql as $$ begin loop
      insert into t select generate_series(1, 100000); commit; end loop; end $$`,
    );
    expect(codeOf(await run(larger, 'call grow()', [], { timeout_ms: 60_000 }))).toEqual(full);
    expect(await storedMb(larger)).toBeLessThanOrEqual(100);
  });
});

it('by an acting user is held to the limit and told so', async () => {
  const project = await newProject(2);
  await fine(project, 'create table notes (owner uuid default auth.uid(), text text)');
  await fine(project, 'alter table notes enable row level security');
  await fine(project, 'create policy own on notes to authenticated using (owner = auth.uid())');
  const auth = await rowhouse.call('POST', `/projects/${project.slug}/auth/signup`, {
    key: project.key,
    body: { email: 'ada@example.com', password: 'correct horse' },
  });
  const insert = (text: string) =>
    rowhouse.call('POST', `/projects/${project.slug}/tables/notes?returning=minimal`, {
      key: project.key,
      headers: { authorization: `Bearer ${auth.body.session.access_token}` },
      body: Array.from({ length: 100 }, () => ({ text })),
    });
  let last: Answer | null = null;
  for (let n = 0; n < 100 && last?.status !== 507; n++) last = await insert('x'.repeat(1500));
  expect(codeOf(last as Answer)).toEqual(full);
  expect(await storedMb(project)).toBeLessThanOrEqual(2);
});

it('is answered with how full the project is', async () => {
  const project = await newProject(9);
  await fine(project, 'create table t (a int)');
  const answers = [
    await run(project, 'insert into t values (1)'),
    await rowhouse.call('POST', `/projects/${project.slug}/tables/t`, { key: project.key, body: { a: 1 } }),
    await rowhouse.call('DELETE', `/projects/${project.slug}/tables/t?a=eq.1`, { key: project.key }),
    await rowhouse.call('POST', `/projects/${project.slug}/batch`, {
      key: project.key,
      body: { statements: [{ query: 'insert into t values (1)' }] },
    }),
  ];
  for (const { headers } of answers) {
    expect(headers['x-project-size']).toMatch(/^0(\.\d+)?$/);
    expect(headers['x-project-limit']).toBe('9');
  }
});

it('is checked although the statement tries to skip the check', async () => {
  const project = await newProject(3);
  await fine(project, 'create table t (a int, b text)');
  const tricks = [
    `do $$ begin insert into t select n, repeat('x', 1000) from generate_series(1, 5000) as n;
       perform set_config('search_path', 'public', false); perform set_config('role', 'none', false); end $$`,
    `do $$ begin execute 'prepare check_size (bigint, bigint, float8) as select 1';
       insert into t select n, repeat('x', 1000) from generate_series(1, 5000) as n; end $$`,
    `do $$ begin execute 'set constraints all deferred'; execute 'create schema rowhouse2';
       insert into t select n, repeat('x', 1000) from generate_series(1, 5000) as n; end $$`,
    `do $$ begin insert into t select n, repeat('x', 1000) from generate_series(1, 5000) as n; commit; end $$`,
    `with more as (insert into t select n, repeat('x', 1000) from generate_series(1, 5000) as n returning 1) select count(*) from more`,
    `explain analyze insert into t select n, repeat('x', 1000) from generate_series(1, 5000) as n`,
  ];
  for (const trick of tricks) expect(codeOf(await run(project, trick)), trick).toEqual(full);
  const refused = await run(
    project,
    'create or replace function rowhouse.check_size(bigint, bigint, bigint, float8) returns void language sql as $$ $$',
  );
  expect(refused.status).toBe(403);
  expect((await fine(project, 'select count(*) as n from t')).rows).toEqual([{ n: 0 }]);
  expect(await storedMb(project)).toBeLessThanOrEqual(3);
});

it('that is rolled back or fails otherwise gives its room back', async () => {
  const project = await newProject(6);
  await fine(project, 'create table t (a int primary key, b text)');
  const grow = "insert into t select n, repeat('x', 1000) from generate_series(1, 4000) as n";
  expect((await run(project, grow, [], { dry_run: true })).status).toBe(200);
  for (let turn = 0; turn < 3; turn++)
    expect((await run(project, `${grow} union all select 1, 'again'`)).status).toBe(409);
  await until('it is given back', async () => (await storedMb(project)) < 2, 10_000);
  await fine(project, grow);
});

it('that fails during a VACUUM gives its room back', async () => {
  const project = await newProject(6);
  await fine(project, 'create table t (a int, b text)');
  // So soon after another statement the dead rows are not told yet.
  await fine(project, 'insert into t values (0)');
  const failing = run(
    project,
    `with more as (insert into t select n, repeat('x', 1000) from generate_series(1, 3000) as n returning a)
     select count(*), pg_sleep(0.6), 1 / (count(*) - 3000) from more`,
  );
  await until('it is written', async () => (await storedMb(project)) > 2);
  await asAdmin((admin) => admin.query(sql`vacuum t`), { ...address(), database: databaseOf(project.id) });
  expect((await failing).status).toBe(400);
  await until('it is given back', async () => (await storedMb(project)) < 1, 10_000);
});

it('on a nearly full disk growth is refused, and reading and deleting go on', async () => {
  const project = await newProject(64);
  await fine(project, 'create table t (a int, b text)');
  await fine(project, "insert into t select n, repeat('x', 100) from generate_series(1, 5000) as n");
  const crowded = await openSecondProcess(rowhouse, {
    disk: { folder: tmpdir(), reserveBytes: Number.MAX_SAFE_INTEGER },
  });
  try {
    await crowded.service.deps.disk.look();
    const there = (query: string) =>
      crowded.call('POST', `/projects/${project.slug}/query`, { key: project.key, body: { query } });
    const grow = "insert into t select n, repeat('x', 1000) from generate_series(1, 2000) as n";
    const refused = await there(grow);
    expect(codeOf(refused)).toEqual([507, 'server_full']);
    expect(refused.headers['retry-after']).toBeTruthy();
    expect((await there('select count(*) from t')).status).toBe(200);
    expect((await there('delete from t where a > 100')).status).toBe(200);
    expect((await there('truncate t')).status).toBe(200);
    // Another process, whose disk has room, goes on.
    await fine(project, grow);
  } finally {
    await crowded.stop();
  }
});

// An error in the caller's own SQL is the caller's to hear, on whichever path the statement takes: never a 5xx, which a
// client takes for a server in trouble and repeats.
import { beforeAll, expect, it } from 'vitest';
import { type Answer, useTestService } from '../support/helpers.ts';

const rowhouse = useTestService();
let project: { slug: string; id: string; key: string };
let neighbour: { slug: string; id: string; key: string };
let connection = '';

const run = (body: object, path = 'query', of = project) =>
  rowhouse.call('POST', `/projects/${of.slug}/${path}`, { key: of.key, body });

const setup = [
  'create table things (id int primary key, name text unique, tags int[])',
  "insert into things values (1, 'one', '{1}'), (2, 'two', '{2}')",
  "create type mood as enum ('happy', 'sad')",
  'create type pair as (a int, b mood)',
  'create table parents (id int primary key)',
  'create table children (id int, parent int references parents deferrable initially deferred)',
  `create function raise_it(state text) returns int language plpgsql as $$
     begin raise exception 'raised' using errcode = state; end $$`,
  'create table guarded (id int, note text)',
  `create function guard_it() returns trigger language plpgsql as $$
     begin raise exception 'no: %', new.note using errcode = coalesce(new.note, 'P0001'); end $$`,
  'create trigger guard before insert or update on guarded for each row execute function guard_it()',
  'create table late (id int, note text)',
  `create constraint trigger late after insert on late deferrable initially deferred
     for each row execute function guard_it()`,
  "create domain positive as int check (raise_it('P0002') > value)",
];

beforeAll(async () => {
  project = await rowhouse.project('Errors');
  neighbour = await rowhouse.project('Neighbour');
  for (const query of setup) expect((await run({ query })).body).toMatchObject({ ok: true });
  const { body } = await rowhouse.call('GET', `/projects/${project.slug}/connection`);
  connection = body.connection.url;
});

/** `unless`: with this option it is not wrong, or refused before it is found out. */
type Wrong = { query: string; params?: unknown[]; state: string; unless?: string };

/** With arrays among the parameters, whose types are looked up first; with types of the project's own; and others. */
const wrong: Wrong[] = [
  { query: 'select name from things wher id = any($1)', params: [[1, 2]], state: '42601' },
  { query: 'select name from nothing where id = any($1)', params: [[1, 2]], state: '42P01' },
  { query: 'select nam from things where id = any($1)', params: [[1, 2]], state: '42703' },
  { query: 'select nothing($1)', params: [[1, 2]], state: '42883' },
  { query: 'select $1', params: [[1], [2]], state: '08P01' },
  { query: 'select $2::int[]', params: [[1]], state: '42P18' },
  { query: 'insert into things (id, tags) values (3, $1) retuning id', params: [[1]], state: '42601' },
  { query: 'insert into nothing values ($1)', params: [[1]], state: '42P01' },
  { query: 'insert into things (id, tags) values (1, $1)', params: [[1]], state: '23505' },
  { query: 'update things set tgas = $1', params: [[1]], state: '42703' },
  { query: 'insert into things (id, tags) values (9, $1)', params: [['x']], state: '22P02' },
  { query: 'delete from things where id = any($1) and oops', params: [[1]], state: '42703' },
  { query: 'call nothing($1)', params: [[1]], state: '42883' },
  { query: "select 'angry'::mood", state: '22P02' },
  { query: "select row(1, 'happy')::pair, 1 / 0", state: '22012' },
  { query: 'select n::text::mood from generate_series(1, 3) as n', state: '22P02' },
  {
    query:
      "select case when n > 2 then (1 / (n - 3))::text else 'happy' end::mood from generate_series(1, 9) n",
    state: '22012',
  },
  { query: 'select 1 / (n - 600) from generate_series(1, 1000) as n', state: '22012', unless: 'limit' },
  { query: 'insert into children values (1, 5)', state: '23503', unless: 'dry_run' },
  { query: "select raise_it('P0001')", state: 'P0001' },
  { query: "select raise_it('57014')", state: '57014' },
  { query: "select raise_it('57P01')", state: '57P01' },
  { query: "select raise_it('08006')", state: '08006' },
  { query: "select raise_it('XX000')", state: 'XX000' },
  { query: "select raise_it('RH002')", state: 'RH002' },
  { query: "insert into guarded values (1, '57P03')", state: '57P03' },
  { query: "insert into late values (1, '08006')", state: '08006', unless: 'dry_run' },
  { query: "insert into late values (1, 'RH002')", state: 'RH002', unless: 'dry_run' },
  { query: 'select 5::positive', state: 'P0002' },
  { query: 'do $$ begin perform 1 / 0; end $$', state: '22012' },
  { query: 'vacuum nothing', state: '42P01' },
  { query: 'create index concurrently on nothing (id)', state: '42P01', unless: 'measured' },
  { query: 'explain select nothing from things', state: '42703' },
  { query: 'set constraints nothing immediate', state: '42704' },
];

/** The caller hears of it as it is: not as a server in trouble, and not twice. */
function expectTold({ status, body }: Answer, state: string, how: string): void {
  expect(status, `${how}: ${JSON.stringify(body)}`).toBeLessThan(500);
  expect(status, how).toBeGreaterThanOrEqual(400);
  const told = body.error?.sql?.state ?? body.code;
  // A statement that cannot run in a transaction is told so.
  expect([state, '25001', '25006', '0A000'], `${how}: ${JSON.stringify(body)}`).toContain(told);
}

const options: Record<string, object> = {
  plain: {},
  'with a limit': { limit: 2 },
  'read only': { read_only: true },
  'as a dry run': { dry_run: true },
  'with max_affected': { max_affected: 5 },
  'with little time': { timeout_ms: 9_000 },
};

for (const [name, more] of Object.entries(options))
  it(`/query says what is wrong with a statement, ${name}`, async () => {
    // Twice: the second time the session may know it.
    for (const { state, unless = '', ...statement } of [...wrong, ...wrong])
      if (!(unless in more))
        expectTold(await run({ ...statement, ...more }), state, `${name}: ${statement.query}`);
  });

it('/batch says what is wrong with a statement', async () => {
  for (const { state, unless: _, ...statement } of wrong)
    for (const statements of [[statement], [{ query: 'select 1' }, statement]])
      expectTold(await run({ statements }, 'batch'), state, `batch: ${statement.query}`);
});

it('/sql says what is wrong with a statement, alone and among others', async () => {
  const neon = (body: object, headers = {}) =>
    rowhouse.call('POST', '/sql', {
      key: '',
      body,
      headers: { 'neon-connection-string': connection, ...headers },
    });
  for (const { state, unless: _, ...statement } of wrong) {
    expectTold(await neon(statement), state, `/sql: ${statement.query}`);
    const raw = { 'neon-raw-text-output': 'true', 'neon-array-mode': 'true' };
    expectTold(await neon(statement, raw), state, `/sql as text: ${statement.query}`);
    const queries = [{ query: 'select 1' }, statement];
    expectTold(await neon({ queries }), state, `/sql in a transaction: ${statement.query}`);
  }
});

it('errors are the same near the limit, where statements are measured', { tags: 'long' }, async () => {
  const small = await rowhouse.project('Small');
  for (const query of setup) await run({ query }, 'query', small);
  const limit = await rowhouse.call('PATCH', `/projects/${small.slug}`, { body: { limit_mb: 4 } });
  expect(limit.status).toBe(200);
  for (const more of Object.values(options))
    for (const { state, unless = '', ...statement } of wrong)
      if (unless !== 'measured' && !(unless in more))
        expectTold(
          await run({ ...statement, ...more }, 'query', small),
          state,
          `measured: ${statement.query} ${JSON.stringify(more)}`,
        );
});

it('table endpoints pass on errors of triggers, deferred constraints and domains', async () => {
  const rows = (method: string, path: string, body?: object) =>
    rowhouse.call(method, `/projects/${project.slug}/tables/${path}`, {
      key: project.key,
      ...(body && { body }),
    });
  for (const note of ['P0001', '57P01', '08006', '57014', 'XX000', 'RH002', '40001']) {
    for (const body of [{ id: 1, note }, [{ id: 1, note }, { id: 2 }]]) {
      expectTold(await rows('POST', 'guarded', body), note, `insert ${note}`);
      expectTold(await rows('POST', 'late', body), note, `deferred ${note}`);
    }
    const csv = await rowhouse.call('POST', `/projects/${project.slug}/tables/late`, {
      key: project.key,
      raw: `id,note\n1,${note}\n`,
      headers: { 'content-type': 'text/csv' },
    });
    expectTold(csv, note, `import ${note}`);
  }
  expectTold(await rows('POST', 'children', { id: 1, parent: 77 }), '23503', 'a deferred reference');
});

it("deleting a user passes on errors of the project's own triggers", async () => {
  const users = `/projects/${project.slug}/auth/users`;
  const made = await rowhouse.call('POST', users, { key: project.key, body: { email: 'a@example.com' } });
  expect(made.status).toBe(201);
  const own = [
    'create table notes (owner uuid references auth.users on delete cascade, note text)',
    `create function keep_notes() returns trigger language plpgsql as $$
       begin raise exception 'kept' using errcode = '57P01'; end $$`,
    'create trigger keep before delete on notes for each row execute function keep_notes()',
    `insert into notes values ('${made.body.user.id}', '57P01')`,
  ];
  for (const query of own) expect((await run({ query })).body).toMatchObject({ ok: true });
  const gone = await rowhouse.call('DELETE', `${users}/${made.body.user.id}`, { key: project.key });
  expectTold(gone, '57P01', 'deleting a user');
});

it('types that contain each other many times or very deep cost no more than others', async () => {
  await run({ query: 'create type wide0 as (a mood, b mood)' });
  for (let n = 1; n <= 12; n++)
    await run({ query: `create type wide${n} as (a wide${n - 1}, b wide${n - 1})` });
  await run({ query: 'create type deep0 as (a mood)' });
  for (let n = 1; n <= 100; n++) await run({ query: `create type deep${n} as (a deep${n - 1})` });
  const found = await run({
    query: 'select null::wide12 as wide, null::deep100 as deep, null::deep50 as half',
  });
  expect(found.body).toMatchObject({ ok: true, types: ['wide12', 'deep100', 'deep50'] });
});

it('sessions and the neighbour work after all these errors', async () => {
  const { body } = await run({ query: 'select name from things where id = any($1)', params: [[1, 2]] });
  expect(body).toMatchObject({ ok: true, row_count: 2 });
  expect((await run({ query: 'select 1 as one' }, 'query', neighbour)).body.rows).toEqual([{ one: 1 }]);
  expect(rowhouse.service.deps.query.sessions.counts().waiting).toBe(0);
});

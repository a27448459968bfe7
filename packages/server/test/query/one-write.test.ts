// A batch of short, plain statements is one write to PostgreSQL. It gives the same answers as statement by statement, and is all or
// nothing, whatever fails in it.
import { beforeAll, expect, it } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { formOf } from '../../src/query/answer.ts';
import { canBeOneWrite } from '../../src/query/one-write.ts';
import { inside, newUser, seatOf, type TestProject } from '../support/end-users.ts';
import { useTestService } from '../support/helpers.ts';

const rowhouse = useTestService({ spares: 2 });
let project: TestProject;

type Statement = { query: string; params?: unknown[]; limit?: number };

const batch = (statements: Statement[], more: object = {}, on = project) =>
  rowhouse.call('POST', `/projects/${on.slug}/batch`, { key: on.key, body: { statements, ...more } });

const run = async (query: string, on = project) => {
  const answer = await rowhouse.call('POST', `/projects/${on.slug}/query`, { key: on.key, body: { query } });
  expect(answer.status, `${query}: ${JSON.stringify(answer.body)}`).toBe(200);
  return answer.body.rows;
};

/** Whether the batch would now be one write. */
async function isOneWrite(statements: Statement[], begin = 'begin', on = project): Promise<boolean> {
  const { parser, profiles } = rowhouse.service.deps.query;
  const login = { id: on.id, accountId: null };
  const steps = await Promise.all(
    statements.map(async ({ query, params = [], limit = null }) => ({
      statement: await parser.parse(login, query),
      input: { query, params, limit, bigAsString: false },
      form: formOf('{'),
    })),
  );
  const known = steps.map(({ statement }) => profiles.of(login, statement));
  return canBeOneWrite(steps, known, { begin, maxAffected: null });
}

/** Runs the batch until it is known to be plain and short. */
async function learn(statements: Statement[], more: object = {}, on = project): Promise<void> {
  for (let n = 0; n < 8 && !(await isOneWrite(statements, 'begin', on)); n++) {
    expect((await batch(statements, more, on)).status).toBe(200);
    await new Promise((resolve) => setTimeout(resolve, 400));
  }
  expect(await isOneWrite(statements, 'begin', on)).toBe(true);
}

const withoutTimes = (body: { results: object[] }) =>
  body.results.map((result) => ({ ...result, duration_ms: null }));

beforeAll(async () => {
  project = await rowhouse.project('Batches');
  await run('create table things (id int primary key, name text, at timestamptz)');
  await run("insert into things select n, 'thing ' || n, '2026-01-01' from generate_series(1, 50) n");
  await run('create table made (id int generated always as identity primary key, name text not null)');
});

it('answers as statement by statement', async () => {
  const statements = [
    { query: 'select id, name, at from things where id = $1', params: [3] },
    { query: 'select id from things order by id', limit: 2 },
    { query: 'select count(*) from things' },
    { query: 'select id, name, at from things where id = $1', params: [4] },
    { query: 'select null as nothing, 1 as a, 2 as a' },
  ];
  const first = await batch(statements);
  await learn(statements);
  for (let n = 0; n < 3; n++) {
    const answer = await batch(statements);
    expect(answer.status).toBe(200);
    expect(withoutTimes(answer.body)).toEqual(withoutTimes(first.body));
  }
  expect(withoutTimes(first.body)[1]).toMatchObject({ rows: [{ id: 1 }, { id: 2 }], truncated: true });
  expect((await batch(statements, { read_only: true })).status).toBe(200);
});

it('is all or nothing, and names the statement that failed', async () => {
  const insert = (name: string | null) => ({ query: 'insert into made (name) values ($1)', params: [name] });
  const divide = (by: number) => ({ query: 'select 1 / $1::int as x', params: [by] });
  const statements = [insert('kept'), divide(1), insert('kept, too')];
  await learn(statements);
  const before = await run('select count(*)::int as n from made');
  for (const [failing, index, code] of [
    [[insert('gone'), divide(0), insert('gone')], 1, 'sql_error'],
    [[insert('gone'), divide(1), insert(null)], 2, 'constraint_violation'],
    [[insert(null), divide(0), insert('gone')], 0, 'constraint_violation'],
  ] as const) {
    expect(await isOneWrite([...failing])).toBe(true);
    const { status, body } = await batch([...failing]);
    expect(status).toBeGreaterThanOrEqual(400);
    expect([body.error.code, body.error.details.statement]).toEqual([code, index]);
  }
  expect(await run('select count(*)::int as n from made')).toEqual(before);
  const { body } = await batch(statements);
  expect(body.results.map(({ affected }: { affected: number }) => affected)).toEqual([1, 1, 1]);
  const [{ n }] = before;
  expect(await run('select count(*)::int as n from made')).toEqual([{ n: n + 2 }]);
});

it('leaves its shape where it cannot be one write: other answers stay right', async () => {
  const read = { query: 'select id, name from things where id = $1', params: [1] };
  await learn([read, read]);
  const large = { query: "select repeat('x', 200000) as x from things where id <= $1", params: [9] };
  await learn([read, { ...large, params: [0] }]);
  for (let n = 0; n < 2; n++) {
    const { status, body } = await batch([read, large, read]);
    expect(status).toBe(200);
    expect(body.results.map(({ row_count }: { row_count: number }) => row_count)).toEqual([1, 9, 1]);
    expect(body.results[1].rows[8].x).toHaveLength(200_000);
  }
  const write = { query: 'insert into made (name) values ($1)', params: ['never'] };
  const refused = await batch([read, write], { read_only: true });
  expect([refused.status, refused.body.error.details.statement]).toEqual([400, 1]);
  const unexpected = await batch([{ ...write, expect_affected: 2 } as Statement]);
  expect(unexpected.status).toBe(409);
  expect(await run("select count(*)::int as n from made where name = 'never'")).toEqual([{ n: 0 }]);
});

it('finds other tables after they have changed', async () => {
  await run('create table moving (id int, v int)');
  await run('insert into moving values (1, 1)');
  const statements = [
    { query: 'select v from moving where id = $1', params: [1] },
    { query: 'update moving set v = v where id = $1', params: [1] },
  ];
  await learn(statements);
  await run('alter table moving alter v type text');
  expect((await batch(statements)).body.results[0]).toMatchObject({ types: ['text'], rows: [{ v: '1' }] });
  await inside(project, sql.script('alter table moving alter id type bigint'));
  const again = await batch([{ ...(statements[0] as Statement), params: [3_000_000_000] }]);
  expect([again.status, again.body.results?.[0].row_count]).toEqual([200, 0]);
});

it('holds the limit of a project', async () => {
  const made = await rowhouse.call('POST', '/projects', { body: { name: 'Small', limit_mb: 4 } });
  const small = { slug: made.body.project.slug, id: made.body.project.id, key: made.body.api_key };
  await run('create table big (id int generated always as identity, body text)', small);
  await run('alter table big alter body set storage external', small);
  const insert = { query: 'insert into big (body) values ($1)', params: ['x'] };
  await learn([insert, insert], {}, small);
  const body = 'y'.repeat(30_000);
  const large = { ...insert, params: [body] };
  let last = 200;
  for (let n = 0; n < 200 && last === 200; n++) {
    const answers = await Promise.all([1, 2, 3].map(() => batch([large, large], {}, small)));
    last = Math.max(...answers.map(({ status }) => status));
  }
  expect(last).toBe(507);
  const { body: found } = await rowhouse.call('GET', `/projects/${small.slug}/usage?live=true`, {
    key: small.key,
  });
  const project = await rowhouse.call('GET', `/projects/${small.slug}`, { key: small.key });
  expect(project.body.project.size_mb, JSON.stringify(found)).toBeLessThanOrEqual(4);
  const count = await run('select count(*)::int as n from big where length(body) > 1', small);
  expect(count[0].n % 2).toBe(0);
});

it('acts as the user of the token', async () => {
  const seat = await seatOf(rowhouse, project);
  const user = await newUser(rowhouse, project);
  await seat.query('create table own (id int primary key, owner uuid default auth.uid())');
  await seat.query('alter table own enable row level security');
  await seat.query('create policy own on own using (owner = (select auth.uid()))');
  const acting = await rowhouse.call('POST', `/projects/${project.slug}/auth/users/${user.id}/act-as`, {
    key: project.key,
    body: {},
  });
  const as = (statements: Statement[]) =>
    rowhouse.call('POST', `/projects/${project.slug}/batch`, {
      key: project.key,
      headers: { authorization: `Bearer ${acting.body.token}` },
      body: { statements },
    });
  const read = { query: 'select auth.uid() as uid, current_user::text as role' };
  const insert = (id: number) => ({ query: 'insert into own (id) values ($1)', params: [id] });
  for (let n = 1; n <= 6; n++) {
    const { status, body } = await as([
      insert(n),
      { query: 'select owner from own where id = $1', params: [n] },
      read,
    ]);
    expect(status, JSON.stringify(body)).toBe(200);
    expect(body.results[1].rows).toEqual([{ owner: user.id }]);
    expect(body.results[2].rows).toEqual([{ uid: user.id, role: 'authenticated' }]);
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
  await inside(project, sql`delete from auth.sessions where user_id = ${user.id}`);
  expect((await as([insert(9), read])).status).toBe(401);
  expect(await run('select count(*)::int as n from own')).toEqual([{ n: 6 }]);
});

// Acting as an end user with a key that may manage the project.
import { ActAsResponse, ActingResponse } from '@rowhouse/api';
import { Compile } from 'typebox/compile';
import { beforeAll, describe, expect, it } from 'vitest';
import { sql } from '../../../src/postgres/sql.ts';
import { openPage, outcome } from '../../support/console-page.ts';
import { inside, newUser, type TestProject, type User } from '../../support/end-users.ts';
import { openSecondProcess, until, useTestService } from '../../support/helpers.ts';

const rowhouse = useTestService();
let mine: TestProject;
let ann: User;
let ben: User;

const at = (path: string, project = mine) => `/projects/${project.slug}${path}`;
const run = async (query: string) => {
  const { status, body } = await rowhouse.call('POST', at('/query'), { key: mine.key, body: { query } });
  expect(status, JSON.stringify(body)).toBe(200);
  return body.rows;
};
const actAs = (id: string, { key = mine.key, body = {} as unknown } = {}) =>
  rowhouse.call('POST', at(`/auth/users/${id}/act-as`), { key, body });
const tokenFor = async (id: string, key = mine.key): Promise<string> => {
  const { status, body } = await actAs(id, { key });
  expect(status, JSON.stringify(body)).toBe(201);
  return body.token;
};
const as = (token: string, key = mine.key) => ({ key, headers: { authorization: `Bearer ${token}` } });
const queryAs = (token: string, query: string, key = mine.key, more: object = {}) =>
  rowhouse.call('POST', at('/query'), { ...as(token, key), body: { query, ...more } });
const code = (answer: { status: number; body: { error?: { code: string } } }) => [
  answer.status,
  answer.body.error?.code,
];
const issue = async (scopes: string[]) => {
  const { body } = await rowhouse.call('POST', at('/keys'), { body: { name: scopes.join(), scopes } });
  return { key: body.api_key as string, id: body.key.id as string };
};

beforeAll(async () => {
  mine = await rowhouse.project('Acting');
  ann = await newUser(rowhouse, mine, 'ann@example.com');
  ben = await newUser(rowhouse, mine, 'ben@example.com');
  await run('create table notes (id int primary key, owner uuid default auth.uid(), t text)');
  await run('alter table notes enable row level security');
  await run('create policy own on notes to authenticated using (owner = auth.uid())');
  await run("create policy shown on notes for select to anon using (t = 'shown')");
  await run('grant select on notes to anon');
  await run(
    `insert into notes values (1, '${ann.id}', 'a'), (2, '${ben.id}', 'b'), (3, '${ben.id}', 'shown')`,
  );
});

describe('acting as a user', () => {
  it('sees and changes what row security lets this user see and change, by SQL and without', async () => {
    const answer = await actAs(ann.id);
    expect(answer.status).toBe(201);
    expect(Compile(ActAsResponse).Check(answer.body)).toBe(true);
    const left = Date.parse(answer.body.expires_at) - Date.now();
    expect(left).toBeGreaterThan(890_000 - 60_000);
    expect(left).toBeLessThanOrEqual(900_000 + 60_000);
    const { token } = answer.body;
    expect((await queryAs(token, 'select id from notes')).body.rows).toEqual([{ id: 1 }]);
    const [who] = (
      await queryAs(
        token,
        "select auth.uid() as id, auth.role() as role, auth.email() as email, auth.jwt() -> 'act' ->> 'sub' as by, current_user as name",
      )
    ).body.rows;
    expect(who).toEqual({
      id: ann.id,
      role: 'authenticated',
      email: 'ann@example.com',
      name: 'authenticated',
      by: expect.stringMatching(/^key_/),
    });
    const rows = await rowhouse.call('GET', at('/tables/notes?select=id'), as(token));
    expect(rows.body.rows).toEqual([{ id: 1 }]);
    const inserted = await rowhouse.call('POST', at('/tables/notes'), {
      ...as(token),
      body: { id: 10, t: 'new' },
    });
    expect(inserted.body.row.owner).toBe(ann.id);
    const batch = await rowhouse.call('POST', at('/batch'), {
      ...as(token),
      body: {
        statements: [
          { query: "update notes set t = 'x'", expect_affected: 2 },
          { query: 'delete from notes where id = 10', expect_affected: 1 },
        ],
      },
    });
    expect(batch.status, JSON.stringify(batch.body)).toBe(200);
    expect(await run('select id, t from notes order by id')).toEqual([
      { id: 1, t: 'x' },
      { id: 2, t: 'b' },
      { id: 3, t: 'shown' },
    ]);
    const csv = await rowhouse.call('GET', at('/tables/notes?select=id'), {
      key: mine.key,
      headers: { authorization: `Bearer ${token}`, accept: 'text/csv' },
    });
    expect(csv.body).toBe('id\n1\n');
  });

  it('as anonymous sees what the role anon may', async () => {
    const token = await tokenFor('anon');
    expect((await queryAs(token, 'select id, current_user as me from notes')).body.rows).toEqual([
      { id: 3, me: 'anon' },
    ]);
    expect(code(await queryAs(token, 'delete from notes'))).toEqual([403, 'sql_error']);
    const rows = await rowhouse.call('GET', at('/tables/notes?select=id'), as(token));
    expect(rows.body.rows).toEqual([{ id: 3 }]);
  });

  it('has no more rights than the user, and leaves nothing behind for the next request', async () => {
    const token = await tokenFor(ann.id);
    for (const query of ['create table own (id int)', 'drop table notes', 'select * from auth.passwords'])
      expect((await queryAs(token, query)).status).toBe(403);
    // The session's own role can do nothing at all, so leaving the user's role gains nothing.
    const leaving =
      "do $$ begin perform set_config('role', 'none', false); perform * from public.notes; end $$";
    expect((await queryAs(token, leaving)).status).toBe(403);
    expect((await queryAs(token, "select set_config('request.jwt.claims', '{}', false)")).status).toBe(200);
    expect((await queryAs(token, 'do $$ begin commit; end $$')).status).toBe(400);
    const bens = await tokenFor(ben.id);
    expect((await queryAs(bens, 'select id from notes order by id')).body.rows).toEqual([
      { id: 2 },
      { id: 3 },
    ]);
    expect((await queryAs(token, 'select id from notes')).body.rows).toEqual([{ id: 1 }]);
    expect(await run('select current_user = session_user as same, auth.uid() as id')).toEqual([
      { same: true, id: null },
    ]);
  });

  it('honours dry_run, read_only and max_affected', async () => {
    const token = await tokenFor(ben.id);
    expect((await queryAs(token, 'delete from notes', mine.key, { dry_run: true })).body.affected).toBe(2);
    expect(code(await queryAs(token, 'delete from notes', mine.key, { max_affected: 1 }))).toEqual([
      409,
      'conflict',
    ]);
    expect((await queryAs(token, 'delete from notes', mine.key, { read_only: true })).status).toBe(400);
    expect(await run('select count(*)::int as n from notes')).toEqual([{ n: 3 }]);
  });
});

describe('a token', () => {
  it('is never good for the endpoints of users', async () => {
    const token = await tokenFor(ann.id);
    const before = await inside<{ n: string }>(mine, sql`select count(*) as n from auth.sessions`);
    for (const [method, path, body] of [
      ['GET', '/auth/user', undefined],
      ['PATCH', '/auth/user', { password: 'another password', current_password: 'x' }],
      ['PATCH', '/auth/user', { data: { a: 1 } }],
      ['DELETE', '/auth/user', undefined],
      ['POST', '/auth/signout', { scope: 'all' }],
      ['POST', '/auth/signout', { scope: 'others' }],
    ] as const) {
      const answer = await rowhouse.call(method, at(path), { ...as(token), ...(body && { body }) });
      expect([path, ...code(answer)]).toEqual([path, 401, 'invalid_token']);
    }
    expect(
      (await rowhouse.call('POST', at('/auth/refresh'), { key: mine.key, body: { refresh_token: token } }))
        .status,
    ).toBe(401);
    for (const path of ['/schema', '/keys', '/auth/users', '/usage', '/auth/act-as'])
      expect([path, (await rowhouse.call('GET', at(path), as(token))).status]).toEqual([path, 400]);
    expect(await inside(mine, sql`select count(*) as n from auth.sessions`)).toEqual(before);
  });

  it('is good only with its key, in its project, and by itself is nothing', async () => {
    const token = await tokenFor(ann.id);
    const other = await rowhouse.project('Other');
    expect(code(await queryAs(token, 'select 1', rowhouse.accountKey))).toEqual([401, 'invalid_token']);
    const elsewhere = await rowhouse.call('POST', at('/query', other), {
      ...as(token, other.key),
      body: { query: 'select 1' },
    });
    expect(code(elsewhere)).toEqual([401, 'invalid_token']);
    const accounts = await tokenFor(ann.id, rowhouse.accountKey);
    expect((await queryAs(accounts, 'select 1', rowhouse.accountKey)).status).toBe(200);
    const there = await rowhouse.call('POST', at('/query', other), {
      ...as(accounts, rowhouse.accountKey),
      body: { query: 'select 1' },
    });
    expect(code(there)).toEqual([401, 'invalid_token']);
    const alone = await rowhouse.call('POST', at('/query'), {
      key: '',
      headers: { authorization: `Bearer ${token}` },
      body: { query: 'select 1' },
    });
    expect(alone.status).toBe(401);
    // A user's own token still does not run SQL.
    expect(code(await queryAs(ann.token, 'select 1'))).toEqual([400, 'invalid_request']);
    for (const wrong of ['rh_act_', `${token}x`, `rh_act_${'A'.repeat(43)}`])
      expect([400, 401]).toContain((await queryAs(wrong, 'select 1')).status);
  });

  it('is given only to keys that may manage, and gives them no scope that they lack', async () => {
    const reader = await issue(['query', 'tables:read', 'auth']);
    expect((await actAs(ann.id, { key: reader.key })).status).toBe(403);
    const manager = await issue(['manage', 'query:read']);
    const token = await tokenFor(ben.id, manager.key);
    expect((await queryAs(token, 'select id from notes order by id', manager.key)).body.row_count).toBe(2);
    expect((await queryAs(token, 'delete from notes', manager.key)).status).toBe(400);
    expect((await rowhouse.call('GET', at('/tables/notes'), as(token, manager.key))).status).toBe(403);
    const publishable = await rowhouse.call('POST', at('/keys'), {
      body: { name: 'b', kind: 'publishable' },
    });
    expect((await actAs(ann.id, { key: publishable.body.api_key })).status).toBe(403);
    const borrowed = await rowhouse.call('GET', at('/tables/notes'), as(token, publishable.body.api_key));
    expect(code(borrowed)).toEqual([401, 'invalid_token']);
  });

  it('ends with its user, its key, its time, or by hand, in every process', async () => {
    const second = await openSecondProcess(rowhouse);
    try {
      const carl = await newUser(rowhouse, mine, 'carl@example.com');
      const dora = await newUser(rowhouse, mine, 'dora@example.com');
      const there = (token: string, key = mine.key) =>
        second.call('POST', at('/query'), { ...as(token, key), body: { query: 'select 1 as n' } });
      const manager = await issue(['manage', 'query']);
      const [banned, deleted, revoked, ended] = [
        await tokenFor(carl.id),
        await tokenFor(dora.id),
        await tokenFor(ann.id, manager.key),
        await actAs('anon'),
      ];
      for (const token of [banned, deleted, ended.body.token]) expect((await there(token)).status).toBe(200);
      expect((await there(revoked, manager.key)).status).toBe(200);
      await rowhouse.call('PATCH', at(`/auth/users/${carl.id}`), { key: mine.key, body: { banned: true } });
      expect(code(await there(banned))).toEqual([401, 'invalid_token']);
      expect(code(await actAs(carl.id))).toEqual([403, 'forbidden']);
      await run(`delete from auth.users where id = '${dora.id}'`);
      expect(code(await there(deleted))).toEqual([401, 'invalid_token']);
      expect(code(await actAs(dora.id))).toEqual([404, 'user_not_found']);
      await rowhouse.call('DELETE', at(`/keys/${manager.id}`));
      await until('the key is revoked there', async () => (await there(revoked, manager.key)).status === 401);
      const by = (id: string) => rowhouse.call('DELETE', at(`/auth/act-as/${id}`), { key: mine.key });
      expect((await by(ended.body.acting.id)).body).toEqual({ ok: true });
      expect(code(await there(ended.body.token))).toEqual([401, 'invalid_token']);
      expect((await by('nothing')).status).toBe(404);
      const short = (await actAs(ann.id, { body: { expires_in: 1 } })).body.token as string;
      await until('it expires', async () => (await there(short)).status === 401);
    } finally {
      await second.stop();
    }
    for (const wrong of [{ expires_in: 901 }, { expires_in: 0 }, { expires_in: '60' }, { other: 1 }])
      expect((await actAs(ann.id, { body: wrong })).status).toBe(400);
  });

  it('is recorded: by which key, as whom, since when', async () => {
    const erna = await newUser(rowhouse, mine, 'erna@example.com');
    const token = await tokenFor(erna.id);
    await queryAs(token, 'select 1');
    const { body } = await rowhouse.call('GET', at('/auth/act-as?limit=2'), { key: mine.key });
    expect(Compile(ActingResponse).Check(body)).toBe(true);
    expect(body).toMatchObject({ limit: 2, page: 1, has_more: true });
    expect(body.acting[0]).toMatchObject({
      user: { id: erna.id, email: 'erna@example.com' },
      key: { name: expect.any(String) },
      used_at: expect.any(String),
      ended_at: null,
    });
    expect(JSON.stringify(body)).not.toContain('rh_act_');
    const reader = await issue(['query']);
    expect((await rowhouse.call('GET', at('/auth/act-as'), { key: reader.key })).status).toBe(403);
    expect(rowhouse.log.join('\n')).not.toContain(token);
  });

  it('is limited in number', async () => {
    const other = await rowhouse.project('Busy');
    const ask = () =>
      rowhouse.call('POST', at('/auth/users/anon/act-as', other), { key: other.key, body: {} });
    const statuses = new Set<number>();
    for (let n = 0; n < 62; n++) statuses.add((await ask()).status);
    expect([...statuses]).toEqual([201, 429]);
    expect((await actAs('anon')).status).toBe(201);
  });
});

it('a repeat with an Idempotency-Key is not answered for another user, nor after the end', async () => {
  const send = (token: string) =>
    rowhouse.call('POST', at('/query'), {
      key: mine.key,
      headers: { authorization: `Bearer ${token}`, 'idempotency-key': 'acting-1' },
      body: { query: 'select auth.uid() as id' },
    });
  const issued = (await actAs(ann.id)).body;
  const [anns, bens, anon] = [issued.token as string, await tokenFor(ben.id), await tokenFor('anon')];
  expect((await send(anns)).body.rows).toEqual([{ id: ann.id }]);
  expect((await send(anns)).headers['idempotency-replayed']).toBe('true');
  expect((await send(bens)).body.rows).toEqual([{ id: ben.id }]);
  expect((await send(anon)).body.rows).toEqual([{ id: null }]);
  await inside(mine, sql`delete from auth.sessions where id = ${issued.acting.id}`);
  expect(code(await send(anns))).toEqual([401, 'invalid_token']);
});

it('works in the console with its session, where a token of a user does not run SQL either', async () => {
  const page = await openPage(rowhouse, mine.key);
  const { body } = await page.call('POST', at(`/auth/users/${ann.id}/act-as`), { body: {} });
  const runs = (token: string) =>
    page.call('POST', at('/query'), {
      headers: { authorization: `Bearer ${token}` },
      body: { query: 'select auth.uid() as id' },
    });
  expect((await runs(body.token)).body.rows).toEqual([{ id: ann.id }]);
  expect(outcome(await runs(ann.token))).toEqual([400, 'invalid_request']);
  const csv = await page.call('GET', at('/tables/notes?select=id'), {
    headers: { authorization: `Bearer ${body.token}`, accept: 'text/csv' },
  });
  expect(csv.text).toBe('id\n1\n');
  expect(
    (await page.call('GET', at('/auth/user'), { headers: { authorization: `Bearer ${body.token}` } })).status,
  ).toBe(401);
});

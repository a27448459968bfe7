import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, it } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import {
  inside,
  type LoginAs,
  newUser,
  seatOf,
  type TestProject,
  tokenFor,
  type User,
} from '../support/end-users.ts';
import { api, asAdmin, openSecondProcess, until, useTestService } from '../support/helpers.ts';

const rowhouse = useTestService({ spares: 4, connections: { budget: 20, share: 2 } });
let project: TestProject;
let loginAs: LoginAs;
let ann: User;
let ben: User;
let neighbour: { project: TestProject; loginAs: LoginAs; user: User };
let url = '';

const ownTodos = `create policy "own todos" on todos for all to authenticated
  using ((select auth.uid()) = user_id) with check ((select auth.uid()) = user_id)`;
const todos = `create table todos (
  id bigint generated always as identity primary key,
  user_id uuid not null default auth.uid() references auth.users on delete cascade,
  title text not null unique, done boolean not null default false)`;

/** Who the session thinks it works for. */
const whoami = `create view whoami with (security_invoker = true) as
  select auth.uid() as uid, auth.role() as role, auth.email() as email, current_user::text as "user",
    session_user::text as login, current_setting('app.left', true) as remains`;

beforeAll(async () => {
  project = await rowhouse.project('Todos');
  loginAs = await seatOf(rowhouse, project);
  ann = await newUser(rowhouse, project, 'ann@example.com');
  ben = await newUser(rowhouse, project, 'ben@example.com');
  const other = await rowhouse.project('Neighbour');
  const otherSeat = await seatOf(rowhouse, other);
  neighbour = { project: other, loginAs: otherSeat, user: await newUser(rowhouse, other) };
  for (const { query } of [loginAs, otherSeat])
    for (const text of [todos, 'alter table todos enable row level security', ownTodos]) await query(text);
  await loginAs.query(whoami);
  await otherSeat.rows(neighbour.user, 'POST', 'todos', { body: { title: 'next door' } });
  url = await rowhouse.app.listen({ host: '127.0.0.1', port: 0 });
});

/** Statements of the project, one after the other. */
async function setUp(...statements: string[]): Promise<void> {
  for (const statement of statements) await loginAs.query(statement);
}

const titles = ({ body }: { body: { rows: { title: string }[] } }) => body.rows.map(({ title }) => title);
const refused = ({ status, body }: { status: number; body: { error?: { code: string } } }) => [
  status,
  body.error?.code,
];

describe('rows of an acting user', () => {
  beforeAll(async () => {
    await loginAs.rows(ann, 'POST', 'todos', { body: { title: 'tea' } });
    await loginAs.rows(ben, 'POST', 'todos', { body: [{ title: 'rye' }, { title: 'rice', done: true }] });
  });

  it('belong to that user', async () => {
    const made = await loginAs.rows(ann, 'POST', 'todos', { body: { title: 'coffee' } });
    expect([made.status, made.body.row]).toMatchObject([201, { user_id: ann.id, title: 'coffee' }]);
    expect(titles(await loginAs.rows(ann, 'GET', 'todos?select=title'))).toEqual(['tea', 'coffee']);
    expect((await loginAs.rows(ben, 'GET', 'todos?select=title&count=exact')).body).toMatchObject({
      rows: [{ title: 'rye' }, { title: 'rice' }],
      count: { rows: 2, kind: 'exact' },
    });
  });

  it('are the same with any key of the project; a secret key without a token gets all rows', async () => {
    for (const key of [project.key, rowhouse.accountKey])
      expect(titles(await loginAs.rows(ann, 'GET', 'todos?select=title', { key }))).toEqual([
        'tea',
        'coffee',
      ]);
    const { body } = await rowhouse.call('GET', `/projects/${project.slug}/tables/todos`, {
      key: project.key,
    });
    expect(body.row_count).toBe(4);
  });

  it('exclude those of others from changes and deletions', async () => {
    const changed = await loginAs.rows(ann, 'PATCH', 'todos?title=in.(tea,rye)', { body: { done: true } });
    expect(changed.body).toMatchObject({ rows: [{ title: 'tea', done: true }], row_count: 1 });
    const gone = await loginAs.rows(ann, 'DELETE', 'todos?title=in.(coffee,rye)&returning=minimal');
    expect(gone.body).toEqual({ ok: true, row_count: 1 });
    expect(titles(await loginAs.rows(ben, 'GET', 'todos?select=title'))).toEqual(['rye', 'rice']);
  });

  it('cannot be given to another user or taken from one', async () => {
    const given = await loginAs.rows(ann, 'PATCH', 'todos?title=eq.tea', { body: { user_id: ben.id } });
    expect(refused(given)).toEqual([403, 'sql_error']);
    expect(given.body.error.sql.state).toBe('42501');
    expect(given.body.error.hint).toContain('on "public"."todos" for update to authenticated with check');
    const taken = await loginAs.rows(ann, 'POST', 'todos', { body: { title: 'x', user_id: ben.id } });
    expect(refused(taken)).toEqual([403, 'sql_error']);
    expect(taken.body.error.hint).toContain('for insert to authenticated with check');
    expect(titles(await loginAs.rows(ann, 'GET', 'todos?select=title'))).toEqual(['tea']);
  });

  it('are merged only with rows of the same user', async () => {
    const upsert = 'todos?on_conflict=title&resolution=merge';
    const own = await loginAs.rows(ann, 'POST', upsert, { body: { title: 'tea', done: false } });
    expect(own.body.row).toMatchObject({ title: 'tea', done: false });
    expect(refused(await loginAs.rows(ann, 'POST', upsert, { body: { title: 'rye', done: true } }))).toEqual([
      403,
      'sql_error',
    ]);
    const ignored = await loginAs.rows(ann, 'POST', 'todos?on_conflict=title&resolution=ignore', {
      body: [{ title: 'tea' }, { title: 'rye' }],
    });
    expect([ignored.status, ignored.body.row_count]).toEqual([200, 0]);
    expect((await loginAs.rows(ben, 'GET', 'todos?title=eq.rye')).body.rows[0].done).toBe(false);
  });

  it('are inserted all or none, in one transaction', async () => {
    const body = [{ title: 'one' }, { title: 'two', done: true }, { title: 'three' }];
    expect((await loginAs.rows(ann, 'POST', 'todos', { body })).body.row_count).toBe(3);
    const broken = await loginAs.rows(ann, 'POST', 'todos', {
      body: [{ title: 'four' }, { title: 'five', user_id: ben.id }, { title: 'six' }],
    });
    expect(refused(broken)).toEqual([403, 'sql_error']);
    expect(titles(await loginAs.rows(ann, 'GET', 'todos?select=title&order=id'))).toEqual([
      ...['tea', 'one', 'two', 'three'],
    ]);
  });

  it('are counted for max_affected as the user sees them', async () => {
    const path = 'todos?id=not.is.null&max_affected=';
    expect(refused(await loginAs.rows(ann, 'DELETE', `${path}2`))).toEqual([409, 'conflict']);
    expect((await loginAs.rows(ben, 'PATCH', `${path}2`, { body: { done: true } })).body.row_count).toBe(2);
    expect((await loginAs.rows(ann, 'GET', 'todos')).body.row_count).toBe(4);
  });

  it('come in pages and by cursor', async () => {
    const first = await loginAs.rows(ann, 'GET', 'todos?select=title&limit=3');
    expect(first.body).toMatchObject({ row_count: 3, has_more: true });
    const cursor = first.body.next_cursor as string;
    expect(titles(await loginAs.rows(ann, 'GET', `todos?select=title&cursor=${cursor}`))).toEqual(['three']);
    expect(titles(await loginAs.rows(ann, 'GET', 'todos?select=title&limit=3&page=2'))).toEqual(['three']);
    // A cursor is a place in an order, and shows nobody the rows of somebody else.
    expect(titles(await loginAs.rows(ben, 'GET', `todos?select=title&cursor=${cursor}`))).toEqual([]);
  });

  it('need no SELECT policy when they are not returned', async () => {
    await setUp(
      'create table letters (id serial primary key, user_id uuid default auth.uid(), body text)',
      'alter table letters enable row level security',
      'create policy send on letters for insert to authenticated with check (user_id = auth.uid())',
    );
    const shown = await loginAs.rows(ann, 'POST', 'letters', { body: { body: 'dear' } });
    expect(refused(shown)).toEqual([403, 'sql_error']);
    expect(shown.body.error.hint).toContain('returning=minimal');
    const sent = await loginAs.rows(ann, 'POST', 'letters?returning=minimal', { body: { body: 'dear' } });
    expect([sent.status, sent.body.row_count]).toEqual([201, 1]);
    expect((await loginAs.rows(ann, 'GET', 'letters')).body.rows).toEqual([]);
  });

  it('embed rows of other tables as the user sees them', async () => {
    await setUp(
      `create table items (id bigint generated by default as identity primary key,
        todo_id bigint references todos on delete cascade, user_id uuid default auth.uid(), name text)`,
      'create table tags (id serial primary key, name text)',
      'create table item_tags (item_id bigint references items on delete cascade, tag_id int references tags, primary key (item_id, tag_id))',
      ...['items', 'tags', 'item_tags'].map((name) => `alter table ${name} enable row level security`),
      'create policy own on items to authenticated using (user_id = (select auth.uid()))',
      "create policy seen on tags for select to authenticated using (name <> 'secret')",
      'create policy own on item_tags to authenticated using (item_id in (select id from items))',
      "insert into tags (name) values ('green'), ('secret')",
    );
    const [todo] = (await loginAs.rows(ann, 'GET', 'todos?title=eq.tea')).body.rows;
    for (const user of [ann, ben])
      await loginAs.rows(user, 'POST', 'items', { body: { todo_id: todo.id, name: user.email } });
    const [item] = (await loginAs.rows(ann, 'GET', 'items')).body.rows;
    const linked = await loginAs.rows(ann, 'POST', 'item_tags', {
      body: [1, 2].map((tag_id) => ({ item_id: item.id, tag_id })),
    });
    expect(linked.status).toBe(201);
    const { body } = await loginAs.rows(
      ann,
      'GET',
      'todos?select=title,items(name,tags(name))&title=eq.tea&items.tags.order=id',
    );
    expect(body.rows).toEqual([
      { title: 'tea', items: [{ name: 'ann@example.com', tags: [{ name: 'green' }] }] },
    ]);
  });
});

describe('results for an acting user', () => {
  it("can have values of the project's own types", async () => {
    await setUp(
      "create type mood as enum ('sad', 'happy')",
      'create type place as (street text, number int)',
      'create domain short as text check (length(value) < 10)',
      `create table visits (id serial primary key, mood mood, place place, name short, moods mood[],
        at timestamptz default '2026-01-01', user_id uuid default auth.uid())`,
      'alter table visits enable row level security',
      'create policy own on visits using (user_id = auth.uid())',
    );
    const row = { mood: 'happy', place: { street: 'A', number: 1 }, name: 'x', moods: ['sad'] };
    const made = await loginAs.rows(ann, 'POST', 'visits', { body: row });
    expect(made.body.row).toMatchObject({ ...row, at: '2026-01-01T00:00:00Z' });
    expect((await loginAs.rows(ann, 'GET', 'visits?mood=eq.happy')).body.rows).toMatchObject([row]);
    expect((await loginAs.rows(ben, 'GET', 'visits')).body.rows).toEqual([]);
    const bad = await loginAs.rows(ann, 'POST', 'visits', { body: { ...row, mood: 'so so' } });
    expect(refused(bad)).toEqual([422, 'constraint_violation']);
  });

  it('are streamed when large, and break off when a policy fails in the middle', async () => {
    await setUp(
      // Without statistics, PostgreSQL reads the rows by the index. With them it may sort first, and fail before a row is sent.
      'create table pieces (id int primary key, body text) with (autovacuum_enabled = false)',
      'alter table pieces enable row level security',
      `create function refuse_last(id int) returns boolean language plpgsql as
        $$ begin if id = 9999 and auth.email() like 'ben%' then raise exception 'last'; end if; return true; end $$`,
      'create policy almost_all on pieces using (refuse_last(id))',
      "insert into pieces select n, repeat('x', 500) from generate_series(1, 9999) as n",
    );
    const { body } = await loginAs.rows(ann, 'GET', 'pieces?limit=10000');
    expect([body.row_count, body.rows.at(-1).id]).toEqual([9999, 9999]);
    const path = `${url}${api}/projects/${project.slug}/tables/pieces?limit=10000`;
    const headers = { 'x-api-key': loginAs.publishable, authorization: `Bearer ${ben.token}` };
    await expect(fetch(path, { headers }).then((response) => response.text())).rejects.toThrow();
    expect((await loginAs.rows(ben, 'GET', 'pieces?limit=1')).body.row_count).toBe(1);
  });

  it('come at the first request, even when many arrive at once', async () => {
    const other = await openSecondProcess(rowhouse);
    try {
      for (let round = 0; round < 3; round++) {
        const fresh = await rowhouse.project('Fresh');
        const freshSeat = await seatOf(rowhouse, fresh);
        for (const text of [todos, 'alter table todos enable row level security', ownTodos])
          await freshSeat.query(text);
        const user = await newUser(rowhouse, fresh);
        const answers = await Promise.all(
          Array.from({ length: 12 }, (_, n) =>
            (n % 2 ? rowhouse : other).call('GET', `/projects/${fresh.slug}/tables/todos`, {
              key: freshSeat.publishable,
              headers: { authorization: `Bearer ${user.token}` },
            }),
          ),
        );
        for (const { status, body } of answers) expect(status, JSON.stringify(body)).toBe(200);
      }
    } finally {
      await other.stop();
    }
  });

  it("come although the user's login role was left half-made", async () => {
    const fresh = await rowhouse.project('Half made');
    const freshSeat = await seatOf(rowhouse, fresh);
    for (const text of [todos, 'alter table todos enable row level security', ownTodos])
      await freshSeat.query(text);
    const user = await newUser(rowhouse, fresh);
    const role = sql.id(`p_${fresh.id}_user`);
    const halves = [
      sql`revoke connect on database ${sql.id(`p_${fresh.id}`)} from ${role}`,
      sql`alter role ${role} password 'other'`,
    ];
    for (const half of [null, ...halves]) {
      if (half) await asAdmin((admin) => admin.query(half));
      await asAdmin((admin) =>
        admin.query(
          sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = ${`p_${fresh.id}`}`,
        ),
      );
      await until('it is let in', async () => (await freshSeat.rows(user, 'GET', 'todos')).status === 200);
    }
  });
});

describe('policies in the form that Supabase documents', () => {
  it('one for each verb', async () => {
    await setUp(
      'create table public.notes (id uuid primary key default gen_random_uuid(), user_id uuid references auth.users default auth.uid(), body text)',
      'alter table notes enable row level security',
      `create policy "Users can create a note." on notes for insert to authenticated with check ( (select auth.uid()) = user_id )`,
      'create policy "Users can view their own notes." on notes for select using ( (select auth.uid()) = user_id )',
      `create policy "Users can update own notes." on notes for update to authenticated
        using ( (select auth.uid()) = user_id ) with check ( (select auth.uid()) = user_id )`,
      'create policy "Users can delete a note." on notes for delete to authenticated using ( (select auth.uid()) = user_id )',
    );
    for (const user of [ann, ben]) {
      const { body } = await loginAs.rows(user, 'POST', 'notes', { body: { body: user.email } });
      expect(body.row).toMatchObject({ user_id: user.id, body: user.email });
    }
    expect(
      (await loginAs.rows(ann, 'PATCH', 'notes?id=not.is.null', { body: { body: 'x' } })).body.row_count,
    ).toBe(1);
    expect((await loginAs.rows(ann, 'DELETE', 'notes?id=not.is.null')).body.row_count).toBe(1);
    expect((await loginAs.rows(ben, 'GET', 'notes?select=body')).body.rows).toEqual([{ body: ben.email }]);
  });

  it('for anon, service_role and restrictive ones', async () => {
    await setUp(
      'create table profiles (id uuid primary key references auth.users on delete cascade default auth.uid(), name text)',
      'alter table profiles enable row level security',
      'create policy "Profiles are viewable by everyone" on profiles for select to anon, authenticated using ( true )',
      'create policy "Insert own" on profiles for insert to authenticated with check ( (select auth.uid()) = id )',
      'create policy "Server only" on profiles for update to service_role using ( true )',
      `create policy "Not the banned word" on profiles as restrictive for all to authenticated using ( name <> 'root' )`,
    );
    for (const user of [ann, ben])
      expect((await loginAs.rows(user, 'POST', 'profiles', { body: { name: user.email } })).status).toBe(201);
    expect((await loginAs.rows(ann, 'GET', 'profiles')).body.row_count).toBe(2);
    const none = await loginAs.rows(ann, 'PATCH', 'profiles?id=not.is.null', { body: { name: 'x' } });
    expect(none.body.row_count).toBe(0);
    await setUp(`update profiles set name = 'root' where id = '${ben.id}'`);
    expect((await loginAs.rows(ann, 'GET', 'profiles?select=name')).body.rows).toEqual([{ name: ann.email }]);
  });

  it('by e-mail, role and claims that are not there', async () => {
    await setUp(
      'create table mail (id serial primary key, recipient text, kind text)',
      'alter table mail enable row level security',
      `create policy mine on mail for select to authenticated using ( kind = 'mine' and recipient = (select auth.jwt() ->> 'email') )`,
      `create policy same on mail for select to authenticated using ( kind = 'same' and recipient = auth.email() )`,
      `create policy everybody on mail for select using ( kind = 'signed in' and auth.role() = 'authenticated' )`,
      `create policy admins on mail for select to authenticated
        using ( kind = 'admin' and (select (auth.jwt() -> 'app_metadata' ->> 'is_admin')::boolean) )`,
      `create policy mfa on mail for select to authenticated using ( kind = 'mfa' and (select auth.jwt() ->> 'aal') = 'aal2' )`,
      `insert into mail (recipient, kind) values ('${ann.email}', 'mine'), ('${ben.email}', 'mine'), ('${ann.email}', 'same'),
        (null, 'signed in'), (null, 'admin'), (null, 'mfa')`,
    );
    const { body } = await loginAs.rows(ann, 'GET', 'mail?select=recipient,kind');
    expect(body.rows).toEqual([
      { recipient: ann.email, kind: 'mine' },
      { recipient: ann.email, kind: 'same' },
      { recipient: null, kind: 'signed in' },
    ]);
  });

  it('by membership in a team, by subquery and by a security definer function', async () => {
    await setUp(
      'create table teams (id serial primary key, name text)',
      'create table members (team_id bigint references teams, user_id uuid references auth.users, primary key (team_id, user_id))',
      'alter table teams enable row level security',
      'alter table members enable row level security',
      'create schema private',
      `create function private.teams_of_user() returns setof bigint language sql security definer set search_path = '' stable
        as $$ select team_id from public.members where user_id = (select auth.uid()) $$`,
      'create policy "Own membership" on members for select to authenticated using ( (select auth.uid()) = user_id )',
      'create policy "Colleagues" on members for select to authenticated using ( team_id in (select private.teams_of_user()) )',
      `create policy "Team members can see and change their team." on teams to authenticated
        using ( (select auth.uid()) in ( select user_id from members where team_id = id ) )`,
      `insert into teams (name) values ('red'), ('blue')`,
      `insert into members values (1, '${ann.id}'), (1, '${ben.id}'), (2, '${ben.id}')`,
    );
    const { body } = await loginAs.rows(
      ann,
      'GET',
      'teams?select=name,members(user_id)&members.order=user_id',
    );
    expect(body.rows).toEqual([
      { name: 'red', members: [ann.id, ben.id].sort().map((user_id) => ({ user_id })) },
    ]);
    const renamed = await loginAs.rows(ann, 'PATCH', 'teams?id=not.is.null', { body: { name: 'rosé' } });
    expect(renamed.body.rows).toEqual([{ id: 1, name: 'rosé' }]);
    expect((await loginAs.rows(ben, 'GET', 'teams')).body.row_count).toBe(2);
  });

  it('role and e-mail are what they are now, not what the token says', async () => {
    const cleo = await newUser(rowhouse, project, 'cleo@example.com');
    await inside(
      project,
      sql`update auth.users set role = 'editor', email = 'c@example.com' where id = ${cleo.id}`,
    );
    const { body } = await loginAs.rows(cleo, 'GET', 'whoami?select=uid,role,email,user');
    expect(body.rows).toEqual([
      { uid: cleo.id, role: 'editor', email: 'c@example.com', user: 'authenticated' },
    ]);
  });

  it("a user's rows go with the user", async () => {
    const dora = await newUser(rowhouse, project, 'dora@example.com');
    await loginAs.rows(dora, 'POST', 'todos', { body: { title: 'pack' } });
    await setUp(`delete from auth.users where id = '${dora.id}'`);
    const { body } = await rowhouse.call('GET', `/projects/${project.slug}/tables/todos?title=eq.pack`, {
      key: project.key,
    });
    expect(body.rows).toEqual([]);
    expect(refused(await loginAs.rows(dora, 'GET', 'todos'))).toEqual([401, 'invalid_token']);
  });
});

describe('keys', () => {
  it('a publishable key alone reaches no rows', async () => {
    for (const [method, path, body] of [
      ['GET', 'todos', undefined],
      ['POST', 'todos', { title: 'x' }],
      ['PATCH', 'todos?id=eq.1', { title: 'x' }],
      ['DELETE', 'todos?id=eq.1', undefined],
    ] as const) {
      const answer = await rowhouse.call(method, `/projects/${project.slug}/tables/${path}`, {
        key: loginAs.publishable,
        ...(body && { body }),
      });
      expect(refused(answer)).toEqual([403, 'forbidden']);
      expect(answer.body.error.hint).toContain('Authorization: Bearer <ACCESS_TOKEN>');
    }
  });

  it('a token is for rows alone', async () => {
    const call = (method: string, path: string, body?: object) =>
      rowhouse.call(method, `/projects/${project.slug}${path}`, {
        key: project.key,
        headers: { authorization: `Bearer ${ann.token}` },
        ...(body && { body }),
      });
    for (const answer of [
      await call('GET', '/tables'),
      await call('GET', '/schema'),
      await call('GET', ''),
      await call('GET', '/keys'),
      await call('POST', '/query', { query: 'select 1' }),
      await call('POST', '/batch', { statements: [{ query: 'select 1' }] }),
    ]) {
      expect(refused(answer)).toEqual([400, 'invalid_request']);
      expect(answer.body.error.message).toContain("does not accept a user's access token");
    }
    for (const path of ['/tables', '/schema']) {
      const answer = await rowhouse.call('GET', `/projects/${project.slug}${path}`, {
        key: loginAs.publishable,
      });
      expect(refused(answer)).toEqual([403, 'forbidden']);
    }
  });

  it('scopes and the list of tables hold as without a token', async () => {
    const issue = async (body: object) => {
      const issued = await rowhouse.call('POST', `/projects/${project.slug}/keys`, {
        body: { name: 'k', ...body },
      });
      return issued.body.api_key as string;
    };
    const reader = await issue({ scopes: ['tables:read'], tables: ['todos'] });
    expect((await loginAs.rows(ann, 'GET', 'todos', { key: reader })).status).toBe(200);
    expect(refused(await loginAs.rows(ann, 'GET', 'whoami', { key: reader }))).toEqual([
      404,
      'table_not_found',
    ]);
    expect(refused(await loginAs.rows(ann, 'POST', 'todos', { key: reader, body: { title: 'x' } }))).toEqual([
      403,
      'forbidden',
    ]);
    const writer = await issue({ scopes: ['tables:write'] });
    expect(refused(await loginAs.rows(ann, 'GET', 'todos', { key: writer }))).toEqual([403, 'forbidden']);
    const blind = await loginAs.rows(ann, 'DELETE', 'todos?title=eq.none', { key: writer });
    expect(blind.body.error.hint).toContain('returning=minimal');
    const published = await issue({ kind: 'publishable', tables: ['whoami'] });
    expect((await loginAs.rows(ann, 'GET', 'whoami', { key: published })).status).toBe(200);
    expect(refused(await loginAs.rows(ann, 'GET', 'todos', { key: published }))).toEqual([
      404,
      'table_not_found',
    ]);
    const without = await issue({ scopes: ['query'] });
    expect(refused(await loginAs.rows(ann, 'GET', 'todos', { key: without }))).toEqual([403, 'forbidden']);
  });

  it('imports cannot act as a user', async () => {
    for (const type of ['text/csv', 'application/x-ndjson']) {
      const answer = await loginAs.rows(ann, 'POST', 'todos', {
        raw: type === 'text/csv' ? 'title\nx\n' : '{"title":"x"}\n',
        headers: { 'content-type': type },
      });
      expect(refused(answer)).toEqual([400, 'invalid_request']);
      expect(answer.body.error.hint).toContain('JSON array');
    }
    expect((await loginAs.rows(ann, 'GET', 'todos?title=eq.x')).body.rows).toEqual([]);
  });

  it('browsers may send both headers', async () => {
    const response = await rowhouse.app.inject({
      method: 'OPTIONS',
      url: `${api}/projects/${project.slug}/tables/todos`,
      headers: {
        origin: 'https://app.example.com',
        'access-control-request-method': 'PATCH',
        'access-control-request-headers': 'authorization,x-api-key,content-type',
      },
    });
    expect(response.statusCode).toBe(204);
    expect(String(response.headers['access-control-allow-headers']).toLowerCase()).toContain('authorization');
    expect(response.headers['access-control-allow-methods']).toContain('PATCH');
    const { headers } = await loginAs.rows(ann, 'GET', 'todos', {
      headers: { origin: 'https://app.example.com' },
    });
    expect(headers['access-control-allow-origin']).toBe('*');
  });
});

describe('tokens', () => {
  it('of nobody, of another project, of another key, expired: 401, and all alike', async () => {
    const now = Math.floor(Date.now() / 1000);
    const [header, payload, signature] = ann.token.split('.') as [string, string, string];
    const others = [
      'x',
      'a.b.c',
      `${header}.${payload}.`,
      `${header}.${payload}.${'A'.repeat(43)}`,
      `${Buffer.from('{"alg":"none","typ":"JWT"}').toString('base64url')}.${payload}.`,
      `${header}.${payload.slice(0, -2)}.${signature}`,
      neighbour.user.token,
      await tokenFor(rowhouse, neighbour.project, ann, { iss: `rowhouse-auth:${project.slug}` }),
      await tokenFor(rowhouse, project, ann, { iss: `rowhouse-auth:${neighbour.project.slug}` }),
      await tokenFor(rowhouse, project, ann, { exp: now - 1 }),
      await tokenFor(rowhouse, project, ann, { iat: now + 3600, exp: now + 7200 }),
      await tokenFor(rowhouse, project, { ...ann, sessionId: randomUUID() }),
      // A session of somebody else's.
      await tokenFor(rowhouse, project, { ...ann, sessionId: ben.sessionId }),
    ];
    for (const token of others) {
      for (const [method, options] of [
        ['GET', {}],
        ['POST', { body: { title: 'x' } }],
      ] as const) {
        const answer = await loginAs.rows({ token }, method, 'todos', options);
        expect(refused(answer), token).toEqual([401, 'invalid_token']);
        expect(answer.headers['www-authenticate']).toBeDefined();
      }
    }
  });

  it('are looked at before a body is read', async () => {
    const answer = await loginAs.rows({ token: `${ann.token}x` }, 'POST', 'todos', { raw: '{"title": ' });
    expect(refused(answer)).toEqual([401, 'invalid_token']);
    expect(refused(await loginAs.rows(ann, 'POST', 'todos', { raw: '{"title": ' }))).toEqual([
      400,
      'invalid_json',
    ]);
  });

  it('neither stands for the other: an API key as a token, a token as an API key', async () => {
    const path = `/projects/${project.slug}/tables/todos`;
    const asKey = await rowhouse.call('GET', path, { key: ann.token });
    expect(refused(asKey)).toEqual([401, 'invalid_api_key']);
    const withSession = await rowhouse.call('GET', path, {
      key: '',
      headers: { authorization: `Bearer ${ann.token}` },
    });
    expect(refused(withSession)).toEqual([401, 'invalid_api_key']);
    const twoKeys = await loginAs.rows({ token: project.key }, 'GET', 'todos');
    expect(refused(twoKeys)).toEqual([400, 'invalid_request']);
  });

  it('outlive a rotation of the key by its grace period, on every process', async () => {
    const own = await rowhouse.project('Rotated');
    const ownSeat = await seatOf(rowhouse, own);
    await ownSeat.query(todos);
    await ownSeat.query('alter table todos enable row level security');
    await ownSeat.query(ownTodos);
    const user = await newUser(rowhouse, own);
    const other = await openSecondProcess(rowhouse);
    try {
      const atOther = (token: string) =>
        other.call('GET', `/projects/${own.slug}/tables/todos`, {
          key: ownSeat.publishable,
          headers: { authorization: `Bearer ${token}` },
        });
      expect((await atOther(user.token)).status).toBe(200);
      const rotate = (grace_seconds: number) =>
        rowhouse.call('POST', `/projects/${own.slug}/keys/rotate`, { body: { grace_seconds } });
      expect((await rotate(3600)).status).toBe(200);
      expect((await ownSeat.rows(user, 'GET', 'todos')).status).toBe(200);
      expect((await atOther(user.token)).status).toBe(200);
      const fresh = await until('the new key signs', async () => {
        const token = await tokenFor(rowhouse, own, user);
        return token.split('.')[0] !== user.token.split('.')[0] && token;
      });
      await until('the other process knows it', async () => (await atOther(fresh)).status === 200);
      expect((await rotate(0)).status).toBe(200);
      for (const call of [() => atOther(fresh), () => ownSeat.rows({ token: fresh }, 'GET', 'todos')])
        await until('the key that ended at once signs nothing', async () => (await call()).status === 401);
      expect((await atOther(user.token)).status, 'the first is still in its grace').toBe(200);
    } finally {
      await other.stop();
    }
  });

  it('end with the session, the ban or the user, at the next request on any process', async () => {
    const other = await openSecondProcess(rowhouse);
    try {
      const ends = [
        (user: User) => sql`delete from auth.sessions where id = ${user.sessionId}`,
        (user: User) => sql`update auth.sessions set expires_at = now() where id = ${user.sessionId}`,
        (user: User) => sql`update auth.users set banned_at = now() where id = ${user.id}`,
        (user: User) => sql`delete from auth.users where id = ${user.id}`,
      ];
      for (const end of ends) {
        const user = await newUser(rowhouse, project, 'eve@example.com');
        const call = (from: Pick<typeof rowhouse, 'call'>, method: string, path: string, body?: object) =>
          from.call(method, `/projects/${project.slug}/tables/${path}`, {
            key: loginAs.publishable,
            headers: { authorization: `Bearer ${user.token}` },
            ...(body && { body }),
          });
        for (const from of [rowhouse, other]) expect((await call(from, 'GET', 'todos')).status).toBe(200);
        await inside(project, end(user));
        for (const from of [rowhouse, other]) {
          for (const answer of [
            await call(from, 'GET', 'todos?count=exact'),
            await call(from, 'GET', 'nowhere'),
            await call(from, 'POST', 'todos', { title: 'late' }),
            await call(from, 'POST', 'todos', [{ title: 'late' }, { title: 'later', done: true }] as object),
            await call(from, 'PATCH', 'todos?id=gt.0&max_affected=5', { title: 'late' }),
            await call(from, 'DELETE', 'todos?id=gt.0'),
          ])
            expect(refused(answer)).toEqual([401, 'invalid_token']);
        }
      }
    } finally {
      await other.stop();
    }
  });
});

describe('what a publishable key reaches', () => {
  const own = (name: string) => [
    `create table ${name} (id serial primary key, user_id uuid default auth.uid(), title text)`,
    `insert into ${name} (user_id, title) values ('${ann.id}', 'ann'), ('${ben.id}', 'ben')`,
    `create policy own on ${name} to authenticated using (user_id = (select auth.uid()))`,
  ];
  const secure = (name: string) => `alter table ${name} enable row level security`;

  it('no table without row security, and the hint says how to turn it on', async () => {
    await setUp(
      ...own('"Open ""table"""'),
      'create table plain (id int primary key, owner uuid references auth.users)',
    );
    const path = encodeURIComponent('Open "table"');
    for (const answer of [
      await loginAs.rows(ann, 'GET', path),
      await loginAs.rows(ann, 'POST', path, { body: { title: 'x' } }),
      await loginAs.rows(ann, 'PATCH', `${path}?id=eq.1`, { body: { title: 'x' } }),
      await loginAs.rows(ann, 'DELETE', `${path}?id=eq.1`),
    ])
      expect(refused(answer)).toEqual([403, 'forbidden']);
    const { hint } = (await loginAs.rows(ann, 'GET', path)).body.error;
    expect(hint).toContain('alter table "public"."Open ""table""" enable row level security;');
    expect(hint).toContain('using ((select auth.uid()) = "user_id")');
    expect((await loginAs.rows(ann, 'GET', 'plain')).body.error.hint).toContain(
      '(select auth.uid()) = "owner"',
    );
    expect(
      (await loginAs.rows(ann, 'GET', path, { key: project.key })).body.row_count,
      'another key may',
    ).toBe(2);
    for (const statement of hint.replace(/^Run: /, '').split(/(?<=;) /)) await loginAs.query(statement);
    expect(titles(await loginAs.rows(ann, 'GET', path))).toEqual(['ann']);
  });

  it('nothing embedded without it, nor through a table without it', async () => {
    await setUp(
      ...own('outer_rows'),
      ...own('inner_rows'),
      secure('outer_rows'),
      'create table links (outer_id int references outer_rows, inner_id int references inner_rows, primary key (outer_id, inner_id))',
    );
    const path = 'outer_rows?select=title,inner_rows(title)';
    const first = await loginAs.rows(ann, 'GET', path);
    expect([...refused(first), first.body.error.message]).toMatchObject([
      403,
      'forbidden',
      /inner_rows|links/,
    ]);
    await setUp(secure('inner_rows'));
    const second = await loginAs.rows(ann, 'GET', path);
    expect(second.body.error.message).toContain('links');
    await setUp(
      secure('links'),
      'create policy all_of_them on links for select to authenticated using (true)',
    );
    await setUp('insert into links select a.id, b.id from outer_rows as a, inner_rows as b');
    expect((await loginAs.rows(ann, 'GET', path)).body.rows).toEqual([
      { title: 'ann', inner_rows: [{ title: 'ann' }] },
    ]);
    expect(
      refused(await loginAs.rows(ann, 'GET', 'outer_rows?select=title&inner_rows.title=eq.ben'))[0],
    ).toBe(400);
  });

  it('views that read as the user, over tables with row security', async () => {
    await setUp(
      ...own('behind'),
      secure('behind'),
      'create view front as select id, title from behind',
      'create view outermost with (security_invoker = on) as select id, title from front',
      'create materialized view stored as select id, title from behind',
    );
    const asOwner = await loginAs.rows(ann, 'GET', 'front');
    expect(refused(asOwner)).toEqual([403, 'forbidden']);
    expect(asOwner.body.error.hint).toBe('Run: alter view "public"."front" set (security_invoker = true);');
    const nested = await loginAs.rows(ann, 'GET', 'outermost');
    expect(nested.body.error.message).toContain('"outermost" reads "front"');
    expect(refused(await loginAs.rows(ann, 'GET', 'stored'))).toEqual([403, 'forbidden']);
    await loginAs.query('alter view front set (security_invoker = true)');
    for (const view of ['front', 'outermost'])
      expect(titles(await loginAs.rows(ann, 'GET', view))).toEqual(['ann']);
    const changed = await loginAs.rows(ann, 'PATCH', 'outermost?id=gt.0', { body: { title: 'Ann' } });
    expect(changed.body.rows).toEqual([{ id: 1, title: 'Ann' }]);
    await setUp(
      ...own('elsewhere'),
      'create or replace view front with (security_invoker) as select id, title from elsewhere',
    );
    const open = await loginAs.rows(ann, 'GET', 'outermost');
    expect(open.body.error).toMatchObject({
      code: 'forbidden',
      hint: expect.stringContaining('"elsewhere"'),
    });
  });

  it('a partition by its own name only with row security of its own', async () => {
    await setUp(
      'create table whole (id int, user_id uuid default auth.uid(), title text) partition by range (id)',
      'create table part partition of whole for values from (0) to (100)',
      'alter table whole enable row level security',
      'create policy own on whole to authenticated using (user_id = auth.uid())',
      `insert into whole values (1, '${ann.id}', 'ann'), (2, '${ben.id}', 'ben')`,
    );
    expect(titles(await loginAs.rows(ann, 'GET', 'whole'))).toEqual(['ann']);
    expect(refused(await loginAs.rows(ann, 'GET', 'part'))).toEqual([403, 'forbidden']);
  });

  it('nothing of what the service keeps', async () => {
    for (const name of ['users', 'passwords', 'sessions', 'codes', 'attempts', 'settings']) {
      for (const key of [loginAs.publishable, project.key]) {
        const answer = await loginAs.rows(ann, 'GET', `auth.${name}?select=nonsense`, { key });
        expect(refused(answer)).toEqual([403, 'forbidden']);
        expect(answer.body.error.hint).toContain('auth/user');
      }
    }
    expect(refused(await loginAs.rows(ann, 'GET', 'rowhouse.migrations'))).toEqual([404, 'table_not_found']);
  });

  it('nothing of which row security was taken away a moment ago', async () => {
    await setUp(
      ...own('toggled'),
      secure('toggled'),
      'create view window_on with (security_invoker = true) as select title from toggled',
    );
    /** Often enough for PostgreSQL to keep a plan. */
    const readOften = async (name: string) => {
      for (let n = 0; n < 8; n++) expect(titles(await loginAs.rows(ann, 'GET', name))).toEqual(['ann']);
    };
    for (const name of ['toggled', 'window_on']) {
      for (const [off, on] of [
        ['alter table toggled disable row level security', secure('toggled')],
        ...(name === 'window_on'
          ? [
              [
                'alter view window_on set (security_invoker = false)',
                'alter view window_on set (security_invoker = true)',
              ],
              [
                'alter view window_on reset (security_invoker)',
                'alter view window_on set (security_invoker = true)',
              ],
            ]
          : []),
      ] as [string, string][]) {
        await readOften(name);
        await loginAs.query(off);
        expect(refused(await loginAs.rows(ann, 'GET', name)), off).toEqual([403, 'forbidden']);
        expect((await loginAs.rows(ann, 'GET', name, { key: project.key })).status).toBe(200);
        expect(refused(await loginAs.rows(ann, 'GET', name)), off).toEqual([403, 'forbidden']);
        await loginAs.query(on);
      }
      await readOften(name);
    }
  });

  it('nothing of others while it is being turned off and on', async () => {
    let isOver = false;
    const toggle = async () => {
      for (let n = 0; n < 15; n++) {
        await loginAs.query('alter table toggled disable row level security');
        await loginAs.query('alter table toggled enable row level security');
      }
      isOver = true;
    };
    const seen = new Set<string>();
    const read = async () => {
      while (!isOver) {
        for (const name of ['toggled', 'window_on']) {
          const answer = await loginAs.rows(ann, 'GET', `${name}?select=title`);
          seen.add(answer.status === 200 ? titles(answer).join() : refused(answer).join(' '));
        }
      }
    };
    await Promise.all([toggle(), read(), read()]);
    expect(new Set([...seen].filter((one) => !/^(403 forbidden|409 conflict)$/.test(one)))).toEqual(
      new Set(['ann']),
    );
  });
});

describe('grants', () => {
  it('that are missing are told with the statement that gives them, before anything else about the table', async () => {
    await setUp(
      'create table secrets (id int primary key, pin text)',
      'revoke all on secrets from authenticated',
    );
    await setUp('alter table secrets enable row level security');
    for (const [method, path, body, words] of [
      ['GET', 'secrets?pim=eq.1', undefined, 'grant select on table "public"."secrets" to authenticated;'],
      ['POST', 'secrets', { pim: 1 }, 'grant insert on table'],
      ['PATCH', 'secrets?pim=eq.1', { pim: 1 }, 'grant update on table'],
      ['DELETE', 'secrets?pim=eq.1', undefined, 'grant delete on table'],
    ] as const) {
      const answer = await loginAs.rows(ann, method, path, { ...(body && { body }) });
      expect(refused(answer)).toEqual([403, 'forbidden']);
      expect(answer.body.error.hint).toContain(words);
      expect(JSON.stringify(answer.body)).not.toContain('pin');
    }
    expect((await loginAs.rows(ann, 'GET', 'secretz')).body.error.hint, 'not suggested either').not.toContain(
      'secrets',
    );
    await setUp('grant select on secrets to authenticated');
    expect((await loginAs.rows(ann, 'GET', 'secrets')).status).toBe(200);
    await setUp('revoke select on secrets from authenticated');
    expect(refused(await loginAs.rows(ann, 'GET', 'secrets'))).toEqual([403, 'forbidden']);
  });

  it('for some columns show those, and what they hide is not shown', async () => {
    await setUp(
      'create table people (id int primary key, name text, salary int)',
      'alter table people enable row level security',
      'create policy all_of_them on people for select to authenticated using (true)',
      'revoke all on people from authenticated',
      'grant select (id, name) on people to authenticated',
      "insert into people values (1, 'Ann', 100)",
    );
    expect((await loginAs.rows(ann, 'GET', 'people')).body.rows).toEqual([{ id: 1, name: 'Ann' }]);
    const { body } = await rowhouse.call('GET', `/projects/${project.slug}/tables/people`, {
      key: project.key,
    });
    expect(body.rows, 'the project itself still sees all').toEqual([{ id: 1, name: 'Ann', salary: 100 }]);
    for (const path of ['people?select=salary', 'people?salary=gt.50', 'people?order=salary'])
      expect(refused(await loginAs.rows(ann, 'GET', path))).toEqual([403, 'sql_error']);
  });

  it('on a schema of its own, on sequences, and on what policies read', async () => {
    await setUp(
      'create schema app',
      'create table app.things (id int primary key)',
      'alter table app.things enable row level security',
      'create policy all_of_them on app.things using (true)',
    );
    const closed = await loginAs.rows(ann, 'GET', 'app.things');
    expect(closed.body.error.hint).toBe(
      'To allow them: grant usage on schema "app" to authenticated; grant select on table "app"."things" to authenticated;',
    );
    await setUp('grant select on table app.things to authenticated');
    expect((await loginAs.rows(ann, 'GET', 'app.things')).body.error.hint).toBe(
      'To allow them: grant usage on schema "app" to authenticated;',
    );
    await setUp('grant usage on schema app to authenticated');
    expect((await loginAs.rows(ann, 'GET', 'app.things')).body.rows).toEqual([]);
    await setUp('revoke usage on schema app from authenticated');
    expect(refused(await loginAs.rows(ann, 'GET', 'app.things'))[0]).toBe(403);
    await setUp('grant usage on schema app to authenticated');
    expect((await loginAs.rows(ann, 'GET', 'app.things')).status).toBe(200);

    await setUp(
      'create table hidden_list (user_id uuid)',
      'revoke all on hidden_list from authenticated',
      'create table guarded (id serial primary key)',
      'alter table guarded enable row level security',
      'create policy listed on guarded using (auth.uid() in (select user_id from hidden_list))',
    );
    const inPolicy = await loginAs.rows(ann, 'GET', 'guarded');
    expect(refused(inPolicy)).toEqual([403, 'sql_error']);
    expect(inPolicy.body.error.message).toContain('hidden_list');
    expect(inPolicy.body.error.hint).toContain('security definer');
    await setUp('alter policy listed on guarded using (id in (select id from guarded))');
    const recursive = await loginAs.rows(ann, 'GET', 'guarded');
    expect([recursive.body.error.sql.state, recursive.body.error.hint]).toMatchObject([
      '42P17',
      /security definer/,
    ]);
  });

  it('leave no prepared statements behind where they are missing', async () => {
    await setUp(
      'create view prepared with (security_invoker = true) as select pg_backend_pid() as pid, count(*)::int as count from pg_prepared_statements',
      'create table shut (id int primary key, a int, b int)',
      'alter table shut enable row level security',
      'create policy all_of_them on shut using (true)',
      'revoke all on shut from authenticated',
      'grant select (id) on shut to authenticated',
    );
    const count = async () => {
      // All of the few sessions are asked.
      const answers = await Promise.all(
        Array.from({ length: 4 }, () => loginAs.rows(ann, 'GET', 'prepared')),
      );
      return new Map(answers.map(({ body: { rows } }) => [rows[0].pid as number, rows[0].count as number]));
    };
    const before = await count();
    for (let n = 0; n < 60; n++)
      expect((await loginAs.rows(ann, 'GET', 'shut?a=eq.1&select=id')).status).toBe(403);
    // Each session against itself: others hold what earlier tests prepared.
    await until('a session is asked again', async () => {
      const grown = [...(await count())].filter(([pid]) => before.has(pid));
      for (const [pid, now] of grown) expect(now - (before.get(pid) ?? 0)).toBeLessThan(20);
      return grown.length > 0;
    });
  });
});

describe('users beside each other', () => {
  it('many at once on few connections are never mixed up', async () => {
    const users = await Promise.all(
      Array.from({ length: 6 }, (_, n) => newUser(rowhouse, project, `crowd${n}@example.com`)),
    );
    const rounds = 12;
    const visit = async (user: User, n: number) => {
      const title = `${user.email} ${n}`;
      const [made, who] = await Promise.all([
        loginAs.rows(user, 'POST', 'todos', { body: { title } }),
        loginAs.rows(user, 'GET', 'whoami'),
      ]);
      expect(made.body.row).toMatchObject({ user_id: user.id, title });
      expect(who.body.rows[0]).toMatchObject({ uid: user.id, email: user.email, user: 'authenticated' });
      const [page, changed] = await Promise.all([
        loginAs.rows(user, 'GET', 'todos?select=user_id,title&limit=100'),
        loginAs.rows(user, 'PATCH', `todos?title=eq.${encodeURIComponent(title)}`, { body: { done: true } }),
      ]);
      expect(page.body.rows.every((row: { user_id: string }) => row.user_id === user.id)).toBe(true);
      expect(changed.body.row_count).toBe(1);
    };
    await Promise.all(
      users.map(async (user) => {
        for (let n = 0; n < rounds; n++) await visit(user, n);
      }),
    );
    for (const user of users) expect((await loginAs.rows(user, 'GET', 'todos')).body.row_count).toBe(rounds);
  });

  it('find nothing that a function left in the session', async () => {
    await setUp(
      `create function leave() returns trigger language plpgsql as $$ begin
        perform set_config('request.jwt.claims', '{"sub":"${ann.id}","role":"admin"}', false);
        perform set_config('app.left', 'by ' || new.title, false);
        perform set_config('search_path', 'pg_catalog', false);
        perform set_config('row_security', 'off', false);
        perform set_config('default_transaction_read_only', 'on', false);
        if new.title = 'none' then perform set_config('role', 'none', false); end if;
        if new.title = 'authenticated' then perform set_config('role', 'authenticated', false); end if;
        if new.title = 'reset' then reset role; end if;
        if new.title = 'set' then set role authenticated; end if;
        listen gossip;
        return null; end $$`,
      ...['leaving'].flatMap((name) => [
        `create table ${name} (id serial primary key, title text)`,
        `alter table ${name} enable row level security`,
        `create policy all_of_them on ${name} using (true)`,
        `create trigger leave after insert on ${name} for each row execute function leave()`,
      ]),
    );
    const serverId = rowhouse.service.deps.server.id;
    const login = { id: project.id, serverId, passwordVersion: 1, accountId: null, loginAs: 'user' as const };
    const { sessions } = rowhouse.service.deps.query;
    for (const title of ['none', 'authenticated', 'reset', 'set', 'other']) {
      const left = await loginAs.rows(ann, 'POST', 'leaving?returning=minimal', { body: { title } });
      expect(left.status, JSON.stringify(left.body)).toBe(201);
      const who = await Promise.all(Array.from({ length: 4 }, () => loginAs.rows(ben, 'GET', 'whoami')));
      for (const { body } of who) {
        expect(body.rows[0]).toMatchObject({ uid: ben.id, role: 'authenticated', user: 'authenticated' });
        expect(body.rows[0].remains || null).toBeNull();
      }
      expect((await loginAs.rows(ben, 'POST', 'todos', { body: { title: `after ${title}` } })).status).toBe(
        201,
      );
      const [one, two] = await Promise.all([sessions.acquire(login, 'any'), sessions.acquire(login, 'any')]);
      for (const session of [one, two]) {
        const found = await new Promise<string>((resolve, reject) => {
          session.out
            .parse(
              '',
              "select concat_ws(' ', current_user, current_setting('search_path'), (select count(*) from pg_listening_channels()))",
            )
            .bind('', [])
            .execute(0)
            .sync();
          session.send({
            rowDescription: () => {},
            parameterTypes: () => {},
            noData: () => {},
            bound: () => {},
            complete: () => {},
            copy: () => {},
            row: (bytes, start, end) => resolve(bytes.toString('utf8', start + 6, end)),
            error: reject,
            ready: () => {},
            lost: reject,
          });
        });
        expect(found).toBe('authenticated public 0');
        sessions.release(login, session, 'plain');
      }
    }
  });

  it('share no answer that is kept for an Idempotency-Key', async () => {
    const header = { 'idempotency-key': randomUUID() };
    const insert = (user: User) =>
      loginAs.rows(user, 'POST', 'todos', { body: { title: `${user.email} once` }, headers: header });
    const first = await insert(ann);
    expect(first.status).toBe(201);
    const again = await insert(ann);
    expect([again.headers['idempotency-replayed'], again.body]).toEqual(['true', first.body]);
    const other = await insert(ben);
    expect([other.headers['idempotency-replayed'], other.body.row.user_id]).toEqual([undefined, ben.id]);
    const withoutUser = await rowhouse.call('POST', `/projects/${project.slug}/tables/todos`, {
      key: loginAs.publishable,
      body: { title: 'once' },
      headers: header,
    });
    expect(withoutUser.status).toBe(403);
  });

  it('do not sign each other out, nor take it for done', async () => {
    const header = { 'idempotency-key': randomUUID() };
    const call = (path: string, body: object, more: Record<string, string> = {}) =>
      rowhouse.call('POST', `/projects/${project.slug}/auth/${path}`, {
        key: loginAs.publishable,
        body,
        headers: more,
      });
    const signUp = async (email: string): Promise<{ token: string }> => {
      const { status, body } = await call('signup', { email, password: 'correct horse' });
      expect(status).toBe(201);
      return { token: body.session.access_token };
    };
    const users = [await signUp('gus@example.com'), await signUp('hal@example.com')];
    for (const [index, user] of users.entries()) {
      const made = await loginAs.rows(user, 'POST', 'todos', { body: { title: `signed up ${index}` } });
      expect(made.status).toBe(201);
      expect((await loginAs.rows(user, 'GET', 'todos')).body.row_count).toBe(1);
    }
    for (const user of users) {
      expect((await loginAs.rows(user, 'GET', 'todos')).status).toBe(200);
      const left = await call('signout', {}, { ...header, authorization: `Bearer ${user.token}` });
      expect([left.status, left.headers['idempotency-replayed']]).toEqual([200, undefined]);
      expect(refused(await loginAs.rows(user, 'GET', 'todos'))).toEqual([401, 'invalid_token']);
    }
  });

  it('get no kept answer once their session has ended', async () => {
    const user = await newUser(rowhouse, project, 'fay@example.com');
    const options = { body: { title: 'fay once' }, headers: { 'idempotency-key': randomUUID() } };
    expect((await loginAs.rows(user, 'POST', 'todos', options)).status).toBe(201);
    const expired = await tokenFor(rowhouse, project, user, { exp: Math.floor(Date.now() / 1000) - 1 });
    expect(refused(await loginAs.rows({ token: expired }, 'POST', 'todos', options))).toEqual([
      401,
      'invalid_token',
    ]);
    await inside(project, sql`delete from auth.sessions where id = ${user.sessionId}`);
    expect(refused(await loginAs.rows(user, 'POST', 'todos', options))).toEqual([401, 'invalid_token']);
  });
});

describe("a project's hostile functions", () => {
  const fine = async () => {
    const { loginAs: next, user } = neighbour;
    expect(titles(await next.rows(user, 'GET', 'todos?select=title'))).toEqual(['next door']);
    const changed = await next.rows(user, 'PATCH', 'todos?title=eq.next door', { body: { done: true } });
    expect(changed.body.row_count).toBe(1);
    expect((await loginAs.rows(ann, 'GET', 'todos')).status, 'other tables of its own').toBe(200);
  };

  /** `body`: what a policy runs, as the user or, `definer`, as the project. */
  const hostile = async (name: string, body: string, definer = false) => {
    await setUp(
      `create table ${name} (id int primary key)`,
      `insert into ${name} values (1)`,
      `create function ${name}_check() returns boolean language plpgsql ${definer ? 'security definer' : ''}
        as $$ begin ${body} return true; end $$`,
      `alter table ${name} enable row level security`,
      `create policy check_it on ${name} using (${name}_check())`,
    );
    return loginAs.rows(ann, 'GET', name);
  };

  it.each<[string, string]>([
    ['raise', "raise exception 'no' using errcode = 'RH002';"],
    ['raise_fatal', "raise exception 'no' using errcode = '57P01';"],
    ['raise_changed', "raise exception 'no' using errcode = 'RH001';"],
    ['authorize', 'set session authorization postgres;'],
    ['authorize_project', "execute 'set session authorization p_' || substr(current_database(), 3);"],
    ['powers', 'alter role authenticated superuser;'],
    ['bypass', 'alter role authenticated bypassrls;'],
    ['enter', 'alter role authenticated login;'],
    ['rename', 'alter role authenticated rename to gone;'],
    ['drop_role', 'drop role authenticated;'],
    ['give', "execute 'grant authenticated to ' || current_database();"],
    ['take', `revoke authenticated from ${'p_neighbour_user'};`],
    ['passwords', 'perform hash from auth.passwords;'],
    ['users', 'perform email from auth.users;'],
    ['sessions', 'perform token_hash from auth.sessions;'],
    ['files', "perform pg_read_file('PG_VERSION');"],
    ['temp_table', 'create temporary table x (id int);'],
    ['make_table', 'create table public.made_by_user (id int);'],
    ['end_transaction', 'commit;'],
    ['log', "perform set_config('log_min_messages', 'debug5', false);"],
  ])('%s: refused, and nobody else notices', async (name, body) => {
    const text = body.replace('p_neighbour_user', `p_${neighbour.project.id}_user`);
    const answer = await hostile(`hostile_${name}`, text);
    expect(answer.status, JSON.stringify(answer.body)).toBeGreaterThanOrEqual(400);
    expect(answer.status).toBeLessThan(500);
    expect(answer.body.error.code).not.toBe('invalid_token');
    await fine();
  });

  it.each<[string, string]>([
    [
      'settings',
      "alter role authenticated set search_path = 'nowhere'; alter role authenticated set role = 'nobody';",
    ],
    ['password', "alter role authenticated password 'mine';"],
    ['owned', 'drop owned by authenticated;'],
    ['own_settings', "reset role; execute 'alter role ' || session_user || ' set row_security = off';"],
    ['own_password', "reset role; execute 'alter role ' || session_user || ' password ''mine''';"],
    ['own_owned', "reset role; execute 'drop owned by ' || session_user;"],
    ['deallocate', "execute 'deallocate all';"],
    ['defaults', 'alter default privileges grant all on tables to public;'],
  ])('%s: has no effect beyond its own project', async (_name, body) => {
    const other = await rowhouse.project('Careless');
    const careless = await seatOf(rowhouse, other);
    const user = await newUser(rowhouse, other);
    for (const statement of [
      ...[todos, 'alter table todos enable row level security', ownTodos],
      'create table trap (id int primary key)',
      'insert into trap values (1)',
      `create function spring() returns boolean language plpgsql as $$ begin ${body} return true; end $$`,
      'alter table trap enable row level security',
      'create policy check_it on trap using (spring())',
    ])
      await careless.query(statement);
    const sprung = await careless.rows(user, 'GET', 'trap');
    expect([200, 400, 403], JSON.stringify(sprung.body)).toContain(sprung.status);
    await fine();
    // Nor for long in its own: new sessions come in.
    await asAdmin((admin) =>
      admin.query(
        sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = ${`p_${other.id}`}`,
      ),
    );
    await until('its users go on', async () => (await careless.rows(user, 'GET', 'todos')).status === 200);
    const [role] = await asAdmin((admin) =>
      admin.query(sql`
        select rolsuper or rolbypassrls or rolcanlogin or rolcreaterole or rolcreatedb or rolreplication as powerful,
               (select count(*)::int from pg_auth_members where member = pg_roles.oid) as memberships
        from pg_roles where rolname = 'authenticated'`),
    );
    expect(role).toEqual({ powerful: false, memberships: 0 });
  });

  it('that run as the project reveal no more of what the service keeps', async () => {
    for (const [name, body] of [
      ['definer_passwords', 'perform hash from auth.passwords;'],
      ['definer_sessions', 'perform token_hash from auth.sessions;'],
      ['definer_role', 'set role authenticated;'],
    ] as const)
      expect(refused(await hostile(name, body, true))[0]).toBeGreaterThanOrEqual(400);
    await fine();
  });

  it('that sleep or loop hold up their own users at most, and end with the caller', async () => {
    for (const [name, body] of [
      ['sleeping', 'perform pg_sleep(60);'],
      ['looping', 'loop begin perform pg_sleep(60); exception when query_canceled then null; end; end loop;'],
    ] as const) {
      await setUp(
        `create table ${name} (id int primary key)`,
        `insert into ${name} values (1)`,
        `create function ${name}_check() returns boolean language plpgsql as $$ begin ${body} return true; end $$`,
        `alter table ${name} enable row level security`,
        `create policy check_it on ${name} using (${name}_check())`,
      );
      const hangUp = new AbortController();
      const stuck = [1, 2].map(() =>
        fetch(`${url}${api}/projects/${project.slug}/tables/${name}`, {
          headers: { 'x-api-key': loginAs.publishable, authorization: `Bearer ${ann.token}` },
          signal: hangUp.signal,
        }).catch(() => null),
      );
      const running = () =>
        asAdmin(async (admin) => {
          const rows = await admin.query(sql`
            select 1 from pg_stat_activity where datname = ${`p_${project.id}`} and usename = ${`p_${project.id}_user`} and state = 'active'`);
          return rows.length;
        });
      await until('both run', async () => (await running()) === 2);
      const { loginAs: next, user } = neighbour;
      expect((await next.rows(user, 'GET', 'todos')).status).toBe(200);
      expect(
        (await rowhouse.call('GET', `/projects/${project.slug}/tables/todos`, { key: project.key })).status,
      ).toBe(200);
      hangUp.abort();
      await Promise.all(stuck);
      await until('both are ended', async () => (await running()) === 0);
      await fine();
    }
  });
});

describe('a function that a policy calls', () => {
  it('makes the next user nobody else, and keeps no session alive that has ended', async () => {
    const hostile = await rowhouse.project('Hostile');
    const own = await seatOf(rowhouse, hostile);
    const [first, second] = [await newUser(rowhouse, hostile), await newUser(rowhouse, hostile)];
    await own.query('create table t (id int primary key)');
    await own.query('insert into t values (1)');
    await own.query('alter table t enable row level security');
    // Whatever is prepared in the session, under whatever name, says from now on that somebody else acts.
    await own.query(`create function plant() returns boolean language plpgsql as $$
      declare planted text;
      begin
        perform set_config('app.left', 'by somebody', false);
        perform set_config('request.jwt.claims', '{}', false);
        for planted in select name from pg_prepared_statements loop
          execute format('deallocate %I', planted);
          execute format('prepare %I %s as select set_config(''request.jwt.claims'', ''{"sub":"${first.id}"}'', true)', planted,
            case when planted ~ '^reset' then '' else '(uuid, uuid, text)' end);
        end loop;
        return true;
      end $$`);
    await own.query('create policy p on t using (plant())');
    await own.query(`create view me with (security_invoker = true) as
      select auth.uid() as uid, nullif(current_setting('app.left', true), '') as remains from t`);
    await Promise.all(Array.from({ length: 4 }, () => own.rows(first, 'GET', 't')));
    await own.query('alter policy p on t using (true)');
    for (const { body } of await Promise.all(Array.from({ length: 4 }, () => own.rows(second, 'GET', 'me'))))
      expect(body.rows).toEqual([{ uid: second.id, remains: null }]);
    await own.query(`delete from auth.users where id = '${second.id}'`);
    expect((await own.rows(second, 'GET', 'me')).status).toBe(401);
  });
});

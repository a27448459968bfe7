// A publishable key without a user's token acts as the role anon: what it reaches, and all that it does not.
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { sql } from '../../../src/postgres/sql.ts';
import {
  inside,
  type LoginAs,
  newUser,
  seatOf,
  type TestProject,
  tokenFor,
  type User,
} from '../../support/end-users.ts';
import { type Answer, api, type Call, openSecondProcess, useTestService } from '../../support/helpers.ts';

const rowhouse = useTestService({ connections: { budget: 20, share: 3 } });
let project: TestProject;
let neighbour: TestProject;
let loginAs: LoginAs;
let ann: User;
beforeAll(async () => {
  project = await rowhouse.project('Blog');
  neighbour = await rowhouse.project('Neighbour');
  loginAs = await seatOf(rowhouse, project);
  ann = await newUser(rowhouse, project);
  await setUp(
    'create table posts (id int primary key, title text, public boolean default true, author uuid)',
    `insert into posts values (1, 'Hello', true, '${ann.id}'), (2, 'Draft', false, '${ann.id}'), (3, 'Again', true, null)`,
    'alter table posts enable row level security',
    'create policy own on posts to authenticated using (author = (select auth.uid()))',
  );
});

const setUp = async (...statements: string[]) => {
  for (const statement of statements) await loginAs.query(statement);
};
const call = (method: string, table: string, options: Call = {}, of = project) =>
  rowhouse.call(method, `/projects/${of.slug}/tables/${table}`, { key: loginAs.publishable, ...options });
const read = (table: string, options: Call = {}) => call('GET', table, options);
const codeOf = ({ status, body }: Answer) => [status, body.error?.code ?? body.ok];
const closed = [403, 'forbidden'];
const attempts = [
  ['GET', '', undefined],
  ['POST', '', { id: 9, title: 'x' }],
  ['PATCH', '?id=eq.1', { title: 'x' }],
  ['DELETE', '?id=eq.1', undefined],
] as const;
const tryAll = async (table: string, options: Call = {}) => {
  const answers: Answer[] = [];
  for (const [method, query, body] of attempts)
    answers.push(await call(method, table + query, { ...options, ...(body && { body }) }));
  return answers;
};

describe('anonymous requests by default', () => {
  it('a table with row security and policies for PUBLIC is closed to anon', async () => {
    await setUp(
      'create table fresh (id int primary key, title text)',
      'alter table fresh enable row level security',
      'create policy everybody on fresh using (true) with check (true)',
      'create policy strangers on fresh to anon using (true) with check (true)',
    );
    for (const table of ['posts', 'fresh', 'public.fresh'])
      for (const answer of await tryAll(table))
        expect(codeOf(answer), JSON.stringify(answer.body)).toEqual(closed);
    const granted = await inside(
      project,
      sql`
      select grantee, privilege_type from information_schema.role_table_grants where grantee = 'anon'`,
    );
    expect(granted).toEqual([]);
  });

  it('the refusal shows the grant and the policy to write, or asks for a token', async () => {
    await setUp(
      'create table "Open ""one""" (id int primary key, title text)',
      `insert into "Open ""one""" values (1, 'a')`,
    );
    const path = encodeURIComponent('Open "one"');
    for (const table of ['posts', path]) {
      const [got, posted] = (await tryAll(table)) as [Answer, Answer];
      const { message, hint } = got.body.error;
      expect(hint).toContain('grant select on table');
      expect(hint).toMatch(/create policy "select by anybody" on .* for select to anon using \(true\);/);
      expect(hint).toContain('Authorization: Bearer <ACCESS_TOKEN>');
      expect(message).toMatch(/publishable key/);
      expect(posted.body.error.hint).toMatch(/grant insert on table .* for insert to anon with check \(…\);/);
    }
    const { hint } = (await read(path)).body.error;
    const statements = hint
      .replace(/^To allow everyone: /, '')
      .replace(/To act as .*$/, '')
      .trim();
    await setUp(...statements.split(/(?<=;) /));
    expect((await read(path)).body.rows).toEqual([{ id: 1, title: 'a' }]);
    for (const answer of (await tryAll(path)).slice(1)) expect(codeOf(answer)).toEqual(closed);
  });
});

describe('anonymous requests with a grant and a policy', () => {
  beforeAll(() =>
    setUp(
      'grant select on posts to anon',
      'create policy "public posts" on posts for select to anon using (public)',
      "create view who with (security_invoker = true) as select id, auth.uid() as uid, auth.role() as role, auth.jwt() as jwt, auth.email() as email, current_user::text as me, current_setting('request.jwt.claims', true) as claims from posts",
      'grant select on who to anon',
    ),
  );

  it('anon reads rows in pages, by cursor, filtered, counted and by HEAD', async () => {
    expect((await read('posts?select=id&order=id')).body.rows).toEqual([{ id: 1 }, { id: 3 }]);
    const first = await read('posts?select=id&limit=1&count=exact');
    expect(first.body).toMatchObject({
      rows: [{ id: 1 }],
      has_more: true,
      count: { rows: 2, kind: 'exact' },
    });
    expect((await read(`posts?select=id&limit=1&cursor=${first.body.next_cursor}`)).body.rows).toEqual([
      { id: 3 },
    ]);
    expect((await read('posts?title=eq.Draft')).body.rows).toEqual([]);
    expect((await read('posts?count=estimated')).body.count.kind).toBe('estimated');
    const url = `${api}/projects/${project.slug}/tables/posts`;
    const head = await rowhouse.app.inject({
      method: 'HEAD',
      url,
      headers: { 'x-api-key': loginAs.publishable },
    });
    expect(head.statusCode).toBe(200);
    const bearer = await rowhouse.call('GET', `/projects/${project.slug}/tables/posts`, {
      key: '',
      headers: { authorization: `Bearer ${loginAs.publishable}` },
    });
    expect(bearer.body.row_count, 'the key as a bearer').toBe(2);
  });

  it('auth.role() is anon, and the other auth functions return null', async () => {
    expect((await read('who?limit=1')).body.rows).toEqual([
      { id: 1, uid: null, role: 'anon', jwt: null, email: null, me: 'anon', claims: '' },
    ]);
    expect((await loginAs.rows(ann, 'GET', 'who?limit=1')).body.rows).toMatchObject([
      { uid: ann.id, role: 'authenticated', me: 'authenticated' },
    ]);
  });

  it('a signed-in user gets the rows of the policies for users, not those for anon', async () => {
    expect((await loginAs.rows(ann, 'GET', 'posts?select=id&order=id')).body.rows).toEqual([
      { id: 1 },
      { id: 2 },
    ]);
  });

  it('a write is refused without a grant, and with a grant but no policy', async () => {
    for (const answer of (await tryAll('posts')).slice(1)) expect(codeOf(answer)).toEqual(closed);
    expect(
      codeOf(await call('POST', 'posts?resolution=merge&on_conflict=id', { body: { id: 1, title: 'x' } })),
    ).toEqual(closed);
    await setUp('grant insert, update, delete on posts to anon');
    const [, inserted, updated, deleted] = (await tryAll('posts')) as [Answer, Answer, Answer, Answer];
    expect([inserted.status, inserted.body.error?.sql?.state]).toEqual([403, '42501']);
    expect(inserted.body.error.hint).toContain('for insert to anon with check');
    expect([updated.body.row_count, deleted.body.row_count]).toEqual([0, 0]);
    await setUp('revoke insert, update, delete on posts from anon');
    expect((await loginAs.query('select count(*) as n from posts')).body.rows).toEqual([{ n: 3 }]);
  });

  it('anon writes rows where the project allows it, such as a contact form', async () => {
    await setUp(
      'create table messages (id bigint generated always as identity primary key, text text check (length(text) < 100), at timestamptz default now())',
      'alter table messages enable row level security',
      'grant insert (text) on messages to anon',
      'create policy anybody on messages for insert to anon with check (true)',
    );
    const shown = await call('POST', 'messages', { body: { text: 'hi' } });
    expect(shown.status).toBe(403);
    expect(shown.body.error.hint).toMatch(/^Send returning=minimal: "anon" cannot read "messages"/);
    const sent = await call('POST', 'messages?returning=minimal', { body: { text: 'hi' } });
    expect([sent.status, sent.body.row_count]).toEqual([201, 1]);
    expect(codeOf(await read('messages'))).toEqual(closed);
    expect(
      (await call('POST', 'messages?returning=minimal', { body: { text: 'hi', at: '2000-01-01' } })).status,
    ).toBe(403);
  });

  it('a granted or revoked privilege takes effect at the next request', async () => {
    for (let n = 0; n < 3; n++) {
      await setUp('revoke select on posts from anon');
      expect(codeOf(await read('posts'))).toEqual(closed);
      await setUp('grant select on posts to anon');
      expect((await read('posts')).status).toBe(200);
    }
    await setUp('alter table posts disable row level security');
    expect(codeOf(await read('posts'))).toEqual(closed);
    await setUp('alter table posts enable row level security');
    expect((await read('posts')).body.row_count).toBe(2);
  });
});

describe('a grant to anon is not enough', () => {
  it('for a table without row security, even with a grant to PUBLIC', async () => {
    await setUp(
      'create table bare (id int primary key, title text)',
      "insert into bare values (1, 'secret')",
    );
    for (const whom of ['anon', 'public']) {
      await setUp(`grant all on bare to ${whom}`);
      for (const answer of await tryAll('bare')) {
        expect(codeOf(answer)).toEqual(closed);
        expect(JSON.stringify(answer.body)).not.toContain('secret');
      }
    }
    expect((await loginAs.query('select title from bare')).body.rows).toEqual([{ title: 'secret' }]);
  });

  it("for views that run with their owner's rights, materialized views and partitions", async () => {
    await setUp(
      'create view owners as select id, title from posts',
      'create materialized view copies as select id, title from posts',
      'create view through with (security_invoker = true) as select id, title from bare',
      'create view nested with (security_invoker = true) as select id, title from owners',
      'create table parts (id int primary key, title text) partition by range (id)',
      'create table parts_1 partition of parts for values from (0) to (100)',
      "insert into parts values (1, 'part')",
      'alter table parts enable row level security',
      'create policy everybody on parts using (true)',
      'grant select on owners, copies, through, nested, parts, parts_1 to anon',
    );
    for (const table of ['owners', 'copies', 'through', 'nested', 'parts_1'])
      expect(codeOf(await read(table)), table).toEqual(closed);
    expect((await read('parts')).body.rows).toEqual([{ id: 1, title: 'part' }]);
    expect((await read('who')).body.row_count, 'a view that reads as whoever asks').toBe(2);
  });

  it('for the tables of the service and of PostgreSQL', async () => {
    for (const table of [
      'auth.users',
      'auth.sessions',
      'auth.passwords',
      'auth.attempts',
      'pg_catalog.pg_class',
      'rowhouse.migrations',
    ])
      expect([403, 404], table).toContain((await read(table)).status);
  });

  it('for embedded tables: each one needs its own grant', async () => {
    await setUp(
      'create table comments (id int primary key, post_id int references posts, text text)',
      "insert into comments values (1, 1, 'nice'), (2, 2, 'hidden')",
      'create table tags (id int primary key, post_id int references posts, tag text)',
      "insert into tags values (1, 1, 'tag')",
      'grant select on tags to anon',
    );
    const embedded = [
      'posts?select=id,comments(text)',
      'posts?select=id,comments!inner(text)',
      'posts?select=id,tags(tag)',
    ];
    for (const path of embedded) expect(codeOf(await read(path)), path).toEqual(closed);
    await setUp(
      'alter table comments enable row level security',
      'grant select on comments to anon',
      'create policy shown on comments for select to anon using (exists (select from posts where posts.id = post_id))',
    );
    const answer = await read('posts?select=id,comments(text)&order=id');
    expect(answer.body.rows).toEqual([
      { id: 1, comments: [{ text: 'nice' }] },
      { id: 3, comments: [] },
    ]);
    expect((await read('comments?select=text,posts(title)')).body.rows).toEqual([
      { text: 'nice', posts: { title: 'Hello' } },
    ]);
  });

  it('for anything but rows: no SQL, no list of tables, no import, no keys, no users', async () => {
    const path = (end: string) => `/projects/${project.slug}${end}`;
    const key = loginAs.publishable;
    for (const [method, end, body] of [
      ['POST', '/query', { query: 'select 1' }],
      ['POST', '/batch', { statements: [{ query: 'select 1' }] }],
      ['GET', '/tables', undefined],
      ['GET', '/schema', undefined],
      ['GET', '/usage', undefined],
      ['GET', '/keys', undefined],
      ['GET', '/auth/users', undefined],
      ['GET', '/connection', undefined],
      ['POST', '/compact', {}],
      ['DELETE', '', undefined],
    ] as const)
      expect(codeOf(await rowhouse.call(method, path(end), { key, ...(body && { body }) })), end).toEqual(
        closed,
      );
    const sql = await rowhouse.call('POST', path('/query'), { key, body: { query: 'select 1' } });
    const list = await rowhouse.call('GET', path('/tables'), { key });
    expect(sql.body.error.message).toBe('A publishable key cannot run SQL.');
    expect(list.body.error.message).toBe('A publishable key cannot list tables or read the schema.');
    for (const { body } of [sql, list]) expect(body.error.hint).toMatch(/…\/tables\/:table.* project key/);
    const address = `postgresql://x:${key}@db.example/${project.slug}`;
    const neon = { key: '', body: { query: 'select 1' }, headers: { 'neon-connection-string': address } };
    const refused = await rowhouse.call('POST', '/sql', neon);
    expect([refused.status, refused.body.rows, refused.body.message]).toEqual([
      400,
      undefined,
      'A publishable key cannot run SQL.',
    ]);
    await setUp('grant insert on posts to anon');
    for (const type of ['text/csv', 'application/x-ndjson']) {
      const raw = type === 'text/csv' ? 'id,title\n7,x\n' : '{"id":7,"title":"x"}\n';
      const answer = await call('POST', 'posts', { raw, headers: { 'content-type': type } });
      expect(codeOf(answer)).toEqual([400, 'invalid_request']);
    }
    await setUp('revoke insert on posts from anon');
  });

  it('for tables that the key does not list, or for another project', async () => {
    const issued = await rowhouse.call('POST', `/projects/${project.slug}/keys`, {
      body: { name: 'few', kind: 'publishable', tables: ['who'] },
    });
    expect(codeOf(await read('posts', { key: issued.body.api_key }))).toEqual([404, 'table_not_found']);
    expect((await call('GET', 'posts', {}, neighbour)).status).toBe(404);
  });
});

describe('an invalid token', () => {
  it('is refused and never treated as anonymous', async () => {
    const [head, body, mac] = ann.token.split('.') as [string, string, string];
    const expired = await tokenFor(rowhouse, project, ann, { exp: 1 });
    const foreign = await newUser(rowhouse, neighbour);
    const ended = await newUser(rowhouse, project, 'ended@example.com');
    await inside(project, sql`delete from auth.sessions where id = ${ended.sessionId}`);
    const none = `${head.slice(0, -1)}.${body}.`;
    for (const token of [
      expired,
      foreign.token,
      ended.token,
      'x',
      'a.b.c',
      `${head}.${body}.${mac.slice(1)}`,
      none,
      `${head}.${body}`,
    ])
      for (const answer of await tryAll('posts', { headers: { authorization: `Bearer ${token}` } }))
        expect(codeOf(answer), token).toEqual([401, 'invalid_token']);
    for (const authorization of ['Bearer', 'Bearer ', 'Basic abc', ''])
      expect((await read('posts', { headers: { authorization } })).status, authorization).toBe(401);
  });
});

describe('request bodies of anonymous requests', () => {
  it('are not read for a table that anon may not change', async () => {
    const started = await rowhouse.app.listen({ port: 0, host: '127.0.0.1' }).catch(() => null);
    expect(started).not.toBeNull();
    const { port } = rowhouse.app.server.address() as AddressInfo;
    // A grant that was there before is forgotten with the first request that finds it gone.
    expect((await call('POST', 'posts', { body: { id: 98, title: 'x' } })).status).toBe(403);
    const response = await fetch(`http://127.0.0.1:${port}${api}/projects/${project.slug}/tables/posts`, {
      method: 'POST',
      headers: {
        'x-api-key': loginAs.publishable,
        'content-type': 'application/json',
        origin: 'https://x.io',
      },
      // It never ends: an answer comes before it.
      body: new ReadableStream({ start: (controller) => controller.enqueue(Buffer.from('[')) }),
      duplex: 'half',
    } as RequestInit);
    expect(response.status).toBe(403);
    await response.body?.cancel();
  });

  it('get the same answer with an Origin and without one', async () => {
    const { port } = rowhouse.app.server.address() as AddressInfo;
    const get = async (path: string, headers: Record<string, string> = {}, init: RequestInit = {}) => {
      const response = await fetch(`http://127.0.0.1:${port}${api}/projects/${project.slug}/tables/${path}`, {
        ...init,
        headers: { 'x-api-key': loginAs.publishable, ...headers },
      });
      const { request_id, ...body } = (await response.json()) as Record<string, unknown>;
      return { status: response.status, body };
    };
    for (const path of [
      'posts?order=id',
      'bare',
      'owners',
      'auth.users',
      'who',
      'none',
      'posts?select=id,tags(tag)',
    ]) {
      const other = await get(path, { origin: 'https://x.io' });
      expect(await get(path), path).toEqual(other);
      expect(await get(path), 'once more').toEqual(other);
    }
    const insert = { method: 'POST', body: '{"id":99,"title":"x"}' };
    const type = { 'content-type': 'application/json' };
    for (const table of ['posts', 'bare']) {
      const short = await get(table, type, insert);
      expect([short.status, short]).toEqual([
        403,
        await get(table, { ...type, origin: 'https://x.io' }, insert),
      ]);
    }
    expect((await get('who?limit=1')).body.rows).toMatchObject([{ me: 'anon', role: 'anon' }]);
    expect((await loginAs.query('select count(*) as n from posts where id = 99')).body.rows).toEqual([
      { n: 0 },
    ]);
  });
});

describe('anonymous requests beside signed-in users', () => {
  beforeAll(() =>
    setUp(
      `create function leave_traces() returns boolean language plpgsql as $$ begin
        perform set_config('request.jwt.claims', '{"sub":"${ann.id}","role":"admin","email":"a@b"}', false);
        perform set_config('request.role', 'service_role', false);
        perform set_config('app.left', 'by somebody', false);
        perform set_config('search_path', 'pg_catalog', false);
        perform set_config('row_security', 'off', false);
        perform set_config('default_transaction_read_only', 'on', false);
        listen gossip;
        return true; end $$`,
      `create function become(name text) returns boolean language plpgsql as $$ begin
        perform set_config('role', name, false); return true; exception when others then return true; end $$`,
      'create table traps (id int primary key, title text)',
      "insert into traps values (1, 'a')",
      'alter table traps enable row level security',
      'create policy leaves on traps using (leave_traces())',
      'create table roles (id int primary key, name text)',
      `insert into roles values ${['none', 'anon', 'authenticated', 'service_role', `p_${project.id}`, `p_${project.id}_user`, `p_${project.id}_auth`, `p_${project.id}_anon`, 'postgres'].map((name, n) => `(${n}, '${name}')`).join(', ')}`,
      'alter table roles enable row level security',
      'create policy becomes on roles using (become(name))',
      'grant select on traps, roles to anon',
    ),
  );

  const whoIs = { uid: null, role: 'anon', jwt: null, me: 'anon' };

  it('see nothing that a function left in the session, and neither do users', async () => {
    for (let n = 0; n < 10; n++) {
      await read('traps');
      await read(`roles?id=eq.${n}`);
      await loginAs.rows(ann, 'GET', 'traps');
      const [strangers, users] = await Promise.all([
        Promise.all(Array.from({ length: 4 }, () => read('who?limit=1'))),
        Promise.all(Array.from({ length: 4 }, () => loginAs.rows(ann, 'GET', 'who?limit=1'))),
      ]);
      for (const { body } of strangers) expect(body.rows, JSON.stringify(body)).toMatchObject([whoIs]);
      for (const { body } of users)
        expect(body.rows).toMatchObject([{ uid: ann.id, role: 'authenticated', me: 'authenticated' }]);
    }
    expect((await call('POST', 'messages?returning=minimal', { body: { text: 'after' } })).status).toBe(201);
  });

  it('do not change the role of the next request by a function that sets it', async () => {
    await setUp('create view me as select 1 as id', 'alter view me set (security_invoker = true)');
    await setUp(
      'create table seen (id int primary key default 1, role text)',
      'alter table seen enable row level security',
      'insert into seen values (1)',
      `create function who_am_i() returns text language plpgsql as $$ begin perform become('authenticated'); return current_user::text; end $$`,
      'create policy looks on seen using (who_am_i() is not null)',
      'create view seen_by with (security_invoker = true) as select id, who_am_i() as me from seen',
      'grant select on seen, seen_by to anon',
    );
    expect((await read('seen_by')).body.rows).toEqual([{ id: 1, me: 'anon' }]);
  });

  it('are never mixed up on few connections of two processes', async () => {
    const second = await openSecondProcess(rowhouse);
    try {
      const path = `/projects/${project.slug}/tables/who?limit=1`;
      const ask = async (from: typeof rowhouse, token: string | null) => {
        const headers = token ? { authorization: `Bearer ${token}` } : {};
        const { body } = await from.call('GET', path, { key: loginAs.publishable, headers });
        expect(body.rows, JSON.stringify(body)).toMatchObject([
          token ? { uid: ann.id, me: 'authenticated' } : whoIs,
        ]);
      };
      for (let round = 0; round < 5; round++)
        await Promise.all(
          Array.from({ length: 16 }, (_, n) => ask(n % 2 ? rowhouse : second, n % 3 ? null : ann.token)),
        );
    } finally {
      await second.stop();
    }
  });

  it('log in with a role that has no other rights', async () => {
    const [role] = await inside<{ members: string[]; powers: boolean }>(
      project,
      sql`
      select array(select roleid::regrole::text from pg_auth_members where member = role.oid) as members,
             rolsuper or rolcreaterole or rolcreatedb or rolbypassrls or rolreplication or rolinherit and false as powers
      from pg_roles as role where rolname = ${`p_${project.id}_anon`}`,
    );
    expect(role).toEqual({ members: ['anon'], powers: false });
  });

  it('in a flood do not disturb users, the project or its neighbour', async () => {
    await setUp(
      'create function slow() returns boolean language plpgsql as $$ begin perform pg_sleep(1); return true; end $$',
      'create table slowly (id int primary key)',
      'insert into slowly values (1)',
      'alter table slowly enable row level security',
      'create policy slow on slowly using (slow())',
      'grant select on slowly to anon',
    );
    const flood = Array.from({ length: 12 }, () => read('slowly'));
    expect((await loginAs.rows(ann, 'GET', 'posts')).status).toBe(200);
    expect((await loginAs.query('select 1')).status).toBe(200);
    const next = await rowhouse.call('POST', `/projects/${neighbour.slug}/query`, {
      key: neighbour.key,
      body: { query: 'select 1' },
    });
    expect(next.status).toBe(200);
    for (const { status } of await Promise.all(flood)) expect([200, 429, 503]).toContain(status);
  });
});

afterAll(async () => {
  const gone = await rowhouse.call('DELETE', `/projects/${project.slug}`);
  expect(gone.status).toBe(200);
});

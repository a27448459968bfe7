import { beforeAll, describe, expect, it, vi } from 'vitest';
import {
  type AuthEvent,
  type Client,
  createClient,
  type Session,
  type SessionStorage,
} from '../src/index.ts';
import { failureOf, useLive } from './live.ts';

let now = Date.now();
const live = useLive({ now: () => now });
const password = 'correct horse';
let server: Client;
let people = 0;
const newEmail = () => `user${++people}@example.com`;

/** As a browser has it; `sent` counts requests by path. */
function browser(
  options: { storage?: SessionStorage; answer?: (path: string) => Response | undefined } = {},
) {
  const sent: { path: string; authorization: string | null; apiKey: string | null }[] = [];
  const counting: typeof fetch = async (url, init) => {
    const path = new URL(String(url)).pathname.split('/').slice(6).join('/');
    const headers = new Headers(init?.headers);
    sent.push({ path, authorization: headers.get('authorization'), apiKey: headers.get('x-api-key') });
    return options.answer?.(path) ?? fetch(url, init);
  };
  const client = live.client({
    apiKey: live.publishableKey,
    fetch: counting,
    ...(options.storage && { storage: options.storage }),
  });
  return { client, sent };
}

function memory(): SessionStorage & { items: Map<string, string> } {
  const items = new Map<string, string>();
  return {
    items,
    getItem: (key) => items.get(key) ?? null,
    setItem: (key, value) => void items.set(key, value),
    removeItem: (key) => void items.delete(key),
  };
}

beforeAll(async () => {
  server = live.client();
  await server.batch([
    `create table todos (id int generated always as identity primary key,
       user_id uuid not null default auth.uid() references auth.users on delete cascade, title text not null)`,
    'alter table todos enable row level security',
    'create policy own_rows on todos to authenticated using ((select auth.uid()) = user_id)',
  ]);
});

describe('the client in a browser', () => {
  it('signs up, in and out, and acts as the signed-in user', async () => {
    const { client, sent } = browser();
    const email = newEmail();
    expect([client.session, await client.user()]).toEqual([null, null]);
    expect(await failureOf(client.table('todos'))).toMatchObject({ code: 'forbidden' });

    const { user, session } = await client.signUp({ email, password, data: { name: 'Ada' } });
    expect(user).toMatchObject({ email, role: 'authenticated', data: { name: 'Ada' } });
    expect(client.session).toEqual(session);
    expect(await client.user()).toMatchObject({ id: user.id });

    expect(await client.table('todos').insert({ title: 'Tea' })).toMatchObject({ user_id: user.id });
    expect(sent.at(-1)).toEqual({
      path: 'tables/todos',
      authorization: `Bearer ${session.access_token}`,
      apiKey: live.publishableKey,
    });
    const other = browser().client;
    await other.signUp({ email: newEmail(), password });
    expect((await other.table('todos')).rows).toEqual([]);
    expect(await failureOf(other.table('todos').insert({ title: 'x', user_id: user.id }))).toMatchObject({
      code: 'sql_error',
      sql: { state: '42501' },
    });
    expect(await failureOf(client.query('select 1'))).toMatchObject({ name: 'RowhouseError' });

    await client.signOut();
    expect([client.session, await client.user()]).toEqual([null, null]);
    expect(await failureOf(client.signIn({ email, password: 'wrong horse' }))).toMatchObject({
      code: 'invalid_credentials',
      status: 401,
    });
    await client.signIn({ email, password });
    expect((await client.table('todos').select('title')).rows).toEqual([{ title: 'Tea' }]);
    expect(await failureOf(client.signUp({ email, password }))).toMatchObject({ code: 'email_taken' });
    expect(client.session).not.toBeNull();
  });

  it('reads as anon without a session, and never after a session has ended', async () => {
    await server.batch([
      'create table posts (id int primary key, title text, author uuid)',
      "insert into posts values (1, 'Hello', null)",
      'alter table posts enable row level security',
    ]);
    const { client, sent } = browser();
    expect(await failureOf(client.table('posts'))).toMatchObject({
      code: 'forbidden',
      hint: expect.stringContaining('to anon'),
    });
    await server.batch([
      'grant select on posts to anon',
      'create policy everybody on posts for select to anon using (true)',
    ]);
    expect((await client.table('posts').select('title')).rows).toEqual([{ title: 'Hello' }]);
    expect(sent.at(-1)).toEqual({ path: 'tables/posts', authorization: null, apiKey: live.publishableKey });
    expect(await failureOf(client.table('posts').insert({ id: 2 }))).toMatchObject({ code: 'forbidden' });
    expect(await failureOf(client.query('select 1'))).toMatchObject({ code: 'forbidden' });

    const other = browser().client;
    const email = newEmail();
    await client.signUp({ email, password });
    expect((await client.table('posts')).rows, 'a user is not anon').toEqual([]);
    await other.signIn({ email, password });
    await other.signOut({ scope: 'others' });
    expect(await failureOf(client.table('posts'))).toMatchObject({ code: 'invalid_token', status: 401 });
    const held = live.client({ apiKey: live.publishableKey }).asUser('a.b.c');
    expect(await failureOf(held.table('posts'))).toMatchObject({ code: 'invalid_token' });
  });

  it('ends other sessions without its own', async () => {
    const [one, two] = [browser().client, browser().client];
    const email = newEmail();
    await one.signUp({ email, password });
    await two.signIn({ email, password });
    await one.signOut({ scope: 'others' });
    expect(await one.user()).toMatchObject({ email });
    expect(await failureOf(two.user())).toMatchObject({ code: 'invalid_token', status: 401 });
    // The service says that it has ended, so it is gone here too.
    expect(two.session).toBeNull();
    await two.signOut();
  });

  it('stores the session where it is configured', async () => {
    const storage = memory();
    const email = newEmail();
    const { session } = await browser({ storage }).client.signUp({ email, password, data: { n: 1 } });
    const reopened = browser({ storage }).client;
    expect(reopened.session).toEqual(session);
    expect(await reopened.user()).toMatchObject({ email });
    await reopened.signOut();
    expect(storage.items.size).toBe(0);
    expect(browser({ storage }).client.session).toBeNull();

    for (const rubbish of ['', 'null', '{}', '{"session":{}}', '{"session":{"access_token":5}}', '[1']) {
      storage.setItem(`rowhouse:${live.slug}`, rubbish);
      expect(browser({ storage }).client.session).toBeNull();
    }
  });

  it('stores the session in asynchronous storage', async () => {
    const items = memory();
    const storage: SessionStorage = {
      getItem: async (key) => items.getItem(key),
      setItem: async (key, value) => items.setItem(key, value),
      removeItem: async (key) => items.removeItem(key),
    };
    const email = newEmail();
    await browser({ storage }).client.signUp({ email, password });
    const reopened = browser({ storage }).client;
    expect(await reopened.user()).toMatchObject({ email });
    expect((await reopened.table('todos')).rows).toEqual([]);
  });

  it('notifies listeners', async () => {
    const { client } = browser();
    const events: [AuthEvent, string | undefined][] = [];
    const stop = client.onAuthChange((event, session) => events.push([event, session?.access_token]));
    const { session } = await client.signUp({ email: newEmail(), password });
    const refreshed = await client.refresh();
    await client.signOut();
    stop();
    await client.signUp({ email: newEmail(), password });
    expect(events).toEqual([
      ['signed_in', session.access_token],
      ['refreshed', refreshed.session.access_token],
      ['signed_out', undefined],
    ]);
  });
});

describe('an expired access token', () => {
  const aDay = 25 * 3_600_000;

  it('is refreshed before use, once for all waiting calls', async () => {
    const { client, sent } = browser();
    const { session } = await client.signUp({ email: newEmail(), password });
    vi.spyOn(Date, 'now').mockImplementation(() => now);
    now += aDay;
    sent.length = 0;
    const pages = await Promise.all([1, 2, 3, 4].map(async () => client.table('todos')));
    expect(pages.map(({ rows }) => rows)).toEqual([[], [], [], []]);
    expect(sent.filter(({ path }) => path === 'auth/refresh')).toHaveLength(1);
    expect(client.session?.access_token).not.toBe(session.access_token);
    vi.restoreAllMocks();
  });

  it('is refreshed when the service refuses it, whatever the local clock says', async () => {
    const { client, sent } = browser();
    await client.signUp({ email: newEmail(), password });
    now += aDay;
    sent.length = 0;
    const created = await Promise.all([1, 2, 3].map((n) => client.table('todos').insert({ title: `${n}` })));
    expect(created).toHaveLength(3);
    expect(sent.filter(({ path }) => path === 'auth/refresh')).toHaveLength(1);
    expect(sent.filter(({ path }) => path === 'tables/todos').length).toBeLessThanOrEqual(6);
  });

  it('survives a lost answer', async () => {
    let lost = 1;
    const { client, sent } = browser({
      answer: (path) => {
        if (path === 'auth/refresh' && lost-- > 0) throw new TypeError('fetch failed');
        return undefined;
      },
    });
    await client.signUp({ email: newEmail(), password });
    await client.refresh();
    expect(sent.filter(({ path }) => path === 'auth/refresh')).toHaveLength(2);
  });

  it('that another tab refreshed is taken from there', async () => {
    const storage = memory();
    const [one, two] = [browser({ storage }), browser({ storage })];
    await one.client.signUp({ email: newEmail(), password });
    const late = browser({ storage });
    await one.client.refresh();
    now += 60_000;
    // With the refresh token that it began with, the session would end.
    await late.client.refresh();
    expect(await late.client.user()).not.toBeNull();
    expect(two.client.session).toBeNull();
  });

  it('of an ended session is removed', async () => {
    const { client } = browser();
    const { user } = await client.signUp({ email: newEmail(), password });
    await live.rowhouse.call('PATCH', `/projects/${live.slug}/auth/users/${user.id}`, {
      body: { banned: true },
    });
    expect(await failureOf(client.table('todos'))).toMatchObject({ code: 'invalid_token' });
    expect(client.session).toBeNull();
    expect(await failureOf(client.refresh())).toMatchObject({ code: 'invalid_token' });
  });

  it('is kept while the service cannot be reached', async () => {
    let away = false;
    const { client } = browser({
      answer: () => {
        if (away) throw new TypeError('fetch failed');
        return undefined;
      },
    });
    const { session } = await client.signUp({ email: newEmail(), password });
    away = true;
    expect(await failureOf(client.refresh())).toMatchObject({ code: 'network_error' });
    expect(await failureOf(client.signOut())).toMatchObject({ code: 'network_error' });
    expect(client.session).toEqual(session);
  });

  it('does not replace a sign-in that happens meanwhile', async () => {
    const { client } = browser();
    await client.signUp({ email: newEmail(), password });
    const other = newEmail();
    await server.signUp({ email: other, password });
    const refreshing = client.refresh();
    await client.signIn({ email: other, password });
    await refreshing;
    expect(await client.user()).toMatchObject({ email: other });
  });
});

describe('the client on a server, with the project key', () => {
  it('acts as the project unless a user is given', async () => {
    const client = live.client();
    const email = newEmail();
    const { user, session } = await client.signUp({ email, password, data: { role: 'editor' } });
    expect(user.role).toBe('editor');
    expect(await client.user()).toMatchObject({ id: user.id });
    await client.table('todos').insert({ title: 'by the server', user_id: user.id });
    const all = (await client.query('select from todos')).row_count;
    expect((await client.table('todos').count()).count?.rows).toBe(all);

    for (const given of [session, session.access_token]) {
      const asUser = client.asUser(given);
      expect((await asUser.table('todos').select('title')).rows).toEqual([{ title: 'by the server' }]);
      expect(await asUser.user()).toMatchObject({ email });
      // SQL would run as the project; a user has none.
      for (const work of [
        () => asUser.query('select 1'),
        () => asUser.batch(['select 1']),
        () => asUser.sql`select 1`,
        () => asUser.query.stream('select 1').next(),
      ])
        expect(await failureOf(work())).toMatchObject({ status: 400 });
    }
    expect(await failureOf(client.asUser('no.such.token').table('todos'))).toMatchObject({
      code: 'invalid_token',
    });
  });

  it("refreshes and ends a user's session apart from its own", async () => {
    const client = live.client();
    const { session } = await client.signUp({ email: newEmail(), password });
    const asUser = client.asUser(session);
    const changes: (Session | null)[] = [];
    asUser.onAuthChange((_, changed) => changes.push(changed));
    const renewed = await asUser.refresh();
    expect(asUser.session).toEqual(renewed.session);
    expect(client.session).toEqual(session);
    await asUser.signOut();
    expect(changes).toEqual([renewed.session, null]);
    // Never the project's own rights instead of the user's.
    for (const work of [
      () => asUser.table('todos'),
      () => asUser.query('select 1'),
      () => asUser.query.stream('select 1').next(),
    ])
      expect(await failureOf(work())).toMatchObject({ code: 'invalid_token', status: 0 });
    for (const nobody of ['', undefined, null, {}])
      expect(() => client.asUser(nobody as never)).toThrow('asUser requires a session');
    const bare = client.asUser(session.access_token);
    expect(await failureOf(bare.refresh())).toMatchObject({ code: 'invalid_token' });
  });
});

it('needs a project', () => {
  expect(() => createClient({ apiKey: 'rh_proj_x', project: '' })).toThrow('project');
});

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ensureAccount } from '../../../src/access/accounts/first-account.ts';
import { createLink } from '../../../src/access/people/links.ts';
import { forgetEndedSessions } from '../../../src/access/people/sessions.ts';
import { sql } from '../../../src/postgres/sql.ts';
import {
  sessionConfirmedMs,
  sessionIdleMs,
  sessionMaxMs,
  sessionsPerKey,
} from '../../../src/settings/limits/console-sessions.ts';
import { listening, openPage, outcome, Page } from '../../support/console-page.ts';
import { openSecondProcess, type TestService, useTestService } from '../../support/helpers.ts';

/** Added to the time of the service. */
let laterMs = 0;
const now = () => Date.now() + laterMs;
const rowhouse = useTestService({ now, trustedProxies: ['loopback'] });
let second: TestService;
beforeAll(async () => {
  second = await openSecondProcess(rowhouse, { now, trustedProxies: ['loopback'] });
});
afterAll(async () => {
  laterMs = 0;
  await second.stop();
});

const ended = [401, 'session_required'];
const scopedKey = async (slug: string, scopes: string[]) =>
  (await rowhouse.call('POST', `/projects/${slug}/keys`, { body: { name: 'k', scopes } })).body;
const replaceAccountKey = () =>
  ensureAccount(rowhouse.service.deps.control, { accountKey: null, newAccountKey: true }, () => {});
const bringBackAccountKey = () =>
  ensureAccount(
    rowhouse.service.deps.control,
    { accountKey: rowhouse.accountKey, newAccountKey: false },
    () => {},
  );
/** The same session at another process: browsers do not tell the ports of a host apart, the name of the cookie does. */
const atSecond = async (page: Page) => {
  const other = new Page(await listening(second), page.origin);
  [other.cookie, other.token] = [page.cookie, page.token];
  return other;
};

describe('a session', () => {
  it('is opened with an account key, tells what it is, and ends with sign-out', async () => {
    const page = new Page(await listening(rowhouse));
    const { status, body, headers } = await page.signIn({ api_key: ` ${rowhouse.accountKey} ` });
    expect(status).toBe(201);
    expect(body).toMatchObject({
      ok: true,
      person: null,
      account: { id: 'default', name: 'default' },
      scope: 'account',
      project: null,
      scopes: null,
    });
    expect(Math.abs(Date.parse(body.expires_at) - now() - sessionMaxMs)).toBeLessThan(60_000);
    expect(headers['set-cookie']).toEqual([
      expect.stringMatching(
        new RegExp(
          `^rowhouse_console_${page.port}=rh_cookie_[\\w-]{43}; Path=/console; HttpOnly; SameSite=Strict; Max-Age=43200$`,
        ),
      ),
    ]);
    const { token, ...rest } = body;
    expect(token).toMatch(/^rh_token_[\w-]{43}$/);
    expect((await page.call('GET', '/console/session')).body).toEqual(rest);
    const left = await page.call('DELETE', '/console/session');
    expect([left.status, left.headers['set-cookie']?.[0]]).toEqual([
      200,
      expect.stringContaining('Max-Age=0'),
    ]);
    [page.cookie, page.token] = [headers['set-cookie']?.[0]?.split(';')[0], token];
    expect(outcome(await page.call('GET', '/console/session'))).toEqual(ended);
  });

  it('does on the API what its account key may do, and streams, imports and exports as the API does', async () => {
    const page = await openPage(rowhouse);
    const made = await page.call('POST', '/projects', { body: { name: 'By hand' } });
    expect(made.status).toBe(201);
    expect(made.headers.location).toBe('/console/api/dbaas/v2/projects/by-hand');
    const run = (query: string) => page.call('POST', '/projects/by-hand/query', { body: { query } });
    expect((await run('create table tea (id int primary key, name text)')).status).toBe(200);
    const csv = await page.call('POST', '/projects/by-hand/tables/tea', {
      raw: 'id,name\n1,sencha\n2,assam\n',
      headers: { 'content-type': 'text/csv' },
    });
    expect([csv.status, csv.body.row_count]).toEqual([201, 2]);
    const rows = await page.call('GET', '/projects/by-hand/tables/tea?order=id');
    expect(rows.body.rows).toEqual([
      { id: 1, name: 'sencha' },
      { id: 2, name: 'assam' },
    ]);
    const long = await run("select repeat('x', 1000) as x from generate_series(1, 2000)");
    expect([long.body.row_count, long.headers['cache-control']]).toEqual([2000, 'no-store']);
    const dump = await page.call('GET', '/projects/by-hand/export?format=sql');
    expect(dump.text).toContain('CREATE TABLE public.tea');
    expect(dump.headers['cross-origin-resource-policy']).toBe('same-origin');
    expect(outcome(await page.call('GET', '/projects/by-hand?surprise=1'))).toEqual([400, 'invalid_request']);
    expect(outcome(await page.call('GET', '/nowhere'))).toEqual([404, 'route_not_found']);
    expect(outcome(await page.call('PUT', '/projects'))).toEqual([405, 'method_not_allowed']);
  });

  it('repeats by Idempotency-Key do not run again', async () => {
    const page = await openPage(rowhouse);
    const headers = { 'idempotency-key': 'once' };
    const create = () => page.call('POST', '/projects', { body: { name: 'Once' }, headers });
    const [first, again] = [await create(), await create()];
    expect([again.body, again.headers['idempotency-replayed']]).toEqual([first.body, 'true']);
  });

  it('with a key of a project has its scopes and no more', async () => {
    const { slug, key } = await rowhouse.project('Scoped');
    const whole = await openPage(rowhouse, key);
    expect((await whole.call('GET', '/console/session')).body).toMatchObject({
      scope: 'project',
      project: slug,
      scopes: null,
    });
    expect((await whole.call('GET', '/projects')).body.projects).toHaveLength(1);
    expect(outcome(await whole.call('POST', '/projects', { body: { name: 'No' } }))).toEqual([
      403,
      'forbidden',
    ]);
    const other = await rowhouse.project('Other');
    expect(outcome(await whole.call('GET', `/projects/${other.slug}`))).toEqual([404, 'project_not_found']);

    const reader = await openPage(rowhouse, (await scopedKey(slug, ['query:read'])).api_key);
    const run = (query: string) => reader.call('POST', `/projects/${slug}/query`, { body: { query } });
    expect((await run('select 1')).status).toBe(200);
    expect((await run('create table t ()')).body.error.sql.state).toBe('25006');
    expect(outcome(await reader.call('GET', `/projects/${slug}/connection`))).toEqual([403, 'forbidden']);
    expect((await reader.call('GET', '/console/session')).body.scopes).toEqual(['query:read']);
  });

  it('cannot be opened with a publishable key, or with a link and a key at once', async () => {
    const { slug } = await rowhouse.project('Public');
    const { body } = await rowhouse.call('POST', `/projects/${slug}/keys`, {
      body: { name: 'p', kind: 'publishable' },
    });
    const page = new Page(await listening(rowhouse));
    expect(outcome(await page.signIn({ api_key: body.api_key }))).toEqual([403, 'forbidden']);
    for (const wrong of [{}, { link: 'x', api_key: rowhouse.accountKey }, { api_key: '' }, { password: 'x' }])
      expect(outcome(await page.signIn(wrong as { link: string }))).toEqual([400, 'invalid_request']);
  });

  it('acts as an end user with the access token of one', async () => {
    const { slug, key } = await rowhouse.project('Acting');
    const page = await openPage(rowhouse);
    const ddl = [
      'create table notes (id int, owner uuid default auth.uid())',
      'alter table notes enable row level security',
    ];
    for (const query of ddl) await rowhouse.call('POST', `/projects/${slug}/query`, { body: { query } });
    await rowhouse.call('POST', `/projects/${slug}/tables/notes`, { body: { id: 1 } });
    const user = { email: 'a@example.com', password: 'correct horse battery' };
    const { body } = await rowhouse.call('POST', `/projects/${slug}/auth/signup`, { key, body: user });
    const authorization = `Bearer ${body.session.access_token}`;
    const rows = (headers = {}) => page.call('GET', `/projects/${slug}/tables/notes`, { headers });
    expect((await rows()).body.row_count).toBe(1);
    expect((await rows({ authorization })).body.row_count).toBe(0);
    const elsewhere = await page.call('GET', '/projects', { headers: { authorization } });
    expect(outcome(elsewhere)).toEqual([400, 'invalid_request']);
  });
});

describe('a session ends', () => {
  it('after two hours without a request, and after twelve hours anyway', async () => {
    const page = await openPage(rowhouse);
    const status = async () => (await page.call('GET', '/console/session')).status;
    const stepMs = sessionIdleMs - 5 * 60_000;
    for (laterMs = 0; laterMs < sessionMaxMs; laterMs += stepMs)
      expect([laterMs, await status()]).toEqual([laterMs, 200]);
    laterMs = sessionMaxMs + 1_000;
    expect(await status()).toBe(401);
    laterMs = 0;
    const idle = await openPage(rowhouse);
    laterMs = sessionIdleMs + 1_000;
    expect(outcome(await idle.call('GET', '/projects'))).toEqual(ended);
    laterMs = 0;
  });

  it('also if the page asked all the time whether it is still open', async () => {
    const page = await openPage(rowhouse);
    const status = async () => (await page.call('GET', '/console/session/state')).status;
    for (laterMs = 0; laterMs < sessionIdleMs; laterMs += sessionIdleMs / 4) expect(await status()).toBe(200);
    laterMs = sessionIdleMs + 1_000;
    expect(await status()).toBe(401);
    laterMs = 0;
  });

  it('at once in every process when its key is revoked, rotated away or replaced, or its project deleted', async () => {
    const [a, b] = [await rowhouse.project('Ending'), await rowhouse.project('Rotating')];
    const scoped = await scopedKey(a.slug, ['query']);
    const cases: [string, () => Promise<unknown>][] = [
      [scoped.api_key, () => rowhouse.call('DELETE', `/projects/${a.slug}/keys/${scoped.key.id}`)],
      [a.key, () => rowhouse.call('DELETE', `/projects/${a.slug}`)],
      [b.key, () => rowhouse.call('POST', `/projects/${b.slug}/keys/rotate`, { body: { grace_seconds: 0 } })],
      [rowhouse.accountKey, replaceAccountKey],
    ];
    for (const [key, end] of cases) {
      const page = await openPage(rowhouse, key);
      const pages = [page, await atSecond(page)];
      for (const each of pages) expect((await each.call('GET', '/projects')).status).toBe(200);
      await end();
      for (const each of pages) expect(outcome(await each.call('GET', '/projects'))).toEqual(ended);
    }
    await bringBackAccountKey();
  });

  it('for good: a revoked account key that is set again does not bring it back', async () => {
    const page = await openPage(rowhouse);
    await replaceAccountKey();
    await bringBackAccountKey();
    expect((await rowhouse.call('GET', '/projects')).status).toBe(200);
    expect(outcome(await page.call('GET', '/console/session'))).toEqual(ended);
  });

  it('when its owner ends it, from the list of the own sessions', async () => {
    const { key } = await rowhouse.project('Listed');
    const [page, other] = [await openPage(rowhouse, key), await openPage(rowhouse, key)];
    await other.call('GET', '/console/session', { headers: { 'user-agent': 'x' } });
    const stranger = await openPage(rowhouse);
    const { body } = await page.call('GET', '/console/sessions');
    expect(body.sessions).toHaveLength(2);
    expect(body.sessions.filter((session: { is_current: boolean }) => session.is_current)).toHaveLength(1);
    expect(JSON.stringify(body)).not.toMatch(/rh_|hash/);
    const { id } = body.sessions.find((session: { is_current: boolean }) => !session.is_current);
    expect(outcome(await stranger.call('DELETE', `/console/sessions/${id}`))).toEqual([
      404,
      'session_not_found',
    ]);
    expect((await (await atSecond(page)).call('DELETE', `/console/sessions/${id}`)).status).toBe(200);
    expect(outcome(await other.call('GET', '/projects'))).toEqual(ended);
    expect(outcome(await page.call('DELETE', `/console/sessions/${id}`))).toEqual([404, 'session_not_found']);
    expect((await page.call('GET', '/projects')).status).toBe(200);
  });

  it('when its key has opened many others since', async () => {
    const { key } = await rowhouse.project('Many');
    const first = await openPage(rowhouse, key);
    for (let n = 0; n < sessionsPerKey; n++) await openPage(rowhouse, key);
    expect(outcome(await first.call('GET', '/projects'))).toEqual(ended);
    const last = await openPage(rowhouse, key);
    expect((await last.call('GET', '/console/sessions')).body.sessions).toHaveLength(sessionsPerKey);
  });
});

describe('keys and connection strings', () => {
  it('are shown for five minutes after signing in, and again after a confirmation with the key', async () => {
    const { slug, key } = await rowhouse.project('Secrets');
    const [page, ofKey] = [await openPage(rowhouse), await openPage(rowhouse, key)];
    const connection = () => page.call('GET', `/projects/${slug}/connection`);
    expect((await connection()).body.connection.password).toBeTruthy();
    laterMs = sessionConfirmedMs + 1_000;
    const body = { name: 'x', scopes: ['query'] };
    const asked = [
      await connection(),
      await page.call('POST', `/projects/${slug}/keys`, { body }),
      await page.call('POST', `/projects/${slug}/keys/rotate`, { body: {} }),
      await page.call('POST', `/projects/${slug}/branches`, { body: { name: 'Copy' } }),
      await page.call('POST', `/projects/${slug}/restore`, { body: { to: new Date().toISOString() } }),
      await ofKey.call('GET', `/projects/${slug}/connection`),
    ];
    expect(asked.map(outcome)).toEqual(asked.map(() => [403, 'confirmation_required']));
    expect((await page.call('GET', '/console/session')).body.confirmed_until).toBeNull();
    // What shows no secret of existing data goes on.
    expect((await page.call('GET', `/projects/${slug}/keys`)).status).toBe(200);
    expect((await page.call('POST', '/projects', { body: { name: 'New' } })).status).toBe(201);
    expect(outcome(await page.call('POST', `/projects/${slug}/restore`, { body: {} }))[1]).not.toBe(
      'confirmation_required',
    );

    const confirm = (who: Page, apiKey: string) =>
      who.call('POST', '/console/session/confirm', { body: { api_key: apiKey } });
    expect(outcome(await confirm(page, key))).toEqual([403, 'forbidden']);
    expect(outcome(await confirm(page, key.replace(/.$/, '!')))).toEqual([401, 'invalid_api_key']);
    expect((await connection()).status).toBe(403);
    const confirmed = await confirm(page, rowhouse.accountKey);
    expect(Date.parse(confirmed.body.confirmed_until)).toBeGreaterThan(now());
    expect((await connection()).status).toBe(200);
    // A project's session: by its own key, or by the key of the account.
    expect((await confirm(ofKey, key)).status).toBe(200);
    expect((await ofKey.call('GET', `/projects/${slug}/connection`)).status).toBe(200);
    laterMs = 0;
  });

  it('a stored answer with a key is not repeated without a confirmation', async () => {
    const { slug } = await rowhouse.project('Repeated');
    const page = await openPage(rowhouse);
    const issue = () =>
      page.call('POST', `/projects/${slug}/keys`, {
        body: { name: 'x', scopes: ['query'] },
        headers: { 'idempotency-key': 'issue' },
      });
    expect((await issue()).status).toBe(201);
    laterMs = sessionConfirmedMs + 1_000;
    expect(outcome(await issue())).toEqual([403, 'confirmation_required']);
    laterMs = 0;
  });

  it('every endpoint that shows one asks for the confirmation', async () => {
    const { body } = await rowhouse.call('GET', '/openapi.json');
    const isSecret = /"(api_key|password)":\{/;
    const schemas = body.components.schemas as Record<string, object>;
    // Schemas that several endpoints share are named once.
    const whole = (value: object): string =>
      JSON.stringify(value).replace(/\{"\$ref":"#\/components\/schemas\/([^"]+)"\}/g, (_ref, name: string) =>
        whole(schemas[name] ?? {}),
      );
    const shown = Object.entries(body.paths as Record<string, Record<string, { responses: object }>>)
      .flatMap(([path, methods]) =>
        Object.entries(methods).map(([method, { responses }]) => ({ name: `${method} ${path}`, responses })),
      )
      .filter(({ responses }) => isSecret.test(whole(responses)))
      .map(({ name }) => name.replace('/api/dbaas/v2', ''))
      .sort();
    // Those of a new project without earlier data are shown at once.
    expect(shown).toEqual([
      'get /projects/{slug}/connection',
      'post /account/keys',
      'post /accounts',
      'post /accounts/{id}/keys',
      'post /projects',
      'post /projects/import',
      'post /projects/{slug}/branches',
      'post /projects/{slug}/keys',
      'post /projects/{slug}/keys/rotate',
      'post /projects/{slug}/restore',
    ]);
  });
});

describe('a sign-in link', () => {
  const link = async () =>
    (await createLink({ control: rowhouse.service.deps.control, now }, 'default')) ?? '';

  it('signs in once, even if twenty browsers use it at the same time in two processes', async () => {
    const code = await link();
    const pages = await Promise.all(
      Array.from({ length: 20 }, async (_, n) => new Page(await listening(n % 2 ? rowhouse : second))),
    );
    const answers = await Promise.all(pages.map((page) => page.signIn({ link: code })));
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
    expect(answers.find(({ status }) => status === 201)?.body.scope).toBe('account');
    const others = answers.filter(({ status }) => status !== 201).map(outcome);
    expect(others).toEqual(Array(19).fill([400, 'invalid_code']));
  });

  it('works for fifteen minutes, and not after the key of the account was replaced', async () => {
    laterMs = 0;
    const late = await link();
    laterMs = 15 * 60_000 + 1_000;
    const page = new Page(await listening(rowhouse));
    expect(outcome(await page.signIn({ link: late }))).toEqual([400, 'invalid_code']);
    laterMs = 0;
    const lost = await link();
    await replaceAccountKey();
    expect(outcome(await page.signIn({ link: lost }))).toEqual([400, 'invalid_code']);
    expect((await page.signIn({ link: await link() })).status).toBe(201);
    await bringBackAccountKey();
  });

  it('is no half of a session, and a token is no link', async () => {
    const page = await openPage(rowhouse);
    const code = await link();
    expect(outcome(await new Page(page.port).signIn({ link: page.token ?? '' }))).toEqual([
      400,
      'invalid_code',
    ]);
    const mixed = new Page(page.port);
    [mixed.cookie, mixed.token] = [page.cookie, code];
    expect(outcome(await mixed.call('GET', '/projects'))).toEqual(ended);
  });
});

it('neither the log nor the control database contains a half of a session or a link', async () => {
  const { control } = rowhouse.service.deps;
  const code = (await createLink({ control, now }, 'default')) ?? '';
  const page = await openPage(rowhouse);
  await page.call('POST', '/projects', { raw: `{"name": "${page.token}` });
  const stored = await control.query<{ row: string }>(
    sql`select console_sessions::text as row from console_sessions union all select console_links::text from console_links`,
  );
  const all = JSON.stringify([stored, rowhouse.log]);
  for (const secret of [page.cookie?.split('=')[1], page.token, code]) {
    expect(secret).toMatch(/^rh_(cookie|token|link)_/);
    expect(stored.length).toBeGreaterThan(1);
    expect(all.includes(secret ?? '')).toBe(false);
  }
});

it('the background work removes sessions and links that have ended', async () => {
  const { control } = rowhouse.service.deps;
  await createLink({ control, now }, 'default');
  await openPage(rowhouse);
  laterMs = sessionMaxMs + 1_000;
  await forgetEndedSessions({ control, now });
  laterMs = 0;
  const [left] = await control.query(
    sql`select (select count(*)::int from console_sessions) as sessions, (select count(*)::int from console_links) as links`,
  );
  expect(left).toEqual({ sessions: 0, links: 0 });
});

import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { unseal } from '../../src/control/seal.ts';
import { makeKey } from '../../src/keys/form.ts';
import { sql } from '../../src/postgres/sql.ts';
import { maxProjectKeys } from '../../src/settings/limits/keys.ts';
import {
  asAdmin,
  openSecondProcess,
  soon,
  type TestService,
  until,
  useTestService,
} from '../support/helpers.ts';

const rowhouse = useTestService();

const issue = (slug: string, body: object, key?: string) =>
  rowhouse.call('POST', `/projects/${slug}/keys`, { body, ...(key && { key }) });
const use = (key: string, at: TestService = rowhouse) =>
  at.call('GET', '/projects', { key }).then(({ status }) => status);

describe('authentication', () => {
  it('many requests at once with a new key look it up once', async () => {
    const { key } = await rowhouse.project('Burst');
    const queries = vi.spyOn(rowhouse.service.deps.control, 'query');
    const { keyRing } = rowhouse.service.deps;
    const callers = await Promise.all(Array.from({ length: 200 }, () => keyRing.verify(key)));
    expect(new Set(callers.map(({ keyId }) => keyId)).size).toBe(1);
    // The keeper may ask something meanwhile.
    expect(queries.mock.calls.length).toBeLessThan(20);
    queries.mockRestore();
  });

  it.each([
    ['no key', {}, 401, 'missing_api_key'],
    ['an empty X-API-Key', { 'x-api-key': '' }, 401, 'missing_api_key'],
    ['another scheme', { authorization: 'Basic abc' }, 401, 'missing_api_key'],
    ['Bearer alone', { authorization: 'Bearer' }, 401, 'missing_api_key'],
    ['no key at all', { authorization: 'Bearer hello' }, 401, 'invalid_api_key'],
    ['a user token', { authorization: 'Bearer eyJhbGciOi.eyJzdWIi.c2ln' }, 401, 'invalid_api_key'],
    ['a made-up key', { 'x-api-key': makeKey('rh_acct_') }, 401, 'invalid_api_key'],
    ['a made-up project key', { authorization: `Bearer ${makeKey('rh_proj_')}` }, 401, 'invalid_api_key'],
    ['a key with SQL in it', { 'x-api-key': "rh_acct_' or 1=1 --" }, 401, 'invalid_api_key'],
  ])('%s is refused', async (_what, headers, status, code) => {
    const answer = await rowhouse.call('GET', '/projects', { key: '', headers });
    expect([answer.status, answer.body.error.code]).toEqual([status, code]);
    expect(answer.headers['www-authenticate']).toContain('Bearer');
  });

  it('a mistyped key is recognised without a database query', async () => {
    const typo = rowhouse.accountKey.replace(/.$/, (last) => (last === 'a' ? 'b' : 'a'));
    const answer = await rowhouse.call('GET', '/projects', { key: typo });
    expect(answer.body.error.message).toContain('mistyped');
  });

  it('both headers may hold the same key but not different ones, and a token is for tables', async () => {
    const { key } = await rowhouse.project();
    const both = (authorization: string) =>
      rowhouse.call('GET', '/projects', { key: rowhouse.accountKey, headers: { authorization } });
    expect((await both(`Bearer ${rowhouse.accountKey}`)).status).toBe(200);
    expect((await both(`bearer  ${rowhouse.accountKey}`)).status).toBe(200);
    const different = await both(`Bearer ${key}`);
    expect([different.status, different.body.error.code]).toEqual([400, 'invalid_request']);
    const token = await both('Bearer eyJhbGciOi.eyJzdWIi.c2ln');
    expect([token.status, token.body.error.hint]).toEqual([
      400,
      'Send only the API key. Access tokens work with …/tables/:table and …/auth/user.',
    ]);
  });
});

describe('additional keys', () => {
  it('are issued with scopes, listed without the secret, and show their last use', async () => {
    const { slug, key } = await rowhouse.project();
    const expires = new Date(Date.now() + 3_600_000).toISOString();
    const { status, body } = await issue(
      slug,
      { name: 'reports', scopes: ['auth', 'tables:read'], tables: ['orders'], expires_at: expires },
      key,
    );
    expect(status).toBe(201);
    expect(body.api_key).toMatch(/^rh_proj_/);
    expect(body.key).toMatchObject({
      name: 'reports',
      kind: 'scoped',
      scopes: ['auth', 'tables:read'],
      tables: ['orders'],
      status: 'active',
      expires_at: expires,
      last_used_at: null,
    });
    expect(body.api_key.startsWith(body.key.start)).toBe(true);
    expect(await use(body.api_key)).toBe(200);

    const list = await rowhouse.call('GET', `/projects/${slug}/keys`, { key });
    expect(list.body.keys.map((entry: { kind: string }) => entry.kind)).toEqual(['project', 'scoped']);
    expect(JSON.stringify(list.body)).not.toContain(body.api_key);
    await until('last use is shown', async () => {
      const { body: later } = await rowhouse.call('GET', `/projects/${slug}/keys`, { key });
      return later.keys[1].last_used_at;
    });
  });

  it.each([
    [{ scopes: ['query'] }, 'name'],
    [{ name: 'x' }, 'scopes'],
    [{ name: 'x', scopes: [] }, 'scopes'],
    [{ name: 'x', scopes: ['root'] }, 'scopes.0'],
    [{ name: 'x', scopes: ['query', 'query'] }, 'scopes'],
    [{ name: 'x', scopes: ['query'], expires_at: '2020-01-01T00:00:00Z' }, 'expires_at'],
    [{ name: 'x', scopes: ['query'], expires_at: 'tomorrow' }, 'expires_at'],
    [{ name: 'x', scopes: ['tables:read'], tables: [''] }, 'tables.0'],
    [{ name: 'x', scopes: ['query'], tables: ['a'] }, 'tables'],
    [{ name: 'x', scopes: Array(60_000).fill(1) }, 'scopes'],
    [{ name: 'x', kind: 'publishable', scopes: ['manage'] }, 'scopes'],
    [{ name: 'x', kind: 'project' }, 'kind'],
    [{ name: 'x', scopes: ['query'], project_id: 'other' }, 'project_id'],
  ])('%j is refused, naming %s', async (body, path) => {
    const { slug } = await rowhouse.project();
    const answer = await issue(slug, body);
    expect(answer.status, JSON.stringify(answer.body)).toBe(400);
    expect(answer.body.error.details.map((problem: { path: string }) => problem.path)).toContain(path);
  });

  it('cannot exceed their scopes, nor issue keys that do', async () => {
    const { slug } = await rowhouse.project();
    const reader = (await issue(slug, { name: 'reader', scopes: ['query:read'] })).body.api_key;
    const browser = (await issue(slug, { name: 'web', kind: 'publishable' })).body;
    expect(browser.api_key).toMatch(/^rh_pub_/);
    expect(browser.key.scopes).toEqual(['auth']);
    const manager = (await issue(slug, { name: 'manager', scopes: ['manage'] })).body.api_key;
    for (const key of [reader, browser.api_key]) {
      const refused = await rowhouse.call('GET', `/projects/${slug}/keys`, { key });
      expect([refused.status, refused.body.error.code]).toEqual([403, 'forbidden']);
      expect(refused.body.error.hint).toContain(
        key === reader ? 'the scope "manage"' : 'use the project key',
      );
      expect((await rowhouse.call('PATCH', `/projects/${slug}`, { key, body: { name: 'x' } })).status).toBe(
        403,
      );
    }
    expect((await rowhouse.call('GET', `/projects/${slug}/keys`, { key: manager })).status).toBe(200);
    expect((await issue(slug, { name: 'more', scopes: ['query'] }, manager)).status).toBe(403);
    expect((await issue(slug, { name: 'same', scopes: ['manage'] }, manager)).status).toBe(201);
    expect((await issue(slug, { name: 'web', kind: 'publishable' }, manager)).status).toBe(403);
    const soonEnded = new Date(Date.now() + 60_000).toISOString();
    const short = {
      name: 'short',
      scopes: ['manage', 'tables:read'],
      tables: ['a', 'b'],
      expires_at: soonEnded,
    };
    const shortKey = (await issue(slug, short)).body.api_key;
    const child = { name: 'child', scopes: ['tables:read'], tables: ['a'] };
    expect((await issue(slug, child, shortKey)).status, 'outlives its issuer').toBe(400);
    expect((await issue(slug, { ...child, expires_at: soonEnded, tables: ['c'] }, shortKey)).status).toBe(
      403,
    );
    expect((await issue(slug, { ...child, expires_at: soonEnded }, shortKey)).status).toBe(201);
    const rotate = await rowhouse.call('POST', `/projects/${slug}/keys/rotate`, { key: manager, body: {} });
    const connection = await rowhouse.call('GET', `/projects/${slug}/connection`, { key: manager });
    expect([rotate.status, connection.status]).toEqual([403, 403]);
  });

  it('expire at their expires_at', async () => {
    const { slug } = await rowhouse.project();
    const expires_at = new Date(Date.now() + 700).toISOString();
    const { body } = await issue(slug, { name: 'short', scopes: ['query'], expires_at });
    expect(await use(body.api_key)).toBe(200);
    await until('the key ends', async () => (await use(body.api_key)) === 401, 5000);
    const { body: list } = await rowhouse.call('GET', `/projects/${slug}/keys`);
    expect(list.keys[1].status).toBe('expired');
  });

  it('are limited in number', async () => {
    const { slug, id } = await rowhouse.project();
    await rowhouse.service.deps.control.query(sql`
      insert into keys (id, kind, account_id, project_id, name, start, hash, scopes)
      select ${id} || n, 'scoped', 'default', ${id}, 'filler', 'rh_proj_', sha256((${id} || n)::bytea), '{query}'
      from generate_series(1, ${maxProjectKeys - 1}) as n`);
    const refused = await issue(slug, { name: 'one too many', scopes: ['query'] });
    expect([refused.status, refused.body.error.code]).toEqual([409, 'conflict']);
    const neighbour = await rowhouse.project();
    expect((await issue(neighbour.slug, { name: 'fine', scopes: ['query'] })).status).toBe(201);
  });
});

describe('revocation on every process', () => {
  let second: TestService;
  beforeAll(async () => {
    second = await openSecondProcess(rowhouse);
  });
  afterAll(() => second.stop());

  it('a revoked key is refused within one second where it is in use', async () => {
    const { slug } = await rowhouse.project();
    const { body } = await issue(slug, { name: 'leaked', scopes: ['query'] });
    for (let times = 0; times < 3; times++) expect(await use(body.api_key, second)).toBe(200);
    const revoked = await rowhouse.call('DELETE', `/projects/${slug}/keys/${body.key.id}`);
    expect(revoked.body.key.status).toBe('revoked');
    await until('it ends elsewhere', async () => (await use(body.api_key, second)) === 401, soon);
    await until('it ends here', async () => (await use(body.api_key)) === 401, soon);
    const again = await rowhouse.call('DELETE', `/projects/${slug}/keys/${body.key.id}`);
    expect(again.body.key.revoked_at).toBe(revoked.body.key.revoked_at);
  });

  it('a stream of other changes never brings a revoked key back', async () => {
    const { slug } = await rowhouse.project();
    const issued = await Promise.all(
      Array.from({ length: 8 }, (_, n) => issue(slug, { name: `k${n}`, scopes: ['query'] })),
    );
    const keys = issued.map(({ body }) => body);
    await Promise.all(
      keys.map(async ({ api_key: apiKey, key }) => {
        const hammer = Promise.all(Array.from({ length: 20 }, () => use(apiKey, second)));
        await rowhouse.call('DELETE', `/projects/${slug}/keys/${key.id}`);
        await hammer;
      }),
    );
    await new Promise((resolve) => setTimeout(resolve, 1000));
    for (const { api_key: apiKey } of keys) expect(await use(apiKey, second)).toBe(401);
  });
});

describe('key rotation', () => {
  it('gives a new key while the old one keeps working for the grace period', async () => {
    const { slug, key: old, id } = await rowhouse.project();
    const { status, body } = await rowhouse.call('POST', `/projects/${slug}/keys/rotate`, { key: old });
    expect(status).toBe(200);
    expect(body.api_key).not.toBe(old);
    expect(body.previous).toMatchObject({ status: 'rotated', kind: 'project' });
    const hours = (Date.parse(body.previous.expires_at) - Date.now()) / 3_600_000;
    expect(hours).toBeGreaterThan(23.9);
    expect(hours).toBeLessThan(24.1);
    expect([await use(old), await use(body.api_key)]).toEqual([200, 200]);

    const { control, masterKey } = rowhouse.service.deps;
    const rows = await control.query<{ id: string; sealed: Buffer }>(
      sql`select id, sealed from keys where project_id = ${id} order by created_at`,
    );
    expect(rows.map((row) => unseal(masterKey, row.sealed, row.id))).toEqual([old, body.api_key]);
  });

  it('with no grace ends the old key at once; the current one cannot be revoked', async () => {
    const { slug, key: old } = await rowhouse.project();
    const { body } = await rowhouse.call('POST', `/projects/${slug}/keys/rotate`, {
      body: { grace_seconds: 0 },
    });
    await until('the old key ends', async () => (await use(old)) === 401, soon);
    const refused = await rowhouse.call('DELETE', `/projects/${slug}/keys/${body.key.id}`);
    expect([refused.status, refused.body.error.code]).toEqual([409, 'conflict']);
    expect(refused.body.error.hint).toContain('rotate');
    expect(await use(body.api_key)).toBe(200);
  });

  it('the holder of the old key cannot get the next one, nor the database password', async () => {
    const { slug, key: old } = await rowhouse.project();
    const fetchUrl = (key: string) => rowhouse.call('GET', `/projects/${slug}/connection`, { key });
    const first = (await fetchUrl(old)).body.connection;
    const rotated = await rowhouse.call('POST', `/projects/${slug}/keys/rotate`, { key: old });
    const again = await rowhouse.call('POST', `/projects/${slug}/keys/rotate`, { key: old });
    // Whether or not the cache of its caller has heard of the rotation.
    expect([again.status, again.body.error.message]).toEqual([
      403,
      'A rotated key cannot rotate the project key.',
    ]);
    await sleep(700);
    expect((await rowhouse.call('POST', `/projects/${slug}/keys/rotate`, { key: old })).status).toBe(403);
    await until('the address is out of its reach', async () => (await fetchUrl(old)).status === 403, soon);
    expect((await fetchUrl(rotated.body.api_key)).body.connection.password).toBe(first.password);
    const login = (connection: object) =>
      asAdmin((database) => database.query(sql`select 1 as one`), { ...first, tls: false, ...connection });
    expect(await login({})).toEqual([{ one: 1 }]);
    const ended = await rowhouse.call('POST', `/projects/${slug}/keys/rotate`, {
      body: { grace_seconds: 0 },
    });
    await expect(login({})).rejects.toThrow();
    const next = (await fetchUrl(ended.body.api_key)).body.connection;
    expect(await login({ password: next.password })).toEqual([{ one: 1 }]);
    const answer = await rowhouse.call('POST', `/projects/${slug}/query`, {
      key: ended.body.api_key,
      body: { query: 'select 1 as one' },
    });
    expect(answer.body.rows).toEqual([{ one: 1 }]);
  });

  it('with no grace ends the old database password although other processes have it cached', async () => {
    const { slug, key } = await rowhouse.project();
    const first = (await rowhouse.call('GET', `/projects/${slug}/connection`, { key })).body.connection;
    const { body: scoped } = await issue(slug, { name: 'reader', scopes: ['query'] });
    const ask = (query: string) =>
      rowhouse.call('POST', `/projects/${slug}/query`, { key: scoped.api_key, body: { query } });
    let isOver = false;
    const goOn = async () => {
      // Each ends its own connection, so that the next has to log in.
      while (!isOver) await ask('select pg_terminate_backend(pg_backend_pid())');
    };
    const going = [goOn(), goOn()];
    const { body } = await rowhouse.call('POST', `/projects/${slug}/keys/rotate`, {
      body: { grace_seconds: 0 },
    });
    isOver = true;
    await Promise.all(going);
    const login = (connection: object) =>
      asAdmin((database) => database.query(sql`select 1 as one`), { ...first, tls: false, ...connection });
    await expect(login({})).rejects.toThrow();
    const next = (await rowhouse.call('GET', `/projects/${slug}/connection`, { key: body.api_key })).body
      .connection;
    expect(await login(next)).toEqual([{ one: 1 }]);
    await until('others are served', async () => (await ask('select 1')).status === 200, soon);
  });

  it('a rotated key can be revoked before its time', async () => {
    const { slug, key: old } = await rowhouse.project();
    const { body } = await rowhouse.call('POST', `/projects/${slug}/keys/rotate`);
    await rowhouse.call('DELETE', `/projects/${slug}/keys/${body.previous.id}`);
    await until('it ends', async () => (await use(old)) === 401, soon);
  });

  it('of several rotations with the same key at once, one succeeds and the others are refused', async () => {
    const { slug, key } = await rowhouse.project();
    const answers = await Promise.all(
      Array.from({ length: 4 }, () => rowhouse.call('POST', `/projects/${slug}/keys/rotate`, { key })),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 403, 403, 403]);
  });

  it('many at once leave exactly one current key, and every answer was right', async () => {
    const { slug, id } = await rowhouse.project();
    const answers = await Promise.all(
      Array.from({ length: 5 }, () => rowhouse.call('POST', `/projects/${slug}/keys/rotate`)),
    );
    const good = answers.filter(({ status }) => status === 200);
    expect(good.length).toBeGreaterThan(0);
    for (const { status } of answers) expect([200, 409]).toContain(status);
    for (const { body } of good) expect(await use(body.api_key)).toBe(200);
    const [row] = await rowhouse.service.deps.control.query(sql`
      select count(*)::int as current from keys
      where project_id = ${id} and kind = 'project' and rotated_at is null and revoked_at is null`);
    expect(row).toEqual({ current: 1 });
  });

  it.each([{ grace_seconds: -1 }, { grace_seconds: 1.5 }, { grace_seconds: 1e9 }, { grace: 5 }, []])(
    'refuses %j',
    async (body) => {
      const { slug } = await rowhouse.project();
      expect((await rowhouse.call('POST', `/projects/${slug}/keys/rotate`, { body })).status).toBe(400);
    },
  );
});

it('no key appears in plain text in the control database or the log', async () => {
  const { slug, key } = await rowhouse.project();
  const { body } = await issue(slug, { name: 'x', scopes: ['query'] });
  const [row] = await rowhouse.service.deps.control.query<{ dump: string }>(sql`
    select string_agg(keys::text, ' ') as dump from keys`);
  for (const secret of [key, body.api_key, rowhouse.accountKey]) {
    expect(row?.dump).not.toContain(secret.slice(12));
    expect(row?.dump).not.toContain(Buffer.from(secret).toString('hex').slice(24));
    expect(rowhouse.log.join('')).not.toContain(secret.slice(12));
  }
});

it('unknown keys and slugs are 404, whatever they look like', async () => {
  const { slug } = await rowhouse.project();
  for (const id of ['key_nope', '..%2F..', '%00', '%27%3B%20drop%20table%20keys', 'x'.repeat(250)]) {
    const { status, body } = await rowhouse.call('DELETE', `/projects/${slug}/keys/${id}`);
    expect([status, body.error.code]).toEqual([404, 'key_not_found']);
  }
  expect((await rowhouse.call('GET', '/projects/nobody-here/keys')).body.error.code).toBe(
    'project_not_found',
  );
});

// Attacks on the console over real HTTP: other sites and ports, DNS rebinding, halves of a session, framing, guessing.
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { burst } from '../../../src/http/console/network-attempts.ts';
import { makeKey } from '../../../src/keys/form.ts';
import { consoleApi, listening, openPage, outcome, Page, send } from '../../support/console-page.ts';
import {
  api,
  openTestService,
  removeTestService,
  type TestService,
  useTestService,
} from '../../support/helpers.ts';

let laterMs = 0;
const rowhouse = useTestService({
  console: { hosts: ['db.example.com', 'other.example.com:8443'], folder: null },
  trustedProxies: ['loopback'],
  now: () => Date.now() + laterMs,
});
let page: Page;
let count = 0;
beforeAll(async () => {
  page = await openPage(rowhouse);
});
beforeEach(() => {
  laterMs = 0;
});

const projects = async () => (await rowhouse.call('GET', '/projects')).body.projects.length;
const create = (headers: Record<string, string | string[] | undefined>, raw?: string) =>
  page.call('POST', '/projects', { raw: raw ?? JSON.stringify({ name: `P${++count}` }), headers });

describe('a request that a browser sends for another page is refused, with a cookie and even with the token', () => {
  const foreign: [string, Record<string, string | string[] | undefined>][] = [
    ['another port of this machine', { origin: 'http://127.0.0.1:9999', 'sec-fetch-site': 'same-site' }],
    ['another site', { origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' }],
    ['a frame without an origin', { origin: 'null', 'sec-fetch-site': 'cross-site' }],
    ['a browser that names no site', { 'sec-fetch-site': undefined }],
    [
      'an address bar',
      { 'sec-fetch-site': 'none', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' },
    ],
    ['a wrong site with the right origin', { 'sec-fetch-site': 'same-site' }],
    ['the right site with a wrong origin', { origin: 'http://127.0.0.1:9999' }],
    ['the same host by another name', { origin: undefined, 'sec-fetch-site': 'same-site' }],
    ['no origin', { origin: undefined }],
    ['an empty origin', { origin: '' }],
    ['two origins in one header', { origin: 'http://127.0.0.1:1, http://evil.example' }],
    ['an origin that begins with the right one', { origin: 'OWN.evil.example' }],
    ['a form', { 'sec-fetch-dest': 'document', 'sec-fetch-mode': 'navigate' }],
    ['a frame', { 'sec-fetch-dest': 'iframe', 'sec-fetch-mode': 'navigate' }],
    ['an image', { 'sec-fetch-dest': 'image', 'sec-fetch-mode': 'no-cors' }],
    ['a script', { 'sec-fetch-dest': 'script', 'sec-fetch-mode': 'no-cors' }],
    ['a destination that is not named', { 'sec-fetch-dest': undefined }],
  ];

  it.each(foreign)('%s', async (_what, headers) => {
    const own = Object.fromEntries(
      Object.entries(headers).map(([name, value]) => [
        name,
        typeof value === 'string' ? value.replace('OWN', page.origin) : value,
      ]),
    );
    const before = await projects();
    const answers = [
      await create(own),
      await page.call('POST', '/console/session', { body: { api_key: rowhouse.accountKey }, headers: own }),
      await page.call('DELETE', '/console/session', { headers: own }),
    ];
    expect(answers.map(outcome)).toEqual(answers.map(() => [403, 'forbidden']));
    for (const answer of answers) expect(answer.headers).not.toHaveProperty('set-cookie');
    expect(await projects()).toBe(before);
    expect((await page.call('GET', '/console/session')).status).toBe(200);
  });

  it('a read from another port gets nothing, and no answer allows other origins to read it', async () => {
    const read = (headers: Record<string, string>) => page.call('GET', '/projects', { headers });
    const answers = [
      await read({ origin: 'http://127.0.0.1:9999', 'sec-fetch-site': 'same-site' }),
      await read({ 'sec-fetch-site': 'same-site' }),
      await read({ 'sec-fetch-site': 'cross-site', 'sec-fetch-dest': 'image' }),
    ];
    expect(answers.map(outcome)).toEqual(answers.map(() => [403, 'forbidden']));
    const own = await read({ origin: page.origin });
    expect(own.status).toBe(200);
    const preflight = {
      origin: 'https://evil.example',
      host: page.host,
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'rowhouse-console-token',
    };
    for (const path of [`${consoleApi}/projects`, '/console/session', '/console/nowhere', '/console/'])
      answers.push(await send(page.port, 'OPTIONS', path, { headers: preflight }));
    // The API itself allows other origins.
    const elsewhere = await send(page.port, 'OPTIONS', `${api}/projects`, { headers: preflight });
    expect(elsewhere.headers['access-control-allow-origin']).toBe('*');
    for (const { status, headers } of [...answers, own]) {
      expect(Object.keys(headers).filter((name) => name.startsWith('access-control'))).toEqual([]);
      expect(status).not.toBe(204);
    }
  });

  it('a body in a form that needs no preflight', async () => {
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data; boundary=x'])
      expect(outcome(await create({ 'content-type': type }))).toEqual([415, 'unsupported_media_type']);
    for (const type of ['text/plain', 'text/csv'])
      expect(
        outcome(
          await page.call('POST', '/console/session', { raw: '{}', headers: { 'content-type': type } }),
        ),
      ).toEqual([415, 'unsupported_media_type']);
  });

  it('headers that come twice', async () => {
    for (const name of ['origin', 'sec-fetch-site', 'sec-fetch-dest']) {
      const right = page.headers('POST')[name] as string;
      expect(outcome(await create({ [name]: [right, 'https://evil.example'] })), name).toEqual([
        400,
        'invalid_request',
      ]);
    }
  });

  it('a path in another spelling', async () => {
    for (const path of ['/%63onsole/api/dbaas/v2/projects', '/console/%61pi/dbaas/v2/projects']) {
      const headers = {
        ...page.headers('POST'),
        origin: 'https://evil.example',
        'content-type': 'application/json',
      };
      const before = await projects();
      const { status } = await send(page.port, 'POST', path, { headers, raw: '{"name": "Spelled"}' });
      expect([403, 404]).toContain(status);
      expect(await projects()).toBe(before);
    }
  });
});

describe('DNS rebinding', () => {
  const rebound = (host: string) => ({ host, origin: `http://${host}` });

  it.each([
    ['evil.example'],
    ['127.0.0.1.evil.example'],
    ['localhost.evil.example'],
    ['db.example.com.evil.example'],
    ['other.example.com'],
    ['other.example.com:8444'],
    ['192.168.1.5:8765'],
    ['0.0.0.0:8765'],
    ['[::]:8765'],
    // Not a host: refused before any route.
    ['127.0.0.1@evil.example', 400, 'invalid_request'],
    ['127.0.0.1:1:2', 400, 'invalid_request'],
    ['', 400, 'invalid_request'],
  ])(
    'under the host %j nothing can be used, pages included',
    async (host, status = 403, code = 'forbidden') => {
      const { port } = page;
      const wanted = [status, code];
      expect(outcome(await page.call('GET', '/projects', { headers: { host } }))).toEqual(wanted);
      expect(outcome(await create(rebound(host)))).toEqual(wanted);
      const signIn = { body: { api_key: rowhouse.accountKey }, headers: rebound(host) };
      expect(outcome(await page.call('POST', '/console/session', signIn))).toEqual(wanted);
      expect((await send(port, 'GET', '/console/', { headers: { host } })).status).toBe(status);
      expect((await send(port, 'GET', '/console/assets/x.js', { headers: { host } })).status).toBe(status);
    },
  );

  it('a page says why to people, as text', async () => {
    const headers = { host: 'a_script.example', accept: 'text/html' };
    const { status, text } = await send(page.port, 'GET', '/console/', { headers });
    expect([status, text.includes('ROWHOUSE_CONSOLE_HOSTS')]).toEqual([403, true]);
    const markup = { ...headers, host: '<script>.example' };
    expect((await send(page.port, 'GET', '/console/', { headers: markup })).text).not.toContain('<script>');
  });

  it('a forwarded host does not help, although the proxy is trusted', async () => {
    const headers = {
      ...rebound('evil.example'),
      'x-forwarded-host': '127.0.0.1',
      'x-forwarded-proto': 'https',
    };
    expect(outcome(await create(headers))).toEqual([403, 'forbidden']);
  });

  it.each([
    ['localhost'],
    ['localhost:8765'],
    ['127.0.0.1'],
    ['127.8.9.1:80'],
    ['[::1]:8765'],
    ['LOCALHOST:1'],
  ])('this machine may be called %s', async (host) => {
    const origin = `http://${host.toLowerCase()}`;
    const mine = await openPage(rowhouse, rowhouse.accountKey, origin);
    expect((await mine.call('GET', '/projects')).status).toBe(200);
  });
});

describe('a session', () => {
  it('needs both halves, of the same session, each in its place', async () => {
    const other = await openPage(rowhouse);
    const wanted = [401, 'session_required'];
    const token = 'rowhouse-console-token';
    const cases: Record<string, string | undefined>[] = [
      { cookie: undefined },
      { [token]: undefined },
      { cookie: other.cookie },
      { [token]: other.token },
      { [token]: page.cookie?.split('=')[1] },
      { cookie: page.cookie?.replace(/=.*/, `=${page.token}`) },
      { cookie: page.cookie?.replace(/.$/, '') },
      { [token]: '' },
      { [token]: `${page.token}x` },
      { cookie: page.cookie?.replace(/^\w+=/, 'rowhouse_console=') },
    ];
    for (const headers of cases)
      for (const [method, path] of [
        ['GET', '/projects'],
        ['DELETE', '/console/session'],
        ['GET', '/console/sessions'],
        ['POST', '/console/session/confirm'],
      ] as const)
        expect(outcome(await page.call(method, path, { headers }))).toEqual(wanted);
    const inUrl = await page.call('GET', `/projects?token=${page.token}`, {
      headers: { [token]: undefined },
    });
    expect(outcome(inUrl)).toEqual(wanted);
    expect((await page.call('GET', '/projects')).status).toBe(200);
  });

  it('gives out neither half again', async () => {
    const answers = [
      await page.call('GET', '/console/session'),
      await page.call('GET', '/console/sessions'),
      await page.call('POST', '/console/session/confirm', { body: { api_key: rowhouse.accountKey } }),
    ];
    for (const { status, text, headers } of answers) {
      expect([status, text.match(/rh_/g), headers['set-cookie']]).toEqual([200, null, undefined]);
    }
  });

  it('does not count on the public API, and a key does not count on the console', async () => {
    const headers = page.headers('GET');
    expect(outcome(await send(page.port, 'GET', `${api}/projects`, { headers }))).toEqual([
      401,
      'missing_api_key',
    ]);
    const query = {
      headers: { ...page.headers('POST'), 'content-type': 'application/json' },
      raw: '{"query":"select 1"}',
    };
    expect(outcome(await send(page.port, 'POST', `${api}/projects/x/query`, query))).toEqual([
      401,
      'missing_api_key',
    ]);
    const keys = [{ 'x-api-key': rowhouse.accountKey }, { authorization: `Bearer ${rowhouse.accountKey}` }];
    for (const key of keys) {
      expect(outcome(await page.call('GET', '/projects', { headers: key }))).toEqual([
        400,
        'invalid_request',
      ]);
      const alone = { ...key, cookie: undefined, 'rowhouse-console-token': undefined };
      expect(outcome(await page.call('GET', '/projects', { headers: alone }))).toEqual([
        400,
        'invalid_request',
      ]);
    }
  });

  it('is a new one after each sign-in: a cookie that was planted before does not become part of it', async () => {
    const planted = await openPage(rowhouse);
    const victim = new Page(page.port);
    victim.cookie = planted.cookie;
    expect((await victim.signIn({ api_key: rowhouse.accountKey })).status).toBe(201);
    expect(victim.cookie).not.toBe(planted.cookie);
    const thief = new Page(page.port);
    [thief.cookie, thief.token] = [planted.cookie, victim.token];
    expect(outcome(await thief.call('GET', '/projects'))).toEqual([401, 'session_required']);
    // The session of the replaced cookie has ended.
    expect(outcome(await planted.call('GET', '/projects'))).toEqual([401, 'session_required']);
    expect((await victim.call('GET', '/projects')).status).toBe(200);
  });

  it('survives a sign-in with an invalid link, to which any website can lead', async () => {
    const victim = await openPage(rowhouse);
    const { cookie, token } = victim;
    const refused = await victim.signIn({ link: `rh_link_${'A'.repeat(43)}` });
    expect(outcome(refused)).toEqual([400, 'invalid_code']);
    [victim.cookie, victim.token] = [cookie, token];
    expect((await victim.call('GET', '/projects')).status).toBe(200);
  });

  it('survives a cookie of the same name that another server on this machine adds', async () => {
    const name = page.cookie?.split('=')[0];
    for (const cookie of [`${name}=x; ${page.cookie}`, `${page.cookie}; ${name}=rh_cookie_${'a'.repeat(43)}`])
      expect((await page.call('GET', '/projects', { headers: { cookie } })).status).toBe(200);
  });
});

describe('behind a proxy with TLS', () => {
  it('the cookie is Secure and has the prefix __Host-, and no other counts', async () => {
    const remote = new Page(page.port, 'https://db.example.com');
    const { status, headers } = await remote.signIn({ api_key: rowhouse.accountKey });
    expect([status, headers['set-cookie']]).toEqual([
      201,
      [
        expect.stringMatching(
          /^__Host-rowhouse_console=rh_cookie_[\w-]{43}; Path=\/; Secure; HttpOnly; SameSite=Strict; Max-Age=43200$/,
        ),
      ],
    ]);
    expect((await remote.call('GET', '/projects')).status).toBe(200);
    expect((await remote.call('GET', '/projects', { headers: { host: 'DB.example.com:443' } })).status).toBe(
      401,
    );
    const unprotected = remote.cookie?.replace('__Host-', '');
    const answer = await remote.call('GET', '/projects', { headers: { cookie: unprotected } });
    expect(outcome(answer)).toEqual([401, 'session_required']);
    const withPort = await openPage(rowhouse, rowhouse.accountKey, 'https://other.example.com:8443');
    expect((await withPort.call('GET', '/projects')).status).toBe(200);
  });

  it('plain HTTP from another machine is refused with the reason', async () => {
    const plain = new Page(page.port, 'http://db.example.com');
    const signedIn = await plain.signIn({ api_key: rowhouse.accountKey });
    expect([signedIn.status, signedIn.body.error.message]).toEqual([403, expect.stringContaining('HTTPS')]);
    // As browsers do it there: without Sec-Fetch-… headers.
    const bare = { 'sec-fetch-site': undefined, 'sec-fetch-mode': undefined, 'sec-fetch-dest': undefined };
    const read = await plain.call('GET', '/console/session', { headers: bare });
    expect([read.status, read.body.error.hint]).toEqual([403, expect.stringContaining('certificate')]);
  });
});

it('every answer forbids framing, guessing of types, referrers and caching', async () => {
  const answers = [
    await page.call('GET', '/console/'),
    await page.call('GET', '/console/projects/some/table'),
    await page.call('GET', '/console/assets/none.js'),
    await page.call('GET', '/projects'),
    await page.call('GET', '/nowhere'),
    await page.call('GET', '/projects/none'),
    await page.call('GET', '/console/session', { headers: { cookie: undefined } }),
    await page.call('POST', '/projects', { headers: { origin: 'https://evil.example' } }),
    await page.call('GET', '/console/%zz'),
    await page.call('PUT', '/projects'),
    await page.call('POST', '/console/'),
    await page.call('DELETE', '/console'),
    await page.call('PUT', '/console/session'),
    await page.call('PATCH', '/console/assets/none.js'),
    await page.call('POST', '/console/nowhere'),
  ];
  expect(answers.slice(-6).map(outcome)).toEqual(Array(6).fill([405, 'method_not_allowed']));
  for (const { headers } of answers) {
    expect(headers).toMatchObject({
      'content-security-policy':
        "default-src 'self'; script-src 'self'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
      'x-frame-options': 'DENY',
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      'cross-origin-opener-policy': 'same-origin',
      'cross-origin-resource-policy': 'same-origin',
      'cache-control': 'no-store',
    });
  }
});

describe('guessing', () => {
  const from = (address: string) => ({ 'x-forwarded-for': address });
  const attempt = (body: { api_key: string } | { link: string }, address: string) =>
    new Page(page.port).signIn(body, from(address));

  it('is limited for each network, costs others nothing, and ends by itself', async () => {
    const codes: (string | undefined)[] = [];
    for (let n = 0; n < burst + 3; n++) {
      const guess = n % 2 ? { api_key: makeKey('rh_acct_') } : { link: `rh_link_${'a'.repeat(43)}` };
      codes.push(outcome(await attempt(guess, '203.0.113.7'))[1]);
    }
    expect(codes.slice(0, burst).sort()).toEqual([
      ...Array(5).fill('invalid_api_key'),
      ...Array(5).fill('invalid_code'),
    ]);
    expect(codes.slice(burst)).toEqual(Array(3).fill('rate_limited'));
    const right = { api_key: rowhouse.accountKey };
    const refused = await attempt(right, '203.0.113.7');
    expect([refused.status, Number(refused.headers['retry-after'])]).toEqual([429, expect.any(Number)]);
    expect(Number(refused.headers['retry-after'])).toBeLessThan(60);
    // The neighbour, the signed-in and programs notice nothing.
    expect((await attempt(right, '203.0.113.8')).status).toBe(201);
    expect((await page.call('GET', '/projects', { headers: from('203.0.113.7') })).status).toBe(200);
    expect((await rowhouse.call('GET', '/projects')).status).toBe(200);
    laterMs = (Number(refused.headers['retry-after']) + 1) * 1000;
    expect((await attempt(right, '203.0.113.7')).status).toBe(201);
  });

  it('many at once do not exceed the limit, and an IPv6 network counts as one', async () => {
    const answers = await Promise.all(
      Array.from({ length: 60 }, (_, n) =>
        attempt({ api_key: makeKey('rh_proj_') }, `2001:db8:1:2::${n + 1}`),
      ),
    );
    expect(answers.filter(({ status }) => status === 401)).toHaveLength(burst);
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(60 - burst);
  });

  it('right keys are never counted', async () => {
    for (let n = 0; n < burst * 2; n++)
      expect((await attempt({ api_key: rowhouse.accountKey }, '203.0.113.9')).status).toBe(201);
  });

  it('a stolen session cannot guess the key for a confirmation', async () => {
    const stolen = await openPage(rowhouse);
    const confirm = (apiKey: string) =>
      stolen.call('POST', '/console/session/confirm', { body: { api_key: apiKey } });
    const codes = [];
    for (let n = 0; n < burst + 1; n++) codes.push(outcome(await confirm(makeKey('rh_acct_')))[1]);
    expect(codes).toEqual([...Array(burst).fill('invalid_api_key'), 'rate_limited']);
    expect(
      (await page.call('POST', '/console/session/confirm', { body: { api_key: rowhouse.accountKey } }))
        .status,
    ).toBe(200);
  });
});

it('bodies of sign-ins are small, and are read only from the page', async () => {
  const long = JSON.stringify({ api_key: 'x'.repeat(40_000) });
  expect(outcome(await page.call('POST', '/console/session', { raw: long }))).toEqual([
    413,
    'payload_too_large',
  ]);
});

describe('with ROWHOUSE_CONSOLE=off', () => {
  let off: TestService;
  beforeAll(async () => {
    off = await openTestService({ console: null, spares: 0 });
  });
  afterAll(async () => {
    const { installation } = off.service.deps.server;
    await off.stop();
    await removeTestService(off.controlDatabase, installation);
  });

  it('nothing answers at its paths', async () => {
    const own = new Page(await listening(off));
    const headers = { ...own.headers('GET'), accept: 'text/html' };
    const paths = ['/', '/console', '/console/', '/console/x', '/console/session', `${consoleApi}/projects`];
    for (const path of paths)
      expect(outcome(await send(own.port, 'GET', path, { headers }))).toEqual([404, 'route_not_found']);
    expect(outcome(await own.signIn({ api_key: off.accountKey }))).toEqual([404, 'route_not_found']);
  });
});

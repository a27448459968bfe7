import { createHash, createHmac } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { jwtVerify } from 'jose';
import { beforeAll, describe, expect, it } from 'vitest';
import { openDatabase } from '../../../src/postgres/admin/database.ts';
import { type Sql, sql } from '../../../src/postgres/sql.ts';
import { loginOf } from '../../../src/servers/databases/login.ts';
import { authRoleOf, databaseOf } from '../../../src/servers/databases/names.ts';
import {
  type Answer,
  address,
  asAdmin,
  openSecondProcess,
  soon,
  until,
  useTestService,
} from '../../support/helpers.ts';

const rowhouse = useTestService();
type Project = { slug: string; id: string; key: string };
let shop: Project;
let other: Project;
beforeAll(async () => {
  shop = await rowhouse.project('Shop');
  other = await rowhouse.project('Other');
});

let count = 0;
const newEmail = () => `user${++count}@example.com`;
const password = 'correct horse battery';
type More = { key?: string; token?: string; headers?: Record<string, string>; raw?: string };
const auth = (method: string, path: string, body?: unknown, more: More = {}, project = shop) =>
  rowhouse.call(method, `/projects/${project.slug}/auth/${path}`, {
    key: more.key ?? project.key,
    ...(body !== undefined && { body }),
    ...(more.raw !== undefined && { raw: more.raw }),
    headers: { ...(more.token && { authorization: `Bearer ${more.token}` }), ...more.headers },
  });
const signUp = async (email = newEmail(), more: More = {}, project = shop) => {
  const { status, body } = await auth('POST', 'signup', { email, password }, more, project);
  expect(status, JSON.stringify(body)).toBe(201);
  return { email, user: body.user, session: body.session, token: body.session.access_token as string };
};
const signIn = (email: string, word = password, more: More = {}, project = shop) =>
  auth('POST', 'signin', { email, password: word }, more, project);
const codeOf = ({ status, body }: Answer) => [status, body.error?.code];
const issueKey = async (body: object, project = shop) => {
  const issued = await rowhouse.call('POST', `/projects/${project.slug}/keys`, { key: project.key, body });
  expect(issued.status, JSON.stringify(issued.body)).toBe(201);
  return issued.body.api_key as string;
};
const publishable = (project = shop) => issueKey({ name: 'browser', kind: 'publishable' }, project);
const inside = <R>(statement: Sql, project = shop) =>
  asAdmin((admin) => admin.query<R>(statement), { ...address(), database: databaseOf(project.id) });
const query = (text: string, params: unknown[] = [], project = shop) =>
  rowhouse.call('POST', `/projects/${project.slug}/query`, {
    key: project.key,
    body: { query: text, params },
  });
const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');
const claimsOf = (token: string) =>
  JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString());

describe('sign-up', () => {
  it('answers with the new user and a session', async () => {
    const email = newEmail();
    const { status, body } = await auth('POST', 'signup', { email, password, data: { name: 'Ada' } });
    expect(status).toBe(201);
    expect(body).toEqual({
      ok: true,
      user: {
        id: expect.stringMatching(/^[0-9a-f-]{36}$/),
        email,
        role: 'authenticated',
        data: { name: 'Ada' },
        created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/),
        last_sign_in_at: expect.stringMatching(/Z$/),
        email_verified_at: null,
        banned_at: null,
      },
      session: {
        access_token: expect.any(String),
        token_type: 'bearer',
        expires_in: 86_400,
        expires_at: expect.stringMatching(/Z$/),
        refresh_token: expect.stringMatching(/^rh_ref_/),
      },
    });
    const { payload, protectedHeader } = await jwtVerify(
      body.session.access_token,
      new TextEncoder().encode(shop.key),
      { issuer: `rowhouse-auth:${shop.slug}`, algorithms: ['HS256'] },
    );
    expect(payload).toMatchObject({ sub: body.user.id, email, role: 'authenticated' });
    expect((payload.exp ?? 0) - (payload.iat ?? 0)).toBe(86_400);
    expect(protectedHeader).toEqual({ alg: 'HS256', typ: 'JWT', kid: expect.stringMatching(/^key_/) });
    expect(body.session.expires_at).toBe(new Date((payload.exp ?? 0) * 1000).toISOString());
  });

  it('keeps nothing but a salted PBKDF2 hash of the password', async () => {
    const [one, two] = [await signUp(), await signUp()];
    const rows = await inside<{ hash: string }>(sql`
      select hash from auth.passwords where user_id in (${one.user.id}::uuid, ${two.user.id}::uuid)`);
    for (const { hash } of rows) expect(hash).toMatch(/^\$pbkdf2-sha256\$i=1000\$[\w+/]{22}\$[\w+/]{43}$/);
    expect(new Set(rows.map(({ hash }) => hash)).size).toBe(2);
    expect(rowhouse.log.join('')).not.toContain(password);
  });

  it('accepts an e-mail address once, whatever its case and form', async () => {
    const email = `Zoë.${++count}@Example.com`;
    const first = await signUp(`  ${email} `);
    expect(first.user.email).toBe(email);
    for (const same of [email.toLowerCase(), email.toUpperCase(), email.normalize('NFD'), ` ${email}`]) {
      expect(codeOf(await auth('POST', 'signup', { email: same, password }))).toEqual([409, 'email_taken']);
      expect((await signIn(same)).body.user?.id).toBe(first.user.id);
    }
    expect((await auth('POST', 'signup', { email, password }, {}, other)).status).toBe(201);
  });

  it('with the same e-mail address at the same moment creates one user; the others get 409', async () => {
    const email = newEmail();
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => auth('POST', 'signup', { email, password })),
    );
    const statuses = answers.map(({ status }) => status).sort();
    expect(statuses).toEqual([201, ...Array(7).fill(409)]);
    expect(await inside(sql`select 1 from auth.users where email = ${email}`)).toHaveLength(1);
  });

  it('sets a role only if the key may manage', async () => {
    const body = () => ({ email: newEmail(), password, data: { role: 'admin', n: 1 } });
    const managed = await auth('POST', 'signup', body());
    expect([managed.body.user.role, claimsOf(managed.body.session.access_token).role]).toEqual([
      'admin',
      'admin',
    ]);
    const account = await auth('POST', 'signup', body(), { key: rowhouse.accountKey });
    expect(account.body.user.role).toBe('admin');
    const scoped = await auth('POST', 'signup', body(), {
      key: await issueKey({ name: 'auth', scopes: ['auth'] }),
    });
    expect([scoped.status, scoped.body.user.role, scoped.body.user.data.role]).toEqual([
      201,
      'authenticated',
      'admin',
    ]);
    const open = await auth('POST', 'signup', body(), { key: await publishable() });
    expect(codeOf(open)).toEqual([403, 'forbidden']);
    const odd = { email: newEmail(), password, data: { role: ['admin'] } };
    expect(codeOf(await auth('POST', 'signup', odd))).toEqual([400, 'invalid_request']);
  });

  it('needs the scope auth', async () => {
    const key = await issueKey({ name: 'reader', scopes: ['tables:read'] });
    expect(codeOf(await auth('POST', 'signup', { email: newEmail(), password }, { key }))).toEqual([
      403,
      'forbidden',
    ]);
    expect(codeOf(await auth('POST', 'signup', { email: newEmail(), password }, { key: other.key }))).toEqual(
      [404, 'project_not_found'],
    );
  });

  it('refuses an invalid e-mail address, password or data before anything is hashed or stored', async () => {
    const before = await inside(sql`select count(*) from auth.users`);
    const email = newEmail();
    const bad: [string, unknown][] = [
      ['no @', { email: 'ada', password }],
      ['two @', { email: 'a@b@c', password }],
      ['a full-width second @', { email: 'a@b＠c', password }],
      ['255 characters', { email: `${'a'.repeat(243)}@example.com`, password }],
      ['a blank inside', { email: 'a b@example.com', password }],
      ['a zero-width joiner', { email: 'a\u200db@example.com', password }],
      ['NUL in the e-mail', { email: 'a\0@example.com', password }],
      ['an array as e-mail', { email: [email], password }],
      ['an object as e-mail', { email: { $ne: null }, password }],
      ['a number as password', { email, password: 12345678 }],
      ['an array as password', { email, password: [password] }],
      ['no password', { email }],
      ['7 bytes', { email, password: '1234567' }],
      ['1,025 bytes', { email, password: 'x'.repeat(1025) }],
      ['1,024 characters that are more bytes', { email, password: 'é'.repeat(1024) }],
      ['NUL in the password', { email, password: `${password}\0` }],
      ['data that is a list', { email, password, data: [1] }],
      ['data that is text', { email, password, data: 'x' }],
      ['data that is null', { email, password, data: null }],
      ['NUL in data', { email, password, data: { a: ['x\0'] } }],
      ['data of more than 64 KB', { email, password, data: { a: 'x'.repeat(65_536) } }],
      ['an unknown field', { email, password, role: 'admin' }],
    ];
    for (const [what, body] of bad)
      expect(codeOf(await auth('POST', 'signup', body)), what).toEqual([400, 'invalid_request']);
    const deep = `{"email":"${email}","password":"${password}","data":{"a":${'['.repeat(5000)}${']'.repeat(5000)}}}`;
    expect(codeOf(await auth('POST', 'signup', undefined, { raw: deep }))).toEqual([400, 'invalid_request']);
    const half = `{"email":"${email}","password":"12345678\\ud800"}`;
    expect(codeOf(await auth('POST', 'signup', undefined, { raw: half }))[0]).toBe(400);
    const huge = { email, password: 'x'.repeat(10 * 1024 * 1024) };
    expect(codeOf(await auth('POST', 'signup', huge))).toEqual([413, 'payload_too_large']);
    expect(await inside(sql`select count(*) from auth.users`)).toEqual(before);
  });

  it('stores data as it was sent', async () => {
    const raw = `{"email":"${newEmail()}","password":"${password}","data":{"__proto__":{"admin":true},"constructor":1,"big":12345678901234567890123,"small":0.1000,"text":"ü\\u2028","nested":{"a":[1,{"b":null}]}}}`;
    const { status, body } = await auth('POST', 'signup', undefined, { raw });
    expect(status, JSON.stringify(body)).toBe(201);
    expect(({} as Record<string, unknown>).admin).toBeUndefined();
    const [row] = await inside<{ data: string }>(
      sql`select data::text from auth.users where id = ${body.user.id}::uuid`,
    );
    expect(row?.data).toContain('12345678901234567890123');
    expect(row?.data).toContain('"__proto__": {"admin": true}');
    const text = await rowhouse.app.inject({
      method: 'GET',
      url: `/api/dbaas/v2/projects/${shop.slug}/auth/users/${body.user.id}`,
      headers: { 'x-api-key': shop.key },
    });
    expect(text.body).toContain('12345678901234567890123');
    expect(text.body).toContain('"__proto__":{"admin":true}');
  });

  it('refuses numbers in data that would be written with thousands of zeros or cannot be stored', async () => {
    const problem = async (data: string) => {
      const raw = `{"email":"${newEmail()}","password":"${password}","data":${data}}`;
      const { status, body } = await auth('POST', 'signup', undefined, { raw });
      return [status, body.error?.details?.[0]?.problem];
    };
    const tooMuch = [400, 'must be at most 65536 bytes of JSON'];
    expect(await problem(`{"a":[${Array(300).fill('1e131071').join()}]}`)).toEqual(tooMuch);
    expect(await problem(`{"a":[${Array(300).fill('1e299').join()}]}`)).toEqual(tooMuch);
    expect(await problem('{"a":1e999999}')).toEqual(tooMuch);
    for (const number of ['1e-100000', `0.${'0'.repeat(16_383)}1`])
      expect(await problem(`{"a":{"b":${number}}}`)).toEqual([
        400,
        expect.stringContaining('decimal places'),
      ]);
    for (const number of ['1e60000', '1.5e-16382', '-1.25E+10', '5e-324', '0'])
      expect(await problem(`{"a":${number}}`)).toEqual([201, undefined]);
  });

  it('is limited per address for publishable keys only', async () => {
    const key = await publishable();
    const proxied = { key, headers: {} };
    const answers = [];
    for (let n = 0; n < 31; n++)
      answers.push(await auth('POST', 'signup', { email: newEmail(), password }, proxied));
    expect(answers.slice(0, 30).every(({ status }) => status === 201)).toBe(true);
    const last = answers[30] as Answer;
    expect(codeOf(last)).toEqual([429, 'rate_limited']);
    expect(Number(last.headers['retry-after'])).toBeGreaterThan(0);
    expect((await auth('POST', 'signup', { email: newEmail(), password })).status).toBe(201);
    await inside(sql`delete from auth.attempts`);
  });

  it('refuses the most common passwords if the project is set so', async () => {
    const project = await rowhouse.project('Careful');
    const sign = (word: string) => auth('POST', 'signup', { email: newEmail(), password: word }, {}, project);
    expect((await sign('password123')).status).toBe(201);
    const settings = await auth('PATCH', 'settings', { refuse_common_passwords: true }, {}, project);
    expect(settings.body).toEqual({ ok: true, settings: { refuse_common_passwords: true } });
    expect(codeOf(await sign('password123'))).toEqual([400, 'invalid_request']);
    expect(codeOf(await sign('Password123'))).toEqual([400, 'invalid_request']);
    expect((await sign(password)).status).toBe(201);
    expect((await auth('GET', 'settings', undefined, {}, project)).body.settings).toEqual({
      refuse_common_passwords: true,
    });
    const key = await publishable(project);
    expect(codeOf(await auth('GET', 'settings', undefined, { key }, project))).toEqual([403, 'forbidden']);
  });
});

describe('sign-in', () => {
  it('answers in the same form as sign-up', async () => {
    const { email, user } = await signUp();
    const { status, body } = await signIn(email);
    expect(status).toBe(200);
    expect(body.user).toEqual({ ...user, last_sign_in_at: expect.any(String) });
    expect(Object.keys(body.session)).toEqual([
      'access_token',
      'token_type',
      'expires_in',
      'expires_at',
      'refresh_token',
    ]);
    expect(body.user.last_sign_in_at >= user.last_sign_in_at).toBe(true);
  });

  it('gives the same answer to a wrong e-mail address and a wrong password', async () => {
    const { email } = await signUp();
    const wrong = await signIn(email, 'another password');
    const nobody = await signIn(newEmail());
    const short = await signIn(email, 'x');
    for (const answer of [wrong, nobody, short]) {
      expect(answer.status).toBe(401);
      expect(answer.body.error).toEqual(wrong.body.error);
    }
    expect(wrong.body.error.code).toBe('invalid_credentials');
    expect((await signIn(email, 'x'.repeat(2000))).status).toBe(400);
  });

  it('does not accept a password with NUL bytes appended, although HMAC pads its key with zeros', async () => {
    const email = newEmail();
    await auth('POST', 'signup', { email, password: 'éééé' });
    expect(codeOf(await signIn(email, 'éééé\0'))).toEqual([400, 'invalid_request']);
    const token = (await signIn(email, 'éééé')).body.session.access_token;
    const change = { password, current_password: 'éééé\0' };
    expect(codeOf(await auth('PATCH', 'user', change, { token }))).toEqual([400, 'invalid_request']);
  });

  it('rehashes a password when the number of iterations was raised', async () => {
    const { email, user } = await signUp();
    const stronger = await openSecondProcess(rowhouse, { passwordIterations: 2_000 });
    try {
      const hash = async () => {
        const [row] = await inside<{ hash: string }>(
          sql`select hash from auth.passwords where user_id = ${user.id}::uuid`,
        );
        return row?.hash ?? '';
      };
      const before = await hash();
      const path = `/projects/${shop.slug}/auth/signin`;
      const call = (word: string) =>
        stronger.call('POST', path, { key: shop.key, body: { email, password: word } });
      expect((await call('another password')).status).toBe(401);
      expect(await hash()).toBe(before);
      expect((await call(password)).status).toBe(200);
      expect(await hash()).toMatch(/i=2000\$/);
      expect((await call(password)).status).toBe(200);
      expect((await signIn(email)).status).toBe(200);
    } finally {
      await stronger.stop();
    }
  });

  it('is limited per account after failures, on every process, and reset by success', async () => {
    const { email } = await signUp();
    for (let n = 0; n < 9; n++) expect((await signIn(email, 'another password')).status).toBe(401);
    expect((await signIn(email)).status).toBe(200);
    // Ten, and one on the slow way.
    for (let n = 0; n < 11; n++) expect((await signIn(email, 'another password')).status).toBe(401);
    const limited = await signIn(email);
    expect(codeOf(limited)).toEqual([429, 'rate_limited']);
    expect(Number(limited.headers['retry-after'])).toBeGreaterThan(0);
    const second = await openSecondProcess(rowhouse);
    try {
      const there = await second.call('POST', `/projects/${shop.slug}/auth/signin`, {
        key: shop.key,
        body: { email, password },
      });
      expect(codeOf(there)).toEqual([429, 'rate_limited']);
    } finally {
      await second.stop();
    }
    // Somebody else signs in as ever, and in time so does this one.
    const { email: neighbour } = await signUp();
    expect((await signIn(neighbour)).status).toBe(200);
    await inside(sql`update auth.attempts set used_until = used_until - interval '61 s'`);
    expect((await signIn(email)).status).toBe(200);
  });

  it('works again after a new password was set, whatever others had guessed', async () => {
    const { email, user, token } = await signUp();
    // In two parts: on a small machine, eleven at once are more than may wait for a hash.
    const guess = (times: number) =>
      Promise.all(Array.from({ length: times }, () => signIn(email, 'a wrong password')));
    const lock = async () => [...(await guess(6)), ...(await guess(6))];
    await lock();
    expect((await signIn(email)).status).toBe(429);
    const { code } = (await auth('POST', 'recover', { email })).body;
    expect((await auth('POST', 'recover', { code, password })).status).toBe(200);
    expect((await signIn(email)).status).toBe(200);
    await lock();
    expect((await signIn(email)).status).toBe(429);
    expect((await auth('PATCH', `users/${user.id}`, { password })).status).toBe(200);
    const again = (await signIn(email)).body.session.access_token;
    expect(again).not.toBe(token);
    // The right old password is no guess.
    for (let time = 0; time < 12; time++) {
      const change = { password, current_password: password };
      expect((await auth('PATCH', 'user', change, { token: again })).status).toBe(200);
    }
  });

  const fresh = 'another password 1';
  it.each<[string, (one: { email: string; token: string; id: string }) => Promise<Answer>]>([
    [
      'by its user',
      ({ token }) => auth('PATCH', 'user', { password: fresh, current_password: password }, { token }),
    ],
    ['by an administrator', ({ id }) => auth('PATCH', `users/${id}`, { password: fresh })],
    [
      'by a code',
      async ({ email }) => {
        const { code } = (await auth('POST', 'recover', { email })).body;
        return auth('POST', 'recover', { code, password: fresh });
      },
    ],
  ])('is not held up by guesses at a password that was changed %s since', async (_, change) => {
    const { email, token, user } = await signUp();
    for (let n = 0; n < 9; n++) expect((await signIn(email, 'not this one')).status).toBe(401);
    expect((await change({ email, token, id: user.id })).status).toBe(200);
    for (let n = 0; n < 9; n++) expect((await signIn(email, 'not this one')).status).toBe(401);
    expect((await signIn(email, fresh)).status).toBe(200);
  });

  it('allows no more guesses when many come at once, for known and unknown e-mail addresses', async () => {
    const { email } = await signUp();
    for (const guessed of [email, newEmail()]) {
      const answers = [];
      // In groups, so that the hashing queue does not turn them away first.
      for (let group = 0; group < 5; group++) {
        answers.push(
          ...(await Promise.all(Array.from({ length: 6 }, (_, n) => signIn(guessed, `guess ${group} ${n}`)))),
        );
      }
      const statuses = answers.map(({ status }) => status);
      expect(statuses.filter((status) => status === 401)).toHaveLength(11);
      expect(statuses.filter((status) => status === 429)).toHaveLength(19);
    }
  });

  it('is limited per address for publishable keys only', async () => {
    const proxied = await openSecondProcess(rowhouse, { trustedProxies: ['127.0.0.1'] });
    try {
      const project = await rowhouse.project('Addresses');
      const key = await publishable(project);
      const from = (ip: string, as: string, email = newEmail(), word = 'wrong password') =>
        proxied.call('POST', `/projects/${project.slug}/auth/signin`, {
          key: as,
          body: { email, password: word },
          headers: { 'x-forwarded-for': ip },
        });
      const { email } = await signUp(newEmail(), {}, project);
      for (let n = 0; n < 30; n++) expect((await from('203.0.113.7', key)).status).toBe(401);
      expect(codeOf(await from('203.0.113.7', key))).toEqual([429, 'rate_limited']);
      // Not even with the right password; but from elsewhere, and by the application's own server.
      expect((await from('203.0.113.7', key, email, password)).status).toBe(429);
      expect((await from('203.0.113.8', key, email, password)).status).toBe(200);
      expect((await from('203.0.113.7', project.key, email, password)).status).toBe(200);
      // An address that is turned away uses up nobody's account.
      for (let n = 0; n < 12; n++) await from('203.0.113.7', key, email);
      expect((await from('203.0.113.9', key, email, password)).status).toBe(200);
      // A whole /64 is one caller.
      for (let n = 0; n < 30; n++) await from(`2001:db8:1:2::${n.toString(16)}`, key);
      expect((await from('2001:db8:1:2:ffff::1', key)).status).toBe(429);
      expect((await from('2001:db8:1:3::1', key)).status).toBe(401);
    } finally {
      await proxied.stop();
    }
  });
});

describe('an access token', () => {
  const encode = (value: unknown) =>
    Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url');
  const sign = (header: unknown, payload: unknown, secret = shop.key, hash = 'sha256') => {
    const text = `${encode(header)}.${encode(payload)}`;
    return `${text}.${createHmac(hash, secret).update(text).digest('base64url')}`;
  };
  const read = (token: string, more: More = {}, project = shop) =>
    auth('GET', 'user', undefined, { token, ...more }, project);

  it('returns its user', async () => {
    const { token, user } = await signUp();
    expect((await read(token)).body).toEqual({ ok: true, user });
    const again = sign(
      JSON.parse(Buffer.from(token.split('.')[0] ?? '', 'base64url').toString()),
      claimsOf(token),
    );
    expect((await read(again)).status).toBe(200);
  });

  it('that is forged in any way gets the same refusal', async () => {
    const { token } = await signUp();
    const [head = '', payload = '', signature = ''] = token.split('.');
    const header = JSON.parse(Buffer.from(head, 'base64url').toString());
    const claims = claimsOf(token);
    const stranger = await signUp(newEmail(), {}, other);
    const now = Math.floor(Date.now() / 1000);
    const without = (name: string) =>
      Object.fromEntries(Object.entries(claims).filter(([key]) => key !== name));
    const repeated = JSON.stringify(claims).replace('{', `{"sub":"${stranger.user.id}",`);
    const otherHeader = JSON.parse(Buffer.from(stranger.token.split('.')[0] ?? '', 'base64url').toString());
    const forged: [string, string][] = [
      ['alg none', `${encode({ ...header, alg: 'none' })}.${payload}.`],
      ['alg none with the signature', `${encode({ ...header, alg: 'none' })}.${payload}.${signature}`],
      ['alg HS512', sign({ ...header, alg: 'HS512' }, claims, shop.key, 'sha512')],
      ['alg RS256 with the key as HMAC secret', sign({ ...header, alg: 'RS256' }, claims)],
      ['alg hs256', sign({ ...header, alg: 'hs256' }, claims)],
      ['another issuer', sign(header, { ...claims, iss: `rowhouse-auth:${other.slug}` })],
      ['an issuer that is a list', sign(header, { ...claims, iss: [claims.iss] })],
      ["another project's key", sign(header, claims, other.key)],
      ["another project's key and kid", sign(otherHeader, claims, other.key)],
      ["another project's token", stranger.token],
      ['expired', sign(header, { ...claims, iat: now - 90_000, exp: now - 3_600 })],
      ['from the future', sign(header, { ...claims, iat: now + 3_600, exp: now + 7_200 })],
      ['good for too long', sign(header, { ...claims, exp: now + 10 * 86_400 })],
      ['exp as text', sign(header, { ...claims, exp: String(claims.exp) })],
      ['a tampered payload', `${head}.${encode({ ...claims, role: 'admin' })}.${signature}`],
      ['another sub', sign(header, { ...claims, sub: stranger.user.id })],
      ['another session', sign(header, { ...claims, sid: claimsOf(stranger.token).sid })],
      ['repeated claims', sign(header, repeated)],
      ['kid elsewhere', sign({ ...header, kid: '../../../../dev/null' }, claims, '')],
      ['kid of nobody', sign({ ...header, kid: 'key_00000000000000000' }, claims)],
      ['no kid', sign({ alg: 'HS256', typ: 'JWT' }, claims)],
      ['kid as a list', sign({ ...header, kid: [header.kid] }, claims)],
      ['jku', sign({ ...header, jku: 'http://127.0.0.1/' }, claims)],
      ['no signature', `${head}.${payload}.`],
      ['two parts', `${head}.${payload}`],
      ['four parts', `${token}.${signature}`],
      ['empty', 'a.b.c'],
      ['a refresh token', (await signUp()).session.refresh_token],
      ...['sub', 'email', 'role', 'iss', 'iat', 'exp', 'sid'].map((name): [string, string] => [
        `without ${name}`,
        sign(header, without(name)),
      ]),
    ];
    for (const [what, text] of forged) {
      const answer = await read(text);
      expect(codeOf(answer), what).toEqual([401, 'invalid_token']);
      expect(Object.keys(answer.body), what).toEqual(['ok', 'error', 'request_id']);
    }
    // What is signed here is good but for what was changed.
    expect(sign(header, claims)).toBe(token);
    expect((await read(token)).status).toBe(200);
    expect((await read(token, {}, other)).status).toBe(401);
  });

  it('is not an API key, and an API key is not a token', async () => {
    const { token } = await signUp();
    const asKey = await rowhouse.call('GET', `/projects/${shop.slug}/auth/user`, { key: token });
    expect(codeOf(asKey)).toEqual([401, 'invalid_api_key']);
    const asBearer = await rowhouse.call('GET', `/projects/${shop.slug}/auth/user`, {
      key: '',
      headers: { authorization: `Bearer ${token}` },
    });
    expect(codeOf(asBearer)).toEqual([401, 'invalid_api_key']);
    expect(codeOf(await read(shop.key))).toEqual([401, 'invalid_token']);
    expect(codeOf(await auth('GET', 'user'))).toEqual([401, 'invalid_token']);
  });

  it('is valid during the grace of a key rotation, and invalid without one', async () => {
    const project = await rowhouse.project('Rotating');
    const before = await signUp(newEmail(), {}, project);
    const rotate = async (grace: number) => {
      const { body } = await rowhouse.call('POST', `/projects/${project.slug}/keys/rotate`, {
        key: project.key,
        body: { grace_seconds: grace },
      });
      project.key = body.api_key;
    };
    await rotate(3600);
    expect((await read(before.token, {}, project)).status).toBe(200);
    const after = await until(
      'tokens are signed with the new key',
      async () => {
        const { token } = await signUp(newEmail(), {}, project);
        const kid = (text: string) => Buffer.from(text.split('.')[0] ?? '', 'base64url').toString();
        return kid(token) !== kid(before.token) && token;
      },
      soon,
    );
    await jwtVerify(after, new TextEncoder().encode(project.key));
    await rotate(0);
    await until(
      'the old ones are refused',
      async () => (await read(after, {}, project)).status === 401,
      soon,
    );
    // The session itself goes on: its refresh token gives a token under the new key.
    const renewed = await auth(
      'POST',
      'refresh',
      { refresh_token: before.session.refresh_token },
      {},
      project,
    );
    expect(renewed.status).toBe(200);
    expect((await read(renewed.body.session.access_token, {}, project)).status).toBe(200);
  });
});

describe('a session', () => {
  const user = (token: string) => auth('GET', 'user', undefined, { token });
  const refresh = (text: string) => auth('POST', 'refresh', { refresh_token: text });

  it('is refreshed by a token that works once', async () => {
    const { session, user: mine } = await signUp();
    const first = await refresh(session.refresh_token);
    expect([first.status, first.body.user.id]).toEqual([200, mine.id]);
    expect(first.body.session.refresh_token).not.toBe(session.refresh_token);
    const second = await refresh(first.body.session.refresh_token);
    expect(second.status).toBe(200);
    expect((await user(second.body.session.access_token)).status).toBe(200);
    // The first again: whoever has it, it is not the one we gave the others to.
    const stolen = await refresh(session.refresh_token);
    expect(codeOf(stolen)).toEqual([401, 'invalid_token']);
    expect((await user(second.body.session.access_token)).status).toBe(401);
    expect((await refresh(second.body.session.refresh_token)).status).toBe(401);
  });

  it('survives a lost answer and two refreshes at once', async () => {
    const { session } = await signUp();
    const answers = await Promise.all([1, 2, 3, 4].map(() => refresh(session.refresh_token)));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    expect(new Set(answers.map(({ body }) => body.session.refresh_token)).size).toBe(1);
    await inside(sql`update auth.sessions set refreshed_at = refreshed_at - interval '11 s'`);
    expect((await refresh(session.refresh_token)).status).toBe(401);
    expect((await refresh(answers[0]?.body.session.refresh_token)).status).toBe(401);
  });

  it('is not ended by a forged refresh token', async () => {
    const { session, token } = await signUp();
    const text: string = session.refresh_token;
    const last = text.endsWith('A') ? 'B' : 'A';
    for (const forged of [`${text.slice(0, -1)}${last}`, 'rh_ref_', 'x', `${text}x`, text.toUpperCase()])
      expect(codeOf(await refresh(forged))).toEqual([401, 'invalid_token']);
    const elsewhere = await auth('POST', 'refresh', { refresh_token: text }, {}, other);
    expect(codeOf(elsewhere)).toEqual([401, 'invalid_token']);
    expect((await user(token)).status).toBe(200);
    expect(codeOf(await auth('POST', 'refresh', { refresh_token: 1 }))).toEqual([400, 'invalid_request']);
  });

  it('is stored as a hash', async () => {
    const { session, user: mine } = await signUp();
    const rows = await inside(
      sql`select encode(token_hash, 'hex') as hash from auth.sessions where user_id = ${mine.id}::uuid`,
    );
    expect(rows).toEqual([{ hash: sha256(session.refresh_token) }]);
  });

  it('ends after 30 days without a refresh, and a refresh gives it 30 more', async () => {
    const { session, token, user: mine } = await signUp();
    const pass = (days: number) =>
      inside(
        sql`update auth.sessions set expires_at = expires_at - ${days} * interval '1 day' where user_id = ${mine.id}::uuid`,
      );
    await pass(29);
    const { body } = await refresh(session.refresh_token);
    await pass(29);
    expect((await user(token)).status).toBe(200);
    await pass(2);
    expect(codeOf(await user(token))).toEqual([401, 'invalid_token']);
    expect(codeOf(await refresh(body.session.refresh_token))).toEqual([401, 'invalid_token']);
  });

  it('ends at once on every process when signed out: this one, the others, or all', async () => {
    const second = await openSecondProcess(rowhouse);
    try {
      const there = (token: string) =>
        second.call('GET', `/projects/${shop.slug}/auth/user`, {
          key: shop.key,
          headers: { authorization: `Bearer ${token}` },
        });
      const { email, token: one } = await signUp();
      const more = async () => (await signIn(email)).body.session.access_token as string;
      const [two, three, four] = [await more(), await more(), await more()];
      for (const token of [one, two, three, four]) expect((await there(token)).status).toBe(200);
      const out = await auth('POST', 'signout', {}, { token: one });
      expect(out.body).toEqual({ ok: true, ended: 1 });
      expect(codeOf(await there(one))).toEqual([401, 'invalid_token']);
      expect((await there(two)).status).toBe(200);
      expect((await auth('POST', 'signout', { scope: 'others' }, { token: two })).body.ended).toBe(2);
      expect([(await there(two)).status, (await there(three)).status]).toEqual([200, 401]);
      await more();
      expect((await auth('POST', 'signout', { scope: 'all' }, { token: two })).body.ended).toBe(2);
      expect((await there(two)).status).toBe(401);
      expect(codeOf(await auth('POST', 'signout', {}, { token: two }))).toEqual([401, 'invalid_token']);
      expect(codeOf(await auth('POST', 'signout', { scope: 'none' }, { token: four }))).toEqual([
        400,
        'invalid_request',
      ]);
    } finally {
      await second.stop();
    }
  });

  it("is ended only by its own user's Idempotency-Key, not by the same key of another user", async () => {
    const key = await publishable();
    const headers = { 'idempotency-key': 'sign-out' };
    const [first, second] = [await signUp(), await signUp()];
    const end = (token: string) => auth('POST', 'signout', {}, { key, token, headers });
    expect((await end(first.token)).body).toEqual({ ok: true, ended: 1 });
    const other = await end(second.token);
    expect([other.status, other.headers['idempotency-replayed']]).toEqual([200, undefined]);
    expect((await auth('GET', 'user', undefined, { token: second.token })).status).toBe(401);
    const again = await end(first.token);
    expect([again.status, again.headers['idempotency-replayed']]).toEqual([200, 'true']);
    expect((await end('a.b.c')).status).toBe(401);
  });

  it('is ended when a user has too many, oldest first', async () => {
    const { email, token, user: mine } = await signUp();
    await inside(sql`
      insert into auth.sessions (id, user_id, token_hash, expires_at, created_at)
      select gen_random_uuid(), ${mine.id}::uuid, sha256('x'), now() + interval '1 day', now() + n * interval '1 ms'
      from generate_series(1, 200) as n`);
    const { body } = await signIn(email);
    const rows = await inside<{ count: number }>(
      sql`select count(*)::int from auth.sessions where user_id = ${mine.id}::uuid`,
    );
    expect(rows[0]?.count).toBe(200);
    expect((await user(token)).status).toBe(401);
    expect((await user(body.session.access_token)).status).toBe(200);
  });
});

describe('a signed-in user', () => {
  const change = (token: string, body: unknown, more: More = {}) =>
    auth('PATCH', 'user', body, { token, ...more });

  it('changes the e-mail address and signs in with the new one', async () => {
    const { token, email } = await signUp();
    const fresh = newEmail();
    const { status, body } = await change(token, { email: fresh });
    expect([status, body.user.email]).toEqual([200, fresh]);
    expect((await signIn(email)).status).toBe(401);
    expect((await signIn(fresh)).status).toBe(200);
    const { email: taken } = await signUp();
    expect(codeOf(await change(token, { email: taken.toUpperCase() }))).toEqual([409, 'email_taken']);
    expect((await change(token, { email: fresh.toUpperCase() })).body.user.email).toBe(fresh.toUpperCase());
    expect(codeOf(await change(token, { email: 'nobody' }))).toEqual([400, 'invalid_request']);
  });

  it('tries e-mail addresses no more often than sign-ups, with a publishable key', async () => {
    const project = await rowhouse.project('Renaming');
    const key = await publishable(project);
    const { token } = await signUp(newEmail(), {}, project);
    const { email: taken } = await signUp(newEmail(), {}, project);
    const rename = (email: string, as = key) => auth('PATCH', 'user', { email }, { key: as, token }, project);
    expect(codeOf(await rename(taken))).toEqual([409, 'email_taken']);
    for (let n = 1; n < 30; n++) expect((await rename(newEmail())).status).toBe(200);
    expect(codeOf(await rename(newEmail()))).toEqual([429, 'rate_limited']);
    expect(codeOf(await rename(taken))).toEqual([429, 'rate_limited']);
    expect((await auth('PATCH', 'user', { data: { n: 1 } }, { key, token }, project)).status).toBe(200);
    expect((await rename(newEmail(), project.key)).status).toBe(200);
  });

  it('changes the password with the old one, which ends the other sessions', async () => {
    const { token, email } = await signUp();
    const elsewhere = (await signIn(email)).body.session.access_token;
    const fresh = 'another password 1';
    expect(codeOf(await change(token, { password: fresh }))).toEqual([400, 'invalid_request']);
    const wrong = await change(token, { password: fresh, current_password: 'not this one' });
    expect(codeOf(wrong)).toEqual([401, 'invalid_credentials']);
    expect((await signIn(email)).status).toBe(200);
    expect(codeOf(await change(token, { password: 'short', current_password: password }))).toEqual([
      400,
      'invalid_request',
    ]);
    expect((await change(token, { password: fresh, current_password: password })).status).toBe(200);
    expect((await auth('GET', 'user', undefined, { token })).status).toBe(200);
    expect((await auth('GET', 'user', undefined, { token: elsewhere })).status).toBe(401);
    expect((await signIn(email)).status).toBe(401);
    expect((await signIn(email, fresh)).status).toBe(200);
  });

  it('guesses the old password no more often than at a sign-in', async () => {
    const { token, email } = await signUp();
    const guess = (n: number) =>
      change(token, { password: 'another password 1', current_password: `guess number ${n}` });
    for (let n = 0; n < 10; n++) expect((await guess(n)).status).toBe(401);
    expect(codeOf(await guess(10))).toEqual([429, 'rate_limited']);
    // Whoever has the token keeps nobody from signing in.
    expect((await signIn(email)).status).toBe(200);
  });

  it('is told what can be changed, if the request changes nothing', async () => {
    const { token } = await signUp();
    const { status, body } = await change(token, {});
    expect([status, body.error.message]).toEqual([
      400,
      'the body must contain at least one of email, password, current_password, data',
    ]);
  });

  it('changes data field by field, and not the role', async () => {
    const { token } = await signUp();
    await change(token, { data: { name: 'Ada', theme: 'dark' } });
    const { body } = await change(token, { data: { theme: null, n: 1, role: 'admin' } });
    expect(body.user).toMatchObject({ role: 'authenticated', data: { name: 'Ada', n: 1, role: 'admin' } });
    expect(body.user.data).not.toHaveProperty('theme');
    const key = await publishable();
    expect(codeOf(await change(token, { data: { role: 'admin' } }, { key }))).toEqual([403, 'forbidden']);
    const big = { data: { a: 'x'.repeat(40_000) } };
    expect((await change(token, big)).status).toBe(200);
    expect(codeOf(await change(token, { data: { b: 'x'.repeat(40_000) } }))).toEqual([
      400,
      'invalid_request',
    ]);
    expect(codeOf(await change(token, {}))).toEqual([400, 'invalid_request']);
  });

  it('is deleted with all rows that reference it by cascade', async () => {
    const { token, user, email } = await signUp();
    await query(`create table if not exists notes (
      id int generated always as identity primary key, owner uuid references auth.users on delete cascade, text text)`);
    await query('insert into notes (owner, text) values ($1, $2)', [user.id, 'mine']);
    const { status, body } = await auth('DELETE', 'user', undefined, { token });
    expect([status, body.user.id]).toEqual([200, user.id]);
    expect((await query('select * from notes where owner = $1', [user.id])).body.rows).toEqual([]);
    expect((await auth('GET', 'user', undefined, { token })).status).toBe(401);
    expect((await signIn(email)).status).toBe(401);
    expect((await signUp(email)).user.id).not.toBe(user.id);
  });

  it('is not deleted while a row without a cascade references it', async () => {
    const { token, user } = await signUp();
    await query('create table if not exists orders (id int primary key, owner uuid references auth.users)');
    await query('insert into orders values (1, $1)', [user.id]);
    const refused = await auth('DELETE', 'user', undefined, { token });
    expect(codeOf(refused)).toEqual([409, 'conflict']);
    expect(refused.body.error.message).toContain('"orders"');
    expect((await auth('GET', 'user', undefined, { token })).status).toBe(200);
    await query('drop table orders');
  });
});

describe('one-time codes', () => {
  it('for a new password are given to a managing key, work once, and end all sessions', async () => {
    const { email, token } = await signUp();
    const asked = await auth('POST', 'recover', { email: email.toUpperCase() });
    expect(asked.body).toEqual({
      ok: true,
      code: expect.stringMatching(/^rh_code_\w{32,}$/),
      expires_at: expect.stringMatching(/Z$/),
    });
    const use = (code: unknown, word = 'brand new password') =>
      auth('POST', 'recover', { code, password: word });
    expect(codeOf(await use(asked.body.code, 'short'))).toEqual([400, 'invalid_request']);
    const [first, second] = await Promise.all([use(asked.body.code), use(asked.body.code)]);
    expect([first.status, second.status].sort()).toEqual([200, 400]);
    const done = first.status === 200 ? first : second;
    expect(codeOf(first.status === 200 ? second : first)).toEqual([400, 'invalid_code']);
    expect((await auth('GET', 'user', undefined, { token })).status).toBe(401);
    expect((await auth('GET', 'user', undefined, { token: done.body.session.access_token })).status).toBe(
      200,
    );
    expect([(await signIn(email)).status, (await signIn(email, 'brand new password')).status]).toEqual([
      401, 200,
    ]);
    expect(codeOf(await use('rh_code_x'))).toEqual([400, 'invalid_code']);
    expect(codeOf(await use({}))).toEqual([400, 'invalid_request']);
  });

  it('expire with time, with the next one, and with a change of the e-mail address', async () => {
    const { email, token } = await signUp();
    const ask = async () => (await auth('POST', 'recover', { email })).body.code;
    const use = (code: string) => auth('POST', 'recover', { code, password: 'brand new password' });
    const [one, two] = [await ask(), await ask()];
    expect(codeOf(await use(one))).toEqual([400, 'invalid_code']);
    await inside(sql`update auth.codes set expires_at = now() - interval '1 s'`);
    expect(codeOf(await use(two))).toEqual([400, 'invalid_code']);
    const three = await ask();
    await auth('PATCH', 'user', { email: newEmail() }, { token });
    expect(codeOf(await use(three))).toEqual([400, 'invalid_code']);
    expect(codeOf(await auth('POST', 'verify', { code: three }))).toEqual([400, 'invalid_code']);
  });

  it('verify an e-mail address until it is changed', async () => {
    const { email, token } = await signUp();
    const { code } = (await auth('POST', 'verify', { email })).body;
    expect(codeOf(await auth('POST', 'recover', { code, password }))).toEqual([400, 'invalid_code']);
    const done = await auth('POST', 'verify', { code }, { key: await publishable() });
    expect([done.status, done.body.user.email_verified_at]).toEqual([200, expect.stringMatching(/Z$/)]);
    expect(codeOf(await auth('POST', 'verify', { code }))).toEqual([400, 'invalid_code']);
    const changed = await auth('PATCH', 'user', { email: newEmail() }, { token });
    expect(changed.body.user.email_verified_at).toBeNull();
  });

  it('are not given to browsers and not stored in plain text', async () => {
    const { email } = await signUp();
    const key = await publishable();
    for (const path of ['recover', 'verify']) {
      const refused = await auth('POST', path, { email }, { key });
      expect(codeOf(refused)).toEqual([403, 'forbidden']);
      expect(refused.body.error.hint).toContain('ROWHOUSE_SMTP_URL');
    }
    const { code } = (await auth('POST', 'recover', { email })).body;
    const rows = await inside(
      sql`select encode(hash, 'hex') as hash from auth.codes where email_key = ${email}`,
    );
    expect(rows).toEqual([{ hash: sha256(code) }]);
    expect(codeOf(await auth('POST', 'recover', { email: newEmail() }))).toEqual([404, 'user_not_found']);
  });

  it('must be either requested or used in one request', async () => {
    const { email } = await signUp();
    const code = 'rh_code_x';
    for (const body of [{}, { password }, { send: true }, { email, code, password }]) {
      const { status, body: answer } = await auth('POST', 'recover', body);
      expect([status, answer.error.message], JSON.stringify(body)).toEqual([
        400,
        'send "email" to request a code, or "code" and "password" to use one',
      ]);
    }
    for (const body of [{}, { email, code }]) {
      const { status, body: answer } = await auth('POST', 'verify', body);
      expect([status, answer.error.message]).toEqual([
        400,
        'send "email" to request a code, or "code" to use one',
      ]);
    }
    expect((await auth('POST', 'recover', { code })).body.error.message).toBe('password: is required');
  });

  it('are limited per e-mail address', async () => {
    const { email } = await signUp();
    for (let n = 0; n < 5; n++) expect((await auth('POST', 'recover', { email })).status).toBe(200);
    expect(codeOf(await auth('POST', 'recover', { email }))).toEqual([429, 'rate_limited']);
  });
});

describe('codes that are sent', () => {
  it('go to the stored address, and the answer does not reveal whether there is a user', async () => {
    const letters: { kind: string; email: string; code: string; project: { name: string } }[] = [];
    const receiver = createServer((request, response) => {
      let text = '';
      request.on('data', (piece) => {
        text += piece;
      });
      request.on('end', () => {
        letters.push(JSON.parse(text));
        response.end();
      });
    });
    await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve));
    const { port } = receiver.address() as AddressInfo;
    const sending = await openSecondProcess(rowhouse, {
      delivery: {
        smtpUrl: null,
        mailFrom: null,
        webhookUrl: `http://127.0.0.1:${port}/`,
        webhookSecret: 'a secret of sixteen',
      },
    });
    try {
      const email = `Ünal.${++count}@example.com`;
      const { token } = await signUp(email);
      const key = await publishable();
      const ask = (path: string, body: object, as = key, more: Record<string, string> = {}) =>
        sending.call('POST', `/projects/${shop.slug}/auth/${path}`, { key: as, body, headers: more });
      const known = await ask('recover', { email: email.toUpperCase() });
      const unknown = await ask('recover', { email: newEmail() });
      expect([known.status, known.body]).toEqual([200, { ok: true, sent: true }]);
      expect([unknown.status, unknown.body]).toEqual([200, { ok: true, sent: true }]);
      const [letter] = await until('it came', async () => letters.length > 0 && letters);
      expect(letter).toMatchObject({ kind: 'recovery', email, project: { slug: shop.slug, name: 'Shop' } });
      const used = await ask('recover', { code: letter?.code, password: 'brand new password' });
      expect(used.status).toBe(200);
      // A key that may manage gets the code itself, unless it wants it sent.
      expect((await ask('verify', { email }, shop.key)).body.code).toMatch(/^rh_code_/);
      expect((await ask('verify', { email, send: true }, shop.key)).body).toEqual({ ok: true, sent: true });
      await until('it came too', async () => letters.length === 2);
      expect((await ask('verify', { code: letters[1]?.code })).status).toBe(200);
      expect((await auth('GET', 'user', undefined, { token })).status).toBe(401);
      // Whoever has the old address hears that there is a new one.
      const session = await signIn(email, 'brand new password');
      const rename = (to: string) =>
        sending.call('PATCH', `/projects/${shop.slug}/auth/user`, {
          key: shop.key,
          body: { email: to },
          headers: { authorization: `Bearer ${session.body.session.access_token}` },
        });
      await rename(newEmail());
      await until('they hear of it', async () => letters.length === 3);
      expect(letters[2]).toMatchObject({ kind: 'email_changed', email, code: null });
      // Somebody who never had this address is not flooded by who says so again and again.
      const stranger = newEmail();
      for (let n = 0; n < 6; n++) {
        expect((await rename(stranger)).status).toBe(200);
        const last = newEmail();
        expect((await rename(last)).status).toBe(200);
        await rename(newEmail());
        await until('the next one hears of it', async () => letters.some((one) => one.email === last));
      }
      expect(letters.filter((one) => one.email === stranger).length).toBe(3);
    } finally {
      await sending.stop();
      receiver.close();
    }
  });
});

describe('administration of users', () => {
  it('lists, searches and pages', async () => {
    const project = await rowhouse.project('Many users');
    const emails = ['ada@one.test', 'Bob_x@one.test', 'cleo%y@two.test', 'dora@two.test', 'eve@two.test'];
    for (const email of emails) await signUp(email, {}, project);
    const list = (query: string) => auth('GET', `users${query}`, undefined, {}, project);
    const shown = async (query: string) =>
      (await list(query)).body.users.map((user: { email: string }) => user.email);
    expect(await shown('')).toEqual([...emails].reverse());
    const page = await list('?limit=2&page=2');
    expect(page.body).toMatchObject({ ok: true, page: 2, limit: 2, has_more: true });
    expect(page.body.users.map((user: { email: string }) => user.email)).toEqual([emails[2], emails[1]]);
    expect(await shown('?search=TWO')).toEqual([emails[4], emails[3], emails[2]]);
    expect(await shown('?search=b_x')).toEqual([emails[1]]);
    expect(await shown('?search=%25')).toEqual([emails[2]]);
    const [{ id }] = (await list('?search=ada')).body.users;
    expect(await shown(`?search=${id}`)).toEqual([emails[0]]);
    expect(JSON.stringify((await list('')).body)).not.toContain('pbkdf2');
    for (const bad of ['?limit=0', '?limit=1001', '?page=0', '?search=', '?search=a%00', '?x=1'])
      expect(codeOf(await list(bad)), bad).toEqual([400, 'invalid_request']);
  });

  it('creates, reads, changes and deletes', async () => {
    const email = newEmail();
    const made = await auth('POST', 'users', { email, role: 'editor', data: { a: 1 }, email_verified: true });
    expect(made.status).toBe(201);
    expect(made.body.user).toMatchObject({ email, role: 'editor', last_sign_in_at: null });
    expect(made.body.user.email_verified_at).not.toBeNull();
    expect(codeOf(await auth('POST', 'users', { email }))).toEqual([409, 'email_taken']);
    // Without a password nobody signs in.
    expect((await signIn(email, 'undefined')).status).toBe(401);
    const { id } = made.body.user;
    const change = (body: unknown) => auth('PATCH', `users/${id}`, body);
    expect((await change({ password, role: 'admin', data: { b: 2, a: null } })).body.user).toMatchObject({
      role: 'admin',
      data: { b: 2 },
    });
    const session = await signIn(email);
    expect(claimsOf(session.body.session.access_token).role).toBe('admin');
    const moved = newEmail();
    expect((await change({ email: moved })).body.user).toMatchObject({
      email: moved,
      email_verified_at: null,
    });
    expect((await change({ data: { role: 'viewer' } })).body.user.role).toBe('viewer');
    expect((await auth('GET', `users/${id}`)).body.user.email).toBe(moved);
    expect((await auth('DELETE', `users/${id}`)).status).toBe(200);
    expect(codeOf(await auth('GET', `users/${id}`))).toEqual([404, 'user_not_found']);
    expect(codeOf(await auth('DELETE', `users/${id}`))).toEqual([404, 'user_not_found']);
    expect(codeOf(await auth('PATCH', `users/${id}`, { role: 'x' }))).toEqual([404, 'user_not_found']);
    for (const odd of ['x', '%00', "' or 1=1", '00000000-0000-0000-0000-00000000000g'])
      expect((await auth('GET', `users/${encodeURIComponent(odd)}`)).status).toBe(404);
  });

  it('bans: sessions end at once, sign-in and refresh are refused, and unban lifts it', async () => {
    const { email, user, token, session } = await signUp();
    const ban = (banned: boolean) => auth('PATCH', `users/${user.id}`, { banned });
    expect((await ban(true)).body.user.banned_at).not.toBeNull();
    expect((await auth('GET', 'user', undefined, { token })).status).toBe(401);
    expect((await auth('POST', 'refresh', { refresh_token: session.refresh_token })).status).toBe(401);
    expect(codeOf(await signIn(email))).toEqual([403, 'forbidden']);
    expect(codeOf(await signIn(email, 'another password'))).toEqual([401, 'invalid_credentials']);
    expect(codeOf(await auth('POST', 'recover', { email }))).toEqual([404, 'user_not_found']);
    expect((await ban(false)).body.user.banned_at).toBeNull();
    expect((await signIn(email)).status).toBe(200);
    expect((await auth('GET', 'user', undefined, { token })).status).toBe(401);
  });

  it('sets a password, which ends every session', async () => {
    const { email, user, token } = await signUp();
    expect((await auth('PATCH', `users/${user.id}`, { password: 'set by somebody' })).status).toBe(200);
    expect((await auth('GET', 'user', undefined, { token })).status).toBe(401);
    expect([(await signIn(email)).status, (await signIn(email, 'set by somebody')).status]).toEqual([
      401, 200,
    ]);
  });

  it('needs a key that may manage', async () => {
    const { user } = await signUp();
    const keys = [
      await publishable(),
      await issueKey({ name: 'auth only', scopes: ['auth', 'query', 'tables:write'] }),
    ];
    for (const key of keys) {
      const calls = [
        auth('GET', 'users', undefined, { key }),
        auth('GET', `users/${user.id}`, undefined, { key }),
        auth('POST', 'users', { email: newEmail() }, { key }),
        auth('PATCH', `users/${user.id}`, { role: 'admin' }, { key }),
        auth('DELETE', `users/${user.id}`, undefined, { key }),
        auth('PATCH', 'settings', { refuse_common_passwords: true }, { key }),
      ];
      for (const call of calls) expect(codeOf(await call)).toEqual([403, 'forbidden']);
    }
    const manager = await issueKey({ name: 'manager', scopes: ['manage'] });
    expect((await auth('GET', 'users', undefined, { key: manager })).status).toBe(200);
  });
});

describe("users in the project's own database", () => {
  it('can be read, joined and deleted by SQL, and sessions end with it', async () => {
    const { user, token, email } = await signUp();
    const { body } = await query('select * from auth.users where id = $1', [user.id]);
    expect(body.rows[0]).toMatchObject({ id: user.id, email, role: 'authenticated' });
    expect((await query('delete from auth.users where id = $1', [user.id])).body.affected).toBe(1);
    expect((await auth('GET', 'user', undefined, { token })).status).toBe(401);
  });

  it('show their hashes to no SQL of the project', async () => {
    await signUp();
    expect((await query('create view public.look as select * from auth.passwords')).status).toBe(200);
    const attempts = [
      'select * from auth.passwords',
      'select * from auth.sessions',
      'select * from auth.codes',
      'select * from auth.attempts',
      'table auth.settings',
      'create table public.copy as select * from auth.passwords',
      'select * from public.look',
      "update auth.users set role = 'admin'",
      "insert into auth.users (email, email_key) values ('x', 'x')",
      'truncate auth.users cascade',
      'alter table auth.users disable row level security',
      'create trigger t before insert on auth.users for each row execute function suppress_redundant_updates_trigger()',
      'create index on auth.users (email)',
      'create rule r as on insert to auth.users do also nothing',
      'create table auth.mine (a int)',
      'create function auth.uid() returns uuid language sql return null',
      'create or replace function auth.uid() returns uuid language sql return null',
      'alter function auth.uid() rename to you',
      'drop schema auth cascade',
      'create table public.child () inherits (auth.users)',
      'alter schema auth owner to current_user',
      `set local role ${authRoleOf(shop.id)}`,
      `grant ${authRoleOf(shop.id)} to current_user`,
      'create table public.child_of (a uuid references auth.passwords (user_id))',
      'lock table auth.passwords',
      `alter role ${authRoleOf(shop.id)} password 'x'`,
    ];
    for (const text of attempts) {
      const { status, body } = await query(text);
      expect(status, `${text}: ${JSON.stringify(body)}`).not.toBe(200);
      expect(JSON.stringify(body), text).not.toContain('$pbkdf2');
    }
    const stats = await query("select * from pg_stats where schemaname = 'auth' and tablename = 'passwords'");
    expect(stats.body.rows).toEqual([]);
    expect(
      (await query("select pg_get_userbyid(relowner) as owner from pg_class where relname = 'passwords'"))
        .body.rows,
    ).toEqual([{ owner: authRoleOf(shop.id) }]);
  });

  it("run no code of the project with their owner's rights", async () => {
    const project = await rowhouse.project('Hostile');
    const run = (text: string) => query(text, [], project);
    const { user } = await signUp(newEmail(), {}, project);
    await run('create table seen (who text, what text)');
    await run('grant all on seen to public');
    const spy = `begin insert into public.seen select current_user, hash from auth.passwords; exception when others then
      insert into public.seen values (current_user, 'nothing'); end;`;
    // A foreign key whose column has to be cast: the cast would run as the owner of auth.users.
    await run("create type odd as enum ('a')");
    await run(
      `create function leak(odd) returns uuid language plpgsql as $$ begin ${spy} return '${user.id}'; end $$`,
    );
    const cast = await run('create cast (odd as uuid) with function leak(odd) as implicit');
    expect([cast.status, cast.body.error?.code]).toEqual([403, 'sql_error']);
    await run('create cast (odd as uuid) with function leak(odd) as assignment');
    await run('create table pointing (owner odd references auth.users)');
    // Triggers on rows that go with their user, at once and at the end.
    await run('create table mine (owner uuid references auth.users on delete cascade)');
    await run(`create function watch() returns trigger language plpgsql as $$ begin ${spy}
      perform set_config('search_path', 'public', false); return old; end $$`);
    await run('create trigger now before delete on mine for each row execute function watch()');
    await run(`create constraint trigger later after delete on mine deferrable initially deferred
      for each row execute function watch()`);
    // Types of the same name where PostgreSQL looks first.
    await run(
      `create function is_fine(text) returns boolean language plpgsql as $$ begin ${spy} return true; end $$`,
    );
    const session = claimsOf((await signIn(user.email, password, {}, project)).body.session.access_token).sid;
    const shadows = ['jsonb', 'text', 'uuid'].map((name) => ({
      query: `create domain pg_temp.${name} as pg_catalog.varchar check (public.is_fine(value::pg_catalog.text))`,
    }));
    const act = { query: `select auth.act_as('${session}', '${user.id}', '{}')` };
    const batch = await rowhouse.call('POST', `/projects/${project.slug}/batch`, {
      key: project.key,
      body: { statements: [...shadows, act, { query: 'select auth.uid()' }] },
    });
    expect(batch.body.results?.at(-1)?.rows, JSON.stringify(batch.body)).toEqual([{ uid: null }]);
    // Names that our own statements use.
    for (const name of ['now', 'json_build_object', 'to_char', 'coalesce', 'greatest']) {
      await run(
        `create function public.${name}(variadic text[]) returns text language plpgsql as $$ begin ${spy} return null; end $$`,
      );
    }
    await run(
      'create function public.same(text, text) returns boolean language plpgsql as $$ begin return true; end $$',
    );
    await run('create operator public.= (leftarg = text, rightarg = text, function = public.same)');
    await run('insert into mine values ($1)'.replace('$1', `'${user.id}'`));
    const token = (await signIn(user.email, password, {}, project)).body.session.access_token;
    expect((await auth('DELETE', 'user', undefined, { token }, project)).status).toBe(200);
    const again = await signUp(newEmail(), {}, project);
    expect((await signIn(again.email, password, {}, project)).status).toBe(200);
    const { body } = await run('select distinct who, what from seen');
    const { user: owner } = loginOf(rowhouse.service.deps.server, { id: project.id, passwordVersion: 1 });
    expect(body.rows).toEqual([{ who: owner, what: 'nothing' }]);
  });

  it('locked by a transaction of the project give a clear 503, and other projects are not affected', {
    tags: 'long',
  }, async () => {
    const project = await rowhouse.project('Locked');
    const { email } = await signUp(newEmail(), {}, project);
    const { email: elsewhere } = await signUp(newEmail(), {}, other);
    const login = loginOf(rowhouse.service.deps.server, { id: project.id, passwordVersion: 1 });
    const database = openDatabase(login, { max: 1 });
    try {
      await database.transaction(async (inside) => {
        await inside.query(sql`lock table auth.users in access exclusive mode`);
        const [locked, ...fine] = await Promise.all([
          signIn(email, password, {}, project),
          ...[1, 2, 3].map(() => signIn(elsewhere, password, {}, other)),
        ]);
        expect(codeOf(locked as Answer)).toEqual([503, 'unavailable']);
        expect(locked?.headers['retry-after']).toBeTruthy();
        for (const answer of fine) expect(answer.status).toBe(200);
      });
    } finally {
      await database.end();
    }
    expect((await signIn(email, password, {}, project)).status).toBe(200);
  });

  it("count towards the project's size", async () => {
    const project = await rowhouse.project('Growing');
    const size = async (): Promise<number> =>
      (await rowhouse.call('GET', `/projects/${project.slug}`)).body.project.size_mb;
    const before = await size();
    for (let n = 0; n < 20; n++)
      await auth(
        'POST',
        'signup',
        { email: newEmail(), password, data: { a: 'x'.repeat(60_000) + n } },
        {},
        project,
      );
    await until('it shows', async () => (await size()) > before);
  });
});

describe('a flood', () => {
  it('of sign-ins gets 429, and neither neighbours nor queries are affected', async () => {
    const project = await rowhouse.project('Flooded');
    const { email } = await signUp(newEmail(), {}, project);
    const { email: neighbour } = await signUp(newEmail(), {}, other);
    const flood = Promise.all(
      Array.from({ length: 500 }, () => signIn(email, 'another password', {}, project)),
    );
    const [mine, queried] = await Promise.all([
      signIn(neighbour, password, {}, other),
      query('select 1 as one', [], project),
    ]);
    expect([mine.status, queried.status]).toEqual([200, 200]);
    const statuses = (await flood).map(({ status }) => status);
    expect(statuses.every((status) => status === 401 || status === 429)).toBe(true);
    expect(statuses.filter((status) => status === 429).length).toBeGreaterThan(400);
    expect((await signIn(neighbour, password, {}, other)).status).toBe(200);
  });
});

it('an Idempotency-Key makes a repeated sign-up run once, and stores nothing about the password', async () => {
  const email = newEmail();
  const send = () =>
    auth('POST', 'signup', { email, password }, { headers: { 'idempotency-key': `signup-${email}` } });
  const [first, second] = [await send(), await send()];
  expect([first.status, second.status]).toEqual([201, 201]);
  expect(second.body).toEqual(first.body);
  expect(second.headers['idempotency-replayed']).toBe('true');
  const plain = createHash('sha256')
    .update(`\n${JSON.stringify({ email, password })}`)
    .digest();
  const rows = await rowhouse.service.deps.control.query(
    sql`select 1 from repeats where fingerprint = ${plain}`,
  );
  expect(rows).toEqual([]);
});

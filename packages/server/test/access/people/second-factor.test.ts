// The second factor of people: set-up, sign-in, replay, recovery codes, and accounts that require it.
import { Secret, TOTP } from 'otpauth';
import { describe, expect, it } from 'vitest';
import { sql } from '../../../src/postgres/sql.ts';
import { listening, outcome, Page } from '../../support/console-page.ts';
import { api, useTestService } from '../../support/helpers.ts';

let laterMs = 0;
const now = () => Date.now() + laterMs;
const rowhouse = useTestService({ passwordIterations: 1_000, trustedProxies: ['127.0.0.1'], now });
const password = 'violet anchor seven maple';

const openAccount = async (name: string): Promise<string> =>
  (await rowhouse.call('POST', `${api}/accounts`, { key: rowhouse.operatorKey, body: { name } })).body
    .api_key;
const signIn = async (email: string, code?: string) => {
  const page = new Page(await listening(rowhouse));
  const answer = await page.signIn({ email, password, ...(code !== undefined && { code }) });
  return { page, answer };
};
const join = async (key: string, email: string, role = 'owner') => {
  const { body } = await rowhouse.call('POST', `${api}/account/invitations`, { key, body: { email, role } });
  const page = new Page(await listening(rowhouse));
  const code = String(body.link).split('#invitation=')[1];
  const accepted = await page.call('POST', '/console/invitation/accept', { body: { code, password } });
  expect(accepted.status, accepted.text).toBe(200);
  return (await signIn(email)).page;
};
/** The codes of an app that has the secret. Each call is a time step later: a code counts once. */
const appOf = (secret: string) => () => {
  laterMs += 30_000;
  return new TOTP({ secret: Secret.fromBase32(secret), period: 30, digits: 6 }).generate({
    timestamp: now(),
  });
};
const setUp = async (page: Page) => {
  const begun = await page.call('POST', '/console/person/second-factor', { body: { password } });
  expect(begun.status, begun.text).toBe(200);
  const next = appOf(begun.body.secret);
  const confirmed = await page.call('POST', '/console/person/second-factor/confirm', {
    body: { code: next() },
  });
  expect(confirmed.status, confirmed.text).toBe(200);
  return { next, recoveryCodes: confirmed.body.recovery_codes as string[], uri: begun.body.uri as string };
};

describe('a second factor', () => {
  it('is set up with the password and a code, and then needed at every sign-in', async () => {
    const page = await join(await openAccount('Factor'), 'factor@example.com');
    const { page: elsewhere } = await signIn('factor@example.com');
    const wrong = await page.call('POST', '/console/person/second-factor', {
      body: { password: 'not the password' },
    });
    expect(outcome(wrong)).toEqual([401, 'invalid_credentials']);
    const { next, uri, recoveryCodes } = await setUp(page);
    expect(uri).toMatch(/^otpauth:\/\/totp\/Rowhouse:factor%40example\.com\?/);
    expect(new Set(recoveryCodes).size).toBe(10);
    // The session that set it up has proved it; the others end.
    expect((await page.call('GET', '/console/session')).status).toBe(200);
    expect(outcome(await elsewhere.call('GET', '/console/session'))).toEqual([401, 'session_required']);
    expect(outcome((await signIn('factor@example.com')).answer)).toEqual([403, 'second_factor_required']);
    expect(outcome((await signIn('factor@example.com', '000000')).answer)).toEqual([
      401,
      'invalid_credentials',
    ]);
    const code = next();
    expect((await signIn('factor@example.com', code)).answer.status).toBe(201);
    // The same code again, and an older one.
    expect(outcome((await signIn('factor@example.com', code)).answer)).toEqual([401, 'invalid_credentials']);
  });

  it('admits one of many requests with the same code', async () => {
    const { next } = await setUp(await join(await openAccount('Replay'), 'replay@example.com'));
    const code = next();
    const answers = await Promise.all(Array.from({ length: 6 }, () => signIn('replay@example.com', code)));
    expect(answers.filter(({ answer }) => answer.status === 201)).toHaveLength(1);
  });

  it('has recovery codes, each of which works once', async () => {
    const { recoveryCodes } = await setUp(await join(await openAccount('Lost'), 'lost@example.com'));
    const [one = '', two = ''] = recoveryCodes;
    expect((await signIn('lost@example.com', one)).answer.status).toBe(201);
    expect(outcome((await signIn('lost@example.com', one)).answer)).toEqual([401, 'invalid_credentials']);
    expect((await signIn('lost@example.com', two.toLowerCase().replace('-', ' '))).answer.status).toBe(201);
  });

  it('gets new recovery codes by the password and a code, and the old ones end', async () => {
    const page = await join(await openAccount('Anew'), 'anew@example.com');
    const renew = (body: object) =>
      page.call('POST', '/console/person/second-factor/recovery-codes', { body });
    // Without a second factor, there is nothing to recover.
    expect(outcome(await renew({ password, code: '123456' }))).toEqual([409, 'conflict']);
    const { next, recoveryCodes } = await setUp(page);
    expect(outcome(await renew({ password: 'not the password', code: next() }))[0]).toBe(401);
    expect(outcome(await renew({ password, code: '123456' }))[0]).toBe(401);
    const renewed = await renew({ password, code: next() });
    expect(renewed.status, renewed.text).toBe(200);
    const fresh = renewed.body.recovery_codes as string[];
    expect(new Set([...fresh, ...recoveryCodes]).size).toBe(20);
    expect(outcome((await signIn('anew@example.com', recoveryCodes[0])).answer)[0]).toBe(401);
    expect((await signIn('anew@example.com', fresh[0])).answer.status).toBe(201);
  });

  it('of a person who accepts a further invitation counts for the session that it opens', async () => {
    const { next } = await setUp(await join(await openAccount('Before'), 'further@example.com'));
    const key = await openAccount('Further');
    await rowhouse.call('PATCH', `${api}/account`, { key, body: { requires_second_factor: true } });
    const { body: invited } = await rowhouse.call('POST', `${api}/account/invitations`, {
      key,
      body: { email: 'further@example.com', role: 'viewer' },
    });
    const code = String(invited.link).split('#invitation=')[1];
    const page = new Page(await listening(rowhouse));
    const accept = (body: object) =>
      page.call('POST', '/console/invitation/accept', { body: { code, password, ...body } });
    expect(outcome(await accept({}))).toEqual([403, 'second_factor_required']);
    const accepted = await accept({ second_factor: next() });
    expect(accepted.body).toMatchObject({ account: { name: 'Further' }, lacks_second_factor: false });
    page.token = accepted.body.token;
    expect((await page.call('GET', '/projects')).status).toBe(200);
  });

  it('cannot be guessed: after some wrong codes, further ones are refused', async () => {
    await setUp(await join(await openAccount('Guess'), 'code@example.com'));
    const codes = [];
    for (let n = 0; n < 12; n++) {
      const page = new Page(await listening(rowhouse));
      const body = { email: 'code@example.com', password, code: String(100_000 + n) };
      const headers = { 'x-forwarded-for': '10.77.0.1' };
      codes.push(outcome(await page.call('POST', '/console/session', { body, headers }))[1]);
    }
    expect(codes.at(-1)).toBe('rate_limited');
  });

  it('cannot be guessed from many networks, while it works where it was used before', async () => {
    const { next } = await setUp(await join(await openAccount('Spread'), 'spread@example.com'));
    const attempt = async (code: string, address: string) => {
      const body = { email: 'spread@example.com', password, code };
      const headers = { 'x-forwarded-for': address };
      const page = new Page(await listening(rowhouse));
      return outcome(await page.call('POST', '/console/session', { body, headers }));
    };
    expect((await attempt(next(), '10.78.0.1'))[0]).toBe(201);
    const codes = [];
    for (let n = 0; n < 24; n++) codes.push((await attempt(String(100_000 + n), `10.79.0.${n}`))[1]);
    expect(codes.slice(0, 19)).toEqual(Array(19).fill('invalid_credentials'));
    expect(codes.slice(-3)).toEqual(Array(3).fill('rate_limited'));
    expect((await attempt(next(), '10.80.0.1'))[1]).toBe('rate_limited');
    expect((await attempt(next(), '10.78.0.1'))[0]).toBe(201);
  });

  it('is removed with the password and a code', async () => {
    const { next } = await setUp(await join(await openAccount('Removing'), 'remove@example.com'));
    const { page } = await signIn('remove@example.com', next());
    const remove = (code: string) =>
      page.call('DELETE', '/console/person/second-factor', { body: { password, code } });
    expect(outcome(await remove('123456'))).toEqual([401, 'invalid_credentials']);
    expect((await remove(next())).status).toBe(200);
    expect((await signIn('remove@example.com')).answer.status).toBe(201);
  });

  it('is stored sealed', async () => {
    const page = await join(await openAccount('Sealed'), 'sealed@example.com');
    const begun = await page.call('POST', '/console/person/second-factor', { body: { password } });
    const rows = await rowhouse.service.deps.control.query<{ sealed: Buffer }>(
      sql`select totp_sealed as sealed from people where totp_sealed is not null`,
    );
    for (const { sealed } of rows) expect(sealed.toString('latin1')).not.toContain(begun.body.secret);
    expect(rows.length).toBeGreaterThan(0);
  });
});

describe('an account that requires one', () => {
  it('lets members without it reach only their profile', async () => {
    const key = await openAccount('Strict');
    const page = await join(key, 'strict@example.com');
    const required = await rowhouse.call('PATCH', `${api}/account`, {
      key,
      body: { requires_second_factor: true },
    });
    expect(required.body.account.requires_second_factor).toBe(true);
    expect(outcome(await page.call('GET', '/projects'))).toEqual([403, 'second_factor_required']);
    expect((await page.call('GET', '/console/session')).body.lacks_second_factor).toBe(true);
    expect((await page.call('GET', '/console/person')).body.person.has_second_factor).toBe(false);
    const { next } = await setUp(page);
    const { page: proved } = await signIn('strict@example.com', next());
    expect((await proved.call('GET', '/projects')).status).toBe(200);
    // Keys are not people.
    expect((await rowhouse.call('GET', '/projects', { key })).status).toBe(200);
  });
});

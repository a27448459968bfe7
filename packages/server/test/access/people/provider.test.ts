// Sign-in with another provider: a real OpenID Connect provider, who may sign in with it, and attacks on the way.
import { Secret, TOTP } from 'otpauth';
import { afterAll, describe, expect, it, vi } from 'vitest';
import { sql } from '../../../src/postgres/sql.ts';
import { listening, outcome, Page } from '../../support/console-page.ts';
import { api, useTestService } from '../../support/helpers.ts';
import { signInAt, startProvider } from '../../support/oidc-provider.ts';
import { Authenticator } from './authenticator.ts';

const consolePage = 'http://127.0.0.1:8765/console/';
const provider = await startProvider({ redirectUri: `${consolePage}signed-in` });
let laterMs = 0;
const now = () => Date.now() + laterMs;
const rowhouse = useTestService({
  passwordIterations: 1_000,
  trustedProxies: ['127.0.0.1'],
  now,
  consolePage,
  provider: provider.config,
});
afterAll(() => provider.stop());

const password = 'violet anchor seven maple';
const refused = [401, 'invalid_credentials'];
let addresses = 0;
const fromElsewhere = () => ({
  'x-forwarded-for': `10.6.${Math.floor(++addresses / 250)}.${addresses % 250}`,
});
const newPage = async () => new Page(await listening(rowhouse));
const openAccount = async (name: string): Promise<string> =>
  (await rowhouse.call('POST', `${api}/accounts`, { key: rowhouse.operatorKey, body: { name } })).body
    .api_key;
const invite = async (key: string, email: string, role = 'developer'): Promise<string> => {
  const { body } = await rowhouse.call('POST', `${api}/account/invitations`, { key, body: { email, role } });
  return body.link.split('#invitation=')[1];
};
const begin = async (page: Page): Promise<{ url: string; flow: string }> => {
  const begun = await page.call('POST', '/console/provider', { headers: fromElsewhere() });
  expect(begun.status, begun.text).toBe(200);
  return begun.body;
};
const finish = async (page: Page, given: object) => {
  const answer = await page.call('POST', '/console/session', { body: given, headers: fromElsewhere() });
  page.token = answer.body.token;
  return answer;
};
const signIn = async (sub: string) => {
  const page = await newPage();
  const { url, flow } = await begin(page);
  const answer = await finish(page, { provider: { flow, query: await signInAt(url, sub) } });
  return { page, answer };
};
/** A person with a password, whose address is not proved. */
const joinByPassword = async (email: string) => {
  const code = await invite(await openAccount(`Of ${email}`), email, 'owner');
  const page = await newPage();
  const accepted = await page.call('POST', '/console/invitation/accept', {
    body: { code, password },
    headers: fromElsewhere(),
  });
  expect(accepted.status, accepted.text).toBe(200);
  page.token = accepted.body.token;
  return page;
};
/** As a mailed link does. */
const prove = (email: string) =>
  rowhouse.service.deps.control.query(
    sql`update people set email_proved_at = now() where email_key = ${email}`,
  );
const people = async () =>
  (
    await rowhouse.service.deps.control.query<{ count: number }>(
      sql`select count(*)::int as count from people`,
    )
  )[0]?.count;

describe('who was invited', () => {
  it('signs in with a verified address, gets what the invitation gives, and stays the same person', async () => {
    const key = await openAccount('Inviting');
    await invite(key, 'Ada@Example.com');
    provider.people.set('ada', { email: 'ada@example.com', email_verified: true });
    const { answer } = await signIn('ada');
    expect(answer.status, answer.text).toBe(201);
    expect(answer.body).toMatchObject({ person: { email: 'ada@example.com' }, role: 'developer' });
    // The address may change there: who she is does not depend on it any more.
    provider.people.set('ada', { email: 'another@example.com', email_verified: false });
    expect((await signIn('ada')).answer.body.person.email).toBe('ada@example.com');
    const { entries } = (await rowhouse.call('GET', `${api}/audit?action=session`, { key })).body;
    expect(entries[0]).toMatchObject({ outcome: 'done', details: { way: 'provider' } });
  });

  it('does not without a verified address', async () => {
    await invite(await openAccount('Unverified'), 'eve@example.com');
    const before = await people();
    for (const claims of [
      { email: 'eve@example.com' },
      { email: 'eve@example.com', email_verified: false },
      {},
    ]) {
      provider.people.set('eve', claims);
      expect(outcome((await signIn('eve')).answer)).toEqual([403, 'forbidden']);
    }
    expect(await people()).toBe(before);
  });
});

describe('somebody else', () => {
  it('is refused, and leaves nothing behind', async () => {
    provider.people.set('mallory', { email: 'mallory@elsewhere.example', email_verified: true });
    const before = await people();
    const { answer } = await signIn('mallory');
    expect(outcome(answer)).toEqual([403, 'forbidden']);
    expect(answer.body.error.hint).toContain('invitation');
    expect(await people()).toBe(before);
  });

  it('of a domain that the operator lists sees the account default', async () => {
    provider.people.set('carol', { email: 'carol@company.example', email_verified: true });
    expect((await signIn('carol')).answer.body).toMatchObject({ role: 'viewer', account: { id: 'default' } });
    // Whoever else invites does not decide where the session opens.
    await invite(await openAccount('Elsewhere'), 'carl@company.example', 'owner');
    provider.people.set('carl', { email: 'carl@company.example', email_verified: true });
    const { page, answer } = await signIn('carl');
    expect(answer.body.account.id).toBe('default');
    expect((await page.call('GET', '/console/person')).body.accounts).toHaveLength(2);
    provider.people.set('dave', { email: 'dave@not-company.example', email_verified: true });
    expect(outcome((await signIn('dave')).answer)).toEqual([403, 'forbidden']);
    provider.people.set('dan', { email: 'dan@sub.company.example', email_verified: true });
    expect(outcome((await signIn('dan')).answer)).toEqual([403, 'forbidden']);
  });
});

describe('a person who exists', () => {
  it('connects the provider in the profile first, unless the address is proved', async () => {
    const page = await joinByPassword('bob@example.com');
    provider.people.set('bob', { email: 'bob@example.com', email_verified: true });
    expect(outcome((await signIn('bob')).answer)).toEqual([403, 'forbidden']);
    expect((await page.call('GET', '/console/person/provider')).body.provider).toEqual({
      name: 'Example Login',
      is_linked: false,
    });
    const { url, flow } = await begin(page);
    const body = { flow, query: await signInAt(url, 'bob') };
    const notices = vi.spyOn(rowhouse.service.deps.peopleMail, 'notifyLater');
    const linked = await page.call('POST', '/console/person/provider', { body });
    expect(linked.status, linked.text).toBe(200);
    expect(notices.mock.calls).toEqual([['member_provider_connected', 'bob@example.com']]);
    notices.mockRestore();
    expect((await signIn('bob')).answer.body.person.email).toBe('bob@example.com');
    // Nobody else can have it as well.
    const other = await joinByPassword('bill@example.com');
    const again = await begin(other);
    const taken = { flow: again.flow, query: await signInAt(again.url, 'bob') };
    expect(outcome(await other.call('POST', '/console/person/provider', { body: taken }))).toEqual([
      409,
      'conflict',
    ]);
    expect((await page.call('DELETE', '/console/person/provider')).status).toBe(200);
    expect(outcome((await signIn('bob')).answer)).toEqual([403, 'forbidden']);
  });

  it('is found by a proved address', async () => {
    await joinByPassword('proved@example.com');
    await prove('proved@example.com');
    provider.people.set('proved', { email: 'proved@example.com', email_verified: true });
    const notices = vi.spyOn(rowhouse.service.deps.peopleMail, 'notifyLater');
    for (let n = 0; n < 2; n++)
      expect((await signIn('proved')).answer.body.person.email).toBe('proved@example.com');
    expect(notices.mock.calls).toEqual([['member_provider_connected', 'proved@example.com']]);
    notices.mockRestore();
  });

  it('with a passkey connects the provider in a session that has proved it', async () => {
    const origin = 'http://localhost:8765';
    const page = await joinByPassword('keyed@example.com');
    await prove('keyed@example.com');
    const { options } = (await page.call('POST', '/console/person/passkeys/options')).body;
    const body = { name: 'Laptop', answer: new Authenticator(origin).register(options) };
    expect((await page.call('POST', '/console/person/passkeys', { body })).status).toBe(201);
    provider.people.set('keyed', { email: 'keyed@example.com', email_verified: true });
    expect(outcome((await signIn('keyed')).answer)).toEqual([403, 'forbidden']);
    const connect = async (by: Page) => {
      const { url, flow } = await begin(by);
      return by.call('POST', '/console/person/provider', {
        body: { flow, query: await signInAt(url, 'keyed') },
      });
    };
    const thief = await newPage();
    await thief.signIn({ email: 'keyed@example.com', password });
    expect(outcome(await connect(thief))).toEqual([403, 'second_factor_required']);
    expect((await connect(page)).status).toBe(200);
    expect((await signIn('keyed')).answer.status).toBe(201);
  });

  it('is not taken over by whoever gets the address at the provider later', async () => {
    await joinByPassword('reused@example.com');
    await prove('reused@example.com');
    for (const sub of ['first', 'second'])
      provider.people.set(sub, { email: 'reused@example.com', email_verified: true });
    expect((await signIn('first')).answer.status).toBe(201);
    expect(outcome((await signIn('second')).answer)).toEqual([403, 'forbidden']);
    expect((await signIn('first')).answer.status).toBe(201);
  });

  it('keeps invitations pending, and goes on in the account of before', async () => {
    await joinByPassword('pending@example.com');
    await prove('pending@example.com');
    const code = await invite(await openAccount('AAA'), 'pending@example.com', 'owner');
    provider.people.set('pending', { email: 'pending@example.com', email_verified: true });
    const { page, answer } = await signIn('pending');
    expect(answer.body.account.name).toBe('Of pending@example.com');
    expect((await page.call('GET', '/console/person')).body.accounts).toHaveLength(1);
    const accepted = await page.call('POST', '/console/invitation/accept', { body: { code, password } });
    expect(accepted.status, accepted.text).toBe(200);
  });

  it('enters the code of an own second factor as well', async () => {
    const page = await joinByPassword('factor@example.com');
    const first = await begin(page);
    provider.people.set('factor', { email: 'factor@example.com', email_verified: true });
    await page.call('POST', '/console/person/provider', {
      body: { flow: first.flow, query: await signInAt(first.url, 'factor') },
    });
    const { body } = await page.call('POST', '/console/person/second-factor', { body: { password } });
    const app = new TOTP({ secret: Secret.fromBase32(body.secret) });
    const codeNow = () => app.generate({ timestamp: now() });
    await page.call('POST', '/console/person/second-factor/confirm', { body: { code: codeNow() } });
    laterMs += 60_000;
    const { page: next, answer } = await signIn('factor');
    expect(outcome(answer)).toEqual([403, 'second_factor_required']);
    const { proof } = answer.body.error.details;
    expect(outcome(await finish(next, { provider: { proof }, code: '000000' }))).toEqual(refused);
    expect(
      outcome(await finish(next, { provider: { proof: `${proof.slice(0, -4)}AAAA` }, code: codeNow() })),
    ).toEqual(refused);
    expect((await finish(next, { provider: { proof }, code: codeNow() })).status).toBe(201);
  });
});

describe('an attack', () => {
  const victim = async (name: string) => {
    await invite(await openAccount(name), `${name}@example.com`);
    provider.people.set(name, { email: `${name}@example.com`, email_verified: true });
  };

  it('with the answer of another tab, a changed state, or no state is refused', async () => {
    await victim('states');
    const page = await newPage();
    const [one, two] = [await begin(page), await begin(page)];
    const query = await signInAt(two.url, 'states');
    const parameters = new URLSearchParams(query);
    // The attacker's own answer, in the browser of somebody who has begun another sign-in, or none.
    expect(outcome(await finish(page, { provider: { flow: one.flow, query } }))).toEqual(refused);
    expect(outcome(await finish(page, { provider: { flow: '', query } }))).toEqual(refused);
    // The code of one request with the state of the other.
    const mixed = new URLSearchParams({
      code: parameters.get('code') ?? '',
      state: new URL(one.url).searchParams.get('state') ?? '',
      iss: provider.issuer,
    });
    expect(outcome(await finish(page, { provider: { flow: one.flow, query: `?${mixed}` } }))).toEqual(
      refused,
    );
    parameters.delete('state');
    expect(outcome(await finish(page, { provider: { flow: two.flow, query: `?${parameters}` } }))).toEqual(
      refused,
    );
    for (const wrong of ['', '?error=access_denied', '?code=x&state=y'])
      expect(outcome(await finish(page, { provider: { flow: two.flow, query: wrong } }))).toEqual(refused);
  });

  it('with an answer that was used before, or is late, is refused', async () => {
    await victim('replayed');
    const page = await newPage();
    const { url, flow } = await begin(page);
    const given = { provider: { flow, query: await signInAt(url, 'replayed') } };
    const answers = await Promise.all(Array.from({ length: 4 }, async () => finish(await newPage(), given)));
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
    expect(outcome(await finish(page, given))).toEqual(refused);
    const late = await begin(page);
    const query = await signInAt(late.url, 'replayed');
    laterMs += 6 * 60_000;
    expect(outcome(await finish(page, { provider: { flow: late.flow, query } }))).toEqual(refused);
  });

  it('with the token of an earlier sign-in is refused: its nonce is another one', async () => {
    await victim('nonces');
    let kept = '';
    provider.setOnToken((body) => {
      kept = body.id_token ?? '';
      return body;
    });
    expect((await signIn('nonces')).answer.status).toBe(201);
    provider.setOnToken((body) => ({ ...body, id_token: kept }));
    const { answer } = await signIn('nonces');
    // A token that was changed is refused by its signature.
    provider.setOnToken((body) => ({ ...body, id_token: `${body.id_token?.slice(0, -6)}AAAAAA` }));
    const { answer: forged } = await signIn('nonces');
    provider.setOnToken(null);
    expect(outcome(answer)).toEqual(refused);
    expect(outcome(forged)).toEqual(refused);
    expect((await signIn('nonces')).answer.status).toBe(201);
  });
});

describe('a provider that is down', () => {
  it('is told as such, and passwords still work', async () => {
    const page = await newPage();
    const { url, flow } = await begin(page);
    const query = await signInAt(url, 'ada');
    provider.setDown(true);
    try {
      const answer = await finish(page, { provider: { flow, query } });
      expect(outcome(answer)).toEqual([503, 'unavailable']);
      expect(answer.body.error.message).toContain('Example Login');
      const own = await newPage();
      expect((await own.signIn({ email: 'bill@example.com', password })).status).toBe(201);
    } finally {
      provider.setDown(false);
    }
    expect((await signIn('ada')).answer.status).toBe(201);
  });
});

describe('the sign-in page', () => {
  it('learns which ways there are', async () => {
    const page = await newPage();
    expect((await page.call('GET', '/console/ways')).body).toEqual({
      ok: true,
      passkeys: 'http://localhost:8765',
      provider: 'Example Login',
      recovery: false,
    });
  });
});

// Passkeys: made in the profile, used to sign in, and every way to use one wrongly. An authenticator in software signs.
import { Secret, TOTP } from 'otpauth';
import { describe, expect, it } from 'vitest';
import { relyingPartyOf } from '../../../src/access/people/passkeys.ts';
import { listening, outcome, Page } from '../../support/console-page.ts';
import { api, openSecondProcess, useTestService } from '../../support/helpers.ts';
import { Authenticator } from './authenticator.ts';

let laterMs = 0;
const now = () => Date.now() + laterMs;
const origin = 'https://console.example.com';
const rowhouse = useTestService({
  passwordIterations: 1_000,
  trustedProxies: ['127.0.0.1'],
  now,
  consolePage: `${origin}/console/`,
  console: { hosts: ['console.example.com'], folder: null },
});
const password = 'violet anchor seven maple';
const refused = [401, 'invalid_credentials'];
let addresses = 0;
const fromElsewhere = () => ({
  'x-forwarded-for': `10.7.${Math.floor(++addresses / 250)}.${addresses % 250}`,
});

const openAccount = async (name: string): Promise<string> =>
  (await rowhouse.call('POST', `${api}/accounts`, { key: rowhouse.operatorKey, body: { name } })).body
    .api_key;
const newPage = async () => new Page(await listening(rowhouse), origin);
const join = async (key: string, email: string) => {
  const { body } = await rowhouse.call('POST', `${api}/account/invitations`, {
    key,
    body: { email, role: 'owner' },
  });
  const page = await newPage();
  const code = String(body.link).split('#invitation=')[1];
  const accepted = await page.call('POST', '/console/invitation/accept', { body: { code, password } });
  expect(accepted.status, accepted.text).toBe(200);
  page.token = accepted.body.token;
  return page;
};
const begin = async (page: Page) =>
  (await page.call('POST', '/console/person/passkeys/options')).body.options;
const add = async (page: Page, answer: object, name = 'Laptop') =>
  page.call('POST', '/console/person/passkeys', { body: { name, answer } });
/** A passkey of the person whose page it is. */
const addTo = async (page: Page, authenticator = new Authenticator(origin)) => {
  const added = await add(page, authenticator.register(await begin(page)));
  expect(added.status, added.text).toBe(201);
  return { authenticator, id: added.body.passkey.id as string };
};
const ask = async () => (await (await newPage()).call('POST', '/console/passkey/options')).body.options;
const use = async (passkey: object) => {
  const page = await newPage();
  const answer = await page.call('POST', '/console/session', { body: { passkey }, headers: fromElsewhere() });
  page.token = answer.body.token;
  return { page, answer };
};

describe('a passkey', () => {
  it('signs in without a password, and counts as a second factor', async () => {
    const key = await openAccount('Passkeys');
    const page = await join(key, 'pass@example.com');
    const { authenticator } = await addTo(page);
    const options = await ask();
    expect(options).toMatchObject({ rpId: 'console.example.com', userVerification: 'required' });
    // Nobody learns who has passkeys.
    expect(options.allowCredentials ?? []).toEqual([]);
    await rowhouse.call('PATCH', `${api}/account`, { key, body: { requires_second_factor: true } });
    const { page: signedIn, answer } = await use(authenticator.sign(options));
    expect(answer.status, answer.text).toBe(201);
    expect(answer.body).toMatchObject({ person: { email: 'pass@example.com' }, lacks_second_factor: false });
    expect((await signedIn.call('GET', '/projects')).status).toBe(200);
    const { entries } = (await rowhouse.call('GET', `${api}/audit`, { key })).body;
    const actions = entries.map(({ action, details }: { action: string; details: unknown }) => [
      action,
      details,
    ]);
    expect(actions).toContainEqual(['session.sign_in', { way: 'passkey' }]);
    expect(actions).toContainEqual(['person.passkey_added', { name: 'Laptop' }]);
    const { members } = (await rowhouse.call('GET', `${api}/account/members`, { key })).body;
    expect(members[0].has_second_factor).toBe(true);
  });

  it('is listed, renamed and removed, by its owner only', async () => {
    const key = await openAccount('Listing');
    const [page, other] = [await join(key, 'lists@example.com'), await join(key, 'other@example.com')];
    const { authenticator, id } = await addTo(page);
    const path = `/console/person/passkeys/${id}`;
    const list = async (of: Page) => (await of.call('GET', '/console/person/passkeys')).body.passkeys;
    expect(await list(page)).toEqual([expect.objectContaining({ id, name: 'Laptop', last_used_at: null })]);
    expect(await list(other)).toEqual([]);
    const rename = (by: Page) => by.call('PATCH', path, { body: { name: 'Phone' } });
    expect(outcome(await rename(other))).toEqual([404, 'key_not_found']);
    expect((await rename(page)).body.passkey.name).toBe('Phone');
    const { entries } = (await rowhouse.call('GET', `${api}/audit`, { key })).body;
    expect(entries).toContainEqual(
      expect.objectContaining({ action: 'person.passkey_renamed', details: { name: 'Phone' } }),
    );
    expect(outcome(await other.call('DELETE', path))).toEqual([404, 'key_not_found']);
    expect((await page.call('DELETE', path)).status).toBe(200);
    expect(outcome((await use(authenticator.sign(await ask()))).answer)).toEqual(refused);
  });

  it('is added and removed only shortly after the person proved who they are; a passkey proves it, too', async () => {
    const page = await join(await openAccount('Fresh'), 'fresh@example.com');
    const { authenticator, id } = await addTo(page);
    laterMs += 6 * 60_000;
    const tooLate = [403, 'confirmation_required'];
    expect(outcome(await page.call('POST', '/console/person/passkeys/options'))).toEqual(tooLate);
    expect(outcome(await page.call('DELETE', `/console/person/passkeys/${id}`))).toEqual(tooLate);
    const confirmed = await page.call('POST', '/console/session/confirm', {
      body: { passkey: authenticator.sign(await ask()) },
    });
    expect(confirmed.status, confirmed.text).toBe(200);
    await addTo(page);
    // Somebody else's does not confirm this session.
    const other = await join(await openAccount('Fresh 2'), 'fresh2@example.com');
    const { authenticator: theirs } = await addTo(other);
    const body = { passkey: theirs.sign(await ask()) };
    expect(outcome(await page.call('POST', '/console/session/confirm', { body }))).toEqual(refused);
  });

  it('is not replaced by whoever has only the password', async () => {
    const page = await join(await openAccount('Bypass'), 'bypass@example.com');
    // Begun before there was a passkey: it must not be completed afterwards.
    const thief = await newPage();
    await thief.signIn({ email: 'bypass@example.com', password });
    const early = await thief.call('POST', '/console/person/second-factor', { body: { password } });
    const code = new TOTP({ secret: Secret.fromBase32(early.body.secret) }).generate({ timestamp: now() });
    const { authenticator, id } = await addTo(page);
    const attacks = async (by: Page) => [
      await by.call('POST', '/console/person/second-factor', { body: { password } }),
      await by.call('POST', '/console/person/second-factor/confirm', { body: { code } }),
      await by.call('POST', '/console/person/passkeys/options'),
      await by.call('DELETE', `/console/person/passkeys/${id}`),
      await by.call('DELETE', '/console/person/provider'),
    ];
    for (const answer of await attacks(thief))
      expect(outcome(answer), answer.text).toEqual([403, 'second_factor_required']);
    // Nor by confirming the session with the password once more.
    const confirm = (body: object) => thief.call('POST', '/console/session/confirm', { body });
    expect((await confirm({ password })).status).toBe(200);
    expect(outcome(await thief.call('POST', '/console/person/passkeys/options'))[0]).toBe(403);
    // With the passkey, the session has proved the factor.
    expect((await confirm({ passkey: authenticator.sign(await ask()) })).status).toBe(200);
    await addTo(thief);
    const begun = await thief.call('POST', '/console/person/second-factor', { body: { password } });
    expect(begun.status, begun.text).toBe(200);
  });

  it('is limited in number', async () => {
    const page = await join(await openAccount('Many'), 'manykeys@example.com');
    for (let n = 0; n < 20; n++) await addTo(page);
    expect(outcome(await page.call('POST', '/console/person/passkeys/options'))).toEqual([409, 'conflict']);
  });
});

describe('a wrong answer', () => {
  it('of another origin, relying party or type, without verification, or changed, is refused', async () => {
    const page = await join(await openAccount('Wrong'), 'wrong@example.com');
    const { authenticator } = await addTo(page);
    const lies = [
      { origin: 'https://console.example.com.evil.example' },
      { origin: 'http://console.example.com' },
      { origin: 'https://console.example.com:8443' },
      { rpId: 'evil.example' },
      { type: 'webauthn.create' },
      { isVerified: false },
      { challenge: Buffer.from('made up').toString('base64url') },
      { userHandle: Buffer.from('somebody else').toString('base64url') },
      // The counter goes back: the authenticator was cloned.
      { counter: 1 },
    ];
    for (const lie of lies) {
      const { answer } = await use(authenticator.sign(await ask(), lie));
      expect(outcome(answer), JSON.stringify(lie)).toEqual(refused);
    }
    const honest = authenticator.sign(await ask());
    const [first = '', ...rest] = honest.response.signature;
    const changed = { ...honest.response, signature: (first === 'A' ? 'B' : 'A') + rest.join('') };
    expect(outcome((await use({ ...honest, response: changed })).answer)).toEqual(refused);
    // None of them spoilt the passkey.
    expect((await use(authenticator.sign(await ask()))).answer.status).toBe(201);
  });

  it('that was used before, or is late, is refused, also by another process', async () => {
    const page = await join(await openAccount('Replays'), 'replays@example.com');
    const { authenticator } = await addTo(page);
    const answer = authenticator.sign(await ask());
    const answers = await Promise.all(Array.from({ length: 5 }, () => use(answer)));
    expect(answers.filter(({ answer: { status } }) => status === 201)).toHaveLength(1);
    // Another signature of the same challenge.
    const options = await ask();
    expect((await use(authenticator.sign(options))).answer.status).toBe(201);
    expect(outcome((await use(authenticator.sign(options))).answer)).toEqual(refused);
    const second = await openSecondProcess(rowhouse, {
      now,
      consolePage: `${origin}/console/`,
      console: { hosts: ['console.example.com'], folder: null },
    });
    try {
      const there = new Page(await listening(second), origin);
      const replayed = await there.call('POST', '/console/session', { body: { passkey: answer } });
      expect(outcome(replayed)).toEqual(refused);
    } finally {
      await second.stop();
    }
    const late = await ask();
    laterMs += 6 * 60_000;
    expect(outcome((await use(authenticator.sign(late))).answer)).toEqual(refused);
  });

  it('for another purpose or person is refused', async () => {
    const key = await openAccount('Purposes');
    const [ada, bob] = [await join(key, 'ada-keys@example.com'), await join(key, 'bob-keys@example.com')];
    // A challenge of Ada's does not add a passkey to Bob.
    const authenticator = new Authenticator(origin);
    const answer = authenticator.register(await begin(ada));
    expect(outcome(await add(bob, answer))).toEqual(refused);
    expect((await add(ada, answer)).status).toBe(201);
    expect(outcome(await add(ada, answer))).toEqual(refused);
    // Nor does one for signing in.
    const mixed = authenticator.register({ ...(await begin(ada)), challenge: (await ask()).challenge });
    expect(outcome(await add(ada, mixed))).toEqual(refused);
    // Bob cannot register the credential id of Ada with a key of his own, and then sign in as her.
    const copy = new Authenticator(origin, authenticator.id);
    expect(outcome(await add(bob, copy.register(await begin(bob))))).toEqual(refused);
    expect(outcome((await use(copy.sign(await ask(), { counter: 99 }))).answer)).toEqual(refused);
    const { answer: hers } = await use(authenticator.sign(await ask()));
    expect(hers.body.person.email).toBe('ada-keys@example.com');
  });

  it('of a new authenticator without verification, or of another origin, is refused', async () => {
    const page = await join(await openAccount('Registering'), 'registering@example.com');
    for (const lie of [{ isVerified: false }, { origin: 'https://evil.example' }, { rpId: 'evil.example' }]) {
      const answer = new Authenticator(origin).register(await begin(page), lie);
      expect(outcome(await add(page, answer)), JSON.stringify(lie)).toEqual(refused);
    }
    expect(outcome(await add(page, { id: 'x', rawId: 'x', type: 'public-key', response: {} }))).toEqual([
      400,
      'invalid_request',
    ]);
  });
});

describe('the relying party', () => {
  it('is the name of the configured address; an address has none', () => {
    expect(relyingPartyOf('https://db.example.com/console/')).toEqual({
      id: 'db.example.com',
      origin: 'https://db.example.com',
    });
    expect(relyingPartyOf('http://127.0.0.1:8765/console/')).toEqual({
      id: 'localhost',
      origin: 'http://localhost:8765',
    });
    expect(relyingPartyOf('https://127.0.0.1:8765/console/')?.origin).toBe('https://localhost:8765');
    for (const page of [null, 'https://10.1.2.3/console/', 'https://[fd00::1]/console/'])
      expect(relyingPartyOf(page)).toBeNull();
  });
});

// Mail to people: invitations, new passwords, addresses that are proved, and notices. And what a link alone does not give.
import { Secret, TOTP } from 'otpauth';
import { afterAll, describe, expect, it } from 'vitest';
import { sql } from '../../../src/postgres/sql.ts';
import { listening, outcome, Page } from '../../support/console-page.ts';
import { api, openSecondProcess, until, useTestService } from '../../support/helpers.ts';
import { startMailServer } from '../../support/mail-server.ts';
import { Authenticator } from './authenticator.ts';

const mailServer = await startMailServer();
const consolePage = 'https://console.example.com/console/';
let laterMs = 0;
const now = () => Date.now() + laterMs;
const rowhouse = useTestService({
  passwordIterations: 1_000,
  trustedProxies: ['127.0.0.1'],
  now,
  consolePage,
  delivery: mailServer.delivery,
});
afterAll(() => mailServer.stop());

const password = 'violet anchor seven maple';
const another = 'copper lantern eleven birch';
let addresses = 0;
const fromElsewhere = () => ({
  'x-forwarded-for': `10.8.${Math.floor(++addresses / 250)}.${addresses % 250}`,
});
const call = (method: string, path: string, key: string, body?: unknown) =>
  rowhouse.call(method, api + path, { key, ...(body !== undefined && { body }) });
const openAccount = async (name: string): Promise<string> =>
  (await call('POST', '/accounts', rowhouse.operatorKey, { name })).body.api_key;
const newPage = async () => new Page(await listening(rowhouse));
const post = async (path: string, body: object, page?: Page) =>
  (page ?? (await newPage())).call('POST', path, { body, headers: fromElsewhere() });
const signIn = async (email: string, given = password, code?: string) => {
  const page = await newPage();
  const answer = await page.signIn({ email, password: given, ...(code && { code }) });
  return { page, answer };
};
const mailsTo = (email: string) => mailServer.mails.filter(({ to }) => to.includes(email));
const lastMail = (email: string, subject: string) =>
  until(`a mail to ${email}: ${subject}`, async () =>
    mailsTo(email)
      .filter((mail) => mail.subject.includes(subject))
      .at(-1),
  );
const codeIn = ({ text }: { text: string }, kind: string) =>
  new RegExp(`${consolePage}#${kind}=(rh_[a-z]+_[\\w-]{43})`).exec(text)?.[1] ?? '';
const invite = async (key: string, email: string, role = 'developer') => {
  const { status, body } = await call('POST', '/account/invitations', key, { email, role });
  expect(status, JSON.stringify(body)).toBe(201);
  return body;
};
/** Without mail: whoever invites gets the link. */
const inviteByLink = async (key: string, email: string, role = 'developer'): Promise<string> => {
  mailServer.setBroken(true);
  const { link, is_mailed: isMailed } = await invite(key, email, role);
  mailServer.setBroken(false);
  expect(isMailed).toBe(false);
  return link.split('#invitation=')[1];
};
const accept = (code: string, given = password) =>
  post('/console/invitation/accept', { code, password: given });
const operatorLink = async (email: string): Promise<string> =>
  (await call('POST', '/people/recovery', rowhouse.operatorKey, { email })).body.link.split('#recovery=')[1];
const isProved = async (email: string) => {
  const [row] = await rowhouse.service.deps.control.query<{ isProved: boolean }>(
    sql`select email_proved_at is not null as "isProved" from people where email_key = ${email}`,
  );
  return row?.isProved;
};

describe('an invitation', () => {
  it('is mailed, and shown to nobody else', async () => {
    const key = await openAccount('Mailed\r\nBcc: x@example.com'.replace(/[\r\n]/g, ' '));
    const answer = await invite(key, 'mailed@example.com');
    expect(answer).toMatchObject({ link: null, is_mailed: true });
    const mail = await lastMail('mailed@example.com', 'Invitation to');
    expect(mail.to).toEqual(['mailed@example.com']);
    expect((await accept(codeIn(mail, 'invitation'))).status).toBe(200);
    expect(await isProved('mailed@example.com')).toBe(true);
    expect(rowhouse.log.join('')).not.toContain(codeIn(mail, 'invitation'));
  });

  it('is shown to who invites if it cannot be mailed, and then proves no address', async () => {
    const key = await openAccount('Shown');
    expect((await accept(await inviteByLink(key, 'shown@example.com'))).status).toBe(200);
    expect(await isProved('shown@example.com')).toBe(false);
  });

  it('floods nobody, while other addresses are still invited', async () => {
    const key = await openAccount('Flooding');
    const again = () =>
      call('POST', '/account/invitations', key, { email: 'bob@example.com', role: 'viewer' });
    const codes = [];
    for (let n = 0; n < 6; n++) codes.push((await again()).status);
    expect(codes).toEqual([201, 201, 201, 201, 201, 429]);
    await invite(key, 'carol@example.com');
    await invite(await openAccount('Quiet'), 'bob@example.com');
  });

  it('gives nobody the identity of a person who exists', async () => {
    const [good, bad] = [await openAccount('Good'), await openAccount('Bad')];
    await invite(good, 'victim@example.com', 'owner');
    const mail = await lastMail('victim@example.com', 'Invitation to Good');
    expect((await accept(codeIn(mail, 'invitation'))).status).toBe(200);
    const stolen = await inviteByLink(bad, 'victim@example.com', 'viewer');
    expect(outcome(await accept(stolen, another))).toEqual([401, 'invalid_credentials']);
    expect((await signIn('victim@example.com', another)).answer.status).toBe(401);
    expect((await signIn('victim@example.com')).answer.status).toBe(201);
  });
});

describe('a new password', () => {
  it('is set with a mailed link, once, and ends every session', async () => {
    const key = await openAccount('Forgetful');
    await accept(await inviteByLink(key, 'forgot@example.com'));
    const { page } = await signIn('forgot@example.com');
    expect((await post('/console/recovery', { email: ' Forgot@Example.com ' })).body).toEqual({ ok: true });
    const code = codeIn(await lastMail('forgot@example.com', 'A new password'), 'recovery');
    const answers = await Promise.all(
      Array.from({ length: 4 }, () => post('/console/recovery/confirm', { code, password: another })),
    );
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(outcome(await page.call('GET', '/console/session'))).toEqual([401, 'session_required']);
    expect((await signIn('forgot@example.com')).answer.status).toBe(401);
    expect((await signIn('forgot@example.com', another)).answer.status).toBe(201);
    await lastMail('forgot@example.com', 'Your password for Rowhouse was changed');
  });

  it('is offered in the same way to an address that nobody has, and not again and again', async () => {
    const key = await openAccount('Same');
    await accept(await inviteByLink(key, 'same@example.com'));
    for (const email of ['same@example.com', 'nobody@example.com']) {
      const page = await newPage();
      const ask = () =>
        page.call('POST', '/console/recovery', {
          body: { email },
          headers: { 'x-forwarded-for': '10.66.0.1' },
        });
      const answers = [await ask(), await ask(), await ask(), await ask()];
      expect(answers.map(({ body, status }) => [status, body.ok])).toEqual([
        ...[200, 200, 200].map((status) => [status, true]),
        [429, false],
      ]);
    }
    await lastMail('same@example.com', 'A new password');
    expect(mailsTo('nobody@example.com')).toEqual([]);
    // From another network, it still works.
    expect((await post('/console/recovery', { email: 'same@example.com' })).status).toBe(200);
  });

  it('by the first mail to an address takes away what a stranger has set up before', async () => {
    const key = await openAccount('Squatting');
    await accept(await inviteByLink(key, 'squatted@example.com'));
    const { page } = await signIn('squatted@example.com');
    const begun = await page.call('POST', '/console/person/second-factor', { body: { password } });
    const app = new TOTP({ secret: Secret.fromBase32(begun.body.secret) });
    const confirmed = await page.call('POST', '/console/person/second-factor/confirm', {
      body: { code: app.generate({ timestamp: now() }) },
    });
    expect(confirmed.status, confirmed.text).toBe(200);
    await post('/console/recovery', { email: 'squatted@example.com' });
    const code = codeIn(await lastMail('squatted@example.com', 'A new password'), 'recovery');
    expect((await post('/console/recovery/confirm', { code, password: another })).status).toBe(200);
    expect((await signIn('squatted@example.com', another)).answer.status).toBe(201);
    expect(outcome(await page.call('GET', '/console/session'))).toEqual([401, 'session_required']);
    // Once the address is proved, a second factor stays: the mailbox alone does not suffice.
    const { page: own } = await signIn('squatted@example.com', another);
    const second = await own.call('POST', '/console/person/second-factor', { body: { password: another } });
    const ownApp = new TOTP({ secret: Secret.fromBase32(second.body.secret) });
    await own.call('POST', '/console/person/second-factor/confirm', {
      body: { code: ownApp.generate({ timestamp: now() }) },
    });
    laterMs += 3_600_000;
    await post('/console/recovery', { email: 'squatted@example.com' });
    const again = await until('another code', async () => {
      const found = codeIn(await lastMail('squatted@example.com', 'A new password'), 'recovery');
      return found !== code && found;
    });
    expect((await post('/console/recovery/confirm', { code: again, password })).status).toBe(200);
    expect(outcome((await signIn('squatted@example.com')).answer)).toEqual([403, 'second_factor_required']);
  });

  it('by a link of the operator does so, too, and the notice of a passkey says where to remove it', async () => {
    await accept(await inviteByLink(await openAccount('Squatting more'), 'taken@example.com'));
    const { page } = await signIn('taken@example.com');
    const { options } = (await page.call('POST', '/console/person/passkeys/options')).body;
    const authenticator = new Authenticator('https://console.example.com');
    const body = { name: 'Of a stranger', answer: authenticator.register(options) };
    expect((await page.call('POST', '/console/person/passkeys', { body })).status).toBe(201);
    const notice = await lastMail('taken@example.com', 'A passkey for Rowhouse was added');
    expect(notice.text.replace(/=\r?\n/g, '')).toContain('remove it in your profile');
    const code = await operatorLink('taken@example.com');
    expect((await post('/console/recovery/confirm', { code, password: another })).status).toBe(200);
    const asked = await post('/console/passkey/options', {});
    const passkey = authenticator.sign(asked.body.options);
    expect(outcome(await post('/console/session', { passkey }))).toEqual([401, 'invalid_credentials']);
    const { page: own } = await signIn('taken@example.com', another);
    expect((await own.call('GET', '/console/person/passkeys')).body.passkeys).toEqual([]);
  });

  it('by a link of the operator still works after somebody asked for a mail', async () => {
    await accept(await inviteByLink(await openAccount('Voided'), 'voided@example.com'));
    const [old, code] = [await operatorLink('voided@example.com'), await operatorLink('voided@example.com')];
    await post('/console/recovery', { email: 'voided@example.com' });
    await lastMail('voided@example.com', 'A new password');
    const confirm = (given: string) => post('/console/recovery/confirm', { code: given, password: another });
    expect(outcome(await confirm(old))).toEqual([400, 'invalid_code']);
    expect((await confirm(code)).status).toBe(200);
  });

  it('is not offered for many addresses to one network, while others can ask', async () => {
    const ask = async (n: number) =>
      (await newPage()).call('POST', '/console/recovery', {
        body: { email: `flood${n}@example.com` },
        headers: { 'x-forwarded-for': '10.67.0.1' },
      });
    const statuses = [];
    for (let n = 0; n < 14; n++) statuses.push((await ask(n)).status);
    expect(statuses.slice(0, 10)).toEqual(Array(10).fill(200));
    expect(statuses.at(-1)).toBe(429);
    expect((await post('/console/recovery', { email: 'flood0@example.com' })).status).toBe(200);
  });

  it('is given by the operator, also where no mail is sent', async () => {
    const key = await openAccount('Helped');
    await accept(await inviteByLink(key, 'helped@example.com'));
    const given = await call('POST', '/people/recovery', rowhouse.operatorKey, {
      email: 'helped@example.com',
    });
    expect(given.status, JSON.stringify(given.body)).toBe(201);
    const code = given.body.link.split('#recovery=')[1];
    expect((await post('/console/recovery/confirm', { code, password: another })).status).toBe(200);
    expect((await signIn('helped@example.com', another)).answer.status).toBe(201);
    expect(await isProved('helped@example.com')).toBe(false);
    const unknown = await call('POST', '/people/recovery', rowhouse.operatorKey, { email: 'no@example.com' });
    expect([unknown.status, unknown.body.error.code]).toEqual([404, 'member_not_found']);
    expect((await call('POST', '/people/recovery', key, { email: 'helped@example.com' })).status).toBe(403);
    const without = await openSecondProcess(rowhouse);
    try {
      const page = new Page(await listening(without));
      const asked = await page.call('POST', '/console/recovery', { body: { email: 'helped@example.com' } });
      expect(outcome(asked)).toEqual([409, 'conflict']);
      expect(asked.body.error.hint).toContain('rowhouse people recover');
    } finally {
      await without.stop();
    }
  });
});

describe('an address', () => {
  it('is changed by a link to the new one, where the person is signed in; the old one is told', async () => {
    const key = await openAccount('Moving');
    await accept(await inviteByLink(key, 'old@example.com'));
    await accept(await inviteByLink(key, 'stranger@example.com'));
    const { page } = await signIn('old@example.com');
    await post('/console/recovery', { email: 'old@example.com' });
    const oldLink = codeIn(await lastMail('old@example.com', 'A new password'), 'recovery');
    const asked = await page.call('POST', '/console/person/email', {
      body: { email: 'new@example.com', password },
    });
    expect(asked.status, asked.text).toBe(200);
    const code = codeIn(await lastMail('new@example.com', 'Confirm your address'), 'email');
    const { page: stranger } = await signIn('stranger@example.com');
    const confirm = (by: Page) => by.call('POST', '/console/person/email/confirm', { body: { code } });
    expect(outcome(await confirm(stranger))).toEqual([400, 'invalid_code']);
    expect((await confirm(page)).status).toBe(200);
    expect(outcome(await confirm(page))).toEqual([400, 'invalid_code']);
    expect((await signIn('new@example.com')).answer.status).toBe(201);
    expect(await isProved('new@example.com')).toBe(true);
    await lastMail('old@example.com', 'Your address for Rowhouse was changed');
    // A link that is still in the old mailbox is worthless.
    expect(outcome(await post('/console/recovery/confirm', { code: oldLink, password: another }))).toEqual([
      400,
      'invalid_code',
    ]);
  });
});

describe('a person', () => {
  it('floods no mailbox with links to new addresses, while others change theirs', async () => {
    const key = await openAccount('Mailing');
    for (const name of ['flooder', 'calm']) await accept(await inviteByLink(key, `${name}@example.com`));
    const pages = [await signIn('flooder@example.com'), await signIn('calm@example.com')];
    const change = async (who: number, email: string) =>
      (await pages[who]?.page.call('POST', '/console/person/email', { body: { email, password } }))?.status;
    const statuses = [];
    for (let n = 0; n < 6; n++) statuses.push(await change(0, 'mailbox@example.com'));
    expect(statuses).toEqual([200, 200, 200, 200, 200, 429]);
    const others = [];
    for (let n = 0; n < 6; n++) others.push(await change(0, `mailbox${n}@example.com`));
    expect(others.at(-1)).toBe(429);
    expect(await change(1, 'calmer@example.com')).toBe(200);
  });

  it('hears of several wrong codes after the right password, once', async () => {
    await accept(await inviteByLink(await openAccount('Trying'), 'tried@example.com'));
    const { page } = await signIn('tried@example.com');
    const begun = await page.call('POST', '/console/person/second-factor', { body: { password } });
    const app = new TOTP({ secret: Secret.fromBase32(begun.body.secret) });
    const code = app.generate({ timestamp: now() });
    await page.call('POST', '/console/person/second-factor/confirm', { body: { code } });
    const told = () => mailsTo('tried@example.com').filter(({ subject }) => subject.includes('Wrong codes'));
    for (let n = 0; n < 4; n++) await signIn('tried@example.com', password, `00000${n}`);
    expect(told()).toEqual([]);
    for (let n = 0; n < 4; n++) await signIn('tried@example.com', password, `00001${n}`);
    await lastMail('tried@example.com', 'Wrong codes');
    expect(told()).toHaveLength(1);
  });
});

describe('the audit log of each account', () => {
  it('has what its people do with their sign-in, and attempts that failed', async () => {
    const [one, two] = [await openAccount('Audit one'), await openAccount('Audit two')];
    for (const key of [one, two]) await accept(await inviteByLink(key, 'audited@example.com'));
    await signIn('audited@example.com', another);
    const { page } = await signIn('audited@example.com');
    const changed = await page.call('POST', '/console/person/password', {
      body: { current_password: password, password: another },
    });
    expect(changed.status, changed.text).toBe(200);
    for (const key of [one, two]) {
      const found = await until('both entries', async () => {
        const { entries } = (await call('GET', '/audit', key)).body;
        const names = entries.map((entry: { action: string; outcome: string }) => [
          entry.action,
          entry.outcome,
        ]);
        const text = JSON.stringify(names);
        return (
          text.includes('["session.sign_in","refused"]') &&
          text.includes('["person.password","done"]') &&
          entries
        );
      });
      expect(JSON.stringify(found)).not.toContain(another);
    }
    const { members } = (await call('GET', '/account/members', one)).body;
    expect(members[0].last_sign_in_at).toMatch(/^20/);
  });

  it('has attempts that failed also while very much mail is waiting', async () => {
    const key = await openAccount('Crowded');
    await accept(await inviteByLink(key, 'crowded@example.com'));
    let release = () => {};
    const released = new Promise<null>((resolve) => {
      release = () => resolve(null);
    });
    for (let n = 0; n < 100; n++) rowhouse.service.deps.peopleMail.sendLater(() => released);
    try {
      expect((await signIn('crowded@example.com', another)).answer.status).toBe(401);
      await until('the entry', async () => {
        const { entries } = (await call('GET', '/audit?action=session', key)).body;
        return entries.some((entry: { outcome: string }) => entry.outcome === 'refused');
      });
    } finally {
      release();
    }
  });
});

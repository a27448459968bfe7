// The own profile in real browsers: the second factor from the set-up to the sign-in with a recovery code, the password, sessions
// that end elsewhere, the confirmation by password, and the link that proves a new address.
import { Secret, TOTP } from 'otpauth';
import type { Page } from 'playwright-core';
import { beforeAll, expect, it } from 'vitest';
import { startEmailChange } from '../../server/src/access/people/profile.ts';
import { api } from '../../server/test/support/helpers.ts';
import { asksBeforeLeaving, enterPassword, fill, inBrowsers, openPage, type Watched } from './browser.ts';
import { expectLooks } from './looks.ts';
import { join, openAccount, password } from './members-of.ts';
import { partsOf, useConsoleService, useVisit } from './visit.ts';

let laterMs = 0;
const now = () => Date.now() + laterMs;
const rowhouse = useConsoleService({ now });
const second = 'copper lantern eleven birch';

inBrowsers('the profile', (name) => {
  const email = `ada-${name}@example.com`;
  const visit = useVisit(name, rowhouse, `profile-${name}`);
  const { button, dialog } = visit;
  let page: Page;
  let other: Watched;
  let account: { id: string; key: string };
  let secret = '';
  let codes: string[] = [];
  const at = (path: string) => `${rowhouse.origin}/console/${path}`;
  const stored = (on: Page) =>
    on.evaluate(() =>
      JSON.stringify([{ ...localStorage }, { ...sessionStorage }, location.href, document.body.outerHTML]),
    );
  /** The next one: a code counts once. */
  const nextCode = () => {
    laterMs += 30_000;
    return new TOTP({ secret: Secret.fromBase32(secret) }).generate({ timestamp: now() });
  };
  const projects = (on: Page) => on.getByRole('heading', { name: 'Projects' }).waitFor();
  const deps = () => ({ ...rowhouse.service.deps, hashing: rowhouse.service.deps.users.hashing });

  beforeAll(async () => {
    page = visit.page;
    other = await openPage(visit.browser, rowhouse.origin, 1280, visit.problems);
    account = await openAccount(rowhouse, `Profiles ${name}`);
    await join(rowhouse, account.key, email, 'owner');
    await page.goto(at(''));
    await enterPassword(page, email, password);
    await projects(page);
  });

  it('an account that requires a second factor shows only the profile until there is one', async () => {
    await rowhouse.call('PATCH', `${api}/account`, {
      key: account.key,
      body: { requires_second_factor: true },
    });
    // The open page notices it.
    await page.getByRole('heading', { name: `Profiles ${name} requires a second factor` }).waitFor();
    await expectLooks(page, name, 'factor-required');
    await visit.link('Set it up').click();
    await page.getByRole('heading', { name: 'Profile' }).waitFor();
    await expectLooks(page, name, 'profile');
  });

  it('sets up the second factor by a QR code that is drawn in the page, and shows recovery codes once', async () => {
    await button('Set up').click();
    await fill(dialog().getByLabel('Your password'), 'wrong');
    await button('Next').click();
    await dialog().getByRole('alert').waitFor();
    await fill(dialog().getByLabel('Your password'), password);
    await button('Next').click();
    await dialog().getByRole('img', { name: 'QR code for the authenticator app' }).waitFor();
    expect(await dialog().locator('svg.qr-code').getAttribute('viewBox')).toMatch(/^0 0 \d+ \d+$/);
    secret = (await dialog().locator('.secret code').innerText()).trim();
    await expectLooks(page, name, 'factor-qr');
    await fill(dialog().getByLabel('Code', { exact: true }), '000000');
    await button('Turn on').click();
    await dialog().getByText('The code of the second factor is wrong').waitFor();
    await fill(dialog().getByLabel('Code', { exact: true }), nextCode());
    await button('Turn on').click();
    await dialog('Recovery codes').waitFor();
    codes = await dialog().getByRole('listitem').allInnerTexts();
    expect(codes).toHaveLength(10);
    // The session goes on, also past the next look at it.
    await page.waitForTimeout(6_000);
    await expectLooks(page, name, 'recovery-codes');
    await button('I have stored them').click();
    await page.getByText('on', { exact: true }).waitFor();
    expect(await stored(page)).not.toMatch(new RegExp(`${secret}|${codes[0]}|${password}`));
    await visit.link('Projects').click();
    await projects(page);
  });

  it('asks for a code at the sign-in, which a recovery code can be', async () => {
    await other.page.goto(at(''));
    await enterPassword(other.page, email, password);
    await other.page.getByRole('heading', { name: 'Enter your code' }).waitFor();
    expect(await other.page.getByLabel('Code', { exact: true }).getAttribute('autocomplete')).toBe(
      'one-time-code',
    );
    // The password is in no field and no storage meanwhile.
    expect(await stored(other.page)).not.toContain(password);
    await expectLooks(other.page, name, 'sign-in-code');
    await fill(other.page.getByLabel('Code', { exact: true }), '123456');
    await other.page.keyboard.press('Enter');
    await other.page.getByText('The code of the second factor is wrong').waitFor();
    await fill(other.page.getByLabel('Code', { exact: true }), codes[0] ?? '');
    await other.page.keyboard.press('Enter');
    await projects(other.page);
  });

  it('lists the sessions, and one that is ended elsewhere leaves the page within seconds', async () => {
    await page.goto(at('profile'));
    const sessions = page.getByRole('table', { name: 'Sessions' });
    await sessions.getByText('this one').waitFor();
    await sessions.getByRole('button', { name: 'End', exact: true }).first().click();
    const before = Date.now();
    await other.page.getByText('Your session has ended. Sign in again.').waitFor();
    expect(Date.now() - before).toBeLessThan(50_000);
    await enterPassword(other.page, email, password);
    await fill(other.page.getByLabel('Code', { exact: true }), nextCode());
    await other.page.keyboard.press('Enter');
    await projects(other.page);
    await page.reload();
    await button('End all others').click();
    await other.page.getByText('Your session has ended. Sign in again.').waitFor();
  });

  it('asks for the password before it shows a secret', async () => {
    laterMs += 6 * 60_000;
    await page.goto(at('account/members'));
    await button('Invite').click();
    await fill(dialog().getByLabel('Email address'), `friend-${name}@example.com`);
    await dialog().getByRole('button', { name: 'Invite' }).click();
    const asked = dialog('Confirm that it is you');
    await fill(asked.getByLabel('Password'), 'wrong');
    await asked.getByRole('button', { name: 'Confirm' }).click();
    await asked.getByRole('alert').waitFor();
    await fill(asked.getByLabel('Password'), password);
    await asked.getByRole('button', { name: 'Confirm' }).click();
    await dialog(`Invitation for friend-${name}@example.com`).waitFor();
    await button('Done').click();
  });

  it('gives oneself a name, which members see; one that hides characters is refused with the reason', async () => {
    await page.goto(at('profile'));
    const field = page.getByLabel('Name', { exact: true });
    const form = page.locator('form').filter({ has: field });
    const save = form.getByRole('button', { name: 'Save' });
    await fill(field, 'Ada Lovelace');
    await visit.link('Members').click();
    await dialog('Leave this page?').getByRole('button', { name: 'Cancel' }).click();
    await save.click();
    await page.getByText('Saved.').waitFor();
    await visit.link('Members').click();
    const row = page.getByRole('row').filter({ hasText: 'Ada Lovelace' });
    await row.getByText(email).waitFor();
    await expectLooks(page, name, 'members-named');
    // Below the sidebar, too.
    await page
      .getByRole('button', { name: /Ada Lovelace/ })
      .first()
      .waitFor();
    await page.goto(at('profile'));
    await fill(field, 'Ada \u202eecalevoL');
    await save.click();
    await form.getByRole('alert').waitFor();
    await fill(field, '');
    await save.click();
    await page.getByText('Saved.').first().waitFor();
    const { body } = await rowhouse.call('GET', `${api}/account/members`, { key: account.key });
    expect(body.members.map((member: { name: string | null }) => member.name)).toEqual([null]);
  });

  it('replaces the recovery codes', async () => {
    await page.goto(at('profile'));
    await button('New recovery codes').click();
    await fill(dialog().getByLabel('Your password'), password);
    await fill(dialog().getByLabel('Code', { exact: true }), nextCode());
    await button('Make new codes').click();
    await dialog('Recovery codes').waitFor();
    expect(await dialog().getByRole('listitem').allInnerTexts()).not.toContain(codes[1]);
    await button('I have stored them').click();
  });

  it('shows recovery codes on whatever screen is open when they arrive', async () => {
    await page.goto(at('profile'));
    await button('New recovery codes').click();
    await fill(dialog().getByLabel('Your password'), password);
    await fill(dialog().getByLabel('Code', { exact: true }), nextCode());
    let leave = () => {};
    const left = new Promise<void>((resolve) => {
      leave = resolve;
    });
    const renewed = page.waitForRequest('**/second-factor/recovery-codes');
    await page.route('**/second-factor/recovery-codes', async (route) => {
      await left;
      await route.continue();
    });
    await button('Make new codes').click();
    await renewed;
    await dialog().getByRole('button', { name: 'Cancel' }).click();
    expect(await asksBeforeLeaving(page)).toBe(true);
    await visit.link('Projects').click();
    await projects(page);
    leave();
    await dialog('Recovery codes').waitFor();
    expect(await dialog().getByRole('listitem').allInnerTexts()).toHaveLength(10);
    await button('I have stored them').click();
    await expect.poll(() => asksBeforeLeaving(page)).toBe(false);
    await page.unrouteAll();
    await page.goto(at('profile'));
  });

  it('changes the email address by a link that was sent to the new one', async () => {
    await button('Change email address').click();
    await fill(page.getByLabel('New email address'), `new-${email}`);
    await fill(page.getByLabel('Your password'), password);
    await button('Send the link').click();
    // This installation has no mail server.
    await page.getByText('This installation cannot send mail.').waitFor();
    const { body } = await rowhouse.call('GET', `${api}/account/members`, { key: account.key });
    const { id } = body.members.find((member: { email: string }) => member.email === email);
    const { code } = await startEmailChange(deps(), id, `new-${email}`);
    await page.goto(`${at('profile')}#email=${code}`);
    await dialog('Use the new email address').waitFor();
    expect(page.url()).toBe(at('profile'));
    await expectLooks(page, name, 'email-proved');
    await button('Use it').click();
    await page.getByText(`You are signed in as new-${email}.`).waitFor();
  });

  it('changes the password, and turns the second factor off', async () => {
    await button('Change password').click();
    await fill(page.getByLabel('Current password'), password);
    await fill(page.getByLabel('New password'), second);
    await fill(page.getByLabel('The same again'), second);
    await expectLooks(page, name, 'profile-password');
    await button('Save the password').click();
    await page.getByText('Your password is changed. All other sessions have ended.').waitFor();
    await rowhouse.call('PATCH', `${api}/account`, {
      key: account.key,
      body: { requires_second_factor: false },
    });
    await button('Turn off').click();
    await fill(dialog().getByLabel('Your password'), second);
    await fill(dialog().getByLabel('Code', { exact: true }), nextCode());
    await dialog().getByRole('button', { name: 'Turn off' }).click();
    await page.getByText('The second factor is off.').waitFor();
    await button('Set up').waitFor();
  });

  it('sets a new password by a link, once', async () => {
    const recovered = await rowhouse.call('POST', `${api}/people/recovery`, {
      key: rowhouse.operatorKey,
      body: { email: `new-${email}` },
    });
    const link = new URL(recovered.body.link, rowhouse.origin).href;
    await other.page.goto(link);
    await other.page.getByRole('heading', { name: 'Set a new password' }).waitFor();
    expect(other.page.url()).toBe(at(''));
    expect(await stored(other.page)).not.toContain(link.split('=')[1]);
    await expectLooks(other.page, name, 'recovery');
    const enter = async () => {
      await fill(other.page.getByLabel('New password'), password);
      await fill(other.page.getByLabel('The same again'), password);
      await partsOf(() => other.page)
        .button('Set the password')
        .click();
    };
    await enter();
    await other.page.getByText('Your password is changed. Sign in with the new one.').waitFor();
    await page.getByText('Your session has ended. Sign in again.').waitFor();
    await enterPassword(other.page, `new-${email}`, password);
    await projects(other.page);
    await other.page.goto(link);
    await enter();
    await other.page.getByText('This link is invalid, already used, or expired.').waitFor();
    // The session that was open is still there.
    await partsOf(() => other.page)
      .button('Go to the console')
      .click();
    await projects(other.page);
  });

  it('says how long to wait after too many attempts', async () => {
    for (let turn = 0; turn < 12; turn++) {
      await enterPassword(page, `new-${email}`, `wrong ${turn}`);
      await page.getByRole('alert').first().waitFor();
      if (await page.getByText('Too many sign-in attempts failed.').isVisible()) break;
    }
    await page.getByText('Too many sign-in attempts failed.').waitFor();
    await page.getByRole('button', { name: /^Wait \d+ s$/ }).waitFor();
    await button('Forgot your password?').click();
    await page.getByRole('heading', { name: 'Forgot your password?' }).waitFor();
    await expectLooks(page, name, 'forgot-password');
  });

  it('broke no security policy, and asked no other origin', () => {
    expect(visit.problems).toEqual([]);
  });
});

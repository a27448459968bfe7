// Accounts in the console, in real browsers: an operator creates, limits, suspends, deletes and restores one; its first owner
// joins by the link, belongs to two accounts, and sees why one is suspended. The address of a screen is no way around a role.
import type { Page } from 'playwright-core';
import { beforeAll, expect, it } from 'vitest';
import { api } from '../../server/test/support/helpers.ts';
import { fill, inBrowsers, openPage, type Watched } from './browser.ts';
import { expectLooks } from './looks.ts';
import { inviteTo, openAccount, password } from './members-of.ts';
import { partsOf, useConsoleService, useVisit } from './visit.ts';

const rowhouse = useConsoleService();

inBrowsers('accounts', (name) => {
  const customer = `Acme ${name}`;
  const email = `founder-${name}@example.com`;
  const visit = useVisit(name, rowhouse, `accounts-${name}`);
  const { button, dialog, menuItem } = visit;
  let page: Page;
  let other: Watched;
  let link = '';
  const at = (path: string) => `${rowhouse.origin}/console/${path}`;
  const theirs = () => partsOf(() => other.page);
  const row = (text: string) =>
    page.getByRole('table', { name: 'Accounts' }).getByRole('row', { name: text });
  const act = async (item: string) => {
    await button(`Actions for ${customer}`).click();
    await menuItem(item).click();
  };

  beforeAll(async () => {
    page = visit.page;
    other = await openPage(visit.browser, rowhouse.origin, 1280, visit.problems);
    await visit.signIn();
  });

  it('the operator creates one with limits, the first key, and a link for the first owner', async () => {
    await visit.link('Accounts').click();
    await row('default').waitFor();
    await expectLooks(page, name, 'accounts');
    await button('New account').click();
    await fill(dialog().getByLabel('Name'), customer);
    await fill(dialog().getByLabel('Projects', { exact: true }), '2');
    await expectLooks(page, name, 'account-new');
    await fill(dialog().getByLabel('Email address of the first owner'), email);
    await button('Create account').click();
    await dialog(`${customer} is created`).waitFor();
    const shown = await dialog().locator('.secret code').allInnerTexts();
    link = shown[0]?.trim() ?? '';
    expect([link, shown[1]?.trim()]).toEqual([
      expect.stringContaining('#invitation=rh_invite_'),
      expect.stringMatching(/^rh_acct_/),
    ]);
    await expectLooks(page, name, 'account-created');
    await button('Done').click();
    await row(customer).getByText('0 of 2').waitFor();
  });

  it('finds it by a part of its name, and changes its limits', async () => {
    await fill(page.getByLabel('Search accounts'), customer.slice(1).toUpperCase());
    await row(customer).waitFor();
    await row('default').waitFor({ state: 'detached' });
    await act('Name and limits');
    await fill(dialog().getByLabel('Requests per second'), '500');
    await expectLooks(page, name, 'account-edit');
    await button('Save').click();
    await row(customer).getByText('500').waitFor();
  });

  it('the first owner joins, and switches between two accounts', async () => {
    await other.page.goto(link);
    await fill(other.page.getByLabel('Choose a password'), password);
    await fill(other.page.getByLabel('The same again'), password);
    await theirs().button('Join').click();
    await other.page.getByText('Create your first project').waitFor();
    const second = await openAccount(rowhouse, `Second ${name}`);
    const invited = await inviteTo(rowhouse, second.key, { email, role: 'viewer' });
    await rowhouse.call('POST', '/projects', { key: second.key, body: { name: `Theirs ${name}` } });
    // In the tab that is open: the person is signed in, and needs no password.
    await other.page.goto(invited);
    await other.page.getByRole('heading', { name: `Join Second ${name}` }).waitFor();
    await other.page.getByText(`You are signed in as ${email}.`).waitFor();
    await expectLooks(other.page, name, 'invitation-signed-in');
    await theirs().button('Join').click();
    await theirs().link(`Theirs ${name}`).waitFor();
    expect(await theirs().button('New project').count()).toBe(0);
    await other.page.getByRole('button', { name: new RegExp(`^Second ${name}`) }).click();
    await other.page.getByRole('menuitemcheckbox', { name: new RegExp(`^${customer}`) }).click();
    await other.page.getByText('Create your first project').waitFor();
    await theirs().button('New project').first().waitFor();
    expect(await theirs().link(`Theirs ${name}`).count()).toBe(0);
    // An account is not an installation.
    await other.page.goto(at('accounts'));
    await other.page.getByRole('heading', { name: 'No access to Accounts' }).waitFor();
    await other.page.goto(at('account/settings'));
    await other.page.getByText('0 of 2').waitFor();
    await expectLooks(other.page, name, 'account-settings');
    await theirs().button('New account key').click();
    await fill(theirs().dialog().getByLabel('Name'), 'nightly');
    await theirs().dialog().getByLabel('Role').selectOption('viewer');
    await theirs().button('Create key').click();
    const key = (await theirs().dialog('The new key').locator('.secret code').innerText()).trim();
    const read = () => rowhouse.call('GET', '/projects', { key });
    expect((await read()).status).toBe(200);
    await theirs().button('Done').click();
    await theirs().button('Revoke nightly').click();
    await theirs().dialog().getByRole('button', { name: 'Revoke' }).click();
    await other.page.getByText('The key is revoked.').waitFor();
    await expect.poll(async () => (await read()).status).toBe(401);
  });

  it('a suspended account says why, keeps the profile, and lets the person go to another one', async () => {
    await act('Suspend');
    await fill(dialog().getByLabel('Reason'), 'The invoice is unpaid.');
    await expectLooks(page, name, 'account-suspend');
    await dialog().getByRole('button', { name: 'Suspend' }).click();
    await row(customer).getByText('The invoice is unpaid.').waitFor();
    await other.page.getByRole('heading', { name: `${customer} is suspended` }).waitFor();
    await other.page.getByText('The invoice is unpaid.').waitFor();
    await expectLooks(other.page, name, 'suspended');
    await other.page.goto(at('profile'));
    await other.page.getByText(`You are signed in as ${email}.`).waitFor();
    await other.page.getByRole('button', { name: new RegExp(`^${customer}`) }).click();
    await other.page.getByRole('menuitemcheckbox', { name: new RegExp(`^Second ${name}`) }).click();
    await theirs().link(`Theirs ${name}`).waitFor();
    await act('Resume');
    await row(customer).getByText('active').waitFor();
  });

  it('a link of the operator sets a new password, and nobody else gets one', async () => {
    await button('Help somebody to sign in').click();
    await fill(dialog().getByLabel('Email address'), `nobody-${name}@example.com`);
    await button('Make a link').click();
    await dialog().getByRole('alert').waitFor();
    await fill(dialog().getByLabel('Email address'), email);
    await button('Make a link').click();
    await dialog(`New password for ${email}`).waitFor();
    const recovery = (await dialog().locator('.secret code').innerText()).trim();
    await expectLooks(page, name, 'person-recovery');
    await button('Done').click();
    const third = await openPage(visit.browser, rowhouse.origin, 1280, visit.problems);
    await third.page.goto(recovery);
    await third.page.getByRole('heading', { name: 'Set a new password' }).waitFor();
    await third.page.context().close();
  });

  it('is deleted by its typed name, and restored', async () => {
    await act('Delete');
    expect(await button('Delete account').isDisabled()).toBe(true);
    await fill(dialog().getByLabel(`Type ${customer} to confirm`), customer);
    await button('Delete account').click();
    await row(customer).waitFor({ state: 'detached' });
    await page.getByRole('tab', { name: 'Deleted' }).click();
    await row(customer)
      .getByText(/^kept until/)
      .waitFor();
    await expectLooks(page, name, 'accounts-deleted');
    await act('Restore');
    await page.getByText(`${customer} is back`).waitFor();
    await page.getByRole('tab', { name: 'Accounts' }).click();
    await row(customer).getByText('active').waitFor();
    // The first account cannot be deleted, and nothing offers it.
    await button('Actions for default').click();
    await menuItem('Suspend').waitFor();
    expect(await menuItem('Delete').count()).toBe(0);
    await page.keyboard.press('Escape');
  });

  it('a long name with markup runs no script and fits every page', async () => {
    const hostile = `<img src=x onerror=alert(1)>${'W'.repeat(60)} ${name}`;
    const long = `${'l'.repeat(50)}-${name}@${'x'.repeat(50)}.example.com`;
    const { key } = await openAccount(rowhouse, hostile);
    const invited = await inviteTo(rowhouse, key, { email: long, role: 'owner' });
    const third = await openPage(visit.browser, rowhouse.origin, 1280, visit.problems);
    const parts = partsOf(() => third.page);
    await third.page.goto(invited);
    await third.page.getByRole('heading', { name: `Join ${hostile}` }).waitFor();
    await expectLooks(third.page, name, 'hostile-invitation');
    await fill(third.page.getByLabel('Choose a password'), password);
    await fill(third.page.getByLabel('The same again'), password);
    await parts.button('Join').click();
    await parts.link('Members').click();
    await parts.button(`Actions for ${long}`).click();
    await expectLooks(third.page, name, 'hostile-members');
    await parts.menuItem('Leave').click();
    await expectLooks(third.page, name, 'hostile-leave');
    await third.page.goto(at('profile'));
    await third.page.getByText(`You are signed in as ${long}.`).waitFor();
    await expectLooks(third.page, name, 'hostile-profile');
    await third.page.goto(at('account/audit'));
    await third.page.getByText('session.sign_in').first().waitFor();
    await expectLooks(third.page, name, 'hostile-audit');
    await third.page.context().close();
    await page.goto(at('accounts'));
    await row(hostile).waitFor();
    await expectLooks(page, name, 'hostile-accounts');
  });

  it('everything was recorded', async () => {
    const { body } = await rowhouse.call('GET', `${api}/audit?action=account&limit=20`, {
      key: rowhouse.operatorKey,
    });
    const actions = body.entries.map(({ action }: { action: string }) => action);
    expect(actions).toEqual(
      expect.arrayContaining(['account.create', 'account.limit', 'account.delete', 'account.restore']),
    );
    expect(JSON.stringify(body)).not.toMatch(/rh_(invite|acct)_/);
  });

  it('broke no security policy, and asked no other origin', () => {
    expect(visit.problems).toEqual([]);
  });
});

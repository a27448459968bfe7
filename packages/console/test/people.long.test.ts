// People in the console, in real browsers: from the invitation of a viewer, who can write neither by page nor by a direct call, to
// another role and the audit log; and the transfer of an account.
import { readFile } from 'node:fs/promises';
import type { Page } from 'playwright-core';
import { beforeAll, expect, it } from 'vitest';
import { enterPassword, fill, inBrowsers, openPage, type Watched } from './browser.ts';
import { expectLooks } from './looks.ts';
import { inviteTo, join, openAccount, password } from './members-of.ts';
import { partsOf, useConsoleService, useVisit } from './visit.ts';

const rowhouse = useConsoleService();

inBrowsers('people', (name) => {
  const slug = `shop-${name}`;
  const team = `Team ${name}`;
  const [owner, guest] = [`owner-${name}@example.com`, `guest-${name}@example.com`];
  const visit = useVisit(name, rowhouse, slug);
  /** Another browser profile, of the person who is invited. */
  let other: Watched;
  let page: Page;
  let account: { id: string; key: string };
  let link = '';
  const { button, dialog, menuItem } = visit;
  const theirs = () => partsOf(() => other.page);
  const at = (path: string) => `${rowhouse.origin}/console/${path}`;
  const stored = (on: Page) =>
    on.evaluate(() =>
      JSON.stringify([{ ...localStorage }, { ...sessionStorage }, location.href, document.body.outerHTML]),
    );
  const memberMenu = async (email: string, item: string) => {
    await button(`Actions for ${email}`).click();
    await menuItem(item).click();
  };

  beforeAll(async () => {
    page = visit.page;
    other = await openPage(visit.browser, rowhouse.origin, 1280, visit.problems);
    account = await openAccount(rowhouse, team);
    const made = await rowhouse.call('POST', '/projects', { key: account.key, body: { name: slug, slug } });
    expect(made.status, JSON.stringify(made.body)).toBe(201);
    for (const query of [
      'create table teas (id int primary key, name text)',
      `insert into teas values (1, 'Sencha')`,
    ])
      await rowhouse.call('POST', `/projects/${slug}/query`, { key: account.key, body: { query } });
    await join(rowhouse, account.key, owner, 'owner');
  });

  it('signs in with an email address and a password, and says what is wrong', async () => {
    await page.goto(at(''));
    await page.getByRole('heading', { name: 'Sign in to Rowhouse' }).waitFor();
    for (const [label, kind] of [
      ['Email address', 'username'],
      ['Password', 'current-password'],
    ] as const)
      expect(await page.getByLabel(label, { exact: true }).getAttribute('autocomplete')).toBe(kind);
    await expectLooks(page, name, 'sign-in-password');
    await enterPassword(page, owner, 'not the password');
    await page.getByRole('alert').getByText('The email address or the password is wrong.').waitFor();
    await enterPassword(page, owner, password);
    await page.getByRole('heading', { name: 'Projects' }).waitFor();
    expect(await stored(page)).not.toContain(password);
  });

  it('invites a viewer to one project, with a link that is shown once', async () => {
    await visit.link('Members').click();
    await page.getByText('you', { exact: true }).waitFor();
    await expectLooks(page, name, 'members');
    await button('Invite').click();
    await fill(dialog().getByLabel('Email address'), guest);
    await dialog().getByLabel('Role').selectOption('viewer');
    await dialog().getByLabel('Only some projects').click();
    await dialog().getByLabel(slug).click();
    await expectLooks(page, name, 'member-invite');
    await dialog().getByRole('button', { name: 'Invite' }).click();
    link = (await dialog().locator('.secret code').innerText()).trim();
    expect(link).toMatch(new RegExp(`^${rowhouse.origin}/console/#invitation=rh_invite_`));
    await expectLooks(page, name, 'member-invited');
    await button('Done').click();
    await page.getByRole('table', { name: 'Invitations' }).getByText(guest).waitFor();
    expect(await stored(page)).not.toContain('rh_invite_');
  });

  it('the link shows who invites to what, leaves the address, and opens a session', async () => {
    await other.page.goto(link);
    await other.page.getByRole('heading', { name: `Join ${team}` }).waitFor();
    await other.page.getByText(`${owner} invites you as viewer`).waitFor();
    expect(other.page.url()).toBe(at(''));
    expect(await stored(other.page)).not.toContain('rh_invite_');
    await expectLooks(other.page, name, 'invitation');
    await fill(other.page.getByLabel('Choose a password'), '12345678');
    await fill(other.page.getByLabel('The same again'), '12345678');
    await theirs().button('Join').click();
    await other.page.getByRole('alert').waitFor();
    await fill(other.page.getByLabel('Choose a password'), password);
    await fill(other.page.getByLabel('The same again'), 'another');
    await other.page.getByText('The passwords differ.').waitFor();
    await fill(other.page.getByLabel('The same again'), password);
    await theirs().button('Join').click();
    await other.page.getByRole('heading', { name: 'Projects' }).waitFor();
    await theirs().link(slug).waitFor();
    expect(await stored(other.page)).not.toContain(password);
    // A second use of the link.
    const third = await openPage(visit.browser, rowhouse.origin, 1280, visit.problems);
    await third.page.goto(link);
    await third.page.getByText('This invitation is invalid, already used, withdrawn, or expired.').waitFor();
    await expectLooks(third.page, name, 'invitation-used');
    await partsOf(() => third.page)
      .button('Go to the console')
      .click();
    await third.page.getByRole('heading', { name: 'Sign in to Rowhouse' }).waitFor();
    await third.page.context().close();
  });

  it('the viewer writes neither by page nor by a direct call, and sees only the own project', async () => {
    await other.page.goto(at(`projects/${slug}/tables/teas`));
    await other.page.getByText('Read only: your role is viewer').waitFor();
    expect(await theirs().button('Insert row').count()).toBe(0);
    for (const screen of ['keys', 'logs']) {
      await other.page.goto(at(`projects/${slug}/${screen}`));
      await other.page.getByText('Your role is viewer. This page is for developers').waitFor();
    }
    await expectLooks(other.page, name, 'not-allowed');
    for (const screen of ['account/audit', 'accounts']) {
      await other.page.goto(at(screen));
      await other.page.getByRole('heading', { name: /^No access to/ }).waitFor();
    }
    await other.page.goto(at('account/members'));
    await other.page.getByText('you', { exact: true }).waitFor();
    expect(await theirs().button('Invite').count()).toBe(0);
    expect(await directWrites(other.page, slug)).toEqual([403, 403, 403, 403]);
    const { body } = await rowhouse.call('POST', `/projects/${slug}/query`, {
      key: account.key,
      body: { query: 'select count(*)::int as n from teas' },
    });
    expect(body.rows).toEqual([{ n: 1 }]);
  });

  it('is promoted, and the open page lets it write within seconds', async () => {
    await other.page.goto(at(`projects/${slug}/tables/teas`));
    await other.page.getByText('Read only: your role is viewer').waitFor();
    await page.goto(at('account/members'));
    await memberMenu(guest, 'Change role');
    await dialog().getByLabel('Role').selectOption('developer');
    await expectLooks(page, name, 'member-role');
    await button('Save').click();
    await page.getByText(`${guest} is developer now.`).waitFor();
    await theirs().button('Insert row').waitFor();
    expect((await directWrites(other.page, slug)).slice(0, 1)).toEqual([201]);
    // Who sees only some projects is offered no new one.
    await other.page.goto(at('projects?new'));
    await theirs().link('Mine').waitFor();
    expect(await theirs().button('New project').count()).toBe(0);
    await other.page.goto(at(`projects/${slug}/settings`));
    await theirs().button('Delete project').waitFor();
    expect(await theirs().button('New branch').count()).toBe(0);
  });

  it('the audit log shows the invitation, the sign-in and the promotion, by filters in the address', async () => {
    await page.goto(at('account/audit'));
    const entries = page.getByRole('table', { name: 'Entries' });
    const entry = (text: RegExp) => entries.getByRole('row', { name: text });
    await entry(new RegExp(`${owner}.*member\\.change.*role: developer.*done`)).waitFor();
    await entry(new RegExp(`${owner}.*member\\.invite.*role: viewer.*${guest}.*done`)).waitFor();
    await entry(new RegExp(`${guest}.*session\\.sign_in.*way: invitation.*done`)).waitFor();
    await expectLooks(page, name, 'audit');
    await fill(page.getByLabel('Who'), guest);
    await page.getByLabel('Outcome').selectOption('refused');
    await button('Filter').click();
    await entry(/member\.invite.*refused/).waitFor();
    expect(new URL(page.url()).searchParams.get('actor')).toBe(guest);
    expect(await entry(new RegExp(`^.*${owner}`)).count()).toBe(0);
    await page.reload();
    await entry(/member\.invite.*refused/).waitFor();
    // Playwright cannot read downloads of this Firefox.
    if (name === 'chromium') {
      const downloading = page.waitForEvent('download');
      await button('Export JSON lines').click();
      const file = await downloading;
      expect(file.suggestedFilename()).toMatch(/audit\.jsonl$/);
      const lines = (await readFile(await file.path(), 'utf8')).trim().split('\n');
      expect(lines.map((line) => JSON.parse(line).outcome)).toEqual(lines.map(() => 'refused'));
    }
    await page.goBack();
    await entry(/member\.change/).waitFor();
  });

  it('withdraws an invitation, and the link says so', async () => {
    const withdrawn = await inviteTo(rowhouse, account.key, {
      email: `late-${name}@example.com`,
      role: 'viewer',
    });
    await page.goto(at('account/members'));
    await button(`Withdraw the invitation of late-${name}@example.com`).click();
    await page.getByText('is withdrawn.').waitFor();
    const third = await openPage(visit.browser, rowhouse.origin, 1280, visit.problems);
    await third.page.goto(withdrawn);
    await third.page.getByText('This invitation is invalid, already used, withdrawn, or expired.').waitFor();
    await third.page.context().close();
  });

  it('the last owner cannot leave, transfers the account, and then leaves', async () => {
    await memberMenu(owner, 'Leave');
    await page.getByText('You are the only owner').waitFor();
    await expectLooks(page, name, 'last-owner');
    await dialog().getByRole('button', { name: 'Close' }).last().click();
    await memberMenu(guest, 'Transfer ownership');
    await button('Transfer ownership').click();
    await page.getByText(`${guest} owns ${team} now.`).waitFor();
    await memberMenu(owner, 'Leave');
    await dialog().getByRole('button', { name: 'Leave' }).click();
    await page.getByText('Your session has ended. Sign in again.').waitFor();
    await enterPassword(page, owner, password);
    await page.getByText('You belong to no account.').waitFor();
    await other.page.goto(at('account/members'));
    await other.page.getByText('owner', { exact: true }).waitFor();
    expect(await other.page.getByText(owner).count()).toBe(0);
  });

  it('broke no security policy, and asked no other origin', () => {
    expect(visit.problems).toEqual([]);
  });
});

/** With the session of the page, past all that it offers. */
async function directWrites(page: Page, slug: string): Promise<number[]> {
  return page.evaluate(async (project) => {
    const token = sessionStorage.getItem('rowhouse.console-token') ?? '';
    const send = async (method: string, path: string, body: object) => {
      const headers = { 'content-type': 'application/json', 'rowhouse-console-token': token };
      const url = `/console/api/dbaas/v2/${path}`;
      return (await fetch(url, { method, headers, body: JSON.stringify(body) })).status;
    };
    return [
      await send('POST', `projects/${project}/tables/teas`, { id: Date.now() % 1e9, name: 'Direct' }),
      await send('PATCH', `projects/${project}`, { name: 'Mine' }),
      await send('POST', `projects/${project}/keys`, { name: 'mine', scopes: ['query'] }),
      await send('POST', 'account/invitations', { email: 'friend@example.com', role: 'viewer' }),
    ];
  }, slug);
}

// What a session leaves in the browser when it ends, in real browsers: texts for the same rights only, and nothing after
// signing out, unless the person wants to keep what the server could not store.
import type { Page } from 'playwright-core';
import { beforeAll, beforeEach, expect, it } from 'vitest';
import { createLink } from '../../server/src/access/people/links.ts';
import { sql } from '../../server/src/postgres/sql.ts';
import { enterKey, expectAccessible, inBrowsers, patienceMs, signIn } from './browser.ts';
import { partsOf, useConsoleService, useVisit } from './visit.ts';

const rowhouse = useConsoleService();

inBrowsers('the end of a session', (name) => {
  const slug = `ends-${name}`;
  const visit = useVisit(name, rowhouse, slug);
  let page: Page;
  let lesserKey = '';

  const parts = (on: Page) => partsOf(() => on);
  const button = (on: Page, label: string) => parts(on).button(label);
  const editor = (on: Page) => parts(on).editor();
  const stored = (on: Page) => on.evaluate(() => JSON.stringify({ ...sessionStorage }));
  const openSql = async (on: Page) => {
    await on.goto(`${rowhouse.origin}/console/projects/${slug}/sql`);
    await editor(on).waitFor();
  };
  const writeSql = async (on: Page, text: string) => {
    await parts(on).writeSql(text);
    await expect.poll(() => stored(on)).toContain(text);
  };
  /** As after two hours: the service does not know the session any more. */
  const expire = async (on: Page) => {
    await on.context().clearCookies();
    // By key: a draft that is stored at this moment ends the session too, and a button would be gone.
    await on.keyboard.press('Control+Enter');
    await on.getByText('Your session has ended. Sign in again.').waitFor();
  };
  const openTab = async () => {
    const tab = await page.context().newPage();
    tab.setDefaultTimeout(patienceMs);
    return tab;
  };
  const askToSignOut = (on: Page) => parts(on).askToSignOut();
  const signedOut = (on: Page) => on.getByRole('heading', { name: 'Sign in to Rowhouse' }).waitFor();
  const question = (on: Page) => on.getByRole('dialog', { name: 'Discard unsaved SQL?' });

  beforeAll(async () => {
    await visit.createProject();
    const key = { name: 'lesser', scopes: ['query', 'tables:read'] };
    lesserKey = (await visit.call('POST', '/keys', key)).api_key;
  });
  beforeEach(async () => {
    page = await visit.openAnotherPage();
    await visit.signIn();
  });

  it('a tab whose session has ended shows its texts to no other key that it gets from another tab', async () => {
    await openSql(page);
    await writeSql(page, 'select 1 as of_the_account');
    await expire(page);
    const other = await openTab();
    await signIn(other, rowhouse.origin, lesserKey);
    await other.waitForURL(`**/projects/${slug}/tables`);
    await page.reload();
    await editor(page).waitFor();
    expect(await editor(page).innerText()).not.toContain('of_the_account');
    expect(await stored(page)).not.toContain('of_the_account');
  });

  it('a tab that got its session from another tab keeps its texts for the same key', async () => {
    const second = await openTab();
    await openSql(second);
    await writeSql(second, 'select 2 as of_the_second_tab');
    await expire(second);
    await enterKey(second, rowhouse.accountKey);
    await editor(second).getByText('of_the_second_tab').waitFor();
  });

  it('signing out in one tab also empties a tab whose session had ended before', async () => {
    await openSql(page);
    await writeSql(page, 'select 3 as left_behind');
    await expire(page);
    const other = await openTab();
    await signIn(other, rowhouse.origin, rowhouse.accountKey);
    await other.getByRole('heading', { name: 'Projects' }).waitFor();
    expect(await stored(page)).toContain('left_behind');
    await askToSignOut(other);
    await signedOut(other);
    await expect.poll(() => stored(page)).toBe('{}');
  });

  it('asks before it discards a text that the server refuses, and the person can stay', async () => {
    await openSql(page);
    await page.route('**/queries**', (route) => route.abort());
    await writeSql(page, 'select 4 as refused');
    await askToSignOut(page);
    await question(page).getByText(`Query 1 in ${slug}`).waitFor();
    await expectAccessible(page);
    await button(page, 'Cancel').click();
    await question(page).waitFor({ state: 'detached' });
    expect(await stored(page)).toContain('refused');
    await editor(page).getByText('refused').waitFor();
    await askToSignOut(page);
    await button(page, 'Discard and sign out').click();
    await signedOut(page);
    expect(await stored(page)).toBe('{}');
  });

  it('asks although the session has ended, and a text that stays is there after the next sign-in', async () => {
    await openSql(page);
    await page.route('**/queries**', (route) => route.abort());
    await writeSql(page, 'select 5 as typed_too_late');
    // Otherwise a page on a slow machine notices the end before the person signs out.
    await page.route('**/console/session/state', () => {});
    await page.context().clearCookies();
    await page.unroute('**/queries**');
    await askToSignOut(page);
    await question(page).getByText(`Query 1 in ${slug}`).waitFor();
    await expectAccessible(page);
    await button(page, 'Cancel').click();
    await signedOut(page);
    await enterKey(page, rowhouse.accountKey);
    await editor(page).getByText('typed_too_late').waitFor();
    await page.unrouteAll();
  });

  it('waits only some seconds for a server that does not answer', async () => {
    await openSql(page);
    // Never answered.
    await page.route('**/queries**', () => {});
    await page.route('**/console/session', () => {});
    await writeSql(page, 'select 6 as not_answered');
    await askToSignOut(page);
    await button(page, 'Discard and sign out').click();
    await signedOut(page);
    expect(await stored(page)).toBe('{}');
  });

  it('broke no security policy, and asked no other origin', () => {
    expect(visit.problems).toEqual([]);
  });

  it('a failure of the service does not end the session', async () => {
    const message = 'The account is suspended for a test.';
    await page.route('**/console/session', (route) =>
      route.fulfill({ status: 403, json: { success: false, error: { code: 'account_suspended', message } } }),
    );
    await page.reload();
    await page.getByRole('heading', { name: message }).waitFor();
    await expectAccessible(page);
    await page.unrouteAll();
    await button(page, 'Try again').click();
    await page.getByRole('heading', { name: 'Projects' }).waitFor();
  });

  it('the list of sessions notices that this one has ended', async () => {
    await page.context().clearCookies();
    await button(page, 'default').click();
    await parts(page).menuItem('Sessions').click();
    await page.getByText('Your session has ended. Sign in again.').waitFor();
  });

  it('takes a link in a tab that shows the console; an invalid one leaves the session as it is', async () => {
    const follow = (link: string) =>
      page.evaluate((code) => {
        location.hash = `link=${code}`;
      }, link);
    const refused = page.waitForResponse((answer) => answer.url().endsWith('/console/session'));
    await follow('rh_link_invalid');
    expect((await refused).ok()).toBe(false);
    await page.waitForURL((url) => url.hash === '');
    await page.getByRole('heading', { name: 'Projects' }).waitFor();
    await askToSignOut(page);
    await signedOut(page);
    await follow('rh_link_invalid');
    await page.locator('.sign-in .note').waitFor();
    const { control } = rowhouse.service.deps;
    const [account] = await control.query<{ id: string }>(
      sql`select id from accounts where name = 'default'`,
    );
    await follow((await createLink({ control, now: Date.now }, account?.id ?? '')) ?? '');
    await page.getByRole('heading', { name: 'Projects' }).waitFor();
  });
});

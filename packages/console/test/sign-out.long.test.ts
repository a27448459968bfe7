// What a session leaves in the browser when it ends, in real browsers: texts for the same rights only, and nothing after
// signing out, unless the person wants to keep what the server could not store.
import { fileURLToPath } from 'node:url';
import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it, onTestFailed } from 'vitest';
import { useTestService } from '../../server/test/helpers.ts';
import {
  expectAccessible,
  fill,
  inBrowsers,
  keepScreenshot,
  openBrowser,
  openPage,
  signIn,
  type Watched,
} from './browser.ts';

const folder = fileURLToPath(new URL('../dist', import.meta.url));
const rowhouse = useTestService({ console: { hosts: [], folder } });

let listening: Promise<string> | null = null;
/** Both browsers use one service. */
function originOf(): Promise<string> {
  listening ??= rowhouse.app.listen({ host: '127.0.0.1', port: 0 });
  return listening;
}

inBrowsers('the end of a session', (name) => {
  const slug = `ends-${name}`;
  const problems: string[] = [];
  let browser: Browser;
  let watched: Watched;
  let page: Page;
  let origin = '';
  let lesserKey = '';

  const button = (on: Page, label: string) => on.getByRole('button', { name: label, exact: true });
  const editor = (on: Page) => on.locator('.sql-editor .cm-content');
  const stored = (on: Page) => on.evaluate(() => JSON.stringify({ ...sessionStorage }));
  const openSql = async (on: Page) => {
    await on.goto(`${origin}/console/projects/${slug}/sql`);
    await editor(on).waitFor();
  };
  const writeSql = async (on: Page, text: string) => {
    await editor(on).focus();
    await on.keyboard.press('Control+a');
    await on.keyboard.type(text);
    await expect.poll(() => stored(on)).toContain(text);
  };
  /** As after two hours: the service does not know the session any more. */
  const expire = async (on: Page) => {
    await on.context().clearCookies();
    await button(on, 'Run').click();
    await on.getByText('Your session has ended. Sign in again.').waitFor();
  };
  const enterKey = async (on: Page, key: string) => {
    await fill(on.getByLabel('API key'), key);
    await button(on, 'Sign in').click();
  };
  const openTab = async () => {
    const tab = await page.context().newPage();
    tab.setDefaultTimeout(15_000);
    return tab;
  };
  const askToSignOut = async (on: Page) => {
    await button(on, 'default').click();
    await on.getByRole('menuitem', { name: 'Sign out' }).click();
  };
  const signedOut = (on: Page) => on.getByRole('heading', { name: 'Sign in to Rowhouse' }).waitFor();
  const question = (on: Page) => on.getByRole('dialog', { name: 'Discard unsaved SQL?' });

  beforeAll(async () => {
    origin = await originOf();
    const created = await rowhouse.call('POST', '/projects', { body: { name: slug, slug, limit_mb: 64 } });
    expect(created.status).toBe(201);
    const issued = await rowhouse.call('POST', `/projects/${slug}/keys`, {
      body: { name: 'lesser', scopes: ['query', 'tables:read'] },
    });
    lesserKey = issued.body.api_key;
    browser = await openBrowser(name);
  });
  afterAll(async () => {
    await browser?.close();
  });
  beforeEach(async () => {
    watched = await openPage(browser, origin);
    page = watched.page;
    onTestFailed(() => keepScreenshot(page, name));
    await signIn(page, origin, rowhouse.accountKey);
    await page.getByRole('heading', { name: 'Projects' }).waitFor();
  });
  afterEach(async () => {
    problems.push(...watched.problems);
    await page.context().close();
  });

  it('a tab whose session has ended shows its texts to no other key that it gets from another tab', async () => {
    await openSql(page);
    await writeSql(page, 'select 1 as of_the_account');
    await expire(page);
    const other = await openTab();
    await signIn(other, origin, lesserKey);
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
    await signIn(other, origin, rowhouse.accountKey);
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
    await page.context().clearCookies();
    await page.unroute('**/queries**');
    await askToSignOut(page);
    await question(page).getByText(`Query 1 in ${slug}`).waitFor();
    await expectAccessible(page);
    await button(page, 'Cancel').click();
    await signedOut(page);
    await enterKey(page, rowhouse.accountKey);
    await editor(page).getByText('typed_too_late').waitFor();
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
    expect(problems).toEqual([]);
  });
});

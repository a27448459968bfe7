// Every screen, empty, full and failing, in both themes and at two widths: axe finds nothing, and nothing is wider than the
// page. With ROWHOUSE_SCREENSHOTS, the pictures are written into that folder; those of docs/ come from here.
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { Page } from 'playwright-core';
import { beforeAll, beforeEach, expect, it } from 'vitest';
import { expectAccessible, inBrowsers, toWebp } from './browser.ts';
import { createShop, revenue } from './sample-shop.ts';
import { createTeam } from './sample-team.ts';
import { useConsoleService, useVisit } from './visit.ts';

const pictures = process.env.ROWHOUSE_SCREENSHOTS;
/** Only those that the docs show. */
const docsOnly = process.env.ROWHOUSE_SCREENSHOTS_OF === 'docs';
const inDocs = [
  'projects',
  'members',
  'table-value',
  'sql-preview',
  'sql-plan-dark',
  'usage',
  'table-narrow',
];
/** Pictures of the docs are shown at about half of this size. */
const wide = { width: docsOnly ? 1200 : 1440, height: docsOnly ? 720 : 900 };
const rowhouse = useConsoleService({}, async (service) => {
  await createShop(service, 'tea-shop');
  await service.call('POST', '/projects', { body: { name: 'Empty one', slug: 'empty-one' } });
  await createTeam(service);
});

type Screen = {
  name: string;
  address: string;
  /** Something that is there when the screen is complete. */
  wait: (page: Page) => Promise<unknown>;
  /** What a person does first. */
  act?: (page: Page) => Promise<unknown>;
  fails?: boolean;
};
const shop = 'projects/tea-shop';
const bare = 'projects/empty-one';
const text = (wanted: string) => (page: Page) => page.getByText(wanted).first().waitFor();
const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true }).first();
const press = (name: string) => (page: Page) => button(page, name).click();
const run = (sql: string, name: string) => async (page: Page) => {
  await page.locator('.sql-editor .cm-content').focus();
  await page.keyboard.press('Control+a');
  await page.keyboard.insertText(sql);
  await button(page, name).click();
};
const visible = (name: string) => (page: Page) => button(page, name).waitFor();
const dialog = (page: Page) => page.getByRole('dialog').first().waitFor();
const rows = (page: Page) => page.getByRole('gridcell').first().waitFor();

const screens: Screen[] = [
  { name: 'projects', address: 'projects', wait: text('Tea shop') },
  { name: 'projects-deleted', address: 'projects?deleted', wait: text('No deleted projects') },
  { name: 'project-new', address: 'projects?new', wait: dialog },
  { name: 'projects-failing', address: 'projects', wait: visible('Try again'), fails: true },
  { name: 'tables-empty', address: `${bare}/tables`, wait: text('This project has no tables') },
  { name: 'tables', address: `${shop}/tables`, wait: text('customers') },
  { name: 'table', address: `${shop}/tables/teas`, wait: rows },
  {
    name: 'table-value',
    address: `${shop}/tables/orders`,
    act: async (page) => {
      await page.getByRole('gridcell').nth(1).click();
      await page.keyboard.press('Space');
    },
    wait: text('Find in teas'),
  },
  { name: 'table-new', address: `${shop}/tables`, act: press('New table'), wait: dialog },
  { name: 'table-structure', address: `${shop}/tables/teas`, act: press('Structure'), wait: dialog },
  { name: 'table-import', address: `${shop}/tables/teas`, act: press('Import'), wait: dialog },
  { name: 'table-missing', address: `${shop}/tables/nothing`, wait: text('nothing') },
  { name: 'sql-empty', address: `${bare}/sql`, wait: text('Results appear here') },
  { name: 'sql', address: `${shop}/sql`, act: run(revenue, 'Run'), wait: rows },
  {
    name: 'sql-failing',
    address: `${shop}/sql`,
    act: run('select pric from teas', 'Run'),
    wait: text('The statement that ran'),
  },
  { name: 'sql-plan', address: `${shop}/sql`, act: run(revenue, 'Explain'), wait: text('Aggregate') },
  {
    name: 'sql-preview',
    address: `${shop}/sql`,
    act: run("delete from orders where ordered_at < '2026-02-01' returning id, quantity", 'Run'),
    wait: text('would affect'),
  },
  { name: 'schema', address: `${shop}/schema`, wait: text('customer_id') },
  { name: 'schema-empty', address: `${bare}/schema`, wait: (page) => page.locator('.page').waitFor() },
  { name: 'users', address: `${shop}/users`, wait: text('ada@example.com') },
  { name: 'users-empty', address: `${bare}/users`, wait: (page) => page.locator('.page').waitFor() },
  { name: 'keys', address: `${shop}/keys`, wait: text('Website') },
  { name: 'usage', address: `${shop}/usage`, wait: text('orders') },
  { name: 'usage-failing', address: `${shop}/usage`, wait: visible('Try again'), fails: true },
  { name: 'logs', address: `${shop}/logs`, wait: text('table_not_found') },
  { name: 'logs-empty', address: `${bare}/logs`, wait: (page) => page.locator('.page').waitFor() },
  { name: 'api', address: `${shop}/api`, wait: text('curl') },
  { name: 'settings', address: `${shop}/settings`, wait: text('Danger zone') },
  { name: 'members', address: 'account/members', wait: text('grace@example.com') },
  { name: 'member-invite', address: 'account/members', act: press('Invite'), wait: dialog },
  { name: 'audit', address: 'account/audit', wait: text('member.invite') },
  { name: 'audit-empty', address: 'account/audit?project=nothing', wait: text('Nothing matches') },
  { name: 'audit-failing', address: 'account/audit', wait: visible('Try again'), fails: true },
  { name: 'account', address: 'account/settings', wait: text('Require a second factor') },
  { name: 'accounts', address: 'accounts', wait: text('operator') },
  { name: 'account-new', address: 'accounts', act: press('New account'), wait: dialog },
  { name: 'server', address: 'server', wait: (page) => page.locator('.page').waitFor() },
  { name: 'sessions', address: 'account/sessions', wait: text('this one') },
  {
    name: 'palette',
    address: 'projects',
    act: (page) => page.keyboard.press('Control+k'),
    wait: (page) => page.getByRole('combobox').waitFor(),
  },
  { name: 'not-found', address: 'projects/tea-shop/nowhere', wait: text('no such page') },
  { name: 'project-missing', address: 'projects/nothing-here/usage', wait: text('project_not_found') },
];

inBrowsers('every screen', (browserName) => {
  const visit = useVisit(browserName, rowhouse, 'tea-shop', { width: wide.width });
  let page: Page;
  const shoot = async (name: string) => {
    if (!pictures || browserName !== 'chromium') return;
    mkdirSync(pictures, { recursive: true });
    writeFileSync(
      path.join(pictures, `console-${name}.webp`),
      await toWebp(visit.browser, await page.screenshot()),
    );
  };

  beforeAll(() => {
    page = visit.page;
  });
  beforeEach(() => page.unrouteAll());

  it('the sign-in', async () => {
    await page.goto(`${rowhouse.origin}/console/`);
    await page.getByRole('heading', { name: 'Sign in to Rowhouse' }).waitFor();
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
      await expectAccessible(page);
      if (!docsOnly) await shoot(`sign-in-${colorScheme}`);
    }
    await visit.signIn();
  });

  const shown = docsOnly
    ? screens.filter(({ name }) => inDocs.some((picture) => picture.startsWith(name)))
    : screens;
  it.each(shown)('$name', async ({ name, address, act, wait, fails }) => {
    await page.setViewportSize(wide);
    if (fails)
      await page.route(`${rowhouse.origin}/console/api/**`, (route) =>
        route.fulfill({ status: 503, contentType: 'application/json', body: unavailable }),
      );
    await page.goto(`${rowhouse.origin}/console/${address}`);
    await page.locator('.page, .table-view, .sql, .state, .tables').first().waitFor();
    await page.locator('.skeleton').first().waitFor({ state: 'detached' });
    await act?.(page);
    await wait(page);
    for (const width of [wide.width, 390]) {
      await page.setViewportSize(width === 390 ? { width, height: 844 } : wide);
      for (const colorScheme of ['light', 'dark'] as const) {
        await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
        const suffix = `${width === 390 ? '-narrow' : ''}${colorScheme === 'dark' ? '-dark' : ''}`;
        // The elements are the same in every browser, and axe takes a second.
        const isChecked = browserName === 'chromium';
        if (isChecked && !docsOnly) await expectAccessible(page);
        if (!docsOnly || inDocs.includes(name + suffix)) await shoot(name + suffix);
      }
      // Its parts scroll. The page itself does not, in neither direction.
      const over = await page.evaluate(() => {
        const { scrollWidth, clientWidth, scrollHeight, clientHeight } = document.documentElement;
        return [scrollWidth - clientWidth, scrollHeight - clientHeight];
      });
      expect(over).toEqual([0, 0]);
    }
  });

  it('none broke the security policy or asked another origin', () => {
    expect(visit.problems).toEqual([]);
  });
});

const unavailable = JSON.stringify({
  ok: false,
  error: {
    code: 'unavailable',
    message: 'PostgreSQL is not available.',
    hint: 'Try again in a few seconds.',
  },
  request_id: 'test',
});

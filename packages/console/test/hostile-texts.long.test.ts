// Texts of strangers in every place that the console shows: names, comments, values, errors. All of them are shown as text.
import { fileURLToPath } from 'node:url';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, expect, it, onTestFailed } from 'vitest';
import { useTestService } from '../../server/test/helpers.ts';
import {
  inBrowsers,
  keepScreenshot,
  openBrowser,
  openPage,
  pasteText,
  signIn,
  type Watched,
} from './browser.ts';

const folder = fileURLToPath(new URL('../dist', import.meta.url));
const rowhouse = useTestService({ console: { hosts: [], folder } });
const hostile = '<img src=x onerror=alert(1)>';
const slug = 'hostile';
const raise = `do $$ begin raise exception '${hostile}' using hint = '${hostile}', detail = '${hostile}'; end $$`;

const statements = [
  `create table "${hostile}" ("${hostile} id" int primary key, "${hostile}" text default '${hostile}')`,
  `insert into "${hostile}" values (1, '${hostile}')`,
  `create table others (id int primary key, "${hostile}" int references "${hostile}")`,
  `insert into others values (1, 1)`,
  `comment on table "${hostile}" is '${hostile}'`,
  `comment on column "${hostile}"."${hostile}" is '${hostile}'`,
  `create index "${hostile} index" on "${hostile}" ("${hostile}")`,
  `alter table "${hostile}" add constraint "${hostile} check" check ("${hostile}" <> '')`,
  `create policy "${hostile}" on "${hostile}" using ("${hostile}" <> '${hostile}')`,
  `create view "${hostile} view" as select '${hostile}' as "${hostile}"`,
  `create type "${hostile} type" as enum ('${hostile}')`,
  `create function "${hostile}"("${hostile}" text) returns text language sql as $$ select '${hostile}' $$`,
];

let listening: Promise<string> | null = null;
/** Both browsers use one service and one project. */
function originOf(): Promise<string> {
  listening ??= prepare();
  return listening;
}

async function prepare(): Promise<string> {
  const call = async (path: string, body: object) => {
    const answer = await rowhouse.call('POST', path, { body });
    expect(answer.status, `${path}: ${JSON.stringify(answer.body)}`).toBeLessThan(300);
  };
  await call('/projects', { name: hostile, slug });
  const at = `/projects/${slug}`;
  for (const query of statements) await call(`${at}/query`, { query });
  await call(`${at}/auth/users`, { email: 'ann@example.com', data: { [hostile]: hostile } });
  await call(`${at}/keys`, { name: hostile, scopes: ['query'] });
  await call(`${at}/queries`, { name: hostile, query: raise });
  expect((await rowhouse.call('POST', `${at}/query`, { body: { query: raise } })).status).toBe(400);
  return rowhouse.app.listen({ host: '127.0.0.1', port: 0 });
}

inBrowsers('texts of strangers', (name) => {
  let browser: Browser;
  let watched: Watched;
  let page: Page;
  let origin = '';

  beforeAll(async () => {
    origin = await originOf();
    browser = await openBrowser(name);
    watched = await openPage(browser, origin);
    page = watched.page;
    await signIn(page, origin, rowhouse.accountKey);
    await page.getByRole('heading', { name: 'Projects' }).waitFor();
  });
  afterAll(async () => {
    await browser?.close();
  });
  beforeEach(() => {
    onTestFailed(() => keepScreenshot(page, name));
  });

  const expectText = async () => {
    await page.getByText(hostile).first().waitFor();
    expect(await page.locator('img[src="x"]').count()).toBe(0);
    expect(watched.problems).toEqual([]);
  };

  const table = encodeURIComponent(hostile);
  it.each([
    ['projects', ''],
    ['the table', `/${slug}/tables/${table}`],
    ['a table that refers to it', `/${slug}/tables/others`],
    ['schema', `/${slug}/schema`],
    ['users', `/${slug}/users`],
    ['keys', `/${slug}/keys`],
    ['usage', `/${slug}/usage`],
    ['logs', `/${slug}/logs`],
    ['API', `/${slug}/api`],
    ['settings', `/${slug}/settings`],
  ])('are texts on the screen: %s', async (_screen, path) => {
    await page.goto(`${origin}/console/projects${path}`);
    await expectText();
  });

  it('are texts in an error of a statement', async () => {
    await page.goto(`${origin}/console/projects/${slug}/sql`);
    await page.locator('.sql-editor .cm-content').click();
    // The editor closes quotes and brackets by itself, and does nothing of the kind in a pasted text.
    await pasteText(page.locator('.sql-editor .cm-content'), raise);
    await page.keyboard.press('Control+Enter');
    await page.getByRole('alert').getByText(hostile).first().waitFor();
    await expectText();
  });
});

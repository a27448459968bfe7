// Work with data in the console, in a real browser: a table by form, a large import, exports, saved queries, acting as a
// user, snapshots.
import { readFile } from 'node:fs/promises';
import type { Page } from 'playwright-core';
import { beforeAll, expect, it } from 'vitest';
import { expectAccessible, fill, inBrowsers, openPage, signIn } from './browser.ts';
import { useConsoleService, useVisit } from './visit.ts';

const rowhouse = useConsoleService();
const importedRows = 50_000;

inBrowsers('data in the console', (name) => {
  const slug = `data-${name}`;
  const visit = useVisit(name, rowhouse, slug);
  const { button, cell, open, query, writeSql } = visit;
  let page: Page;

  beforeAll(async () => {
    await visit.createProject();
    await visit.signIn();
    page = visit.page;
  });

  it('creates a table by form, and shows the DDL', async () => {
    await open('tables');
    await page.getByRole('button', { name: 'New table' }).first().click();
    const dialog = page.getByRole('dialog', { name: 'New table' });
    await fill(dialog.getByLabel('Name', { exact: true }), 'teas');
    await button('Add a column').click();
    await fill(dialog.getByLabel('Column 3', { exact: true }), 'price');
    await fill(dialog.getByLabel('Type', { exact: true }).nth(2), 'numeric');
    await dialog.getByText('create table "teas"').waitFor();
    await expectAccessible(page);
    await button('Create table').click();
    await page.getByText('No rows yet').waitFor();
    expect(
      await query(`select column_name from information_schema.columns where table_name = 'teas' order by 1`),
    ).toEqual([{ column_name: 'id' }, { column_name: 'name' }, { column_name: 'price' }]);
  });

  it('imports 50,000 rows with a preview, and exports them as they are', async () => {
    const lines = Array.from({ length: importedRows }, (_, index) => `"Tea, ${index + 1}",${index / 4}`);
    const csv = Buffer.from(`name,price\n${lines.join('\n')}\n`);
    await button('Import').click();
    const file = { name: 'teas.csv', mimeType: 'text/csv', buffer: csv };
    await page.getByLabel('CSV or JSON lines').setInputFiles(file);
    await page.getByRole('cell', { name: 'Tea, 1', exact: true }).waitFor();
    await expectAccessible(page);
    await page.getByRole('dialog').getByRole('button', { name: 'Import', exact: true }).click();
    await page.getByText('50,000 rows imported.').waitFor({ timeout: 60_000 });
    await cell('Tea, 1').waitFor();
    const downloading = name === 'firefox' ? null : page.waitForEvent('download');
    await button('Export').click();
    await page.getByRole('menuitem', { name: 'All rows as CSV' }).click();
    await page.getByText(/^Exported \d/).waitFor();
    // Playwright cannot read downloads of this Firefox.
    const download = await downloading;
    if (!download) return;
    expect(download.suggestedFilename()).toBe(`${slug}-teas.csv`);
    const text = await readFile(await download.path(), 'utf8');
    expect(text.trimEnd().split('\n')).toHaveLength(importedRows + 1);
    expect(text.split('\n')[1]).toBe('1,"Tea, 1",0');
  });

  it('refuses a file with a column that the table does not have', async () => {
    await button('Import').click();
    const file = { name: 'x.csv', mimeType: 'text/csv', buffer: Buffer.from('nme\nx\n') };
    await page.getByLabel('CSV or JSON lines').setInputFiles(file);
    await page.getByText('teas has no column “nme”.').waitFor();
    expect(
      await page.getByRole('dialog').getByRole('button', { name: 'Import', exact: true }).isDisabled(),
    ).toBe(true);
    await button('Cancel').click();
  });

  it('adds a column by form', async () => {
    await button('Structure').click();
    const dialog = page.getByRole('dialog');
    await fill(dialog.getByLabel('Name', { exact: true }), 'shop');
    await dialog.getByText('alter table "teas" add column "shop" text').waitFor();
    await expectAccessible(page);
    await dialog.getByRole('button', { name: 'Add a column', exact: true }).click();
    await page.getByRole('columnheader', { name: /shop/ }).waitFor();
  });

  it('runs a statement with parameters, streams its rows, and keeps it in the history', async () => {
    await open('sql');
    await writeSql('select id, name from teas where id <= $1 order by id');
    await fill(page.getByLabel('$1', { exact: true }), '15000');
    await button('Run').click();
    await page.getByText('15,000 rows', { exact: true }).waitFor();
    await cell('Tea, 1').waitFor();
    await expectAccessible(page);
    await button('Queries').click();
    await page.getByRole('tab', { name: 'History' }).click();
    await page.getByRole('dialog').getByText('where id <= $1').waitFor();
    await expectAccessible(page);
    await button('Close').click();
  });

  it('saves a query under a name, and opens it again by the palette in another tab', async () => {
    await writeSql('select 40 + 2 as answer');
    await page.getByText('Draft stored').waitFor();
    await button('Save').click();
    await fill(page.getByRole('dialog').getByLabel('Name'), 'The answer');
    await page.getByRole('dialog').getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByText('The answer is saved.').waitFor();
    const { body } = await rowhouse.call('GET', `/projects/${slug}/queries`);
    expect(body.queries).toMatchObject([{ name: 'The answer', kind: 'saved' }]);

    const second = await page.context().newPage();
    await second.goto(`${rowhouse.origin}/console/projects/${slug}/tables`);
    await second.getByRole('heading', { name: 'Tables' }).waitFor({ state: 'attached' });
    await second.keyboard.press('Control+k');
    await second.keyboard.type('The answ');
    await second.getByRole('option', { name: /The answer/ }).click();
    await second.getByText('select 40 + 2 as answer').waitFor();
    await second.close();
  });

  it('acts as a user, sees what row security lets through, and stops', async () => {
    await query('create table notes (id int primary key, owner text, body text)');
    await query(`insert into notes values (1, 'ada@example.com', 'mine'), (2, 'bob@example.com', 'theirs')`);
    await query('alter table notes enable row level security');
    await query(
      `create policy own on notes for select to authenticated using (owner = auth.jwt() ->> 'email')`,
    );
    const signedUp = await rowhouse.call('POST', `/projects/${slug}/auth/users`, {
      body: { email: 'ada@example.com' },
    });
    expect(signedUp.status).toBe(201);
    await open('users');
    await button('Actions for ada@example.com').click();
    await page.getByRole('menuitem', { name: 'Act as this user' }).click();
    await page.getByText('Rows and SQL run as').waitFor();
    await page.getByRole('link', { name: /notes/ }).click();
    await cell('mine').waitFor();
    expect(await cell('theirs').count()).toBe(0);
    await expectAccessible(page);
    await button('Stop').click();
    await cell('theirs').waitFor();
  });

  it('lists the sessions of the console, and ends another one', async () => {
    const other = await openPage(visit.browser, rowhouse.origin);
    await signIn(other.page, rowhouse.origin, rowhouse.accountKey);
    await other.page.getByRole('heading', { name: 'Projects' }).waitFor();
    await page.goto(`${rowhouse.origin}/console/account/sessions`);
    await page.getByText('this one', { exact: true }).waitFor();
    await expectAccessible(page);
    const others = await button('End').count();
    // The last used one comes first.
    await button('End').first().click();
    await expect.poll(() => button('End').count()).toBe(others - 1);
    await other.page.reload();
    await other.page.getByRole('heading', { name: 'Sign in to Rowhouse' }).waitFor();
    await other.page.context().close();
  });

  it('draws the schema as a diagram', async () => {
    await query('create table cups (id int primary key, tea bigint references teas)');
    await open('schema');
    await page.getByRole('tab', { name: 'Diagram' }).click();
    await page.getByRole('link', { name: 'cups' }).waitFor();
    expect(await page.locator('.diagram-line').count()).toBe(1);
    await expectAccessible(page);
  });

  it('broke no security policy, and asked no other origin', () => {
    expect(visit.problems).toEqual([]);
  });
});

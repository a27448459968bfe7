// The whole way of a new person in a real browser, on a service that has just been started: from the link that the start
// prints to a restore and the sign-out.
import type { Page } from 'playwright-core';
import { beforeAll, expect, it } from 'vitest';
import { api, until } from '../../server/test/support/helpers.ts';
import { expectAccessible, fill, fillTime, inBrowsers, pasteText } from './browser.ts';
import { useStartedService, useVisit } from './visit.ts';

const importedRows = 50_000;

inBrowsers('the first visit', (name) => {
  const slug = 'tea-shop';
  const service = useStartedService();
  const visit = useVisit(name, service, slug);
  const { button, cell, dialog, link, query, writeSql } = visit;
  let page: Page;
  /** Before the rows were deleted. */
  let earlier = 0;

  beforeAll(() => {
    page = visit.page;
  });

  it('the printed link signs in by one click, and leaves the address', async () => {
    const [printed] = /http:\S+#link=\S+/.exec(service.output()) ?? [];
    expect(printed, service.output()).toBeDefined();
    await page.goto(printed ?? '');
    await page.getByText('Create your first project').waitFor();
    expect(page.url()).not.toContain('link');
    await expectAccessible(page);
  });

  it('creates a project, and a table by form', async () => {
    await button('New project').first().click();
    await fill(dialog().getByLabel('Name'), 'Tea shop');
    await dialog().getByRole('button', { name: 'Create project' }).click();
    await button('Open the project').click();
    await button('New table').first().click();
    await fill(dialog().getByLabel('Name', { exact: true }), 'teas');
    await button('Add a column').click();
    await fill(dialog().getByLabel('Column 3', { exact: true }), 'price');
    await fill(dialog().getByLabel('Type', { exact: true }).nth(2), 'numeric');
    await button('Create table').click();
    await page.getByText('No rows yet').waitFor();
  });

  it('imports 50,000 rows, filters, sorts, edits a range, undoes and applies', async () => {
    const lines = Array.from({ length: importedRows }, (_, index) => `Tea ${index + 1},${index + 1}`);
    await button('Import').click();
    const buffer = Buffer.from(`name,price\n${lines.join('\n')}\n`);
    await page
      .getByLabel('CSV or JSON lines')
      .setInputFiles({ name: 'teas.csv', mimeType: 'text/csv', buffer });
    await dialog().getByRole('button', { name: 'Import', exact: true }).click();
    await page.getByText('50,000 rows imported.').waitFor({ timeout: 60_000 });
    await button('Filter').click();
    await page.getByLabel('Column', { exact: true }).selectOption('price');
    await page.getByLabel('Condition', { exact: true }).selectOption('gt');
    await fill(page.getByLabel('Value', { exact: true }), '49990');
    await button('Add filter').click();
    await page.getByText('10 rows loaded').waitFor();
    await page.getByRole('columnheader', { name: /price/ }).getByRole('button').click();
    await page.getByRole('columnheader', { name: /price/ }).getByRole('button').click();
    await page.getByRole('row', { name: /Tea 50000/ }).waitFor();
    await cell('Tea 50000').click();
    await pasteText(page.getByRole('grid'), 'First\t1\nSecond\t2');
    await page.getByText('2 unsaved changes').waitFor();
    await page.keyboard.press('Control+z');
    await page.getByText('2 unsaved changes').waitFor({ state: 'detached' });
    await page.keyboard.press('Control+Shift+z');
    await button('Review and apply').click();
    await button('Apply 2 changes').click();
    await page.getByText('2 changes applied.').waitFor();
    expect(await query('select name from teas where id > 49998 order by id')).toEqual([
      { name: 'Second' },
      { name: 'First' },
    ]);
  });

  it('previews a destructive statement, and applies it', async () => {
    // The base backup that the start makes, and one whole second between the edit and the deletion.
    const range = async () => (await service.call('GET', `${api}/backups`)).body;
    await until('there is a backup', async () => (await range()).backups.length > 0, 120_000);
    earlier = Math.ceil((Date.now() + 1_000) / 1_000) * 1_000;
    await until('the second is over', async () => Date.now() > earlier + 1_500);
    await link('SQL').click();
    await writeSql('delete from teas where id > 1000');
    await page.keyboard.press('Control+Enter');
    await page.getByText('DELETE would affect 49,000 rows.').waitFor();
    expect(await query('select count(*)::int as n from teas')).toEqual([{ n: importedRows }]);
    await button('Apply to 49,000 rows').click();
    await page.getByText('49,000 rows affected').waitFor();
    await until(
      'the deletion is in the backups',
      async () => Date.parse((await range()).newest_restorable) > earlier + 1_000,
    );
  });

  it('acts as a user, under row security', async () => {
    await query('alter table teas enable row level security');
    await query('create policy cheap on teas for select to authenticated using (price <= 2)');
    await link('Users').click();
    await button('New user').click();
    await fill(dialog().getByLabel('Email', { exact: true }), 'ada@example.com');
    await dialog().getByRole('button', { name: 'Create user' }).click();
    await button('Actions for ada@example.com').click();
    await page.getByRole('menuitem', { name: 'Act as this user' }).click();
    await page.getByText('Rows and SQL run as').waitFor();
    await page.getByRole('link', { name: /teas/ }).click();
    await page.getByText('2 rows loaded').waitFor();
    await button('Stop').click();
    await page.getByText(/more below/).waitFor();
  });

  it('shows the usage, and compacts', async () => {
    await link('Usage').click();
    await page.getByRole('cell', { name: 'teas', exact: true }).waitFor();
    await button('Compact').click();
    await page.getByText('done', { exact: true }).first().waitFor({ timeout: 60_000 });
    await expectAccessible(page);
  });

  it('makes a branch, and restores the state before the deletion into a new project', async () => {
    await link('Settings').click();
    await button('New branch').click();
    await fill(dialog().getByLabel('Name'), 'Experiment');
    await button('Create branch').click();
    await page.getByText('Experiment is created').waitFor();
    await expectAccessible(page);
    await button('Close').click();
    await link('Experiment').waitFor();
    await button('Restore to a time').click();
    await fillTime(dialog().getByLabel('State of'), earlier);
    await dialog().getByRole('button', { name: 'Restore', exact: true }).click();
    await page.getByText(/^The restore (runs|is done)$/).waitFor();
    await expectAccessible(page);
    await dialog().getByText('done', { exact: true }).waitFor({ timeout: 120_000 });
    await dialog().getByRole('button', { name: /^Open/ }).click();
    await page.getByRole('link', { name: /teas/ }).click();
    await cell('Tea 1').waitFor();
    const restored = new URL(page.url()).pathname.split('/')[3] ?? '';
    const { body } = await service.call('POST', `/projects/${restored}/query`, {
      body: { query: 'select count(*)::int as n from teas' },
    });
    expect(body.rows).toEqual([{ n: importedRows }]);
    expect(await query('select count(*)::int as n from teas')).toEqual([{ n: 1_000 }]);
  });

  it('signs out, and the address alone shows nothing', async () => {
    const address = page.url();
    await visit.signOut();
    await page.goto(address);
    await page.getByRole('heading', { name: 'Sign in to Rowhouse' }).waitFor();
    expect(await page.evaluate(() => ({ ...sessionStorage }))).toEqual({});
  });

  it('broke no security policy, and asked no other origin', () => {
    expect(visit.problems).toEqual([]);
  });
});

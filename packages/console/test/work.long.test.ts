// Settings and smaller work in the console, in a real browser: rename, limit, rules for passwords, deletion and restore,
// references, a table from a file, the export of a result, and what signing out leaves behind.
import { readFile } from 'node:fs/promises';
import type { Page } from 'playwright-core';
import { beforeAll, expect, it } from 'vitest';
import { enterKey, expectAccessible, fill, inBrowsers } from './browser.ts';
import { useConsoleService, useVisit } from './visit.ts';

const rowhouse = useConsoleService();

inBrowsers('work in the console', (name) => {
  const slug = `work-${name}`;
  const visit = useVisit(name, rowhouse, slug);
  const { button, cell, open, query, signOut, writeSql } = visit;
  let page: Page;
  const project = async () => (await rowhouse.call('GET', `/projects/${slug}`)).body.project;

  beforeAll(async () => {
    await visit.createProject();
    await visit.signIn();
    page = visit.page;
  });

  it('renames a project and changes its limit; a limit that is not possible is refused with the reason', async () => {
    await open('settings');
    await fill(page.getByLabel('Name', { exact: true }), `Renamed ${name}`);
    await fill(page.getByLabel('Size limit'), '96');
    await button('Save').click();
    await page.getByText('Saved.').waitFor();
    expect(await project()).toMatchObject({ name: `Renamed ${name}`, limit_mb: 96 });
    await page.getByRole('button', { name: new RegExp(`Renamed ${name}`) }).waitFor();
    await fill(page.getByLabel('Size limit'), '0');
    await button('Save').click();
    await page.getByRole('alert').getByText('limit_mb').waitFor();
    await expectAccessible(page);
    expect((await project()).limit_mb).toBe(96);
  });

  it('changes the rule for passwords', async () => {
    const settings = () => rowhouse.call('GET', `/projects/${slug}/auth/settings`);
    const before = (await settings()).body.settings.refuse_common_passwords;
    await open('settings');
    await page.getByLabel('Refuse common passwords').click();
    await expect.poll(async () => (await settings()).body.settings.refuse_common_passwords).toBe(!before);
  });

  it('shows the connection string to a person who has just signed in', async () => {
    await open('settings');
    await button('Show it').click();
    await page.getByText(/^postgres:\/\//).waitFor();
    await expectAccessible(page);
  });

  it('deletes a project after its slug was typed, and restores it with its data', async () => {
    await query('create table kept as select 1 as one');
    await open('settings');
    await button('Delete project').click();
    const dialog = page.getByRole('dialog');
    const confirm = dialog.getByRole('button', { name: 'Delete project' });
    expect(await confirm.isDisabled()).toBe(true);
    await expectAccessible(page);
    await fill(dialog.getByLabel(`Type ${slug} to confirm`), slug);
    await confirm.click();
    await page.getByText(/It can be restored for 7 days/).waitFor();
    await page.getByRole('tab', { name: 'Deleted' }).click();
    const row = page.getByRole('row').filter({ hasText: slug });
    await row.waitFor();
    await expectAccessible(page);
    expect((await project()).status).toBe('deleted');
    await row.getByRole('button', { name: 'Restore' }).click();
    await page.getByText(`Renamed ${name} is back.`).waitFor();
    expect(await query('select one from kept')).toEqual([{ one: 1 }]);
  });

  it('creates a table with the columns of a file, and imports it', async () => {
    await open('tables?new');
    const dialog = page.getByRole('dialog', { name: 'New table' });
    const csv = 'name,price,since\nSencha,4.5,2026-01-05\n"Assam, strong",6,2026-02-01\n';
    const file = { name: 'Tea list.csv', mimeType: 'text/csv', buffer: Buffer.from(csv) };
    await dialog.getByLabel('From a file').setInputFiles(file);
    await dialog.getByText('create table "tea_list"').waitFor();
    await expectAccessible(page);
    await button('Create and import').click();
    await page.getByText('The table tea_list is created, with 2 rows.').waitFor();
    await cell('Assam, strong').waitFor();
    expect(
      await query(`select column_name as name, data_type as type from information_schema.columns
                   where table_name = 'tea_list' and column_name <> 'id' order by ordinal_position`),
    ).toEqual([
      { name: 'name', type: 'text' },
      { name: 'price', type: 'numeric' },
      { name: 'since', type: 'date' },
    ]);
  });

  it('shows the row behind a foreign key, finds another one by its text, and stages it', async () => {
    await query('create table cups (id int primary key, tea_id bigint references tea_list)');
    await query('insert into cups values (1, 1)');
    await open('tables/cups');
    await cell('1').nth(1).click();
    await page.keyboard.press('Space');
    const panel = page.getByRole('complementary', { name: 'Value of tea_id' });
    await panel.getByRole('definition').getByText('Sencha').waitFor();
    await expectAccessible(page);
    await fill(panel.getByLabel('Find in tea_list'), 'strong');
    await panel.getByRole('button', { name: /Assam, strong/ }).click();
    await page.getByText('1 unsaved change', { exact: true }).waitFor();
    await panel.getByRole('definition').getByText('Assam, strong').waitFor();
    await button('Review and apply').click();
    await button('Apply 1 change').click();
    await page.getByText('1 change applied.').waitFor();
    expect(await query('select tea_id from cups')).toEqual([{ tea_id: 2 }]);
  });

  it('exports all rows of a result, more than the screen shows', async () => {
    await open('sql');
    await writeSql('select n, n * 2 as twice from generate_series(1, 25000) as n');
    await button('Run').click();
    await page.getByText('20,000 rows shown, there are more').waitFor();
    const downloading = name === 'firefox' ? null : page.waitForEvent('download');
    await button('Export').click();
    await page.getByRole('menuitem', { name: 'All rows as CSV' }).click();
    await page.getByText(/^Exported \d/).waitFor();
    // Playwright cannot read downloads of this Firefox.
    const download = await downloading;
    if (!download) return;
    const lines = (await readFile(await download.path(), 'utf8')).trimEnd().split('\n');
    expect([lines.length, lines[0], lines.at(-1)]).toEqual([25_001, 'n,twice', '25000,50000']);
  });

  it('keeps what was typed as a draft when the person signs out, and leaves nothing in the browser', async () => {
    await writeSql('select 1 as typed_last');
    await signOut();
    expect(await page.evaluate(() => ({ ...sessionStorage }))).toEqual({});
    expect(await page.evaluate(() => JSON.stringify({ ...localStorage }))).not.toContain('typed_last');
    const { body } = await rowhouse.call('GET', `/projects/${slug}/queries?kind=draft`);
    expect(body.queries.map(({ preview }: { preview: string }) => preview)).toContain(
      'select 1 as typed_last',
    );
    await visit.signIn();
  });

  it('a session that ends by itself leaves the text for the same key, and not for another one', async () => {
    await open('sql');
    await writeSql('select 2 as mine');
    const expire = () => page.context().clearCookies();
    await expire();
    // By key: the page may notice the end by itself, and the button would be gone.
    await page.keyboard.press('Control+Enter');
    await page.getByText('Your session has ended. Sign in again.').waitFor();
    await enterKey(page, rowhouse.accountKey);
    await page.getByText('select 2 as mine').waitFor();
    const issued = await rowhouse.call('POST', `/projects/${slug}/keys`, {
      body: { name: 'other', scopes: ['query', 'tables:read'] },
    });
    await expire();
    await page.keyboard.press('Control+Enter');
    await enterKey(page, issued.body.api_key);
    await page.getByText('Results appear here').waitFor();
    expect(await page.getByText('select 2 as mine').count()).toBe(0);
  });

  it('broke no security policy, and asked no other origin', () => {
    expect(visit.problems).toEqual([]);
  });
});

// Leaving a screen that has something unfinished asks first, in real browsers: by a link, the palette, Back, signing out, closing the
// tab or the dialog. Nothing is lost without a question, and nothing is asked after it is saved.
import type { Page } from 'playwright-core';
import { beforeAll, beforeEach, expect, it } from 'vitest';
import { asksBeforeLeaving, enterKey, expectAccessible, fill, inBrowsers } from './browser.ts';
import { useConsoleService, useVisit } from './visit.ts';

const rowhouse = useConsoleService();

inBrowsers('leaving a screen', (name) => {
  const slug = `leaving-${name}`;
  const visit = useVisit(name, rowhouse, slug);
  const { button, cell, dialog, link, open, query } = visit;
  let page: Page;
  const back = () => page.evaluate(() => history.back());
  const path = () => new URL(page.url()).pathname.split(`/${slug}`)[1];
  const asked = () => dialog('Leave this page?');
  const answer = async (label: 'Leave' | 'Cancel') => {
    await asked().getByRole('button', { name: label, exact: true }).click();
    await asked().waitFor({ state: 'detached' });
  };
  const pending = (text = '1 unsaved change') => page.getByText(text, { exact: true });
  const stage = async () => {
    await cell('Sencha').dblclick();
    await page.keyboard.press('Control+a');
    await page.keyboard.type('Gyokuro');
    await page.keyboard.press('Enter');
    await pending().waitFor();
  };

  beforeAll(async () => {
    await visit.createProject();
    await query('create table teas (id int primary key, name text)');
    await query(`insert into teas values (1, 'Sencha'), (2, 'Assam')`);
    await visit.signIn();
    page = visit.page;
  });
  beforeEach(() => page.unrouteAll());

  it('with staged edits: a link, the palette, Back and signing out ask, and Cancel keeps them', async () => {
    await open('usage');
    await link('Tables').click();
    await page.getByRole('link', { name: /^teas/ }).click();
    await stage();
    expect(await asksBeforeLeaving(page)).toBe(true);
    await link('SQL').click();
    await asked().getByText('1 unsaved change of teas.').waitFor();
    await expectAccessible(page);
    await answer('Cancel');
    await page.keyboard.press('Control+k');
    await page.keyboard.type('usage');
    await page.keyboard.press('Enter');
    await answer('Cancel');
    await back();
    await answer('Cancel');
    await visit.askToSignOut();
    await answer('Cancel');
    expect(path()).toBe('/tables/teas');
    await pending().waitFor();
    // Another order of the same rows loses nothing.
    await page.getByRole('columnheader', { name: /^name/ }).click();
    await expect.poll(() => page.url()).toContain('sort=');
    await pending().waitFor();
    expect(await asked().count()).toBe(0);
  });

  it('Leave goes where the person wanted to go, also by Back, and then nothing is asked', async () => {
    await link('SQL').click();
    await answer('Leave');
    await expect.poll(path).toBe('/sql');
    await expect.poll(() => asksBeforeLeaving(page)).toBe(false);
    await back();
    await expect.poll(path).toBe('/tables/teas');
    await stage();
    // To the table as it was before it was sorted: the edits stay. Then to the list of tables.
    await back();
    await expect.poll(() => page.url()).not.toContain('sort=');
    await pending().waitFor();
    await back();
    await answer('Leave');
    await expect.poll(path).toBe('/tables');
    expect(await query('select name from teas order by id')).toEqual([{ name: 'Sencha' }, { name: 'Assam' }]);
  });

  it('with edits that are applied or discarded, nothing is asked', async () => {
    await open('tables/teas');
    await stage();
    await button('Discard').click();
    await expect.poll(() => asksBeforeLeaving(page)).toBe(false);
    await link('SQL').click();
    await expect.poll(path).toBe('/sql');
  });

  it('while rows are imported: closing the dialog, Back and closing the tab ask; leaving stops it', async () => {
    let stopped = 0;
    page.on('requestfailed', (request) => {
      if (request.method() === 'POST' && request.url().endsWith('/tables/teas')) stopped += 1;
    });
    await page.route('**/tables/teas', (route) =>
      // Without an answer, as from a slow server.
      route.request().method() === 'POST' ? undefined : route.continue(),
    );
    await link('Tables').click();
    await page.getByRole('link', { name: /^teas/ }).click();
    await button('Import').click();
    const file = { name: 'more.csv', mimeType: 'text/csv', buffer: Buffer.from('id,name\n3,Oolong\n') };
    await page.getByLabel('CSV or JSON lines').setInputFiles(file);
    const form = dialog('Import into teas');
    await form.getByRole('button', { name: 'Import', exact: true }).click();
    await form.getByText(/sent/).waitFor();
    expect(await asksBeforeLeaving(page)).toBe(true);
    for (const close of [() => page.keyboard.press('Escape'), () => form.getByText('Cancel').click()]) {
      await close();
      const question = dialog('Close “Import into teas”?');
      await question.getByText('The import of more.csv stops, and none of its rows is stored.').waitFor();
      await question.getByRole('button', { name: 'Cancel' }).click();
      await question.waitFor({ state: 'detached' });
    }
    expect(stopped).toBe(0);
    await back();
    await answer('Leave');
    await expect.poll(path).toBe('/tables');
    // Playwright does not tell about it in Firefox.
    if (name === 'chromium') await expect.poll(() => stopped).toBe(1);
    expect(await query('select count(*)::int as n from teas')).toEqual([{ n: 2 }]);
    await expect.poll(() => asksBeforeLeaving(page)).toBe(false);
  });

  it('with a form in a dialog: Esc and Back ask, Cancel is an answer by itself, and saving asks nothing', async () => {
    await open('usage');
    await link('Users').click();
    const form = dialog('New user');
    const question = dialog('Close “New user”?');
    await button('New user').click();
    await page.keyboard.press('Escape');
    await form.waitFor({ state: 'detached' });
    await button('New user').click();
    await fill(form.getByLabel('Email', { exact: true }), 'ada@example.com');
    expect(await asksBeforeLeaving(page)).toBe(true);
    await page.keyboard.press('Escape');
    await question.getByText('What you entered in “New user” is lost.').waitFor();
    await expectAccessible(page);
    await page.keyboard.press('Escape');
    await question.waitFor({ state: 'detached' });
    expect(await form.getByLabel('Email', { exact: true }).inputValue()).toBe('ada@example.com');
    await back();
    await answer('Cancel');
    await form.getByRole('button', { name: 'Create user' }).click();
    await form.waitFor({ state: 'detached' });
    await expect.poll(() => asksBeforeLeaving(page)).toBe(false);
    await button('New user').click();
    await fill(form.getByLabel('Email', { exact: true }), 'bob@example.com');
    await form.getByRole('button', { name: 'Cancel' }).click();
    await form.waitFor({ state: 'detached' });
    expect(await question.count()).toBe(0);
  });

  it('with a form that has an address of its own, such as a new table', async () => {
    await open('tables');
    await button('New table').first().click();
    const form = dialog('New table');
    await fill(form.getByLabel('Name', { exact: true }), 'cups');
    await back();
    await answer('Cancel');
    expect(await form.getByLabel('Name', { exact: true }).inputValue()).toBe('cups');
    await form.getByRole('button', { name: 'Create table' }).click();
    await page.getByText('No rows yet').waitFor();
    expect(path()).toBe('/tables/cups');
    await open('tables?new');
    await fill(form.getByLabel('Name', { exact: true }), 'never');
    await form.getByRole('button', { name: 'Cancel' }).click();
    await form.waitFor({ state: 'detached' });
    expect(page.url()).not.toContain('?new');
  });

  it('with a key that is shown once', async () => {
    await open('usage');
    await link('Keys').click();
    await button('New key').click();
    await fill(dialog('New key').getByLabel('Name', { exact: true }), 'once');
    await button('Create key').click();
    const shown = dialog('The new key').getByText(/^rh_proj_\w+$/);
    await shown.waitFor();
    expect(await asksBeforeLeaving(page)).toBe(true);
    await back();
    await asked().getByText('“The new key” shows something that is not shown again.').waitFor();
    await answer('Cancel');
    await shown.waitFor();
    await button('Done').click();
    await expect.poll(() => asksBeforeLeaving(page)).toBe(false);
  });

  it('with a form on the screen itself', async () => {
    await open('settings');
    await fill(page.getByLabel('Name', { exact: true }), `Renamed ${name}`);
    await link('Usage').click();
    await asked().getByText('What you changed under “General” is not saved.').waitFor();
    await answer('Cancel');
    await button('Save').click();
    await page.getByText('Saved.').waitFor();
    await link('Usage').click();
    await expect.poll(path).toBe('/usage');
  });

  it('a session that ends by itself keeps the staged edits for the same key, and not for another one', async () => {
    await open('tables/teas');
    await stage();
    await page.context().clearCookies();
    await page.getByText('Your session has ended. Sign in again.').waitFor();
    await enterKey(page, rowhouse.accountKey);
    await pending().waitFor();
    await cell('Gyokuro').waitFor();
    await page.context().clearCookies();
    await page.getByText('Your session has ended. Sign in again.').waitFor();
    const issued = await visit.call('POST', '/keys', { name: 'other', scopes: ['query', 'tables:read'] });
    await enterKey(page, issued.api_key);
    await page.getByRole('link', { name: /^teas/ }).click();
    await cell('Sencha').waitFor();
    expect(await pending().count()).toBe(0);
  });

  it('broke no security policy, and asked no other origin', () => {
    expect(visit.problems).toEqual([]);
  });
});

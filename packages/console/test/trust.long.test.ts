// What a person must be able to rely on, in real browsers: whose rows they see, that a chart does not mislead, that no key is lost,
// and that a message is true.
import type { Page } from 'playwright-core';
import { beforeAll, beforeEach, expect, it } from 'vitest';
import { openGate } from '../../server/test/support/helpers.ts';
import { asksBeforeLeaving, enterKey, expectAccessible, fill, inBrowsers, pasteText } from './browser.ts';
import { useConsoleService, useVisit } from './visit.ts';

const rowhouse = useConsoleService();
const patience = { timeout: 60_000 };

inBrowsers('trust', (name) => {
  const slug = `trust-${name}`;
  const visit = useVisit(name, rowhouse, slug);
  const { button, cell, dialog, link, menuItem, open, query, writeSql } = visit;
  let page: Page;
  const bar = (on = page) => on.getByText('Rows and SQL run as');
  const rows = (on = page) => on.getByRole('gridcell').and(on.locator('[aria-colindex="3"]')).allInnerTexts();
  const expectRows = (ids: string[], on = page) => expect.poll(() => rows(on), patience).toEqual(ids);

  /** A POST to such an address waits until the test calls what this returns. */
  const holdPosts = async (address: string) => {
    const gate = openGate();
    await page.route(address, async (route) => {
      if (route.request().method() === 'POST') await gate.passed;
      await route.continue();
    });
    return gate.open;
  };

  beforeAll(async () => {
    await visit.createProject();
    for (const statement of [
      'create table notes (owner text, id int primary key, tags text[])',
      `insert into notes values ('ada@example.com', 1, '{a}'), ('bob@example.com', 2, '{b}')`,
      'alter table notes enable row level security',
      `create policy own on notes for select to authenticated using (owner = auth.jwt() ->> 'email')`,
      'create table ballast as select n, repeat(md5(n::text), 30) as filler from generate_series(1, 4000) as n',
    ])
      await query(statement);
    await visit.call('POST', '/auth/users', { email: 'ada@example.com' });
    await visit.signIn();
    page = visit.page;
  });
  beforeEach(() => page.unrouteAll());

  it('acting as a user survives a reload, and a new tab acts as the same user', async () => {
    await open('users');
    await button('Actions for ada@example.com').click();
    await menuItem('Act as this user').click();
    await bar().waitFor();
    await open('tables/notes');
    await bar().waitFor();
    await expectRows(['1']);
    await page.reload();
    await bar().waitFor();
    await expectRows(['1']);
    const tab = await page.context().newPage();
    await tab.goto(page.url());
    await bar(tab).waitFor();
    await expectRows(['1'], tab);
    await tab.close();
  });

  it('and the end of the session: after the sign-in, nobody else’s rows are shown until the person stops acting', async () => {
    await page.context().clearCookies();
    await page.getByText('Your session has ended. Sign in again.').waitFor();
    await enterKey(page, rowhouse.accountKey);
    await bar().waitFor();
    await expectRows(['1']);
    await button('Stop').click();
    await bar().waitFor({ state: 'detached' });
    await expectRows(['1', '2']);
    await page.reload();
    await expectRows(['1', '2']);
    expect(await bar().count()).toBe(0);
  });

  it('a person who signs out, or another one, does not act as the user', async () => {
    await open('users');
    await button('Act as a visitor').click();
    await bar().waitFor();
    await visit.signOut();
    await enterKey(page, rowhouse.accountKey);
    await page.getByRole('link', { name: 'Tables' }).waitFor();
    await open('tables/notes');
    await expectRows(['1', '2']);
    expect(await bar().count()).toBe(0);
  });

  it('the review shows an array as PostgreSQL reads it', async () => {
    await cell('["a"]').click();
    await pasteText(page.getByRole('grid'), '["pasted"]');
    await button('Review and apply').click();
    await dialog().getByText(`"tags" = '{"pasted"}'::text[]`).waitFor();
    await button('Apply 1 change').click();
    await page.getByText('1 change applied.').waitFor();
    expect(await query('select tags from notes where id = 1')).toEqual([{ tags: ['pasted'] }]);
  });

  it('the bars of a chart start at zero, and no number beside them is cut', async () => {
    await open('sql');
    await writeSql(`select * from (values ('a', 9922), ('b', 10182)) as sold (tea, pieces)`);
    await button('Run').click();
    await cell('10182').waitFor();
    await button('Chart').click();
    await page.locator('.plot canvas').waitFor();
    // Below the pointer, a bar would have a mark.
    await page.mouse.move(1, 1);
    const { heights, edge } = await page.locator('.plot').evaluate((plot) => {
      const canvas = plot.querySelector('canvas') as HTMLCanvasElement;
      const context = canvas.getContext('2d') as CanvasRenderingContext2D;
      const over = (plot.querySelector('.u-over') as HTMLElement).getBoundingClientRect();
      const left = over.left - canvas.getBoundingClientRect().left;
      const heightAt = (part: number) => {
        const x = Math.round((left + over.width * part) * devicePixelRatio);
        const { data } = context.getImageData(x, 0, 1, canvas.height);
        let solid = 0;
        for (let at = 0; at < data.length; at += 4) {
          const [red = 0, , blue = 0, alpha = 0] = data.subarray(at, at + 4);
          if (alpha === 255 && Math.abs(red - blue) > 40) solid += 1;
        }
        return solid;
      };
      const first = context.getImageData(0, 0, 2, canvas.height).data;
      return { heights: [heightAt(0.25), heightAt(0.75)], edge: first.filter((byte) => byte > 0).length };
    });
    const [a = 0, b = 1] = heights;
    expect(b).toBeGreaterThan(50);
    expect(a / b).toBeCloseTo(9922 / 10182, 1);
    expect(edge).toBe(0);
  });

  it('a limit below the size is set only after a question with both figures', async () => {
    await open('settings');
    const field = page.getByLabel('Size limit', { exact: true });
    const limit = async () =>
      (await rowhouse.call('GET', `/projects/${slug}`)).body.project.limit_mb as number;
    await fill(field, '2');
    await button('Save').click();
    const asked = dialog(`Stop the writes of ${slug}?`);
    await asked.getByText(/The data takes [\d.]+ MB, and the limit will be 2 MB\./).waitFor();
    await expectAccessible(page);
    await asked.getByRole('button', { name: 'Cancel' }).click();
    await asked.waitFor({ state: 'detached' });
    expect(await limit()).toBe(64);
    await fill(field, '40');
    await button('Save').click();
    await page.getByText('Saved.').waitFor();
    expect(await limit()).toBe(40);
    await fill(field, '2');
    await button('Save').click();
    await asked.getByRole('button', { name: 'Set the limit to 2 MB' }).click();
    await expect.poll(limit, patience).toBe(2);
    await fill(field, '64');
    await button('Save').click();
    await expect.poll(limit, patience).toBe(64);
  });

  it('a person who leaves while a branch is created gets its key on the next screen', async () => {
    const go = await holdPosts('**/branches');
    await open('settings');
    await button('New branch').click();
    await fill(dialog('New branch').getByLabel('Name', { exact: true }), `Copy ${name}`);
    await button('Create branch').click();
    await expect.poll(() => button('Create branch').isDisabled(), patience).toBe(true);
    await page.keyboard.press('Escape');
    await dialog('New branch').waitFor({ state: 'detached' });
    await link('Usage').click();
    await page.getByRole('heading', { name: 'Usage' }).waitFor();
    expect(await asksBeforeLeaving(page)).toBe(true);
    go();
    const shown = dialog(`Copy ${name} is created`).getByText(/^rh_proj_\w+$/);
    await shown.waitFor();
    await expectAccessible(page);
    const key = await shown.innerText();
    expect((await rowhouse.call('GET', `/projects/copy-${name}/tables`, { key })).status).toBe(200);
    await dialog(`Copy ${name} is created`).getByRole('button', { name: 'Close' }).click();
    await expect.poll(() => asksBeforeLeaving(page), patience).toBe(false);
    expect(await rowhouse.call('DELETE', `/projects/copy-${name}`)).toMatchObject({ status: 200 });
  });

  it('an error after the person has left is shown, too', async () => {
    const go = await holdPosts('**/keys');
    await open('usage');
    await link('Keys').click();
    await button('New key').click();
    // Longer than the service takes.
    await fill(dialog('New key').getByLabel('Name', { exact: true }), 'x'.repeat(101));
    await button('Create key').click();
    await expect.poll(() => button('Create key').isDisabled(), patience).toBe(true);
    await page.keyboard.press('Escape');
    await link('Usage').click();
    go();
    await page.locator('.toast-failed').waitFor();
    await page.locator('.toast-failed').getByRole('button', { name: 'Dismiss' }).click();
    await expect.poll(() => asksBeforeLeaving(page), patience).toBe(false);
  });

  it('while the rows of a new table are imported, no message says that it is done', async () => {
    const go = await holdPosts('**/tables/teas');
    await open('tables?new');
    const file = { name: 'teas.csv', mimeType: 'text/csv', buffer: Buffer.from('name\nSencha\nAssam\n') };
    await dialog('New table').getByLabel('From a file').setInputFiles(file);
    await button('Create and import').click();
    await dialog('New table').getByText('The table teas exists. Its rows are being imported …').waitFor();
    expect(await page.locator('.toast').count()).toBe(0);
    go();
    await page.getByText('The table teas is created, with 2 rows.').waitFor();
    await cell('Sencha').waitFor();
  });

  it('broke no security policy, and asked no other origin', () => {
    expect(visit.problems).toEqual([]);
  });
});

// What the console shows beside rows, in a real browser: sessions of users, the server, charts, and long values.
import { tmpdir } from 'node:os';
import type { Page } from 'playwright-core';
import { beforeAll, expect, it } from 'vitest';
import { expectAccessible, inBrowsers } from './browser.ts';
import { useConsoleService, useVisit } from './visit.ts';

const rowhouse = useConsoleService({ disk: { folder: tmpdir(), reserveBytes: 0 } });
const longText = `${'long '.repeat(400)}end`;

inBrowsers('the console', (name) => {
  const slug = `insight-${name}`;
  const visit = useVisit(name, rowhouse, slug);
  const { button, call, open, query, writeSql } = visit;
  let page: Page;

  beforeAll(async () => {
    await visit.createProject();
    await visit.signIn();
    page = visit.page;
  });

  it("lists a user's sessions, and ends one and all", async () => {
    const credentials = { email: 'ann@example.com', password: 'correct horse' };
    const { user } = await call('POST', '/auth/signup', credentials);
    for (let count = 0; count < 2; count += 1) await call('POST', '/auth/signin', credentials);
    await open('users');
    await button('Actions for ann@example.com').click();
    await page.getByRole('menuitem', { name: 'Sessions' }).click();
    const dialog = page.getByRole('dialog', { name: 'Sessions of ann@example.com' });
    const rows = dialog.getByRole('table').getByRole('button', { name: 'End', exact: true });
    await rows.first().waitFor();
    expect(await rows.count()).toBe(3);
    await expectAccessible(page);
    await rows.first().click();
    await page.getByText('1 session ended.').waitFor();
    expect((await call('GET', `/auth/users/${user.id}/sessions`)).sessions).toHaveLength(2);
    await dialog.getByRole('button', { name: 'End all sessions' }).click();
    await page.getByText('The user is not signed in anywhere.').waitFor();
    expect((await call('GET', `/auth/users/${user.id}/sessions`)).sessions).toEqual([]);
    await dialog.getByRole('button', { name: 'Done' }).click();
  });

  it('shows the disk, the connections and the largest projects of the server', async () => {
    await page.goto(`${rowhouse.origin}/console/server`);
    await page.getByRole('meter', { name: 'Connections of test' }).waitFor();
    await page.getByRole('meter', { name: 'Disk of test in megabytes' }).waitFor();
    await page.getByRole('table', { name: 'Projects by size' }).getByRole('link', { name: slug }).waitFor();
    await expectAccessible(page);
  });

  it('draws a result, with other columns and shapes as the person chooses', async () => {
    await open('sql');
    await writeSql(
      "select date '2026-01-01' + i as day, i * i as sold, 100 - i as left_over, 'Tea ' || i as tea from generate_series(1, 50) as i",
    );
    await button('Run').click();
    await button('Chart').click();
    await page.getByRole('img', { name: 'sold by day' }).locator('canvas').waitFor();
    expect(await colours(page)).toBeGreaterThan(2);
    await expectAccessible(page);
    await page.getByLabel('left_over', { exact: true }).check();
    await page.getByLabel('X axis').selectOption('tea');
    await page.getByRole('img', { name: 'sold, left_over by tea' }).locator('canvas').waitFor();
    expect(await page.getByLabel('Shape').inputValue()).toBe('bar');
    await page.locator('.plot .u-over').hover({ position: { x: 300, y: 60 } });
    await page.getByText(/^tea: Tea \d+$/).waitFor();
    await expectAccessible(page);
    await button('Chart').click();
    await page.getByRole('grid', { name: 'Result' }).waitFor();
  });

  it('reads only the beginning of long values, and the whole value when it is opened', async () => {
    await query('create table notes (id int primary key, body text, data jsonb)');
    await query(
      `insert into notes values (1, '${longText}', jsonb_build_object('text', '${longText}')), (2, 'short', '{}')`,
    );
    const read: number[] = [];
    page.on('response', async (response) => {
      if (response.url().includes('/v2/projects') && response.url().includes('/tables/notes'))
        read.push((await response.body()).length);
    });
    await open('tables/notes');
    await page.getByRole('gridcell', { name: 'short', exact: true }).waitFor();
    await expect.poll(() => read.length).toBe(1);
    expect(read[0]).toBeLessThan(2_000);
    await page
      .getByRole('gridcell', { name: /^long long/ })
      .first()
      .click();
    await page.keyboard.press('F2');
    const panel = page.getByRole('complementary', { name: 'Value of body' });
    await panel.getByText(`${longText.length.toLocaleString('en')} characters`).waitFor();
    expect(await panel.getByLabel('Value').inputValue()).toBe(longText);
    await expectAccessible(page);
  });

  it('changes a long value whole, and refuses to if any part of it changed meanwhile', async () => {
    const panel = page.getByRole('complementary', { name: 'Value of body' });
    await panel.getByLabel('Value').focus();
    await page.keyboard.press('Control+End');
    await page.keyboard.type(' and more');
    await button('Stage this value').click();
    await button('Review and apply').click();
    // Behind the part that the grid has read.
    await query(`update notes set body = body || 'X' where id = 1`);
    await button('Apply 1 change').click();
    await page.getByText('The change that failed').waitFor();
    await query(`update notes set body = left(body, -1) where id = 1`);
    await button('Apply 1 change').click();
    await page.getByText('1 change applied.').waitFor();
    expect(await query('select body, data from notes where id = 1')).toEqual([
      { body: `${longText} and more`, data: { text: longText } },
    ]);
  });

  it('duplicates and deletes a row with long values', async () => {
    await page.getByRole('gridcell', { name: '1', exact: true }).first().click();
    await page.keyboard.press('Control+d');
    await page.getByText('1 unsaved change', { exact: true }).waitFor();
    await page.getByRole('gridcell', { name: '1', exact: true }).first().click();
    await page.keyboard.press('F2');
    await page.keyboard.press('Control+a');
    await page.keyboard.type('3');
    await page.keyboard.press('Enter');
    await page.getByRole('gridcell', { name: '1', exact: true }).first().click();
    await page.keyboard.press('Control+Delete');
    await page.getByText('2 unsaved changes').waitFor();
    await button('Review and apply').click();
    await button('Apply 2 changes').click();
    await page.getByText('2 changes applied.').waitFor();
    expect(await query('select id, body, data from notes order by id')).toEqual([
      { id: 2, body: 'short', data: {} },
      { id: 3, body: `${longText} and more`, data: { text: longText } },
    ]);
  });

  it('takes rows that begin alike, and rows without a key, for what they are', async () => {
    await query('create table twins (id int primary key, body text, padded char(700))');
    await query(
      "insert into twins select n, repeat('x', 600) || n, 'p' || n from generate_series(1, 2) as n",
    );
    await query('create view twin_view as select body from twins order by id');
    for (const place of ['twins', 'twin_view']) {
      await open(`tables/${place}`);
      await page.getByRole('gridcell', { name: /^xxxx/ }).first().click();
      const panel = page.getByRole('complementary', { name: 'Value of body' });
      await button('Show the whole value').click();
      const value = panel.getByLabel('Value');
      await expect.poll(() => value.inputValue()).toMatch(/^x+1$/);
      await page.getByRole('gridcell', { name: /^xxxx/ }).nth(1).click();
      await expect.poll(() => value.inputValue()).toMatch(/^x+2$/);
    }
  });

  it('changes a long value that the rows are sorted by', async () => {
    await open(`tables/twins?sort=${encodeURIComponent('["body","desc"]')}`);
    await page.getByRole('gridcell', { name: '2', exact: true }).first().click();
    await page.keyboard.press('Control+Delete');
    await page.getByText('1 unsaved change', { exact: true }).waitFor();
    await button('Review and apply').click();
    await button('Apply 1 change').click();
    await page.getByText('1 change applied.').waitFor();
    expect(await query('select id from twins')).toEqual([{ id: 1 }]);
  });

  it('reads on while the person turns the wheel, and does not jump back to the selected cell', async () => {
    await query('create table numbers as select i as id from generate_series(1, 2000) as i');
    await open('tables/numbers');
    const grid = page.getByRole('grid');
    await page.getByRole('gridcell', { name: '1', exact: true }).waitFor();
    await grid.hover();
    const top = () => grid.evaluate((element) => element.scrollTop);
    let last = 0;
    for (const loaded of ['400', '600', '800']) {
      for (
        let turns = 0;
        turns < 40 && !(await page.getByText(`${loaded} rows loaded`).isVisible());
        turns += 1
      ) {
        await page.mouse.wheel(0, 600);
        await page.waitForTimeout(50);
      }
      await page.getByText(/rows loaded/).waitFor();
      expect(await top()).toBeGreaterThan(last);
      last = await top();
    }
    expect(last).toBeGreaterThan(400 * 30);
  });

  it('broke no security policy, ran no stored script, and asked no other origin', () => {
    expect(visit.problems).toEqual([]);
  });
});

/** How many colours the chart has: an empty canvas has one. */
function colours(page: Page): Promise<number> {
  return page.locator('.plot canvas').evaluate((element) => {
    const canvas = element as HTMLCanvasElement;
    const { data } = canvas.getContext('2d')?.getImageData(0, 0, canvas.width, canvas.height) ?? { data: [] };
    const found = new Set<string>();
    for (let at = 0; at < data.length; at += 4) found.add(`${data[at]} ${data[at + 1]} ${data[at + 2]}`);
    return found.size;
  });
}

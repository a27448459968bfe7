// Views of data in real browsers: filters with alternatives, foreign keys of several columns, views that are part of the address, and
// statements that are cancelled or run as an end user.
import type { Page } from 'playwright-core';
import { beforeAll, expect, it } from 'vitest';
import { expectAccessible, fill, inBrowsers } from './browser.ts';
import { useConsoleService, useVisit } from './visit.ts';

let laterMs = 0;
const rowhouse = useConsoleService({ now: () => Date.now() + laterMs });

inBrowsers('views', (name) => {
  const slug = `views-${name}`;
  const visit = useVisit(name, rowhouse, slug);
  const { button, cell, dialog, menuItem, open, query, writeSql } = visit;
  let page: Page;
  const back = () => page.evaluate(() => history.back());
  const addFilter = async (opener: string, column: string, condition: string, value: string) => {
    await button(opener).click();
    await page.getByLabel('Column', { exact: true }).selectOption(column);
    await page.getByLabel('Condition', { exact: true }).selectOption({ label: condition });
    await fill(page.getByLabel('Value', { exact: true }), value);
    await button('Add filter').click();
  };
  const rows = () => page.getByRole('gridcell').and(page.locator('[aria-colindex="3"]')).allInnerTexts();

  beforeAll(async () => {
    await visit.createProject();
    for (const statement of [
      'create table teas (id int primary key, name text, price numeric)',
      `insert into teas values (1, 'Sencha', 4), (2, 'Assam, (strong)', 6), (3, 'Oolong', 9), (4, 'Mate', 2)`,
      'create table shelves (hall text, number int, label text, primary key (hall, number))',
      `insert into shelves values ('A', 1, 'Green teas'), ('A', 2, 'Black teas'), ('B', 1, 'Herbs')`,
      `create table boxes (id int primary key, hall text, number int, foreign key (hall, number) references shelves)`,
      `insert into boxes values (1, 'A', 1), (2, null, 1)`,
      'create table notes (id int primary key, owner text, body text)',
      `insert into notes values (1, 'ada@example.com', 'mine'), (2, 'bob@example.com', 'theirs')`,
      'alter table notes enable row level security',
      `create policy own on notes for select to authenticated using (owner = auth.jwt() ->> 'email')`,
    ])
      await query(statement);
    for (const email of ['ada@example.com', 'bob@example.com'])
      await visit.call('POST', '/auth/users', { email });
    await visit.signIn();
    page = visit.page;
  });

  it('filters by alternatives, beside further filters, and the address has them all', async () => {
    await open('tables/teas');
    await addFilter('Filter', 'name', '=', 'Assam, (strong)');
    await expect.poll(rows).toEqual(['Assam, (strong)']);
    await addFilter('Or: an alternative to the filter on name', 'price', '>', '8');
    await expect.poll(rows).toEqual(['Assam, (strong)', 'Oolong']);
    await page.getByText('or', { exact: true }).first().waitFor();
    await expectAccessible(page);
    await addFilter('Filter', 'id', 'in list', '1, 3');
    await expect.poll(rows).toEqual(['Oolong']);
    await addFilter('Or: an alternative to the filter on id', 'id', '=', '2');
    await expect.poll(rows).toEqual(['Assam, (strong)', 'Oolong']);
    await page.reload();
    await expect.poll(rows).toEqual(['Assam, (strong)', 'Oolong']);
    await button('Remove the filter on id').click();
    await button('Remove the filter on name or price').click();
    await expect.poll(async () => (await rows()).length).toBe(4);
    await back();
    await expect.poll(rows).toEqual(['Assam, (strong)', 'Oolong']);
  });

  it('shows the row behind a foreign key of two columns, and sets both columns at once', async () => {
    await open('tables/boxes');
    await cell('A').first().click();
    await page.keyboard.press('Space');
    const panel = page.getByRole('complementary', { name: 'Value of hall' });
    await panel.getByRole('definition').getByText('Green teas').waitFor();
    await expectAccessible(page);
    await fill(panel.getByLabel('Find in shelves'), 'herb');
    await panel.getByRole('button', { name: /B, 1\s*Herbs/ }).click();
    await panel.getByRole('definition').getByText('Herbs').waitFor();
    await page.getByText('1 unsaved change', { exact: true }).waitFor();
    // One step back undoes both.
    await button('Undo').click();
    await page.getByText('1 unsaved change', { exact: true }).waitFor({ state: 'detached' });
    await fill(panel.getByLabel('Find in shelves'), 'black');
    await panel.getByRole('button', { name: /A, 2\s*Black teas/ }).click();
    await button('Review and apply').click();
    await button('Apply 1 change').click();
    await page.getByText('1 change applied.').waitFor();
    expect(await query('select hall, number from boxes where id = 1')).toEqual([{ hall: 'A', number: 2 }]);
    await panel.getByRole('link', { name: 'Open' }).click();
    await cell('Black teas').waitFor();
    expect(await cell('Green teas').count()).toBe(0);
  });

  it('a foreign key with NULL in one of its columns refers to nothing, and can be set', async () => {
    await open('tables/boxes');
    await cell('1').last().click();
    await page.keyboard.press('Space');
    const panel = page.getByRole('complementary', { name: 'Value of number' });
    await panel.getByLabel('Find in shelves').waitFor();
    expect(await panel.getByRole('definition').count()).toBe(0);
    await panel.getByRole('button', { name: /B, 1/ }).click();
    await panel.getByRole('definition').getByText('Herbs').waitFor();
    await button('Discard').click();
  });

  it('the search of users is part of the address, and Back leads out of it', async () => {
    await open('users');
    await page.getByText('ada@example.com').waitFor();
    await fill(page.getByLabel('Search users'), 'bob');
    await page.getByText('ada@example.com').waitFor({ state: 'detached' });
    expect(new URL(page.url()).searchParams.get('search')).toBe('bob');
    await page.reload();
    await page.getByText('bob@example.com').waitFor();
    expect(await page.getByLabel('Search users').inputValue()).toBe('bob');
    expect(await page.getByText('ada@example.com').count()).toBe(0);
    await back();
    await page.getByText('ada@example.com').waitFor();
    expect(await page.getByLabel('Search users').inputValue()).toBe('');
  });

  it('the tab of the schema is part of the address', async () => {
    await open('schema');
    await page.getByRole('tab', { name: 'Policies' }).click();
    await page.getByText('own', { exact: true }).waitFor();
    expect(page.url()).toContain('?tab=policies');
    await page.reload();
    await page.getByRole('tab', { name: 'Policies', selected: true }).waitFor();
    await back();
    await page.getByRole('tab', { name: 'Tables', selected: true }).waitFor();
    await open('schema?tab=nothing');
    await page.getByRole('tab', { name: 'Tables', selected: true }).waitFor();
  });

  it('cancels a statement, which then stops in PostgreSQL, too', async () => {
    const running = async () =>
      (
        await query(`select count(*)::int as n from pg_stat_activity
                     where state = 'active' and query like '%pg_sleep(597)%' and pid <> pg_backend_pid()`)
      )[0].n;
    await open('sql');
    await writeSql('select pg_sleep(597)');
    await button('Run').click();
    await expect.poll(running, { timeout: 20_000 }).toBe(1);
    await button('Cancel').click();
    await page.getByRole('heading', { name: 'Cancelled' }).or(page.getByText('Cancelled')).first().waitFor();
    await expectAccessible(page);
    await expect.poll(running, { timeout: 20_000 }).toBe(0);
    await writeSql('select 6 * 7 as answer');
    await button('Run').click();
    await cell('42').waitFor();
  });

  it('acts as a user in tables and in SQL, and stops', async () => {
    await open('users');
    await button('Actions for ada@example.com').click();
    await menuItem('Act as this user').click();
    await page.getByText('Rows and SQL run as').waitFor();
    await page.getByRole('link', { name: /^notes/ }).click();
    await cell('mine').waitFor();
    expect(await cell('theirs').count()).toBe(0);
    await visit.link('SQL').click();
    const bodies = async () => {
      await writeSql('select body from notes order by id');
      await button('Run').click();
      await cell('mine').waitFor();
      return page.getByRole('gridcell').allInnerTexts();
    };
    expect(await bodies()).toEqual(['mine']);
    // PostgreSQL itself refuses an action that the user is not allowed to do.
    await writeSql('drop table notes');
    await button('Run').click();
    await page
      .getByText(/must be owner of table notes|not allowed/)
      .first()
      .waitFor();
    await button('Stop').click();
    await page.getByText('Rows and SQL run as').waitFor({ state: 'detached' });
    expect(await bodies()).toEqual(['mine', 'theirs']);
  });

  it('asks for the key before it shows a secret, and sends the request again', async () => {
    laterMs += 6 * 60_000;
    await open('settings');
    await button('Show it').click();
    const asked = dialog('Confirm that it is you');
    await asked.getByLabel('API key').waitFor();
    await expectAccessible(page);
    expect(await asked.getByRole('button', { name: 'Use a passkey' }).count()).toBe(0);
    await asked.getByRole('button', { name: 'Cancel' }).click();
    await page.getByRole('alert').waitFor();
    await button('Show it').click();
    await fill(asked.getByLabel('API key'), `rh_acct_${'0'.repeat(43)}`);
    await asked.getByRole('button', { name: 'Confirm' }).click();
    await asked.getByRole('alert').waitFor();
    await fill(asked.getByLabel('API key'), rowhouse.accountKey);
    await asked.getByRole('button', { name: 'Confirm' }).click();
    await page.getByText(/^postgres:\/\//).waitFor();
  });

  it('broke no security policy, and asked no other origin', () => {
    expect(visit.problems).toEqual([]);
  });
});

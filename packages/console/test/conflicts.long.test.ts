// Staged edits of rows that somebody else changes meanwhile, in real browsers: nothing is overwritten unseen, and there is a way on.
import type { Page } from 'playwright-core';
import { beforeAll, beforeEach, expect, it } from 'vitest';
import { expectAccessible, inBrowsers } from './browser.ts';
import { useConsoleService, useVisit } from './visit.ts';

const rowhouse = useConsoleService();

inBrowsers('conflicts', (name) => {
  const slug = `conflicts-${name}`;
  const visit = useVisit(name, rowhouse, slug);
  const { button, cell, dialog, open, query } = visit;
  let page: Page;
  const review = () => dialog('Review the changes');
  const applied = (text: string) => page.getByText(text).waitFor();
  const decide = (label: string) =>
    review().getByRole('button', { name: label, exact: true }).first().click();
  const edit = async (text: string, next: string) => {
    await cell(text).click();
    await page.keyboard.press('Enter');
    await page.locator('.grid-editor').waitFor();
    await page.keyboard.press('Control+a');
    await page.keyboard.type(next);
    await page.keyboard.press('Enter');
    await cell(next).waitFor();
  };
  const apply = async (label: string) => {
    if (!(await review().isVisible())) await button('Review and apply').click();
    await review().getByRole('button', { name: label, exact: true }).click();
  };
  const conflicts = () => review().getByRole('region', { name: 'Conflicts' });
  const teas = () => query('select id, name, price::text from teas order by id');

  beforeAll(async () => {
    await visit.createProject();
    await query(
      'create table teas (id int primary key, name text, price numeric, twice numeric generated always as (price * 2) stored)',
    );
    await query('create table facts (id int primary key, data jsonb)');
    await query('create table fixed (id int primary key, name text)');
    await query(`insert into fixed values (1, 'Stone')`);
    await query(`create function refuse() returns trigger language plpgsql as 'begin return null; end'`);
    await query('create trigger refuse before update on fixed for each row execute function refuse()');
    await visit.signIn();
    page = visit.page;
  });
  beforeEach(async () => {
    await query('truncate teas');
    await query(`insert into teas values (1, 'Sencha', 4), (2, 'Assam', 5), (3, 'Oolong', 6)`);
    await open('tables/teas');
    await cell('Oolong').waitFor();
  });

  it('shows what was seen, what it is now and what is wanted; mine overwrites just that', async () => {
    await edit('Sencha', 'Gyokuro');
    await edit('Assam', 'Darjeeling');
    await query(`update teas set name = 'Matcha' where id = 1`);
    await apply('Apply 2 changes');
    await conflicts().getByText('id = 1').waitFor();
    for (const text of ['Sencha', 'Matcha', 'Gyokuro'])
      await conflicts().getByRole('cell', { name: text, exact: true }).waitFor();
    expect(await conflicts().getByText('id = 2').count()).toBe(0);
    expect(await review().getByRole('button', { name: 'Apply 2 changes' }).isDisabled()).toBe(true);
    expect((await teas())[1].name).toBe('Assam');
    await expectAccessible(page);
    await page.keyboard.press('Escape');
    await page.getByText('1 conflict').waitFor();
    expect(await page.locator('.grid-row-conflict').count()).toBe(1);
    await button('Review and apply').click();
    await decide('Keep mine');
    await review().getByText(`and "name" = 'Matcha'::text`).waitFor();
    await apply('Apply 2 changes');
    await applied('2 changes applied.');
    expect((await teas()).map((row: { name: string }) => row.name)).toEqual([
      'Gyokuro',
      'Darjeeling',
      'Oolong',
    ]);
    expect(await page.locator('.grid-row-conflict').count()).toBe(0);
  });

  it('a third change after "mine" is found again', async () => {
    await edit('Sencha', 'Gyokuro');
    await query(`update teas set name = 'Matcha' where id = 1`);
    await apply('Apply 1 change');
    await conflicts().getByRole('cell', { name: 'Matcha' }).waitFor();
    await query(`update teas set name = 'Kukicha' where id = 1`);
    await decide('Keep mine');
    await apply('Apply 1 change');
    await conflicts().getByRole('cell', { name: 'Kukicha' }).waitFor();
    await decide('Keep mine');
    await apply('Apply 1 change');
    await applied('1 change applied.');
    expect((await teas())[0].name).toBe('Gyokuro');
  });

  it('theirs keeps my other changes of the row; drop keeps none', async () => {
    for (const [choice, label, wanted] of [
      ['Take theirs', 'Apply 2 changes', { id: 1, name: 'Matcha', price: '9' }],
      ['Drop this row', 'Apply 1 change', { id: 1, name: 'Matcha', price: '4' }],
    ] as const) {
      await query(`update teas set name = 'Sencha', price = 4 where id = 1`);
      await query(`update teas set name = 'Assam' where id = 2`);
      await page.reload();
      await edit('Sencha', 'Gyokuro');
      await edit('4', '9');
      await edit('Assam', 'Darjeeling');
      await query(`update teas set name = 'Matcha' where id = 1`);
      await apply('Apply 2 changes');
      await conflicts().waitFor();
      await decide(choice);
      await conflicts().waitFor({ state: 'detached' });
      await apply(label);
      await applied(label === 'Apply 1 change' ? '1 change applied.' : '2 changes applied.');
      expect((await teas()).slice(0, 2)).toEqual([wanted, { id: 2, name: 'Darjeeling', price: '5' }]);
    }
  });

  it('Refresh compares the staged edits with the rows as they are now', async () => {
    await edit('Sencha', 'Gyokuro');
    await edit('Assam', 'Darjeeling');
    await query(`update teas set name = 'Matcha' where id = 1`);
    await query('update teas set price = 50 where id = 2');
    await button('Refresh').click();
    await page.getByText('1 conflict').waitFor();
    await button('Review and apply').click();
    await conflicts().getByRole('cell', { name: 'Matcha' }).waitFor();
    await decide('Keep mine');
    await apply('Apply 2 changes');
    await applied('2 changes applied.');
    expect((await teas()).slice(0, 2)).toEqual([
      { id: 1, name: 'Gyokuro', price: '4' },
      { id: 2, name: 'Darjeeling', price: '50' },
    ]);
  });

  it('a row that is gone is inserted again or dropped; a deletion of a changed row is decided, too', async () => {
    await edit('Sencha', 'Gyokuro');
    await edit('Assam', 'Darjeeling');
    await cell('Oolong').click();
    await button('Delete the selected rows').click();
    await query('delete from teas where id in (1, 2)');
    await query('update teas set price = 60 where id = 3');
    await apply('Apply 3 changes');
    await conflicts().getByText('id = 3').waitFor();
    expect(await conflicts().getByRole('group').count()).toBe(3);
    const of = (id: number) => conflicts().getByRole('group', { name: `id = ${id}` });
    await of(1).getByRole('button', { name: 'Insert it again' }).click();
    await of(2).getByRole('button', { name: 'Drop this row' }).click();
    await of(3).getByRole('button', { name: 'Keep mine' }).click();
    await apply('Apply 2 changes');
    await applied('2 changes applied.');
    expect(await teas()).toEqual([{ id: 1, name: 'Gyokuro', price: '4' }]);
  });

  it('a value that the page cannot hold exactly is no dead end', async () => {
    await query('truncate facts');
    await query(`insert into facts values (1, '{"n": 12345678901234567890}')`);
    await open('tables/facts');
    await cell('1').first().click();
    await button('Delete the selected rows').click();
    await apply('Apply 1 change');
    await conflicts().waitFor();
    await decide('Keep mine');
    await query(`update facts set data = '{"n": 12345678901234567891}'`);
    await apply('Apply 1 change');
    await conflicts().waitFor();
    await decide('Keep mine');
    await apply('Apply 1 change');
    await applied('1 change applied.');
    expect(await query('select count(*)::int as n from facts')).toEqual([{ n: 0 }]);
  });

  it('a row that a trigger keeps as it is can be dropped', async () => {
    await open('tables/fixed');
    await edit('Stone', 'Water');
    await apply('Apply 1 change');
    await conflicts().getByText('A policy or a trigger may prevent it.').waitFor();
    await decide('Drop this row');
    await page.getByText('1 unsaved change', { exact: true }).waitFor({ state: 'detached' });
  });

  it('broke no security policy, and asked no other origin', () => {
    expect(visit.problems).toEqual([]);
  });
});

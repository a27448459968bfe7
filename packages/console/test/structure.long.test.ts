// The structure of tables by form in a real browser: constraints are added; indexes, constraints and policies are dropped after
// the person has agreed to the very object.
import type { Page } from 'playwright-core';
import { beforeAll, expect, it } from 'vitest';
import { fill, inBrowsers } from './browser.ts';
import { expectLooks } from './looks.ts';
import { useConsoleService, useVisit } from './visit.ts';

const rowhouse = useConsoleService();
const hostile = `"><img src=x onerror=alert(1)> "quoted"`;

inBrowsers('the structure of a table', (name) => {
  const visit = useVisit(name, rowhouse, `structure-${name}`);
  const { button, dialog, open, query } = visit;
  let page: Page;
  const names = async (sql: string) => (await query(sql)).map((row: { name: string }) => row.name);
  const constraints = () =>
    names(`select conname as name from pg_constraint
           where conrelid = 'shop.teas'::regclass and contype <> 'n' order by 1`);
  const indexes = () =>
    names(
      `select indexname as name from pg_indexes where schemaname = 'shop' and tablename = 'teas' order by 1`,
    );
  const change = async (label: string) => {
    await open('tables/shop.teas');
    await button('Structure').click();
    await dialog().getByLabel('Change').selectOption({ label });
  };
  const options = (label: string) =>
    dialog().getByLabel(label, { exact: true }).locator('option').allTextContents();
  const apply = (label: string) => dialog().getByRole('button', { name: label, exact: true });

  beforeAll(async () => {
    await visit.createProject();
    for (const sql of [
      'create schema shop',
      'create table shop.teas (id int primary key, name text not null, price numeric)',
      'create index teas_by_name on shop.teas (name)',
      `create index "${hostile.replaceAll('"', '""')}" on shop.teas (price)`,
      'create table shop.cups (id int primary key, tea int references shop.teas)',
      'create policy "own teas" on shop.teas for select to authenticated using (true)',
      'insert into shop.teas values (1, $$Sencha$$, 4), (2, $$Sencha$$, 5)',
    ])
      await query(sql);
    await visit.signIn();
    page = visit.page;
  });

  it('adds a check with a name, and shows its SQL first', async () => {
    await change('Add a check');
    await fill(dialog().getByLabel('Condition'), 'price >= 0');
    await fill(dialog().getByLabel('Name'), 'not negative');
    await dialog()
      .getByText('alter table "shop"."teas" add constraint "not negative" check (price >= 0);')
      .waitFor();
    await expectLooks(page, name, 'structure-check');
    await apply('Add a check').click();
    await dialog().waitFor({ state: 'detached' });
    expect(await constraints()).toEqual(['not negative', 'teas_pkey']);
  });

  it('adds a unique constraint; rows that are not unique are named', async () => {
    await change('Add a unique constraint');
    expect(await apply('Add a unique constraint').isDisabled()).toBe(true);
    await dialog().getByLabel('name', { exact: true }).check();
    await dialog().getByText('alter table "shop"."teas" add unique ("name");').waitFor();
    await apply('Add a unique constraint').click();
    await dialog().getByRole('alert').getByText('Key (name)=(Sencha) is duplicated.').waitFor();
    await dialog().getByLabel('id', { exact: true }).check();
    await dialog().getByText('add unique ("name", "id");').waitFor();
    await apply('Add a unique constraint').click();
    await dialog().waitFor({ state: 'detached' });
    expect(await constraints()).toEqual(['not negative', 'teas_name_id_key', 'teas_pkey']);
  });

  it('drops an index only after the person has agreed to this one', async () => {
    await change('Drop an index');
    await dialog().getByText('Choose …').waitFor({ state: 'attached' });
    // Those of constraints are dropped with them.
    expect((await options('Index')).sort()).toEqual([hostile, 'Choose …', 'teas_by_name'].sort());
    await dialog().getByLabel('Index', { exact: true }).selectOption(hostile);
    await dialog().getByLabel(`Drop the index “${hostile}” of shop.teas`).check();
    expect(await apply('Drop an index').isEnabled()).toBe(true);
    await dialog().getByLabel('Index', { exact: true }).selectOption('teas_by_name');
    expect(await apply('Drop an index').isDisabled()).toBe(true);
    await dialog().getByText('drop index "shop"."teas_by_name";').waitFor();
    await dialog().getByText('CREATE INDEX teas_by_name ON shop.teas').waitFor();
    await dialog().getByLabel('Drop the index “teas_by_name” of shop.teas').check();
    await expectLooks(page, name, 'structure-drop-index');
    await apply('Drop an index').click();
    await dialog().waitFor({ state: 'detached' });
    expect(await indexes()).toEqual([hostile, 'teas_name_id_key', 'teas_pkey']);
  });

  it('drops a constraint; one that others need is refused with the reason', async () => {
    await change('Drop a constraint');
    await dialog().getByLabel('Constraint', { exact: true }).selectOption('teas_pkey');
    await dialog().getByLabel('Drop the constraint “teas_pkey” of shop.teas').check();
    await apply('Drop a constraint').click();
    await dialog()
      .getByRole('alert')
      .getByText(/cups_tea_fkey/)
      .first()
      .waitFor();
    await dialog().getByLabel('Constraint', { exact: true }).selectOption('not negative');
    await dialog().getByText('alter table "shop"."teas" drop constraint "not negative";').waitFor();
    await dialog().getByLabel('Drop the constraint “not negative” of shop.teas').check();
    await apply('Drop a constraint').click();
    await dialog().waitFor({ state: 'detached' });
    expect(await constraints()).toEqual(['teas_name_id_key', 'teas_pkey']);
  });

  it('drops an index and a policy on the Schema screen, by keyboard', async () => {
    await open('schema');
    await page.getByRole('tab', { name: 'Indexes' }).click();
    await button(`Drop ${hostile}`).waitFor();
    expect(await button('Drop teas_pkey').count()).toBe(0);
    await expectLooks(page, name, 'schema-indexes');
    await button(`Drop ${hostile}`).focus();
    await page.keyboard.press('Enter');
    const asked = dialog(`Drop ${hostile}`);
    await asked.getByLabel(`Drop the index “${hostile}” of shop.teas`).focus();
    await page.keyboard.press('Space');
    await expectLooks(page, name, 'schema-drop');
    await apply('Drop the index').focus();
    await page.keyboard.press('Enter');
    await asked.waitFor({ state: 'detached' });
    expect(await indexes()).toEqual(['teas_name_id_key', 'teas_pkey']);
    await page.getByRole('tab', { name: 'Policies' }).click();
    await button('Drop own teas').click();
    await dialog().getByText('drop policy "own teas" on "shop"."teas";').waitFor();
    await dialog().getByLabel('Drop the policy “own teas” of shop.teas').check();
    await apply('Drop the policy').click();
    await page.getByText('No policies').waitFor();
    expect(await names(`select policyname as name from pg_policies`)).toEqual([]);
  });

  it('asks before a table is dropped, and names it', async () => {
    await query('create table shop.old (id int primary key)');
    await open('tables/shop.old');
    await button('Structure').click();
    await dialog().getByLabel('Change').selectOption({ label: 'Drop the table' });
    expect(await apply('Drop the table').isDisabled()).toBe(true);
    await dialog().getByLabel('Drop the table “shop.old” with all of its rows').check();
    await apply('Drop the table').click();
    await dialog().waitFor({ state: 'detached' });
    expect(await query(`select to_regclass('shop.old') as oid`)).toEqual([{ oid: null }]);
  });

  it('broke no security policy, and asked no other origin', () => {
    expect(visit.problems).toEqual([]);
  });
});

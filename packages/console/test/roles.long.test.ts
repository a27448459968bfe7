// What the console offers to a viewer, in real browsers: everything that can be read, and nothing that the service would refuse.
import type { Page } from 'playwright-core';
import { beforeAll, expect, it } from 'vitest';
import { api } from '../../server/test/support/helpers.ts';
import { inBrowsers, signIn } from './browser.ts';
import { expectLooks } from './looks.ts';
import { useConsoleService, useVisit } from './visit.ts';

const rowhouse = useConsoleService();

inBrowsers('a viewer', (name) => {
  const visit = useVisit(name, rowhouse, `viewed-${name}`);
  const { button, cell, editor, link, open, writeSql } = visit;
  const refused: string[] = [];
  let page: Page;

  beforeAll(async () => {
    await visit.createProject();
    await visit.query("create table teas as select 1 as id, 'Sencha' as name");
    await visit.query('alter table teas add primary key (id)');
    const body = { name: `viewer ${name}`, role: 'viewer' };
    const { body: issued } = await rowhouse.call('POST', `${api}/account/keys`, { body });
    page = visit.page;
    page.on('response', (answer) => {
      if (answer.status() === 403) refused.push(`${answer.request().method()} ${answer.url()}`);
    });
    await signIn(page, rowhouse.origin, issued.api_key);
    await page.getByRole('heading', { name: 'Projects' }).waitFor();
  });

  it('creates no project, and opens neither keys nor logs', async () => {
    await link(`viewed-${name}`).click();
    await link('Settings').waitFor();
    for (const screen of ['Keys', 'Logs']) expect(await link(screen).count()).toBe(0);
    await page.goto(`${rowhouse.origin}/console/projects?new`);
    await link(`viewed-${name}`).waitFor();
    for (const label of ['New project', 'Import']) expect(await button(label).count()).toBe(0);
    expect(await visit.dialog().count()).toBe(0);
  });

  it('reads rows, and edits nothing', async () => {
    await open('tables/teas');
    await cell('Sencha').waitFor();
    await page.getByText('Read only: your role is viewer').waitFor();
    for (const label of ['Insert row', 'Import', 'Structure', 'New table'])
      expect(await button(label).count(), label).toBe(0);
    await expectLooks(page, name, 'viewer-table');
  });

  it('sees users, usage, settings and the server without their actions', async () => {
    await open('users');
    await page.getByText('No users yet').waitFor();
    expect(await button('New user').count()).toBe(0);
    await open('usage');
    await page.getByRole('heading', { name: 'Size over time' }).waitFor();
    expect(await button('Compact').count()).toBe(0);
    await open('settings');
    await page.getByText('Your role is viewer.').waitFor();
    for (const label of ['Save', 'New branch', 'Delete project']) expect(await button(label).count()).toBe(0);
    await expectLooks(page, name, 'viewer-settings');
    await page.goto(`${rowhouse.origin}/console/server`);
    await page.getByText('ready', { exact: true }).first().waitFor();
    expect(await button('Add a server').count()).toBe(0);
  });

  it('runs SQL that reads, and signs out without a question', async () => {
    await open('sql');
    await editor().waitFor();
    await writeSql('select name from teas');
    await button('Run').click();
    await cell('Sencha').waitFor();
    expect(await button('Save').count()).toBe(0);
    await visit.signOut();
  });

  it('was offered nothing that the service refused', () => {
    expect(refused).toEqual([]);
    expect(visit.problems).toEqual([]);
  });
});

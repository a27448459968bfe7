// Actions with consequences, in a real browser: keys, bans, the reset and the promotion of a branch.
import type { Page } from 'playwright-core';
import { beforeAll, expect, it } from 'vitest';
import { soon, until } from '../../server/test/support/helpers.ts';
import { expectAccessible, fill, inBrowsers } from './browser.ts';
import { useConsoleService, useVisit } from './visit.ts';

const rowhouse = useConsoleService();

inBrowsers('actions in the console', (name) => {
  const slug = `actions-${name}`;
  const visit = useVisit(name, rowhouse, slug);
  const { button, call, dialog, link, menuItem, open, query } = visit;
  let page: Page;
  let apiKey = '';
  const callWith = (key: string) =>
    rowhouse.call('GET', `/projects/${slug}/tables/teas?select=name`, { key });
  const queryIn = async (project: string, sql: string) => {
    const { status, body } = await rowhouse.call('POST', `/projects/${project}/query`, {
      body: { query: sql },
    });
    expect(status, JSON.stringify(body)).toBe(200);
    return body.rows;
  };

  beforeAll(async () => {
    await visit.createProject();
    await query("create table teas as select 'Sencha' as name");
    await visit.signIn();
    page = visit.page;
  });

  it('creates a key with the chosen scopes, and shows it once', async () => {
    await open('keys');
    await button('New key').click();
    await fill(dialog('New key').getByLabel('Name'), 'Nightly report');
    await dialog()
      .getByRole('checkbox', { name: /^query:read/ })
      .check();
    await fill(dialog().getByLabel('Only these tables'), 'teas, missing');
    await expectAccessible(page);
    await button('Create key').click();
    await dialog().getByRole('alert').getByText('tables').first().waitFor();
    await fill(dialog().getByLabel('Only these tables'), '');
    await button('Create key').click();
    const shown = dialog('The new key').getByText(/^rh_proj_\w+$/);
    apiKey = (await shown.innerText()).trim();
    await expectAccessible(page);
    expect((await callWith(apiKey)).body.rows).toEqual([{ name: 'Sencha' }]);
    const { keys } = await call('GET', '/keys');
    expect(keys.find((key: { name: string }) => key.name === 'Nightly report').scopes.toSorted()).toEqual([
      'query:read',
      'tables:read',
    ]);
    await page.keyboard.press('Escape');
    await page.keyboard.press('Escape');
    await page.mouse.click(5, 5);
    expect((await shown.innerText()).trim()).toBe(apiKey);
    await button('Done').click();
    await shown.waitFor({ state: 'detached' });
    await page.reload();
    await page.getByRole('cell', { name: /Nightly report/ }).waitFor();
    expect(await page.content()).not.toContain(apiKey);
    const stored = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }]));
    expect(stored).not.toContain(apiKey);
  });

  it('revokes a key after a question, and it stops working', async () => {
    const row = page.getByRole('row').filter({ hasText: 'Nightly report' });
    await row.getByRole('button', { name: 'Revoke' }).click();
    await expectAccessible(page);
    await button('Cancel').click();
    expect((await callWith(apiKey)).status).toBe(200);
    await row.getByRole('button', { name: 'Revoke' }).click();
    await dialog('Revoke Nightly report').getByRole('button', { name: 'Revoke' }).click();
    await page.getByText('The key is revoked.').waitFor();
    await row.getByText('revoked', { exact: true }).waitFor();
    await until('the key is refused', async () => (await callWith(apiKey)).status === 401, soon);
    expect(await row.getByRole('button', { name: 'Revoke' }).count()).toBe(0);
  });

  it('rotates the project key, and both keys work', async () => {
    await button('Rotate the project key').click();
    await dialog('Rotate the project key').getByRole('button', { name: 'Rotate', exact: true }).click();
    const shown = dialog('The new key').getByText(/^rh_proj_\w+$/);
    const rotated = (await shown.innerText()).trim();
    expect((await callWith(rotated)).status).toBe(200);
    await button('Done').click();
    await page.getByText('rotated', { exact: true }).waitFor();
    await expectAccessible(page);
  });

  it('bans a user, who cannot sign in until the ban is lifted', async () => {
    const credentials = { email: 'ada@example.com', password: 'correct horse battery' };
    await call('POST', '/auth/signup', credentials);
    const signIn = async () =>
      (await rowhouse.call('POST', `/projects/${slug}/auth/signin`, { body: credentials })).status;
    await open('users');
    await button('Actions for ada@example.com').click();
    await menuItem('Ban').click();
    const row = page.getByRole('row').filter({ hasText: 'ada@example.com' });
    await row.getByText('banned').waitFor();
    expect(await signIn()).toBe(403);
    await button('Actions for ada@example.com').click();
    expect(await menuItem('Act as this user').isDisabled()).toBe(true);
    await expectAccessible(page);
    await menuItem('Lift the ban').click();
    await row.getByText('banned').waitFor({ state: 'detached' });
    expect(await signIn()).toBe(200);
  });

  it('resets a branch to the state of its parent, after its slug was typed', async () => {
    await open('settings');
    await button('New branch').click();
    await fill(dialog('New branch').getByLabel('Name'), `Branch ${name}`);
    await button('Create branch').click();
    await dialog(`Branch ${name} is created`).waitFor();
    await button('Close').click();
    await link(`Branch ${name}`).click();
    await page.getByRole('link', { name: /teas/ }).waitFor();
    const branch = new URL(page.url()).pathname.split('/')[3] ?? '';
    await queryIn(branch, "insert into teas values ('Mate')");
    await link('Settings').click();
    await button('Reset').click();
    const question = dialog(`Reset Branch ${name}`);
    const reset = question.getByRole('button', { name: 'Reset', exact: true });
    expect(await reset.isDisabled()).toBe(true);
    await expectAccessible(page);
    await fill(question.getByLabel(`Type ${branch} to confirm`), branch);
    await reset.click();
    await page.getByText(`The branch has the present state of ${slug}.`).waitFor();
    expect(await queryIn(branch, 'select name from teas')).toEqual([{ name: 'Sencha' }]);
  });

  it('promotes a branch: its parent has its data, and keeps its keys', async () => {
    const branch = new URL(page.url()).pathname.split('/')[3] ?? '';
    const { api_key: key } = await call('POST', '/keys', { name: 'Website', scopes: ['tables:read'] });
    await queryIn(branch, "insert into teas values ('Rooibos')");
    await button('Promote').click();
    const question = dialog(`Promote Branch ${name}`);
    await fill(question.getByLabel(`Type ${slug} to confirm`), slug);
    await expectAccessible(page);
    await question.getByRole('button', { name: 'Promote', exact: true }).click();
    await page.getByText(`${slug} has the state of the branch.`).waitFor();
    expect(new URL(page.url()).pathname).toBe(`/console/projects/${slug}/tables`);
    expect((await callWith(key)).body.rows).toEqual([{ name: 'Sencha' }, { name: 'Rooibos' }]);
  });

  it('broke no security policy, and asked no other origin', () => {
    expect(visit.problems).toEqual([]);
  });
});

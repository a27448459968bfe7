// More projects than a page has, in a real browser: further pages, and a search over all of them.
import type { Page } from 'playwright-core';
import { beforeAll, expect, it } from 'vitest';
import { sql } from '../../server/src/postgres/sql.ts';
import type { TestService } from '../../server/test/support/helpers.ts';
import { fill, inBrowsers } from './browser.ts';
import { expectLooks } from './looks.ts';
import { useConsoleService, useVisit } from './visit.ts';

const failure = { success: false, error: { code: 'internal', message: 'It failed for a test.' } };
const count = 1_250;
// Without the background work, which would look for their databases.
const rowhouse = useConsoleService({ background: false }, addProjects);

/** Only their rows: creating the databases would take minutes. They are older than others. */
async function addProjects({ project, service }: TestService): Promise<void> {
  const { slug } = await project('Tea shop');
  await service.deps.control.query(sql`
    insert into projects (id, account_id, server_id, slug, name, limit_mb, template, empty_bytes, size_bytes, created_at,
                          noted_at, noted_bytes, noted_full)
    select 'many' || n, account_id, server_id, 'many-' || n, 'Project 100% no. ' || n, 64, template, 0, 0,
           created_at - n * interval '1 minute', now(), 0, false
    from (select * from projects where slug = ${slug}) as one, generate_series(1, ${count}) as n`);
}

inBrowsers('many projects', (name) => {
  const visit = useVisit(name, rowhouse, 'tea-shop');
  const { button, link } = visit;
  let page: Page;
  const rows = () => page.getByRole('table', { name: 'Projects' }).getByRole('row');
  const search = () => page.getByLabel('Search projects');

  beforeAll(async () => {
    await visit.signIn();
    page = visit.page;
  });

  it('shows further pages, each project once', async () => {
    await link('Tea shop').waitFor();
    await page.getByText('the newest 100', { exact: true }).waitFor();
    expect(await rows().count()).toBe(1 + 100);
    await button('Show more').focus();
    await page.keyboard.press('Enter');
    await page.getByText('the newest 200', { exact: true }).waitFor();
    expect(await rows().count()).toBe(1 + 200);
    expect(await link('Project 100% no. 199').count()).toBe(1);
  });

  it('finds the oldest project by its name and by its slug', async () => {
    await fill(search(), `% NO. ${count}`);
    await link(`Project 100% no. ${count}`).waitFor();
    await page.getByText('1 project', { exact: true }).waitFor();
    await fill(search(), `y-${count}`);
    await page.getByText('1 project', { exact: true }).waitFor();
    await fill(search(), 'no. 124');
    await page.getByText('11 projects', { exact: true }).waitFor();
    await expectLooks(page, name, 'projects-found');
    await fill(search(), '_');
    await page.getByText('No project matches').waitFor();
    await expectLooks(page, name, 'projects-none');
    await search().press('Control+a');
    await search().press('Delete');
    await page.getByText(/^the newest \d+$/).waitFor();
  });

  it('keeps the rows and the search field when a further page or a search fails', async () => {
    const fail = (isWanted: (url: URL) => boolean) =>
      page.route('**/projects?*', (route) =>
        isWanted(new URL(route.request().url()))
          ? route.fulfill({ status: 500, json: failure })
          : route.continue(),
      );
    await page.reload();
    await page.getByText('the newest 100', { exact: true }).waitFor();
    await fail((url) => url.searchParams.get('page') === '2');
    await button('Show more').click();
    await page.getByText(failure.error.message).waitFor();
    expect(await rows().count()).toBe(1 + 100);
    await expectLooks(page, name, 'projects-page-failed');
    await page.unrouteAll();
    await button('Try again').click();
    await page.getByText('the newest 200', { exact: true }).waitFor();
    await fail((url) => url.searchParams.has('search'));
    await fill(search(), 'tea');
    await page.getByText(failure.error.message).waitFor();
    await page.unrouteAll();
    await fill(search(), 'tea s');
    await page.getByText('1 project', { exact: true }).waitFor();
    await search().press('Control+a');
    await search().press('Delete');
    await page.getByText(/^the newest \d+$/).waitFor();
  });

  it('finds it in the palette and in the switcher, too', async () => {
    await page.keyboard.press('Control+k');
    await page.keyboard.type(`many-${count - 1}`);
    await page.getByRole('option', { name: new RegExp(`no. ${count - 1}`) }).waitFor();
    await page.keyboard.press('Escape');
    await link('Tea shop').click();
    await page.getByRole('button', { name: /^Tea shop/ }).click();
    await fill(page.getByLabel('Find a project'), `no. ${count}`);
    await link(`Project 100% no. ${count}`).waitFor();
  });

  it('broke no security policy, and asked no other origin', () => {
    expect(visit.problems).toEqual([]);
  });
});

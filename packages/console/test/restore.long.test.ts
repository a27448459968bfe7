// Snapshots and the restore of a project in its own place, in a real browser, on a service with backups.
import { beforeAll, expect, it } from 'vitest';
import { api, until } from '../../server/test/support/helpers.ts';
import { expectAccessible, fill, inBrowsers } from './browser.ts';
import { useStartedService, useVisit } from './visit.ts';

const hostile = '<img src=x onerror=alert(1)>';

inBrowsers('a restore in the console', (name) => {
  const slug = 'restored';
  const service = useStartedService();
  const visit = useVisit(name, service, slug);
  const { button, dialog, open, query } = visit;

  beforeAll(async () => {
    await visit.createProject();
    await query("create table teas as select 'Sencha' as name");
    const backups = async () => (await service.call('GET', `${api}/backups`)).body.backups;
    await until('there is a backup', async () => (await backups()).length > 0, 120_000);
    await visit.signIn();
  });

  it('takes a snapshot, and restores it in place after the slug was typed', async () => {
    const { page } = visit;
    await open('settings');
    await fill(page.getByLabel('Name of the snapshot'), hostile);
    await button('Take a snapshot').click();
    const row = page.getByRole('row').filter({ hasText: hostile });
    await row.getByText('restorable').waitFor();
    await expectAccessible(page);
    await query("update teas set name = 'Changed by mistake'");
    await row.getByRole('button', { name: 'Restore', exact: true }).click();
    const question = dialog(`Restore ${hostile}`);
    await question.getByLabel('Into').selectOption('in_place');
    const restore = question.getByRole('button', { name: 'Restore', exact: true });
    expect(await restore.isDisabled()).toBe(true);
    await expectAccessible(page);
    await fill(question.getByLabel(`Type ${slug} to confirm`), slug);
    await restore.click();
    await page.getByRole('dialog', { name: /^The restore (runs|is done)$/ }).waitFor();
    await expectAccessible(page);
    await dialog().getByText('done', { exact: true }).waitFor({ timeout: 120_000 });
    expect(await query('select name from teas')).toEqual([{ name: 'Sencha' }]);
  });

  it('keeps the state before as a deleted project, which can be brought back', async () => {
    const { page } = visit;
    await page.goto(`${service.origin}/console/projects?deleted`);
    const row = page.getByRole('row').filter({ hasText: slug });
    await row.getByRole('button', { name: 'Restore' }).click();
    await page.getByText(/ is back\.$/).waitFor();
    const { projects } = (await service.call('GET', '/projects')).body;
    const other = projects.find((project: { slug: string }) => project.slug !== slug);
    const { body } = await service.call('POST', `/projects/${other.slug}/query`, {
      body: { query: 'select name from teas' },
    });
    expect(body.rows).toEqual([{ name: 'Changed by mistake' }]);
  });

  it('deletes the snapshot', async () => {
    const { page } = visit;
    await open('settings');
    const row = page.getByRole('row').filter({ hasText: hostile });
    await row.getByRole('button', { name: 'Delete' }).click();
    await row.waitFor({ state: 'detached' });
    expect((await visit.call('GET', '/snapshots')).snapshots).toEqual([]);
    expect(visit.problems).toEqual([]);
  });
});

// What an operator does in a real browser, on a service that was started with backups: branches with all of their options,
// backups, verification, a restore drill, and servers.
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Embedded, startEmbedded } from '../../server/src/servers/embedded/embedded.ts';
import { api } from '../../server/test/support/helpers.ts';
import { fill, fillTime, inBrowsers } from './browser.ts';
import { expectLooks } from './looks.ts';
import { useStartedService, useVisit } from './visit.ts';

const jobMs = 120_000;

/** Another PostgreSQL, which is gone after the tests. */
function useSecondServer(): () => Embedded {
  const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-console-second-'));
  let second: Embedded;
  beforeAll(async () => {
    second = await startEmbedded({
      dataFolder: folder,
      masterKey: randomBytes(32),
      connections: 40,
      reserveBytes: 0,
      say: () => {},
      onEvent: () => {},
    });
  }, 120_000);
  afterAll(async () => {
    await second?.stop();
    rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  });
  return () => second;
}

inBrowsers('operations', (name) => {
  const slug = `tea-${name}`;
  const rowhouse = useStartedService();
  const second = useSecondServer();
  const visit = useVisit(name, rowhouse, slug);
  const { button, dialog, menuItem, open, query } = visit;
  let page: Page;
  const field = (label: string) => dialog().getByLabel(label, { exact: true });
  const press = (label: string) => dialog().getByRole('button', { name: label, exact: true }).click();
  const openServer = () => page.goto(`${rowhouse.origin}/console/server`);
  const listed = async () => (await rowhouse.call('GET', `${api}/servers`)).body.servers;
  const ended = async (kind: string) => {
    const status = page.getByRole('status').filter({ hasText: kind });
    await status.getByText('done', { exact: true }).waitFor({ timeout: jobMs });
  };

  beforeAll(async () => {
    await visit.createProject();
    await query('create table teas as select n as id from generate_series(1, 1000) as n');
    await visit.signIn();
    page = visit.page;
  });

  it('makes a live branch with a slug, a limit and an end', async () => {
    const expiresAt = Date.now() + 3 * 86_400_000;
    await open('settings');
    await button('New branch').click();
    await fill(field('Name'), 'Try');
    await field('State of').selectOption({ label: 'now, without a pause' });
    await fill(field('Slug'), `try-${name}`);
    await fill(field('Size limit'), '32');
    await fillTime(field('Deleted after'), expiresAt);
    await expectLooks(page, name, 'branch-form');
    await press('Create branch');
    await dialog('Try is created').waitFor({ timeout: jobMs });
    await expectLooks(page, name, 'branch-created');
    await dialog().getByText('done', { exact: true }).waitFor();
    const { project } = (await rowhouse.call('GET', `/projects/try-${name}`)).body;
    expect(project).toMatchObject({ name: 'Try', limit_mb: 32, parent: slug, status: 'ready' });
    expect(Math.abs(Date.parse(project.expires_at) - expiresAt)).toBeLessThan(1_000);
    await button('Close').click();
    await page.getByRole('table', { name: 'Branches' }).getByText('in 2 days').waitFor();
    await expectLooks(page, name, 'branches');
  });

  it('makes a copy; a slug that is taken and an end in the past are refused with the reason', async () => {
    await button('New branch').click();
    await fill(field('Name'), 'Copy');
    await fill(field('Slug'), slug);
    await press('Create branch');
    await dialog()
      .getByText(/slug_taken/)
      .waitFor();
    await field('Slug').press('Control+a');
    await field('Slug').press('Delete');
    await fillTime(field('Deleted after'), Date.now() - 60_000);
    await press('Create branch');
    await dialog()
      .getByText(/expires_at/)
      .waitFor();
    await fillTime(field('Deleted after'), Date.now() + 60 * 60_000);
    await press('Create branch');
    await page.getByText('Copy is created').waitFor();
    await button('Close').click();
    const { branches } = await visit.call('GET', '/branches');
    expect(
      branches.map((branch: { name: string; limit_mb: number }) => [branch.name, branch.limit_mb]),
    ).toEqual([
      ['Copy', 64],
      ['Try', 32],
    ]);
  });

  it('takes a backup, verifies all, and drills a restore', async () => {
    await openServer();
    await button('Back up now').click();
    await field('Kind').selectOption({ label: 'full: everything' });
    await expectLooks(page, name, 'backup-form');
    const before = (await rowhouse.call('GET', `${api}/backups`)).body.backups.length;
    await press('Start');
    await ended('backup');
    const { backups } = (await rowhouse.call('GET', `${api}/backups`)).body;
    expect([backups.length, backups.at(-1).kind]).toEqual([before + 1, 'full']);
    await button('Verify all backups').click();
    await press('Start');
    await ended('verify');
    await button('Restore drill').click();
    await fill(field('Project'), 'nothing-here');
    await press('Start');
    await dialog()
      .getByText(/project_not_found/)
      .waitFor();
    await fill(field('Project'), slug);
    await press('Start');
    await ended('drill');
    await page.getByText(new RegExp(`^${slug} was restored, and \\d+ tables? compared\\.$`)).waitFor();
    await expectLooks(page, name, 'server');
  });

  it('adds a server, drains it, and removes it; its address is shown nowhere', async () => {
    const { host, port, user, password, database } = second().address;
    const server = `db-${name}`;
    await openServer();
    await button('Add a server').click();
    await fill(field('Name'), server);
    await fill(field('Address'), `postgres://nobody:wrong@${host}:${port}/${database}`);
    await expectLooks(page, name, 'server-add');
    await press('Add server');
    await dialog().getByRole('alert').waitFor();
    await fill(
      field('Address'),
      `postgres://${user}:${encodeURIComponent(password)}@${host}:${port}/${database}`,
    );
    await fill(field('Labels'), 'eu, ssd');
    await fill(field('Room for projects'), '10000');
    await press('Add server');
    await page.getByText(`${server} takes new projects.`).waitFor({ timeout: 60_000 });
    expect((await listed()).at(-1)).toMatchObject({
      name: server,
      state: 'ready',
      labels: ['eu', 'ssd'],
      capacity_mb: 10_000,
    });
    expect(await page.content()).not.toContain(password);
    const moved = await rowhouse.call('POST', '/projects', { body: { name: `On ${server}`, server } });
    expect(moved.status).toBe(201);
    await button(`Actions for ${server}`).click();
    await menuItem('Remove').click();
    await fill(field(`Type ${server} to confirm`), server);
    await press('Remove server');
    await dialog()
      .getByText(/has 1 projects/)
      .waitFor();
    await expectLooks(page, name, 'server-remove');
    await press('Cancel');
    await button(`Actions for ${server}`).click();
    await menuItem('Drain').click();
    await dialog().getByLabel('Move its projects to other servers').check();
    await expectLooks(page, name, 'server-drain');
    await press('Drain');
    await dialog().getByText('done', { exact: true }).waitFor({ timeout: jobMs });
    await button('Close').click();
    await button(`Actions for ${server}`).click();
    await menuItem('Take projects again').click();
    await page.getByText(`${server} takes new projects again.`).waitFor();
    await button(`Actions for ${server}`).click();
    await menuItem('Remove').click();
    await fill(field(`Type ${server} to confirm`), server);
    await press('Remove server');
    await page.getByText(`${server} is removed.`).waitFor({ timeout: 60_000 });
    expect((await listed()).map((one: { name: string }) => one.name)).not.toContain(server);
    // The first one holds the control database.
    await button('Actions for embedded').click();
    expect(await menuItem('Remove').count()).toBe(0);
  });

  it('broke no security policy, and asked no other origin', () => {
    expect(visit.problems).toEqual([]);
  });
});

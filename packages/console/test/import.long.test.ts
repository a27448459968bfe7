// Imports of whole projects in a real browser: a dump that is sent in parts over a connection that breaks, a server, a job that is
// stopped, and what is refused.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { sql } from '../../server/src/postgres/sql.ts';
import { address, asAdmin } from '../../server/test/support/helpers.ts';
import { asksBeforeLeaving, fill, inBrowsers } from './browser.ts';
import { expectLooks } from './looks.ts';
import { useConsoleService, useVisit } from './visit.ts';

const rowhouse = useConsoleService({ imports: { allowPrivateHosts: true } });
const hostile = '<img src=x onerror=alert(1)>';
/** More than two parts. */
const rows = 18_000;
const dump = [
  'CREATE EXTENSION IF NOT EXISTS postgis;',
  `CREATE EXTENSION IF NOT EXISTS "${hostile}";`,
  'CREATE TABLE public.teas (id int PRIMARY KEY, note text);',
  'COPY public.teas (id, note) FROM stdin;',
  ...Array.from({ length: rows }, (_, n) => `${n}\t${'tea '.repeat(256)}`),
  '\\.',
  '',
].join('\n');
const failure = { success: false, error: { code: 'internal', message: 'It failed for a test.' } };
const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-dumps-'));
const database = `rowhouse_test_console_${process.pid}`;

beforeAll(async () => {
  await asAdmin((admin) => admin.query(sql`create database ${sql.id(database)}`));
  await asAdmin((admin) => admin.query(sql`create table cups as select generate_series(1, 3) as id`), {
    ...address(),
    database,
  });
});
afterAll(async () => {
  rmSync(folder, { recursive: true });
  await asAdmin((admin) => admin.query(sql`drop database ${sql.id(database)}`));
});

inBrowsers('an import', (name) => {
  const visit = useVisit(name, rowhouse, `import-${name}`);
  const { button, dialog, query } = visit;
  let page: Page;
  const submit = () => dialog().getByRole('button', { name: 'Import', exact: true });
  const openForm = async () => {
    await page.goto(`${rowhouse.origin}/console/projects`);
    await button('Import').click();
    await dialog('Import a project').waitFor();
  };
  /** By its path: a browser takes large files from a test slowly. */
  const choose = (file: string, text: string) => {
    const at = path.join(folder, file);
    writeFileSync(at, text);
    return dialog().getByLabel('File', { exact: true }).setInputFiles(at);
  };
  const uploads = async () => (await rowhouse.call('GET', '/api/dbaas/v2/uploads')).body.uploads;

  beforeAll(async () => {
    await visit.signIn();
    page = visit.page;
  });

  it('sends a dump in parts, goes on after the connection broke, and reports what was left out', async () => {
    const offsets: string[] = [];
    let isBroken = false;
    await page.route('**/uploads/*', async (route) => {
      const request = route.request();
      if (request.method() !== 'PATCH') return route.continue();
      const offset = request.headers()['upload-offset'] ?? '';
      offsets.push(offset);
      if (isBroken || offset === '0') return route.continue();
      isBroken = true;
      return route.abort();
    });
    await openForm();
    await expectLooks(page, name, 'import-form');
    await choose('Tea <b>shop.sql', dump);
    expect(await dialog().getByLabel('Name').inputValue()).toBe('Tea <b>shop');
    await fill(dialog().getByLabel('Name'), `Imported ${name}`);
    await fill(dialog().getByLabel('Slug'), `import-${name}`);
    await submit().click();
    await dialog(`Imported ${name} is imported, but not all of it`).waitFor({ timeout: 120_000 });
    await page.unrouteAll();
    const part = 8 * 1_048_576;
    expect(offsets).toEqual(['0', part, part, 2 * part].map(String));
    await dialog()
      .getByText(`Imported 1 table, ${rows.toLocaleString('en')} rows and 0 users.`)
      .waitFor();
    const left = dialog().getByRole('table', { name: 'Left out' });
    await left.getByText('extension "postgis" is not available').waitFor();
    await left.getByText(hostile).first().waitFor();
    await dialog()
      .getByText(/^rh_proj_/)
      .waitFor();
    await expectLooks(page, name, 'import-report');
    expect(await query('select count(*)::int as n, sum(length(note))::int as length from teas')).toEqual([
      { n: rows, length: rows * 1024 },
    ]);
    expect(await uploads()).toEqual([]);
    await button('Open the project').click();
    await page.getByRole('link', { name: /teas/ }).waitFor();
  });

  // With Firefox, Playwright cannot send a request itself: it has no access to the body.
  it.runIf(name === 'chromium')(
    'starts once when the answer is lost, and sends an upload that has expired again',
    async () => {
      const posted: (string | undefined)[] = [];
      await page.route('**/projects/import', async (route) => {
        posted.push(route.request().headers()['idempotency-key']);
        if (posted.length > 1) return route.continue();
        await route.fetch();
        return route.abort();
      });
      await openForm();
      await choose('lost.sql', 'create table cups (id int);\n');
      await fill(dialog().getByLabel('Name'), `Lost ${name}`);
      await submit().click();
      await dialog().getByText('The service cannot be reached.').waitFor();
      await submit().click();
      await dialog(`Lost ${name} is imported`).waitFor({ timeout: 60_000 });
      expect(posted).toHaveLength(2);
      expect(posted[0]).toBe(posted[1]);
      await page.unrouteAll();

      await page.route('**/uploads/*', (route) =>
        route.request().method() === 'PATCH'
          ? route.fulfill({ status: 500, json: failure })
          : route.continue(),
      );
      await openForm();
      await choose('expired.sql', 'create table cups (id int);\n');
      await fill(dialog().getByLabel('Name'), `Expired ${name}`);
      await submit().click();
      await dialog().getByText(failure.error.message).waitFor();
      const [{ id }] = await uploads();
      await rowhouse.call('DELETE', `/api/dbaas/v2/uploads/${id}`);
      await page.unrouteAll();
      await submit().click();
      await dialog(`Expired ${name} is imported`).waitFor({ timeout: 60_000 });
    },
  );

  it('stays open when the person chooses no file after all', async () => {
    await openForm();
    await dialog()
      .getByLabel('File', { exact: true })
      .evaluate((field) => field.dispatchEvent(new Event('cancel', { bubbles: true })));
    await page.evaluate(() => new Promise(requestAnimationFrame));
    expect(await dialog('Import a project').count()).toBe(1);
  });

  it('takes a file that is not a dump for what it is, and keeps the form', async () => {
    await openForm();
    await choose('photo.dump', `PGDMP${'\u0001'.repeat(200)}`);
    await submit().click();
    await dialog().getByRole('alert').first().waitFor();
    await dialog()
      .getByText(/invalid_dump/)
      .waitFor();
    await expectLooks(page, name, 'import-refused');
    await button('Cancel').click();
    await expect.poll(uploads).toEqual([]);
  });

  it('copies from a server, and shows the address to nobody', async () => {
    const { host, port, user, password } = address();
    await openForm();
    await dialog().getByLabel('From').selectOption({ label: 'a PostgreSQL server' });
    const field = dialog().getByLabel('Address');
    expect(await field.getAttribute('type')).toBe('password');
    const url = `postgres://${encodeURIComponent(user)}:${encodeURIComponent(password)}@${host}:${port}/${database}?sslmode=disable`;
    await fill(field, url);
    await fill(dialog().getByLabel('Name'), 'Copied');
    await fill(dialog().getByLabel('Slug'), `copied-${name}`);
    await expectLooks(page, name, 'import-server');
    await submit().click();
    await dialog('Copied is imported').waitFor({ timeout: 60_000 });
    await dialog().getByText('Imported 1 table, 3 rows and 0 users. Nothing was left out.').waitFor();
    expect(await page.content()).not.toContain(database);
  });

  it('stops an import that runs; the project is gone', async () => {
    const slug = `stopped-${name}`;
    await openForm();
    await choose('slow.sql', 'create table t (id int);\nselect pg_sleep(300);\n');
    await fill(dialog().getByLabel('Name'), slug);
    await submit().click();
    await dialog(`Import of ${slug}`).waitFor();
    await expectLooks(page, name, 'import-running');
    await button(`Stop the import of ${slug}`).click();
    const asked = dialog(`Stop the import of ${slug}`);
    await expectLooks(page, name, 'stop-job');
    await page.keyboard.press('Escape');
    await asked.waitFor({ state: 'detached' });
    // Its key is shown once: Esc answered the question, and closed nothing else.
    await dialog(`Import of ${slug}`)
      .getByText(/^rh_proj_/)
      .waitFor();
    await button(`Stop the import of ${slug}`).click();
    await asked.getByRole('button', { name: 'Stop the job' }).click();
    await dialog().getByText('cancelled', { exact: true }).waitFor({ timeout: 30_000 });
    expect((await rowhouse.call('GET', `/projects/${slug}`)).status).toBe(404);
    expect(
      await dialog()
        .getByText(/^rh_proj_/)
        .count(),
    ).toBe(0);
  });

  it('says that the job has ended while the question was open', async () => {
    const slug = `ended-${name}`;
    await openForm();
    await choose('ended.sql', 'create table t (id int);\nselect pg_sleep(300);\n');
    await fill(dialog().getByLabel('Name'), slug);
    await submit().click();
    await button(`Stop the import of ${slug}`).click();
    await dialog(`Stop the import of ${slug}`).getByText('The project that it fills is dropped.').waitFor();
    const { jobs } = (await rowhouse.call('GET', '/api/dbaas/v2/jobs')).body;
    const { id } = jobs.find(({ project }: { project: string }) => project === slug);
    await rowhouse.call('DELETE', `/api/dbaas/v2/jobs/${id}`);
    const ended = dialog('The import has ended').or(dialog(`The import of ${slug} has ended`));
    await ended.getByText('It was stopped.').waitFor({ timeout: 30_000 });
    await expectLooks(page, name, 'job-ended');
    await ended.getByRole('button', { name: 'OK' }).click();
    await ended.waitFor({ state: 'detached' });
  });

  it('shows why it cannot read a job', async () => {
    await page.route('**/jobs/*', (route) => route.fulfill({ status: 404, json: failure }));
    await openForm();
    await choose('unread.sql', 'create table t (id int);\n');
    await fill(dialog().getByLabel('Name'), `Unread ${name}`);
    await submit().click();
    await dialog().getByText(failure.error.message).first().waitFor();
    await page.unrouteAll();
  });

  it('stops a job on the Server screen', async () => {
    const started = await rowhouse.call('POST', `/projects/import?name=later-${name}`, {
      raw: 'select pg_sleep(300);\n',
      headers: { 'content-type': 'application/sql' },
    });
    expect(started.status).toBe(202);
    await page.goto(`${rowhouse.origin}/console/server`);
    await button(`Stop the import of later-${name}`).click();
    await dialog().getByRole('button', { name: 'Stop the job' }).click();
    const job = async () =>
      (await rowhouse.call('GET', `/api/dbaas/v2/jobs/${started.body.job.id}`)).body.job;
    await expect.poll(async () => (await job()).status, { timeout: 30_000 }).toBe('cancelled');
    await button(`Stop the import of later-${name}`).waitFor({ state: 'detached' });
    await dialog().waitFor({ state: 'detached' });
  });

  it('leaving the form ends the upload, after a question', async () => {
    await page.route('**/uploads/*', (route) =>
      route.request().method() === 'PATCH' ? route.abort() : route.continue(),
    );
    await openForm();
    await choose('tea.sql', dump);
    await submit().click();
    await expect.poll(async () => (await uploads()).length).toBe(1);
    expect(await asksBeforeLeaving(page)).toBe(true);
    await page.keyboard.press('Escape');
    const asked = dialog('Close “Import a project”?');
    await asked.getByText('The upload stops, and what was sent so far is deleted.').waitFor();
    await expectLooks(page, name, 'import-leave');
    expect(await uploads()).toHaveLength(1);
    await asked.getByRole('button', { name: 'Close and discard' }).click();
    await dialog('Import a project').waitFor({ state: 'detached' });
    await expect.poll(() => asksBeforeLeaving(page)).toBe(false);
    await expect.poll(uploads).toEqual([]);
    await page.unrouteAll();
  });

  it('broke no security policy, and asked no other origin', () => {
    expect(visit.problems).toEqual([]);
  });
});

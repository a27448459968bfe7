// Texts of strangers in every place that the console shows: names, comments, values, errors. All of them are shown as text.
import type { Locator, Page } from 'playwright-core';
import { beforeAll, expect, it } from 'vitest';
import { sql } from '../../server/src/postgres/sql.ts';
import { Page as Session } from '../../server/test/support/console-page.ts';
import type { TestService } from '../../server/test/support/helpers.ts';
import { fill, inBrowsers, pasteText } from './browser.ts';
import { useConsoleService, useVisit } from './visit.ts';

const rowhouse = useConsoleService({}, prepare);
const hostile = '<img src=x onerror=alert(1)>';
/** Each place has a text of its own: the name of the project is on every screen. */
const table = `${hostile} table`;
const column = `${hostile} column`;
const slug = 'hostile';
const branch = 'hostile-branch';
const email = 'ann@example.com';
const raise = `do $$ begin raise exception '${hostile} error' using hint = '${hostile} hint', detail = '${hostile} detail'; end $$`;

const statements = [
  `create table "${table}" ("${hostile} id" int primary key, "${column}" text default '${hostile} default')`,
  `insert into "${table}" values (1, '${hostile} value')`,
  `create table others (id int primary key, "${hostile} reference" int references "${table}")`,
  `insert into others values (1, 1)`,
  `comment on table "${table}" is '${hostile} comment'`,
  `comment on column "${table}"."${column}" is '${hostile} comment'`,
  `create index "${hostile} index" on "${table}" ("${column}")`,
  `alter table "${table}" add constraint "${hostile} check" check ("${column}" <> '')`,
  `create policy "${hostile} policy" on "${table}" using ("${column}" <> '${hostile}')`,
  `create view "${hostile} view" as select '${hostile}' as "${column}"`,
  `create type "${hostile} type" as enum ('${hostile}')`,
  `create function "${hostile} function"("${hostile} argument" text) returns text language sql as $$ select '${hostile}' $$`,
];

async function prepare(rowhouse: TestService): Promise<void> {
  const call = async (path: string, body: object) => {
    const answer = await rowhouse.call('POST', path, { body });
    expect(answer.status, `${path}: ${JSON.stringify(answer.body)}`).toBeLessThan(300);
  };
  await call('/projects', { name: hostile, slug });
  const at = `/projects/${slug}`;
  for (const query of statements) await call(`${at}/query`, { query });
  await call(`${at}/auth/users`, { email, data: { [`${hostile} data`]: hostile } });
  await call(`${at}/keys`, { name: `${hostile} key`, scopes: ['query'] });
  await call(`${at}/queries`, { name: `${hostile} query`, query: raise });
  await call(`${at}/branches`, { name: `${hostile} branch`, slug: branch });
  // Slow enough for the log.
  await call(`${at}/query`, { query: `select pg_sleep(1.1), '${hostile}'` });
  expect((await rowhouse.call('POST', `${at}/query`, { body: { query: raise } })).status).toBe(400);
  await rowhouse.call('GET', `${at}/tables/${encodeURIComponent(`${hostile} missing`)}`);
  await storeWhatTheApiRefuses(rowhouse);
}

/** The API takes no such name for a server, a backup that failed needs backups, and errors of jobs come from elsewhere. */
async function storeWhatTheApiRefuses({ service }: TestService): Promise<void> {
  const { control } = service.deps;
  await control.query(sql`update servers set name = ${`${hostile} server`}`);
  await control.query(sql`
    insert into snapshots (project_id, name, at) select id, ${`${hostile} snapshot`}, now() from projects where slug = ${slug}`);
  await control.query(sql`
    insert into jobs (id, kind, account_id, status, alive_until, ended_at, error)
    select 'hostile', 'import', id, 'failed', now(), now(),
      jsonb_build_object('code', 'sql_error', 'message', ${`${hostile} job`}::text) from accounts`);
}

inBrowsers('texts of strangers', (name) => {
  const visit = useVisit(name, rowhouse, slug);
  const { button, cell, dialog, editor, menuItem, open } = visit;
  let page: Page;

  beforeAll(async () => {
    await visit.signIn();
    page = visit.page;
  });

  const expectText = async (text = hostile, place: Page | Locator = page) => {
    await place.getByText(text).first().waitFor();
    expect(await page.locator('img[src="x"]').count()).toBe(0);
    expect(visit.problems).toEqual([]);
  };
  /** The editor closes quotes and brackets by itself, and does nothing of the kind in a pasted text. */
  const run = async (text: string, action = 'Run') => {
    await open('sql');
    await editor().click();
    await page.keyboard.press('Control+a');
    await pasteText(editor(), text);
    await button(action).click();
  };
  const tableAddress = `tables/${encodeURIComponent(table)}`;

  it.each([
    ['projects', 'projects', hostile],
    ['tables', `projects/${slug}/tables`, table],
    ['names of columns', `projects/${slug}/${tableAddress}`, column],
    ['values', `projects/${slug}/${tableAddress}`, `${hostile} value`],
    ['a table that refers to another', `projects/${slug}/tables/others`, `${hostile} reference`],
    ['schema, tables', `projects/${slug}/schema`, table],
    ['keys', `projects/${slug}/keys`, `${hostile} key`],
    ['usage', `projects/${slug}/usage`, table],
    ['logs of failures', `projects/${slug}/logs`, `The project has no table or view "${hostile} missing"`],
    ['logs of slow statements', `projects/${slug}/logs?slow`, `select pg_sleep(1.1), '${hostile}'`],
    ['settings, branches', `projects/${slug}/settings`, `${hostile} branch`],
    ['settings, snapshots', `projects/${slug}/settings`, `${hostile} snapshot`],
    ['servers', 'server', `${hostile} server`],
    ['errors of jobs', 'server', `${hostile} job`],
  ])('are texts on the screen: %s', async (_screen, address, text) => {
    await page.goto(`${rowhouse.origin}/console/${address}`);
    await expectText(text);
  });

  it('are texts in the programs of the API screen', async () => {
    await open('api');
    await page.getByLabel('Table').selectOption(table);
    await expectText(encodeURIComponent(table));
  });

  it('are texts in the names of browsers', async () => {
    const session = new Session(Number(new URL(rowhouse.origin).port));
    const answer = await session.signIn({ api_key: rowhouse.accountKey }, { 'user-agent': hostile });
    expect(answer.status).toBe(201);
    await page.goto(`${rowhouse.origin}/console/account/sessions`);
    await expectText();
  });

  it('are texts in an error of a statement, and in the history', async () => {
    await run(raise);
    await page.getByRole('alert').getByText(`${hostile} error`).first().waitFor();
    await expectText(`${hostile} hint`);
    await expectText(`${hostile} detail`);
    await button('Queries').click();
    await expectText(`${hostile} query`, dialog('Queries'));
    await page.getByRole('tab', { name: 'History' }).click();
    await expectText(`raise exception '${hostile} error'`, dialog('Queries'));
  });

  it('are texts in results, charts and plans', async () => {
    await run(`select n, n * 2 as "${column}", '${hostile} result' as c from generate_series(1, 9) as n`);
    await cell(`${hostile} result`).first().waitFor();
    await button('Chart').click();
    await page.locator('.plot canvas').waitFor();
    await page.getByLabel(column, { exact: true }).check();
    await page.locator('.plot .u-over').hover({ position: { x: 300, y: 60 } });
    await expectText(column, page.locator('.chart-values'));
    await run(`select * from "${table}" where "${column}" = '${hostile} searched'`, 'Explain');
    await expectText(`${hostile} searched`, page.locator('.plan'));
  });

  it('are texts in the completions of the editor', async () => {
    await open('sql');
    await editor().click();
    await page.keyboard.press('Control+a');
    await page.keyboard.type('select * from ');
    await page.keyboard.press('Control+Space');
    await expectText(table, page.locator('.cm-tooltip-autocomplete'));
  });

  it('are texts in the diagram, the palette and the names of saved queries', async () => {
    await open('schema');
    await page.getByRole('tab', { name: 'Diagram' }).click();
    await page.getByRole('link', { name: table, exact: true }).waitFor();
    await expectText(`${hostile} reference`);
    await page.keyboard.press('Control+k');
    await page.keyboard.type('<img');
    for (const text of [table, `${hostile} query`, `${hostile} branch`])
      await expectText(text, page.getByRole('listbox'));
    await page.keyboard.press('Escape');
  });

  it('are texts in questions and notices', async () => {
    await open('keys');
    await button('Revoke').first().click();
    await dialog(`Revoke ${hostile} key`).waitFor();
    await page.goto(`${rowhouse.origin}/console/projects/${branch}/settings`);
    await button('Reset').click();
    await dialog(`Reset ${hostile} branch`).waitFor();
    await open('users');
    await button(`Actions for ${email}`).click();
    await menuItem('Edit').click();
    expect(await dialog().getByLabel('data').inputValue()).toContain(`${hostile} data`);
    await open('sql');
    await editor().click();
    await pasteText(editor(), `select 1 as "of ${name}"`);
    await button('Save').click();
    await fill(dialog().getByLabel('Name'), `${hostile} ${name}`);
    await dialog().getByRole('button', { name: 'Save', exact: true }).click();
    await expectText(`${hostile} ${name} is saved.`);
  });

  it('are texts in the names, the columns and the rows of files', async () => {
    const file = (csv: string) => ({
      name: `${hostile}.csv`,
      mimeType: 'text/csv',
      buffer: Buffer.from(csv),
    });
    await open(tableAddress);
    await button('Import').click();
    const field = page.getByLabel('CSV or JSON lines');
    await field.setInputFiles(file(`${column},${hostile} other\n${hostile} in a file,2\n`));
    await expectText(`${hostile}.csv is chosen`);
    await expectText(`has no column “${hostile} other”`);
    await dialog()
      .getByRole('cell', { name: `${hostile} in a file`, exact: true })
      .waitFor();
    await field.setInputFiles(file(`${hostile} id\n${hostile} number\n`));
    await dialog().getByRole('button', { name: 'Import', exact: true }).click();
    await dialog().getByRole('alert').getByText(`${hostile} number`).first().waitFor();
    await open('tables?new');
    await page.getByLabel('From a file').setInputFiles(file(`${hostile} new\n1\n`));
    await expectText(`"${hostile} new" bigint`);
  });
});

// The move of a project to another PostgreSQL server, in a real browser.
import { expect, it } from 'vitest';
import { useTwoServers } from '../../server/test/support/two-servers.ts';
import { expectAccessible, inBrowsers } from './browser.ts';
import { builtConsole, useListening, useVisit } from './visit.ts';

const servers = useTwoServers({ console: builtConsole });
const rowhouse = useListening(servers.rowhouse);

inBrowsers('a move in the console', (name) => {
  const slug = `moved-${name}`;
  const visit = useVisit(name, rowhouse, slug);
  const { button, open, query } = visit;

  it('moves a project with its rows, and shows where it is', async () => {
    const created = await rowhouse.call('POST', '/projects', { body: { name: slug, slug, server: 'test' } });
    expect(created.status, JSON.stringify(created.body)).toBe(201);
    await query('create table teas as select n from generate_series(1, 1000) as n');
    await visit.signIn();
    const { page } = visit;
    await open('settings');
    await page.getByLabel('Server', { exact: true }).selectOption('second');
    await expectAccessible(page);
    await button('Move').click();
    await page.getByText(/^Requests are expected to wait/).waitFor();
    await expectAccessible(page);
    await page.getByText('done', { exact: true }).waitFor({ timeout: 120_000 });
    expect(await query('select count(*)::int as n from teas')).toEqual([{ n: 1_000 }]);
    expect(await servers.databasesAt(created.body.project.id, servers.secondAddress())).toHaveLength(1);
    expect(await servers.databasesAt(created.body.project.id)).toEqual([]);
    expect(visit.problems).toEqual([]);
  });
});

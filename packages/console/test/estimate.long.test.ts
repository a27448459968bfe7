// A destructive statement that is too slow for a true preview: the console shows PostgreSQL's estimate instead.
import { beforeAll, expect, it } from 'vitest';
import { inBrowsers } from './browser.ts';
import { expectLooks } from './looks.ts';
import { useConsoleService, useVisit } from './visit.ts';

const rowhouse = useConsoleService();

inBrowsers('a preview that takes too long', (name) => {
  const visit = useVisit(name, rowhouse, `estimate-${name}`);
  const { button, open, query, writeSql } = visit;

  beforeAll(async () => {
    await visit.createProject();
    await query('create table teas (id int primary key)');
    await query('insert into teas select generate_series(1, 300)');
    await query('analyze teas');
    await visit.signIn();
  });

  it('shows the estimate of PostgreSQL, and changes nothing until it is applied', async () => {
    await open('sql');
    await writeSql('with slow as (select pg_sleep(20)) delete from teas using slow where id > 0');
    await button('Run').click();
    const { page } = visit;
    await page.getByText('PostgreSQL estimates that about 300 rows would be affected.').waitFor();
    await page.getByText('There is no true preview: The statement was cancelled after 5000 ms.').waitFor();
    await expectLooks(page, name, 'sql-estimate');
    await button('Cancel').click();
    await page.getByText('Results appear here').waitFor();
    expect(await query('select count(*)::int as n from teas')).toEqual([{ n: 300 }]);
  });

  it('has no estimate of a statement that is not planned', async () => {
    await query('create function slow() returns int language sql as $$ select 1 from pg_sleep(20) $$');
    await writeSql('alter table teas add column slow int default slow()');
    await button('Run').click();
    await visit.page.getByText('There is no preview of this statement.').waitFor();
    await button('Cancel').click();
  });

  it('broke no security policy, and asked no other origin', () => {
    expect(visit.problems).toEqual([]);
  });
});

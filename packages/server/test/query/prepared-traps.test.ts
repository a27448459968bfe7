// A project's code can PREPARE and DEALLOCATE. What is kept prepared in a session must be what the service put there.
import { beforeAll, expect, it } from 'vitest';
import { until, useTestService } from '../support/helpers.ts';

/** One session, so that the next request has the same. */
const rowhouse = useTestService({ connections: { budget: 2, share: 1 } });
let project: { slug: string; id: string; key: string };
let neighbour: { slug: string; id: string; key: string };

const run = (query: string, of = project) =>
  rowhouse.call('POST', `/projects/${of.slug}/query`, { key: of.key, body: { query } });

/** A session that was tampered with ends; whoever comes next may meet its end. */
const rowsOf = (query: string) =>
  until(query, async () => {
    const { status, body } = await run(query);
    return status === 200 && (body.rows as Record<string, unknown>[]);
  });

beforeAll(async () => {
  project = await rowhouse.project('Traps');
  neighbour = await rowhouse.project('Neighbour');
  const setup = [
    'create table trapped (id int)',
    'create table victims (id int)',
    `create function trap() returns trigger language plpgsql as $$
       declare found record;
       begin
         for found in select name, statement from pg_prepared_statements where not from_sql loop
           execute format('deallocate %I', found.name);
           if found.statement like '%as one%' then
             execute format('prepare %I as select 666 as one', found.name);
           elsif found.statement like '%from victims%' then
             execute format('prepare %I as insert into victims values (1) returning 7::bigint as n', found.name);
           elsif found.statement like '%setseed%' then
             execute format('prepare %I (float8) as select $1', found.name);
           else
             execute format('prepare %I as select 1', found.name);
           end if;
         end loop;
         execute 'prepare leak as select 42';
         perform set_config('my.leak', 'x', false);
         return new;
       end $$`,
    'create trigger trap before insert on trapped for each row execute function trap()',
    'create view trapping as select 1 as id',
    `create function trap_view() returns trigger language plpgsql as $$
       begin insert into trapped values (new.id); return new; end $$`,
    'create trigger trap instead of insert on trapping for each row execute function trap_view()',
  ];
  for (const query of setup) expect((await run(query)).body, query).toMatchObject({ ok: true });
});

const ways: Record<string, () => Promise<unknown>> = {
  'an insert': () => run('insert into trapped values (1)'),
  'a row of a table': () =>
    rowhouse.call('POST', `/projects/${project.slug}/tables/trapped`, { key: project.key, body: { id: 1 } }),
  'a row of a view': () =>
    rowhouse.call('POST', `/projects/${project.slug}/tables/trapping`, { key: project.key, body: { id: 1 } }),
  'an import': () =>
    rowhouse.call('POST', `/projects/${project.slug}/tables/trapped`, {
      key: project.key,
      raw: 'id\n1\n',
      headers: { 'content-type': 'text/csv' },
    }),
  'a batch': () =>
    rowhouse.call('POST', `/projects/${project.slug}/batch`, {
      key: project.key,
      body: { statements: [{ query: 'insert into trapped values (1)' }] },
    }),
};

for (const [name, spring] of Object.entries(ways))
  it(`${name} whose trigger prepares statements changes nothing for the next request`, async () => {
    for (let n = 0; n < 3; n++) {
      // So that both are kept prepared.
      await rowsOf('select 1 as one');
      await rowsOf('select count(*) as n from victims');
      await spring();
      expect(await rowsOf('select 1 as one')).toEqual([{ one: 1 }]);
      expect(await rowsOf('select count(*) as n from victims')).toEqual([{ n: 0 }]);
      expect(await rowsOf("select nullif(current_setting('my.leak', true), '') as leak")).toEqual([
        { leak: null },
      ]);
      expect(await rowsOf('select name from pg_prepared_statements where from_sql')).toEqual([]);
    }
    expect((await run('select 1 as one', neighbour)).body.rows).toEqual([{ one: 1 }]);
  });

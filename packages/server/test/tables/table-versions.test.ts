// The version of a table: every fact that a compiled statement relies on belongs to it, also those that are asked only of
// tables that have them (migrations/project/0008_version_queries.sql).
import { beforeEach, describe, expect, it } from 'vitest';
import { useTestService } from '../support/helpers.ts';
import { useTableSessions } from '../support/table-session.ts';

const rowhouse = useTestService({ spares: 1 });
const { session, other } = useTableSessions(rowhouse);
const versionIn = async ({ run }: typeof session, name: string) =>
  (await run(`select rowhouse.version_of('${name}'::regclass)`))[0]?.[0];

beforeEach(async () => {
  await session.client.query(`
    drop view if exists seen; drop table if exists facts, bare, behind; drop domain if exists age; drop type if exists mood;
    create domain age as int check (value > 0);
    create type mood as enum ('sad', 'glad');
    create table bare (id int, n int);
    create table behind (id int);
    create view seen with (security_invoker) as select id from behind;
    create table facts (id int primary key, d int default 1, years age, m mood);
    create or replace function nothing() returns trigger language plpgsql as $$ begin return new; end $$;
    create trigger one before insert on facts for each row execute function nothing();
    create rule r as on delete to facts do instead nothing;
    alter table facts enable row level security;
    create policy p on facts using (true);`);
});

describe('the version of a table', () => {
  it('is the same in every session, and changes with no row', async () => {
    for (const name of ['bare', 'facts', 'seen', 'behind']) {
      const version = await versionIn(session, name);
      expect(version).toMatch(/^[0-9a-f]{32}$/);
      expect(await versionIn(other, name)).toBe(version);
    }
    const before = await versionIn(session, 'bare');
    await session.client.query('insert into bare values (1, 2); analyze bare');
    await session.client.query('vacuum bare');
    expect(await versionIn(other, 'bare')).toBe(before);
  });

  it('differs from that of another table', async () => {
    const versions = await Promise.all(['bare', 'facts', 'seen'].map((name) => versionIn(session, name)));
    expect(new Set(versions).size).toBe(3);
  });

  it('of a table that is gone is null', async () => {
    expect(await session.run('select rowhouse.version_of(1)')).toEqual([[null]]);
  });

  it.each([
    ['facts', 'another default', 'alter table facts alter d set default 2'],
    ['facts', 'no default', 'alter table facts alter d drop default'],
    [
      'facts',
      'another trigger',
      'create or replace trigger one after insert on facts for each row execute function nothing()',
    ],
    ['facts', 'a disabled trigger', 'alter table facts disable trigger one'],
    ['facts', 'no trigger', 'drop trigger one on facts'],
    ['facts', 'another rule', 'create or replace rule r as on delete to facts do also nothing'],
    ['facts', 'another policy', 'alter policy p on facts using (false)'],
    ['facts', 'row security for the owner', 'alter table facts force row level security'],
    ['facts', 'a check of a domain', 'alter domain age add check (value < 200)'],
    ['facts', 'a domain that is not null', 'alter domain age set not null'],
    ['facts', 'statistics', 'create statistics of_facts on id, d from facts'],
    ['facts', 'a privilege', 'grant select on facts to public'],
    ['bare', 'the first default', 'alter table bare alter n set default 1'],
    [
      'bare',
      'the first trigger',
      'create trigger one before insert on bare for each row execute function nothing()',
    ],
    ['bare', 'the first rule', 'create rule r as on delete to bare do instead nothing'],
    ['bare', 'the first policy', 'create policy p on bare using (true)'],
    ['bare', 'the first index', 'create index on bare (n)'],
    ['bare', 'the first type of the project', 'alter table bare add m mood'],
    ['bare', 'a generated column', 'alter table bare add g int generated always as (n + 1) stored'],
    [
      'bare',
      'an identity',
      'alter table bare alter id set not null, alter id add generated always as identity',
    ],
    ['bare', 'another schema', 'create schema if not exists aside; alter table bare set schema aside'],
    ['seen', 'row security behind a view', 'alter table behind enable row level security'],
    [
      'seen',
      'another view',
      'create or replace view seen with (security_invoker) as select id + 1 as id from behind',
    ],
    ['seen', 'rights of a view', 'alter view seen set (security_invoker = false)'],
  ])('%s changes with %s', async (name, _what, change) => {
    const [[oid] = []] = await session.run(`select '${name}'::regclass::oid`);
    const version = () => other.run(`select rowhouse.version_of(${oid})`);
    const before = await version();
    await session.client.query(change);
    const after = await version();
    expect(after).not.toEqual(before);
    expect(await version()).toEqual(after);
    await session.client.query('drop table if exists aside.bare');
  });
});

// Statements that look as if they ran nothing but PostgreSQL's own harmless code, and do. Whatever they reach, they leave
// nothing for the next request, write nothing as a read and take nobody's place; and where a judgement is wrong, a second
// wall holds.
import pg from 'pg';
import { describe, expect, it } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { isPlain } from '../../src/query/sessions/statement-profiles.ts';
import { databaseOf } from '../../src/servers/databases/names.ts';
import { inside } from '../support/end-users.ts';
import { asAdmin, until, useTestService } from '../support/helpers.ts';

const rowhouse = useTestService({ spares: 2, connections: { budget: 20, share: 8 } });
const mb = 1024 * 1024;

async function newProject(limitMb = 64) {
  const { body } = await rowhouse.call('POST', '/projects', { body: { name: 'Reach', limit_mb: limitMb } });
  const { slug, id } = body.project;
  const issued = await rowhouse.call('POST', `/projects/${slug}/keys`, {
    body: { name: 'reader', scopes: ['query'] },
  });
  const call = (path: string, given: object, key: string = body.api_key) =>
    rowhouse.call('POST', `/projects/${slug}${path}`, { key, body: given });
  const run = (query: string, more: object = {}, key?: string) => call('/query', { query, ...more }, key);
  const profileOf = async (query: string) => {
    const { profiles, parser } = rowhouse.service.deps.query;
    return profiles.of({ id }, await parser.parse({ id, accountId: null }, query));
  };
  return {
    id,
    slug,
    run,
    call,
    profileOf,
    otherKey: issued.body.api_key as string,
    all: async (...queries: string[]) => {
      for (const query of queries) {
        const { status, body: answer } = await run(query);
        expect(status, `${query}: ${JSON.stringify(answer)}`).toBe(200);
      }
    },
    /** As often as it takes until it is known what it does. */
    often: async (query: string) => {
      for (let round = 0; round < 6; round++) {
        await Promise.all(Array.from({ length: 4 }, () => run(query)));
        if (round === 2) await new Promise((resolve) => setTimeout(resolve, 1_050));
      }
    },
    storedMb: async () => {
      const [row] = await rowhouse.service.deps.control.query<{ empty: number }>(
        sql`select empty_bytes::float8 as empty from projects where id = ${id}`,
      );
      const [size] = await asAdmin((admin) =>
        admin.query<{ bytes: number }>(sql`select pg_database_size(${databaseOf(id)})::float8 as bytes`),
      );
      return ((size?.bytes ?? 0) - (row?.empty ?? 0)) / mb;
    },
  };
}
type Project = Awaited<ReturnType<typeof newProject>>;

/** What thirty later requests find, with another key. */
async function findTraces({ run, otherKey }: Project): Promise<unknown[]> {
  const look =
    "select coalesce(current_setting('app.leak', true), '') as leak, current_setting('search_path') as path, current_setting('DateStyle') as style";
  const found = await Promise.all(Array.from({ length: 30 }, () => run(look, {}, otherKey)));
  return found.flatMap(({ body }) => body.rows).filter((row) => row.leak !== '' || row.path !== 'public');
}

const leak = `create function leak(text) returns boolean language plpgsql immutable as $$
  begin perform pg_catalog.set_config('app.leak', 'yes', false); return true; end $$`;

const leaking: [string, string[], string][] = [
  [
    'an aggregate on a built-in function',
    [
      'create aggregate public.max(text, boolean) (sfunc = pg_catalog.set_config, stype = text, initcond = $$app.leak$$)',
    ],
    "select max('yes', false) as x",
  ],
  [
    'an aggregate on a built-in function that moves the search path',
    [
      'create schema evil',
      'create aggregate public.min(text, boolean) (sfunc = pg_catalog.set_config, stype = text, initcond = $$search_path$$)',
    ],
    "select min('evil', false) as x",
  ],
  [
    'a window over such an aggregate',
    [
      'create aggregate public.count(text, boolean) (sfunc = pg_catalog.set_config, stype = text, initcond = $$app.leak$$)',
    ],
    "select count('yes', false) over () as x",
  ],
  [
    'an operator',
    [leak, 'create operator public.@! (rightarg = text, function = leak)'],
    "select 1 where @! 'x'",
  ],
  [
    'an operator that IN uses',
    [
      leak,
      `create function pair(text, int) returns boolean language sql as 'select leak($1)'`,
      'create operator public.= (leftarg = text, rightarg = int, function = pair)',
    ],
    "select 1 as x where 'a'::text in (1, 2)",
  ],
  [
    'an operator that CASE uses',
    [
      leak,
      `create function pair(text, int) returns boolean language sql as 'select leak($1)'`,
      'create operator public.= (leftarg = text, rightarg = int, function = pair)',
    ],
    "select case 'a'::text when 1 then 2 end as x",
  ],
  [
    'a domain with the name of a function',
    [leak, 'create domain public.length as text check (leak(value))'],
    "select length('abc') as x",
  ],
  [
    'a domain that JSON_VALUE returns',
    [leak, 'create domain public.sly as text check (leak(value))'],
    `select json_value('{"a": "b"}', '$.a' returning sly) as x`,
  ],
  [
    'a domain that a column definition names',
    [leak, 'create domain public.sly as text check (leak(value))'],
    `select a from jsonb_to_recordset('[{"a": "b"}]') as x (a sly)`,
  ],
  [
    'a cast of an enum to json',
    [
      leak,
      "create type mood as enum ('calm')",
      'create table moods (m mood)',
      "insert into moods values ('calm')",
      `create function mood_json(mood) returns json language sql as 'select pg_catalog.to_json(leak($1::text))'`,
      'create cast (mood as json) with function mood_json(mood)',
    ],
    'select to_json(m) as x from moods',
  ],
  [
    'a default with an operator',
    [
      leak,
      'create operator public.@! (rightarg = text, function = leak)',
      "create table defaulted (id int, v boolean default (@! 'x'))",
    ],
    'insert into defaulted (id) values (1)',
  ],
  [
    'an index of the table that a foreign key points to',
    [
      leak,
      'create table parents (id int primary key)',
      'insert into parents values (1)',
      "create index on parents ((coalesce(leak('x')::text, id::text)))",
      'create table children (id int references parents)',
    ],
    'insert into children values (1)',
  ],
  [
    'an index expression that a plan works out',
    [
      leak,
      'create table indexed (id int)',
      "create index on indexed ((coalesce(leak('x')::text, id::text)))",
    ],
    'select id from indexed where id = 1',
  ],
  [
    'statistics over an expression',
    [
      leak,
      'create table counted (id int, k int)',
      "create statistics on (coalesce(leak('x')::text, id::text)), k from counted",
    ],
    'select id from counted where id = 1',
  ],
  // The next six projects have no function: every check rejects a project that has one.
  [
    'a view on a built-in function',
    ["create view sly as select set_config('app.leak', 'yes', false) as x"],
    'select x from sly',
  ],
  [
    'a view on a view on a built-in function',
    [
      "create view sly as select set_config('app.leak', 'yes', false) as x",
      'create view outer_sly as select x from sly',
    ],
    'select x from outer_sly',
  ],
  [
    'a policy with a built-in function',
    [
      'create table ruled (id int)',
      'insert into ruled values (1)',
      'alter table ruled enable row level security, force row level security',
      "create policy sly on ruled using (set_config('app.leak', 'yes', false) is not null)",
    ],
    'select id from ruled',
  ],
  [
    'a domain with a built-in function',
    ["create domain sly as text check (set_config('app.leak', value, false) is not null)"],
    "select 'yes'::sly as x",
  ],
  [
    'an array of such a domain',
    ["create domain sly as text check (set_config('app.leak', value, false) is not null)"],
    "select '{yes}'::sly[] as x",
  ],
  [
    'a column of such a domain in a row type',
    [
      "create domain sly as text check (set_config('app.leak', value, false) is not null)",
      'create table pairs (a int, b sly)',
    ],
    "select ('(1,yes)'::pairs).a as x",
  ],
  [
    'an operator that judges the judge',
    [
      leak,
      `create function never(oid, int) returns boolean language sql as 'select false'`,
      'create operator public.<> (leftarg = oid, rightarg = int, function = never)',
      'create operator public.>= (leftarg = oid, rightarg = int, function = never)',
      `create function lower(varchar) returns boolean language sql as 'select leak($1)'`,
    ],
    "select lower('A'::varchar) as x",
  ],
];

describe('code that a statement reaches leaves nothing behind', () => {
  it.each(leaking)('%s', async (_name, make, query) => {
    const project = await newProject();
    await project.all(...make);
    expect((await project.run(query)).body.error).toBeUndefined();
    for (let round = 0; round < 3; round++) {
      await project.often(query);
      expect(await findTraces(project)).toEqual([]);
    }
    expect(isPlain(await project.profileOf(query))).toBe(false);
  });
});

describe('what ran before does not change what a statement means', () => {
  const sneak = (instead: string) => `create function f() returns text language plpgsql as $$ begin
    if current_setting('default_transaction_read_only') = 'on' then
      perform set_config('app.leak', 'yes', false); return 'shared'; end if;
    ${instead}; return 'alone'; end $$`;
  it.each([
    ['a search path', "perform set_config('search_path', 'evil, public', false)"],
    ['a temporary table', 'create temp table if not exists t (a text)'],
    [
      'a temporary view',
      "if to_regclass('pg_temp.t') is null then create temp view t as select 'x' as a; end if",
    ],
  ])('%s that hides a view', async (_name, instead) => {
    const project = await newProject();
    await project.all('create schema evil', 'create table evil.t (a text)', sneak(instead));
    await project.all('create view public.t as select f() as a');
    for (let round = 0; round < 3; round++) {
      await project.often('select * from public.t');
      await project.often('select * from t');
      expect(await findTraces(project)).toEqual([]);
    }
    expect((await project.run('select * from t')).body.rows).toEqual([{ a: 'alone' }]);
  });

  it('temporary tables that a trigger leaves: rows go where they belong', async () => {
    const project = await newProject();
    await project.all(
      'create table orders (id int)',
      'create table t (id int primary key, n int)',
      'insert into t values (1, 0)',
      `create function plant() returns trigger language plpgsql as $$ begin
        create temp table if not exists t (id int, n int); create temp table if not exists orders (id int);
        return new; end $$`,
      'create trigger plant before update on t for each row execute function plant()',
    );
    for (let n = 0; n < 16; n++)
      await project.run('update t set n = n + 1 where id = 1', {}, project.otherKey);
    const inserts = Array.from({ length: 20 }, () => project.run('insert into orders values (1)'));
    for (const { status } of await Promise.all(inserts)) expect(status).toBe(200);
    expect((await project.run('select count(*) as n from public.orders')).body.rows).toEqual([{ n: 20 }]);
  });

  it.each([
    ['a view that is read', 'create view swap as select swaps() as x', 'select * from swap'],
    [
      'a trigger of an update',
      `create table u (id int); insert into u values (1);
       create function fires() returns trigger language plpgsql as $$ begin perform swaps(); return new; end $$;
       create trigger fires before update on u for each row execute function fires()`,
      'update u set id = 2',
    ],
    ['a block', '', 'do $$ begin perform swaps(); end $$'],
  ])('tables that %s changes are read again', async (_name, make, query) => {
    const project = await newProject();
    await project.all(
      leak,
      'create table swapped (a boolean)',
      `create function swaps() returns int language plpgsql as $$ begin
        alter table public.swapped rename to was_swapped;
        create view public.swapped as select public.leak('x') as a; return 1; end $$`,
      ...make.split(/;\s*(?=create|insert)/).filter(Boolean),
    );
    const read = 'select a from swapped';
    for (let n = 0; n < 20; n++) await project.run(read);
    expect((await project.run(query)).status).toBe(200);
    for (let round = 0; round < 3; round++) {
      await project.often(read);
      expect(await findTraces(project)).toEqual([]);
    }
  });
});

describe('table requests leave nothing behind of', () => {
  const evil = (name: string, takes: string, gives: string, value: string) =>
    `create function ${name}(${takes}) returns ${gives} language plpgsql as $$ begin
      perform pg_catalog.set_config('app.leak', 'yes', false); return ${value}; end $$`;
  it.each([
    ['an operator', 't?m=eq.ok'],
    ['a cast to text', 't?select=id,x:m::text'],
    ['a cast to json', 'par?select=id,t(m)'],
    ['a cast to json in a view', 'seen'],
    ['a pattern', 't?m=like.o*'],
  ])('%s that an enum was given after it was read', async (_name, path) => {
    const project = await newProject();
    await project.all(
      "create type mood as enum ('ok', 'sad')",
      'create table par (id int primary key)',
      'create table t (id int primary key, m mood, p int references par)',
      'create view seen as select id, to_json(m) as x from t',
      'insert into par values (1)',
      "insert into t values (1, 'ok', 1)",
    );
    const get = () =>
      rowhouse.call('GET', `/projects/${project.slug}/tables/${path}`, { key: project.otherKey });
    const reader = await rowhouse.call('POST', `/projects/${project.slug}/keys`, {
      body: { name: 'rows', scopes: ['tables:read'] },
    });
    const read = () =>
      rowhouse.call('GET', `/projects/${project.slug}/tables/${path}`, { key: reader.body.api_key });
    expect((await get()).status).toBe(403);
    for (let n = 0; n < 6; n++) await read();
    await project.all(
      evil('evil_eq', 'mood, mood', 'boolean', 'true'),
      'create operator public.= (leftarg = mood, rightarg = mood, function = evil_eq)',
      evil('evil_text', 'mood', 'text', "'x'"),
      'create cast (mood as text) with function evil_text(mood) as implicit',
      evil('evil_json', 'mood', 'json', "'1'"),
      'create cast (mood as json) with function evil_json(mood)',
    );
    for (let round = 0; round < 6; round++) {
      await Promise.all(Array.from({ length: 4 }, read));
      expect(await findTraces(project)).toEqual([]);
    }
  });

  it.each(['parents', 'children'])('an index of %s that is made after a row was written', async (where) => {
    const project = await newProject();
    await project.all(
      leak,
      'create table parents (id int primary key, x int)',
      'create table children (id int primary key, p int references parents)',
      'insert into parents select n, n from generate_series(1, 100) as n',
    );
    const at = `/projects/${project.slug}/tables`;
    let next = 0;
    const write = () => {
      next++;
      return where === 'parents'
        ? rowhouse.call('POST', `${at}/children`, { body: { id: next, p: 1 } })
        : rowhouse.call('DELETE', `${at}/parents?id=eq.${next}`);
    };
    for (let n = 0; n < 6; n++) expect((await write()).status).toBeLessThan(300);
    await project.all(`create index on ${where} ((coalesce(leak('x')::text, id::text)))`);
    for (let round = 0; round < 6; round++) {
      for (let n = 0; n < 4; n++) expect((await write()).status).toBeLessThan(300);
      expect(await findTraces(project)).toEqual([]);
    }
  });

  it('a partition: what runs with its rows is asked again, because PostgreSQL plans nothing anew for it', async () => {
    const project = await newProject();
    await project.all(
      'create table split (id int, v text) partition by list (id)',
      'create table split_1 partition of split for values in (1)',
    );
    const insert = () =>
      rowhouse.call('POST', `/projects/${project.slug}/tables/split`, { body: { id: 1, v: 'x' } });
    for (let n = 0; n < 4; n++) expect((await insert()).status).toBe(201);
    const { tables, query, server } = rowhouse.service.deps;
    const login = { id: project.id, serverId: server.id, passwordVersion: 1, accountId: null };
    const inserts = [...tables.cache.of(login).statements.values()].filter(({ isInsert }) => isInsert);
    expect(inserts.map(({ isProven }) => isProven)).toEqual([false]);
    await until('it is known to be plain', async () => {
      await insert();
      return inserts.every((statement) => isPlain(query.profiles.of(login, statement)));
    });
  });
});

describe('a read writes nothing', () => {
  it('through an operator on a function that writes large objects', async () => {
    const project = await newProject(4);
    await project.all(
      'create operator public.<< (leftarg = oid, rightarg = bytea, function = pg_catalog.lo_from_bytea)',
    );
    const query =
      "select count(0::oid << decode(repeat('ab', 1000000), 'hex')) as n from generate_series(1, 40)";
    for (let n = 0; n < 6; n++) expect([200, 507]).toContain((await project.run(query)).status);
    await until('it holds its limit', async () => (await project.storedMb()) <= 4);
  });

  it('through SELECT INTO anywhere in a UNION', async () => {
    const project = await newProject(4);
    const query = (name: string) =>
      `select repeat('x', 1000) as v into ${name} from generate_series(1, 20000) union all select 'y'`;
    const statuses = [];
    for (let n = 0; n < 4; n++) statuses.push((await project.run(query(`made_${n}`))).status);
    expect(statuses).toEqual([507, 507, 507, 507]);
    await until('it holds its limit', async () => (await project.storedMb()) <= 4);
    expect((await project.run('select 1 as one into one union select 2')).status).toBe(200);
    expect((await project.run('select count(*) as n from one')).body.rows).toEqual([{ n: 2 }]);
  });

  it('through a view that a direct connection puts in the place of a table: it runs exclusively and is measured', async () => {
    const project = await newProject(4);
    await project.all('create table swapped (id int)', 'create table sink (v text)');
    const query = 'select id from swapped';
    await until('it is known to be plain', async () => {
      await project.run(query);
      return isPlain(await project.profileOf(query));
    });
    const { body } = await rowhouse.call('GET', `/projects/${project.slug}/connection`);
    const direct = new pg.Client({ connectionString: body.connection.url });
    await direct.connect();
    await direct.query(`
      create function writes() returns int language plpgsql as $$ begin
        insert into public.sink select repeat('x', 1000) from pg_catalog.generate_series(1, 20000); return 1; end $$;
      drop table swapped; create view swapped as select writes() as id`);
    await direct.end();
    for (let n = 0; n < 6; n++) expect((await project.run(query)).status).toBe(507);
    await until('it holds its limit', async () => (await project.storedMb()) <= 4);
    await project.all('create or replace view swapped as select 7 as id');
    expect((await project.run(query)).body.rows).toEqual([{ id: 7 }]);
  });

  it('through a view of another role, for which policies hold that do not hold for the project', async () => {
    const project = await newProject();
    await project.all(
      'create table journal (at timestamptz default now())',
      'create table guarded (id int primary key)',
      'insert into guarded values (1)',
      `create function notes() returns boolean language plpgsql as $$ begin
         perform pg_catalog.set_config('default_transaction_read_only', 'off', false);
         if current_setting('transaction_read_only') = 'off' then
           insert into public.journal values (default);
         end if;
         return true; end $$`,
      'alter table guarded enable row level security',
      'create policy noted on guarded to authenticated using (notes())',
      'grant create on schema public to authenticated',
    );
    await inside(
      project,
      sql.script(`
        set role authenticated;
        create view theirs as select id from guarded;
        grant select on theirs to ${databaseOf(project.id)};`),
    );
    const { body } = await rowhouse.call('POST', `/projects/${project.slug}/keys`, {
      body: { name: 'rows', scopes: ['tables:read'] },
    });
    for (let n = 0; n < 8; n++) {
      const at = `/projects/${project.slug}/tables/theirs`;
      const page = await rowhouse.call('GET', at, { key: body.api_key });
      expect([page.status, page.body.rows]).toEqual([200, [{ id: 1 }]]);
    }
    expect((await project.run('select count(*) as n from journal')).body.rows).toEqual([{ n: 0 }]);
  });

  it('and a statement that must write runs in an exclusive session', async () => {
    const project = await newProject();
    await project.all('create table journal (id int)', 'create table shown (id int)');
    const query = 'select id from shown';
    await until('it is known to be plain', async () => {
      await project.run(query);
      return isPlain(await project.profileOf(query));
    });
    const { body } = await rowhouse.call('GET', `/projects/${project.slug}/connection`);
    const direct = new pg.Client({ connectionString: body.connection.url });
    await direct.connect();
    await direct.query(`
      create function notes() returns int language plpgsql as $$ begin insert into public.journal values (1); return 1; end $$;
      drop table shown; create view shown as select notes() as id`);
    await direct.end();
    const answers = await Promise.all(Array.from({ length: 10 }, () => project.run(query)));
    for (const { body: answer } of answers) expect(answer.rows).toEqual([{ id: 1 }]);
    expect((await project.run('select count(*) as n from journal')).body.rows).toEqual([{ n: 10 }]);
    expect((await project.profileOf(query)).isDistrusted).toBe(true);
  });
});

describe('a prepared statement is the one that was prepared', () => {
  it('whatever a trigger prepares under its name', async () => {
    const project = await newProject();
    await project.all(
      'create table fired (id int)',
      'create table honest (id int)',
      'insert into honest values (42)',
      `create function usurp() returns trigger language plpgsql as $$
        declare name text;
        begin
          for name in select s.name from pg_catalog.pg_prepared_statements as s where not from_sql loop
            execute pg_catalog.format('deallocate %I', name);
            execute pg_catalog.format('prepare %I as select 666 as id', name);
          end loop;
          return new;
        end $$`,
      'create trigger t before insert on fired for each row execute function usurp()',
    );
    for (let round = 0; round < 20; round++) {
      expect((await project.run('insert into fired values (1)')).status).toBe(200);
      const found = await Promise.all(
        Array.from({ length: 8 }, () => project.run('select id from honest', {}, project.otherKey)),
      );
      for (const { body } of found) expect(body.rows).toEqual([{ id: 42 }]);
    }
  });
});

describe('a session whose state was changed', () => {
  const spoil = async (project: Project, setting: string, use: 'plain' | 'read' = 'plain') => {
    const { sessions } = rowhouse.service.deps.query;
    const login = {
      id: project.id,
      serverId: rowhouse.service.deps.server.id,
      passwordVersion: 1,
      accountId: null,
    };
    const session = await sessions.acquire(login, use);
    await new Promise<void>((resolve, reject) => {
      session.out.parse('', setting).bind('', []).execute(0).sync();
      const quiet = () => {};
      session.send({
        rowDescription: quiet,
        parameterTypes: quiet,
        noData: quiet,
        bound: quiet,
        row: quiet,
        complete: quiet,
        error: reject,
        copy: quiet,
        ready: () => resolve(),
        lost: reject,
      });
    });
    sessions.release(login, session, 'plain');
  };
  const count = async (source: string) => {
    const { body } = await rowhouse.call('GET', '/metrics');
    const line = `rowhouse_session_traces_total{source="${source}"} `;
    return Number(String(body).split(line)[1]?.split('\n')[0]);
  };

  it.each([
    ["set DateStyle = 'German'", 'plain'],
    ['set default_transaction_read_only = off', 'read'],
  ] as const)(
    "is noticed by PostgreSQL's report, closed, and ends sharing for its project: %s",
    async (setting, use) => {
      const project = await newProject();
      await project.run('select 1');
      const before = await until('the metric is there', async () => (await count('reported')) + 1);
      await spoil(project, setting, use);
      await until('it is counted', async () => (await count('reported')) >= before);
      expect(await findTraces(project)).toEqual([]);
      expect(isPlain(await project.profileOf('select 1'))).toBe(false);
      const neighbour = await newProject();
      await until('the neighbour shares', async () => {
        await neighbour.run('select 1');
        return isPlain(await neighbour.profileOf('select 1'));
      });
    },
  );

  it('was left by none of the tests above', async () => {
    expect(await count('sampled')).toBe(0);
  });

  it('is found by a periodic check, whatever was changed in it', async () => {
    const project = await newProject();
    const isCounted = async () => {
      await spoil(project, "set work_mem = '64kB'");
      return (await count('sampled')) > 0;
    };
    await until('it is counted', isCounted, 45_000);
    // The figures are up to a second old: some were spoiled since. From now on every statement is followed by a reset.
    await project.run('select 1');
    const { body } = await project.run("select current_setting('work_mem') as memory");
    expect(body.rows).not.toEqual([{ memory: '64kB' }]);
    expect(isPlain(await project.profileOf('select 1'))).toBe(false);
  });
});

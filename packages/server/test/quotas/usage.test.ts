import { UsageResponse } from '@rowhouse/api';
import { AggregatorRegistry } from 'prom-client';
import { Compile } from 'typebox/compile';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Control } from '../../src/control/control.ts';
import { createMetrics } from '../../src/metrics/http-requests.ts';
import { type Database, openDatabase } from '../../src/postgres/admin/database.ts';
import { type Sql, sql } from '../../src/postgres/sql.ts';
import { refreshSizes, sizesSettled } from '../../src/quotas/sizes.ts';
import { countRefusals, forgetOldUsage, recordUsage } from '../../src/quotas/usage.ts';
import { loginOf } from '../../src/servers/databases/login.ts';
import { authRoleOf, databaseOf, roleOf } from '../../src/servers/databases/names.ts';
import type { Server } from '../../src/servers/server.ts';
import { asAdmin, openGate, until, useTestService } from '../support/helpers.ts';

// Without the background work: each test says when it is done.
const rowhouse = useTestService({ background: false, spares: 6 });
type Project = { slug: string; id: string; key: string };
const mb = 1024 * 1024;

const usage = (project: Project, search = '', key = project.key) =>
  rowhouse.call('GET', `/projects/${project.slug}/usage${search}`, { key });
const usageOf = async (project: Project) => {
  const { status, body } = await usage(project);
  expect(status, JSON.stringify(body)).toBe(200);
  return body.usage as UsageResponse['usage'];
};
const run = async (project: Project, query: string) => {
  const answer = await rowhouse.call('POST', `/projects/${project.slug}/query`, {
    key: project.key,
    body: { query },
  });
  expect(answer.status, JSON.stringify(answer.body)).toBe(200);
  return answer.body.rows;
};
const issueKey = async (project: Project, body: object) => {
  const issued = await rowhouse.call('POST', `/projects/${project.slug}/keys`, { key: project.key, body });
  expect(issued.status, JSON.stringify(issued.body)).toBe(201);
  return issued.body.api_key as string;
};
/** A direct connection. */
async function direct<T>(project: Project, act: (database: Database) => Promise<T>, max = 1): Promise<T> {
  const { server } = rowhouse.service.deps;
  const login = loginOf(server, { id: project.id, passwordVersion: 1 });
  const database = openDatabase(login, { max });
  try {
    return await act(database);
  } finally {
    await database.end();
  }
}
const sizeNow = async ({ id }: Project) => {
  const rows = await asAdmin((admin) =>
    admin.query<{ bytes: number }>(sql`select pg_database_size(${databaseOf(id)})::float8 as bytes`),
  );
  return rows[0]?.bytes;
};
const tableOf = ({ tables }: UsageResponse['usage'], name: string) =>
  tables.find((table) => table.name === name);

describe('the usage of a project', () => {
  it('is zero when it is new', async () => {
    const project = await rowhouse.project('New');
    const { body } = await usage(project);
    expect(Compile(UsageResponse).Check(body)).toBe(true);
    expect(body.usage).toMatchObject({
      limit_mb: 512,
      size_mb: 0,
      headroom_mb: 512,
      status: 'ready',
      other_bytes: 0,
      tables: [],
      table_count: 0,
      tables_truncated: false,
    });
    expect(Math.abs(Date.parse(body.usage.measured_at) - Date.now())).toBeLessThan(60_000);
  });

  it("lists tables by PostgreSQL's sizes, largest first", async () => {
    const project = await rowhouse.project('Tables');
    for (const statement of [
      'create table large (id int primary key, note text)',
      `insert into large select n, repeat('x', 300) from generate_series(1, 20000) as n`,
      'create index on large (note, id)',
      'create table long (body text)',
      'alter table long alter body set storage external',
      `insert into long select repeat(n::text, 20000) from generate_series(1, 40) as n`,
      'create table empty (id int)',
      'create unlogged table "Ünlögged ""quoted"" \'名前\' 🏠" as select 1 as one',
      'create schema "Ä.b"',
      'create table "Ä.b"."__proto__" as select 1 as one',
      'create materialized view seen as select id from large',
      'create view only_looked_at as select id from large',
      'create sequence counter',
    ])
      await run(project, statement);
    await run(project, 'vacuum analyze');
    const found = await usageOf(project);
    expect(found.tables.map(({ name }) => name)).toEqual([
      ...['large', 'long', 'seen', 'Ünlögged "quoted" \'名前\' 🏠', '__proto__', 'empty'],
    ]);
    const facts = await run(
      project,
      `select relname as name, pg_total_relation_size(oid) as total, pg_indexes_size(oid) as indexes,
              pg_total_relation_size(nullif(reltoastrelid, 0)) as toast, reltuples::int as rows
       from pg_class where relkind in ('r', 'm') and relnamespace = any (array['public', '"Ä.b"']::regnamespace[])`,
    );
    expect(facts.length).toBe(6);
    for (const { name, total, indexes, toast, rows } of facts) {
      expect(tableOf(found, name), name).toMatchObject({
        total_bytes: total,
        index_bytes: indexes,
        toast_bytes: toast ?? 0,
        heap_bytes: total - indexes - (toast ?? 0),
        row_estimate: rows,
      });
    }
    expect(tableOf(found, 'large')).toMatchObject({ schema: 'public', kind: 'table', row_estimate: 20_000 });
    expect(tableOf(found, 'seen')?.kind).toBe('materialized_view');
    expect(tableOf(found, '__proto__')?.schema).toBe('Ä.b');
    const parts =
      found.tables.reduce((sum, table) => sum + table.total_bytes, 0) +
      found.users_bytes +
      found.large_objects_bytes +
      found.other_bytes;
    // What users and large objects take in an empty project is in their parts alone.
    expect(parts / mb - found.size_mb).toBeGreaterThan(-0.01);
    expect(parts / mb - found.size_mb).toBeLessThan(0.3);
  });

  it('counts partitions with their table, however deep', async () => {
    const project = await rowhouse.project('Partitions');
    for (const statement of [
      'create table events (id int, at int) partition by range (at)',
      'create table events_1 partition of events for values from (0) to (10)',
      'create table events_2 partition of events for values from (10) to (20) partition by list (id)',
      'create table events_2_1 partition of events_2 for values in (1)',
      'create index on events (id)',
      'insert into events select 1, n % 20 from generate_series(1, 5000) as n',
    ])
      await run(project, statement);
    expect((await usageOf(project)).tables).toMatchObject([{ name: 'events', row_estimate: null }]);
    await run(project, 'analyze events_1');
    await run(project, 'analyze events_2_1');
    const { tables, table_count } = await usageOf(project);
    const [{ total }] = await run(
      project,
      `select sum(pg_total_relation_size(relid))::int as total from pg_partition_tree('events') where isleaf`,
    );
    expect([table_count, tables.length]).toEqual([1, 1]);
    expect(tables[0]).toMatchObject({ kind: 'partitioned', row_estimate: 5000, total_bytes: total });
    expect(tables[0]?.index_bytes).toBeGreaterThan(0);
  });

  it('has users, large objects and the rest', async () => {
    const project = await rowhouse.project('Rest');
    const before = await usageOf(project);
    for (let n = 0; n < 3; n++) {
      const body = {
        email: `u${n}@example.com`,
        password: 'long enough',
        data: { text: 'x'.repeat(60_000) },
      };
      const { status } = await rowhouse.call('POST', `/projects/${project.slug}/auth/signup`, {
        key: project.key,
        body,
      });
      expect(status).toBe(201);
    }
    await run(project, `select lo_from_bytea(0, decode(repeat('ab', 2000000), 'hex'))`);
    await run(project, `do $$ begin for n in 1..200 loop execute 'create sequence s' || n; end loop; end $$`);
    const after = await usageOf(project);
    expect(after.users_bytes).toBeGreaterThan(before.users_bytes);
    expect(after.large_objects_bytes - before.large_objects_bytes).toBeGreaterThan(10_000);
    expect(after.other_bytes).toBeGreaterThan(200 * 8192);
    expect(after.table_count).toBe(0);
  });

  it('is available at once for a full project', async () => {
    const project = await rowhouse.project('Full');
    await run(project, `create table t as select repeat('x', 1000) as text from generate_series(1, 3000)`);
    await rowhouse.call('PATCH', `/projects/${project.slug}`, { body: { limit_mb: 1 } });
    const { size_mb: size, ...found } = await usageOf(project);
    expect(found).toMatchObject({ limit_mb: 1, headroom_mb: 0, status: 'full' });
    expect(size).toBeGreaterThan(2);
    await run(project, 'drop table t');
    expect(await usageOf(project)).toMatchObject({ status: 'ready', tables: [] });
  });

  it('lists the largest of more than a thousand tables, and their number', async () => {
    const project = await rowhouse.project('Many');
    await run(
      project,
      `do $$ begin for n in 1..1100 loop execute 'create table t' || n || ' (id int)'; end loop; end $$`,
    );
    await run(project, 'insert into t1050 values (1)');
    const found = await usageOf(project);
    expect([found.table_count, found.tables_truncated, found.tables.length]).toEqual([1100, true, 1000]);
    expect(found.tables[0]).toMatchObject({ name: 't1050', total_bytes: 8192 });
    const key = await issueKey(project, { name: 'k', scopes: ['tables:read'], tables: ['t7', 'public.t9'] });
    const { body } = await usage(project, '', key);
    expect(body.usage.tables.map(({ name }: { name: string }) => name)).toEqual(['t7', 't9']);
    expect(body.usage).toMatchObject({ table_count: 2, tables_truncated: false });
    expect(body.usage.other_bytes).toBeGreaterThan(found.other_bytes);
  });
});

describe('the usage of a hostile project', () => {
  it('does not fail when tables come and go meanwhile', { tags: 'long' }, async () => {
    const project = await rowhouse.project('Fleeting');
    await run(
      project,
      `do $$ begin for n in 1..100 loop execute 'create table k' || n || ' (id int primary key, t text)'; end loop; end $$`,
    );
    let going = true;
    const churn = direct(project, async (database) => {
      for (let n = 0; going; n++) {
        await database.query(
          sql.script(`create table c${n} (id int primary key, t text); insert into c${n} values (1, 'x')`),
        );
        await database.query(sql.script(`drop table c${n}; drop table if exists k${(n % 100) + 1}`));
      }
    });
    for (let n = 0; n < 40; n++) {
      const { status, body } = await usage(project);
      expect([status, body.error]).toEqual([200, undefined]);
    }
    going = false;
    await churn;
  });

  it('does not wait for locked tables and indexes', async () => {
    const project = await rowhouse.project('Locked');
    for (const statement of [
      'create table a (id int primary key, body text)',
      'alter table a alter body set storage external',
      `insert into a select n, repeat(md5(n::text), 200) from generate_series(1, 1000) as n`,
      'create table b (id int primary key)',
      'insert into b select generate_series(1, 1000)',
      'create table c (id int)',
    ])
      await run(project, statement);
    await run(project, 'vacuum analyze');
    const before = await usageOf(project);
    await direct(project, (database) =>
      database.transaction(async (transaction) => {
        await transaction.query(sql`lock table a in access exclusive mode`);
        await transaction.query(sql`reindex index b_pkey`);
        const { tables } = await usageOf(project);
        // As far as it is known without opening them: not their maps, and of the index of long values little.
        const near = (one = 0, other = 0) => expect(Math.abs(one - other)).toBeLessThan(256 * 1024);
        for (const name of ['a', 'b', 'c']) {
          const [now, then] = [tables.find((table) => table.name === name), tableOf(before, name)];
          near(now?.heap_bytes, then?.heap_bytes);
          near(now?.index_bytes, then?.index_bytes);
          near(now?.toast_bytes, then?.toast_bytes);
        }
        expect(tables.find(({ name }) => name === 'a')?.toast_bytes).toBeGreaterThan(5 * mb);
      }),
    );
  });

  it('does not delay others, whatever the project does', async () => {
    const project = await rowhouse.project('Shadows');
    for (const statement of [
      'create table traces (by text)',
      `create function trace() returns bigint language plpgsql as $$ begin insert into public.traces values (current_user); return 0; end $$`,
      `create function public.pg_relation_size(oid, text) returns bigint language sql as 'select public.trace()'`,
      `create function public.pg_database_size(name) returns bigint language sql as 'select public.trace()'`,
      `create function public.same(name, text) returns boolean language sql as 'select public.trace() = 0'`,
      'create operator public.= (leftarg = name, rightarg = text, function = public.same)',
      'create table public.pg_class as select 1 as oid',
      'create view public.pg_locks as select public.trace()',
      `create index on traces ((length(by)))`,
    ])
      await run(project, statement);
    await direct(project, async (database) => {
      const role = sql.id(roleOf(project.id));
      for (const [name, value] of [
        ['search_path', 'public, pg_catalog'],
        ['statement_timeout', '1'],
        ['default_transaction_read_only', 'on'],
      ] as const) {
        await database.query(sql`alter role ${role} set ${sql.id(name)} = ${sql.literal(value)}`);
      }
    });
    const { tables } = await usageOf(project);
    expect(tables.map(({ name }) => name).sort()).toEqual(['pg_class', 'traces']);
    expect(tableOf(await usageOf(project), 'traces')).toMatchObject({ heap_bytes: 0 });
  });

  it('is available when all its connections are in use', { tags: 'long' }, async () => {
    const project = await rowhouse.project('Crowded');
    await direct(
      project,
      async (database) => {
        await database.query(sql`create table t as select 1 as one`);
        await asAdmin((admin) =>
          admin.query(sql`alter role ${sql.id(roleOf(project.id))} connection limit 2`),
        );
        const sleeping = [1, 2].map(() => database.query(sql`select pg_sleep(2)`));
        await until('both are in use', async () => {
          const [row] = await asAdmin((admin) =>
            admin.query<{ count: number }>(sql`
              select count(*)::int as count from pg_stat_activity
              where usename = ${roleOf(project.id)} and state = 'active'`),
          );
          return row?.count === 2;
        });
        expect((await usageOf(project)).table_count).toBe(1);
        await Promise.all(sleeping);
      },
      2,
    );
  });

  it('works again after its role changed the password', async () => {
    const project = await rowhouse.project('Changed password');
    await asAdmin((admin) =>
      admin.query(sql`alter role ${sql.id(authRoleOf(project.id))} password 'another one'`),
    );
    expect((await usageOf(project)).table_count).toBe(0);
  });

  it('is measured once for many requests, and one project cannot use all places', async () => {
    const [one, other] = [await rowhouse.project('Asked'), await rowhouse.project('Asked too')];
    await run(one, 'create table a (id int)');
    const { usageLooks, server } = rowhouse.service.deps;
    const placeOf = ({ id }: { id: string }) => ({ id, account_id: '', server_id: server.id });
    const looks = [null, null, ['a'], ['a'], ['b']].map((tables) => usageLooks.look(placeOf(one), tables));
    const results = await Promise.allSettled([...looks, usageLooks.look(placeOf(other), null)]);
    expect(results.map(({ status }) => status === 'fulfilled')).toEqual([
      true,
      true,
      true,
      true,
      false,
      true,
    ]);
    expect(results[4]).toMatchObject({ reason: { code: 'overloaded', retryAfterS: 2 } });
    const [first, second] = results.map((result) => result.status === 'fulfilled' && result.value);
    expect(second).toBe(first);
    const answers = await Promise.all(Array.from({ length: 30 }, () => usage(one)));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
  });
});

describe('requests for the usage', () => {
  let project: Project;
  beforeAll(async () => {
    project = await rowhouse.project('Asking');
  });

  it('work with every key of the project except publishable ones', async () => {
    const scoped = await issueKey(project, { name: 'q', scopes: ['query:read'] });
    const publishable = await issueKey(project, { name: 'p', kind: 'publishable' });
    const other = await rowhouse.project('Somebody else');
    const statusOf = async (key: string) => (await usage(project, '', key)).status;
    expect(await statusOf(rowhouse.accountKey)).toBe(200);
    expect(await statusOf(scoped)).toBe(200);
    expect(await statusOf(publishable)).toBe(403);
    expect(await statusOf(other.key)).toBe(404);
    expect(await statusOf('')).toBe(401);
    expect((await usage(other, '', publishable)).status).toBe(404);
    expect((await rowhouse.call('POST', `/projects/${project.slug}/usage`)).status).toBe(405);
  });

  it('get 404 for a deleted or unknown project', async () => {
    const { slug, key, id } = await rowhouse.project('Leaving');
    await rowhouse.call('DELETE', `/projects/${slug}`);
    expect((await usage({ slug, key, id }, '', rowhouse.accountKey)).body.error.code).toBe(
      'project_not_found',
    );
    for (const name of ['nowhere', '__proto__', '..%2f', '%00']) {
      expect((await rowhouse.call('GET', `/projects/${name}/usage`)).status).toBe(404);
    }
  });

  it.each([
    ...['points=0', 'points=1001', 'points=2.5', 'points=', 'points=a', 'points=1&points=2'],
    ...[
      'since=yesterday',
      'since=',
      'since=2026-13-01T00:00:00Z',
      'since=2026-11-14',
      'since=2026-11-14T00:00:00',
    ],
    ...['since=2026-11-14T00:00:00+02:00', 'since=2016-12-31T23:59:60Z', 'limit=5', '__proto__=1'],
  ])('refuse ?%s and say why', async (search) => {
    const { status, body } = await usage(project, `?${search}`);
    expect([status, body.error?.code]).toEqual([400, 'invalid_request']);
    expect(body.error.details[0].path).toBe(search.split('=')[0]);
  });

  it.each(['since=0000-01-01T00:00:00Z', 'since=9999-12-31T23:59:59Z', 'since=2026-11-14T00:00:00%2B02:00'])(
    'accept ?%s',
    async (search) => {
      expect((await usage(project, `?points=1&${search}`)).status).toBe(200);
    },
  );
});

describe('the size of a project', () => {
  const sizeOf = async ({ slug, key }: Project) =>
    (await rowhouse.call('GET', `/projects/${slug}`, { key })).body.project.size_mb as number;
  const kept = async ({ id }: Project) => {
    const rows = await rowhouse.service.deps.control.query<{ bytes: number }>(
      sql`select size_bytes::float8 as bytes from projects where id = ${id}`,
    );
    return rows[0]?.bytes;
  };
  const deps = () => ({ control: rowhouse.service.deps.control, server: rowhouse.service.deps.server });
  const projects: Project[] = [];
  beforeAll(async () => {
    for (let n = 0; n < 20; n++) projects.push(await rowhouse.project(`Busy ${n}`));
  });

  it('is known after each statement, and while one still runs', async () => {
    const project = await rowhouse.project('Fresh');
    await run(project, 'create table t (body text)');
    // PostgreSQL's own counters tell of the first of these at once, and of the next ones up to ten seconds later.
    for (let n = 1; n <= 4; n++) {
      await run(project, `insert into t select repeat('x', 500) from generate_series(1, 5000)`);
      await refreshSizes(deps());
      expect(await kept(project)).toBe(await sizeNow(project));
    }
    await direct(project, (database) =>
      database.transaction(async (transaction) => {
        for (let n = 1; n <= 2; n++) {
          const before = await sizeOf(project);
          await transaction.query(sql`insert into t select repeat('x', 500) from generate_series(1, 5000)`);
          await refreshSizes(deps());
          expect(await sizeOf(project)).toBeGreaterThan(before + 2);
        }
      }),
    );
  });

  it('costs one query for all idle projects, and a few statements at a time for many active ones', async () => {
    const { server, statements, most } = watch(rowhouse.service.deps.server);
    const refresh = () => refreshSizes({ ...deps(), server });
    const runAll = () =>
      Promise.all(projects.map((project) => run(project, 'create table if not exists t (id int)')));
    await runAll();
    await until('all is quiet', async () => {
      statements.length = 0;
      return (await refresh()) === 0 && statements.length === 1;
    });
    await runAll();
    await until('all are measured', async () => {
      await refresh();
      return (await outdated(projects)).length === 0;
    });
    expect(most()).toBeLessThanOrEqual(4);
  });

  it('that is slow to measure does not delay others', { tags: 'long' }, async () => {
    const [slow, ...others] = projects as [Project, ...Project[]];
    const gate = openGate();
    const { server } = watch(rowhouse.service.deps.server, ({ values: [names] }) =>
      Array.isArray(names) && names.includes(databaseOf(slow.id)) ? gate.passed : null,
    );
    const refresh = () => refreshSizes({ ...deps(), server });
    for (let turn = 1; turn <= 3; turn++) {
      await Promise.all(
        projects.map((project) => run(project, `create table turn${turn} as select 1 as one`)),
      );
      await until('all others are measured', async () => {
        await refresh();
        return (await outdated(others)).length === 0;
      });
    }
    expect(await outdated([slow])).toEqual([slow]);
    gate.open();
    await sizesSettled(server);
    await until('it is measured too', async () => {
      await refresh();
      return (await outdated([slow])).length === 0;
    });
  });

  /** Those whose size is not the one that is kept. */
  async function outdated(some: Project[]): Promise<Project[]> {
    const found: Project[] = [];
    for (const project of some) if ((await kept(project)) !== (await sizeNow(project))) found.push(project);
    return found;
  }
});

describe("the history of a project's size", () => {
  const minute = 60_000;
  const hour = 60 * minute;
  const day = 24 * hour;
  const control = () => rowhouse.service.deps.control;
  const setSize = (project: Project, bytes: number) =>
    control().query(
      sql`update projects set size_bytes = empty_bytes + ${bytes}::float8::bigint where id = ${project.id}`,
    );
  const record = (at: number) => recordUsage({ control: control(), now: () => at });
  const forget = (at: number) => forgetOldUsage({ control: control(), now: () => at });
  const historyOf = async (project: Project, search = '?points=1000') => {
    const { status, body } = await usage(project, search);
    expect(status, JSON.stringify(body)).toBe(200);
    return body.history as UsageResponse['history'];
  };
  const sizes = (history: UsageResponse['history']) => history.map(({ size_mb: size }) => size);
  const pointsOf = async (project: Project) =>
    (
      await control().query<{ at: Date }>(
        sql`select at from usage_points where project_id = ${project.id} order by at`,
      )
    ).map(({ at }) => at.getTime());

  it('begins with its creation, and has a point every five minutes while the size changes', async () => {
    const project = await rowhouse.project('Noted');
    const { created_at: created } = (await rowhouse.call('GET', `/projects/${project.slug}`)).body.project;
    // The database knows it to the microsecond.
    const start = Date.parse(created) + 1;
    await setSize(project, mb);
    await record(start + 1000);
    expect(await historyOf(project)).toEqual([{ at: created, size_mb: 0 }]);
    for (const [after, size] of [
      [minute, 1],
      [5 * minute, 2],
      [6 * minute, 3],
      [9 * minute, 4],
      [10 * minute + 1, 4],
      [30 * minute, 4],
      [31 * minute, 5],
    ] as const) {
      await setSize(project, size * mb);
      await record(start + after);
    }
    expect(await historyOf(project)).toEqual(
      (
        [
          [-1, 0],
          [5 * minute, 2],
          [10 * minute + 1, 4],
          [31 * minute, 5],
        ] as const
      ).map(([after, size]) => ({ at: new Date(start + after).toISOString(), size_mb: size })),
    );
  });

  it('has the last change when its five minutes are over', async () => {
    const project = await rowhouse.project('Resting');
    const start = Date.now();
    await record(start);
    await setSize(project, 3 * mb);
    await record(start + minute);
    expect(sizes(await historyOf(project))).toEqual([0]);
    await record(start + 6 * minute);
    expect(sizes(await historyOf(project))).toEqual([0, 3]);
  });

  it('shows at once that a project became full or is no longer full', async () => {
    const project = await rowhouse.project('Filling');
    // Not by PATCH, which would measure it.
    const limit = (mbs: number) =>
      rowhouse.service.deps.control.query(
        sql`update projects set limit_mb = ${mbs} where id = ${project.id}`,
      );
    const start = Date.now() + 1000;
    await limit(10);
    await record(start);
    // Full from 8.6 MB on.
    for (const size of [5, 10, 11, 8.5, 8]) {
      await setSize(project, size * mb);
      await record(start + size);
    }
    expect(sizes(await historyOf(project))).toEqual([0, 10, 8.5]);
    await limit(7);
    await record(start + 100);
    await limit(70);
    await record(start + 200);
    expect(sizes(await historyOf(project))).toEqual([0, 10, 8.5, 8, 8]);
    // A clock that is set back brings nothing out of order.
    await limit(8);
    await record(start - hour);
    const history = await historyOf(project);
    expect(history.length).toBe(6);
    expect(history.at(-1)?.at).toBe(new Date(start + 201).toISOString());
  });

  it('keeps five-minute points for a day, hourly for 30 days, daily for two years', {
    tags: 'long',
  }, async () => {
    const project = await rowhouse.project('Old');
    await record(Date.now());
    const [born = 0] = await pointsOf(project);
    // At noon, UTC, some days after its creation.
    const start = Math.ceil(born / day) * day + 2 * day + day / 2;
    let now = start;
    let size = 0;
    const grow = async (step: number, until: number) => {
      for (; now < until; now += step) {
        await setSize(project, (++size % 500) * 1024);
        await record(now);
      }
      await forget(now);
    };
    const countOlder = async (least: number, most: number) =>
      (await pointsOf(project)).filter((at) => now - at > least && now - at <= most).length;

    await grow(5 * minute, start + 1.5 * day);
    expect(await countOlder(0, day - 5 * minute)).toBe(287);
    // One an hour.
    expect(await countOlder(day + hour, 2 * day)).toBe(11);
    await grow(2 * hour, start + 33 * day);
    expect(await countOlder(day + 2 * hour, 30 * day - 2 * hour)).toBe(29 * 12 - 2);
    // One a day, and the creation.
    expect(await countOlder(30 * day + 2 * hour, 1000 * day)).toBe(4);
    await grow(8 * hour, start + 133 * day);
    expect(await countOlder(31 * day, 132 * day)).toBe(101);
    await grow(3 * day, start + 800 * day);
    expect(await countOlder(670 * day, 730 * day)).toBeGreaterThan(55);
    expect(await countOlder(730 * day, 1000 * day)).toBe(0);

    // What the project had at the end of a day is what is left of it; and the newest point is never thinned.
    const history = await historyOf(project);
    for (const { at } of history.slice(0, 50)) expect(Date.parse(at) % day).toBe(20 * hour);
    await forget(now + 5_000 * day);
    expect(await historyOf(project)).toEqual([history.at(-1)]);
  });

  it('keeps closer points for an hour', async () => {
    const project = await rowhouse.project('Flapping');
    await rowhouse.call('PATCH', `/projects/${project.slug}`, { body: { limit_mb: 1 } });
    await record(Date.now());
    const start = Math.ceil(Date.now() / day) * day + hour;
    for (let n = 0; n < 20; n++) {
      await setSize(project, n % 2 === 0 ? 2 * mb : 0);
      await record(start + n * 2000);
    }
    expect((await pointsOf(project)).length).toBe(21);
    await forget(start + 2 * hour);
    expect((await pointsOf(project)).length).toBe(2);
  });

  it('is returned from a given time in the requested number of points, evenly', async () => {
    const project = await rowhouse.project('Plotted');
    await record(Date.now());
    const start = Date.now() + hour;
    await control().query(sql`
      insert into usage_points (project_id, at, size_bytes, expires_at)
      select ${project.id}, to_timestamp(${start}::float8 / 1000) + n * interval '10 minutes', n * 1048576, null
      from generate_series(0, 1499) as n`);
    const since = `since=${new Date(start).toISOString()}`;
    for (const points of [2, 3, 7, 100, 999, 1000]) {
      const history = await historyOf(project, `?${since}&points=${points}`);
      expect(history.length).toBe(points);
      expect([history[0]?.size_mb, history.at(-1)?.size_mb]).toEqual([0, 1499]);
      const steps = history.slice(1).map(({ size_mb: size }, index) => size - (history[index]?.size_mb ?? 0));
      expect(Math.max(...steps) - Math.min(...steps)).toBeLessThanOrEqual(1);
    }
    expect(sizes(await historyOf(project, `?${since}&points=1`))).toEqual([1499]);
    expect((await historyOf(project, '')).length).toBe(200);
    const late = `since=${new Date(start + 1490 * 10 * minute + 1).toISOString()}`;
    expect(sizes(await historyOf(project, `?${late}`))).toEqual([
      1491, 1492, 1493, 1494, 1495, 1496, 1497, 1498, 1499,
    ]);
    expect(await historyOf(project, '?since=9999-01-01T00:00:00Z')).toEqual([]);
  });

  it('is deleted with its project, and costs one statement for all idle projects', {
    tags: 'long',
  }, async () => {
    const project = await rowhouse.project('Gone for good');
    await record(Date.now());
    expect((await pointsOf(project)).length).toBe(1);
    await control().query(sql`delete from projects where id = ${project.id}`);
    expect(await pointsOf(project)).toEqual([]);

    await control().transaction(async (transaction) => {
      await transaction.query(sql`
        insert into projects (id, account_id, server_id, slug, name, limit_mb, template, empty_bytes, size_bytes,
                              noted_at, noted_bytes, noted_full)
        select 'resting' || n, account_id, server_id, 'resting-' || n, 'R', 1, template, 0, 0, now(), 0, false
        from (select account_id, server_id, template from projects limit 1) as one, generate_series(1, 10000) as n`);
      await transaction.query(sql`analyze projects`);
      let statements = 0;
      const plans: string[] = [];
      const query: Control['query'] = async (statement) => {
        statements++;
        plans.push(JSON.stringify(await transaction.query(sql`explain ${statement}`)));
        return transaction.query(statement);
      };
      const deps = { control: { ...control(), query }, now: () => Date.now() + day };
      expect(await recordUsage(deps)).toBeLessThan(100);
      await forgetOldUsage(deps);
      expect(statements).toBe(2);
      expect(plans[0]).toContain('Index Scan using projects_to_note');
      // In the order of the index: a sort would read every project first.
      expect(plans[0]).not.toContain('Sort');
      await transaction.query(sql`update projects set size_bytes = 5 where id like 'resting%'`);
      // So many at a time, and all in the end.
      const batches = [];
      for (let added = -1; added !== 0; batches.push(added)) added = await recordUsage(deps);
      expect(Math.max(...batches)).toBe(500);
      expect(batches.reduce((sum, added) => sum + added)).toBe(10_000);
      await transaction.query(sql`delete from projects where id like 'resting%'`);
    });
  });
});

describe('usage with background work', () => {
  let laterMs = 0;
  const kept = useTestService({ now: () => Date.now() + laterMs });

  it('is measured and recorded without requests', { tags: 'long' }, async () => {
    const { slug, key } = await kept.project('By itself');
    const look = async () => (await kept.call('GET', `/projects/${slug}/usage`, { key })).body;
    await until('its creation is noted', async () => (await look()).history.length === 1);
    const query = `create table t as select repeat('x', 1000) as text from generate_series(1, 3000)`;
    await kept.call('POST', `/projects/${slug}/query`, { key, body: { query } });
    const { size_mb: size } = (await look()).usage;
    expect(size).toBeGreaterThan(3);
    await until('the size is seen', async () => {
      const { body } = await kept.call('GET', `/projects/${slug}`, { key });
      return body.project.size_mb >= size;
    });
    expect((await look()).history.length).toBe(1);
    laterMs = 6 * 60_000;
    const history = await until('it is noted', async () => {
      const { history: points } = await look();
      return points.length === 2 && points;
    });
    expect(history[1].size_mb).toBeGreaterThanOrEqual(size);
  });
});

it('metrics show the total size, the fullest project and the refusals of all processes', async () => {
  const project = await rowhouse.project('Measured');
  const { control, countRefused } = rowhouse.service.deps;
  await control.query(sql`
    update projects set limit_mb = 4, size_bytes = empty_bytes + 5 * 1048576 where id = ${project.id}`);
  countRefused('project_full');
  countRefused('project_full');
  const [{ bytes } = { bytes: 0 }] = await control.query<{ bytes: number }>(sql`
    select sum(greatest(0, size_bytes - empty_bytes))::float8 as bytes from projects where deleted_at is null`);
  const text = (await rowhouse.call('GET', '/metrics', { key: '' })).body as string;
  expect(text).toContain(`rowhouse_projects_bytes ${bytes}\n`);
  expect(text).toMatch(/^rowhouse_projects_full [1-9]\d*$/m);
  expect(Number(/^rowhouse_nearest_to_full_ratio (\S+)$/m.exec(text)?.[1])).toBeGreaterThanOrEqual(1.25);
  expect(text).toContain('rowhouse_writes_refused_total{reason="project_full"} 2\n');
  expect(text).toContain('rowhouse_writes_refused_total{reason="server_full"} 0\n');

  const workers = [1, 2].map((times) => {
    const { count, counts } = countRefusals();
    for (let n = 0; n < times; n++) count('server_full');
    const counter = { help: 'Refused.', label: 'reason', read: counts };
    return createMetrics({}, { rowhouse_writes_refused_total: counter });
  });
  const read = async () =>
    AggregatorRegistry.aggregate(
      await Promise.all(workers.map(({ registry }) => registry.getMetricsAsJSON())),
    ).metrics();
  await read();
  expect(await read()).toContain('rowhouse_writes_refused_total{reason="server_full"} 3\n');
});

/** A server whose statements are noted, and wait where `hold` says so; they all run on the real one. */
function watch(server: Server, hold: (statement: Sql) => Promise<void> | null = () => null) {
  const statements: string[] = [];
  let running = 0;
  let most = 0;
  const query: Database['query'] = async (statement) => {
    statements.push(statement.text);
    most = Math.max(most, ++running);
    try {
      await hold(statement);
      return await server.maintenance.query(statement);
    } finally {
      running--;
    }
  };
  return {
    server: { ...server, maintenance: { ...server.maintenance, query } },
    statements,
    most: () => most,
  };
}

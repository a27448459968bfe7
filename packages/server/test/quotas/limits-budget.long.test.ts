// Whatever bounded inserts do, and whatever happens beside them: no project exceeds its limit, and its neighbour notices nothing.
import { randomBytes, randomInt } from 'node:crypto';
import pg from 'pg';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { openSecondProcess, until, useTestService } from '../support/helpers.ts';
import { launch, newAccountKey, newDataFolder } from '../support/process.ts';
import { countGrants, fillUp, newSmallProject, type SmallProject, untilGranted } from './small-projects.ts';

const rowhouse = useTestService({ connections: { budget: 20, share: 6 } });
let neighbour: SmallProject;
let grants: { count: number };
const clients: pg.Client[] = [];

beforeAll(async () => {
  grants = countGrants(rowhouse);
  neighbour = await newSmallProject(rowhouse, 64);
  await neighbour.fine('create table t (a int)');
});
afterEach(async () => {
  await Promise.all(clients.splice(0).map((client) => client.end().catch(() => {})));
  await neighbour.fine('insert into t values (1)');
});

const connect = async ({ slug }: SmallProject): Promise<pg.Client> => {
  const { body } = await rowhouse.call('GET', `/projects/${slug}/connection`);
  const client = new pg.Client({ connectionString: body.connection.url });
  client.on('error', () => {});
  await client.connect();
  clients.push(client);
  return client;
};
const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
/** Hardly compressible. */
const text = (bytes: number) =>
  randomBytes(Math.ceil(bytes / 2))
    .toString('hex')
    .slice(0, bytes);
const numbers = (count: number) => Array.from({ length: count }, () => randomInt(2 ** 47));

describe('inserts alone fill a project up to its limit and not beyond:', () => {
  const limitMb = 24;
  const columns = Array.from({ length: 10 }, (_, n) => `c${n}`);
  const tenIndexes = [
    `create table t (${columns.map((name) => `${name} bigint`).join(', ')})`,
    `insert into t select ${columns.map(() => '(random() * 1e14)::bigint').join(', ')} from generate_series(1, 20000)`,
    ...columns.map((name) => `create index on t (${name}) with (fillfactor = 100)`),
  ];
  const cases: [
    string,
    string[],
    (project: SmallProject) => Promise<Awaited<ReturnType<SmallProject['run']>>>,
  ][] = [
    [
      'rows around the size from which they are stored out of line',
      ['create table t (a int, b text)', 'alter table t alter b set storage external'],
      (project) => project.run('insert into t values ($1, $2)', [1, text(randomInt(1_900, 2_200))]),
    ],
    [
      'values out of line',
      ['create table t (a int, b text, c text)', 'alter table t alter b set storage external'],
      (project) => project.add('t', { a: 1, b: text(randomInt(10_000)), c: text(3_000) }),
    ],
    [
      'random keys in full pages of ten indexes',
      tenIndexes,
      (project) => {
        const row = (first: number) => `(${columns.map((_, n) => `$${first + n + 1}`).join(', ')})`;
        return project.run(`insert into t values ${row(0)}, ${row(10)}`, numbers(20));
      },
    ],
    [
      'random long keys',
      ['create table t (a text primary key)', 'create index on t (a) with (fillfactor = 100)'],
      (project) => project.run('insert into t values ($1)', [text(randomInt(500, 2_500))]),
    ],
    [
      'a table with a page for each row',
      ['create table t (a int, b text) with (fillfactor = 10)', 'alter table t alter b set storage plain'],
      (project) => project.run('insert into t values ($1, $2)', [1, text(randomInt(10, 4_000))]),
    ],
    [
      'JSON that is stored in many times its size',
      ['create table t (a jsonb)', 'alter table t alter a set storage external'],
      (project) => project.run('insert into t values ($1)', [`[${Array(randomInt(500)).fill(1).join(',')}]`]),
    ],
  ];
  it.each(cases)('%s', async (_name, prepare, insert) => {
    const project = await newSmallProject(rowhouse, limitMb);
    for (const query of prepare) await project.fine(query);
    const before = grants.count;
    const { peak, done } = await fillUp(project, () => insert(project));
    expect(grants.count - before, `of ${done}`).toBeGreaterThan(done / 4);
    expect(peak).toBeLessThanOrEqual(limitMb);
    expect(peak).toBeGreaterThan(limitMb * 0.75);
    expect(await project.storedMb()).toBeLessThanOrEqual(limitMb);
    await project.fine('select count(*) from t');
  });
});

describe('beside a stream of inserts', () => {
  const limitMb = 32;
  const bulk = (mb: number) =>
    `insert into other select n, repeat(md5(n::text), 30) from generate_series(1, ${mb * 1000}) as n`;
  /** Inserts all the time while `act` runs, and then until the project is full. */
  const during = async (project: SmallProject, act: () => Promise<unknown>) => {
    await project.fine('create table t (id bigint generated always as identity primary key, a text)');
    await project.fine('create table other (a int, b text)');
    const insert = () => project.run('insert into t (a) values ($1)', [text(1_000)]);
    await untilGranted(grants, insert);
    let isOver = false;
    const codes = new Set<number>();
    const stream = Array.from({ length: 8 }, async () => {
      while (!isOver) codes.add((await insert()).status);
    });
    try {
      await act();
    } finally {
      isOver = true;
    }
    await Promise.all(stream);
    expect([...codes].filter((code) => code !== 200 && code !== 507)).toEqual([]);
    const { peak } = await fillUp(project, insert, { writers: 8 });
    expect(await project.storedMb()).toBeLessThanOrEqual(limitMb);
    return peak;
  };

  it('bulk statements hold the limit together with them', async () => {
    const project = await newSmallProject(rowhouse, limitMb);
    await during(project, async () => {
      for (let refused = 0; refused < 3; ) {
        const { status, body } = await project.run(bulk(4));
        expect([200, 507], JSON.stringify(body)).toContain(status);
        expect(await project.storedMb()).toBeLessThanOrEqual(limitMb + 32);
        if (status === 507) refused++;
      }
    });
  });

  it('triggers that appear in the middle add nothing beyond the limit', async () => {
    const project = await newSmallProject(rowhouse, limitMb);
    const more = `create or replace function more() returns trigger language plpgsql as $$ begin
      insert into other select n, repeat(md5(n::text), 30) from generate_series(1, 2000) as n; return new; end $$`;
    await during(project, async () => {
      await project.fine(more);
      await sleep(300);
      await project.run('create trigger more after insert on t for each row execute function more()');
      await sleep(500);
      await project.run('drop trigger if exists more on t');
      await project.run('truncate other');
      await sleep(300);
      // A direct session leaves before the next measurement.
      const client = await connect(project);
      await client.query('create trigger more after insert on t for each row execute function more()');
      await client.end();
      await sleep(500);
      expect(await project.storedMb()).toBeLessThanOrEqual(limitMb + 32);
      await project.run('drop trigger more on t');
    });
  });

  it('defaults, indexes and policies that appear in the middle count', async () => {
    const project = await newSmallProject(rowhouse, limitMb);
    await during(project, async () => {
      const client = await connect(project);
      await client.query("alter table t add column more text default repeat('x', 3000)");
      await client.query('alter table t alter more set storage external');
      await sleep(200);
      await client.query('create index on t using gin (to_tsvector($$simple$$, a))');
      await sleep(200);
      await client.query('alter table t enable row level security');
      await client.query('create policy p on t using (true) with check (true)');
      await client.end();
      await sleep(300);
    });
  });

  it('a direct session makes every insert be checked while it is there', async () => {
    const project = await newSmallProject(rowhouse, limitMb);
    await during(project, async () => {
      const client = await connect(project);
      await sleep(500);
      const before = grants.count;
      await client.query(bulk(2));
      await sleep(500);
      expect(grants.count).toBe(before);
      await client.end();
      await until('they are free again', () => Promise.resolve(grants.count > before));
    });
  });

  it('a lowered limit holds at once', async () => {
    const project = await newSmallProject(rowhouse, 64);
    let lowered = 64;
    await during(project, async () => {
      lowered = Math.ceil(await project.storedMb()) + 8;
      const { status } = await rowhouse.call('PATCH', `/projects/${project.slug}`, {
        body: { limit_mb: lowered },
      });
      expect(status).toBe(200);
    });
    expect(await project.storedMb()).toBeLessThanOrEqual(lowered);
  });
});

describe('several processes', () => {
  it('check every insert, and hold the limit together', async () => {
    const project = await newSmallProject(rowhouse, 16);
    await project.fine('create table t (a text)');
    const insert = (through = rowhouse) => project.run('insert into t values ($1)', [text(1_500)], through);
    await untilGranted(grants, insert);
    const second = await openSecondProcess(rowhouse);
    try {
      const others = countGrants(second);
      await project.fine('insert into t values ($1)', ['x'], second);
      const before = grants.count;
      let turn = 0;
      const { peak } = await fillUp(project, () => insert(turn++ % 2 === 0 ? rowhouse : second));
      expect([grants.count - before, others.count]).toEqual([0, 0]);
      expect(peak).toBeLessThanOrEqual(16);
      expect(await project.storedMb()).toBeLessThanOrEqual(16);
    } finally {
      await second.stop();
    }
    await project.fine('delete from t');
    await project.fine('vacuum t');
    await untilGranted(grants, () => project.run("insert into t values ('x')"));
  });

  it('of one service, too', async () => {
    const service = await launch({
      ROWHOUSE_DATA: await newDataFolder(),
      ROWHOUSE_ACCOUNT_KEY: newAccountKey(),
      ROWHOUSE_WORKERS: '2',
    });
    const { body } = await service.call('POST', '/projects', { body: { name: 'Shared', limit_mb: 8 } });
    const { slug } = body.project;
    const key = body.api_key;
    const run = (query: string, params: unknown[] = []) =>
      service.call('POST', `/projects/${slug}/query`, { key, body: { query, params } });
    expect((await run('create table t (a text)')).status).toBe(200);
    let refused = 0;
    const write = async () => {
      while (refused < 20) {
        const { status } = await run('insert into t values ($1)', [text(1_500)]);
        expect([200, 507]).toContain(status);
        if (status === 507) refused++;
      }
    };
    await Promise.all(Array.from({ length: 8 }, write));
    const { body: used } = await service.call('GET', `/projects/${slug}/usage`, { key });
    expect(used.usage.size_mb).toBeLessThanOrEqual(8);
    expect(used.usage.size_mb).toBeGreaterThan(6);
  });
});

import pg from 'pg';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { databaseOf } from '../../src/servers/databases/names.ts';
import { until, useTestService } from '../support/helpers.ts';

const rowhouse = useTestService({ spares: 2, connections: { budget: 20, share: 6 } });
const mb = 1024 * 1024;
type Project = { slug: string; id: string; key: string };
let neighbour: Project;
const open: pg.Client[] = [];

const run = (project: Project, query: string) =>
  rowhouse.call('POST', `/projects/${project.slug}/query`, { key: project.key, body: { query } });

async function projectOf(limitMb: number): Promise<Project> {
  const { body } = await rowhouse.call('POST', '/projects', { body: { name: 'Direct', limit_mb: limitMb } });
  return { slug: body.project.slug, id: body.project.id, key: body.api_key };
}

/** As psql or an ORM would come in; with the name of the service's own sessions, where that does not tell them apart. */
async function connect(project: Project, notices: string[] = []): Promise<pg.Client> {
  const { body } = await rowhouse.call('GET', `/projects/${project.slug}/connection`);
  const name = rowhouse.service.deps.server.address.socket ? 'rowhouse query' : 'psql';
  const client = new pg.Client({ connectionString: body.connection.url, application_name: name });
  client.on('error', () => {});
  client.on('notice', (notice) => notices.push(String(notice.message)));
  await client.connect();
  open.push(client);
  return client;
}

afterEach(async () => {
  await Promise.all(open.splice(0).map((client) => client.end().catch(() => {})));
});

/** Megabytes over the limit; negative: room. */
async function overMb(project: Project): Promise<number> {
  const [row] = await rowhouse.service.deps.control.query<{ limit: number }>(sql`
    select (empty_bytes + limit_mb * 1048576::bigint)::float8 as limit from projects where id = ${project.id}`);
  const [size] = await rowhouse.service.deps.server.maintenance.query<{ bytes: number }>(
    sql`select pg_database_size(${databaseOf(project.id)})::float8 as bytes`,
  );
  return ((size?.bytes ?? 0) - (row?.limit ?? 0)) / mb;
}

/** The most it was over while `act` ran, by looks of our own. */
async function peakDuring<T>(project: Project, act: () => Promise<T>): Promise<{ peak: number; result: T }> {
  let peak = Number.NEGATIVE_INFINITY;
  let isOver = false;
  const supervise = (async () => {
    while (!isOver) {
      peak = Math.max(peak, await overMb(project));
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  })();
  const result = await act();
  isOver = true;
  await supervise;
  return { peak, result };
}

const wide = (rows: number) => `select repeat(md5(n::text), 60) as v from generate_series(1, ${rows}) as n`;
const stateOf = (error: unknown) => (error as { code?: string }).code;
const outcome = (work: Promise<unknown>) =>
  work.then(
    () => 'done',
    (error) => stateOf(error) ?? (error as Error).message,
  );

beforeAll(async () => {
  neighbour = await rowhouse.project('Neighbour');
  await run(neighbour, 'create table calm (id int primary key)');
});

describe('a direct connection', () => {
  it('that grows a full project is cancelled, and its space is freed', async () => {
    const project = await projectOf(5);
    const client = await connect(project);
    await client.query('create table t (v text)');
    const { peak, result } = await peakDuring(project, () =>
      outcome(client.query(`insert into t ${wide(400_000)}`)),
    );
    expect(['57014', '57P01']).toContain(result);
    expect(peak).toBeLessThan(32);
    await until('what it left is vacuumed', async () => (await overMb(project)) < -4);
    expect((await run(project, 'select count(*)::int as n from t')).body.rows).toEqual([{ n: 0 }]);
    // And small things still work.
    const again = await connect(project);
    expect(await outcome(again.query(`insert into t ${wide(100)}`))).toBe('done');
  });

  it('that grows a full project is stopped although the process is busy', async () => {
    const project = await projectOf(5);
    const clients = await Promise.all([1, 2, 3, 4].map(() => connect(project)));
    for (const [n, client] of clients.entries()) await client.query(`create table u${n} (v text)`);
    const results = Promise.all(
      clients.map((client, n) => outcome(client.query(`insert into u${n} ${wide(400_000)}`))),
    );
    await new Promise((resolve) => setTimeout(resolve, 5));
    const till = performance.now() + 2_000;
    while (performance.now() < till);
    // Nothing is vacuumed yet: this is what they had got to.
    expect(await overMb(project)).toBeLessThan(32);
    for (const each of await results)
      expect(['57014', '57P01', 'Connection terminated unexpectedly']).toContain(each);
    await until('what they left is vacuumed', async () => (await overMb(project)) < -4);
  });

  it('that builds a hash index with faked statistics is held to the limit', async () => {
    const project = await projectOf(5);
    const client = await connect(project);
    await client.query('create table t (a int)');
    await client.query('insert into t values (1)');
    await client.query(`select pg_restore_relation_stats('schemaname', 'public', 'relname', 't',
                                                         'reltuples', 50000000::real, 'relpages', 1)`);
    const { peak, result } = await peakDuring(project, () =>
      outcome(client.query('create index on t using hash (a)')),
    );
    expect(['57014', '57P01']).toContain(result);
    expect(peak).toBeLessThan(32);
  });

  it('is stopped when four of them write wide rows at once', async () => {
    const project = await projectOf(5);
    const clients = await Promise.all([1, 2, 3, 4].map(() => connect(project)));
    for (const [n, client] of clients.entries()) await client.query(`create table u${n} (v text)`);
    const { peak, result } = await peakDuring(project, () =>
      Promise.all(clients.map((client, n) => outcome(client.query(`insert into u${n} ${wide(400_000)}`)))),
    );
    for (const each of result)
      expect(['57014', '57P01', 'Connection terminated unexpectedly']).toContain(each);
    expect(peak).toBeLessThan(32);
    await until('what they left is vacuumed', async () => (await overMb(project)) < -4);
  });

  it('that commits small pieces and reconnects after each end is held to the limit', async () => {
    const project = await projectOf(3);
    const notices: string[] = [];
    const refusals = new Set<string>();
    await (await connect(project)).query('create table t (v text)');
    const { peak } = await peakDuring(project, async () => {
      const until = Date.now() + 6_000;
      const write = async () => {
        while (Date.now() < until) {
          const client = await connect(project, notices).catch((error) => {
            refusals.add(String(error.message));
            return null;
          });
          while (
            client &&
            Date.now() < until &&
            (await outcome(client.query(`insert into t ${wide(200)}`))) === 'done'
          );
          await client?.end().catch(() => {});
        }
      };
      await Promise.all([write(), write()]);
    });
    expect(peak).toBeLessThan(32);
    expect(notices.join('\n')).toContain('has reached limit_mb');
    for (const refusal of refusals) expect(refusal).toContain('over limit_mb');
    // The API gets in all the same, and makes room: then direct connections are let in again.
    expect((await run(project, 'truncate t')).status).toBe(200);
    await until('the door is open', async () =>
      connect(project).then(
        () => true,
        () => false,
      ),
    );
  });

  it('that ignores cancels is terminated', async () => {
    const project = await projectOf(3);
    const client = await connect(project);
    await client.query('create table t (v text)');
    const stubborn = `do $$ begin loop begin
        loop insert into t select repeat(md5(n::text), 60) from generate_series(1, 100) as n; end loop;
      exception when query_canceled then null; end; end loop; end $$`;
    const { peak, result } = await peakDuring(project, () => outcome(client.query(stubborn)));
    expect(['57P01', 'Connection terminated unexpectedly']).toContain(result);
    expect(peak).toBeLessThan(32);
    await until('what it left is vacuumed', async () => (await overMb(project)) < -2);
  });

  it('that writes large objects is held to the limit', async () => {
    const project = await projectOf(3);
    const client = await connect(project);
    const { peak, result } = await peakDuring(project, () =>
      outcome(
        client.query(`select lo_from_bytea(0, decode(repeat(md5(random()::text), 60000), 'hex'))
                      from generate_series(1, 400) as n`),
      ),
    );
    expect(['57014', '57P01', 'Connection terminated unexpectedly']).toContain(result);
    expect(peak).toBeLessThan(32);
    await until('what it left is vacuumed', async () => (await overMb(project)) < -2);
  });

  it('that reads or deletes in a full project is not disturbed', async () => {
    const project = await projectOf(40);
    const client = await connect(project);
    await client.query('create table t (id int primary key, v text)');
    await client.query('create table other (v text)');
    await client.query(
      `insert into t select n, repeat(md5(n::text), 60) from generate_series(1, 10000) as n`,
    );
    // From now on it is far over its limit.
    const lowered = await rowhouse.call('PATCH', `/projects/${project.slug}`, { body: { limit_mb: 5 } });
    expect(lowered.status).toBe(200);
    await until('it is full', async () => {
      const { body } = await rowhouse.call('GET', `/projects/${project.slug}`);
      return body.project.status === 'full';
    });
    await until('the next login is told', async () => {
      const notices: string[] = [];
      await connect(project, notices);
      return notices.join().includes('has reached limit_mb');
    });
    const writer = await connect(project);
    const admission = outcome(writer.query(`insert into other ${wide(400_000)}`));
    for (const text of [
      'select count(*), count(distinct md5(v)) from t',
      'begin',
      'delete from t where id <= 5000',
      'commit',
      'vacuum t',
      'drop table if exists none',
    ]) {
      expect([text, await outcome(client.query(text))]).toEqual([text, 'done']);
    }
    expect(['57014', '57P01', 'Connection terminated unexpectedly']).toContain(await admission);
    expect(await outcome(client.query('delete from t'))).toBe('done');
    expect(await outcome(client.query('vacuum full t'))).toBe('done');
    expect(await outcome(client.query('truncate t'))).toBe('done');
    await until('there is room', async () => (await overMb(project)) < 0);
    expect(await outcome(client.query("insert into t values (1, 'x')"))).toBe('done');
  });

  it('of a neighbour below its limit is not disturbed, however much it writes', async () => {
    const full = await projectOf(3);
    const [hog, calm] = [await connect(full), await connect(neighbour)];
    await hog.query('create table t (v text)');
    await calm.query('create table wide_rows (v text)');
    const [stopped, done] = await Promise.all([
      outcome(hog.query(`insert into t ${wide(200_000)}`)),
      outcome(calm.query(`insert into wide_rows ${wide(20_000)}`)),
    ]);
    expect(['57014', '57P01', 'Connection terminated unexpectedly']).toContain(stopped);
    expect(done).toBe('done');
    expect((await run(neighbour, 'select count(*)::int as n from wide_rows')).body.rows).toEqual([
      { n: 20_000 },
    ]);
  });
});

it('the sessions of the service are not taken for direct connections', async () => {
  const project = await projectOf(3);
  await run(project, 'create table t (v text)');
  const client = await connect(project);
  await client.query('select 1');
  await until('it is told to be full', async () => {
    await run(project, `insert into t ${wide(1_000)}`);
    const { body } = await rowhouse.call('GET', `/projects/${project.slug}`);
    return body.project.status === 'full';
  });
  for (let n = 0; n < 20; n++)
    expect((await run(project, 'select pg_sleep(0.02), 1 as fine')).status).toBe(200);
});

// Whole installations on disks of a few hundred megabytes, which one INSERT after the other fills: nothing that was
// acknowledged is lost, PostgreSQL goes on or comes back, and room that is made can be used.
import { statfsSync, statSync } from 'node:fs';
import path from 'node:path';
import pg from 'pg';
import { describe, expect, it } from 'vitest';
import { until } from '../support/helpers.ts';
import { launch, newAccountKey, newDataFolder, postmasterPid, type Running } from '../support/process.ts';
import { fill, smallDisk } from '../support/small-disk.ts';

const mb = 1024 * 1024;
type Row = { id: number };

async function install(disk: string) {
  const data = newDataFolder(disk);
  const env = { ROWHOUSE_DATA: data, ROWHOUSE_ACCOUNT_KEY: newAccountKey() };
  let service = await launch(env);
  expect(service.output()).toContain('\nready\n');
  const { body } = await service.call('POST', '/projects', { body: { name: 'Disk', limit_mb: 8_000 } });
  const run = (query: string) =>
    service.call('POST', `/projects/${body.project.slug}/query`, {
      key: body.api_key,
      body: { query, timeout_ms: 60_000 },
    });
  await run('create table t (id int, v text)');
  // Stored as they are, so that a long value is quickly made.
  await run('alter table t alter v set storage external');
  const acknowledged: number[] = [];
  return {
    data,
    run,
    slug: body.project.slug as string,
    service: () => service,
    insert: async (id: number, kb: number) => {
      const answer = await run(
        `insert into t select ${id}, repeat('x', 10240) from generate_series(1, ${Math.ceil(kb / 10)})`,
      );
      if (answer.status === 200) acknowledged.push(id);
      return answer;
    },
    restart: async (): Promise<Running> => {
      service = await launch(env);
      return service;
    },
    isAllThere: async () => {
      const { body: found } = await run('select id from t');
      const there = new Set(found.rows.map(({ id }: Row) => id));
      expect(acknowledged.filter((id) => !there.has(id))).toEqual([]);
      expect(acknowledged.length).toBeGreaterThan(0);
    },
  };
}

const huge = "insert into t select -n, repeat('x', 1000) from generate_series(1, 5000000) as n";

describe.each([300, 700, 2_000])('a disk of %i MB', (sizeMb) => {
  it('survives one huge INSERT, many small ones, kill -9 and a restart', async ({ skip }) => {
    const disk = smallDisk(sizeMb);
    if (!disk) return skip();
    const { data, run, insert, service, restart, isAllThere } = await install(disk);
    const postmaster = postmasterPid(data);
    expect((await insert(0, 10)).status).toBe(200);
    const { status, body } = await run(huge);
    expect([status, body.error?.code], JSON.stringify(body)).toEqual([507, 'server_full']);
    let refused = 0;
    for (let id = 1; refused < 3 && id < 5_000; id++) {
      const answer = await insert(id, sizeMb * 16);
      if (answer.status === 200) continue;
      expect([answer.status, answer.body.error.code], JSON.stringify(answer.body)).toEqual([
        507,
        'server_full',
      ]);
      refused++;
    }
    expect(postmasterPid(data), 'PostgreSQL never died').toBe(postmaster);
    await isAllThere();
    await service().stop('SIGKILL');
    process.kill(postmaster ?? 0, 'SIGKILL');
    const again = await restart();
    expect(again.output()).toContain('\nready\n');
    await isAllThere();
    expect((await run('truncate t')).status).toBe(200);
    await until('there is room', async () => (await insert(9_999, 10)).status === 200);
    expect(await again.stop()).toBe(0);
  });
});

describe('a disk of 700 MB', () => {
  it('filled while the service was down: the start makes room', async ({ skip }) => {
    const disk = smallDisk(700);
    if (!disk) return skip();
    const { data, insert, service, restart, isAllThere } = await install(disk);
    for (let id = 0; id < 20; id++) expect((await insert(id, 1_000)).status).toBe(200);
    const ballast = path.join(data, 'postgres', 'pgsql_tmp.rowhouse-ballast');
    await until(
      'the ballast is there',
      async () => statSync(ballast, { throwIfNoEntry: false })?.size === 48 * mb,
    );
    const postmaster = postmasterPid(data);
    await service().stop('SIGKILL');
    process.kill(postmaster ?? 0, 'SIGKILL');
    const filler = fill(disk);
    const again = await restart();
    expect(again.output()).toContain('\nready\n');
    expect(again.output()).toMatch(/disk {9}only \d+ MB free, less than the reserve/);
    await isAllThere();
    expect((await insert(100, 1_000)).body.error.code).toBe('server_full');
    expect(await again.stop()).toBe(0);
    // Without a ballast and without room it says what to do.
    const more = fill(disk, 0, 'more');
    const third = await restart();
    expect((await third.exited).code).toBe(1);
    expect(third.output()).toContain('The disk is full. Free at least 64 MB on the disk of the data folder');
    more.free();
    filler.free();
    expect((await restart()).output()).toContain('\nready\n');
    await isAllThere();
    await until(
      'the ballast is made again',
      async () => statSync(ballast, { throwIfNoEntry: false })?.size === 48 * mb,
    );
  });

  it('stops direct connections and sorts before it is full', async ({ skip }) => {
    const disk = smallDisk(700);
    if (!disk) return skip();
    const { data, run, insert, slug, service } = await install(disk);
    const postmaster = postmasterPid(data);
    await insert(0, 10);
    const { body } = await service().call('GET', `/projects/${slug}/connection`);
    const client = new pg.Client({ connectionString: body.connection.url });
    client.on('error', () => {});
    await client.connect();
    const stopped = await client.query(huge).then(
      () => 'done',
      (error) => error.code ?? error.message,
    );
    expect(['57014', '57P01', 'Connection terminated unexpectedly']).toContain(stopped);
    await client.end().catch(() => {});
    await run('truncate t');
    await until('there is room', async () => (await insert(1, 10)).status === 200);
    const sorts = Array.from({ length: 4 }, () =>
      run(
        'select count(*) from (select md5(n::text) as m from generate_series(1, 20000000) as n order by 1) as s',
      ),
    );
    for (const { status, body: answer } of await Promise.all(sorts))
      expect([200, 507], JSON.stringify(answer)).toContain(status);
    expect(postmasterPid(data), 'PostgreSQL never died').toBe(postmaster);
    const { bavail, bsize } = statfsSync(disk);
    expect(bavail * bsize).toBeGreaterThan(100 * mb);
    expect(await service().stop()).toBe(0);
  });
});

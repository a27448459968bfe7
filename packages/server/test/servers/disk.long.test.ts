import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it, onTestFinished } from 'vitest';
import { openLog } from '../../src/lib/log.ts';
import { openDiskWatch, usualReserve } from '../../src/servers/embedded/disk.ts';
import { until } from '../support/helpers.ts';
import { launch, newAccountKey, newDataFolder, postmasterPid, usedDataFolder } from '../support/process.ts';
import { fill, smallDisk } from '../support/small-disk.ts';

const mb = 1024 * 1024;

describe('the disk watch', () => {
  const watch = (folder: string | null, reserveBytes: number | null, errors: unknown[] = []) => {
    const disk = openDiskWatch({ folder, reserveBytes, onError: (error) => errors.push(error) });
    onTestFinished(disk.stop);
    return disk;
  };

  it('reports low space below the reserve, and enough again only well above it', async ({ skip }) => {
    const folder = smallDisk(200);
    if (!folder) return skip();
    const disk = watch(folder, 50 * mb);
    expect(disk.isLow()).toBe(false);
    expect(disk.facts()).toMatchObject({ totalBytes: 200 * mb, reserveBytes: 50 * mb });
    const most = fill(folder, 49 * mb);
    await disk.look();
    expect(disk.isLow()).toBe(true);
    most.free();
    const some = fill(folder, 54 * mb);
    await disk.look();
    expect(disk.isLow()).toBe(true);
    some.free();
    await disk.look();
    expect(disk.isLow()).toBe(false);
    // By itself, without being asked.
    fill(folder, 10 * mb);
    await until('it has looked', async () => disk.isLow());
  });

  it('never reports low space without a folder, without a reserve, or for a disk that cannot be read', async () => {
    const errors: unknown[] = [];
    for (const disk of [watch(null, 1e15), watch(tmpdir(), 0), watch('/nowhere/at/all', 1e15, errors)]) {
      await disk.look();
      await disk.look();
      expect(disk.isLow()).toBe(false);
    }
    expect(errors.length).toBe(1);
    expect(watch(tmpdir(), 1e15).isLow()).toBe(true);
  });

  it('reserves one gigabyte by default, or 32 MB and a sixteenth of a small disk', () => {
    expect([usualReserve(1000 * 1024 * mb), usualReserve(1600 * mb)]).toEqual([1024 * mb, 132 * mb]);
  });
});

it('the start and the doctor report a disk below its reserve', async () => {
  const env = { ROWHOUSE_DATA: await usedDataFolder(), ROWHOUSE_DISK_RESERVE_MB: '1000000000' };
  const service = await launch({ ...env, ROWHOUSE_ACCOUNT_KEY: newAccountKey() });
  expect(service.output()).toMatch(/disk {9}only \d+ MB free, less than the reserve of 1000000000 MB/);
  const { body } = await service.call('GET', '/metrics');
  expect(body).toMatch(/^rowhouse_disk_free_bytes [1-9]\d*$/m);
  expect(body).toMatch(/^rowhouse_disk_reserve_bytes 1\d+(e\+\d+)?$/m);
  await service.stop();
  const doctor = fileURLToPath(new URL('../../dist/programs/doctor.js', import.meta.url));
  const checks = JSON.parse(
    execFileSync(process.execPath, [doctor], { env: { ...process.env, ...env } }).toString(),
  );
  expect(checks).toContainEqual(
    expect.objectContaining({ check: 'disk', state: 'problem', found: expect.stringContaining('reserve') }),
  );
});

describe('a disk that really runs full', () => {
  type Row = { id: number };

  /** A whole installation on a small disk, whose own reserve is switched off: PostgreSQL meets the end itself. */
  async function install(disk: string) {
    const data = newDataFolder(disk);
    const service = await launch({
      ROWHOUSE_DATA: data,
      ROWHOUSE_ACCOUNT_KEY: newAccountKey(),
      ROWHOUSE_DISK_RESERVE_MB: '0',
    });
    expect(service.output()).toContain('\nready\n');
    const { body } = await service.call('POST', '/projects', { body: { name: 'Disk' } });
    const run = (query: string) =>
      service.call('POST', `/projects/${body.project.slug}/query`, { key: body.api_key, body: { query } });
    const acknowledged: number[] = [];
    const insert = async (id: number, value: string) => {
      const answer = await run(`insert into t select ${id}, ${value}`);
      if (answer.status === 200) acknowledged.push(id);
      return answer;
    };
    await run('create table t (id int primary key, v text)');
    for (let id = 0; id < 50; id++) await insert(id, "'x'");
    /** Room has come back: it recovers by itself, and all that was acknowledged is there. */
    const recovers = async () => {
      await until('it writes again', async () => (await insert(100_000, "'y'")).status === 200, 90_000);
      const { body: found } = await run('select id from t');
      const there = new Set(found.rows.map(({ id }: Row) => id));
      expect(acknowledged.filter((id) => !there.has(id))).toEqual([]);
      expect(acknowledged.length).toBeGreaterThan(50);
      expect(service.child.exitCode).toBe(null);
      const logs = readdirSync(path.join(data, 'logs')).map(
        (file) => statSync(path.join(data, 'logs', file)).size,
      );
      expect(logs.reduce((sum, size) => sum + size, 0)).toBeLessThan(16 * mb);
    };
    return { service, data, run, insert, recovers };
  }

  const wide = "(select string_agg(md5(random()::text || m), '') from generate_series(1, 3000) as m)";

  it('refuses growth, goes on reading and deleting, and loses nothing', async ({ skip }) => {
    const disk = smallDisk(400);
    if (!disk) return skip();
    const { service, data, run, insert, recovers } = await install(disk);
    const postmaster = postmasterPid(data);
    const filler = fill(disk);
    let refused = 0;
    for (let id = 1_000; refused < 20 && id < 2_000; id++) {
      const { status, body, headers } = await insert(id, wide);
      if (status === 200) continue;
      expect([status, body.error.code, headers['retry-after']]).toEqual([507, 'server_full', '30']);
      refused++;
      expect((await run('select count(*)::int as n from t where id < 50')).body.rows).toEqual([{ n: 50 }]);
    }
    expect(refused).toBe(20);
    expect((await run('delete from t where id = 49')).status).toBe(200);
    expect((await run('insert into t values (49)')).status).toBe(200);
    expect((await service.call('GET', '/projects')).status).toBe(200);
    expect(postmasterPid(data)).toBe(postmaster);
    filler.free();
    await recovers();
    expect(await service.stop()).toBe(0);
  });

  it('lets PostgreSQL come back after it died of the full disk', async ({ skip }) => {
    const disk = smallDisk(400);
    if (!disk) return skip();
    const { service, run, insert, recovers } = await install(disk);
    await run('create table d (id int)');
    await run('insert into d select n from generate_series(1, 400000) as n');
    const filler = fill(disk);
    // Deleting needs no room for rows, but for the log of changes: without it PostgreSQL cannot go on.
    let deleted = 0;
    let last = 200;
    for (let below = 4_000; below <= 400_000 && last === 200; below += 4_000) {
      last = (await run(`delete from d where id <= ${below}`)).status;
      if (last === 200) deleted = below;
      if (last === 200) await insert(1_000 + below, "'z'");
    }
    expect(last).toBe(503);
    // It goes on trying, and says so to everybody who asks meanwhile. What recovery gives back can be enough to go on.
    for (let n = 0; n < 50; n++) {
      const { status, body } = await run('select 1');
      if (status !== 200) expect([status, body.error.code]).toEqual([503, 'unavailable']);
    }
    expect((await service.call('GET', '/healthz')).status).toBe(200);
    filler.free();
    await recovers();
    expect((await run(`select count(*)::int as n from d where id <= ${deleted}`)).body.rows).toEqual([
      { n: 0 },
    ]);
    expect(await service.stop()).toBe(0);
  });

  it('costs log lines but no memory, and logging goes on when there is space', async ({ skip }) => {
    const disk = smallDisk(2);
    if (!disk) return skip();
    const log = openLog({ dataFolder: disk, logLevel: 'info', logTo: 'file' });
    const filler = fill(disk);
    const before = process.memoryUsage().rss;
    for (let n = 0; n < 100_000; n++) log.info({ text: 'x'.repeat(1_000) }, 'lost');
    expect(process.memoryUsage().rss - before).toBeLessThan(80 * mb);
    filler.free();
    log.info({}, 'room again');
    log.info({}, 'written');
    const text = readFileSync(path.join(disk, 'logs', 'rowhouse.log'), 'utf8');
    expect(text.trimEnd().split('\n').at(-1)).toContain('written');
  });
});

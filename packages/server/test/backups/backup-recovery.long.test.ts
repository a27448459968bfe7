// Backups and WAL of a server of their own, proven by recovering the whole server from them.
import { execFileSync } from 'node:child_process';
import { cpSync, renameSync, rmSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it, onTestFinished } from 'vitest';
import { prune } from '../../src/backups/prune.ts';
import { chainOf, listBackups } from '../../src/backups/repository/descriptions.ts';
import type { Repository } from '../../src/backups/repository/repository.ts';
import { takeBaseBackup } from '../../src/backups/take/base-backup.ts';
import { verify } from '../../src/backups/verify.ts';
import { ensureSlot } from '../../src/backups/wal/slot.ts';
import { continuousEnd, listSegments } from '../../src/backups/wal/wal-archive.ts';
import { receiveWal } from '../../src/backups/wal/wal-receiver.ts';
import { openDatabase } from '../../src/postgres/admin/database.ts';
import { parseLsn } from '../../src/postgres/replication/lsn.ts';
import { sql } from '../../src/postgres/sql.ts';
import { type Lab, newFolder, recover, repositoryOf, startLab } from '../support/backup-lab.ts';

const slot = 'rowhouse_backup_test';
const signal = new AbortController().signal;

/** Streams until the test ends or `stop` is called. `until` waits for a position to be stored. */
function stream({ engine, database }: Lab, repository: Repository) {
  const stopping = new AbortController();
  let stored = 0n;
  const running = receiveWal({
    repository,
    address: engine.address,
    maintenance: database,
    slot,
    everyMs: 200,
    segmentBytes: 16 * 1024 * 1024,
    signal: stopping.signal,
    onStored: (lsn) => {
      stored = lsn;
    },
  });
  running.catch(() => {});
  const stop = async () => {
    stopping.abort();
    await running.catch(() => {});
  };
  onTestFinished(stop);
  return {
    stop,
    running,
    until: async (lsn: bigint) => {
      while (stored < lsn) await Promise.race([sleep(20), running]);
    },
  };
}

const flushed = async ({ database }: Lab) => {
  const [row] = await database.query<{ lsn: string }>(sql`select pg_current_wal_flush_lsn()::text as lsn`);
  return parseLsn(row?.lsn ?? '');
};

const take = (lab: Lab, repository: Repository, parent: Parameters<typeof takeBaseBackup>[0]['parent']) =>
  takeBaseBackup({
    repository,
    address: lab.engine.address,
    maintenance: lab.database,
    parent,
    signal,
    isEmbedded: true,
    maxRateKb: null,
  });

it('a full backup, incremental ones and the WAL after them give back every row', async () => {
  const lab = await startLab();
  const { database } = lab;
  const repository = await repositoryOf(lab, newFolder('repository'));
  await ensureSlot(database, slot);
  const streaming = stream(lab, repository);
  await database.query(sql`create database shop`);
  await database.query(sql`create database gone`);
  const shop = openDatabase({ ...lab.engine.address, database: 'shop' }, { max: 4 });
  onTestFinished(() => shop.end());
  await shop.query(sql`create table orders (id bigint primary key, note text)`);
  await shop.query(sql`create table dropped as select g from generate_series(1, 10000) g`);
  await shop.query(sql`create table shrunk as select g, repeat('x', 500) from generate_series(1, 20000) g`);
  await shop.query(sql`insert into orders select g, md5(g::text) from generate_series(1, 20000) g`);
  const full = await take(lab, repository, null);
  expect(full.parts.map(({ name }) => name)).toContain(
    `db-${full.databases.find(({ name }) => name === 'shop')?.oid}.tar`,
  );

  await shop.query(sql`update orders set note = 'changed' where id between 5000 and 5100`);
  await shop.query(sql`drop table dropped`);
  await shop.query(sql`delete from shrunk where g > 100`);
  await shop.query(sql`vacuum shrunk`);
  await database.query(sql`drop database gone`);
  const first = await take(lab, repository, full);
  await shop.query(sql`insert into orders select g, 'second' from generate_series(20001, 30000) g`);
  await shop.query(sql`create table later as select 1 as one`);
  const second = await take(lab, repository, first);
  expect([first.parent, second.parent]).toEqual([full.id, first.id]);
  const stored = (backup: typeof full) => backup.parts.reduce((sum, part) => sum + part.stored_bytes, 0);
  expect(stored(first)).toBeLessThan(stored(full) / 2);
  await shop.query(sql`insert into orders select g, 'after' from generate_series(30001, 31000) g`);
  await streaming.until(await flushed(lab));

  const backups = await listBackups(repository);
  expect(backups.map(({ id }) => id)).toEqual([full.id, first.id, second.id]);
  expect(await verify(repository, { signal })).toMatchObject({ backups: 3, problems: [] });

  const chain = chainOf(backups, second) ?? [];
  expect(chain).toHaveLength(3);
  const sum = sql`select count(*)::int as count, md5(string_agg(id || note, ',' order by id)) as sum from orders`;
  const expected = await shop.query(sum);
  for (const attempt of [chain, [full]]) {
    const recovered = await recover(lab, repository, attempt);
    const copy = openDatabase({ ...recovered.engine.address, database: 'shop' }, { max: 1 });
    onTestFinished(() => copy.end());
    expect(await copy.query(sum)).toEqual(expected);
    expect(
      await copy.query(sql`select (select count(*)::int from shrunk) as shrunk, one from later`),
    ).toEqual([{ shrunk: 100, one: 1 }]);
    expect(await copy.query(sql`select to_regclass('dropped')::text as dropped`)).toEqual([
      { dropped: null },
    ]);
    const names = await recovered.database.query(sql`select datname from pg_database where datname = 'gone'`);
    expect(names).toEqual([]);
    // Every page that was put together is a valid one.
    await copy.query(sql`reindex database shop`);
  }
});

it('WAL of a server that was set back to an earlier state is not mixed with what is stored', async () => {
  const first = await startLab();
  const repository = await repositoryOf(first, newFolder('repository'));
  await ensureSlot(first.database, slot);
  const cluster = path.join(first.folder, 'postgres');
  const write = async (lab: Lab, note: string, rows: number) => {
    await lab.database.query(sql`create table if not exists notes (note text)`);
    await lab.database.query(
      sql`insert into notes select ${note}::text || g from generate_series(1, ${rows}::int) g`,
    );
    return flushed(lab);
  };
  const streamed = async (lab: Lab, note: string, rows: number) => {
    const lsn = await write(lab, note, rows);
    const streaming = stream(lab, repository);
    await streaming.until(lsn);
    await streaming.stop();
    await lab.engine.stop();
  };
  await streamed(first, 'first', 10);
  cpSync(cluster, `${cluster}.earlier`, { recursive: true, preserveTimestamps: true });
  if (process.getuid?.() === 0) execFileSync('chown', ['-R', `--reference=${cluster}`, `${cluster}.earlier`]);
  await streamed(await startLab({}, first), 'second', 1_000);
  rmSync(cluster, { recursive: true });
  renameSync(`${cluster}.earlier`, cluster);

  const setBack = await startLab({}, first);
  await expect(stream(setBack, repository).running).rejects.toThrow('this server ends at');
  // Later on it has written more than was stored, and only the content tells.
  await write(setBack, 'other', 5_000);
  await expect(stream(setBack, repository).running).rejects.toThrow('A copy of this server uses it too');
});

it('what pruning leaves can be recovered, also after it was interrupted', async () => {
  const lab = await startLab();
  const { database } = lab;
  const repository = await repositoryOf(lab, newFolder('repository'));
  await ensureSlot(database, slot);
  const streaming = stream(lab, repository);
  const day = 24 * 3_600_000;
  const pruneIn = (days: number, on = repository) =>
    prune(on, { retentionDays: 7, now: Date.now() + days * day, isBackupRunning: false });
  const first = await take(lab, repository, null);
  const firstIncremental = await take(lab, repository, first);
  await database.query(sql`create table kept as select g from generate_series(1, 1000) g`);
  const second = await take(lab, repository, null);
  const secondIncremental = await take(lab, repository, second);
  await database.query(sql`insert into kept select 1001`);
  await streaming.until(await flushed(lab));
  expect(await pruneIn(0)).toMatchObject({ backups: [], segments: 0 });
  expect(await pruneIn(6)).toMatchObject({ backups: [], segments: 0 });

  // The first attempt ends after the first deletion: the backup is not whole any more, and no longer listed.
  let deletions = 0;
  const { storage } = repository;
  const interrupted = {
    ...repository,
    storage: {
      ...storage,
      delete: async (name: string) => {
        if (deletions++ > 0) throw new Error('interrupted');
        await storage.delete(name);
      },
      deleteAll: async () => {
        throw new Error('interrupted');
      },
    },
  };
  await expect(pruneIn(8, interrupted)).rejects.toThrow('interrupted');
  expect((await listBackups(repository)).map(({ id }) => id)).not.toContain(first.id);
  const pruned = await pruneIn(8);
  expect(pruned.backups).toEqual([firstIncremental.id]);
  expect(pruned.segments).toBeGreaterThan(0);
  // Its remains are a day old by that clock.
  expect(pruned.unfinished).toBe(1);
  expect(await storage.folders(`${repository.cluster}/base/`)).toEqual(
    [second.id, secondIncremental.id].sort(),
  );
  expect(await verify(repository, { signal })).toMatchObject({ backups: 2, problems: [] });
  const recovered = await recover(lab, repository, [second, secondIncremental]);
  expect(await recovered.database.query(sql`select count(*)::int as count from kept`)).toEqual([
    { count: 1001 },
  ]);
});

it('segments that complete while a slow storage still takes their first bytes are stored whole', async () => {
  const lab = await startLab();
  const repository = await repositoryOf(lab, newFolder('repository'));
  const { storage } = repository;
  const slow: Repository = {
    ...repository,
    storage: {
      ...storage,
      put: async (name, content, within) => {
        await sleep(400);
        return storage.put(name, content, within);
      },
    },
  };
  await ensureSlot(lab.database, slot);
  const streaming = stream(lab, slow);
  const start = await flushed(lab);
  for (let round = 0; round < 8; round++) {
    await lab.database.query(
      sql`create table filler as select md5(g::text) from generate_series(1, 400000) g`,
    );
    await lab.database.query(sql`drop table filler`);
  }
  const end = await flushed(lab);
  expect(end - start).toBeGreaterThan(8n * 16n * 1024n * 1024n);
  await streaming.until(end);
  const segments = await listSegments(repository, 1);
  expect(continuousEnd(segments, start, 1, 16 * 1024 * 1024)).toBeGreaterThanOrEqual(end);
  expect(segments.slice(0, -1).every(({ isWhole, pieces }) => isWhole && pieces.length === 0)).toBe(true);
});

// One project out of a backup of many, as of a moment, while all others are left out.
import { existsSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it, onTestFinished } from 'vitest';
import type { BackupDescription } from '../../src/backups/repository/repository.ts';
import { untilStored } from '../../src/backups/restore/mark-present.ts';
import { planRestore } from '../../src/backups/restore/plan.ts';
import { recoverProject } from '../../src/backups/restore/recover-project.ts';
import { takeBaseBackup } from '../../src/backups/take/base-backup.ts';
import { ensureSlot } from '../../src/backups/wal/slot.ts';
import { receiveWal } from '../../src/backups/wal/wal-receiver.ts';
import { RowhouseError } from '../../src/errors/errors.ts';
import { type Database, openDatabase } from '../../src/postgres/admin/database.ts';
import { parseLsn } from '../../src/postgres/replication/lsn.ts';
import { sql } from '../../src/postgres/sql.ts';
import { databaseOf } from '../../src/servers/databases/names.ts';
import { prepareBinaries } from '../../src/servers/embedded/binaries.ts';
import { readControlFile } from '../../src/servers/embedded/control-file.ts';
import { clusterFolderOf } from '../../src/servers/embedded/embedded.ts';
import { findRunAs } from '../../src/servers/embedded/run-as.ts';
import { findReplayedFile } from '../../src/servers/embedded/server-processes.ts';
import { type Lab, newFolder, repositoryOf, startLab } from '../support/backup-lab.ts';
import { asAdmin } from '../support/helpers.ts';
import { startPair } from '../support/standby.ts';

const signal = new AbortController().signal;
const slot = 'rowhouse_backup_test';

async function startBackups(lab: Lab) {
  const repository = await repositoryOf(lab, newFolder('repository'));
  await ensureSlot(lab.database, slot);
  const stopping = new AbortController();
  let stored = 0n;
  const running = receiveWal({
    repository,
    address: lab.engine.address,
    maintenance: lab.database,
    slot,
    everyMs: 100,
    segmentBytes: 16 * 1024 * 1024,
    signal: stopping.signal,
    onStored: (lsn) => {
      stored = lsn;
    },
  });
  running.catch(() => {});
  onTestFinished(async () => {
    stopping.abort();
    await running.catch(() => {});
  });
  const take = (parent: BackupDescription | null) =>
    takeBaseBackup({
      repository,
      address: lab.engine.address,
      maintenance: lab.database,
      parent,
      signal,
      isEmbedded: true,
      maxRateKb: null,
    });
  /** Until everything that is committed now is stored. */
  const catchUp = async () => {
    const [row] = await lab.database.query<{ lsn: string }>(
      sql`select pg_current_wal_flush_lsn()::text as lsn`,
    );
    while (stored < parseLsn(row?.lsn ?? '')) await Promise.race([sleep(20), running]);
  };
  return { repository, take, catchUp };
}

type Backups = Awaited<ReturnType<typeof startBackups>>;

async function makeProject(lab: Lab, id: string): Promise<Database> {
  await lab.database.query(sql`create database ${sql.id(databaseOf(id))}`);
  const database = openDatabase({ ...lab.engine.address, database: databaseOf(id) }, { max: 2 });
  onTestFinished(() => database.end());
  await database.query(
    sql`create table marks (id bigint primary key, at timestamptz default clock_timestamp())`,
  );
  await database.query(
    sql`create table filler as select g, repeat(md5(g::text), 8) as text from generate_series(1, 20000) g`,
  );
  return database;
}

const now = async ({ database }: Lab): Promise<Date> => {
  const [row] = await database.query<{ at: Date }>(sql`select clock_timestamp() as at`);
  return row?.at ?? new Date(0);
};

/** The marks and a checksum of the other table, as of that moment. */
async function restored(lab: Lab, { repository, catchUp }: Backups, projectId: string, target: Date) {
  // The replay stops at the first commit after the target.
  await lab.database.query(sql`select pg_current_xact_id()`);
  await catchUp();
  const folder = path.join(newFolder('restore'), 'copy');
  const runAs = findRunAs(clusterFolderOf(lab.folder));
  const { capacity } = readControlFile(clusterFolderOf(lab.folder));
  const result = await recoverProject(
    {
      repository,
      plan: await planRestore(repository, target),
      projectId,
      isCopy: false,
      target,
      signal,
      workshop: {
        folder,
        runAs,
        capacity,
        masterKey: lab.masterKey,
        isDurable: false,
        superuser: null,
        binaries: prepareBinaries(lab.folder, runAs),
      },
      checkSpace: () => {},
      progress: () => {},
    },
    async ({ server }) => {
      const copy = openDatabase({ ...server.address, database: databaseOf(projectId) }, { max: 1 });
      try {
        return await look(copy);
      } finally {
        await copy.end();
      }
    },
  );
  expect(existsSync(folder)).toBe(false);
  return result;
}

async function look(database: Database) {
  const [row] = await database.query<{ marks: number; sum: string }>(sql`
    select (select coalesce(max(id), 0)::int from marks) as marks,
           (select md5(string_agg(g || text, ',' order by g)) from filler) as sum`);
  return row;
}

it('a project is restored to the very commit, without the others', async () => {
  const lab = await startLab();
  const backups = await startBackups(lab);
  const { take } = backups;
  const [one, other] = [await makeProject(lab, 'one'), await makeProject(lab, 'other')];
  const full = await take(null);
  const moments: { at: Date; expected: unknown }[] = [];
  const mark = async (count: number) => {
    for (let n = 0; n < count; n++) {
      await one.query(sql`insert into marks select coalesce(max(id), 0) + 1 from marks`);
      await other.query(sql`update filler set text = text || 'x' where g % 50 = ${n % 50}::int`);
    }
    // A Date has milliseconds, PostgreSQL has microseconds.
    await sleep(2);
    moments.push({ at: await now(lab), expected: await look(one) });
    await sleep(2);
  };
  await mark(5);
  await one.query(sql`update filler set text = 'changed' where g < 1000`);
  await other.query(sql`vacuum full filler`);
  await mark(5);
  const first = await take(full);
  await mark(5);
  // A project that is created and dropped meanwhile, in both ways of copying.
  await lab.database
    .query(sql`create database p_brief template ${sql.id(databaseOf('other'))} strategy file_copy`)
    .catch(() => {});
  const late = await makeProject(lab, 'late');
  await late.query(sql`insert into marks values (42)`);
  await one.query(sql`delete from filler where g > 15000`);
  await one.query(sql`vacuum filler`);
  await mark(5);
  await take(first);
  await one.query(sql`drop table filler`);
  await one.query(sql`create table filler (g int, text text)`);
  await mark(5);
  for (const { at, expected } of moments) expect(await restored(lab, backups, 'one', at)).toEqual(expected);
  const end = await now(lab);
  expect(await restored(lab, backups, 'late', end)).toMatchObject({ marks: 42 });

  // A time after the last commit that is stored: the error names the time of that commit.
  const beyond = await restored(lab, backups, 'one', new Date(end.getTime() + 3_600_000)).catch(
    (error: unknown) => error,
  );
  if (!(beyond instanceof RowhouseError)) throw beyond;
  expect([beyond.code, beyond.details]).toEqual([
    'conflict',
    {
      retryable: false,
      oldest_restorable: full.ended_at,
      newest_restorable: expect.any(String),
      restorable: [{ from: full.ended_at, to: expect.any(String) }],
    },
  ]);
  const { newest_restorable: newest } = beyond.details as { newest_restorable: string };
  expect(Date.parse(newest)).toBeGreaterThanOrEqual(end.getTime());

  // Waiting for WAL that will never be stored ends, and says why.
  const [row] = await lab.database.query<{ lsn: string }>(
    sql`select pg_current_wal_flush_lsn()::text as lsn`,
  );
  const flushed = parseLsn(row?.lsn ?? '');
  const wait = (mark: bigint, withinMs: number, stuckMs: number) =>
    untilStored({ slot, server: { maintenance: lab.database } }, mark, { withinMs, stuckMs });
  expect(await wait(flushed, 60_000, 60_000)).toBe('stored');
  expect(await wait(flushed + 10n ** 12n, 100, 60_000)).toBe('storing');
  expect(await wait(flushed + 10n ** 12n, 60_000, 100)).toBe('stuck');
});

it.runIf(process.platform === 'linux')(
  'tells which WAL file a server replays that need not answer',
  async () => {
    const { nodes } = await startPair({ synchronous: false });
    const [primary, standby] = nodes;
    const file = () => findReplayedFile(clusterFolderOf(standby.folder)) ?? '';
    await expect.poll(file, { timeout: 60_000 }).toMatch(/^[0-9A-F]{24}$/);
    const before = file();
    await asAdmin(async (admin) => {
      await admin.query(sql`create table written as select 1 as n`);
      await admin.query(sql`select pg_switch_wal()`);
      await admin.query(sql`insert into written values (2)`);
    }, primary.engine.address);
    await expect.poll(() => file() > before, { timeout: 60_000 }).toBe(true);
    expect(findReplayedFile(clusterFolderOf(primary.folder))).toBeNull();
  },
);

// Continuous backup of a service on a PostgreSQL of its own: storage that is away, a slot that is given up, two processes,
// damaged objects.
import {
  chownSync,
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { chainOf, listBackups } from '../../src/backups/repository/descriptions.ts';
import { sql } from '../../src/postgres/sql.ts';
import { findRunAs } from '../../src/servers/embedded/run-as.ts';
import { examineBackups, newFolder, recover, repositoryOf, startLab } from '../support/backup-lab.ts';
import { api, jobEnd, openTestService, until } from '../support/helpers.ts';
import {
  allStored,
  backupsIn,
  firstBackup,
  minutes,
  openWithBackups,
  runJob,
  statusOf,
} from './backup-service.ts';

/** The files of the repository whose names match. */
function filesIn(folder: string, pattern: RegExp): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => pattern.test(name));
}

describe('continuous backup', { timeout: 6 * minutes }, () => {
  it('catches up after the storage was away, and loses nothing', async () => {
    const lab = await startLab();
    const folder = path.join(newFolder('repository'), 'backups');
    const service = await openWithBackups(lab, folder);
    await firstBackup(service);
    await lab.database.query(sql`create table marks (id int)`);
    await allStored(service);

    renameSync(folder, `${folder}.away`);
    writeFileSync(folder, 'not a folder');
    for (let id = 0; id < 50; id++) await lab.database.query(sql`insert into marks values (${id})`);
    await until('the failure is logged', async () => service.log.join('').includes('WAL cannot be stored'));
    const metrics = String((await service.call('GET', '/metrics')).body);
    expect(metrics).toMatch(/^rowhouse_backup_wal_failures [1-9]/m);
    expect(metrics).toMatch(/^rowhouse_backup_wal_lag_bytes [1-9]/m);
    const away = await service.call('GET', `${api}/backups`);
    expect([away.status, away.body.error?.code]).toEqual([503, 'backup_failed']);
    // A base backup fails as well, with the storage's own words, and nothing else does.
    const failedJob = await runJob(service, '/backups', { kind: 'full' });
    expect([failedJob.status, failedJob.error.code]).toEqual(['failed', 'backup_failed']);
    // Requests do not depend on the storage.
    expect((await service.call('GET', '/projects')).status).toBe(200);

    rmSync(folder);
    renameSync(`${folder}.away`, folder);
    await allStored(service);
    await until('its end is logged', async () => service.log.join('').includes('WAL is stored again'));
    expect((await runJob(service, '/backups/verify')).status).toBe('done');
    const repository = await repositoryOf(lab, folder);
    const [full] = await listBackups(repository);
    const recovered = await recover(lab, repository, full ? [full] : []);
    expect(await recovered.database.query(sql`select count(*)::int as count from marks`)).toEqual([
      { count: 50 },
    ]);
  });

  it('a slot that PostgreSQL gave up is said aloud and followed by a new full backup', async () => {
    const lab = await startLab({
      max_slot_wal_keep_size: '32MB',
      max_wal_size: '32MB',
      min_wal_size: '32MB',
    });
    const folder = path.join(newFolder('repository'), 'backups');
    const service = await openWithBackups(lab, folder);
    await firstBackup(service);
    await allStored(service);
    const before = await statusOf(service);
    renameSync(folder, `${folder}.away`);
    writeFileSync(folder, 'not a folder');
    await until('the failure is logged', async () => service.log.join('').includes('WAL cannot be stored'));
    for (let round = 0; round < 12; round++) {
      await lab.database.query(
        sql`create table filler as select repeat('x', 1000) from generate_series(1, 10000)`,
      );
      await lab.database.query(sql`drop table filler`);
      await lab.database.query(sql`select pg_switch_wal()`);
    }
    await lab.database.query(sql`checkpoint`);
    // The service replaces a slot that was given up at its next attempt.
    const lost = async () => {
      if (service.log.join('').includes('WAL WAS LOST')) return true;
      const [row] = await lab.database.query<{ status: string }>(
        sql`select wal_status as status from pg_replication_slots`,
      );
      return row?.status === 'lost';
    };
    await until('PostgreSQL gives the slot up', lost, 2 * minutes);
    rmSync(folder);
    renameSync(`${folder}.away`, folder);
    await until('it is said', async () => service.log.join('').includes('WAL WAS LOST'), 2 * minutes);
    const after = await until(
      'a new full backup',
      async () => {
        const status = await statusOf(service);
        const isNew =
          status.backups?.at(-1)?.kind === 'full' && status.backups.length > before.backups.length;
        // It counts once the WAL up to its end is stored.
        return isNew && status.oldest_restorable !== null && status;
      },
      3 * minutes,
    );
    // What lies before the gap can be restored as well, but is not restorable up to now.
    expect(after.oldest_restorable).toBe(before.oldest_restorable);
    expect(after.restorable).toEqual([
      { from: before.oldest_restorable, to: expect.any(String) },
      { from: after.backups.at(-1).ended_at, to: after.newest_restorable },
    ]);
    expect(after.restorable[0].to < after.restorable[1].from).toBe(true);
    await lab.database.query(sql`create table later as select 7 as seven`);
    await allStored(service);
    const repository = await repositoryOf(lab, folder);
    const backups = await listBackups(repository);
    const newest = backups.at(-1);
    const recovered = await recover(lab, repository, newest ? [newest] : []);
    expect(await recovered.database.query(sql`select seven from later`)).toEqual([{ seven: 7 }]);
  });

  it('of two processes one stores WAL, and the other one goes on when it stops', async () => {
    const lab = await startLab();
    const folder = newFolder('repository');
    const first = await openWithBackups(lab, folder);
    await firstBackup(first);
    const second = await openWithBackups(lab, folder, { controlDatabase: first.controlDatabase });
    await lab.database.query(sql`create table marks (id int)`);
    const walsenders = async () => {
      const rows = await lab.database.query(sql`
        select 1 from pg_stat_replication where application_name = 'rowhouse backup' and state = 'streaming'`);
      return rows.length;
    };
    for (let id = 0; id < 20; id++) {
      await lab.database.query(sql`insert into marks values (${id})`);
      expect(await walsenders()).toBeLessThanOrEqual(1);
    }
    // Base backups exclude each other as well.
    const key = { key: first.accountKey };
    const jobs = await Promise.all(
      [first, second].map((one) => one.call('POST', `${api}/backups`, { ...key, body: { kind: 'full' } })),
    );
    const ended = await Promise.all(jobs.map(({ body }) => jobEnd(first, body.job.id, 2 * minutes)));
    const outcomes = ended.map((job) => (job.status === 'done' ? 'done' : job.error.code)).sort();
    expect([
      ['conflict', 'done'],
      ['done', 'done'],
    ]).toContainEqual(outcomes);
    if (outcomes[0] === 'done') expect(ended[0].result.backup.id).not.toBe(ended[1].result.backup.id);

    await first.stop();
    await lab.database.query(sql`insert into marks values (100)`);
    await until(
      'the second one stores',
      async () => (await second.call('GET', `${api}/backups`, key)).body.lag_bytes === 0,
      2 * minutes,
    );
    expect(second.log.join('')).not.toContain('cannot be stored');
    const repository = await repositoryOf(lab, folder);
    const backups = await listBackups(repository);
    const newest = backups.at(-1);
    const recovered = await recover(lab, repository, (newest && chainOf(backups, newest)) ?? []);
    expect(await recovered.database.query(sql`select count(*)::int as count from marks`)).toEqual([
      { count: 21 },
    ]);
  });

  it('verify finds every damaged and missing object, and a wrong master key is named', async () => {
    const lab = await startLab();
    const folder = newFolder('repository');
    const service = await openWithBackups(lab, folder);
    await firstBackup(service);
    const since = Date.now();
    expect((await runJob(service, '/backups', { kind: 'incremental' })).result.backup.kind).toBe(
      'incremental',
    );
    // Metrics know of it at once, not at the next list.
    const metrics = String((await service.call('GET', '/metrics')).body);
    const [, age] = /^rowhouse_backup_age_seconds (\S+)$/m.exec(metrics) ?? [];
    expect(Number(age)).toBeLessThanOrEqual((Date.now() - since) / 1000);
    await allStored(service);
    expect((await statusOf(service)).last_verified_at).toBeNull();
    expect((await runJob(service, '/backups/verify')).status).toBe('done');
    expect((await statusOf(service)).last_verified_at).not.toBeNull();

    const problemsWith = async () => {
      const job = await runJob(service, '/backups/verify');
      expect([job.status, job.error?.code]).toEqual(['failed', 'backup_failed']);
      return job.error.details.problems.join('\n');
    };
    const objects = filesIn(folder, /\/(rest\.tar|db-1\.tar|manifest|[0-9A-F]{24})$/);
    expect(objects.length).toBeGreaterThan(6);
    for (const object of [objects[0], objects[3], objects.at(-1)] as string[]) {
      const file = path.join(folder, object);
      const bytes = readFileSync(file);
      const flipped = Buffer.from(bytes);
      flipped[bytes.length >> 1] = (flipped[bytes.length >> 1] as number) ^ 16;
      writeFileSync(file, flipped);
      expect(await problemsWith()).toContain(path.basename(object));
      writeFileSync(file, bytes.subarray(0, bytes.length - 20));
      expect(await problemsWith()).toContain('damaged');
      rmSync(file);
      expect(await problemsWith()).toMatch(/no object|missing/);
      writeFileSync(file, bytes);
    }
    expect(service.log.join('')).toContain('BACKUPS ARE DAMAGED');
    expect((await runJob(service, '/backups/verify')).status).toBe('done');

    const other = { ...(await repositoryOf({ ...lab, masterKey: Buffer.alloc(32, 1) }, folder)) };
    await expect(listBackups(other)).rejects.toThrow('another master key');
  });

  it('a backup whose description is damaged is reported, and blocks nothing', async () => {
    const lab = await startLab();
    const folder = newFolder('repository');
    let shiftMs = 0;
    const service = await openWithBackups(lab, folder, {
      restores: { dataFolder: lab.folder },
      now: () => Date.now() + shiftMs,
      imports: { folder: newFolder('imports'), allowPrivateHosts: false },
    });
    await firstBackup(service);
    const project = await service.project('Shop');
    await allStored(service);
    const [description] = filesIn(folder, /\/backup$/);
    const id = path.basename(path.dirname(description ?? ''));
    const before = new Date().toISOString();
    writeFileSync(path.join(folder, description ?? ''), '');

    const damaged = await statusOf(service);
    expect([damaged.ok, damaged.backups, damaged.restorable]).toEqual([true, [], []]);
    expect(damaged.damaged).toEqual([{ id, server: 'test', problem: expect.stringContaining('damaged') }]);
    const refused = await service.call('POST', `/projects/${project.slug}/restore`, { body: { to: before } });
    expect([refused.status, refused.body.error?.code]).toEqual([409, 'conflict']);
    // The service takes a new one by itself, at its next list.
    shiftMs = 11 * minutes;
    await firstBackup(service);
    const isLogged = (line: string) => line.includes('A BACKUP IS DAMAGED') && line.includes(id);
    expect(service.log.filter(isLogged)).toHaveLength(1);
    expect(String((await service.call('GET', '/metrics')).body)).toMatch(/^rowhouse_backup_damaged 1$/m);
    const found = await examineBackups(lab, folder, service.controlDatabase);
    expect([found?.state, found?.found]).toEqual(['problem', expect.stringContaining(id)]);

    shiftMs = 0;
    await allStored(service);
    const started = await service.call('POST', `/projects/${project.slug}/restore`, {
      body: { to: new Date().toISOString() },
    });
    expect(started.status, JSON.stringify(started.body)).toBe(202);
    const restored = await jobEnd(service, started.body.job.id, 2 * minutes);
    expect([restored.status, restored.error]).toEqual(['done', null]);
    const verified = await runJob(service, '/backups/verify');
    expect(verified.error.details.problems).toEqual([expect.stringContaining(`${id}/backup`)]);
    const parts = filesIn(folder, /\.tar$/).length;
    expect((await runJob(service, '/backups/prune')).result).toMatchObject({ backups: [], unfinished: 0 });
    expect(filesIn(folder, /\.tar$/)).toHaveLength(parts);

    // Without the list of its files, a backup cannot be the parent of an incremental one: the next one is full.
    const [manifest] = filesIn(folder, /\/manifest$/).filter((name) => !name.includes(id));
    writeFileSync(path.join(folder, manifest ?? ''), '');
    const next = await runJob(service, '/backups', { kind: 'incremental' });
    expect([next.status, next.result?.backup.kind]).toEqual(['done', 'full']);
  });

  it('an interrupted backup is not a backup, and only an account key reaches backups', async () => {
    const lab = await startLab();
    const folder = newFolder('repository');
    const service = await openWithBackups(lab, folder, {
      backups: { ...backupsIn(folder), rateMb: 1 },
    });
    // At 1 MB per second the first backup takes most of a minute: long enough to look at it, and to end it.
    await until('parts are stored', async () => filesIn(folder, /base\/.*\.tar$/).length > 0, 2 * minutes);
    expect((await statusOf(service)).backups).toEqual([]);
    expect(filesIn(folder, /\/backup$/)).toEqual([]);
    const second = await runJob(service, '/backups', { kind: 'full' });
    expect([second.status, second.error?.code]).toEqual(['failed', 'conflict']);
    // Parts as old as these are removed if they are left of a backup, but not while one runs.
    const parts = filesIn(folder, /base\/.*\.tar$/);
    const old = new Date(Date.now() - 48 * 60 * minutes);
    for (const name of parts) utimesSync(path.join(folder, name), old, old);
    expect((await runJob(service, '/backups/prune')).result).toMatchObject({ unfinished: 0 });
    expect(filesIn(folder, /base\/.*\.tar$/)).toEqual(expect.arrayContaining(parts));
    const project = await service.project();
    const refused = await service.call('GET', `${api}/backups`, { key: project.key });
    expect([refused.status, refused.body.error.code]).toEqual([403, 'forbidden']);
    await service.stop();
    expect(filesIn(folder, /\/backup$/)).toEqual([]);
    // What was stored of it is removed at once.
    expect(filesIn(folder, /base\/.*\.tar$/)).toEqual([]);
  });

  it('a role that may not replicate is told what it lacks, and serves all the same', async () => {
    const lab = await startLab();
    await lab.database.query(sql`create role plain login createdb createrole password 'plain'`);
    const at = { ...lab.engine.address, user: 'plain', password: 'plain' };
    const service = await openWithBackups(lab, newFolder('repository'), { at });
    // The service tries it first, and only one backup runs at a time.
    await until('its own backup has failed', async () => service.log.join('').includes('A BACKUP FAILED'));
    const job = await runJob(service, '/backups', { kind: 'full' });
    expect([job.status, job.error?.code]).toEqual(['failed', 'backup_failed']);
    expect(job.error.hint).toContain('REPLICATION');
    expect((await service.project()).slug).toBeTruthy();
    await lab.database.query(sql`alter role plain replication`);
    await firstBackup(service);
    await allStored(service);
  });

  it('a server with tablespaces gets no backup that could not be restored, and is told so', async () => {
    const lab = await startLab();
    const [folder, elsewhere] = [newFolder('repository'), newFolder('tablespace')];
    const service = await openWithBackups(lab, folder);
    await firstBackup(service);
    const before = (await statusOf(service)).backups.length;
    const { uid, gid } = findRunAs(path.join(lab.folder, 'postgres')) ?? statSync(elsewhere);
    chownSync(elsewhere, uid, gid);
    await lab.database.query(sql`create tablespace "else where" location ${sql.literal(elsewhere)}`);
    const job = await runJob(service, '/backups', { kind: 'full' });
    expect([job.status, job.error?.code]).toEqual(['failed', 'backup_failed']);
    expect(job.error.message).toContain('tablespaces, which backups cannot restore: else where');
    // Without a request, too: the schedule looks every half minute.
    const isLogged = (line: string) => line.includes('A BACKUP FAILED') && line.includes('else where');
    await until('it is logged', async () => service.log.some(isLogged), 2 * minutes);
    const found = await examineBackups(lab, folder, service.controlDatabase);
    expect([found?.state, found?.found, found?.todo]).toEqual([
      'problem',
      expect.stringContaining('else where'),
      expect.stringContaining('pg_default'),
    ]);
    expect((await statusOf(service)).backups).toHaveLength(before);
    await lab.database.query(sql`drop tablespace "else where"`);
    expect((await runJob(service, '/backups', { kind: 'full' })).status).toBe('done');
    const well = await examineBackups(lab, folder, service.controlDatabase);
    expect([well?.state, well?.found]).toEqual([
      'warning',
      expect.stringMatching(/on the disk of the data$/),
    ]);
  });

  it('off: no slot is left behind, and requests say so', async () => {
    const lab = await startLab();
    const folder = newFolder('repository');
    const service = await openWithBackups(lab, folder);
    await firstBackup(service);
    await service.stop();
    const slots = () => lab.database.query(sql`select slot_name from pg_replication_slots`);
    expect(await slots()).toHaveLength(1);
    const off = await openTestService({
      at: lab.engine.address,
      masterKey: lab.masterKey,
      spares: 0,
      controlDatabase: service.controlDatabase,
    });
    onTestFinished(() => off.stop());
    await until('the slot is dropped', async () => (await slots()).length === 0);
    const answer = await off.call('GET', `${api}/backups`, { key: service.accountKey });
    expect([answer.status, answer.body.error.code]).toEqual([409, 'backups_off']);
    expect(existsSync(folder)).toBe(true);
  });
});

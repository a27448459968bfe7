// The place of the backups is not the repository any more: a disk that is not mounted, an empty folder in its place, another
// repository. Nothing is written there, it is said aloud at once, and nothing is missing when the repository is back.
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { listBackups } from '../../src/backups/repository/descriptions.ts';
import { sql } from '../../src/postgres/sql.ts';
import {
  examineBackups,
  type Lab,
  newFolder,
  recover,
  repositoryOf,
  startLab,
} from '../support/backup-lab.ts';
import { api, type TestService, type TestServiceOptions, until } from '../support/helpers.ts';
import { startMailServer } from '../support/mail-server.ts';
import { allStored, firstBackup, minutes, openWithBackups, runJob, statusOf } from './backup-service.ts';

/** A service that has stored a full backup and all WAL. `folder`: its repository, the only entry of its parent. */
async function startStored(more: TestServiceOptions = {}) {
  const lab = await startLab();
  const folder = path.join(newFolder('repository'), 'backups');
  const service = await openWithBackups(lab, folder, more);
  await firstBackup(service);
  await allStored(service);
  return { lab, folder, service };
}

/** A later process of the installation, or one beside it. */
async function startAgain(
  lab: Lab,
  folder: string,
  { controlDatabase, accountKey }: TestService,
  more: TestServiceOptions = {},
): Promise<TestService> {
  const service = await openWithBackups(lab, folder, { controlDatabase, ...more });
  const { call } = service;
  service.call = (method, target, options) => call(method, target, { key: accountKey, ...options });
  return service;
}

const takeAway = (folder: string) => renameSync(folder, `${folder}.away`);
const bringBack = (folder: string) => renameSync(`${folder}.away`, folder);
const isBack = (service: TestService) =>
  until('it is back', async () => (await statusOf(service)).ok === true, 30_000);
const filesIn = (folder: string) => readdirSync(folder, { recursive: true, encoding: 'utf8' }).sort();
const logOf = (service: TestService) => service.log.join('');

/** Everything that an operator looks at says that there are no backups, in words that name the place. */
async function expectLoud(lab: Lab, service: TestService, folder: string): Promise<void> {
  await until(
    'the log says it',
    async () => logOf(service).includes('is not the repository of the backups') && logOf(service),
    20_000,
  );
  const listed = await service.call('GET', `${api}/backups`);
  expect([listed.status, listed.body.error?.code]).toEqual([503, 'backup_failed']);
  expect(listed.body.error.message).toContain(folder);
  await until('the metrics say it', async () => {
    const metrics = String((await service.call('GET', '/metrics')).body);
    return (
      /^rowhouse_backup_repository_missing 1$/m.test(metrics) &&
      /^rowhouse_server_backed_up\{server="test"\} 0$/m.test(metrics) &&
      /^rowhouse_backup_wal_failures [1-9]/m.test(metrics) &&
      /^rowhouse_backup_failures [1-9]/m.test(metrics)
    );
  });
  expect(await examineBackups(lab, folder, service.controlDatabase)).toMatchObject({
    state: 'problem',
    found: expect.stringContaining('is not the repository of the backups'),
  });
  for (const [target, body] of [
    ['/backups', { kind: 'full' }],
    ['/backups', { kind: 'incremental' }],
    ['/backups/verify', {}],
    ['/backups/prune', {}],
  ] as const) {
    const job = await runJob(service, target, body);
    expect([job.status, job.error?.code], target).toEqual(['failed', 'backup_failed']);
  }
  expect((await service.call('GET', '/projects')).status).toBe(200);
}

async function expectWhole(lab: Lab, service: TestService, folder: string, marks: number): Promise<void> {
  await isBack(service);
  await allStored(service);
  const status = await statusOf(service);
  expect(status.servers[0].problem).toBe(null);
  expect(status.restorable).toHaveLength(1);
  expect(status.backups.map(({ kind }: { kind: string }) => kind)).toEqual(['full']);
  const metrics = String((await service.call('GET', '/metrics')).body);
  expect(metrics).toMatch(/^rowhouse_backup_repository_missing 0$/m);
  expect(metrics).toMatch(/^rowhouse_server_backed_up\{server="test"\} 1$/m);
  expect((await examineBackups(lab, folder, service.controlDatabase))?.found).not.toContain(
    'is not the repository',
  );
  const repository = await repositoryOf(lab, folder);
  const recovered = await recover(lab, repository, (await listBackups(repository)).slice(0, 1));
  expect(await recovered.database.query(sql`select count(*)::int as count from marks`)).toEqual([
    { count: marks },
  ]);
}

describe('a repository that vanishes', { timeout: 6 * minutes }, () => {
  it('is not made anew, in any form of its absence, and has no gap when it is back', async () => {
    const { lab, folder, service } = await startStored();
    const root = path.dirname(folder);
    await lab.database.query(sql`create table marks (id int)`);
    await allStored(service);
    let marks = 0;
    const write = async (): Promise<void> => {
      for (let id = 0; id < 30; id++) await lab.database.query(sql`insert into marks values (${id})`);
      marks += 30;
      await lab.database.query(sql`select pg_switch_wal()`);
    };
    const other = path.join(root, 'other');
    mkdirSync(other);
    writeFileSync(path.join(other, 'repository'), JSON.stringify({ format: 1, id: 'another one' }));
    mkdirSync(path.join(other, '1', 'base'), { recursive: true });
    const forms: Record<string, () => () => void> = {
      nothing: () => () => {},
      'an empty folder': () => {
        mkdirSync(folder);
        return () => rmSync(folder, { recursive: true });
      },
      'another repository': () => {
        renameSync(other, folder);
        return () => renameSync(folder, other);
      },
      'a repository without its marker': () => {
        mkdirSync(path.join(folder, '1', 'base'), { recursive: true });
        return () => rmSync(folder, { recursive: true });
      },
      'a marker that is empty': () => {
        mkdirSync(folder);
        writeFileSync(path.join(folder, 'repository'), '');
        return () => rmSync(folder, { recursive: true });
      },
    };
    for (const [form, replace] of Object.entries(forms)) {
      service.log.length = 0;
      takeAway(folder);
      const undo = replace();
      const before = filesIn(root);
      await write();
      await expectLoud(lab, service, folder);
      await write();
      expect(filesIn(root), form).toEqual(before);
      undo();
      bringBack(folder);
      await expectWhole(lab, service, folder, marks);
    }
  });

  it('is missed while nothing is written, too', async () => {
    const { lab, folder, service } = await startStored();
    takeAway(folder);
    await expectLoud(lab, service, folder);
    bringBack(folder);
    await isBack(service);
  });

  it('is not made anew by the next start either, nor by a second process', async () => {
    const { lab, folder, service: first } = await startStored();
    await first.stop();
    takeAway(folder);
    const second = await startAgain(lab, folder, first);
    const third = await startAgain(lab, folder, first, { background: false });
    await expectLoud(lab, second, folder);
    expect((await third.call('GET', `${api}/backups`)).status).toBe(503);
    expect((await runJob(third, '/backups', { kind: 'full' })).status).toBe('failed');
    await sleep(2_000);
    expect(readdirSync(path.dirname(folder))).toEqual(['backups.away']);
    bringBack(folder);
    await isBack(third);
    await allStored(third);
  });

  it('is told to the operators by mail, once, and its return too', async () => {
    const mailServer = await startMailServer();
    onTestFinished(() => mailServer.stop());
    const { lab, folder, service } = await startStored({
      delivery: mailServer.delivery,
      consolePage: 'https://console.example.com/console/',
    });
    const { control } = service.service.deps;
    await service.call('POST', `${api}/accounts`, { key: service.operatorKey, body: { name: 'Other' } });
    for (const [name, role, account] of [
      ['ada', 'owner', `id = 'default'`],
      ['bob', 'viewer', `id = 'default'`],
      ['eve', 'owner', `name = 'Other'`],
    ] as const) {
      const email = `${name}@example.com`;
      await control.query(sql`
        with person as (insert into people (id, email, email_key) values (${name}, ${email}, ${email}) returning id)
        insert into members (account_id, person_id, role)
        select accounts.id, person.id, ${role} from person, accounts where accounts.${sql.script(account)}`);
    }
    const mails = () => mailServer.mails.map(({ to, subject }) => [...to, subject]);
    for (let round = 0; round < 2; round++) {
      service.log.length = 0;
      takeAway(folder);
      await expectLoud(lab, service, folder);
      await until('the mail', async () => mails().length >= 1, 2 * minutes);
      bringBack(folder);
      await isBack(service);
      await until('the second mail', async () => mails().length >= 2, 2 * minutes);
      await allStored(service);
    }
    expect(mailServer.mails[0]?.text).toContain(folder);
    // The second time within an hour is not told: the log and the metrics are there for that.
    expect(mails()).toEqual([
      ['ada@example.com', 'Rowhouse does not store backups'],
      ['ada@example.com', 'Rowhouse stores backups again'],
    ]);
  });

  it('can be given up by the operator: a new one begins in its place, for all processes', async () => {
    const { lab, folder, service } = await startStored();
    const beside = await startAgain(lab, folder, service, { background: false });
    const [lost] = (await statusOf(beside)).backups;
    rmSync(folder, { recursive: true });
    mkdirSync(folder);
    await expectLoud(lab, service, folder);
    const job = await runJob(beside, '/backups', { new_repository: true });
    expect(job.error ?? null).toBe(null);
    await until('both see it', async () => {
      const seen = [await statusOf(service), await statusOf(beside)];
      return seen.every(({ backups }) => backups?.length > 0);
    });
    await allStored(service);
    expect((await statusOf(service)).backups.map(({ id }: { id: string }) => id)).not.toContain(lost.id);
    expect((await statusOf(service)).backups[0].kind).toBe('full');
    // Where the repository is what it should be, nothing begins anew.
    const marker = readFileSync(path.join(folder, 'repository'), 'utf8');
    expect((await runJob(service, '/backups', { new_repository: true })).status).toBe('done');
    expect(readFileSync(path.join(folder, 'repository'), 'utf8')).toBe(marker);
  });

  it('of an earlier version gets its marker; a place without its backups does not', async () => {
    const { lab, folder, service: first } = await startStored();
    await first.stop();
    // As an earlier version left it.
    rmSync(path.join(folder, 'repository'));
    const forget = await startAgain(lab, folder, first, { background: false });
    await forget.service.deps.control.query(sql`delete from settings where name = 'backup_repositories'`);
    await forget.stop();

    takeAway(folder);
    const absent = await startAgain(lab, folder, first);
    await expectLoud(lab, absent, folder);
    expect(readdirSync(path.dirname(folder))).toEqual(['backups.away']);
    await absent.stop();
    bringBack(folder);
    const upgraded = await startAgain(lab, folder, first);
    await until('the backups are there', async () => (await statusOf(upgraded)).backups?.length === 1);
    await until('the marker', async () => readdirSync(folder).includes('repository'));
    await allStored(upgraded);
  });

  it('is at a new place after the setting was changed, and at the old one after it was changed back', async () => {
    const lab = await startLab();
    const root = newFolder('repository');
    const [one, two] = [path.join(root, 'one'), path.join(root, 'deep', 'two')];
    const first = await openWithBackups(lab, one);
    await firstBackup(first);
    await first.stop();
    const second = await startAgain(lab, two, first);
    await firstBackup(second);
    await second.stop();
    takeAway(one);
    const again = await startAgain(lab, one, first);
    await expectLoud(lab, again, one);
    expect(readdirSync(root).sort()).toEqual(['deep', 'one.away']);
  });
});

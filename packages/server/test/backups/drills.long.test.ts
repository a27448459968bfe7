// Drills as the service runs them, every night and on demand: a project whose backup is damaged is reported everywhere, and no other one is.
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import pg from 'pg';
import { expect, it, onTestFinished } from 'vitest';
import { putDrillProblem } from '../../src/backups/check/drill-problems.ts';
import { putSetting } from '../../src/control/settings.ts';
import { databaseOf, roleOf } from '../../src/servers/databases/names.ts';
import { examineBackups, newFolder, startLab } from '../support/backup-lab.ts';
import { run } from '../support/exports.ts';
import { api, until } from '../support/helpers.ts';
import { end, startService } from './restoring.ts';

const hourMs = 60 * 60_000;

it('a drill that fails is in the log, the metrics, doctor and the usage of the project, until one succeeds', {
  timeout: 400_000,
}, async () => {
  const lab = await startLab();
  const folder = newFolder('repository');
  let shiftMs = 0;
  const location = { kind: 'folder' as const, folder };
  const rowhouse = await startService(lab, { location, now: () => Date.now() + shiftMs });
  const { backups, control } = rowhouse.service.deps;
  const [shop, other] = [await rowhouse.project('Shop'), await rowhouse.project('Other')];
  for (const project of [shop, other])
    await run(rowhouse, project, 'create table t as select generate_series(1, 1000) as n');
  const taken = await backups?.first.take('full', {
    signal: new AbortController().signal,
    progress: () => {},
  });
  const oid = taken?.databases.find(({ name }) => name === databaseOf(shop.id))?.oid;
  const part = path.join(folder, taken?.cluster ?? '', 'base', taken?.id ?? '', `db-${oid}.tar`);
  const whole = readFileSync(part);
  const damaged = Buffer.from(whole);
  damaged[whole.length >> 1] = (damaged[whole.length >> 1] as number) ^ 1;
  writeFileSync(part, damaged);

  const metric = async (name: string) => {
    const { body } = await rowhouse.call('GET', '/metrics');
    return Number(new RegExp(`^rowhouse_restore_drill_${name} (\\S+)$`, 'm').exec(String(body))?.[1]);
  };
  const failedAt = async (project: { slug: string }) =>
    (await rowhouse.call('GET', `/projects/${project.slug}/usage`)).body.usage.failed_restore_drill_at;
  const ask = (body: object, key = rowhouse.accountKey) =>
    rowhouse.call('POST', `${api}/backups/drill`, { body, key });
  const drill = async (body: object) => {
    const started = await ask(body);
    expect(started.status, JSON.stringify(started.body)).toBe(202);
    return end(rowhouse, started.body.job.id);
  };
  const proven = () => examineBackups(lab, folder, rowhouse.controlDatabase, 'restore drills');
  const examined = () => examineBackups(lab, folder, rowhouse.controlDatabase);
  expect([await metric('failing_projects'), await failedAt(shop)]).toEqual([0, null]);
  expect((await examined())?.state).toBe('warning');

  // The turn of the damaged project, and two days after the last drill.
  await putSetting(control, 'drilled_project', other.id);
  await putSetting(control, 'drill_tried_at', new Date(Date.now() - 48 * hourMs).toISOString());
  await until('the drill fails', async () => (await metric('failing_projects')) === 1, 120_000);
  const failures = rowhouse.log.map((line) => JSON.parse(line)).filter(({ msg }) => /DRILL FAILED/.test(msg));
  expect(failures).toMatchObject([{ level: 50, project: shop.slug }]);
  expect(await metric('failures')).toBe(1);
  expect(await metric('age_seconds')).toBeNaN();
  expect([await failedAt(shop), await failedAt(other)]).toEqual([expect.any(String), null]);
  const found = await examined();
  expect([found?.state, found?.found]).toEqual([
    'problem',
    expect.stringContaining(`drill of ${shop.slug} failed`),
  ]);
  // The service and the project are as before.
  expect((await run(rowhouse, shop, 'select count(*) from t')).rows).toEqual([{ count: 1000 }]);

  // On demand: the other project passes, which says nothing about this one.
  expect(await proven()).toMatchObject({
    state: 'warning',
    found: expect.stringContaining('has been proven yet'),
  });
  const other2 = await drill({ project: other.slug });
  expect(other2).toMatchObject({ kind: 'drill', project: other.slug, status: 'done', error: null });
  expect(other2.result).toMatchObject({ project: other.slug, changed_tables: 0 });
  expect(other2.result.compared_tables).toBeGreaterThan(0);
  expect((await proven())?.state).toBe('ok');
  const again = await drill({ project: shop.slug });
  expect([again.status, again.error.code]).toEqual(['failed', 'backup_failed']);
  expect([await metric('failures'), await metric('failing_projects')]).toEqual([2, 1]);
  // Without a project, the next one in turn.
  expect((await drill({})).project).toBe(other.slug);
  expect((await ask({ project: 'nobody' })).status).toBe(404);
  expect((await ask({}, shop.key)).status).toBe(403);

  // Repaired: the same project is tried again after an hour. One that is deleted meanwhile is not a problem any more.
  writeFileSync(part, whole);
  const gone = { projectId: 'gone', slug: 'gone', problem: 'it was damaged' };
  await putDrillProblem(control, { ...gone, failedAt: new Date(Date.now() - 2 * hourMs).toISOString() });
  await until('both are counted', async () => (await metric('failing_projects')) === 2);
  shiftMs = 1.1 * hourMs;
  await until('the drill succeeds', async () => (await metric('failing_projects')) === 0, 180_000);
  expect(await metric('failures')).toBe(2);
  expect(await metric('age_seconds')).toBeLessThan(300);
  expect(await failedAt(shop)).toBeNull();
  expect((await examined())?.state).toBe('warning');
  await putSetting(control, 'drilled_at', new Date(Date.now() - 73 * hourMs).toISOString());
  expect(await proven()).toMatchObject({ state: 'warning', found: expect.stringContaining('proven since') });
});

it('a project that is busy, unreadable or deleted raises no alarm', async () => {
  const lab = await startLab();
  let shiftMs = 0;
  const rowhouse = await startService(lab, { now: () => Date.now() + shiftMs });
  const { control } = rowhouse.service.deps;
  const [busy, other] = [await rowhouse.project('Busy'), await rowhouse.project('Other')];
  for (const project of [busy, other])
    await run(
      rowhouse,
      project,
      'create table t as select generate_series(1, 1000) as n',
      'create table hidden as select 1 as one',
      'revoke all on hidden from current_user',
      // Planning a query runs it, and a drill must not: it could go on without end, while other restores wait.
      `create function spy() returns int language plpgsql immutable as $$ begin
         if session_user <> '${roleOf(project.id)}' then raise exception 'seen by %', session_user; end if;
         return 1; end $$`,
      'create table spied (id int)',
      'create index on spied ((spy() + id))',
    );
  const holder = new pg.Client({ ...lab.engine.address, database: databaseOf(busy.id) });
  await holder.connect();
  // The deletion of the project ends the session.
  holder.on('error', () => {});
  onTestFinished(() => holder.end());
  await holder.query('begin');
  await holder.query('lock table public.t');
  const drill = async (slug: string) => {
    const started = await rowhouse.call('POST', `${api}/backups/drill`, { body: { project: slug } });
    return end(rowhouse, started.body.job.id);
  };
  const alarms = async () => {
    const { body } = await rowhouse.call('GET', '/metrics');
    const names = ['failures', 'failing_projects'];
    return names.map((name) =>
      Number(new RegExp(`^rowhouse_restore_drill_${name} (\\S+)$`, 'm').exec(String(body))?.[1]),
    );
  };
  const refused = await drill(busy.slug);
  expect([refused.status, refused.error.code, refused.error.details]).toEqual([
    'failed',
    'conflict',
    { retryable: true },
  ]);
  expect(await alarms()).toEqual([0, 0]);
  // The comparison leaves out tables that the project's own role may not read, and those whose indexes run its code.
  const read = await drill(other.slug);
  expect([read.error, read.result?.changed_tables]).toEqual([null, 0]);

  // At night, the next one in turn takes the place of the busy one, after a while.
  await putSetting(control, 'drilled_project', other.id);
  for (const name of ['drilled_at', 'drill_tried_at'] as const)
    await putSetting(control, name, new Date(Date.now() - 48 * hourMs).toISOString());
  const logged = (text: RegExp) => rowhouse.log.filter((line) => text.test(line)).length;
  await until('the drill is postponed', async () => logged(/drill was postponed/) === 2, 120_000);
  shiftMs = hourMs / 4;
  await until('the other one is drilled', async () => logged(/equals the live one/) === 2, 120_000);
  expect([await alarms(), logged(/DRILL FAILED/)]).toEqual([[0, 0], 0]);

  // Deleted while it is restored aside.
  await holder.query('rollback');
  const started = await rowhouse.call('POST', `${api}/backups/drill`, { body: { project: busy.slug } });
  expect((await rowhouse.call('DELETE', `/projects/${busy.slug}`)).status).toBe(200);
  const ended = await end(rowhouse, started.body.job.id);
  expect([ended.status, ended.error?.code]).toEqual(['failed', 'conflict']);
  expect(await alarms()).toEqual([0, 0]);
});

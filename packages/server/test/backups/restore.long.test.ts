// Restoring a project to a point in time through the API, on a PostgreSQL of its own with continuous backup.
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import type { Backups } from '../../src/backups/backups.ts';
import { chooseNext, compare, runDrill } from '../../src/backups/check/drill.ts';
import { markPresent } from '../../src/backups/restore/mark-present.ts';
import { putSetting } from '../../src/control/settings.ts';
import { parseLsn } from '../../src/postgres/replication/lsn.ts';
import { sql } from '../../src/postgres/sql.ts';
import { databaseOf } from '../../src/servers/databases/names.ts';
import { prepareBinaries } from '../../src/servers/embedded/binaries.ts';
import { clusterFolderOf } from '../../src/servers/embedded/embedded.ts';
import { createCluster, startPostmaster } from '../../src/servers/embedded/postmaster.ts';
import { findRunAs } from '../../src/servers/embedded/run-as.ts';
import { newFolder, startLab } from '../support/backup-lab.ts';
import { corpus, download, type Project, run } from '../support/exports.ts';
import { api, type TestService, until } from '../support/helpers.ts';
import { ask, backups, end, moment, restore, startService } from './restoring.ts';
import { openS3Server, s3SkipReason } from './s3-server.ts';

const noS3 = await s3SkipReason();

/**
 * As SQL, without what differs: sign-ins end with a restore, and PostgreSQL logs sequences ahead, so that a replayed one
 * can skip up to 32 values.
 */
const dump = async (rowhouse: TestService, project: Project) => {
  const { bytes } = await download(rowhouse, project, 'sql');
  const ids = new RegExp(`${project.id}`, 'g');
  return bytes
    .toString()
    .replace(ids, 'id')
    .replace(/^\\(un)?restrict .*$/gm, '')
    .replace(/(^COPY auth\.sessions .*;\n)(?:[^\\].*\n)*/m, '$1')
    .replace(/^(SELECT pg_catalog\.setval\('[^']+', )\d+/gm, '$1');
};

it('a project is restored to earlier moments, with all its objects and users', {
  timeout: 400_000,
}, async () => {
  const lab = await startLab();
  const rowhouse = await startService(lab);
  const project = await rowhouse.project('Shop');
  const neighbour = await rowhouse.project('Neighbour');
  await run(rowhouse, neighbour, 'create table t as select 1 as one');
  await run(rowhouse, project, ...corpus);
  const credentials = { email: 'ada@example.com', password: 'correct horse battery' };
  const signUp = await rowhouse.call('POST', `/projects/${project.slug}/auth/signup`, {
    key: project.key,
    body: credentials,
  });
  expect(signUp.status).toBe(201);
  await run(rowhouse, project, 'update teas set owner = (select id from auth.users)');
  const first = await moment(lab);
  const expected = await dump(rowhouse, project);
  await run(rowhouse, project, `update teas set name = 'lost' where name = '\\.'`, 'drop table secrets');
  const second = await moment(lab);
  await rowhouse.service.deps.backups?.first.take('incremental', {
    signal: new AbortController().signal,
    progress: () => {},
  });
  await run(rowhouse, project, 'delete from teas');
  const third = await moment(lab);
  expect((await rowhouse.call('DELETE', `/projects/${project.slug}`)).status).toBe(200);

  const early = await restore(rowhouse, project.slug, first);
  expect([early.ended.status, early.ended.error]).toEqual(['done', null]);
  expect(early.ended.result).toMatchObject({ restored_to: first, into: 'new', users: 1, skipped: [] });
  expect(await dump(rowhouse, early.copy)).toBe(expected);
  const signIn = await rowhouse.call('POST', `/projects/${early.copy.slug}/auth/signin`, {
    key: early.copy.key,
    body: credentials,
  });
  expect(signIn.status).toBe(200);

  const later = await restore(rowhouse, project.slug, second);
  const names = await run(rowhouse, later.copy, "select name from teas where name = 'lost'");
  expect(names.rows).toEqual([{ name: 'lost' }]);
  const last = await restore(rowhouse, project.slug, third);
  expect((await run(rowhouse, last.copy, 'select count(*) from teas')).rows).toEqual([{ count: 0 }]);
  expect((await run(rowhouse, neighbour, 'select one from t')).rows).toEqual([{ one: 1 }]);
  expect(readdirSync(path.join(lab.folder, 'restores'))).toEqual([]);

  const early2 = await ask(rowhouse, project.slug, { to: '2020-01-01T00:00:00Z' });
  expect([early2.status, early2.body.error.message]).toEqual([
    409,
    'The project did not exist at that time.',
  ]);
  const future = await ask(rowhouse, neighbour.slug, { to: '2999-01-01T00:00:00Z' });
  const [oldest] = await backups(rowhouse);
  expect([future.status, future.body.error.code, future.body.error.details]).toEqual([
    409,
    'conflict',
    {
      retryable: false,
      oldest_restorable: oldest?.ended_at,
      newest_restorable: expect.any(String),
      restorable: [{ from: oldest?.ended_at, to: expect.any(String) }],
    },
  ]);
  expect((await ask(rowhouse, project.slug, { into: 'new' })).status).toBe(400);
  expect((await ask(rowhouse, project.slug, { to: 'yesterday' })).status).toBe(400);
  expect((await ask(rowhouse, project.slug, { to: second, into: 'in_place' })).status).toBe(409);
  // Without a body, a deleted project is restored as before.
  expect((await rowhouse.call('POST', `/projects/${project.slug}/restore`)).status).toBe(200);

  // In place: the same slug and keys, and the replaced state is kept as a deleted project.
  const started = await ask(rowhouse, project.slug, { to: second, into: 'in_place' });
  expect([started.status, started.body.project?.slug, started.body.api_key]).toEqual([
    202,
    project.slug,
    undefined,
  ]);
  const ended = await end(rowhouse, started.body.job.id);
  expect([ended.status, ended.error, ended.result?.into]).toEqual(['done', null, 'in_place']);
  const rows = await run(rowhouse, project, "select count(*) from teas where name = 'lost'");
  expect(rows.rows).toEqual([{ count: 1 }]);
  const replaced = await rowhouse.call('GET', `/projects/${ended.project}`);
  expect(replaced.body.project.status).toBe('deleted');
  expect((await rowhouse.call('POST', `/projects/${ended.project}/restore`)).status).toBe(200);
  const old = { ...project, slug: ended.project, key: rowhouse.accountKey };
  expect((await run(rowhouse, old, 'select count(*) from teas')).rows).toEqual([{ count: 0 }]);

  // Its database has another oid now than in the backup, which has it under the name of the copy.
  const again = await restore(rowhouse, project.slug, await moment(lab));
  expect([again.ended.status, again.ended.error]).toEqual(['done', null]);
  const count = await run(rowhouse, again.copy, "select count(*) from teas where name = 'lost'");
  expect(count.rows).toEqual([{ count: 1 }]);
  expect(readdirSync(path.join(lab.folder, 'restores'))).toEqual([]);
});

it('snapshots name moments, and branches begin at one', { timeout: 400_000 }, async () => {
  const lab = await startLab();
  const rowhouse = await startService(lab);
  const project = await rowhouse.project('Shop');
  const snapshots = `/projects/${project.slug}/snapshots`;
  const make = (name: string) => rowhouse.call('POST', snapshots, { key: project.key, body: { name } });
  await run(rowhouse, project, 'create table t (n int)', 'insert into t values (1)');
  const made = await make('before the sale');
  expect([made.status, made.body.snapshot]).toEqual([
    201,
    { name: 'before the sale', at: expect.any(String), is_restorable: true },
  ]);
  await run(rowhouse, project, 'insert into t values (2)');
  expect((await make('before the sale')).status).toBe(409);
  expect((await make('later')).status).toBe(201);
  const listed = await rowhouse.call('GET', snapshots, { key: project.key });
  expect(listed.body.snapshots.map(({ name }: { name: string }) => name)).toEqual([
    'later',
    'before the sale',
  ]);

  const started = await ask(rowhouse, project.slug, { snapshot: 'before the sale' });
  expect([started.status, started.body.error]).toEqual([202, undefined]);
  expect(await end(rowhouse, started.body.job.id)).toMatchObject({ status: 'done', error: null });
  const copy = { ...project, slug: started.body.project.slug, key: started.body.api_key };
  expect((await run(rowhouse, copy, 'select n from t')).rows).toEqual([{ n: 1 }]);

  const expires = new Date(Date.now() + 86_400_000).toISOString();
  const branched = await rowhouse.call('POST', `/projects/${project.slug}/branches`, {
    body: { name: 'Past', at: made.body.snapshot.at, slug: 'past', limit_mb: 32, expires_at: expires },
  });
  expect([branched.status, branched.body.job?.kind]).toEqual([201, 'branch']);
  expect(await end(rowhouse, branched.body.job.id)).toMatchObject({ status: 'done', error: null });
  const { body } = await rowhouse.call('GET', '/projects/past');
  expect(body.project).toMatchObject({
    parent: project.slug,
    limit_mb: 32,
    expires_at: expires,
    status: 'ready',
  });
  const past = { ...project, slug: 'past', key: branched.body.api_key };
  expect((await run(rowhouse, past, 'select n from t')).rows).toEqual([{ n: 1 }]);

  expect((await ask(rowhouse, project.slug, { snapshot: 'never' })).body.error.code).toBe(
    'snapshot_not_found',
  );
  const both = { snapshot: 'later', to: made.body.snapshot.at };
  expect((await ask(rowhouse, project.slug, both)).status).toBe(400);
  const gone = await rowhouse.call('DELETE', `${snapshots}/${encodeURIComponent('before the sale')}`);
  expect(gone.body.snapshots.map(({ name }: { name: string }) => name)).toEqual(['later']);
  for (const name of ['never', '%00', 'a%00b'])
    expect((await rowhouse.call('DELETE', `${snapshots}/${name}`)).status).toBe(404);

  // A copy of files that are in the backup, whose parent is deleted since.
  const copied = await rowhouse.call('POST', `/projects/${project.slug}/branches`, {
    body: { name: 'Copied' },
  });
  expect(copied.status).toBe(201);
  const at = await moment(lab);
  expect((await rowhouse.call('DELETE', `/projects/${project.slug}`)).status).toBe(200);
  const again = await restore(rowhouse, copied.body.project.slug, at);
  expect([again.ended.status, again.ended.error]).toEqual(['done', null]);
  expect((await run(rowhouse, again.copy, 'select n from t order by n')).rows).toEqual([{ n: 1 }, { n: 2 }]);
});

it('a project whose code does not end delays no other restore', async () => {
  const lab = await startLab();
  const rowhouse = await startService(lab);
  const [slow, quick] = [await rowhouse.project('Slow'), await rowhouse.project('Quick')];
  await run(
    rowhouse,
    slow,
    `create function wait() returns int language plpgsql as $$
     begin
       if current_database() <> '${databaseOf(slow.id)}' then perform pg_sleep(600); end if;
       return 1;
     end $$`,
    'create materialized view waiting as select wait()',
  );
  await run(rowhouse, quick, 'create table t as select 1 as one');
  const at = await moment(lab);
  const { body: first } = await ask(rowhouse, slow.slug, { to: at });
  const refreshes = sql`select from pg_stat_activity where state = 'active' and query ~* '^refresh materialized'`;
  const loads = async () => (await lab.database.query(refreshes)).length > 0;
  await until('the slow project is loaded', loads, 120_000);
  const { ended, copy } = await restore(rowhouse, quick.slug, at);
  expect([ended.status, ended.error]).toEqual(['done', null]);
  expect((await run(rowhouse, copy, 'select one from t')).rows).toEqual([{ one: 1 }]);
  expect(await loads()).toBe(true);
  expect((await rowhouse.call('DELETE', `${api}/jobs/${first.job.id}`)).status).toBe(202);
  expect((await end(rowhouse, first.job.id)).status).toBe('cancelled');
  expect((await rowhouse.call('GET', `/projects/${first.project.slug}`)).status).toBe(404);
});

it('a mark lies behind its own commit, which ends a replay', async () => {
  const lab = await startLab();
  const { backups: opened } = (await startService(lab)).service.deps;
  if (!opened) throw new Error('Backups are off.');
  const [before] = await lab.database.query<{ lsn: string }>(
    sql`select pg_current_wal_insert_lsn()::text as lsn`,
  );
  expect(await markPresent(opened.first, new Date(0))).toBeGreaterThan(parseLsn(before?.lsn ?? ''));
});

it('a restore that is cancelled, or whose process dies, leaves nothing', async () => {
  const lab = await startLab();
  const rowhouse = await startService(lab);
  const project = await rowhouse.project('Shop');
  // Enough WAL that the replay takes a while.
  await run(rowhouse, project, 'create table t as select g, md5(g::text) from generate_series(1, 400000) g');
  const restores = path.join(lab.folder, 'restores');
  const started = await ask(rowhouse, project.slug, { to: await moment(lab) });
  const copy = started.body.project;
  const pidFile = await until('the second PostgreSQL runs', async () => {
    const [name] = existsSync(restores) ? readdirSync(restores) : [];
    const file = path.join(restores, name ?? '', 'postmaster.pid');
    return existsSync(file) && file;
  });
  const pid = Number(readFileSync(pidFile, 'utf8').split('\n')[0]);
  expect((await rowhouse.call('DELETE', `${api}/jobs/${started.body.job.id}`)).status).toBe(202);
  expect((await end(rowhouse, started.body.job.id)).status).toBe('cancelled');
  expect(readdirSync(restores)).toEqual([]);
  expect(isAlive(pid)).toBe(false);
  expect((await rowhouse.call('GET', `/projects/${copy.slug}`)).status).toBe(404);

  // As after kill -9 of the service: a folder, a log, and a server that works in the folder.
  const folder = path.join(restores, 'left');
  const runAs = findRunAs(clusterFolderOf(lab.folder));
  const cluster = { folder, runAs, logFile: `${folder}.log`, binaries: prepareBinaries(lab.folder, runAs) };
  createCluster(cluster, 'secret');
  const options = { port: '5432', listen_addresses: '', unix_socket_directories: '.' };
  const { signal } = new AbortController();
  const left = await startPostmaster(cluster, { options, addressSpaceMb: 4_096 }, signal, () => {});
  mkdirSync(path.join(restores, 'half'), { recursive: true });
  writeFileSync(path.join(restores, 'half.log'), '');
  await rowhouse.service.deps.restores.tidy();
  expect([readdirSync(restores), isAlive(left.pid)]).toEqual([[], false]);
  expect((await run(rowhouse, project, 'select count(*) from t')).rows).toEqual([{ count: 400000 }]);
});

it.skipIf(noS3 !== null)(
  'a project is restored from S3, also after the storage was away',
  {
    timeout: 300_000,
  },
  async () => {
    const lab = await startLab();
    const s3 = await openS3Server(newFolder('s3'));
    onTestFinished(() => s3.stop());
    const rowhouse = await startService(lab, { location: s3.location });
    const project = await rowhouse.project('Shop');
    await run(rowhouse, project, ...corpus);
    await run(
      rowhouse,
      project,
      'create table n as select g, md5(g::text) from generate_series(1, 200000) g',
    );
    const at = await moment(lab);
    const expected = await dump(rowhouse, project);
    await run(rowhouse, project, 'delete from teas', 'drop table n');

    const started = await ask(rowhouse, project.slug, { to: at });
    expect([started.status, started.body.error]).toEqual([202, undefined]);
    await s3.stop('SIGKILL');
    const failed = await end(rowhouse, started.body.job.id);
    expect([failed.status, failed.error?.message]).toEqual(['failed', expect.any(String)]);
    expect((await rowhouse.call('GET', `/projects/${started.body.project.slug}`)).status).toBe(404);
    expect(readdirSync(path.join(lab.folder, 'restores'))).toEqual([]);
    await s3.start();

    const { ended, copy } = await restore(rowhouse, project.slug, at);
    expect([ended.status, ended.error]).toEqual(['done', null]);
    expect(await dump(rowhouse, copy)).toBe(expected);
    expect((await run(rowhouse, project, 'select count(*) from teas')).rows).toEqual([{ count: 0 }]);
  },
);

it('a drill restores projects in turn and finds what differs', async () => {
  const lab = await startLab();
  const rowhouse = await startService(lab);
  const projects = [await rowhouse.project('One'), await rowhouse.project('Two')];
  for (const project of projects) await run(rowhouse, project, ...corpus);
  const { deps } = rowhouse.service;
  const place = { dataFolder: lab.folder, backups: deps.backups?.first as Backups };
  const drill = async () => {
    const { signal } = new AbortController();
    const all = { ...deps, onError: () => {}, dataFolder: lab.folder, isEmbedded: true };
    const project = await chooseNext(deps.control, deps.server);
    if (!project) throw new Error('There is no project.');
    await putSetting(deps.control, 'drilled_project', project.id);
    return runDrill(all, place, project, { signal });
  };
  const [first, second, third] = [await drill(), await drill(), await drill()];
  expect([first, second].map((one) => one?.slug).sort()).toEqual(projects.map(({ slug }) => slug).sort());
  expect(third?.slug).toBe(first?.slug);
  for (const one of [first, second, third]) {
    expect([one?.problems, one?.changed]).toEqual([[], 0]);
    expect(one?.compared).toBeGreaterThan(8);
  }
  expect(readdirSync(path.join(lab.folder, 'restores'))).toEqual([]);
  const none = { tables: new Map(), definitions: 'x' };
  const table = (rows: number, sum: string, definitions = 'x') => ({
    tables: new Map([['public.t', { rows, sum }]]),
    definitions,
  });
  expect(compare(table(2, 'a'), table(2, 'a'), table(1, 'b')).problems).toEqual([
    'public.t has 1 rows that differ from the 2 it had',
  ]);
  expect(compare(table(2, 'a'), table(2, 'a'), none).problems).toEqual(['public.t is missing']);
  const changed = { compared: 0, changed: 1, problems: [] };
  expect(compare(table(2, 'a'), table(3, 'c'), table(1, 'b'))).toEqual(changed);
  // A right that was revoked and granted again, a table that was renamed and named back.
  expect(compare(table(2, 'a'), table(2, 'a', 'y'), none)).toEqual(changed);
  expect(compare(table(2, 'a'), table(2, 'a', 'y'), table(1, 'b'))).toEqual(changed);
  expect(compare(table(2, 'a'), table(2, 'a', 'y'), table(2, 'a'))).toMatchObject({ compared: 1 });
});

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

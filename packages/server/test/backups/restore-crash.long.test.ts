// kill -9 of PostgreSQL, of the second PostgreSQL and of the service while one project is restored: the project is as it
// was, nothing half is left, and the next restore succeeds.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { newFolder } from '../support/backup-lab.ts';
import { inControl } from '../support/embedded-data.ts';
import { api, until } from '../support/helpers.ts';
import { isRunning, launch, newAccountKey, postmasterPid, usedDataFolder } from '../support/process.ts';

const rows = 100_000;

it('whatever dies during a restore, the project is whole and nothing half is left', {
  timeout: 600_000,
}, async () => {
  const data = await usedDataFolder();
  const restores = path.join(data, 'restores');
  const env = {
    ROWHOUSE_DATA: data,
    ROWHOUSE_ACCOUNT_KEY: newAccountKey(),
    ROWHOUSE_BACKUP_URL: `file:${newFolder('repository')}`,
  };
  let service = await launch(env);
  const run = async (slug: string, query: string) => {
    const { status, body } = await service.call('POST', `/projects/${slug}/query`, { body: { query } });
    expect([query, status, body.error]).toEqual([query, 200, undefined]);
    return body.rows;
  };
  const backups = async () => (await service.call('GET', `${api}/backups`)).body.backups ?? [];
  await until('the first backup', async () => (await backups()).length > 0, 120_000);
  for (const slug of ['shop', 'neighbour'])
    expect((await service.call('POST', '/projects', { body: { name: slug, slug } })).status).toBe(201);
  await run('neighbour', 'create table t as select 1 as one');
  await run('shop', `create table t as select g as id, md5(g::text) from generate_series(1, ${rows}) g`);
  await sleep(10);
  const [{ at }] = await run('shop', 'select clock_timestamp() as at');
  await sleep(10);
  await run('shop', 'delete from t where id % 2 = 0');

  const begin = async (into: 'new' | 'in_place') => {
    const { status, body } = await service.call('POST', '/projects/shop/restore', { body: { to: at, into } });
    expect([status, body.error]).toEqual([202, undefined]);
    return body as { job: { id: string }; project: { slug: string } };
  };
  const ended = (id: string) =>
    until(
      'the job has ended',
      async () => {
        const { status, body } = await service.call('GET', `${api}/jobs/${id}`);
        return status === 200 && body.job.status !== 'running' && body.job;
      },
      180_000,
    );
  const secondPid = () =>
    until('the second PostgreSQL runs', async () => {
      const [name] = existsSync(restores) ? readdirSync(restores).filter((file) => !/\.log$/.test(file)) : [];
      const file = path.join(restores, name ?? '', 'postmaster.pid');
      return existsSync(file) && Number(readFileSync(file, 'utf8').split('\n')[0]);
    });
  const slugs = async () => {
    const { body } = await service.call('GET', '/projects');
    return body.projects.map(({ slug }: { slug: string }) => slug).sort();
  };
  const nothingLeft = async () => {
    await until(
      'nothing is left',
      async () => (await slugs()).length === 2 && readdirSync(restores).length === 0,
      180_000,
    );
    expect(await slugs()).toEqual(['neighbour', 'shop']);
    expect(await run('shop', 'select count(*) from t')).toEqual([{ count: rows / 2 }]);
    expect(await run('neighbour', 'select one from t')).toEqual([{ one: 1 }]);
  };
  const ready = () =>
    until(
      'the service is ready',
      async () =>
        (await service.call('POST', '/projects/shop/query', { body: { query: 'select 1' } })).status === 200,
      60_000,
    );

  const undone = new Set<string>();
  /** PostgreSQL can die during or after the exchange: then both states are there, and the exchange is taken back here. */
  const undoExchange = async (status: string) => {
    await until(
      'the exchange is decided',
      async () => (await inControl(data, sql`select from swaps`)).length === 0,
    );
    const [{ count }] = await run('shop', 'select count(*) from t');
    if (count === rows) {
      const { body } = await service.call('GET', '/projects?status=deleted');
      const [replaced] = (body.projects as { slug: string }[]).filter(({ slug }) => !undone.has(slug));
      expect((await service.call('POST', `/projects/${replaced?.slug}/restore`)).status).toBe(200);
      expect(await run(replaced?.slug ?? '', 'select count(*) from t')).toEqual([{ count: rows / 2 }]);
      await run('shop', 'delete from t where id % 2 = 0');
    } else expect([status, count]).toEqual(['failed', rows / 2]);
    const others = (await slugs()).filter((slug: string) => !['shop', 'neighbour'].includes(slug));
    for (const slug of others) {
      undone.add(slug);
      await service.call('DELETE', `/projects/${slug}`);
    }
  };

  const killPostgres = async () => {
    const pid = postmasterPid(data);
    if (pid) process.kill(pid, 'SIGKILL');
    await until('PostgreSQL is back', async () => ![null, pid].includes(postmasterPid(data)), 60_000);
    await ready();
  };
  // The PostgreSQL of all projects: while the second one replays, and while the copy is loaded.
  for (const part of [0.2, 0.72]) {
    const { job } = await begin('in_place');
    await until('the restore is that far', async () => {
      const { body } = await service.call('GET', `${api}/jobs/${job.id}`);
      return body.job.progress >= part || body.job.status !== 'running';
    });
    await killPostgres();
    const { status } = await ended(job.id);
    await undoExchange(status);
    await nothingLeft();
  }

  // The second PostgreSQL.
  const second = await begin('in_place');
  process.kill(await secondPid(), 'SIGKILL');
  const failed = await ended(second.job.id);
  expect([failed.status, failed.error?.message]).toEqual(['failed', expect.any(String)]);
  await nothingLeft();

  // The service. The second PostgreSQL goes on for a moment, and is ended by the next start.
  const third = await begin('in_place');
  const pid = await secondPid();
  await service.stop('SIGKILL');
  service = await launch(env);
  await until('the second PostgreSQL has ended', async () => !isRunning(pid));
  await ready();
  // The next process sees within seconds that the one with the job is gone. A silent job is waited for for a minute.
  const readyAt = performance.now();
  expect((await ended(third.job.id)).status).toBe('failed');
  expect(performance.now() - readyAt).toBeLessThan(40_000);
  await nothingLeft();

  const last = await begin('in_place');
  expect(await ended(last.job.id)).toMatchObject({ status: 'done', error: null });
  expect(await run('shop', 'select count(*) from t')).toEqual([{ count: rows }]);
});

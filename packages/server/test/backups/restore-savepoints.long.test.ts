// A transaction with more savepoints than PostgreSQL keeps in memory is open while the backup is taken, and long after. A server
// that replays answers nobody before that transaction has ended.
import pg from 'pg';
import { expect, it, onTestFinished } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { type Lab, startLab } from '../support/backup-lab.ts';
import { run } from '../support/exports.ts';
import { runJob } from './backup-service.ts';
import { moment, restore, startService } from './restoring.ts';

/** Returns how to end it. */
async function holdOpen({ engine, database }: Lab): Promise<() => Promise<void>> {
  await database.query(sql`create table if not exists busy (n int)`);
  const { host, port, user, password } = engine.address;
  const client = new pg.Client({ host, port, user, password, database: 'postgres' });
  client.on('error', () => {});
  await client.connect();
  onTestFinished(() => client.end().catch(() => {}));
  await client.query('begin');
  for (let n = 0; n < 100; n++) await client.query(`savepoint s${n}; insert into busy values (${n})`);
  return async () => {
    await client.query('commit');
  };
}

/** More segments than a restore puts in place ahead of the server. */
async function fillSegments({ database }: Lab, count: number): Promise<void> {
  for (let n = 0; n < count; n++) {
    await database.query(sql`insert into busy values (${n})`);
    await database.query(sql`select pg_switch_wal()`);
  }
}

it('a project is restored to a moment after that transaction, and to one before its end', {
  timeout: 400_000,
}, async () => {
  const lab = await startLab();
  const rowhouse = await startService(lab);
  const project = await rowhouse.project('Savepoints');
  await run(rowhouse, project, 'create table t (id int)', 'insert into t values (1)');
  const commit = await holdOpen(lab);
  expect((await runJob(rowhouse, '/backups', { kind: 'full' })).status).toBe('done');
  await fillSegments(lab, 20);
  await run(rowhouse, project, 'insert into t values (2)');
  const during = await moment(lab);
  await run(rowhouse, project, 'insert into t values (3)');
  await fillSegments(lab, 5);
  await commit();
  await run(rowhouse, project, 'insert into t values (4)');
  const after = await moment(lab);
  await run(rowhouse, project, 'insert into t values (5)');

  for (const [to, rows] of [
    [after, [1, 2, 3, 4]],
    [during, [1, 2]],
  ] as const) {
    const { ended, copy } = await restore(rowhouse, project.slug, to);
    expect(ended).toMatchObject({ status: 'done', error: null });
    const { body } = await rowhouse.call('POST', `/projects/${copy.slug}/query`, {
      body: { query: 'select array_agg(id order by id) as ids from t' },
    });
    expect(body.rows).toEqual([{ ids: rows }]);
  }
});

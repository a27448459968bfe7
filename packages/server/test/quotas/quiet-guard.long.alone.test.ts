// While nothing is written and all projects are far from their limits, the guard over direct connections looks less often. A
// connection that comes then is still held to the limit.
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { expect, it, onTestFinished } from 'vitest';
import { openDatabase } from '../../src/postgres/admin/database.ts';
import { sql } from '../../src/postgres/sql.ts';
import { databaseOf } from '../../src/servers/databases/names.ts';
import { addressIn } from '../support/embedded-data.ts';
import { until } from '../support/helpers.ts';
import { launch, newAccountKey, usedDataFolder } from '../support/process.ts';

const mb = 1024 * 1024;
/** With the first, the project is near its limit even when it is empty; with the second, it is far from it. */
const [smallMb, limitMb] = [200, 600];
/** An empty database takes less. */
const emptyMb = 20;
/** The guard pauses 50 times per second, and at most 20 times when it is quiet. */
const busyTurns = 30;
/** Longer than the time without writes after which it is quiet. */
const idleMs = 30_000;

const onLinux = it.skipIf(process.platform !== 'linux');

onLinux('a connection that comes when the guard looks rarely is held to the limit', async () => {
  const data = await usedDataFolder();
  const service = await launch({ ROWHOUSE_DATA: data, ROWHOUSE_ACCOUNT_KEY: newAccountKey() });
  const { body } = await service.call('POST', '/projects', { body: { name: 'Quiet', limit_mb: smallMb } });
  const { slug, id } = body.project;
  const database = openDatabase(addressIn(data), { max: 1 });
  onTestFinished(() => database.end());
  // Its visits take transaction ids.
  await database.change(sql`alter system set autovacuum = off`);
  await database.query(sql`select pg_reload_conf()`);
  const [guard] = await database.query<{ pid: number }>(
    sql`select pid from pg_stat_activity where query like 'do %had_xid integer%'`,
  );
  const readTurns = () => turnsOf(guard?.pid ?? 0);
  await sleep(idleMs);
  expect(await readTurns()).toBeGreaterThan(busyTurns);
  await service.call('PATCH', `/projects/${slug}`, { body: { limit_mb: limitMb } });
  const { body: found } = await service.call('GET', `/projects/${slug}/connection`);
  const connect = async () => {
    const client = new pg.Client({ connectionString: found.connection.url });
    client.on('error', () => {});
    await client.connect();
    onTestFinished(() => client.end().catch(() => {}));
    return client;
  };
  // It is seen, and leaves long after the last commit.
  const visitor = await connect();
  await visitor.query('select pg_current_xact_id()');
  await sleep(idleMs);
  expect(await readTurns()).toBeGreaterThan(busyTurns);
  await visitor.end();
  await until('it is quiet', async () => (await readTurns()) < busyTurns, 120_000);

  const client = await connect();
  let isOver = false;
  let peakMb = 0;
  const watch = (async () => {
    while (!isOver) {
      const [row] = await database.query<{ bytes: number }>(
        sql`select pg_database_size(${databaseOf(id)})::float8 as bytes`,
      );
      peakMb = Math.max(peakMb, (row?.bytes ?? 0) / mb);
      await sleep(10);
    }
  })();
  const outcome = await client
    .query(
      // 780 MB: each row is too small to be compressed.
      'create unlogged table t as select repeat(md5(n::text), 60) as v from generate_series(1, 400000) as n',
    )
    .then(
      () => 'done',
      (error) => error.code,
    );
  isOver = true;
  await watch;
  expect(['57014', '57P01']).toContain(outcome);
  // It was stopped by the limit, and not before it.
  expect(peakMb).toBeGreaterThan(limitMb - emptyMb);
  expect(peakMb).toBeLessThan(limitMb + emptyMb + 32);
});

/** Per second: it gives up its core for the pause at the end of each turn. */
async function turnsOf(pid: number): Promise<number> {
  const read = () =>
    Number(/^voluntary_ctxt_switches:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]);
  const [before, began] = [read(), performance.now()];
  await sleep(3_000);
  return ((read() - before) * 1_000) / (performance.now() - began);
}

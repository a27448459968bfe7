// While nothing is written and all projects are far from their limits, the guard over direct connections looks less often. A
// connection that comes then is still held to the limit.
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { expect, it, onTestFinished } from 'vitest';
import { databaseOf } from '../src/engine/provision.ts';
import { openDatabase } from '../src/postgres/database.ts';
import { sql } from '../src/postgres/sql.ts';
import { addressIn } from './embedded-data.ts';
import { until } from './helpers.ts';
import { launch, newAccountKey, usedDataFolder } from './process.ts';

const mb = 1024 * 1024;
const limitMb = 300;
/** An empty database takes less. */
const emptyMb = 20;
/** Turns per second: 50 without direct connections, at most 20 when it is quiet, and one more for the rest of the server. */
const maxTurns = 30;

it('a connection that comes when the guard looks rarely is held to the limit', async () => {
  const data = await usedDataFolder();
  const service = await launch({ ROWHOUSE_DATA: data, ROWHOUSE_ACCOUNT_KEY: newAccountKey() });
  const { body } = await service.call('POST', '/projects', { body: { name: 'Quiet', limit_mb: limitMb } });
  const database = openDatabase(addressIn(data), { max: 1 });
  onTestFinished(() => database.end());
  // Its visits take transaction ids.
  await database.change(sql`alter system set autovacuum = off`);
  await database.query(sql`select pg_reload_conf()`);
  const [guard] = await database.query<{ pid: number }>(
    sql`select pid from pg_stat_activity where query like 'do %had_xid integer%'`,
  );
  if (process.platform === 'linux') {
    await until('it is quiet', async () => (await turnsOf(guard?.pid ?? 0)) < maxTurns, 120_000);
  }

  const { body: found } = await service.call('GET', `/projects/${body.project.slug}/connection`);
  const client = new pg.Client({ connectionString: found.connection.url });
  client.on('error', () => {});
  await client.connect();
  onTestFinished(() => client.end().catch(() => {}));
  let isOver = false;
  let peakMb = 0;
  const watch = (async () => {
    while (!isOver) {
      const [row] = await database.query<{ bytes: number }>(
        sql`select pg_database_size(${databaseOf(body.project.id)})::float8 as bytes`,
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

/** Per second: each turn ends with a pause. */
async function turnsOf(pid: number): Promise<number> {
  const read = () =>
    Number(/^voluntary_ctxt_switches:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]);
  const [before, began] = [read(), performance.now()];
  await sleep(3_000);
  return ((read() - before) * 1_000) / (performance.now() - began);
}

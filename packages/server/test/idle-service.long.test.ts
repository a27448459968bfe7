// An idle service commits nothing. Otherwise its periodic work would never be skipped.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it, onTestFinished } from 'vitest';
import { openDatabase } from '../src/postgres/database.ts';
import { sql } from '../src/postgres/sql.ts';
import { addressIn } from './embedded-data.ts';
import { launch, newAccountKey, newDataFolder } from './process.ts';

/** The rarest of the periodic work comes every five minutes, and autovacuum rests after six. */
const quietMs = 6.5 * 60_000;

it('a service that nobody uses commits nothing', { timeout: 30 * 60_000 }, async () => {
  const data = newDataFolder();
  const service = await launch({ ROWHOUSE_DATA: data, ROWHOUSE_ACCOUNT_KEY: newAccountKey() });
  const { status } = await service.call('POST', '/projects', { body: { name: 'Quiet', slug: 'quiet' } });
  expect(status).toBe(201);
  const database = openDatabase(addressIn(data), { max: 1 });
  onTestFinished(() => database.end());
  // Autovacuum commits what it does at its visits.
  await database.change(sql`alter system set autovacuum = off`);
  await database.query(sql`select pg_reload_conf()`);
  const readSnapshot = async () => {
    const [row] = await database.query<{ text: string }>(sql`select pg_current_snapshot()::text as text`);
    return row?.text;
  };
  const snapshots: (string | undefined)[] = [await readSnapshot()];
  // At first, the new project is measured and recorded.
  for (let round = 0; round < 3 && snapshots.at(-1) !== snapshots.at(-2); round++) {
    await sleep(quietMs);
    snapshots.push(await readSnapshot());
  }
  expect(snapshots.at(-1)).toBe(snapshots.at(-2));
});

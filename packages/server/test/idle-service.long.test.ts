// An idle service commits nothing: otherwise its periodic work would never be skipped. And it takes hardly any processor time.
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it, onTestFinished } from 'vitest';
import { openDatabase } from '../src/postgres/database.ts';
import { sql } from '../src/postgres/sql.ts';
import { addressIn } from './embedded-data.ts';
import { launch, newAccountKey, newDataFolder, postmasterPid } from './process.ts';

/** The rarest of the periodic work comes every five minutes, and autovacuum rests after six. */
const quietMs = 6.5 * 60_000;

/** Three times what it takes with thousands of projects. */
const maxShare = 0.03;
/** Of the service alone: about twenty a second when this was written. */
const maxWakeUps = 60;
const watchedMs = 30_000;

it('a service that nobody uses commits nothing, and takes hardly any processor time', {
  timeout: 30 * 60_000,
}, async () => {
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
  if (process.platform !== 'linux') return;

  const { pid = 0 } = service.child;
  const postmaster = postmasterPid(data) ?? 0;
  const before = [cpuMs(pid, postmaster), wakeUps(pid)] as const;
  await sleep(watchedMs);
  expect((cpuMs(pid, postmaster) - before[0]) / watchedMs).toBeLessThan(maxShare);
  expect(((wakeUps(pid) - before[1]) / watchedMs) * 1_000).toBeLessThan(maxWakeUps);
});

/** Of both processes and their children, in ticks of 10 ms. */
function cpuMs(...parents: number[]): number {
  const children = parents.flatMap((pid) =>
    readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number),
  );
  return [...parents, ...children].reduce((sum, pid) => {
    // The name of the program, in parentheses, can contain spaces.
    const [, rest = ''] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ');
    const [user, system] = rest.split(' ').slice(11, 13).map(Number);
    return sum + ((user ?? 0) + (system ?? 0)) * 10;
  }, 0);
}

/** Of the main thread. */
function wakeUps(pid: number): number {
  const status = readFileSync(`/proc/${pid}/task/${pid}/status`, 'utf8');
  return Number(/^voluntary_ctxt_switches:\s+(\d+)/m.exec(status)?.[1]);
}

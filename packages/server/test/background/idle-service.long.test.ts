// An idle service commits nothing: otherwise its periodic work would never be skipped. And it takes hardly any processor time.
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it, onTestFinished } from 'vitest';
import { openDatabase } from '../../src/postgres/admin/database.ts';
import { sql } from '../../src/postgres/sql.ts';
import { addressIn } from '../support/embedded-data.ts';
import { launch, newAccountKey, newDataFolder, postmasterPid } from '../support/process.ts';

/** The rarest of the periodic work comes every five minutes, and autovacuum rests after six. */
const quietMs = 6.5 * 60_000;

/** Ten times the share of a core that is aimed at. */
const maxShare = 0.1;
/** How often the service alone wakes up in a second: about twenty times when this was written. */
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
  const [cpuBefore, wakeUpsBefore] = [cpuMs(pid, postmaster), wakeUps(pid)];
  await sleep(watchedMs);
  const took = [...cpuMs(pid, postmaster)].reduce((sum, [id, ms]) => sum + ms - (cpuBefore.get(id) ?? 0), 0);
  expect(took / watchedMs).toBeLessThan(maxShare);
  expect(((wakeUps(pid) - wakeUpsBefore) / watchedMs) * 1_000).toBeLessThan(maxWakeUps);
});

/** The processor time of each of these processes and their children, in ticks of 10 ms. */
function cpuMs(...parents: number[]): Map<number, number> {
  const children = parents.flatMap((pid) =>
    readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number),
  );
  const found = new Map<number, number>();
  for (const pid of [...parents, ...children]) {
    try {
      // The name of the program, in parentheses, can contain spaces.
      const [, rest = ''] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ');
      const [user = 0, system = 0] = rest.split(' ').slice(11, 13).map(Number);
      found.set(pid, (user + system) * 10);
    } catch {
      // A child that has ended meanwhile.
    }
  }
  return found;
}

/** How often the main thread woke up. */
function wakeUps(pid: number): number {
  const status = readFileSync(`/proc/${pid}/task/${pid}/status`, 'utf8');
  return Number(/^voluntary_ctxt_switches:\s+(\d+)/m.exec(status)?.[1]);
}

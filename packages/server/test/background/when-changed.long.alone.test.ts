// Periodic work is skipped while nothing is committed on the server. Alone, because other tests commit on it all the time.
import { getEventListeners } from 'node:events';
import { afterEach, describe, expect, it } from 'vitest';
import { type NextRound, openPacing } from '../../src/background/pacing.ts';
import { openQuietTime, openWhenChanged } from '../../src/background/when-changed.ts';
import { putSetting } from '../../src/control/settings.ts';
import { sql } from '../../src/postgres/sql.ts';
import { sessionExists } from '../../src/servers/databases/session-exists.ts';
import { openAutovacuum } from '../../src/servers/guards/autovacuum.ts';
import { useTestService } from '../support/helpers.ts';
import { openTableSession } from '../support/table-session.ts';

const rowhouse = useTestService({ background: false, spares: 0 });
const server = () => rowhouse.service.deps.server;
const commit = () => rowhouse.service.deps.control.query(sql`select pg_current_xact_id()`);

/** A commit by autovacuum may come between two calls. */
const eventually = { timeout: 15_000, interval: 20 };

it('work that was completed is skipped until something is committed', async () => {
  const whenChanged = openWhenChanged(server(), { maxMs: 600_000 });
  let runs = 0;
  const run = () =>
    whenChanged(async () => {
      runs++;
      return true;
    });
  await run();
  expect(runs).toBe(1);
  await expect.poll(() => runsDuring(run, () => runs), eventually).toBe(0);
  await commit();
  const before = runs;
  await run();
  expect(runs).toBe(before + 1);
});

it('work that was not completed, has failed or waits for late statistics runs again', async () => {
  const whenChanged = openWhenChanged(server(), { maxMs: 600_000 });
  const ends = [async () => false, () => Promise.reject(new Error('failed')), async () => false];
  let runs = 0;
  for (const end of ends) {
    const work = () => {
      runs++;
      return end();
    };
    await whenChanged(work).catch(() => {});
  }
  expect(runs).toBe(3);

  const lagging = openWhenChanged(server(), { lagMs: 300_000, maxMs: 600_000 });
  let late = 0;
  for (let call = 0; call < 3; call++)
    await lagging(async () => {
      late++;
      return true;
    });
  expect(late).toBe(3);
});

it('work also runs after a while without a commit', async () => {
  const whenChanged = openWhenChanged(server(), { maxMs: 0 });
  let runs = 0;
  for (let call = 0; call < 3; call++)
    await whenChanged(async () => {
      runs++;
      return true;
    });
  expect(runs).toBe(3);
});

describe('autovacuum', () => {
  const readNap = async () => {
    const [row] = await server().maintenance.query<{ seconds: number }>(
      sql`select extract(epoch from current_setting('autovacuum_naptime')::interval)::int as seconds`,
    );
    return row?.seconds;
  };
  afterEach(async () => {
    const { maintenance } = server();
    await maintenance.change(sql`alter system reset autovacuum_naptime`);
    await maintenance.query(sql`select pg_reload_conf()`);
  });

  it('visits databases rarely while nobody is in the database of a project, although others commit', async () => {
    const { id } = await rowhouse.project('Visited');
    const rest = { napMs: 300, perNap: 1_000, lagMs: 0 };
    const autovacuum = openAutovacuum(server(), rest);
    const napAfterwards = async () => {
      await commit();
      await autovacuum.adjust();
      return readNap();
    };
    await expect.poll(napAfterwards, eventually).toBe(4 * 3_600);
    const session = await openTableSession(server(), id);
    try {
      await expect.poll(napAfterwards, eventually).toBe(300);
      const until = performance.now() + 4 * rest.napMs;
      while (performance.now() < until) expect(await napAfterwards()).toBe(300);
    } finally {
      await session.end();
    }
    await expect.poll(napAfterwards, eventually).toBe(4 * 3_600);
  });

  it('notices a session that ended before the next look', async () => {
    const { id } = await rowhouse.project('Short visit');
    const autovacuum = openAutovacuum(server(), { napMs: 300, perNap: 1_000, lagMs: 0 });
    const adjusted = () => autovacuum.adjust().then(readNap);
    await expect.poll(adjusted, eventually).toBe(4 * 3_600);
    const session = await openTableSession(server(), id);
    await session.end();
    const areThere = async () => {
      const { maintenance } = server();
      const [row] = await maintenance.query<{ found: boolean }>(sql`select ${sessionExists} as found`);
      return row?.found;
    };
    await expect.poll(areThere, eventually).toBe(false);
    await expect.poll(adjusted, { ...eventually, interval: 200 }).toBe(300);
  });

  it('notices many rows that are written to the control database', async () => {
    const { control } = rowhouse.service.deps;
    const autovacuum = openAutovacuum(server(), { napMs: 300, perNap: 1_000, lagMs: 0 });
    const adjusted = () => autovacuum.adjust().then(readNap);
    await expect.poll(adjusted, eventually).toBe(4 * 3_600);
    await control.query(sql`create table many as select n from generate_series(1, 60000) as n`);
    try {
      await expect.poll(adjusted, { ...eventually, interval: 100 }).toBe(300);
    } finally {
      await control.query(sql`drop table many`);
    }
  });

  it('visits each database less often where there are many', async () => {
    const autovacuum = openAutovacuum(server(), { napMs: 600_000, perNap: 2, lagMs: 0 });
    const { maintenance } = server();
    const [row] = await maintenance.query<{ count: number }>(
      sql`select count(*)::int as count from pg_database`,
    );
    await autovacuum.adjust();
    const naps = Math.ceil((row?.count ?? 0) / 2);
    expect(naps).toBeGreaterThan(1);
    await expect.poll(readNap, eventually).toBe(300 * naps);
  });
});

it('a setting that is stored again is not a commit', async () => {
  const { control } = rowhouse.service.deps;
  await putSetting(control, 'audit_days', '365');
  const quietTime = openQuietTime(server());
  const isQuietAfterwards = async () => {
    await quietTime();
    await putSetting(control, 'audit_days', '365');
    return (await quietTime()) > 0;
  };
  await expect.poll(isQuietAfterwards, eventually).toBe(true);
  await putSetting(control, 'audit_days', '30');
  expect(await quietTime()).toBe(0);
});

describe('the pause between two rounds of background work', () => {
  const pace = { tickMs: 20, idleTickMs: 800, idleAfterMs: 1_000 };
  const long = 700;
  const never = new AbortController().signal;
  const pauseMs = async (nextRound: NextRound, signal = never) => {
    const startedAt = performance.now();
    await nextRound(signal);
    return performance.now() - startedAt;
  };

  it('is long while nobody uses the server, and ends soon after a commit', async () => {
    const nextRound = openPacing(server(), pace);
    await expect.poll(() => pauseMs(nextRound), eventually).toBeGreaterThanOrEqual(long);
    const pausing = pauseMs(nextRound);
    setTimeout(() => void commit(), 100);
    expect(await pausing).toBeLessThan(long);
    expect(await pauseMs(nextRound), 'so soon after a commit').toBeLessThan(long);
    expect(getEventListeners(never, 'abort'), 'what a pause leaves behind').toEqual([]);
  });

  it('is short while a session is in the database of a project', async () => {
    const { id } = await rowhouse.project('Used');
    const nextRound = openPacing(server(), pace);
    await expect.poll(() => pauseMs(nextRound), eventually).toBeGreaterThanOrEqual(long);
    const session = await openTableSession(server(), id);
    try {
      await pauseMs(nextRound);
      const until = performance.now() + 3 * pace.idleAfterMs;
      while (performance.now() < until) expect(await pauseMs(nextRound)).toBeLessThan(long);
    } finally {
      await session.end();
    }
    await expect.poll(() => pauseMs(nextRound), eventually).toBeGreaterThanOrEqual(long);
  });

  it('ends when the work ends', async () => {
    const nextRound = openPacing(server(), { ...pace, idleTickMs: 60_000 });
    const ending = new AbortController();
    setTimeout(() => ending.abort(), 4_000);
    while (!ending.signal.aborted) expect(await pauseMs(nextRound, ending.signal)).toBeLessThan(30_000);
  });
});

async function runsDuring(run: () => Promise<void>, count: () => number): Promise<number> {
  const before = count();
  await run();
  await run();
  return count() - before;
}

// A drill whose server hangs ends by a time limit, as a failure that is reported everywhere. The next one succeeds.
import { readdirSync, readlinkSync, realpathSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it, onTestFinished } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { examineBackups, newFolder, startLab } from '../support/backup-lab.ts';
import { type Project, run } from '../support/exports.ts';
import { api, asAdmin, type TestService, until } from '../support/helpers.ts';
import { openRelay } from '../support/relay.ts';
import { ask, end, moment, startService } from './restoring.ts';

const minutes = 60_000;
/** A restore on a busy machine must not take it for a hang. */
const stallMs = 25_000;

const drill = async (rowhouse: TestService, { slug }: Pick<Project, 'slug'>) => {
  const { status, body } = await rowhouse.call('POST', `${api}/backups/drill`, { body: { project: slug } });
  expect(status, JSON.stringify(body)).toBe(202);
  return body.job.id as string;
};

const failing = async (rowhouse: TestService) => {
  const { body } = await rowhouse.call('GET', '/metrics');
  const value = (name: string) =>
    Number(new RegExp(`^rowhouse_restore_drill_${name} (\\S+)$`, 'm').exec(String(body))?.[1]);
  return { projects: value('failing_projects'), failures: value('failures') };
};

const alarms = ({ log }: TestService) =>
  log.map((line) => JSON.parse(line)).filter(({ msg }) => /DRILL FAILED/.test(msg));

/** PostgreSQL's processes in the folders of restores. */
function processesIn(folder: string): number[] {
  const place = realpathSync(folder);
  return readdirSync('/proc')
    .map(Number)
    .filter((pid) => {
      try {
        return pid > 1 && readlinkSync(`/proc/${pid}/cwd`).startsWith(place);
      } catch {
        return false;
      }
    });
}

/** Stops each process of a restored server as soon as it is there, as if its disk hung. */
function hangRestores(folder: string): { stop(): Promise<number> } {
  const stopped = new Set<number>();
  let isOver = false;
  const working = (async () => {
    while (!isOver) {
      for (const pid of processesIn(folder)) {
        if (stopped.has(pid)) continue;
        process.kill(pid, 'SIGSTOP');
        stopped.add(pid);
      }
      await sleep(20);
    }
  })();
  return {
    stop: async () => {
      isOver = true;
      await working;
      return stopped.size;
    },
  };
}

it('if the server with the restored copy hangs, the drill and a restore fail, and leave nothing', {
  timeout: 10 * minutes,
}, async () => {
  const lab = await startLab();
  const folder = newFolder('repository');
  const rowhouse = await startService(lab, {
    location: { kind: 'folder', folder },
    restores: { dataFolder: lab.folder, stallMs },
  });
  const [shop, other] = [await rowhouse.project('Shop'), await rowhouse.project('Other')];
  for (const project of [shop, other])
    await run(rowhouse, project, 'create table t as select generate_series(1, 1000) as n');
  const restores = path.join(lab.folder, 'restores');
  const nothingLeft = () => [readdirSync(restores), processesIn(restores)];

  const early = await moment(lab);
  const hanging = hangRestores(restores);
  onTestFinished(() => void hanging.stop());
  const ended = await end(rowhouse, await drill(rowhouse, shop));
  expect([ended.status, ended.error.code]).toEqual(['failed', 'backup_failed']);
  expect(ended.error.message).toContain('there was no progress for 25 s');
  expect(alarms(rowhouse)).toMatchObject([{ level: 50, project: shop.slug }]);
  expect(await failing(rowhouse)).toEqual({ projects: 1, failures: 1 });
  expect(await examineBackups(lab, folder, rowhouse.controlDatabase)).toMatchObject({
    state: 'problem',
    found: expect.stringContaining(`drill of ${shop.slug} failed`),
  });
  expect(nothingLeft()).toEqual([[], []]);
  expect((await run(rowhouse, other, 'select count(*) from t')).rows).toEqual([{ count: 1000 }]);

  // A restore that somebody asked for holds up the others no longer than that, either.
  const { status, body } = await ask(rowhouse, shop.slug, { to: early });
  expect([status, body.error]).toEqual([202, undefined]);
  const restored = await end(rowhouse, body.job.id);
  expect([restored.status, restored.error.code]).toEqual(['failed', 'backup_failed']);
  expect(nothingLeft()).toEqual([[], []]);

  expect(await hanging.stop()).toBeGreaterThan(1);
  expect((await end(rowhouse, await drill(rowhouse, shop))).error).toBeNull();
  expect(await failing(rowhouse)).toEqual({ projects: 0, failures: 1 });
  expect(nothingLeft()).toEqual([[], []]);
});

it('if only reading the live project hangs, the drill is postponed without an alarm', {
  timeout: 10 * minutes,
}, async () => {
  const lab = await startLab();
  const rowhouse = await startService(lab, {
    location: { kind: 'folder', folder: newFolder('repository') },
    restores: { dataFolder: lab.folder, stallMs },
  });
  const shop = await rowhouse.project('Shop');
  await run(
    rowhouse,
    shop,
    "create table t as select n, repeat('x', 200) from generate_series(1, 300000) as n",
  );
  const hung = await drill(rowhouse, shop);
  const pid = await asAdmin(
    (admin) =>
      until('the drill reads', async () => {
        const [reading] = await admin.query<{ pid: number }>(
          sql`select pid from pg_stat_activity where application_name = 'rowhouse drill' and query ilike 'copy%'`,
        );
        if (reading) process.kill(reading.pid, 'SIGSTOP');
        return reading?.pid;
      }),
    lab.engine.address,
  );
  const goOn = () => {
    try {
      process.kill(pid, 'SIGCONT');
    } catch {
      // It has ended.
    }
  };
  onTestFinished(goOn);
  const { status, error } = await end(rowhouse, hung);
  goOn();
  expect([status, error.code]).toEqual(['failed', 'conflict']);
  expect(error.message).toContain('Reading its tables made no progress');
  expect([alarms(rowhouse), await failing(rowhouse)]).toEqual([[], { projects: 0, failures: 0 }]);
  expect((await end(rowhouse, await drill(rowhouse, shop))).error).toBeNull();
});

it('if the server of the project hangs, the drill fails, and projects of another server are drilled', {
  timeout: 10 * minutes,
}, async () => {
  const [first, second] = [await startLab(), await startLab()];
  const { user, password, host, port } = second.engine.address;
  const relay = await openRelay({ host, port });
  onTestFinished(() => relay.stop());
  const folder = newFolder('repository');
  const rowhouse = await startService(first, {
    location: { kind: 'folder', folder },
    restores: { dataFolder: first.folder, stallMs },
  });
  const url = `postgres://${user}:${encodeURIComponent(password)}@127.0.0.1:${relay.port}/postgres`;
  const added = await rowhouse.call('POST', `${api}/servers`, { body: { name: 'second', address: url } });
  expect(added.status, JSON.stringify(added.body)).toBe(201);
  const made = await rowhouse.call('POST', '/projects', { body: { name: 'Far', server: 'second' } });
  const far: Project = { slug: made.body.project.slug, id: made.body.project.id, key: made.body.api_key };
  const near = await rowhouse.project('Near');
  for (const project of [far, near])
    await run(rowhouse, project, 'create table t as select generate_series(1, 1000) as n');
  await until(
    'it is backed up',
    async () => {
      const { body } = await rowhouse.call('GET', `${api}/backups?server=second`);
      return body.backups.length > 0;
    },
    2 * minutes,
  );

  const hung = await drill(rowhouse, far);
  relay.hang();
  const failed = await end(rowhouse, hung);
  expect([failed.status, failed.error.code]).toEqual(['failed', 'backup_failed']);
  expect(alarms(rowhouse)).toMatchObject([{ level: 50, project: far.slug }]);
  expect((await failing(rowhouse)).projects).toBe(1);
  expect((await end(rowhouse, await drill(rowhouse, near))).error).toBeNull();

  relay.mend();
  await until('it answers again', async () => {
    const { body } = await rowhouse.call('GET', `${api}/servers`);
    return body.servers.every(({ state }: { state: string }) => state === 'ready');
  });
  await until(
    'the drill succeeds',
    async () => (await end(rowhouse, await drill(rowhouse, far))).status === 'done',
    2 * minutes,
  );
  expect((await failing(rowhouse)).projects).toBe(0);
});

// A cluster under Patroni as a further server of a fleet whose first server is the embedded one: what a failover does to its
// projects, and that those of the first server notice nothing.
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, expect, onTestFinished, test } from 'vitest';
import type { MoveStep } from '../../src/moves/move.ts';
import { sql } from '../../src/postgres/sql.ts';
import { databaseOf } from '../../src/servers/databases/names.ts';
import { parseDatabaseUrl } from '../../src/servers/external.ts';
import {
  asAdmin,
  openSecondProcess,
  openTestService,
  removeTestService,
  type TestService,
  until,
} from '../support/helpers.ts';
import { startLedger } from '../support/write-ledger.ts';
import { openPatroni, type PatroniCluster, untilRejoined, untilReplaced } from './patroni.ts';

const minutes = 60_000;
const cluster = await openPatroni('a cluster of Patroni as a further server is not tested');
afterAll(() => cluster?.stop());

const servers = '/api/dbaas/v2/servers';
/** Installations that share a server need the same one. */
const masterKey = randomBytes(32);
type Project = { slug: string; id: string; key: string };

/** Two processes of a service on the common PostgreSQL, with the cluster as the server "pg". */
async function openFleet({ url }: PatroniCluster) {
  const first = await openTestService({ masterKey, spares: 1 });
  const second = await openSecondProcess(first);
  onTestFinished(async () => {
    await second.stop();
    await first.stop();
    await removeTestService(first.controlDatabase, first.service.deps.server.installation);
  });
  const { accountKey: key } = first;
  const { status, body } = await first.call('POST', servers, { body: { name: 'pg', address: url } });
  expect(status, JSON.stringify(body)).toBe(201);
  expect(body.server).toMatchObject({ name: 'pg', state: 'ready' });
  expect(body.server.hosts).toHaveLength(3);
  await until('the second process knows the server', async () => {
    const listed = (await second.call('GET', servers, { key })).body.servers;
    return listed.some((one: { name: string; state: string }) => one.name === 'pg' && one.state === 'ready');
  });
  const tryCreate = (server?: string) =>
    first.call('POST', '/projects', {
      body: { name: `On ${server ?? 'any'}`, ...(server && { server }) },
    });
  const create = async (server: string): Promise<Project> => {
    const created = await tryCreate(server);
    expect(created.status, JSON.stringify(created.body)).toBe(201);
    const { project, api_key: projectKey } = created.body;
    return { slug: project.slug, id: project.id, key: projectKey };
  };
  return { first, second, key, serverId: body.server.id as number, tryCreate, create };
}

const jobOf = (on: TestService, key: string, id: string) =>
  until(
    'the job ends',
    async () => {
      const { body } = await on.call('GET', `/api/dbaas/v2/jobs/${id}`, { key });
      return body.job.status !== 'running' && body.job;
    },
    5 * minutes,
  );

/** Writes to a project all the time, through both processes in turn. Every answer must be 200. */
async function startNeighbour(processes: readonly TestService[], { slug, key }: Project) {
  const run = (on: TestService | undefined, query: string) =>
    on?.call('POST', `/projects/${slug}/query`, { key, body: { query } });
  await run(processes[0], 'create table t (n int)');
  const wrong: unknown[] = [];
  let [count, slowestMs, isOver] = [0, 0, false];
  const writing = (async () => {
    while (!isOver) {
      const startedAt = performance.now();
      const answer = await run(processes[count % processes.length], `insert into t values (${count++})`);
      slowestMs = Math.max(slowestMs, performance.now() - startedAt);
      if (answer?.status !== 200) wrong.push(answer?.body);
      await sleep(5);
    }
  })();
  return {
    /** The failures since the last call. */
    noticed: () => {
      const found = { count, slowestMs, wrong: [...wrong] };
      slowestMs = 0;
      return found;
    },
    stop: () => {
      isOver = true;
      return writing;
    },
  };
}

test.skipIf(!cluster)(
  'a failover of a further server loses no acknowledged write, and the first server does not notice it',
  { timeout: 15 * minutes },
  async () => {
    if (!cluster) return;
    const { first, second, key, serverId, tryCreate, create } = await openFleet(cluster);
    const both = [first, second];
    const project = await create('pg');
    const credentials = { email: 'ann@example.com', password: 'correct horse battery' };
    const authAt = (on: TestService, path: string) =>
      on.call('POST', `/projects/${project.slug}/auth/${path}`, { key: project.key, body: credentials });
    expect((await authAt(first, 'signup')).status).toBe(201);
    const neighbour = await startNeighbour(both, await create('test'));
    onTestFinished(neighbour.stop);
    const ledger = await startLedger(both, project);
    onTestFinished(ledger.stop);
    const grows = async (what: string) => {
      const before = ledger.acknowledged.length;
      await until(what, async () => ledger.acknowledged.length > before + 50, 2 * minutes);
    };

    const gaps: Record<string, number> = {};
    const during = async (what: string, event: (primary: string) => Promise<void> | void) => {
      await grows(`writes run before: ${what}`);
      await cluster.isComplete();
      ledger.longestGapMs();
      neighbour.noticed();
      const old = await cluster.primary();
      await event(old);
      // Without a name, a project goes where a server answers, as soon as it was noticed that another one does not.
      await until('a project is created', async () => {
        const { status, body } = await tryCreate();
        expect([201, 503], JSON.stringify(body)).toContain(status);
        return status === 201;
      });
      expect((await second.call('GET', '/readyz')).status, what).toBe(200);
      await untilReplaced(cluster, old);
      await grows(`writes run after: ${what}`);
      gaps[what] = Math.round(ledger.longestGapMs());
      const { wrong, slowestMs } = neighbour.noticed();
      expect(wrong, what).toEqual([]);
      gaps[`slowest request of the neighbour, ${what}`] = Math.round(slowestMs);
      expect(slowestMs, what).toBeLessThan(2_000);
      return old;
    };
    const one = await during('PostgreSQL killed', (primary) => cluster.kill(primary, 'postgres'));
    await untilRejoined(cluster, one);
    const two = await during('node killed', (primary) => cluster.kill(primary, 'node'));
    cluster.start(two);
    await untilRejoined(cluster, two);
    await untilRejoined(cluster, await during('switchover', (primary) => cluster.switchover(primary)));
    console.log(`ms without an acknowledged write: ${JSON.stringify(gaps)}`);

    // Its projects move to the first server, in the middle of the writes.
    const drain = await first.call('POST', `${servers}/${serverId}/drain`, { body: { move: true } });
    expect(drain.status, JSON.stringify(drain.body)).toBe(200);
    const job = await jobOf(second, key, drain.body.job.id);
    expect(job, JSON.stringify(job)).toMatchObject({ status: 'done', result: { left_count: 0 } });
    await grows('writes run on the first server');
    expect(neighbour.noticed().wrong).toEqual([]);
    await neighbour.stop();
    await ledger.settle();
    expect((await authAt(second, 'signin')).status).toBe(200);
    const removed = await first.call('DELETE', `${servers}/${serverId}`);
    expect([removed.status, removed.body.left_slot], JSON.stringify(removed.body)).toEqual([200, null]);
    const { body } = await second.call('GET', `/projects/${project.slug}`, { key });
    expect(body.project.status).toBe('ready');
  },
);

test.skipIf(!cluster)(
  'a failover in the middle of a move leaves one copy with every acknowledged write, and no replication slot',
  { timeout: 10 * minutes },
  async () => {
    if (!cluster) return;
    const { first, second, key, create } = await openFleet(cluster);
    const project = await create('pg');
    const ledger = await startLedger([first, second], project);
    onTestFinished(ledger.stop);
    const { moves } = first.service.deps;
    let isKilled = false;
    const onStep = async (step: MoveStep) => {
      if (step !== 'catch up' || isKilled) return;
      isKilled = true;
      await cluster.isComplete();
      const old = await cluster.primary();
      cluster.kill(old, 'postgres');
      await untilReplaced(cluster, old);
    };
    Object.assign(moves, { onStep });
    const path = `/projects/${project.slug}/move`;
    const started = await first.call('POST', path, { body: { server: 'test' } });
    expect([started.status, started.body.mode], JSON.stringify(started.body)).toEqual([202, 'online']);
    const { status, error, result } = await jobOf(second, key, started.body.job.id);
    console.log(`the move with a failover in it: ${JSON.stringify({ status, error, result })}`);
    expect(isKilled).toBe(true);
    if (status !== 'done') expect(error.code).toMatch(/^(unavailable|conflict)$/);
    const { control } = first.service.deps;
    await until(
      'nothing of the move is left',
      async () => (await control.query(sql`select from moves`)).length === 0,
      2 * minutes,
    );
    await cluster.isComplete();
    const at = parseDatabaseUrl(cluster.url);
    const there = await asAdmin(
      async (admin) => ({
        slots: await admin.query(
          sql`select slot_name from pg_replication_slots where slot_name like 'rowhouse_move_%'`,
        ),
        databases: await admin.query(sql`select from pg_database where datname = ${databaseOf(project.id)}`),
      }),
      at,
    );
    expect([there.slots, there.databases.length]).toEqual([[], status === 'done' ? 0 : 1]);
    const before = ledger.acknowledged.length;
    await until('writes run', async () => ledger.acknowledged.length > before + 50, minutes);
    await ledger.settle();
    // It can be moved afterwards.
    if (status === 'done') return;
    const again = await first.call('POST', path, { body: { server: 'test' } });
    expect((await jobOf(second, key, again.body.job.id)).error).toBe(null);
  },
);

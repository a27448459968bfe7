// The last step against a backend that nothing ends: it is announced when it is certain, and not before.
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { expect, it, onTestFinished } from 'vitest';
import type { Database } from '../../src/postgres/admin/database.ts';
import { sql } from '../../src/postgres/sql.ts';
import { clusterFolderOf, type Embedded } from '../../src/servers/embedded/embedded.ts';
import { isRunning } from '../../src/servers/embedded/server-processes.ts';
import { openSurvivors } from '../../src/servers/guards/survivors.ts';
import type { Server } from '../../src/servers/server.ts';
import { startLab } from '../support/backup-lab.ts';
import { until } from '../support/helpers.ts';

const restartAfterMs = 200;
const announcement = expect.stringContaining('PostgreSQL restarts now');

/** A session of a role that is named like a project's: only such sessions are ended for good. Returns its process id. */
async function openSession({ address }: Embedded, database: Database): Promise<number> {
  const [user, password] = ['p_one', 'secret'];
  await database.query(sql`create role ${sql.id(user)} login password ${sql.literal(password)}`);
  const { host, port } = address;
  const client = new pg.Client({ host, port, user, password, database: 'postgres' });
  client.on('error', () => {});
  await client.connect();
  const { rows } = await client.query('select pg_backend_pid() as pid');
  const pid: number = rows[0].pid;
  onTestFinished(async () => {
    // A stopped one would hold up the end of PostgreSQL.
    if (isRunning(pid)) process.kill(pid, 'SIGCONT');
    await client.end().catch(() => {});
  });
  return pid;
}

it('says that PostgreSQL restarts only if it does', { timeout: 120_000 }, async () => {
  const { folder, engine, database } = await startLab();
  const cluster = clusterFolderOf(folder);
  const startedAt = async () =>
    (await database.query<{ at: string }>(sql`select pg_postmaster_start_time()::text as at`))[0]?.at;
  const before = await startedAt();
  const pid = await openSession(engine, database);
  // It does not even compute.
  process.kill(pid, 'SIGSTOP');
  const told: string[] = [];
  const note = (_details: object, message: string) => void told.push(message);
  const server = { id: 1, name: 'first', maintenance: database } as unknown as Server;
  const survivors = openSurvivors(server, { folder: cluster, restartAfterMs }, { error: note, warn: note });
  onTestFinished(() => survivors.stop());

  // As if another server had written it.
  const pidFile = path.join(cluster, 'postmaster.pid');
  const right = readFileSync(pidFile, 'utf8');
  writeFileSync(pidFile, right.replace(`\n${engine.address.port}\n`, `\n${engine.address.port + 1}\n`));
  const survivor = { projectId: 'one', server, pid };
  survivors.note(survivor);
  await sleep(10 * restartAfterMs);
  expect(told).toEqual([expect.stringContaining('it is interrupted')]);
  expect(await startedAt()).toBe(before);

  writeFileSync(pidFile, right);
  await until('it is restarted', async () => (await startedAt().catch(() => before)) !== before);
  expect(told.slice(1)).toEqual([announcement]);
});

it('says nothing of a restart when the backend ends meanwhile', { timeout: 120_000 }, async () => {
  const { folder, engine, database } = await startLab();
  const pid = await openSession(engine, database);
  process.kill(pid, 'SIGSTOP');
  const told: string[] = [];
  const note = (_details: object, message: string) => void told.push(message);
  let isWaiting = false;
  // The checkpoint takes until the backend has ended.
  const maintenance = {
    query: async () => {
      isWaiting = true;
      await database.query(sql`select pg_terminate_backend(${pid})`);
      process.kill(pid, 'SIGCONT');
      await until('it has ended', async () => {
        const found = await database.query(sql`select 1 from pg_stat_activity where pid = ${pid}`);
        return found.length === 0;
      });
    },
  };
  const server = { id: 1, name: 'first', maintenance } as unknown as Server;
  const own = { folder: clusterFolderOf(folder), restartAfterMs };
  const survivors = openSurvivors(server, own, { error: note, warn: note });
  onTestFinished(() => survivors.stop());
  survivors.note({ projectId: 'one', server, pid });
  await until('the time has come', async () => isWaiting);
  await sleep(1_000);
  expect(told).toEqual([expect.stringContaining('it is interrupted')]);
});

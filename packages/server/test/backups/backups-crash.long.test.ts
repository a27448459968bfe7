// kill -9 of everything while rows are written: what was stored until then is all there is, and must be enough.

import { randomBytes } from 'node:crypto';
import { existsSync, readdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { chainOf, listBackups } from '../../src/backups/repository/descriptions.ts';
import { openRepository } from '../../src/backups/repository/repository.ts';
import { openStorage } from '../../src/backups/storage/open.ts';
import { openDatabase } from '../../src/postgres/admin/database.ts';
import { sql } from '../../src/postgres/sql.ts';
import type { BackupLocation } from '../../src/settings/backup-url.ts';
import { newFolder, recover } from '../support/backup-lab.ts';
import { api, until } from '../support/helpers.ts';
import { launch, newAccountKey, newDataFolder, postmasterPid, type Running } from '../support/process.ts';
import { openS3Server, s3SkipReason } from './s3-server.ts';

const minutes = 60_000;
/** RPO on a machine of its own is 2 s to a folder and 5 s to S3; a busy one gets more time. */
const rpoMs = { folder: 6_000, s3: 10_000 };

type Written = { id: number; at: number };

/** Inserts row after row; keeps when each was acknowledged. */
function writeOn(service: () => Running, slug: string) {
  const acknowledged: Written[] = [];
  let stopped = false;
  const work = async () => {
    for (let id = 1; !stopped; id++) {
      const query = `insert into marks values (${id}, repeat(md5(random()::text), 30)) on conflict do nothing`;
      const answer = await service()
        .call('POST', `/projects/${slug}/query`, { body: { query } })
        .catch(() => null);
      if (answer?.status === 200) acknowledged.push({ id, at: Date.now() });
      else await new Promise((resolve) => setTimeout(resolve, 20));
    }
  };
  const working = [work()];
  return {
    acknowledged,
    stop: async () => {
      stopped = true;
      await Promise.all(working);
    },
  };
}

const backupsOf = async (service: Running) => (await service.call('GET', `${api}/backups`)).body;

async function destroyAndRecover(location: BackupLocation, env: Record<string, string>) {
  const masterKey = randomBytes(32);
  const ROWHOUSE_DATA = newDataFolder();
  const settings = {
    ROWHOUSE_DATA,
    ROWHOUSE_ACCOUNT_KEY: newAccountKey(),
    ROWHOUSE_MASTER_KEY: masterKey.toString('hex'),
    ...env,
  };
  let service = await launch(settings);
  await until('the first backup', async () => (await backupsOf(service)).backups?.length > 0, 2 * minutes);
  const { body } = await service.call('POST', '/projects', { body: { name: 'Ledger' } });
  const { slug, id } = body.project;
  await service.call('POST', `/projects/${slug}/query`, {
    body: { query: 'create table marks (id int primary key, note text)' },
  });
  const writing = writeOn(() => service, slug);
  const some = (count: number) => {
    const before = writing.acknowledged.length;
    return until('rows are written', async () => writing.acknowledged.length >= before + count, 2 * minutes);
  };
  await some(100);
  // A backup under load.
  const started = await service.call('POST', `${api}/backups`, { body: {} });
  expect(started.status).toBe(202);
  await some(100);
  // PostgreSQL dies and comes back; then the service dies and is started again.
  const pid = postmasterPid(ROWHOUSE_DATA);
  if (pid) process.kill(pid, 'SIGKILL');
  await until('it is back', async () => {
    const { status } = await service.call('GET', '/readyz');
    return status === 200 && postmasterPid(ROWHOUSE_DATA) !== pid;
  });
  await some(100);
  await service.stop('SIGKILL');
  service = await launch(settings);
  await some(200);
  // Everything at once, and the data is gone.
  const last = postmasterPid(ROWHOUSE_DATA);
  const killedAt = Date.now();
  if (last) process.kill(last, 'SIGKILL');
  await service.stop('SIGKILL');
  await writing.stop();
  rmSync(path.join(ROWHOUSE_DATA, 'postgres'), {
    recursive: true,
    force: true,
    maxRetries: 20,
    retryDelay: 100,
  });

  const storage = openStorage(location);
  const [cluster = ''] = await clustersIn(storage);
  const repository = openRepository(storage, masterKey, cluster);
  const backups = await listBackups(repository);
  const newest = backups.at(-1);
  const chain = newest ? chainOf(backups, newest) : null;
  expect(chain).not.toBeNull();
  const recovered = await recover({ masterKey }, repository, chain ?? []);
  storage.close();
  const project = openDatabase({ ...recovered.engine.address, database: `p_${id}` }, { max: 1 });
  const rows = await project.query<{ id: number }>(sql`select id from marks order by id`);
  await project.end();
  const found = new Set(rows.map((row) => row.id));
  const missing = writing.acknowledged.filter((written) => !found.has(written.id));
  const lostMs = missing.length === 0 ? 0 : killedAt - Math.min(...missing.map(({ at }) => at));
  console.log(
    `${location.kind}: ${writing.acknowledged.length} rows acknowledged, ${missing.length} of the last ${lostMs} ms not stored`,
  );
  expect(lostMs).toBeLessThan(rpoMs[location.kind]);
  // A prefix: nothing is missing before something that is there.
  const first = Math.min(Number.POSITIVE_INFINITY, ...missing.map((written) => written.id));
  expect(Math.max(...found)).toBeLessThan(first);
}

async function clustersIn(storage: ReturnType<typeof openStorage>): Promise<string[]> {
  const { listClusters } = await import('../../src/backups/repository/repository.ts');
  return listClusters(storage);
}

const reason = await s3SkipReason();

describe('after kill -9 of everything', { timeout: 8 * minutes }, () => {
  it('a folder holds every row that was acknowledged up to the last seconds', async () => {
    const folder = newFolder('repository');
    await destroyAndRecover({ kind: 'folder', folder }, { ROWHOUSE_BACKUP_URL: `file:${folder}` });
    expect(existsSync(path.join(folder, '.incoming'))).toBe(true);
    expect(readdirSync(folder).length).toBe(2);
  });

  const stopping: (() => Promise<void>)[] = [];
  afterAll(async () => {
    for (const stop of stopping) await stop();
  });
  it.skipIf(reason !== null)('S3 holds every row that was acknowledged up to the last seconds', async () => {
    const server = await openS3Server(newFolder('s3'));
    stopping.push(() => server.stop());
    const { endpoint, credentials, bucket, prefix } = server.location;
    await destroyAndRecover(server.location, {
      ROWHOUSE_BACKUP_URL: `s3://${bucket}/${prefix}?endpoint=${endpoint}`,
      AWS_ACCESS_KEY_ID: credentials.accessKeyId,
      AWS_SECRET_ACCESS_KEY: credentials.secretAccessKey,
    });
  });
});

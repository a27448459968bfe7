// kill -9 of the service, which uploads, and of PostgreSQL at each step of a base backup to a folder and to S3: a backup is listed
// only when it is whole, the next one succeeds, what is left is pruned, and the WAL has no gap.
import { existsSync, readdirSync, statSync, utimesSync } from 'node:fs';
import path from 'node:path';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { expect, it, onTestFinished } from 'vitest';
import { newFolder } from '../support/backup-lab.ts';
import { api, until } from '../support/helpers.ts';
import { launch, newAccountKey, postmasterPid, usedDataFolder } from '../support/process.ts';
import { openS3Server, s3SkipReason } from './s3-server.ts';

const dayMs = 24 * 60 * 60_000;
/** Its thread has a low priority, and a busy machine lets it wait. */
const backupMs = 240_000;

type Place = {
  settings: Record<string, string>;
  /** Where the objects are on the disk. */
  repository: string;
};

function inFolder(): Place {
  const repository = newFolder('repository');
  return { repository, settings: { ROWHOUSE_BACKUP_URL: `file:${repository}` } };
}

async function inS3(): Promise<Place> {
  const server = await openS3Server(newFolder('s3'));
  onTestFinished(() => server.stop());
  const { endpoint, credentials, bucket, prefix } = server.location;
  const settings = {
    ROWHOUSE_BACKUP_URL: `s3://${bucket}/${prefix}?endpoint=${endpoint}`,
    AWS_ACCESS_KEY_ID: credentials.accessKeyId,
    AWS_SECRET_ACCESS_KEY: credentials.secretAccessKey,
  };
  return { settings, repository: path.join(server.bucketFolder, prefix) };
}

const reason = await s3SkipReason();

it('kill -9 during a base backup leaves no backup or a whole one, and no gap', { timeout: 900_000 }, () =>
  killDuringBackups(inFolder()),
);

it.skipIf(reason !== null)(
  'kill -9 during a base backup to S3 leaves no backup or a whole one, and no gap',
  { timeout: 900_000 },
  async () => killDuringBackups(await inS3()),
);

async function killDuringBackups({ settings, repository }: Place): Promise<void> {
  const data = await usedDataFolder();
  const env = {
    ROWHOUSE_DATA: data,
    ROWHOUSE_ACCOUNT_KEY: newAccountKey(),
    ROWHOUSE_BACKUP_RATE_MB: '8',
    ...settings,
  };
  let service = await launch(env);
  const ask = async (query: string) => {
    const { status, body } = await service.call('POST', '/projects/shop/query', { body: { query } });
    expect([query, status, body.error]).toEqual([query, 200, undefined]);
    return body.rows;
  };

  const baseFolder = () => {
    const clusters = existsSync(repository) ? readdirSync(repository) : [];
    const cluster = clusters.find((name) => /^\d+$/.test(name)) ?? 'none';
    return path.join(repository, cluster, 'base');
  };
  const ids = () => (existsSync(baseFolder()) ? readdirSync(baseFolder()).sort() : []);
  /** None: the service has removed those of a backup that failed. */
  const objectsOf = (id: string) =>
    existsSync(path.join(baseFolder(), id)) ? readdirSync(path.join(baseFolder(), id)) : [];
  const isWhole = (id: string) => objectsOf(id).includes('backup');
  const listed = async (): Promise<string[]> => {
    const { body } = await service.call('GET', `${api}/backups`);
    return body.backups.map(({ id }: { id: string }) => id).sort();
  };
  /** As soon as an object is stored whose name fits, of a backup that has begun since. */
  const stored = async (object: RegExp, seen: readonly string[]): Promise<string> => {
    for (const deadline = Date.now() + backupMs; Date.now() < deadline; await nextTurn()) {
      const id = ids().find((one) => !seen.includes(one) && objectsOf(one).some((name) => object.test(name)));
      if (id !== undefined) return id;
    }
    throw new Error(`Not stored in time: ${object}`);
  };
  const killAt = async (object: RegExp, seen: readonly string[]): Promise<string> => {
    const id = await stored(object, seen);
    await service.stop('SIGKILL');
    return id;
  };
  const restart = async () => {
    service = await launch(env);
    expect(await listed()).toEqual(ids().filter(isWhole));
  };

  const made = await service.call('POST', '/projects', { body: { name: 'Shop', slug: 'shop' } });
  expect(made.status).toBe(201);
  await ask('create table marks (id int primary key, pad text)');
  const acknowledged: number[] = [];
  let isOver = false;
  const writing = (async () => {
    for (let id = 1; !isOver; id++) {
      const answer = await service
        .call('POST', '/projects/shop/tables/marks', { body: { id, pad: 'x'.repeat(500) } })
        .catch(() => null);
      if (answer?.status === 201) acknowledged.push(id);
      else await sleep(20);
    }
  })();
  const someRows = () => {
    const before = acknowledged.length;
    return until('rows are written', async () => acknowledged.length > before + 50);
  };

  // The first one begins by itself. Nothing is listed while its parts are uploaded.
  const first = await killAt(/^db-/, []);
  expect(isWhole(first)).toBe(false);
  // When all parts are stored, when the manifest is, and when the description is. The next object follows within milliseconds,
  // so that the backup may have become whole.
  let last = first;
  for (const object of [/^rest\.tar$/, /^manifest$/, /^backup$/]) {
    const seen = ids();
    await restart();
    // Without a whole one, the start takes another.
    if (seen.some(isWhole)) {
      const asked = await service.call('POST', `${api}/backups`, { body: { kind: 'full' } });
      expect(asked.status).toBe(202);
    }
    last = await killAt(object, seen);
    expect(last > first).toBe(true);
  }
  expect(isWhole(last)).toBe(true);
  await restart();
  expect(await listed()).toContain(last);
  // It is used as it is: no other one is due.
  await until('the service has looked for backups', async () => {
    const { body } = await service.call('GET', '/metrics');
    return /^rowhouse_backup_age_seconds \d/m.test(body);
  });
  expect(ids().at(-1)).toBe(last);

  const start = async (target: string, given: object = {}): Promise<string> => {
    const { status, body } = await service.call('POST', target, { body: given });
    expect([target, status, body.error]).toEqual([target, 202, undefined]);
    return body.job.id;
  };
  const ended = (job: string) =>
    until(
      'the job has ended',
      async () => {
        const { status, body } = await service.call('GET', `${api}/jobs/${job}`);
        return status === 200 && body.job.status !== 'running' && body.job;
      },
      backupMs,
    );
  const run = async (target: string, given?: object) => ended(await start(target, given));

  // PostgreSQL dies, and the service goes on: that backup fails, and the next one succeeds.
  for (const object of [/^db-/, /^rest\.tar$/]) {
    const seen = ids();
    const job = await start(`${api}/backups`, { kind: 'full' });
    const id = await stored(object, seen);
    const pid = postmasterPid(data);
    process.kill(pid ?? 0, 'SIGKILL');
    await until('PostgreSQL is back', async () => {
      const { status } = await service.call('GET', '/readyz');
      return status === 200 && postmasterPid(data) !== pid;
    });
    // After the last part, it may have become whole.
    const { status } = await ended(job);
    expect([object, isWhole(id)]).toEqual([object, object.test('rest.tar') ? status === 'done' : false]);
    expect(await listed()).toEqual(ids().filter(isWhole));
    const next = await run(`${api}/backups`, { kind: 'full' });
    expect([next.status, next.error]).toEqual(['done', null]);
    expect(await listed()).toEqual(ids().filter(isWhole));
    await someRows();
  }

  // What is left of the others goes when it is a day old, and nothing else.
  const interrupted = ids().filter((id) => !isWhole(id));
  expect(interrupted).toContain(first);
  expect(await run(`${api}/backups/prune`)).toMatchObject({ error: null, result: { unfinished: 0 } });
  const incoming = ['.incoming']
    .map((name) => path.join(repository, name))
    .filter((name) => existsSync(name));
  const aged = [...incoming, ...interrupted.map((id) => path.join(baseFolder(), id))];
  const old = new Date(Date.now() - 2 * dayMs);
  for (const folder of aged)
    for (const name of readdirSync(folder)) {
      const file = path.join(folder, name);
      if (statSync(file, { throwIfNoEntry: false })?.isFile()) utimesSync(file, old, old);
    }
  expect((await run(`${api}/backups/prune`)).error).toBe(null);
  expect(ids()).toEqual(await listed());

  // Everything that was written is in the backups, and a restore is exact.
  await someRows();
  isOver = true;
  await writing;
  const before = await ask('select id from marks order by id');
  await sleep(10);
  const [{ at }] = await ask('select clock_timestamp() as at');
  await sleep(10);
  await ask("insert into marks values (-1, 'after')");
  await until('all WAL is stored', async () => {
    const { body } = await service.call('GET', `${api}/backups`);
    return body.lag_seconds === 0;
  });
  expect(await run(`${api}/backups/verify`)).toMatchObject({ error: null });
  const { status, body } = await service.call('POST', '/projects/shop/restore', { body: { to: at } });
  expect([status, body.error]).toEqual([202, undefined]);
  expect((await ended(body.job.id)).error).toBe(null);
  const copy = await service.call('POST', `/projects/${body.project.slug}/query`, {
    body: { query: 'select id from marks order by id' },
  });
  expect(copy.body.rows).toEqual(before);
  const found = new Set(before.map(({ id }: { id: number }) => id));
  expect(acknowledged.filter((id) => !found.has(id))).toEqual([]);
}

import { readdirSync } from 'node:fs';
import { request } from 'node:http';
import path from 'node:path';
import pg from 'pg';
import { expect, it } from 'vitest';
import { until } from '../support/helpers.ts';
import { launch, newAccountKey, postmasterPid, type Running, usedDataFolder } from '../support/process.ts';

const prefix = '/api/dbaas/v2';

/** An upload that can be left in the middle. */
function beginUpload({ url }: Running, key: string, name: string, part: string) {
  const sending = request(`${url}${prefix}/projects/import?name=${name}`, {
    method: 'POST',
    headers: { 'x-api-key': key, 'content-type': 'application/sql' },
  });
  sending.on('error', () => {});
  sending.write(part);
  return sending;
}

type Started = { project: { id: string }; job: { id: string } };

async function upload({ url }: Running, key: string, name: string, body: string): Promise<Started> {
  const response = await fetch(`${url}${prefix}/projects/import?name=${name}`, {
    method: 'POST',
    headers: { 'x-api-key': key, 'content-type': 'application/sql' },
    body,
  });
  expect(response.status).toBe(202);
  return (await response.json()) as Started;
}

/** Looks for the names of databases and roles that belong to a project. */
async function openSearch(service: Running, key: string, ids: string[]): Promise<() => Promise<string[]>> {
  const made = await service.call('POST', '/projects', { key, body: { name: 'Look' } });
  const { body } = await service.call('GET', `/projects/${made.body.project.slug}/connection`, { key });
  return async () => {
    const client = new pg.Client({ connectionString: body.connection.url });
    await client.connect();
    try {
      const { rows } = await client.query<{ name: string }>(
        'select datname as name from pg_database union all select rolname from pg_roles',
      );
      return rows.map(({ name }) => name).filter((name) => ids.some((id) => name.startsWith(`p_${id}`)));
    } finally {
      await client.end();
    }
  };
}

it('a service that dies in the middle of imports leaves nothing of them', { timeout: 400_000 }, async () => {
  const key = newAccountKey();
  const folder = await usedDataFolder();
  const settings = { ROWHOUSE_DATA: folder, ROWHOUSE_ACCOUNT_KEY: key };
  const first = await launch(settings);
  const rows = `copy t from stdin;\n${'0123456789\n'.repeat(50_000)}\\.\n`;
  const endless = `create table t (a text);\n${rows.repeat(3)}select pg_catalog.lo_from_bytea(0, 'x');\nselect pg_catalog.pg_sleep(600);\n`;
  // Two run, one waits for its turn, one is still arriving.
  const one = await upload(first, key, 'One', endless);
  const started = [one, await upload(first, key, 'Two', endless), await upload(first, key, 'Three', endless)];
  const arriving = beginUpload(first, key, 'Four', endless);
  await until('the first has stored rows', async () => {
    const { body } = await first.call('GET', `${prefix}/jobs/${one.job.id}`, { key });
    return body.job.progress > 0.5;
  });
  const spool = path.join(folder, 'imports');
  await until('no dump has a name', async () => readdirSync(spool).length === 0);
  first.child.kill('SIGKILL');
  await first.exited;
  arriving.destroy();

  const second = await launch(settings);
  const ids = started.map(({ project }) => project.id);
  await until(
    'the projects are gone',
    async () => {
      const { body } = await second.call('GET', '/projects', { key });
      return body.projects.every(({ id }: { id: string }) => !ids.includes(id));
    },
    300_000,
  );
  for (const { job } of started) {
    const { body } = await second.call('GET', `${prefix}/jobs/${job.id}`, { key });
    expect([body.job.status, body.job.error.code]).toEqual(['failed', 'unavailable']);
  }
  // The background work drops their databases after that.
  const search = await openSearch(second, key, ids);
  await expect.poll(search, { timeout: 60_000 }).toEqual([]);
  expect(readdirSync(spool)).toEqual([]);
  const again = await upload(second, key, 'Again', 'create table t ();\n');
  await until('the next import is done', async () => {
    const { body } = await second.call('GET', `${prefix}/jobs/${again.job.id}`, { key });
    return body.job.status === 'done';
  });
  expect(await second.stop()).toBe(0);
});

it('an upload in parts goes on after kill -9 of the service', async () => {
  const key = newAccountKey();
  const settings = { ROWHOUSE_DATA: await usedDataFolder(), ROWHOUSE_ACCOUNT_KEY: key };
  const first = await launch(settings);
  const dump = `create table t (a int);\ncopy t from stdin;\n${'7\n'.repeat(100_000)}\\.\n`;
  const begun = await first.call('POST', `${prefix}/uploads`, { body: { bytes: dump.length } });
  const { id } = begun.body.upload;
  const headers = { 'x-api-key': key, 'content-type': 'application/octet-stream' };
  const sending = request(`${first.url}${prefix}/uploads/${id}`, {
    method: 'PATCH',
    headers: { ...headers, 'upload-offset': '0' },
  });
  sending.on('error', () => {});
  sending.write(dump.slice(0, 120_000));
  const offset = async (service: Running) =>
    (await service.call('GET', `${prefix}/uploads/${id}`)).body.upload.offset;
  await until('a part has arrived', async () => (await offset(first)) === 120_000);
  first.child.kill('SIGKILL');
  await first.exited;
  const second = await launch(settings);
  expect(await offset(second)).toBe(120_000);
  const rest = await fetch(`${second.url}${prefix}/uploads/${id}`, {
    method: 'PATCH',
    headers: { ...headers, 'upload-offset': '120000' },
    body: dump.slice(120_000),
  });
  expect(rest.status).toBe(200);
  expect(await offset(second)).toBe(dump.length);
  const { status, body } = await second.call('POST', '/projects/import', {
    body: { name: 'Whole', upload: { id, bytes: dump.length } },
  });
  expect(status).toBe(202);
  const job = await until('the import has ended', async () => {
    const answer = await second.call('GET', `${prefix}/jobs/${body.job.id}`);
    return answer.body.job.status !== 'running' && answer.body.job;
  });
  expect([job.error, job.result?.rows]).toEqual([null, 100_000]);
  expect(await second.stop()).toBe(0);
});

it('a client that leaves in the middle of an upload leaves nothing', async () => {
  const key = newAccountKey();
  const folder = await usedDataFolder();
  const service = await launch({ ROWHOUSE_DATA: folder, ROWHOUSE_ACCOUNT_KEY: key });
  // More than may arrive at once: a place that is not given back would be missed.
  for (let round = 0; round < 8; round++) {
    const sending = beginUpload(service, key, 'Left', 'create table t ();\n'.repeat(10_000));
    await until('it has arrived', async () => sending.writableLength === 0);
    sending.destroy();
  }
  await until('an import is let in', async () => {
    const response = await fetch(`${service.url}${prefix}/projects/import?name=Whole`, {
      method: 'POST',
      headers: { 'x-api-key': key, 'content-type': 'application/sql' },
      body: 'create table t ();\n',
    });
    await response.text();
    return response.status === 202;
  });
  const { body } = await service.call('GET', '/projects', { key });
  expect(body.projects.map(({ name }: { name: string }) => name)).toEqual(['Whole']);
  expect(await service.stop()).toBe(0);
});

it('kill -9 of PostgreSQL in the middle of an import leaves nothing of it, and everything of a neighbour', async () => {
  const key = newAccountKey();
  const folder = await usedDataFolder();
  const service = await launch({ ROWHOUSE_DATA: folder, ROWHOUSE_ACCOUNT_KEY: key });
  const { body: made } = await service.call('POST', '/projects', { key, body: { name: 'Neighbour' } });
  const ask = (query: string, params: unknown[] = []) =>
    service.call('POST', `/projects/${made.project.slug}/query`, {
      key: made.api_key,
      body: { query, params },
    });
  expect((await ask('create table kept (n int primary key)')).status).toBe(200);
  const kept: number[] = [];
  const slow: number[] = [];
  let isOver = false;
  let isKilled = false;
  const neighbour = (async () => {
    for (let n = 0; !isOver; n++) {
      const began = performance.now();
      const { status } = await ask('insert into kept values ($1)', [n]);
      if (status === 200) kept.push(n);
      if (isKilled) continue;
      expect(status).toBe(200);
      slow.push(performance.now() - began);
    }
  })();

  const rows = `copy t from stdin;\n${'0123456789\n'.repeat(200_000)}\\.\n`;
  const dump = `create table t (a text);\n${rows.repeat(8)}create index on t (a);\nselect pg_catalog.pg_sleep(600);\n`;
  const one = await upload(service, key, 'One', dump);
  const progress = async () => (await service.call('GET', `${prefix}/jobs/${one.job.id}`, { key })).body.job;
  await until('most of it is stored', async () => (await progress()).progress > 0.9, 120_000);
  await until('the neighbour was served meanwhile', async () => slow.length > 20);
  // A machine that is busy with everything else, and an import beside it.
  expect(Math.max(...slow)).toBeLessThan(3_000);

  isKilled = true;
  const pid = postmasterPid(folder);
  process.kill(pid ?? 0, 'SIGKILL');
  const job = await until(
    'the job has ended',
    async () => {
      const answer = await service.call('GET', `${prefix}/jobs/${one.job.id}`, { key });
      return answer.status === 200 && answer.body.job.status !== 'running' && answer.body.job;
    },
    120_000,
  );
  expect([job.status, job.error.code]).toEqual([
    'failed',
    expect.stringMatching(/^(unavailable|outcome_unknown)$/),
  ]);
  const before = kept.length;
  await until('the neighbour is served again', async () => kept.length > before + 5, 60_000);
  isOver = true;
  await neighbour;
  const found = await ask('select n from kept order by n');
  const stored = new Set(found.body.rows.map(({ n }: { n: number }) => n));
  expect(kept.filter((n) => !stored.has(n))).toEqual([]);
  const search = await openSearch(service, key, [one.project.id]);
  await until('nothing is left of it', async () => (await search()).length === 0, 120_000);
  const { body } = await service.call('GET', '/projects', { key });
  expect(body.projects.map(({ id }: { id: string }) => id)).not.toContain(one.project.id);
  const again = await upload(service, key, 'Again', 'create table t ();\n');
  await until('the next import is done', async () => {
    const { body: answer } = await service.call('GET', `${prefix}/jobs/${again.job.id}`, { key });
    return answer.job.status === 'done';
  });
  expect(await service.stop()).toBe(0);
});

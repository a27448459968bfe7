// A restore of everything while further servers live on: the restored service leaves them alone until they are attached.
import { expect, it, onTestFinished } from 'vitest';
import { restoreServer } from '../../src/backups/restore/restore-server.ts';
import { openFolder } from '../../src/backups/storage/folder.ts';
import type { Address } from '../../src/postgres/admin/database.ts';
import { sql } from '../../src/postgres/sql.ts';
import { type Lab, newFolder, startLab } from '../support/backup-lab.ts';
import { type Project, run } from '../support/exports.ts';
import { api, openTestService, type TestService, until } from '../support/helpers.ts';
import { backups, moment } from './restoring.ts';

const minutes = 60_000;
const urlOf = ({ user, password, host, port, database }: Address) =>
  `postgres://${user}:${encodeURIComponent(password)}@${host}:${port}/${database}`;

async function projectOn(rowhouse: TestService, server: string, name: string): Promise<Project> {
  const { status, body } = await rowhouse.call('POST', '/projects', { body: { name, server } });
  expect(status, JSON.stringify(body)).toBe(201);
  return { slug: body.project.slug, id: body.project.id, key: body.api_key };
}

const serverNamed = async (rowhouse: TestService, name: string) => {
  const { body } = await rowhouse.call('GET', `${api}/servers`);
  return body.servers.find((one: { name: string }) => one.name === name);
};
const namesOn = async ({ database }: Lab) => {
  const rows = await database.query<{ name: string }>(sql`
    select datname || ' ' || datallowconn as name from pg_database where datname like 'p\\_%'
    union all select slot_name from pg_replication_slots order by 1`);
  return rows.map(({ name }) => name);
};

it('a restored installation leaves the further servers alone until they are attached', {
  timeout: 15 * minutes,
}, async () => {
  const [first, second] = [await startLab(), await startLab()];
  const folder = newFolder('repository');
  const live = await openTestService({
    at: first.engine.address,
    masterKey: first.masterKey,
    backups: { location: { kind: 'folder', folder }, reserveBytes: 0, retentionDays: 7, rateMb: 0 },
  });
  let isStopped = false;
  const stopLive = async () => {
    if (!isStopped) await live.stop();
    isStopped = true;
  };
  onTestFinished(stopLive);
  await until('the first backup is there', async () => (await backups(live)).length > 0, minutes);
  const { control } = live.service.deps;
  const added = await live.call('POST', `${api}/servers`, {
    body: { name: 'second', address: urlOf(second.engine.address) },
  });
  expect(added.status, JSON.stringify(added.body)).toBe(201);
  const { id: secondId } = added.body.server;
  const here = await projectOn(live, 'test', 'Here');
  const there = await projectOn(live, 'second', 'There');
  const filled = await projectOn(live, 'second', 'Filled');
  await run(live, here, 'create table t as select 1 as n');
  await run(live, there, 'create table t as select 1 as n');
  // As if this were the moment before it is given away, and the other one were just being filled.
  const later = await projectOn(live, 'second', 'Later');
  await run(live, later, 'create table t as select 1 as n');
  await control.transaction(async (transaction) => {
    await transaction.query(sql`
      insert into spares (id, server_id, state, template, empty_bytes)
      select ${later.id}, ${secondId}, 'ready', template, empty_bytes from projects where id = ${later.id}`);
    await transaction.query(sql`update projects set filled_by = 'job_x' where id = ${filled.id}`);
  });
  const to = await moment(first);
  await control.query(sql`delete from spares where id = ${later.id}`);
  await control.query(sql`update projects set filled_by = null where id = ${filled.id}`);
  await until(
    'all is stored',
    async () => {
      const status = await live.service.deps.backups?.first.status();
      return status?.slot?.lagBytes === 0;
    },
    minutes,
  );
  await until(
    'the slot is there',
    async () => (await namesOn(second)).some((name) => !name.startsWith('p_')),
    minutes,
  );

  const dataFolder = newFolder('restored');
  const restored = await restoreServer({
    storage: openFolder(folder, 0),
    masterKey: first.masterKey,
    dataFolder,
    to: new Date(to),
    controlDatabase: live.controlDatabase,
    cluster: null,
    signal: new AbortController().signal,
    progress: () => {},
    onComplete: () => {},
  });
  expect(restored.detached).toMatchObject([{ name: 'second', projects: 3, unfinished: [filled.slug] }]);

  // The old service still runs: this is a restore that is only tried out.
  const before = await namesOn(second);
  const lab = await startLab({}, { folder: dataFolder, masterKey: first.masterKey });
  const opened = await openTestService({
    at: lab.engine.address,
    masterKey: first.masterKey,
    controlDatabase: live.controlDatabase,
  });
  onTestFinished(() => opened.stop());
  const copy: TestService = {
    ...opened,
    call: (method, target, given) => opened.call(method, target, { key: live.accountKey, ...given }),
  };
  expect((await run(copy, here, 'select n from t')).rows).toEqual([{ n: 1 }]);
  expect(await serverNamed(copy, 'second')).toMatchObject({ state: 'detached' });
  const refused = await copy.call('POST', `/projects/${there.slug}/query`, { body: { query: 'select 1' } });
  expect([refused.status, refused.body.error?.code, refused.body.error?.hint]).toEqual([
    ...[503, 'unavailable', expect.stringContaining('servers attach')],
  ]);
  const wanted = await copy.call('POST', '/projects', { body: { name: 'New', server: 'second' } });
  expect(wanted.status).toBe(409);
  const placed = await copy.call('POST', '/projects', { body: { name: 'New' } });
  expect(placed.status, JSON.stringify(placed.body)).toBe(201);
  const path = `${api}/servers/${secondId}`;
  expect((await copy.call('PATCH', path, { body: { state: 'draining' } })).status).toBe(503);
  expect((await copy.call('DELETE', path)).status).toBe(409);
  expect(await serverNamed(copy, 'second')).toMatchObject({ state: 'detached' });
  // Some rounds of the background work have passed, which would have applied the restored state.
  const rounds = async () =>
    (await copy.service.deps.control.query(sql`select from projects where noted_at > ${new Date(to)}`))
      .length;
  await until('the background work runs', async () => (await rounds()) > 0, minutes);
  expect(await namesOn(second)).toEqual(before);
  expect((await run(live, later, 'select n from t')).rows).toEqual([{ n: 1 }]);
  expect((await run(live, filled, 'select 1 as one')).rows).toEqual([{ one: 1 }]);

  await stopLive();
  const attached = await copy.call('PATCH', path, { body: { state: 'ready' } });
  expect([attached.status, attached.body.server?.state]).toEqual([200, 'ready']);
  expect((await run(copy, there, 'select n from t')).rows).toEqual([{ n: 1 }]);
  const fresh = await projectOn(copy, 'second', 'Fresh');
  expect(fresh.id).not.toBe(later.id);
  expect(await namesOn(second)).toEqual(
    expect.arrayContaining([`p_${later.id} true`, `p_${filled.id} true`]),
  );
});

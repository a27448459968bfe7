// Backups of a fleet: two servers, each a PostgreSQL of its own, and one storage. Projects on the further server are restored,
// drilled and branched as those on the first one, also after their server is lost.
import { readdirSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';
import { putSetting } from '../../src/control/settings.ts';
import { type Address, openDatabase } from '../../src/postgres/admin/database.ts';
import { sql } from '../../src/postgres/sql.ts';
import { type Lab, newFolder, startLab } from '../support/backup-lab.ts';
import { type Project, run } from '../support/exports.ts';
import { api, type TestService, until } from '../support/helpers.ts';
import { ask, end, moment, restore, startService } from './restoring.ts';

const minutes = 60_000;

const urlOf = ({ user, password, host, port, database }: Address) =>
  `postgres://${user}:${encodeURIComponent(password)}@${host}:${port}/${database}`;

/** The servers are called "test" and "second". */
async function startFleet() {
  const [first, second] = [await startLab(), await startLab()];
  const folder = newFolder('repository');
  const rowhouse = await startService(first, { location: { kind: 'folder', folder } });
  await addSecond(rowhouse, second.engine.address);
  return { first, second, folder, rowhouse };
}

async function addSecond(rowhouse: TestService, address: Address): Promise<void> {
  const { status, body } = await rowhouse.call('POST', `${api}/servers`, {
    body: { name: 'second', address: urlOf(address) },
  });
  expect(status, JSON.stringify(body)).toBe(201);
}

const list = async (rowhouse: TestService, server?: string) => {
  const query = server === undefined ? '' : `?server=${server}`;
  const { status, body } = await rowhouse.call('GET', `${api}/backups${query}`);
  expect(status, JSON.stringify(body)).toBe(200);
  return body;
};
const serverIn = async (rowhouse: TestService, name: string) =>
  (await list(rowhouse)).servers.find((one: { name: string }) => one.name === name);
const serverRow = async (rowhouse: TestService, name: string) => {
  const { body } = await rowhouse.call('GET', `${api}/servers`);
  return body.servers.find((one: { name: string }) => one.name === name);
};
const backedUp = (rowhouse: TestService, name: string) =>
  until(
    `a backup of ${name}`,
    async () => (await serverIn(rowhouse, name)).oldest_restorable !== null,
    2 * minutes,
  );

async function projectOn(rowhouse: TestService, server: string): Promise<Project> {
  const { status, body } = await rowhouse.call('POST', '/projects', {
    body: { name: `On ${server}`, server },
  });
  expect(status, JSON.stringify(body)).toBe(201);
  return { slug: body.project.slug, id: body.project.id, key: body.api_key };
}

async function serverOf(rowhouse: TestService, { id }: Project): Promise<string | undefined> {
  const [row] = await rowhouse.service.deps.control.query<{ name: string }>(sql`
    select servers.name from projects join servers on servers.id = server_id where projects.id = ${id}`);
  return row?.name;
}

async function job(rowhouse: TestService, target: string, body: object) {
  const started = await rowhouse.call('POST', `${api}${target}`, { body });
  expect(started.status, JSON.stringify(started.body)).toBe(202);
  return end(rowhouse, started.body.job.id);
}

async function lose(rowhouse: TestService, second: Lab): Promise<void> {
  await second.engine.stop();
  await until('the server is known to be away', async () => {
    const { body } = await rowhouse.call('GET', `${api}/servers`);
    return body.servers.some(({ name, state }: { name: string; state: string }) => {
      return name === 'second' && state === 'unavailable';
    });
  });
}

const slotsOf = async ({ database }: Pick<Lab, 'database'>) =>
  (await database.query<{ name: string }>(sql`select slot_name as name from pg_replication_slots`)).map(
    ({ name }) => name,
  );

it('a project on a further server is backed up, restored, branched, drilled and has snapshots', {
  timeout: 20 * minutes,
}, async () => {
  const { first, second, folder, rowhouse } = await startFleet();
  await backedUp(rowhouse, 'second');
  const all = await list(rowhouse);
  expect(all.servers.map(({ name, problem }: { name: string; problem: null }) => [name, problem])).toEqual([
    ['test', null],
    ['second', null],
  ]);
  expect(new Set(all.backups.map(({ server }: { server: string }) => server))).toEqual(
    new Set(['test', 'second']),
  );
  expect(readdirSync(folder).filter((name) => /^\d+$/.test(name))).toHaveLength(2);
  const ofSecond = await list(rowhouse, 'second');
  expect(new Set(ofSecond.backups.map(({ server }: { server: string }) => server))).toEqual(
    new Set(['second']),
  );
  expect(ofSecond.oldest_restorable).toBe(all.servers[1].oldest_restorable);
  expect((await rowhouse.call('GET', `${api}/backups?server=nobody`)).status).toBe(400);

  const project = await projectOn(rowhouse, 'second');
  const neighbour = await projectOn(rowhouse, 'test');
  await run(rowhouse, neighbour, 'create table t as select 1 as one');
  await run(rowhouse, project, 'create table t as select 1 as n');
  const early = await moment(second);
  const snapshot = await rowhouse.call('POST', `/projects/${project.slug}/snapshots`, {
    body: { name: 'before' },
  });
  expect(snapshot.status, JSON.stringify(snapshot.body)).toBe(201);
  await run(rowhouse, project, 'insert into t values (2)');

  const restored = await restore(rowhouse, project.slug, early);
  expect([restored.ended.status, restored.ended.error]).toEqual(['done', null]);
  expect(await serverOf(rowhouse, restored.copy)).toBe('second');
  expect((await run(rowhouse, restored.copy, 'select n from t')).rows).toEqual([{ n: 1 }]);

  const branch = await rowhouse.call('POST', `/projects/${project.slug}/branches`, {
    body: { name: 'Past', at: early },
  });
  expect(branch.status, JSON.stringify(branch.body)).toBe(201);
  expect((await end(rowhouse, branch.body.job.id)).status).toBe('done');
  const past = { ...branch.body.project, key: branch.body.api_key };
  expect((await run(rowhouse, past, 'select n from t')).rows).toEqual([{ n: 1 }]);
  expect(await serverOf(rowhouse, past)).toBe('second');

  // On a server that is named, and in place by a snapshot.
  const elsewhere = await ask(rowhouse, project.slug, { to: early, server: 'test' });
  expect(elsewhere.status, JSON.stringify(elsewhere.body)).toBe(202);
  expect((await end(rowhouse, elsewhere.body.job.id)).status).toBe('done');
  expect(await serverOf(rowhouse, elsewhere.body.project)).toBe('test');
  const both = await ask(rowhouse, project.slug, { to: early, server: 'test', into: 'in_place' });
  expect(both.status).toBe(400);
  const listed = await rowhouse.call('GET', `/projects/${project.slug}/snapshots`);
  expect(listed.body.snapshots).toMatchObject([{ name: 'before', is_restorable: true }]);
  const inPlace = await ask(rowhouse, project.slug, { snapshot: 'before', into: 'in_place' });
  expect(inPlace.status, JSON.stringify(inPlace.body)).toBe(202);
  const replaced = await end(rowhouse, inPlace.body.job.id);
  expect([replaced.status, replaced.error]).toEqual(['done', null]);
  expect((await run(rowhouse, project, 'select n from t')).rows).toEqual([{ n: 1 }]);

  const drilled = await job(rowhouse, '/backups/drill', { project: project.slug });
  expect([drilled.status, drilled.error]).toEqual(['done', null]);
  expect(drilled.result.compared_tables).toBeGreaterThan(0);
  const proven = await list(rowhouse);
  expect(proven.servers[0].restore_verified_at).toBeNull();
  expect(proven.servers[1].restore_verified_at).not.toBeNull();
  // At night, each server has its own turn.
  const { control, servers } = rowhouse.service.deps;
  const { id } = servers.all().find(({ name }) => name === 'second') ?? { id: 0 };
  const longAgo = new Date(Date.now() - 48 * 60 * minutes).toISOString();
  for (const name of ['drilled_at', 'drill_tried_at'] as const)
    await putSetting(control, `${name}:${id}`, longAgo);
  await until(
    'the drill of the night',
    async () => (await serverIn(rowhouse, 'second')).restore_verified_at > longAgo,
    2 * minutes,
  );
  expect(readdirSync(path.join(first.folder, 'restores'))).toEqual([]);

  // One of each server, or of the named one.
  const taken = await job(rowhouse, '/backups', { kind: 'full' });
  expect([taken.status, taken.error]).toEqual(['done', null]);
  expect(taken.result.backups.map(({ server }: { server: string }) => server)).toEqual(['test', 'second']);
  const one = await job(rowhouse, '/backups', { kind: 'incremental', server: 'second' });
  expect(one.result.backups.map(({ server }: { server: string }) => server)).toEqual(['second']);
  expect((await job(rowhouse, '/backups/verify', {})).status).toBe('done');
  const verified = await list(rowhouse);
  for (const server of verified.servers) expect(server.last_verified_at).not.toBeNull();
  expect((await job(rowhouse, '/backups/prune', { server: 'second' })).result.backups).toEqual([]);
  const metrics = String((await rowhouse.call('GET', '/metrics')).body);
  for (const name of ['test', 'second']) {
    expect(metrics).toContain(`rowhouse_server_backed_up{server="${name}"} 1`);
    expect(metrics).toMatch(
      new RegExp(`^rowhouse_server_backup_age_seconds{server="${name}"} [0-9.]+$`, 'm'),
    );
  }
  expect(metrics).toMatch(/^rowhouse_backup_age_seconds [0-9.]+$/m);
});

it('a lost server holds up no other backups, and its projects are restored on another one', {
  timeout: 15 * minutes,
}, async () => {
  const { first, second, rowhouse } = await startFleet();
  await backedUp(rowhouse, 'second');
  const project = await projectOn(rowhouse, 'second');
  const changedAt = [await moment(second)];
  await run(rowhouse, project, 'create table t as select 1 as n');
  const early = await moment(second);
  changedAt.push(early);
  await run(rowhouse, project, 'insert into t values (2)');
  await until('all is stored', async () => (await serverIn(rowhouse, 'second')).lag_bytes === 0, minutes);
  const [slot] = await slotsOf(second);
  expect(slot).toMatch(/^rowhouse_backup_/);

  await lose(rowhouse, second);
  // The first server goes on.
  await first.database.query(sql`create table mark as select 1 as one`);
  await until('its WAL is stored', async () => (await serverIn(rowhouse, 'test')).lag_bytes === 0, minutes);
  const taken = await job(rowhouse, '/backups', { kind: 'incremental' });
  expect(taken.result.backups.map(({ server }: { server: string }) => server)).toEqual(['test']);
  const lost = await serverIn(rowhouse, 'second');
  expect(lost.problem).toContain('does not answer');
  expect(lost.oldest_restorable).not.toBeNull();
  expect((await rowhouse.call('POST', `${api}/backups`, { body: { server: 'second' } })).status).toBe(503);

  const inPlace = await ask(rowhouse, project.slug, { to: early, into: 'in_place' });
  expect([inPlace.status, inPlace.body.error?.code]).toEqual([409, 'conflict']);
  const later = await ask(rowhouse, project.slug, { to: new Date(Date.now() + 60 * minutes).toISOString() });
  expect(later.status).toBe(409);
  expect(later.body.error.details.newest_restorable).toBe(lost.newest_restorable);

  for (const [to, rows] of [
    [early, [{ n: 1 }]],
    [lost.newest_restorable, [{ n: 1 }, { n: 2 }]],
  ] as const) {
    const { ended, copy } = await restore(rowhouse, project.slug, to);
    expect([ended.status, ended.error]).toEqual(['done', null]);
    expect(await serverOf(rowhouse, copy)).toBe('test');
    expect((await run(rowhouse, copy, 'select n from t order by n')).rows).toEqual(rows);
    // The row of this test is the last change, or one of the service's own after it.
    const { restored_to: target, last_change_at: last } = ended.result;
    const since = changedAt[rows.length - 1] ?? '';
    expect([last > since && last <= target, last]).toEqual([true, expect.any(String)]);
  }
  expect(readdirSync(path.join(first.folder, 'restores'))).toEqual([]);

  // What is stored of it is verified. Then it is given up.
  const verified = await job(rowhouse, '/backups/verify', { server: 'second' });
  expect([verified.error, verified.result.backups]).toEqual([null, expect.any(Number)]);
  const removal = `${api}/servers/${(await serverRow(rowhouse, 'second')).id}`;
  const refused = await rowhouse.call('DELETE', removal);
  expect([refused.status, refused.body.error?.hint]).toEqual([409, expect.stringContaining('--lost')]);
  const removed = await rowhouse.call('DELETE', `${removal}?lost=true`);
  expect(removed.status, JSON.stringify(removed.body)).toBe(200);
  expect(removed.body).toMatchObject({
    given_up: { projects: 1, deleted_projects: 0 },
    left_slot: slot,
  });
  expect(await serverRow(rowhouse, 'second')).toBeUndefined();
  expect((await rowhouse.call('GET', `/projects/${project.slug}`)).status).toBe(404);
  const row = await serverRow(rowhouse, 'test');
  expect((await rowhouse.call('DELETE', `${api}/servers/${row.id}?lost=true`)).status).toBe(409);
});

it('a server whose role may not replicate says why, and is backed up as soon as it may', {
  timeout: 15 * minutes,
}, async () => {
  const [first, second] = [await startLab(), await startLab()];
  const folder = newFolder('repository');
  const rowhouse = await startService(first, { location: { kind: 'folder', folder } });
  await second.database.query(
    sql`create role limited login createdb createrole noreplication password 'secret'`,
  );
  await addSecond(rowhouse, { ...second.engine.address, user: 'limited', password: 'secret' });
  expect((await serverIn(rowhouse, 'second')).problem).toContain('may not replicate');
  const refused = await rowhouse.call('POST', `${api}/backups`, { body: { server: 'second' } });
  expect([refused.status, refused.body.error?.code]).toEqual([409, 'conflict']);
  const project = await projectOn(rowhouse, 'second');
  const snapshot = await rowhouse.call('POST', `/projects/${project.slug}/snapshots`, {
    body: { name: 'x' },
  });
  expect([snapshot.status, snapshot.body.error?.code]).toEqual([409, 'conflict']);
  await until('it is reported', async () => {
    const metrics = String((await rowhouse.call('GET', '/metrics')).body);
    return metrics.includes('rowhouse_server_backed_up{server="second"} 0');
  });
  expect(await slotsOf(second)).toEqual([]);

  // Without a restart. The service asks again after half a minute.
  await second.database.query(sql`alter role limited replication`);
  await backedUp(rowhouse, 'second');
  await run(rowhouse, project, 'create table t as select 1 as n');
  const at = await moment(second);
  await run(rowhouse, project, 'drop table t');
  // The role is no superuser: the copy is opened by the one that initdb made.
  const { ended, copy } = await restore(rowhouse, project.slug, at);
  expect([ended.status, ended.error]).toEqual(['done', null]);
  expect((await run(rowhouse, copy, 'select n from t')).rows).toEqual([{ n: 1 }]);
});

it('a server that is removed loses its slot, and what is stored of it is deleted after the retention', {
  timeout: 15 * minutes,
}, async () => {
  const { second, folder, rowhouse } = await startFleet();
  await backedUp(rowhouse, 'second');
  expect(await slotsOf(second)).toHaveLength(1);
  const { body } = await rowhouse.call('GET', `${api}/servers`);
  const { id } = body.servers.find(({ name }: { name: string }) => name === 'second');
  const removed = await rowhouse.call('DELETE', `${api}/servers/${id}`);
  expect(removed.status, JSON.stringify(removed.body)).toBe(200);
  expect(removed.body).toMatchObject({ left_slot: null, given_up: { projects: 0, deleted_projects: 0 } });
  expect(await slotsOf(second)).toEqual([]);
  expect((await list(rowhouse)).servers).toHaveLength(1);
  const stored = () => readdirSync(folder).filter((name) => /^\d+$/.test(name)).length;
  const { backups, control } = rowhouse.service.deps;
  const { signal } = new AbortController();
  expect(await backups?.pruneRemoved(signal)).toEqual([]);
  expect(stored()).toBe(2);

  await control.query(sql`
    update settings set value = replace(value, to_char(now(), 'YYYY'), '2001') where name = 'removed_servers'`);
  expect(await backups?.pruneRemoved(signal)).toHaveLength(1);
  expect(await backups?.pruneRemoved(signal)).toEqual([]);
  expect((await job(rowhouse, '/backups/verify', {})).status).toBe('done');
  const left = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((one) => one.isFile());
  const clusters = new Set(left.map((one) => path.relative(folder, one.parentPath).split(path.sep)[0]));
  expect([...clusters].filter((name) => /^\d+$/.test(name ?? ''))).toHaveLength(1);
});

it('a project on an external first server is restored and drilled, in the data folder of the service', {
  timeout: 15 * minutes,
}, async () => {
  const lab = await startLab();
  const superuser = openDatabase(lab.engine.address, { max: 1 });
  await superuser.query(sql`create role own login superuser password 'secret'`);
  await superuser.end();
  const dataFolder = newFolder('data');
  const address: Address = { ...lab.engine.address, user: 'own', password: 'secret' };
  const rowhouse = await startService(
    { ...lab, engine: { ...lab.engine, address } },
    { restores: { dataFolder, isExternal: true } },
  );
  expect((await list(rowhouse)).is_on_data_disk).toBe(false);
  const project = await rowhouse.project('Shop');
  await run(rowhouse, project, 'create table t as select 1 as n');
  const at = await moment(lab);
  await run(rowhouse, project, 'drop table t');
  const { ended, copy } = await restore(rowhouse, project.slug, at);
  expect([ended.status, ended.error]).toEqual(['done', null]);
  expect((await run(rowhouse, copy, 'select n from t')).rows).toEqual([{ n: 1 }]);
  const drilled = await job(rowhouse, '/backups/drill', { project: copy.slug });
  expect([drilled.status, drilled.error]).toEqual(['done', null]);
  expect(readdirSync(path.join(dataFolder, 'restores'))).toEqual([]);
});

it('a project that was moved is restored to a time before its move, from the server on which it was then', {
  timeout: 15 * minutes,
}, async () => {
  const { second, rowhouse } = await startFleet();
  await backedUp(rowhouse, 'second');
  const project = await projectOn(rowhouse, 'second');
  await run(rowhouse, project, 'create table t as select 1 as n');
  const created = await rowhouse.call('POST', `/projects/${project.slug}/snapshots`, {
    body: { name: 'before' },
  });
  expect(created.status, JSON.stringify(created.body)).toBe(201);
  const early = await moment(second);
  await run(rowhouse, project, 'insert into t values (2)');
  const moved = await job(rowhouse, `/projects/${project.slug}/move`, { server: 'test' });
  expect([moved.status, moved.error]).toEqual(['done', null]);
  await run(rowhouse, project, 'insert into t values (3)');
  const late = await moment(second);
  await until('all is stored', async () => (await serverIn(rowhouse, 'second')).lag_bytes === 0, minutes);

  const after = await restore(rowhouse, project.slug, late);
  expect((await run(rowhouse, after.copy, 'select n from t order by n')).rows).toHaveLength(3);
  const before = await restore(rowhouse, project.slug, early);
  expect([before.ended.status, before.ended.error]).toEqual(['done', null]);
  expect((await run(rowhouse, before.copy, 'select n from t')).rows).toEqual([{ n: 1 }]);
  expect(await serverOf(rowhouse, before.copy)).toBe('test');

  // Also when that server is gone, and in place on the present one.
  await lose(rowhouse, second);
  const inPlace = await ask(rowhouse, project.slug, { snapshot: 'before', into: 'in_place' });
  expect(inPlace.status, JSON.stringify(inPlace.body)).toBe(202);
  const replaced = await end(rowhouse, inPlace.body.job.id);
  expect([replaced.status, replaced.error]).toEqual(['done', null]);
  expect((await run(rowhouse, project, 'select n from t')).rows).toEqual([{ n: 1 }]);
  const listed = await rowhouse.call('GET', `/projects/${project.slug}/snapshots`);
  expect(listed.body.snapshots).toMatchObject([{ name: 'before', is_restorable: true }]);
});

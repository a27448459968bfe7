// A fleet of two servers: the common PostgreSQL, and one that is started here as an ordinary external server.
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Address } from '../../src/postgres/admin/database.ts';
import { sql } from '../../src/postgres/sql.ts';
import { findServer } from '../../src/postgres-proxy/start.ts';
import { databaseOf } from '../../src/servers/databases/names.ts';
import { type Embedded, startEmbedded } from '../../src/servers/embedded/embedded.ts';
import {
  type Answer,
  asAdmin,
  openSecondProcess,
  type TestService,
  until,
  useTestService,
} from '../support/helpers.ts';
import { postmasterPid } from '../support/process.ts';
import { connectPg, loginOf, openProxy } from '../support/proxy-clients.ts';

const rowhouse = useTestService({ spares: 1, connections: { budget: 20, share: 6 } });
const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-second-'));
const masterKey = randomBytes(32);
let second: Embedded;
/** A process that was there before the second server. */
let earlier: TestService;

const startSecond = async () => {
  second = await startEmbedded({
    dataFolder: folder,
    masterKey,
    connections: 40,
    reserveBytes: 0,
    say: () => {},
    onEvent: () => {},
  });
};
const addressOf = (): Address => {
  const { host, port, user, password, database } = second.address;
  return { host, port, user, password, database, tls: false };
};
const urlOf = ({ user, password, host, port, database }: Address) =>
  `postgres://${user}:${encodeURIComponent(password)}@${host}:${port}/${database}`;

type Project = { slug: string; id: string; key: string };
const servers = '/api/dbaas/v2/servers';

async function projectOn(server: string, more: object = {}): Promise<Project> {
  const { status, body } = await rowhouse.call('POST', '/projects', {
    body: { name: `On ${server}`, server, ...more },
  });
  expect(status, JSON.stringify(body)).toBe(201);
  return { slug: body.project.slug, id: body.project.id, key: body.api_key };
}
const query = ({ slug, key }: Project, text: string, more: object = {}) =>
  rowhouse.call('POST', `/projects/${slug}/query`, { key, body: { query: text, ...more } });
const on = async (name: string) =>
  (await rowhouse.call('GET', servers)).body.servers.find((one: { name: string }) => one.name === name);
const jobOf = ({ body }: Answer) =>
  until('the job ends', async () => {
    const answer = await rowhouse.call('GET', `/api/dbaas/v2/jobs/${body.job.id}`);
    return answer.body.job.status !== 'running' && answer.body.job;
  });

beforeAll(async () => {
  earlier = await openSecondProcess(rowhouse);
  await startSecond();
  const { status, body } = await rowhouse.call('POST', servers, {
    body: { name: 'second', address: urlOf(addressOf()), labels: ['ssd'], capacity_mb: 100_000 },
  });
  expect(status, JSON.stringify(body)).toBe(201);
  expect(body.server).toMatchObject({ name: 'second', state: 'ready', labels: ['ssd'], projects: 0 });
  expect(JSON.stringify(body)).not.toContain(second.address.password);
});
afterAll(async () => {
  await earlier.stop();
  await second.stop();
  rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
});

describe('servers', () => {
  it('are listed for account keys only, and their address is never shown', async () => {
    const { status, body } = await rowhouse.call('GET', servers);
    expect(status).toBe(200);
    expect(body.servers.map(({ name }: { name: string }) => name)).toEqual(['test', 'second']);
    expect(JSON.stringify(body)).not.toContain(second.address.password);
    const project = await projectOn('test');
    expect((await rowhouse.call('GET', servers, { key: project.key })).status).toBe(403);
    const [row] = await rowhouse.service.deps.control.query<{ address: Buffer }>(
      sql`select address from servers where name = 'second'`,
    );
    expect(row?.address.includes(second.address.password)).toBe(false);
  });

  it('are refused twice, unreachable, with a wrong password, or with an address that is none', async () => {
    const add = async (name: string, address: string) => {
      const { status, body } = await rowhouse.call('POST', servers, { body: { name, address } });
      expect(JSON.stringify(body)).not.toContain(second.address.password);
      return [status, body.error.code, body.error.message];
    };
    const good = addressOf();
    expect(await add('again', urlOf(good))).toMatchObject([
      409,
      'conflict',
      expect.stringContaining('already'),
    ]);
    expect(await add('second', urlOf(good))).toMatchObject([409, 'conflict', expect.any(String)]);
    expect(await add('away', urlOf({ ...good, port: 1 }))).toMatchObject([
      400,
      'invalid_request',
      expect.stringContaining('reached'),
    ]);
    expect(await add('wrong', urlOf({ ...good, password: 'wrong' }))).toMatchObject([
      400,
      'invalid_request',
      expect.any(String),
    ]);
    expect((await add('none', 'http://example.com'))[0]).toBe(400);
    expect((await add('two-hosts', 'postgres://u:p@a:1,b:2/x'))[0]).toBe(400);
    expect((await rowhouse.call('GET', servers)).body.servers).toHaveLength(2);
  });

  it('get projects by name and label; one that is drained gets none until it is ready again', async () => {
    const create = (more: object) =>
      rowhouse.call('POST', '/projects', { body: { name: 'Placed', ...more } });
    expect((await create({ server: 'third' })).status).toBe(400);
    expect((await create({ labels: ['gpu'] })).status).toBe(400);
    const placed = await create({ labels: ['ssd'] });
    expect(placed.status).toBe(201);
    const exists = (id: string, at?: Address) =>
      asAdmin((admin) => admin.query(sql`select 1 from pg_database where datname = ${databaseOf(id)}`), at);
    expect(await exists(placed.body.project.id, addressOf())).toHaveLength(1);
    expect(await exists(placed.body.project.id)).toHaveLength(0);
    const full = await create({ labels: ['ssd'], limit_mb: 10_000 });
    expect(full.status).toBe(201);
    const { id } = await on('second');
    const limited = await rowhouse.call('PATCH', `${servers}/${id}`, { body: { capacity_mb: 5_000 } });
    expect(limited.body.server).toMatchObject({ capacity_mb: 5_000 });
    const noRoom = await create({ server: 'second', limit_mb: 10_000 });
    expect([noRoom.status, noRoom.body.error.code]).toEqual([507, 'server_full']);
    await rowhouse.call('PATCH', `${servers}/${id}`, { body: { capacity_mb: null } });
    expect((await rowhouse.call('POST', `${servers}/${id}/drain`)).body.server.state).toBe('draining');
    expect((await create({ server: 'second' })).status).toBe(409);
    const elsewhere = await create({});
    expect(await exists(elsewhere.body.project.id)).toHaveLength(1);
    expect(
      (await query({ slug: placed.body.project.slug, id: '', key: placed.body.api_key }, 'select 1 as one'))
        .body.rows,
    ).toEqual([{ one: 1 }]);
    await rowhouse.call('PATCH', `${servers}/${id}`, { body: { state: 'ready' } });
    expect((await create({ server: 'second' })).status).toBe(201);
  });

  it('with projects, and the first one, cannot be removed', async () => {
    await projectOn('second');
    const { id } = await on('second');
    const refused = await rowhouse.call('DELETE', `${servers}/${id}`);
    expect([refused.status, refused.body.error.code]).toEqual([409, 'conflict']);
    expect((await rowhouse.call('DELETE', `${servers}/${(await on('test')).id}`)).status).toBe(409);
    expect((await rowhouse.call('DELETE', `${servers}/999`)).body.error.code).toBe('server_not_found');
    for (const id of ['x', '0', '-1', '1e3', '99999999999999999999', '%00'])
      expect((await rowhouse.call('POST', `${servers}/${id}/drain`)).body.error.code, id).toBe(
        'server_not_found',
      );
  });
});

describe('a project on a further server', () => {
  it('is queried, filled, read by pages, and has users with row security', async () => {
    const project = await projectOn('second');
    const { slug, key } = project;
    expect((await query(project, 'create table notes (id serial primary key, title text)')).status).toBe(200);
    const many = Array.from({ length: 30 }, (_, n) => ({ title: `note ${n}` }));
    const inserted = await Promise.all(
      many.map((body) => rowhouse.call('POST', `/projects/${slug}/tables/notes`, { key, body })),
    );
    expect(inserted.map(({ status }) => status)).toEqual(many.map(() => 201));
    const page = await rowhouse.call('GET', `/projects/${slug}/tables/notes?limit=20&page=2`, { key });
    expect(page.body).toMatchObject({ row_count: 10, has_more: false });
    const signedUp = await rowhouse.call('POST', `/projects/${slug}/auth/signup`, {
      key,
      body: { email: 'a@example.com', password: 'correct horse' },
    });
    expect(signedUp.status, JSON.stringify(signedUp.body)).toBe(201);
    const me = await rowhouse.call('GET', `/projects/${slug}/auth/user`, {
      key,
      headers: { authorization: `Bearer ${signedUp.body.session.access_token}` },
    });
    expect(me.body.user.email).toBe('a@example.com');
    const usage = await rowhouse.call('GET', `/projects/${slug}/usage`, { key });
    expect(usage.status, JSON.stringify(usage.body)).toBe(200);
    const compaction = await rowhouse.call('POST', `/projects/${slug}/compact`, { key });
    expect(compaction.status, JSON.stringify(compaction.body)).toBe(202);
  });

  it('keeps its limit, for requests and for direct connections, and can be deleted and restored', async () => {
    const project = await projectOn('second', { limit_mb: 2 });
    const fill = "create table big as select repeat('x', 1000) as v from generate_series(1, 10000)";
    const refused = await query(project, fill);
    expect([refused.status, refused.body.error.code]).toEqual([507, 'project_full']);
    const { body } = await rowhouse.call('GET', `/projects/${project.slug}/connection`);
    expect(body.connection.port).toBe(second.address.port);
    const client = new pg.Client({ connectionString: body.connection.url });
    client.on('error', () => {});
    await client.connect();
    await client.query('create table direct (v text)');
    const insert = () =>
      client.query("insert into direct select repeat('y', 1000) from generate_series(1, 2000)");
    await until(
      'the direct connection is stopped',
      () =>
        insert().then(
          () => false,
          () => true,
        ),
      60_000,
    );
    await client.end().catch(() => {});
    const deleted = await rowhouse.call('DELETE', `/projects/${project.slug}`);
    expect(deleted.status, rowhouse.log.slice(-5).join('')).toBe(200);
    await until('its key is forgotten', async () => (await query(project, 'select 1')).status === 401);
    expect((await rowhouse.call('POST', `/projects/${project.slug}/restore`)).status).toBe(200);
    await until('it works again', async () => (await query(project, 'select 1')).status === 200);
  });

  it('is exported, imported and branched; a branch is reset and promoted', async () => {
    const project = await projectOn('second');
    await query(project, 'create table t as select 1 as v');
    const dump = await rowhouse.app.inject({
      method: 'GET',
      url: `/api/dbaas/v2/projects/${project.slug}/export`,
      headers: { 'x-api-key': project.key },
    });
    expect(dump.rawPayload.subarray(0, 5).toString()).toBe('PGDMP');
    const imported = await rowhouse.call('POST', '/projects/import?name=Imported&limit_mb=64', {
      raw: dump.rawPayload,
      headers: { 'content-type': 'application/octet-stream' },
    });
    expect(imported.status, JSON.stringify(imported.body)).toBe(202);
    expect(await jobOf(imported)).toMatchObject({ status: 'done' });
    const branched = await rowhouse.call('POST', `/projects/${project.slug}/branches`, {
      body: { name: 'Branch' },
    });
    expect(branched.status, JSON.stringify(branched.body)).toBe(201);
    const branch = {
      slug: branched.body.project.slug,
      id: branched.body.project.id,
      key: branched.body.api_key,
    };
    expect((await query(branch, 'select v from t')).body.rows).toEqual([{ v: 1 }]);
    await query(branch, 'update t set v = 2');
    expect((await rowhouse.call('POST', `/projects/${branch.slug}/reset`)).status).toBe(200);
    expect((await query(branch, 'select v from t')).body.rows).toEqual([{ v: 1 }]);
    await query(branch, 'update t set v = 3');
    expect((await rowhouse.call('POST', `/projects/${branch.slug}/promote`)).status).toBe(200);
    expect((await query(project, 'select v from t')).body.rows).toEqual([{ v: 3 }]);
    const live = await rowhouse.call('POST', `/projects/${project.slug}/branches`, {
      body: { name: 'Live', mode: 'live' },
    });
    expect(await jobOf(live)).toMatchObject({ status: 'done' });
  });

  it('is served by other processes, which hear of a new server by the feed of changes', async () => {
    const project = await projectOn('second');
    const body = { query: 'select 1 as one' };
    const ask = () => earlier.call('POST', `/projects/${project.slug}/query`, { key: project.key, body });
    const { body: answer } = await until('it is reached', async () => {
      const found = await ask();
      return found.status === 200 && found;
    });
    expect(answer.rows).toEqual([{ one: 1 }]);
  });

  it('is reached through the PostgreSQL proxy, as those on the first server are', async () => {
    const { control, servers: fleet } = rowhouse.service.deps;
    const proxy = await openProxy(rowhouse, {
      serverOf: (id) => findServer(control, fleet, id),
      servers: fleet.all,
    });
    for (const [name, port] of [
      ['test', rowhouse.service.deps.server.address.port],
      ['second', second.address.port],
    ] as const) {
      const { slug } = await projectOn(name);
      const client = await connectPg(proxy.port, await loginOf(rowhouse, slug));
      const { rows } = await client.query('select inet_server_port() as port');
      expect(rows).toEqual([{ port }]);
    }
    const unknown = { user: 'p_aaaaaaaaaaaaaaaa', database: 'p_aaaaaaaaaaaaaaaa', password: 'x' };
    await expect(connectPg(proxy.port, unknown)).rejects.toMatchObject({ code: '28P01' });
  });
});

describe('a server that is killed', () => {
  it('does not affect projects on the others, and its own work again when it is back', async () => {
    const here = await projectOn('test');
    const there = await projectOn('second');
    for (const project of [here, there])
      expect((await query(project, 'create table t (id serial primary key, v int)')).status).toBe(200);
    const answers: { ms: number; status: number }[] = [];
    let isOver = false;
    const work = async () => {
      for (let n = 0; !isOver; n++) {
        const startedAt = performance.now();
        const { status } = n % 2 ? await query(here, 'select count(*) from t') : await insert(here, n);
        answers.push({ ms: performance.now() - startedAt, status });
      }
    };
    const insert = ({ slug, key }: Project, v: number) =>
      rowhouse.call('POST', `/projects/${slug}/tables/t`, { key, body: { v } });
    const working = [work(), work()];
    const flood = async () => {
      while (!isOver) await query(there, 'select count(*) from t');
    };
    expect((await insert(there, 1)).status).toBe(201);
    process.kill(postmasterPid(folder) as number, 'SIGKILL');
    await second.stop();
    // Before that is noticed.
    const named = await rowhouse.call('POST', '/projects', { body: { name: 'Named', server: 'second' } });
    expect([named.status, named.body.error.code]).toEqual([503, 'unavailable']);
    const flooding = [flood(), flood(), flood(), flood()];
    await until('it is noticed', async () => (await on('second')).state === 'unavailable');
    const away = await query(there, 'select 1');
    expect([away.status, away.body.error.code]).toEqual([503, 'unavailable']);
    expect(away.headers['retry-after']).toBeTruthy();
    expect((await rowhouse.call('GET', '/readyz')).status).toBe(200);
    // New projects go to the server that answers, although the other one has a spare.
    for (let n = 0; n < 3; n++) {
      const created = await rowhouse.call('POST', '/projects', { body: { name: 'Meanwhile' } });
      expect(created.status).toBe(201);
      const ready = { slug: created.body.project.slug, id: '', key: created.body.api_key };
      expect((await query(ready, 'select 1')).status).toBe(200);
    }
    // A process that starts now serves the first server.
    const late = await openSecondProcess(rowhouse);
    const ask = (project: Project) =>
      late.call('POST', `/projects/${project.slug}/query`, {
        key: project.key,
        body: { query: 'select 1 as one' },
      });
    expect((await ask(here)).status).toBe(200);
    const refused = await ask(there);
    expect([refused.status, refused.body.error.code]).toEqual([503, 'unavailable']);
    const metrics = await rowhouse.call('GET', '/metrics');
    expect(metrics.body).toContain('rowhouse_server_up{server="second"} 0');
    expect(metrics.body).toContain('rowhouse_server_up{server="test"} 1');

    await startSecond();
    await until('it works again', async () => (await query(there, 'select 1')).status === 200, 60_000);
    await until('the late process has reached it', async () => (await ask(there)).status === 200, 60_000);
    isOver = true;
    await Promise.all([...working, ...flooding]);
    await late.stop();
    expect((await query(there, 'select v from t')).body.rows).toEqual([{ v: 1 }]);
    expect(answers.length).toBeGreaterThan(20);
    expect(answers.filter(({ status }) => status >= 400)).toEqual([]);
    // Without the outage a request takes milliseconds; a wait for the other server would take seconds.
    expect(Math.max(...answers.map(({ ms }) => ms))).toBeLessThan(2_000);
  });

  it('does not affect the others while it hangs either', async () => {
    // It was killed before. Queries find it at once; new projects follow when the next check has found it.
    await until('it takes projects again', async () => (await on('second')).state === 'ready');
    const here = await projectOn('test');
    const there = await projectOn('second');
    await query(there, 'create table t as select 1 as v');
    const pids = await asAdmin(async (admin) => {
      const rows = await admin.query<{ pid: number }>(
        sql`select pid from pg_stat_activity where pid <> pg_backend_pid()`,
      );
      return [postmasterPid(folder) as number, ...rows.map(({ pid }) => pid)];
    }, addressOf());
    const signal = (name: NodeJS.Signals) => {
      for (const pid of pids) {
        try {
          process.kill(pid, name);
        } catch {
          // It has ended meanwhile.
        }
      }
    };
    signal('SIGSTOP');
    try {
      const hanging = Array.from({ length: 30 }, () =>
        query(there, 'select v from t', { timeout_ms: 3_000 }),
      );
      const times: number[] = [];
      await until('it is noticed', async () => {
        const startedAt = performance.now();
        expect((await query(here, 'select 1')).status).toBe(200);
        times.push(performance.now() - startedAt);
        return (await on('second')).state === 'unavailable';
      });
      const created = await rowhouse.call('POST', '/projects', { body: { name: 'Meanwhile' } });
      expect(created.status).toBe(201);
      for (const { status } of await Promise.all(hanging)) expect([503, 504]).toContain(status);
      expect(Math.max(...times)).toBeLessThan(2_000);
    } finally {
      signal('SIGCONT');
    }
    await until('it works again', async () => (await query(there, 'select v from t')).status === 200, 60_000);
  });
});

describe('a server without projects', () => {
  it('is removed with its spares', async () => {
    const { control } = rowhouse.service.deps;
    const { id } = await on('second');
    // Deleted projects are kept for days: here they are dropped at once.
    await control.query(
      sql`update projects set deleted_at = now() - interval '30 days' where server_id = ${id}`,
    );
    await until(
      'they are dropped',
      async () => {
        const [row] = await control.query<{ count: number }>(
          sql`select count(*)::int as count from projects where server_id = ${id}`,
        );
        return row?.count === 0;
      },
      90_000,
    );
    const removed = await rowhouse.call('DELETE', `${servers}/${id}`);
    expect(removed.status, JSON.stringify(removed.body)).toBe(200);
    expect((await rowhouse.call('GET', servers)).body.servers).toHaveLength(1);
    const left = await asAdmin(
      (admin) => admin.query(sql`select datname from pg_database where datname like 'p\\_%'`),
      addressOf(),
    );
    expect(left).toEqual([]);
  });
});

// Who waits for room in the lanes is judged again when there is room, waits no longer than it would for a connection, and
// leaves the project's other statements theirs.
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import {
  type Answer,
  asAdmin,
  newControlName,
  openTestService,
  removeTestService,
  type TestService,
  until,
  useTestService,
} from '../support/helpers.ts';

type Project = { slug: string; key: string };
const asker =
  (rowhouse: TestService, { slug, key }: Project) =>
  (query: string, params: unknown[] = [], more: object = {}): Promise<Answer> =>
    rowhouse.call('POST', `/projects/${slug}/query`, { key, body: { query, params, ...more } });
type Ask = ReturnType<typeof asker>;

const middling = 'select $1::int as n, pg_sleep($2)';
const quick = 'select $1::int as quick';
const repeat = <T>(count: number, make: () => T) => Array.from({ length: count }, make);
async function makeShort(ask: Ask, query: string, params: unknown[]): Promise<void> {
  for (let n = 0; n < 12; n++) await Promise.all(repeat(4, () => ask(query, params)));
}

describe('a read that waits for room in a pipeline', () => {
  const rowhouse = useTestService({ spares: 3, connections: { budget: 20, share: 10 } });

  it('leaves nothing behind when its table was replaced meanwhile', async () => {
    const ask = asker(rowhouse, await rowhouse.project('Judged again'));
    const query = 'select id from thing';
    await ask('create table thing (id int)');
    await ask(`create function sets() returns int language plpgsql as
      $$ begin perform set_config('app.secret', 'leaked', false); return 1; end $$`);
    for (let n = 0; n < 3; n++) {
      await makeShort(ask, middling, [1, 0]);
      await makeShort(ask, query, []);
    }
    const many = repeat(300, () => ask(middling, [1, 0.02]));
    await sleep(5);
    const waiting = repeat(60, () => ask(query));
    expect((await ask('drop table thing')).status).toBe(200);
    expect((await ask('create view thing as select sets() as id')).status).toBe(200);
    for (const { status, body } of await Promise.all(waiting)) {
      // Between the two there was none.
      if (status === 200) expect([[], [{ id: 1 }]]).toContainEqual(body.rows);
      else expect(body.error.sql.state).toBe('42P01');
    }
    await Promise.all(many);
    for (const { body } of await Promise.all(
      repeat(40, () => ask("select coalesce(current_setting('app.secret', true), '') as secret")),
    ))
      expect(body.rows).toEqual([{ secret: '' }]);
  });

  it('is not delayed by many that turn out to be slow', async () => {
    const ask = asker(rowhouse, await rowhouse.project('Not kept'));
    await makeShort(ask, middling, [1, 0]);
    await makeShort(ask, quick, [1]);
    const many = repeat(1_000, () => ask(middling, [1, 0.03]));
    await sleep(20);
    const began = performance.now();
    for (const { body } of await Promise.all(repeat(5, () => ask(quick, [7]))))
      expect(body.rows).toEqual([{ quick: 7 }]);
    // One behind the other, all of them would take fifteen seconds.
    expect(performance.now() - began).toBeLessThan(9_000);
    for (const { status } of await Promise.all(many)) expect(status).toBe(200);
  });
});

describe.each([
  ['a share of two', { budget: 20, share: 2 }],
  ['a budget of two', { budget: 2, share: 10 }],
  ['a share of three', { budget: 20, share: 3 }],
])('a project whose pipelines are full of %s', (_what, connections) => {
  const rowhouse = useTestService({ spares: 2, connections });

  it('still runs statements that are not short reads', async () => {
    const project = await rowhouse.project('Small');
    const ask = asker(rowhouse, project);
    await ask('create table t (id int)');
    await makeShort(ask, quick, [1]);
    const { sessions } = rowhouse.service.deps.query;
    const { id } = await rowhouse.service.deps.logins.of(
      await rowhouse.service.deps.keyRing.verify(project.key),
      project.slug,
    );
    // The one lane has to be opened, and while that takes its time a connection becomes idle.
    const login = { id, serverId: rowhouse.service.deps.server.id, passwordVersion: 1, accountId: null };
    for (let idle = sessions.takeIdle(login, 'read'); idle; idle = sessions.takeIdle(login, 'read'))
      sessions.release(login, idle, 'broken');
    const held = await sessions.acquire(login, 'read');
    let isOver = false;
    const reading = async () => {
      while (!isOver) expect((await ask(quick, [1])).status).toBe(200);
    };
    const readers = [reading()];
    await sleep(1);
    sessions.release(login, held, 'plain');
    readers.push(...repeat(400, reading));
    await sleep(300);
    const write = await ask('insert into t values ($1)', [1]);
    isOver = true;
    await Promise.all(readers);
    expect(write.status, JSON.stringify(write.body)).toBe(200);
  });
});

describe('a request that waits for a session', () => {
  const rowhouse = useTestService({ spares: 3, connections: { budget: 2, share: 2 } });

  it('does not restore an old password', async () => {
    const victim = await rowhouse.project('Victim');
    const neighbour = asker(rowhouse, await rowhouse.project('Neighbour'));
    const { slug, key } = victim;
    const first = (await rowhouse.call('GET', `/projects/${slug}/connection`, { key })).body.connection;
    const scoped = await rowhouse.call('POST', `/projects/${slug}/keys`, {
      body: { name: 'reader', scopes: ['query'] },
    });
    const ask = asker(rowhouse, { slug, key: scoped.body.api_key });
    await ask('select 1');
    const slow = repeat(2, () => neighbour('select pg_sleep(3)'));
    await sleep(300);
    const waiting = ask('select 1 as one');
    await sleep(50);
    const rotated = await rowhouse.call('POST', `/projects/${slug}/keys/rotate`, {
      body: { grace_seconds: 0 },
    });
    expect(rotated.status).toBe(200);
    const login = (password: string) =>
      asAdmin((database) => database.query(sql`select 1 as one`), { ...first, tls: false, password });
    await expect(login(first.password)).rejects.toThrow();
    await Promise.all(slow);
    expect((await waiting).body.rows).toEqual([{ one: 1 }]);
    await expect(login(first.password)).rejects.toThrow();
    const next = await rowhouse.call('GET', `/projects/${slug}/connection`, { key: rotated.body.api_key });
    expect(await login(next.body.connection.password)).toEqual([{ one: 1 }]);
  });
});

describe("the cache of an account's projects", () => {
  it('forgets a project that another process deletes', async () => {
    const controlDatabase = newControlName();
    const masterKey = randomBytes(32);
    const here = await openTestService({ controlDatabase, masterKey, spares: 1 });
    const there = await openTestService({ controlDatabase, masterKey, spares: 1 });
    try {
      const { slug } = await here.project('Known');
      const { logins, keyRing } = here.service.deps;
      const caller = await keyRing.verify(here.accountKey);
      const ask = () => asker(here, { slug, key: here.accountKey })('select 1 as one');
      await until('it is known', async () => (await ask()).status === 200 && !!logins.recall(caller, slug));
      const key = here.accountKey;
      expect((await there.call('DELETE', `/projects/${slug}`, { key })).status).toBe(200);
      await until('it is forgotten', async () => logins.recall(caller, slug) === null, 1_000);
      expect((await ask()).status).toBe(404);
      expect((await there.call('POST', `/projects/${slug}/restore`, { key })).status).toBe(200);
      await until('it is there again', async () => (await ask()).status === 200, 2_000);
    } finally {
      const { installation } = here.service.deps.server;
      await there.stop();
      await here.stop();
      await removeTestService(controlDatabase, installation);
    }
  });
});

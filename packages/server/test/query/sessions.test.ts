import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type AddressInfo, connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { type Answer, address, api, asAdmin, until, useTestService } from '../support/helpers.ts';

/** One of the share is for callers that use none. */
const rowhouse = useTestService({ spares: 4, connections: { budget: 8, share: 4 } });
type Project = { slug: string; id: string; key: string };
const projects: Project[] = [];
let port = 0;
beforeAll(async () => {
  for (let n = 0; n < 24; n++) projects.push(await rowhouse.project(`P${n}`));
  await rowhouse.app.listen({ host: '127.0.0.1', port: 0 });
  port = (rowhouse.app.server.address() as AddressInfo).port;
});

const run = (project: Project, query: string, more: object = {}) =>
  rowhouse.call('POST', `/projects/${project.slug}/query`, { key: project.key, body: { query, ...more } });
const at = (n: number) => projects[n] as Project;
const counts = () => rowhouse.service.deps.query.sessions.counts();

describe('connections', () => {
  it('one that is lost while the catalog is read gives 503, not 500', async () => {
    const project = at(0);
    await run(project, 'create table seen (id int primary key)');
    const read = () => rowhouse.call('GET', `/projects/${project.slug}/tables/seen`, { key: project.key });
    await asAdmin(
      async (inside) => {
        await inside.transaction(async (holding) => {
          await holding.query(sql`lock table pg_class in access exclusive mode`);
          const reading = read();
          const [waiting] = await until('it waits', async () => {
            const found = await holding.query<{ pid: number }>(sql`
              select pid from pg_locks
              where not granted and relation = 'pg_class'::regclass
                and database = (select oid from pg_database where datname = current_database())`);
            return found.length > 0 && found;
          });
          await holding.query(sql`select pg_terminate_backend(${waiting?.pid ?? 0})`);
          expect((await reading).body.error?.code).toBe('unavailable');
        });
      },
      { ...address(), database: `p_${project.id}` },
    );
    expect((await read()).status).toBe(200);
  });

  it.skipIf(process.platform !== 'linux')(
    'after a read, a process of PostgreSQL is not woken within a second',
    async () => {
      const project = at(1);
      await run(project, 'create table slept (id int primary key)');
      const { query, server } = rowhouse.service.deps;
      const wakeUps = () => {
        const [pid, ...others] = query.sessions.pidsOf(project.id, server.id);
        expect(others).toEqual([]);
        return Number(
          /^voluntary_ctxt_switches:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1],
        );
      };
      const afterRead = async () => {
        for (let n = 0; n < 3; n++) await run(project, 'select id from slept');
        await sleep(100);
        const before = wakeUps();
        await sleep(1_500);
        return wakeUps() - before;
      };
      // With a timer of a second, it is woken every time. Now and then, it reports statistics, or another test drops a database.
      let found = await afterRead();
      for (let turn = 1; turn < 8 && found > 0; turn++) found = await afterRead();
      expect(found).toBe(0);
    },
  );

  it('three times as many projects as connections take turns, and all get answers', async () => {
    const turns = Array.from({ length: 4 }, () => projects).flat();
    const answers = await Promise.all(
      turns.map((project) => run(project, 'select current_database()::text as name')),
    );
    answers.forEach(({ status, body }, index) => {
      expect([status, body.rows?.[0]?.name]).toEqual([200, `p_${turns[index]?.id}`]);
    });
    expect(counts().open).toBeLessThanOrEqual(8);
    expect(counts().waiting).toBe(0);
  });

  it('one project with many slow statements has its share, and a neighbour does not wait', async () => {
    const slow = Array.from({ length: 12 }, () => run(at(0), 'select pg_sleep(0.4)'));
    const started = performance.now();
    expect((await run(at(1), 'select 1 as one')).body.rows).toEqual([{ one: 1 }]);
    expect(performance.now() - started).toBeLessThan(4_000);
    for (const { status } of await Promise.all(slow)) expect(status).toBe(200);
  });

  it('a request that waits too long for one gets 429 with Retry-After', { tags: 'long' }, async () => {
    const hogs = Array.from({ length: 3 }, () => run(at(2), 'select pg_sleep(7)', { timeout_ms: 20_000 }));
    await until('they run', async () => counts().open - counts().idle >= 3);
    const late = await run(at(2), 'select 1');
    expect([late.status, late.body.error.code]).toEqual([429, 'overloaded']);
    expect(Number(late.headers['retry-after'])).toBeGreaterThan(0);
    for (const { status } of await Promise.all(hogs)) expect(status).toBe(200);
    expect((await run(at(2), 'select 1 as one')).status).toBe(200);
  });

  it('work again after a role changed its own password', async () => {
    await run(at(3), "alter role current_user password 'mine'");
    const { sessions } = rowhouse.service.deps.query;
    const login = {
      id: at(3).id,
      serverId: rowhouse.service.deps.server.id,
      passwordVersion: 1,
      accountId: null,
    };
    sessions.release(login, await sessions.acquire(login, 'any'), 'broken');
    expect((await run(at(3), 'select 1 as one')).body.rows).toEqual([{ one: 1 }]);
  });

  it('ignore what a role sets for its own transactions', async () => {
    const project = at(10);
    await run(project, "alter role current_user set default_transaction_isolation = 'serializable'");
    await run(project, 'alter role current_user set default_transaction_deferrable = on');
    await run(project, 'alter role current_user set default_transaction_read_only = on');
    await asAdmin((admin) =>
      admin.query(
        sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = ${`p_${project.id}`}`,
      ),
    );
    const show = `select current_setting('transaction_isolation') as isolation,
      current_setting('transaction_read_only') as read_only, current_setting('transaction_deferrable') as deferrable`;
    const shown = await until('a new session', async () => {
      const { status, body } = await run(project, show);
      return status === 200 && body.rows;
    });
    expect(shown).toEqual([{ isolation: 'read committed', read_only: 'off', deferrable: 'off' }]);
    expect((await run(project, 'create table writable (id int)')).status).toBe(200);
    expect((await run(project, 'select 1', { read_only: true })).status).toBe(200);
  });

  it('follow a table that changes, although statements are prepared', async () => {
    const project = at(4);
    await run(project, 'create table shape (a int)');
    await run(project, 'insert into shape values (1)');
    for (let times = 0; times < 3; times++)
      expect((await run(project, 'select * from shape')).body.columns).toEqual(['a']);
    await run(project, 'alter table shape add column b text default $$x$$');
    expect((await run(project, 'select * from shape')).body.rows).toEqual([{ a: 1, b: 'x' }]);
    await run(project, 'drop table shape');
    expect((await run(project, 'select * from shape')).status).toBe(400);
    await run(project, "do $$ begin execute 'deallocate all'; end $$");
    expect((await run(project, 'select 1 as one')).body.rows).toEqual([{ one: 1 }]);
  });

  it('follow a table that changes in a transaction or a batch too', async () => {
    await run(at(9), 'create table framed (a int)');
    const query = 'select * from framed where a = any ($1)';
    const read = () => run(at(9), query, { params: [[1]], read_only: true });
    const batch = () =>
      rowhouse.call('POST', `/projects/${at(9).slug}/batch`, {
        key: at(9).key,
        body: { statements: [{ query: 'insert into framed (a) values (1)' }, { query, params: [[1]] }] },
      });
    for (let n = 0; n < 3; n++) {
      for (const { status } of await Promise.all([read(), read(), batch(), batch()]))
        expect(status).toBe(200);
      await run(at(9), `alter table framed add column c${n} int default ${n}`);
      for (const { body } of await Promise.all([read(), read(), read()]))
        expect(body.rows[0]).toMatchObject({ a: 1, [`c${n}`]: n });
      for (const { body } of await Promise.all([batch(), batch(), batch()]))
        expect(body.results[1].rows[0]).toMatchObject({ a: 1, [`c${n}`]: n });
    }
  });

  it('a session that is terminated from outside costs at most one answer', async () => {
    await run(at(5), 'select 1');
    await asAdmin(async (admin) => {
      const ended = await admin.query<{ ended: boolean }>(sql`
        select pg_terminate_backend(pid, 5000) as ended from pg_stat_activity
        where datname = ${`p_${at(5).id}`} and backend_type = 'client backend'`);
      expect(ended).toEqual([{ ended: true }]);
    });
    const answers: Answer[] = [];
    for (let n = 0; n < 5; n++) answers.push(await run(at(5), 'select 1 as one'));
    const failed = answers.filter(({ status }) => status !== 200);
    expect(failed.length).toBeLessThanOrEqual(1);
    for (const { body } of failed) expect(body.error.code).toBe('unavailable');
  });
});

/** A request over a bare socket, whose reading the test controls. */
function send(project: Project, ...queries: string[]) {
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => {});
  queries.forEach((query, index) => {
    const body = JSON.stringify({ query, timeout_ms: 60_000 });
    const isLast = index === queries.length - 1;
    socket.write(
      `POST ${api}/projects/${project.slug}/query HTTP/1.1\r\nHost: x\r\nX-API-Key: ${project.key}\r\n` +
        `Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n` +
        `Connection: ${isLast ? 'close' : 'keep-alive'}\r\n\r\n${body}`,
    );
  });
  return socket;
}

const running = (id: string) =>
  asAdmin(async (admin) => {
    const rows = await admin.query(sql`
      select 1 from pg_stat_activity where datname = ${`p_${id}`} and state = 'active'`);
    return rows.length;
  });

describe('a caller', () => {
  it('who hangs up ends the statement', async () => {
    const socket = send(at(6), 'select pg_sleep(50)');
    await until('it runs', async () => (await running(at(6).id)) === 1);
    socket.destroy();
    await until('it is cancelled', async () => (await running(at(6).id)) === 0, 10_000);
    expect((await run(at(6), 'select 1 as one')).status).toBe(200);
  });

  it('who hangs up ends what it sent behind it, too', async () => {
    const many = 'select repeat($$x$$, 1000) from generate_series(1, 100000)';
    const socket = send(at(8), 'select pg_sleep(51)', 'select pg_sleep(52)', many);
    await until('all have begun', async () => counts().open - counts().idle === 3);
    socket.destroy();
    await until('all are given up', async () => counts().open === counts().idle, 10_000);
    await until('nothing runs', async () => (await running(at(8).id)) === 0, 10_000);
  });

  it('who hangs up while it waits leaves nothing behind', async () => {
    const hogs = Array.from({ length: 3 }, () => run(at(7), 'select pg_sleep(1)'));
    await until('they run', async () => (await running(at(7).id)) === 3);
    const socket = send(at(7), 'select * from generate_series(1, 300000), repeat($$x$$, 100)');
    await new Promise((resolve) => setTimeout(resolve, 200));
    socket.destroy();
    await Promise.all(hogs);
    await until('nothing runs', async () => (await running(at(7).id)) === 0, 10_000);
    expect((await run(at(7), 'select 1 as one')).status).toBe(200);
  });

  it('who reads slowly costs no memory, and gets every row', { tags: 'long' }, async () => {
    const socket = send(at(8), "select n, repeat('x', 200) as filler from generate_series(1, 400000) as n");
    socket.pause();
    await until('PostgreSQL has begun', async () => (await running(at(8).id)) === 1);
    await new Promise((resolve) => setTimeout(resolve, 500));
    globalThis.gc?.();
    const before = process.memoryUsage();
    await new Promise((resolve) => setTimeout(resolve, 2_000));
    const after = process.memoryUsage();
    expect(after.external + after.arrayBuffers - before.external - before.arrayBuffers).toBeLessThan(
      64 * 1024 * 1024,
    );
    let bytes = 0;
    let tail = '';
    socket.on('data', (data) => {
      bytes += data.length;
      tail = (tail + data.toString('latin1')).slice(-300);
    });
    socket.resume();
    await once(socket, 'close');
    expect(bytes).toBeGreaterThan(80_000_000);
    expect(tail).toContain('"row_count":400000');
  });

  it('can tell half an answer from a whole one', async () => {
    const socket = send(
      at(9),
      "select n, repeat('x', 1000) as v, 1 / (5000 - n) as boom from generate_series(1, 10000) as n",
    );
    let answer = '';
    socket.on('data', (data) => {
      answer += data.toString('latin1');
    });
    await once(socket, 'close');
    expect(answer).toMatch(/^HTTP\/1.1 200/);
    expect(answer).not.toMatch(/\r\n0\r\n\r\n$/);
    expect(answer).not.toContain('"row_count"');
  });
});

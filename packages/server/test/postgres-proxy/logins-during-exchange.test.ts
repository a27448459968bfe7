// A login to a project whose database is being exchanged for another one (a promotion, a reset): it is let in, or hears a state
// that a client takes for momentary. Never "database does not exist", nor a refused right.
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { expect, it } from 'vitest';
import { openDatabase } from '../../src/postgres/admin/database.ts';
import { sql } from '../../src/postgres/sql.ts';
import { databaseOf } from '../../src/servers/databases/names.ts';
import { swapDatabases } from '../../src/servers/databases/swap-databases.ts';
import { useTestService } from '../support/helpers.ts';
import { connectPg, loginOf, openProxy } from '../support/proxy-clients.ts';

const rowhouse = useTestService({ spares: 3 });
const momentary = ['57P01', '57P03'];

/** Logs in again and again, and counts what it hears. */
function knock(config: pg.ClientConfig) {
  const heard = new Map<string, number>();
  let isOver = false;
  const one = async () => {
    while (!isOver) {
      const client = new pg.Client(config);
      let state = 'in';
      client.on('error', () => {});
      await client.connect().catch((error: { code?: string; message: string }) => {
        state = error.code ?? error.message;
      });
      heard.set(state, (heard.get(state) ?? 0) + 1);
      await client.end().catch(() => {});
    }
  };
  const all = Promise.all([one(), one(), one()]);
  return async () => {
    isOver = true;
    await all;
    return heard;
  };
}

it('waits, or hears that it is for a moment, while databases are exchanged', {
  timeout: 120_000,
}, async () => {
  const [one, other] = [await rowhouse.project('One'), await rowhouse.project('Other')];
  const proxy = await openProxy(rowhouse);
  const login = await loginOf(rowhouse, one.slug);
  const stop = knock({ host: '127.0.0.1', port: proxy.port, ...login });
  const { server } = rowhouse.service.deps;
  const projects = [one, other].map(({ id }) => ({ id, passwordVersion: 1 })) as [never, never];
  let exchanges = 0;
  const until = performance.now() + 6_000;
  while (performance.now() < until) {
    await server.maintenance.query(sql`
      select pg_terminate_backend(pid) from pg_stat_activity
      where datname = any (${[one, other].map(({ id }) => databaseOf(id))}::name[])`);
    // 55006: a login was quicker.
    await swapDatabases(server, ...projects).then(
      () => exchanges++,
      (error: { sqlstate?: string }) => expect(error.sqlstate).toBe('55006'),
    );
  }
  const heard = await stop();
  expect(exchanges).toBeGreaterThan(3);
  expect([...heard.keys()].filter((state) => state !== 'in' && !momentary.includes(state))).toEqual([]);
  expect(heard.get('in')).toBeGreaterThan(0);
});

/** Each login waits in PostgreSQL while the exchange is held open: the worst moment, every time. */
it.each(['through the proxy', 'without it'])(
  'that waits for the end of an exchange is told to come again, %s',
  async (way) => {
    const [one, other] = [await rowhouse.project('Held'), await rowhouse.project('Held too')];
    const proxy = await openProxy(rowhouse);
    const { server } = rowhouse.service.deps;
    const { body } = await rowhouse.call('GET', `/projects/${one.slug}/connection`);
    const { host, port, user, password, database } = body.connection;
    const at = way === 'without it' ? { host, port } : { host: '127.0.0.1', port: proxy.port };
    const projects = [one, other].map(({ id }) => ({ id, passwordVersion: 1 })) as [never, never];
    const holder = openDatabase(server.address, { max: 1 });
    const others = openDatabase(server.address, { max: 2 });
    try {
      const { exchange, logins, statements } = await holder.transaction(async (transaction) => {
        // The exchange waits for this lock, and has one database renamed by then.
        await transaction.query(sql`comment on database ${sql.id(databaseOf(other.id))} is 'held'`);
        const exchanging = swapDatabases(server, ...projects);
        exchanging.catch(() => {});
        await sleep(200);
        const begun = Array.from({ length: 3 }, () => {
          const client = new pg.Client({ ...at, user, password, database });
          client.on('error', () => {});
          return client.connect().then(
            () => client.end().then(() => 'in'),
            (error) => error.code,
          );
        });
        const name = sql.id(databaseOf(one.id));
        const waiting = [
          sql`alter database ${name} set statement_timeout = '1h'`,
          sql`comment on database ${name} is 'waited'`,
        ].map((statement) => others.query(statement));
        for (const statement of waiting) statement.catch(() => {});
        await sleep(400);
        return { exchange: exchanging, logins: begun, statements: waiting };
      });
      await exchange;
      const expected = way === 'without it' ? '57P01' : expect.stringMatching(/57P0[13]/);
      expect(await Promise.all(logins)).toEqual([expected, expected, expected]);
      // What else waits for the end of an exchange is no login, and goes on.
      for (const statement of statements) await statement;
    } finally {
      await holder.end();
      await others.end();
    }
  },
);

it('to a project that does not exist hears what it always heard', async () => {
  const project = await rowhouse.project('Deleted');
  const proxy = await openProxy(rowhouse);
  const login = await loginOf(rowhouse, project.slug);
  const client = await connectPg(proxy.port, login);
  await client.end();
  await rowhouse.call('DELETE', `/projects/${project.slug}`);
  const late = new pg.Client({ host: '127.0.0.1', port: proxy.port, ...login });
  late.on('error', () => {});
  const state = await late.connect().catch((error) => error.code);
  expect(state).not.toBe('57P03');
});

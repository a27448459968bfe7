// A server that goes away while a project is moved: the slot, which makes the source keep its log, goes as soon as the source
// answers, whatever the target does, and the copy goes as soon as the target answers.
import pg from 'pg';
import { expect, it, onTestFinished } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { databaseOf } from '../../src/servers/databases/names.ts';
import { asAdmin, until } from '../support/helpers.ts';
import { noReplication, type Project, replicationAt, useTwoServers } from '../support/two-servers.ts';

const {
  rowhouse,
  other,
  relay,
  secondAddress,
  create,
  query,
  move,
  ended,
  databasesAt,
  movesLeft,
  holdBefore,
  killSecond,
} = useTwoServers({ isRelayed: true });

const stateOf = async ({ id }: Project) => {
  const [row] = await rowhouse.service.deps.control.query<{ state: string; copy: string }>(
    sql`select state, copy_id as copy from moves where project_id = ${id}`,
  );
  return row;
};
const mend = async () => {
  relay().mend();
  await until('the service reaches the server', async () =>
    rowhouse.service.deps.servers.members().every(({ isAnswering }) => isAnswering),
  );
};
const copiesAt = async (copy: string, at?: Parameters<typeof asAdmin>[1]) =>
  asAdmin(
    (admin) => admin.query(sql`select datname from pg_database where datname = ${databaseOf(copy)}`),
    at,
  );
const make = async () => {
  // A test that failed must not leave the server away to the others.
  onTestFinished(mend);
  const project = await create();
  await query(project, 'create table notes (id int)');
  await query(project, 'insert into notes select generate_series(1, 1000)');
  return project;
};
const expectUntouched = async (project: Project, rows: number) => {
  expect(
    await query(
      project,
      `select (select count(*)::int from notes) as notes, (select count(*)::int from pg_publication) as publications,
              (select relreplident::text from pg_class where relname = 'notes') as identity`,
      other(),
    ),
  ).toEqual([{ notes: rows, publications: 0, identity: 'd' }]);
  expect(await replicationAt(project.id)).toEqual(noReplication);
  expect(await replicationAt(project.id, secondAddress())).toEqual(noReplication);
};

it('the target: the slot goes at once, and the copy when the target is back', async () => {
  const project = await make();
  const hold = holdBefore('catch up');
  const id = await move(project, 'second', { mode: 'online' });
  await hold.reached;
  expect((await replicationAt(project.id)).slots).toHaveLength(1);
  const copy = (await stateOf(project))?.copy ?? '';
  expect(await copiesAt(copy, secondAddress())).toHaveLength(1);
  relay().cut();
  hold.resume();
  expect((await ended(id)).status).toBe('failed');
  await until('the slot is gone', async () => (await replicationAt(project.id)).slots.length === 0);
  await query(project, 'insert into notes values (0)', other());
  expect((await stateOf(project))?.state).toBe('reopened');
  expect((await replicationAt(project.id, secondAddress())).subscriptions).toHaveLength(1);
  await mend();
  await until('nothing is left', async () => (await movesLeft(project.id)) === 0, 60_000);
  expect(await copiesAt(copy, secondAddress())).toEqual([]);
  await expectUntouched(project, 1001);
});

it('the source: the slot goes when the source is back', async () => {
  const project = await make();
  expect((await ended(await move(project, 'second'))).error).toBe(null);
  const hold = holdBefore('catch up');
  const id = await move(project, 'test', { mode: 'online' });
  await hold.reached;
  const copy = (await stateOf(project))?.copy ?? '';
  relay().cut();
  hold.resume();
  expect((await ended(id)).status).toBe('failed');
  expect((await stateOf(project))?.state).toBe('undoing');
  expect((await replicationAt(project.id, secondAddress())).slots).toHaveLength(1);
  await mend();
  await until('nothing is left', async () => (await movesLeft(project.id)) === 0, 60_000);
  expect(await copiesAt(copy)).toEqual([]);
  expect(await databasesAt(project.id)).toEqual([]);
  await expectUntouched(project, 1000);
});

it.each(['online', 'dump'])(
  'the target hangs during the pause: requests wait for no longer than max_pause_ms: %s',
  async (mode) => {
    const project = await make();
    const hold = holdBefore('close');
    const id = await move(project, 'second', { mode, max_pause_ms: 2_000 });
    await hold.reached;
    const waiting = query(project, 'insert into notes values (0)');
    relay().hang();
    const since = performance.now();
    hold.resume();
    await waiting;
    // PostgreSQL and the sessions to it give up after 25 s and more.
    expect(performance.now() - since).toBeLessThan(15_000);
    await until('the slot is gone', async () => (await replicationAt(project.id)).slots.length === 0);
    await mend();
    expect((await ended(id)).error).toMatchObject({
      code: 'conflict',
      message: expect.stringContaining('2000'),
    });
    await until('nothing is left', async () => (await movesLeft(project.id)) === 0, 60_000);
    await expectUntouched(project, 1001);
  },
);

it('the source, for a moment while the target catches up: the replication goes on', async () => {
  const project = await make();
  expect((await ended(await move(project, 'second'))).error).toBe(null);
  const hold = holdBefore('catch up');
  const id = await move(project, 'test', { mode: 'online' });
  await hold.reached;
  relay().cut();
  const isFollowing = () =>
    asAdmin((admin) =>
      admin.query(
        sql`select from pg_subscription where subname = ${`rowhouse_move_${project.id}`} and subenabled`,
      ),
    );
  await until('PostgreSQL has given up the subscription', async () => (await isFollowing()).length === 0);
  await mend();
  await until('the service reaches the project', async () => {
    const body = { query: 'select 1' };
    const answer = await rowhouse.call('POST', `/projects/${project.slug}/query`, { key: project.key, body });
    return answer.status === 200;
  });
  await query(project, 'insert into notes select generate_series(1, 20000)');
  hold.resume();
  const job = await ended(id);
  expect(job.error).toBe(null);
  expect(job.result).toMatchObject({ mode: 'online' });
  await until('nothing is left', async () => (await movesLeft(project.id)) === 0);
  await expectUntouched(project, 21_000);
});

it.each(['and answers again', 'and does not answer yet'])(
  'the target, if it restarts between catching up and the pause %s: one copy counts, and nothing is lost',
  async (how) => {
    const project = await make();
    const { moves } = rowhouse.service.deps;
    const { inTurn } = moves;
    onTestFinished(() => void Object.assign(moves, { inTurn }));
    let turns = 0;
    const watched: typeof inTurn = async (server, account, act) => {
      if (turns++ > 0) return inTurn(server, account, act);
      expect((await replicationAt(project.id)).slots).toHaveLength(1);
      await killSecond();
      const answers = () => asAdmin((admin) => admin.query(sql`select 1`), secondAddress());
      if (how === 'and answers again')
        await until('it answers', () =>
          answers().then(
            () => true,
            () => false,
          ),
        );
      return inTurn(server, account, act);
    };
    Object.assign(moves, { inTurn: watched });
    let isOver = false;
    const acknowledged: number[] = [];
    const writing = (async () => {
      for (let n = 10_000; !isOver; n++) {
        const body = { query: `insert into notes values (${n})` };
        const answer = await other().call('POST', `/projects/${project.slug}/query`, {
          key: project.key,
          body,
        });
        if (answer.status === 200) acknowledged.push(n);
      }
    })();
    const job = await ended(await move(project, 'second', { mode: 'online' }));
    await until('nothing is left', async () => (await movesLeft(project.id)) === 0, 60_000);
    await until('some are written afterwards', async () => acknowledged.length > 0);
    isOver = true;
    await writing;
    expect(turns).toBeGreaterThan(0);
    const there = await databasesAt(project.id, secondAddress());
    const here = await databasesAt(project.id);
    const expected = job.status === 'done' ? [[], [databaseOf(project.id)]] : [[databaseOf(project.id)], []];
    expect([here, there]).toEqual(expected);
    if (job.status !== 'done') expect(job.error.code).toMatch(/^(unavailable|conflict)$/);
    const rows = await query(project, 'select id from notes where id >= 10000', other());
    const stored = new Set(rows.map(({ id }: { id: number }) => id));
    expect(acknowledged.filter((id) => !stored.has(id))).toEqual([]);
    await expectUntouched(project, 1000 + stored.size);
  },
  120_000,
);

it('the target, if it falls behind before the pause, leaves the turn to others and takes another one', async () => {
  const project = await make();
  const { moves } = rowhouse.service.deps;
  const { inTurn } = moves;
  onTestFinished(() => void Object.assign(moves, { inTurn }));
  const lockCopy = async () => {
    const client = new pg.Client({
      ...secondAddress(),
      database: databaseOf((await stateOf(project))?.copy ?? ''),
    });
    client.on('error', () => {});
    await client.connect();
    await client.query('begin');
    await client.query('lock table notes in access exclusive mode');
    return client;
  };
  const turns: string[] = [];
  const watched: typeof inTurn = async (server, account, act) => {
    const client = turns.length === 0 ? await lockCopy() : null;
    // Until now it has kept up.
    if (client) await query(project, 'insert into notes select generate_series(1, 20000)');
    try {
      const done = await inTurn(server, account, act);
      turns.push('done');
      return done;
    } catch (error) {
      turns.push(error instanceof Error ? error.message : '');
      throw error;
    } finally {
      await client?.end();
    }
  };
  Object.assign(moves, { inTurn: watched });
  const job = await ended(await move(project, 'second', { mode: 'online' }));
  expect(job.error).toBe(null);
  expect(turns).toEqual([expect.stringContaining('did not keep up'), 'done']);
  expect(await query(project, 'select count(*)::int as n from notes')).toEqual([{ n: 21_000 }]);
}, 120_000);

// Short updates and deletes by key of a project share transactions. Nobody notices but by how fast they are: each gets its own
// answer, and no lock of a group is in the way of another transaction for long.
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { isPlain } from '../../src/query/sessions/statement-profiles.ts';
import { Group } from '../../src/query/sharing/group.ts';
import { canGroup } from '../../src/query/sharing/group-commit.ts';
import { databaseOf } from '../../src/servers/databases/names.ts';
import { fillUp, newSmallProject } from '../quotas/small-projects.ts';
import { type LoginAs, newUser, seatOf, type TestProject, type User } from '../support/end-users.ts';
import { address, asAdmin, until, useTestService } from '../support/helpers.ts';

const rowhouse = useTestService({ spares: 2, connections: { budget: 20, share: 10 } });
let project: TestProject;
let seat: LoginAs;
let user: User;

beforeAll(async () => {
  project = await rowhouse.project('Changes');
  seat = await seatOf(rowhouse, project);
  user = await newUser(rowhouse, project, 'ann@example.com');
});

const run = (query: string, params: unknown[] = [], more: object = {}) =>
  rowhouse.call('POST', `/projects/${project.slug}/query`, {
    key: project.key,
    body: { query, params, ...more },
  });
const fine = async (query: string, params: unknown[] = []) => {
  const answer = await run(query, params);
  expect(answer.status, JSON.stringify(answer.body)).toBe(200);
  return answer.body.rows;
};
const patch = (path: string, body: object) =>
  rowhouse.call('PATCH', `/projects/${project.slug}/tables/${path}`, { key: project.key, body });
const range = (count: number) => Array.from({ length: count }, (_, n) => n);
const inside = <T>(use: Parameters<typeof asAdmin<T>>[0]) =>
  asAdmin(use, { ...address(), database: databaseOf(project.id) });
/** Run until it is known to be short and plain. */
const makeShort = (query: string, params: unknown[]) =>
  until('it is', async () => {
    await run(query, params);
    const { profiles, parser } = rowhouse.service.deps.query;
    const profile = profiles.of({ id: project.id }, await parser.parse(project, query));
    return isPlain(profile) && canGroup(profile);
  });
const makeTable = async (name: string, rows: number) => {
  await fine(`create table ${name} (id int primary key, n int not null default 0 check (n < 1000))`);
  await fine(`insert into ${name} select generate_series(0, $1 - 1)`, [rows]);
};
const deadlocks = () =>
  inside(async (admin) => {
    const [row] = await admin.query<{ n: number }>(sql`
      select deadlocks::int as n from pg_stat_database where datname = current_database()`);
    return row?.n;
  });

describe('updates and deletes that share a transaction', () => {
  it('each get their own answer, by SQL and by the table endpoint', async () => {
    await makeTable('many', 120);
    const update = 'update many set n = $1 where id = $2 returning id, n';
    await makeShort(update, [1, 0]);
    // On a machine that is busy with something else nothing is short.
    for (const change of [
      (id: number) => run(update, [id + 7, id]),
      (id: number) => patch(`many?id=eq.${id}`, { n: id + 7 }),
      (id: number) => patch(`many?n=gte.0&id=eq.${id}`, { n: id + 7 }),
    ]) {
      // At the first run, each needs a session of its own.
      for (let n = 0; n < 5; n++) await change(n);
      await until('they share', async () => {
        const answers = await Promise.all(range(120).map(change));
        answers.forEach(({ status, body }, id) => {
          expect([status, body.rows]).toEqual([200, [{ id, n: id + 7 }]]);
        });
        expect(await fine('select count(*)::int as n from many where n = id + 7')).toEqual([{ n: 120 }]);
        const [{ n }] = await fine('select count(distinct xmin::text)::int as n from many');
        return n < 60;
      });
    }
    const remove = 'delete from many where id = $1';
    await makeShort(remove, [-1]);
    const answers = await Promise.all(range(140).map((id) => run(remove, [id])));
    expect(answers.map(({ body }) => body.affected)).toEqual(range(140).map((id) => (id < 120 ? 1 : 0)));
  });

  it('follow one another where they change the same row', async () => {
    await makeTable('same', 2);
    const add = 'update same set n = n + 1 where id = $1 returning n';
    await makeShort(add, [0]);
    const answers = await Promise.all(range(100).map(() => run(add, [1])));
    const seen = answers.map(({ body }) => body.rows[0].n as number).sort((one, other) => one - other);
    expect(seen).toEqual(range(100).map((n) => n + 1));
    const swap = 'update same set n = $1 where id = $2 and n = $3 returning n';
    await makeShort(swap, [100, 1, 100]);
    const swapped = await Promise.all(range(60).map((n) => run(swap, [200 + n, 1, 100])));
    expect(swapped.filter(({ body }) => body.row_count === 1)).toHaveLength(1);
  });

  it('pass no deferred constraint because of another one', async () => {
    await fine('create table places (id int primary key, pos int unique deferrable initially deferred)');
    await fine('insert into places select n, n from generate_series(1, 40) n');
    const move = 'update places set pos = $1 where id = $2';
    await makeShort(move, [1, 1]);
    for (let round = 0; round < 10; round++) {
      // Together, each pair would be right at the commit.
      const answers = await Promise.all(range(40).map((n) => run(move, [1 + (n ^ 1), n + 1])));
      for (const { status } of answers) expect(status).toBe(409);
    }
  });

  it('survive any value for the key', async () => {
    await makeTable('odd', 3);
    const update = 'update odd set n = $1 where id = $2';
    await makeShort(update, [1, 0]);
    for (const key of [
      { toString: 1 },
      { valueOf: null, toString: null },
      {},
      null,
      true,
      '2',
      12345678901234567890n,
    ]) {
      const raw = JSON.stringify({ query: update, params: [2, 'KEY'] }).replace(
        '"KEY"',
        typeof key === 'bigint' ? String(key) : JSON.stringify(key),
      );
      const [odd, other] = await Promise.all([
        rowhouse.call('POST', `/projects/${project.slug}/query`, { key: project.key, raw }),
        run(update, [3, 1]),
      ]);
      expect(odd.status).toBeLessThan(500);
      expect(other.status).toBe(200);
    }
  });

  it('fail alone when one of them is wrong, with the reason', async () => {
    await makeTable('checked', 100);
    const update = 'update checked set n = $1 where id = $2';
    await makeShort(update, [1, 0]);
    const answers = await Promise.all(range(100).map((id) => run(update, [id % 10 ? id : 1000, id])));
    answers.forEach(({ status, body }, id) => {
      expect(status).toBe(id % 10 ? 200 : 422);
      if (status !== 200) expect(body.error.code).toBe('constraint_violation');
    });
    expect(await fine('select count(*)::int as n from checked where n = id')).toEqual([{ n: 90 }]);
  });

  it('do not wait for one that waits for a lock on its row, and hold up nobody', async () => {
    await makeTable('locked', 100);
    const update = 'update locked set n = n + 1 where id = $1';
    await makeShort(update, [0]);
    await fine('update locked set n = 0');
    const before = await deadlocks();
    const { blocked } = await inside((admin) =>
      admin.transaction(async (inner) => {
        await inner.query(sql`update locked set n = n where id = 50`);
        let isBlocked = true;
        const waiting = run(update, [50], { timeout_ms: 30_000 }).finally(() => {
          isBlocked = false;
        });
        const others = Promise.all(
          range(100)
            .filter((id) => id !== 50)
            .map((id) => run(update, [id])),
        );
        // In the opposite order, while a group can hold these rows and wait for row 50.
        for (const id of [99, 20, 70]) await inner.query(sql`update locked set n = n where id = ${id}`);
        expect(isBlocked).toBe(true);
        return { blocked: { waiting, others } };
      }),
    );
    expect((await blocked.waiting).status).toBe(200);
    for (const { status } of await blocked.others) expect(status).toBe(200);
    expect(await fine('select count(*)::int as n from locked where n = 1')).toEqual([{ n: 100 }]);
    expect(await deadlocks()).toBe(before);
  });

  it('lock rows in one order, so that groups of users and of the project never wait for each other', async () => {
    await makeTable('crossed', 40);
    for (const statement of [
      'alter table crossed enable row level security',
      'create policy everybody on crossed to authenticated using ((select auth.uid()) is not null)',
    ])
      await seat.query(statement);
    const before = await deadlocks();
    const asOwner = (id: number) => patch(`crossed?id=eq.${id}`, { n: 1 });
    const asUser = (id: number) => seat.rows(user, 'PATCH', `crossed?id=eq.${id}`, { body: { n: 2 } });
    const add = vi.spyOn(Group.prototype, 'add');
    for (let round = 0; round < 12; round++) {
      const ids = range(40).sort(() => Math.random() - 0.5);
      const answers = await Promise.all([...ids.map(asOwner), ...ids.reverse().map(asUser)]);
      for (const { status, body } of answers) expect([status, body.row_count]).toEqual([200, 1]);
    }
    const locked = new Map<unknown, string[]>();
    add.mock.calls.forEach(([, { request }], n) => {
      const group = add.mock.contexts[n];
      locked.set(group, [...(locked.get(group) ?? []), String(request.input.params[0])]);
    });
    add.mockRestore();
    const longest = Math.max(...[...locked.values()].map(({ length }) => length));
    expect(longest).toBeGreaterThan(5);
    for (const ids of locked.values()) expect(ids).toEqual(ids.toSorted());
    expect(await deadlocks()).toBe(before);
  });

  it('obey the policies of each user', async () => {
    const other = await newUser(rowhouse, project, 'ben@example.com');
    for (const statement of [
      'create table own (id int primary key, owner uuid, n int)',
      'alter table own enable row level security',
      'create policy own on own to authenticated using (owner = (select auth.uid()))',
      `insert into own select n, case n % 2 when 0 then '${user.id}'::uuid else '${other.id}' end, 0 from generate_series(0, 59) n`,
    ])
      await seat.query(statement);
    for (let round = 1; round <= 3; round++) {
      const change = (who: User, id: number) =>
        seat.rows(who, 'PATCH', `own?id=eq.${id}`, { body: { n: round } });
      const answers = await Promise.all(range(120).map((n) => change(n < 60 ? user : other, n % 60)));
      answers.forEach(({ body }, n) => {
        const isOwn = n < 60 === ((n % 60) % 2 === 0);
        expect(body.rows?.length ?? 0, JSON.stringify(body)).toBe(isOwn ? 1 : 0);
      });
      expect((await seat.query(`select count(*)::int as n from own where n = ${round}`)).body.rows).toEqual([
        { n: 60 },
      ]);
    }
  });

  it('keep a project within its limit', async () => {
    const small = await newSmallProject(rowhouse, 12);
    await small.fine('create table blobs (id int primary key, data text)');
    await small.fine('alter table blobs alter data set storage external');
    await small.fine("insert into blobs select n, '' from generate_series(0, 999) n");
    const update = 'update blobs set data = $1 where id = $2';
    const text = 'x'.repeat(20_000);
    let next = 0;
    const { peak, done } = await fillUp(small, () => small.run(update, [text, next++ % 1000]));
    expect(peak).toBeLessThanOrEqual(12);
    expect(done).toBeGreaterThan(300);
  });
});

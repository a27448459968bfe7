// Statements of end users share sessions, pipelines and transactions. Whatever the policies of a project do, and whoever signs out
// meanwhile, each statement acts as its own user, and nobody notices another.
import { beforeAll, describe, expect, it } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { silent } from '../../src/postgres/wire/receiver.ts';
import { databaseOf } from '../../src/servers/databases/names.ts';
import {
  inside,
  type LoginAs,
  newUser,
  seatOf,
  type TestProject,
  tokenFor,
  type User,
} from '../support/end-users.ts';
import { asAdmin, until, useTestService } from '../support/helpers.ts';

const rowhouse = useTestService({ spares: 2, connections: { budget: 20, share: 8 } });
let project: TestProject;
let seat: LoginAs;
let users: User[];

const notes = `create table notes (
  id bigint generated always as identity primary key,
  owner uuid not null default auth.uid() references auth.users on delete cascade,
  title text not null)`;

beforeAll(async () => {
  project = await rowhouse.project('Shared');
  seat = await seatOf(rowhouse, project);
  users = await Promise.all([1, 2, 3, 4].map((n) => newUser(rowhouse, project, `user${n}@example.com`)));
  await setUp(
    notes,
    'alter table notes enable row level security',
    'create policy own on notes using (owner = (select auth.uid())) with check (owner = (select auth.uid()))',
    'create table teams (id int primary key)',
    'create table members (team int references teams, who uuid)',
    'alter table members enable row level security',
    'create policy own on members for select using (who = (select auth.uid()))',
    'create table docs (id int primary key, team int, body text)',
    'alter table docs enable row level security',
    'create policy of_team on docs using (team in (select team from members where who = (select auth.uid())))',
    'create view seen with (security_invoker) as select id, body, (select auth.uid()) as uid from docs',
    'insert into teams select generate_series(1, 4)',
    'insert into docs select n, 1 + n % 4, $$doc $$ || n from generate_series(1, 40) n',
    ...users.map(({ id }, n) => `insert into members values (${n + 1}, '${id}')`),
  );
});

async function setUp(...statements: string[]): Promise<void> {
  for (const statement of statements) await seat.query(statement);
}

const nth = (n: number) => users[n % users.length] as User;

/** `count` requests of the users in turns, all at once. */
const byAll = <T>(count: number, ask: (user: User, n: number) => Promise<T>) =>
  Promise.all(Array.from({ length: count }, (_, n) => ask(nth(n), n)));

async function traces(): Promise<string[]> {
  const { body } = await rowhouse.call('GET', '/metrics');
  return String(body)
    .split('\n')
    .filter((line) => line.startsWith('rowhouse_session_traces_total{') && !line.endsWith(' 0'));
}

const commits = () =>
  asAdmin(async (admin) => {
    const [row] = await admin.query<{ commits: number }>(sql`
      select xact_commit::int as commits from pg_stat_database where datname = ${databaseOf(project.id)}`);
    return row?.commits ?? 0;
  });

/** Asked until it is known that they run no code, and are short. */
const warm = async (ask: () => Promise<unknown>) => {
  for (let n = 0; n < 4; n++) await ask();
  await new Promise((resolve) => setTimeout(resolve, 1_100));
  for (let n = 0; n < 4; n++) await ask();
};

describe('users who ask at once', () => {
  it('each read their own rows, through policies with memberships and through views', async () => {
    for (const table of ['docs?select=id,team', 'seen?select=id,uid', 'docs?select=id,team&id=lt.20']) {
      const answers = await byAll(48, (user) => seat.rows(user, 'GET', table));
      for (const [n, { status, body }] of answers.entries()) {
        expect(status, JSON.stringify(body)).toBe(200);
        expect(body.rows.length).toBeGreaterThan(3);
        for (const row of body.rows) {
          if (row.uid) expect(row.uid).toBe(nth(n).id);
          expect(row.id % 4).toBe(n % 4);
        }
      }
    }
  });

  it('share transactions for their inserts, and each row is its own', async () => {
    const insert = (user: User, n: number) =>
      seat.rows(user, 'POST', 'notes', { body: { title: `${user.email} ${n}` } });
    await warm(() => byAll(8, insert));
    // On a machine that is busy elsewhere, inserts take too long to share a transaction.
    let fewest = Number.POSITIVE_INFINITY;
    for (let round = 0; round < 6 && fewest >= 120; round++) {
      const before = await commits();
      const answers = await byAll(200, insert);
      for (const [n, { status, body }] of answers.entries()) {
        expect([status, body.row?.owner]).toEqual([201, nth(n).id]);
        expect(body.row.title).toBe(`${nth(n).email} ${n}`);
      }
      // PostgreSQL counts with a delay, and everything else that the project does counts, too.
      await new Promise((resolve) => setTimeout(resolve, 1_500));
      fewest = Math.min(fewest, (await commits()) - before);
    }
    expect(fewest).toBeLessThan(120);
    for (const user of users) {
      const { body } = await seat.rows(user, 'GET', 'notes?limit=5000');
      expect(body.rows.every((row: { owner: string }) => row.owner === user.id)).toBe(true);
    }
  });

  it('keep sharing transactions although one of them sends nothing but inserts that fail', async () => {
    const insert = (user: User, n: number) =>
      seat.rows(user, 'POST', 'notes', { body: { title: `kept ${n}` } });
    const hostile = users[3] as User;
    const others = (n: number) => users[n % 3] as User;
    await warm(() => Promise.all(Array.from({ length: 8 }, (_, n) => insert(others(n), n))));
    let isOver = false;
    const failing = Promise.all(
      Array.from({ length: 3 }, async () => {
        while (!isOver) {
          const { status } = await seat.rows(hostile, 'POST', 'notes', {
            body: { title: 'stolen', owner: nth(0).id },
          });
          expect(status).toBe(403);
        }
      }),
    );
    let most = 0;
    for (let round = 0; round < 8 && most < 0.5; round++) {
      const answers = await Promise.all(Array.from({ length: 200 }, (_, n) => insert(others(n), n)));
      expect(answers.every(({ status }) => status === 201)).toBe(true);
      const { body } = await seat.query(
        `select count(distinct xmin::text)::int as transactions, count(*)::int as n
         from (select xmin from notes order by id desc limit 200) as last`,
      );
      most = Math.max(most, 1 - body.rows[0].transactions / body.rows[0].n);
    }
    isOver = true;
    await failing;
    expect(most).toBeGreaterThan(0.5);
  });

  it('are refused alone: a member of a group that breaks a policy undoes nothing of the others', async () => {
    const answers = await byAll(80, (user, n) =>
      seat.rows(user, 'POST', 'notes', {
        body: { title: `mixed ${n}`, ...(n % 10 === 3 && { owner: nth(n + 1).id }) },
      }),
    );
    for (const [n, { status }] of answers.entries()) expect(status).toBe(n % 10 === 3 ? 403 : 201);
    const stored = await seat.query("select count(*)::int as n from notes where title like 'mixed %'");
    expect(stored.body.rows).toEqual([{ n: 72 }]);
  });

  it('are not taken for each other when a token differs by one byte', async () => {
    const user = nth(0);
    await seat.rows(user, 'GET', 'notes');
    const at = user.token.lastIndexOf('.');
    for (const index of [at - 3, at - 20, at + 5, user.token.length - 2]) {
      const other = user.token[index] === 'A' ? 'B' : 'A';
      const token = user.token.slice(0, index) + other + user.token.slice(index + 1);
      const [good, bad] = await Promise.all([
        seat.rows(user, 'GET', 'notes?limit=1'),
        seat.rows({ token }, 'GET', 'notes?limit=1'),
      ]);
      expect([good.status, bad.status]).toEqual([200, 401]);
    }
    const stranger = await tokenFor(rowhouse, project, { ...user, id: nth(1).id });
    expect((await seat.rows({ token: stranger }, 'GET', 'notes')).status).toBe(401);
  });

  it('leave no trace in the sessions that they share', async () => {
    expect(await traces()).toEqual([]);
  });
});

describe('a user who signs out', () => {
  it('is refused from the next statement on, between those of others in the same pipeline', async () => {
    const gone = await newUser(rowhouse, project, 'gone@example.com');
    const ask = (user: User) => seat.rows(user, 'GET', 'docs?select=id');
    await warm(() => byAll(8, ask));
    expect((await ask(gone)).status).toBe(200);
    let isOver = false;
    let signedOut = false;
    const late: number[] = [];
    const others: number[] = [];
    const asking = Promise.all([
      ...Array.from({ length: 6 }, async (_, n) => {
        while (!isOver) others.push((await ask(nth(n))).status);
      }),
      ...Array.from({ length: 4 }, async () => {
        while (!isOver) {
          const hadLeft = signedOut;
          const { status } = await ask(gone);
          if (hadLeft) late.push(status);
          else expect([200, 401]).toContain(status);
        }
      }),
    ]);
    await new Promise((resolve) => setTimeout(resolve, 300));
    await inside(project, sql`delete from auth.sessions where id = ${gone.sessionId}`);
    signedOut = true;
    await until('the signed-out user has asked again', async () => late.length > 20).finally(() => {
      isOver = true;
    });
    await asking;
    expect(new Set(late)).toEqual(new Set([401]));
    expect(new Set(others)).toEqual(new Set([200]));
  });

  it('and goes on inserting, holds up no insert of the others', async () => {
    const gone = await newUser(rowhouse, project, 'banned@example.com');
    await inside(project, sql`update auth.users set banned_at = now() where id = ${gone.id}`);
    const insert = (user: User, n: number) =>
      seat.rows(user, 'POST', 'notes', { body: { title: `late ${n}` } });
    const [mine, theirs] = await Promise.all([
      byAll(60, insert),
      Promise.all(Array.from({ length: 60 }, (_, n) => insert(gone, n))),
    ]);
    expect(new Set(mine.map(({ status }) => status))).toEqual(new Set([201]));
    expect(new Set(theirs.map(({ status }) => status))).toEqual(new Set([401]));
    expect(
      (await seat.query(`select count(*)::int as n from notes where owner = '${gone.id}'`)).body.rows,
    ).toEqual([{ n: 0 }]);
    // Who is let in again is let in.
    await inside(project, sql`update auth.users set banned_at = null where id = ${gone.id}`);
    expect((await insert(gone, 1)).status).toBe(201);
  });

  it('has the role and the address that the user has now, not those in the token', async () => {
    const user = await newUser(rowhouse, project, 'old@example.com');
    await setUp(
      'create view who with (security_invoker) as select auth.uid() as uid, auth.role() as role, auth.email() as email',
    );
    expect((await seat.rows(user, 'GET', 'who')).body.rows).toMatchObject([{ email: 'old@example.com' }]);
    await inside(
      project,
      sql`update auth.users set email = 'new@example.com', role = 'editor' where id = ${user.id}`,
    );
    for (let n = 0; n < 3; n++)
      expect((await seat.rows(user, 'GET', 'who')).body.rows).toEqual([
        { uid: user.id, role: 'editor', email: 'new@example.com' },
      ]);
  });
});

describe('a policy that changes while users read', () => {
  it('is obeyed by the next statement, whoever changed it', async () => {
    await setUp(
      'create table switched (id int primary key)',
      'insert into switched select generate_series(1, 5)',
      'alter table switched enable row level security',
      'create policy switch on switched using (true)',
    );
    const read = async (n: number) => (await seat.rows(nth(n), 'GET', 'switched')).body.row_count as number;
    await warm(() => Promise.all([read(0), read(1)]));
    let isOver = false;
    const reading = Promise.all(
      Array.from({ length: 6 }, async (_, n) => {
        while (!isOver) expect([0, 5]).toContain(await read(n));
      }),
    );
    try {
      for (let round = 0; round < 10; round++) {
        const isOpen = round % 2 === 1;
        const text = `alter policy switch on switched using (${isOpen})`;
        if (round % 4 < 2) await seat.query(text);
        else await inside(project, sql.script(text));
        expect(await Promise.all([read(round), read(round + 1)])).toEqual(isOpen ? [5, 5] : [0, 0]);
      }
    } finally {
      isOver = true;
    }
    await reading;
  });

  it('runs no code of the project in a shared session, even if what is behind the policy begins to', async () => {
    await setUp(
      'create table outer_rows (id int primary key)',
      'create table inner_rows (id int primary key)',
      'insert into outer_rows values (1)',
      'insert into inner_rows values (1)',
      'grant select on inner_rows to authenticated',
      'alter table outer_rows enable row level security',
      'create policy by_inner on outer_rows using (exists (select from inner_rows i where i.id = outer_rows.id))',
    );
    const read = () => seat.rows(nth(0), 'GET', 'outer_rows');
    await warm(read);
    const known = rowhouse.service.deps.tables.cache.of({
      id: project.id,
      serverId: rowhouse.service.deps.server.id,
      passwordVersion: 1,
      accountId: null,
      loginAs: 'user',
    });
    expect(known.byName.get('outer_rows')?.isPlainToRead).toBe(true);
    // By a direct connection, of which no process is told.
    await inside(
      project,
      sql.script(`
        set role ${databaseOf(project.id)};
        create function leave() returns boolean language plpgsql as
          $$ begin perform set_config('app.left', 'yes', false); return true; end $$;
        alter table inner_rows enable row level security;
        create policy leaves on inner_rows using (leave());`),
    );
    expect((await read()).body.rows).toEqual([{ id: 1 }]);
    expect(known.byName.get('outer_rows')?.isPlainToRead).toBe(false);
    await setUp(
      "create view left_behind with (security_invoker) as select current_setting('app.left', true) as found",
    );
    const found = await byAll(20, (user) => seat.rows(user, 'GET', 'left_behind'));
    for (const { body } of found) expect(body.rows[0].found || null).toBeNull();
    expect(await traces()).toEqual([]);
  });
});

describe('a policy that misbehaves', () => {
  it.each([
    ['raises', "raise exception 'no' using errcode = 'RH002';"],
    [
      'sets the claims',
      `perform set_config('request.jwt.claims', '{"sub":"00000000-0000-4000-8000-000000000000"}', false);`,
    ],
    ['sets the role', "perform set_config('role', 'none', false);"],
    ['deallocates', "execute 'deallocate all';"],
    ['replaces what tells who acts', "execute 'deallocate act_as'; execute 'prepare act_as as select 1';"],
    ['sleeps', 'perform pg_sleep(0.4);'],
  ])('and %s concerns only the user who asked', async (name, body) => {
    const table = `bad_${name.split(' ')[0]}_${name.length}`;
    await setUp(
      `create table ${table} (id int primary key)`,
      `insert into ${table} values (1)`,
      `create function ${table}() returns boolean language plpgsql as $$ begin ${body} return true; end $$`,
      `alter table ${table} enable row level security`,
      `create policy bad on ${table} using (${table}())`,
    );
    const answers = await byAll(60, async (user, n) =>
      n % 6 === 0 ? seat.rows(user, 'GET', table) : seat.rows(user, 'GET', 'seen?select=id,uid'),
    );
    for (const [n, { status, body: found }] of answers.entries()) {
      if (n % 6 === 0) continue;
      expect(status, JSON.stringify(found)).toBe(200);
      for (const row of found.rows) expect(row.uid).toBe(nth(n).id);
    }
    const insert = await seat.rows(nth(2), 'POST', 'notes', { body: { title: name } });
    expect([insert.status, insert.body.row?.owner]).toEqual([201, nth(2).id]);
    expect(await traces()).toEqual([]);
  });
});

describe('a trace in a session that users share', () => {
  it.each([
    ['role', 'set role none'],
    ['claims', `select set_config('request.jwt.claims', '{"sub":"x"}', false)`],
  ])('of the %s is found by the check, and counted', async (_name, spoil) => {
    const other = await rowhouse.project('Spoiled');
    const there = await seatOf(rowhouse, other);
    const user = await newUser(rowhouse, other);
    await there.query('create table t (id int)');
    await there.rows(user, 'GET', 't');
    const { server, query } = rowhouse.service.deps;
    const login = {
      id: other.id,
      serverId: server.id,
      passwordVersion: 1,
      accountId: null,
      loginAs: 'user' as const,
    };
    const sum = async () =>
      (await traces()).reduce((total, line) => total + Number(line.split(' ').at(-1)), 0);
    const before = await sum();
    const isCounted = async () => {
      const session = await query.sessions.acquire(login, 'read');
      session.out.parse('', spoil).bind('', []).execute(0).sync();
      await new Promise<void>((resolve, reject) =>
        session.send({
          ...silent,
          error: reject,
          ready: () => resolve(),
          lost: reject,
        }),
      );
      query.sessions.release(login, session, 'plain');
      return (await sum()) > before;
    };
    await until('it is counted', isCounted, 60_000);
  });
});

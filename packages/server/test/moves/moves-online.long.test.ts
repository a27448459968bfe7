// Moves by logical replication: what they carry, what they do about changes of tables meanwhile, and hostile projects.
import type pg from 'pg';
import { describe, expect, it } from 'vitest';
import type { Address, Database } from '../../src/postgres/admin/database.ts';
import { sql } from '../../src/postgres/sql.ts';
import { findServer, whyEnded } from '../../src/postgres-proxy/start.ts';
import { databaseOf, roleOf } from '../../src/servers/databases/names.ts';
import { address, asAdmin, type TestService, until } from '../support/helpers.ts';
import { connectPg, loginOf, openProxy } from '../support/proxy-clients.ts';
import { jobs, noReplication, type Project, replicationAt, useTwoServers } from '../support/two-servers.ts';

const {
  rowhouse,
  other,
  secondAddress,
  create,
  query,
  move,
  ended,
  cancel,
  databasesAt,
  movesLeft,
  holdBefore,
} = useTwoServers();

const inside = <T>(database: string, at: Address, act: (admin: Database) => Promise<T>) =>
  asAdmin(act, { ...at, database });

/** Nothing of the replication is left, on either server. */
async function expectNothingLeft({ id }: Project): Promise<void> {
  await until('the move is over', async () => (await movesLeft(id)) === 0);
  expect(await replicationAt(id)).toEqual(noReplication);
  expect(await replicationAt(id, secondAddress())).toEqual(noReplication);
}

describe('an online move', () => {
  it('carries tables of every kind, and what is not replicated', async () => {
    const project = await create();
    await query(project, 'create table keyed (id int primary key, v text)');
    await query(project, "insert into keyed select n, 'v' from generate_series(1, 5000) as n");
    await query(project, 'create table keyless (a int, b text[], c timestamptz)');
    await query(project, 'create table silent (a int)');
    await query(project, 'alter table silent replica identity nothing');
    await query(project, 'create table days (d int, v text, primary key (d)) partition by range (d)');
    await query(project, 'create table days_1 partition of days for values from (0) to (100)');
    await query(
      project,
      'create table doubled (id int primary key, twice int generated always as (id * 2) stored)',
    );
    await query(project, 'create unlogged table hot (id int primary key, v text)');
    // A dump creates the columns of a child in another order.
    await query(project, 'create unlogged table grown (a text)');
    await query(project, 'create unlogged table child (own text) inherits (grown)');
    await query(project, 'alter table grown add b text');
    await query(project, "insert into child (a, own, b) values ('a', 'own', 'b')");
    await query(project, "insert into hot select n, 'hot' from generate_series(1, 100) as n");
    await query(project, 'create materialized view total as select count(*) as n from keyed');
    await query(project, 'create materialized view total2 as select n * 2 as n from total');
    await query(project, 'create sequence tickets start 5');
    await query(project, "select nextval('tickets')");
    await query(project, "select lo_from_bytea(815, 'large')");
    await query(project, 'create table secured (id int primary key)');
    await query(project, 'alter table secured enable row level security');
    await query(project, 'create publication theirs for table keyed');
    const hold = holdBefore('catch up');
    const id = await move(project, 'second', { mode: 'online' });
    await hold.reached;
    // Replicated, while the project is in use.
    await query(
      project,
      "insert into keyless values (1, '{x}', now()), (2, '{y}', now()), (2, '{y}', now())",
      other(),
    );
    await query(project, "update keyless set b = '{z}' where a = 1");
    await query(project, 'delete from keyless where a = 2');
    await query(project, 'insert into silent values (1), (1)');
    await query(project, 'update silent set a = 2');
    await query(project, "insert into days values (7, 'seven')");
    await query(project, 'insert into doubled (id) values (3), (5)');
    await query(project, 'update doubled set id = 4 where id = 3');
    await query(project, 'delete from doubled where id = 5');
    await query(project, 'insert into secured values (1)');
    await query(project, 'truncate keyed');
    await query(project, "insert into keyed values (1, 'after')");
    await query(project, 'delete from hot where id > 50');
    await query(project, 'refresh materialized view total');
    await query(project, "select lo_from_bytea(816, 'larger')");
    for (let n = 0; n < 3; n++) await query(project, "select nextval('tickets')");
    hold.resume();
    const job = await ended(id);
    expect(job.error).toBe(null);
    expect(job).toMatchObject({ status: 'done', result: { server: 'second', mode: 'online' } });
    expect(job.details).toMatchObject({ mode: 'online' });
    expect(
      await query(
        project,
        `select (select json_agg(keyed) from keyed) as keyed, (select json_agg(b) from keyless) as keyless,
                (select json_agg(a) from silent) as silent, (select json_agg(v) from days) as days,
                (select json_agg(twice) from doubled) as doubled, (select count(*)::int from hot) as hot,
                (select count(*)::int from secured) as secured, (select json_agg(child) from child) as child,
                (select n::int from total) as total, (select n::int from total2) as total2,
                convert_from(lo_get(815), 'utf8') || convert_from(lo_get(816), 'utf8') as large,
                nextval('tickets')::int as ticket`,
        other(),
      ),
    ).toEqual([
      {
        keyed: [{ id: 1, v: 'after' }],
        keyless: [['z']],
        silent: [2, 2],
        days: ['seven'],
        doubled: [8],
        child: [{ a: 'a', own: 'own', b: 'b' }],
        hot: 50,
        secured: 1,
        total: 1,
        total2: 2,
        large: 'largelarger',
        ticket: 9,
      },
    ]);
    expect(
      await query(
        project,
        `select relname, relreplident::text as identity from pg_class where relname in ('keyless', 'silent') order by 1`,
      ),
    ).toEqual([
      { relname: 'keyless', identity: 'd' },
      { relname: 'silent', identity: 'n' },
    ]);
    expect(await query(project, 'select pubname from pg_publication')).toEqual([{ pubname: 'theirs' }]);
    await expectNothingLeft(project);
    expect(await databasesAt(project.id)).toEqual([]);
  });

  it('loses nothing of 8 writers, and of direct clients that connect again and again', async () => {
    const project = await create();
    const { slug, key } = project;
    await query(project, 'create table ledger (id text primary key, v int not null default 0)');
    await query(project, 'create table keyless (id text, v int)');
    const { control, servers } = rowhouse.service.deps;
    const proxy = await openProxy(rowhouse, {
      serverOf: (id) => findServer(control, servers, id),
      servers: () => servers.all(),
      whyEnded: (id) => whyEnded(control, id),
    });
    const login = await loginOf(rowhouse, slug);
    const acknowledged: string[] = [];
    /** The connection ended before the answer came. */
    const unknown = new Set<string>();
    const failures: unknown[] = [];
    let [isOver, ends] = [false, 0];
    /** What the rows of changed tables must be, and by table. */
    const changed = { ledger: new Map<string, number>(), keyless: new Map<string, number>() };
    const removed = new Set<string>();
    const writer = async (name: string, through: TestService) => {
      for (let n = 0; !isOver; n++) {
        const body = { id: `${name}-${n}` };
        const answer = await through.call('POST', `/projects/${slug}/tables/ledger`, { key, body });
        if (answer.status === 201) acknowledged.push(body.id);
        else failures.push(answer.body);
      }
    };
    /** Inserts a row, changes it, and deletes every other one. */
    const changer = async (table: keyof typeof changed, through: TestService) => {
      const run = async (text: string, params: unknown[]) => {
        const answer = await through.call('POST', `/projects/${slug}/query`, {
          key,
          body: { query: text, params },
        });
        if (answer.status !== 200) failures.push(answer.body);
      };
      for (let n = 0; !isOver; n++) {
        const id = `${table}-${n}`;
        await run(`insert into ${table} (id, v) values ($1, 0)`, [id]);
        await run(`update ${table} set v = v + $2::int where id = $1`, [id, n + 1]);
        if (n % 2 === 0) changed[table].set(id, n + 1);
        else {
          await run(`delete from ${table} where id = $1`, [id]);
          removed.add(id);
        }
      }
    };
    const direct = async (name: string) => {
      let client: pg.Client | null = null;
      for (let n = 0; !isOver; n++) {
        const id = `${name}-${n}`;
        try {
          client ??= await connectPg(proxy.port, login);
        } catch {
          continue;
        }
        try {
          await client.query('insert into ledger values ($1)', [id]);
          acknowledged.push(id);
        } catch {
          unknown.add(id);
          ends++;
          client.end().catch(() => {});
          client = null;
        }
      }
    };
    const work = [
      ...[0, 1, 2, 3, 4, 5, 6, 7].map((n) => writer(`w${n}`, n % 2 === 0 ? rowhouse : other())),
      ...[0, 1].map((n) => direct(`d${n}`)),
      changer('ledger', rowhouse),
      changer('keyless', other()),
    ];
    const wroteSince = async (since: number) => {
      const late = acknowledged.slice(since);
      return ['w0', 'w1', 'd0', 'd1'].every((name) => late.some((id) => id.startsWith(`${name}-`)));
    };
    for (const server of ['second', 'test']) {
      const [before, endsBefore] = [acknowledged.length, ends];
      await until('all of them write', () => wroteSince(before));
      const job = await ended(await move(project, server, { mode: 'online' }));
      expect(job.error).toBe(null);
      expect(job.result).toMatchObject({ server, mode: 'online' });
      const after = acknowledged.length;
      await until('all of them go on', () => wroteSince(after));
      expect(ends).toBeGreaterThanOrEqual(endsBefore + 2);
    }
    isOver = true;
    await Promise.all(work);
    expect(failures).toEqual([]);
    for (const table of ['ledger', 'keyless'] as const) {
      const rows: { id: string; v: number }[] = await query(
        project,
        `select id, v from ${table} where id like '${table}-%'`,
      );
      expect(changed[table].size).toBeGreaterThan(2);
      expect(new Map(rows.map(({ id, v }) => [id, v])), table).toEqual(changed[table]);
      expect(rows.filter(({ id }) => removed.has(id))).toEqual([]);
    }
    const rows: { id: string }[] = await query(project, `select id from ledger where id not like 'ledger-%'`);
    const stored = new Set(rows.map(({ id }) => id));
    expect(acknowledged.filter((id) => !stored.has(id))).toEqual([]);
    const told = new Set(acknowledged);
    expect([...stored].filter((id) => !told.has(id) && !unknown.has(id))).toEqual([]);
    await expectNothingLeft(project);
  });

  it('begins again if tables change meanwhile, and gives way to a dump if they keep changing', async () => {
    const project = await create();
    await query(project, 'create table notes (id int primary key)');
    for (const [changes, mode] of [
      [1, 'online'],
      [3, 'dump'],
    ] as const) {
      let left: number = changes;
      const server = mode === 'online' ? 'second' : 'test';
      Object.assign(rowhouse.service.deps.moves, {
        onStep: async (step: string) => {
          if (step !== 'catch up' || left === 0) return;
          await query(project, `alter table notes add column ${mode}_${left--} int default 1`);
          await query(project, `insert into notes (id) select coalesce(max(id), 0) + 1 from notes`);
        },
      });
      const job = await ended(await move(project, server));
      Object.assign(rowhouse.service.deps.moves, { onStep: undefined });
      expect(job.error).toBe(null);
      expect(job.result).toMatchObject({ server, mode });
      if (mode === 'dump') expect(job.result.reason).toContain('changed again and again');
      await expectNothingLeft(project);
    }
    expect(await query(project, 'select * from notes order by id')).toEqual(
      [1, 2, 3, 4].map((id) => ({ id, online_1: 1, dump_3: 1, dump_2: 1, dump_1: 1 })),
    );
  });

  it('gives way to a dump if the other server cannot apply a row, however little it lags behind', async () => {
    const project = await create();
    await query(project, 'create table allowed (v int)');
    await query(project, 'insert into allowed values (1)');
    // Replication has no search path, and so does not find the table.
    await query(
      project,
      `create function is_allowed(wanted int) returns boolean language plpgsql as $$
       begin return exists (select from allowed where v = wanted); end $$`,
    );
    await query(project, 'create table notes (id int primary key, v int check (is_allowed(v)))');
    const hold = holdBefore('catch up');
    const id = await move(project, 'second');
    await hold.reached;
    await query(project, 'insert into notes values (1, 1)');
    hold.resume();
    const job = await ended(id);
    expect(job.error).toBe(null);
    expect(job.result).toMatchObject({ mode: 'dump', reason: 'replication has stopped with an error' });
    expect(await query(project, 'select id, v from notes')).toEqual([{ id: 1, v: 1 }]);
    await expectNothingLeft(project);
  });

  it('is stopped by its job at any time before the switch, and puts everything back', async () => {
    const project = await create();
    await query(project, 'create table keyless (id int)');
    const hold = holdBefore('catch up');
    const id = await move(project, 'second');
    await hold.reached;
    const shown = await until('the phase is shown', async () => {
      const { body } = await rowhouse.call('GET', `${jobs}/${id}`);
      return body.job.details?.phase === 'catching up' && body.job;
    });
    expect(shown.details).toEqual({ mode: 'online', phase: 'catching up' });
    expect(
      (await rowhouse.call('POST', `/projects/${project.slug}/branches`, { body: { name: 'B' } })).status,
    ).toBe(409);
    await cancel(id);
    hold.resume();
    expect((await ended(id)).status).toBe('cancelled');
    await expectNothingLeft(project);
    expect(
      await query(project, "select relreplident::text as identity from pg_class where relname = 'keyless'"),
    ).toEqual([{ identity: 'd' }]);
    expect(await query(project, 'select from pg_publication')).toEqual([]);
  });
});

describe('a project that cannot be moved online', () => {
  it('is moved by a dump, with the reason, or refused if the caller wants no other', async () => {
    const cases: [string, string[]][] = [
      [
        'forces row security',
        ['create table t (id int primary key)', 'alter table t force row level security'],
      ],
      [
        'fires for replicated rows',
        [
          'create table t (id int primary key)',
          "create function f() returns trigger language plpgsql as 'begin return new; end'",
          'create trigger always before insert on t for each row execute function f()',
          'alter table t enable always trigger always',
        ],
      ],
      ['cannot be compared', ['create table t (v json)']],
      ['its column b is generated', ['create table t (a int, b int generated always as (a * 2))']],
      [
        'has the generated column b',
        ['create table t (a int, b int generated always as (a * 2) stored primary key)'],
      ],
      [
        'has a name that Rowhouse uses',
        ['create table t (id int)', 'create publication rowhouse_move for table t'],
      ],
    ];
    for (const [reason, statements] of cases) {
      const project = await create();
      for (const statement of statements) await query(project, statement);
      const ask = (mode: string) =>
        rowhouse.call('POST', `/projects/${project.slug}/move`, { body: { server: 'second', mode } });
      expect((await ask('online')).body.error?.message, reason).toContain(reason);
      const { status, body } = await ask('auto');
      expect([status, body.mode, body.reason], reason).toEqual([
        202,
        'dump',
        expect.stringContaining(reason),
      ]);
      const job = await ended(body.job.id);
      // A table that forces row security on its owner cannot be dumped either, unless the role that reads skips it.
      expect(job.error, reason).toBe(null);
      expect(job.result).toMatchObject({ mode: 'dump', reason: expect.stringContaining(reason) });
    }
  });
});

describe('a hostile project', () => {
  it('gains no rights from the sessions that replicate it, and reads no password', async () => {
    const project = await create();
    // Runs for each row that the target copies or receives: in the check, and in the index by way of an immutable function.
    await query(
      project,
      `create function spy(v int, place text) returns int language plpgsql as $$
       begin
         begin
           execute 'alter role ' || quote_ident(session_user) || ' superuser';
           insert into public.seen values ('gained', place);
         exception when others then null;
         end;
         begin
           execute 'reset role';
           execute 'create role gained_${project.id} superuser';
         exception when others then null;
         end;
         insert into public.seen values (current_user, place);
         return v;
       end $$`,
    );
    await query(
      project,
      `create function calm(v int) returns int language plpgsql immutable as $$
       begin return public.spy(v, 'index'); end $$`,
    );
    await query(project, 'create table seen (who text, place text)');
    await query(project, "create table bait (id int primary key, v int check (spy(v, 'check') = v))");
    await query(project, 'create index on bait (calm(v))');
    await query(project, 'insert into bait values (1, 1)');
    const hold = holdBefore('catch up');
    const id = await move(project, 'second', { mode: 'online' });
    await hold.reached;
    await query(project, 'insert into bait values (2, 2)');
    const [found] = await rowhouse.service.deps.control.query<{ copy: string }>(
      sql`select copy_id as copy from moves where project_id = ${project.id}`,
    );
    const copy = found?.copy ?? '';
    const secret = await inside(databaseOf(copy), secondAddress(), async (admin) => {
      const asProject = (statement: string) =>
        admin
          .transaction(async (transaction) => {
            await transaction.query(sql`set local role ${sql.id(roleOf(copy))}`);
            return transaction.query(sql.script(statement));
          })
          .then(
            () => 'allowed',
            (error) => error.sqlstate,
          );
      return [
        await asProject('select subconninfo from pg_subscription'),
        await asProject(`alter subscription "rowhouse_move_${project.id}" disable`),
        await asProject(`drop subscription "rowhouse_move_${project.id}"`),
      ];
    });
    expect(secret).toEqual(['42501', '42501', '42501']);
    // A table that is replaced by a view is not read: its functions would run with the right to replicate.
    const [reader] = await asAdmin((admin) =>
      admin.query<{ rolconfig: string[] }>(
        sql`select rolconfig from pg_roles where rolname = ${`p_${project.id}_move`}`,
      ),
    );
    expect(reader?.rolconfig).toEqual(['restrict_nonsystem_relation_kind=view,foreign-table']);
    // On the source, its own role neither touches the slot, nor the publication, nor the role that reads.
    for (const statement of [
      `select pg_drop_replication_slot('rowhouse_move_${project.id}')`,
      `select * from pg_logical_slot_peek_changes('rowhouse_move_${project.id}', null, null)`,
      'drop publication rowhouse_move',
      'alter publication rowhouse_move drop table bait',
      `alter role p_${project.id}_move password 'known'`,
      `set role p_${project.id}_move`,
    ]) {
      const { status } = await rowhouse.call('POST', `/projects/${project.slug}/query`, {
        key: project.key,
        body: { query: statement },
      });
      expect(status, statement).toBeGreaterThanOrEqual(400);
    }
    hold.resume();
    expect((await ended(id)).error).toBe(null);
    for (const at of [address(), secondAddress()]) {
      const gained = await asAdmin(
        (admin) =>
          admin.query(sql`
            select rolname from pg_roles
            where rolname = ${`gained_${project.id}`} or rolname like ${`p_${project.id}%`} and rolsuper`),
        at,
      );
      expect(gained).toEqual([]);
    }
    // It ran on both servers, and each time as its own role, under the name of the copy or of the project.
    const seen: { who: string; place: string }[] = await query(
      project,
      'select distinct who, place from seen order by who, place',
    );
    const expected = [roleOf(copy), roleOf(project.id)].flatMap((who) => [
      { who, place: 'check' },
      { who, place: 'index' },
    ]);
    expect(seen).toEqual(expected.toSorted((one, two) => (one.who < two.who ? -1 : 1)));
    await expectNothingLeft(project);
  });

  it('cannot keep a move from ending by naming the role of the replication', async () => {
    const [project, neighbour] = [await create(), await create()];
    for (const one of [project, neighbour]) await query(one, 'create table notes (id int primary key)');
    const role = `p_${project.id}_move`;
    const cancelled = holdBefore('catch up');
    const first = await move(project, 'second', { mode: 'online' });
    await cancelled.reached;
    await query(project, `grant select on notes to ${role}`);
    await query(project, `create policy theirs on notes to ${role}`);
    await query(project, `alter default privileges grant select on tables to ${role}`);
    await cancel(first);
    cancelled.resume();
    expect((await ended(first)).status).toBe('cancelled');
    await expectNothingLeft(project);
    const done = holdBefore('catch up');
    const second = await move(project, 'second', { mode: 'online' });
    await done.reached;
    await query(neighbour, `grant select on notes to ${role}`);
    done.resume();
    expect((await ended(second)).error).toBe(null);
    await until('the move is over', async () => (await movesLeft(project.id)) === 0);
    // The role is left, and nobody can log in with it.
    expect(await replicationAt(project.id)).toEqual({ ...noReplication, roles: [{ rolname: role }] });
    const logins = await asAdmin((admin) =>
      admin.query(sql`select from pg_roles where rolname = ${role} and rolcanlogin`),
    );
    expect(logins).toEqual([]);
    expect(await databasesAt(project.id)).toEqual([]);
  });
});

// Short reads of a project share connections; nobody may notice, whatever another one does.
import { once } from 'node:events';
import { type AddressInfo, connect } from 'node:net';
import { beforeAll, describe, expect, it } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { isPlain } from '../../src/query/sessions/statement-profiles.ts';
import { type Answer, api, asAdmin, until, useTestService } from '../support/helpers.ts';

const rowhouse = useTestService({ spares: 2, connections: { budget: 20, share: 10 } });
let project: { slug: string; id: string; key: string };
let port = 0;
beforeAll(async () => {
  project = await rowhouse.project('Lanes');
  await rowhouse.app.listen({ host: '127.0.0.1', port: 0 });
  port = (rowhouse.app.server.address() as AddressInfo).port;
});

const path = () => `${api}/projects/${project.slug}/query`;
type Sent = Pick<Answer, 'status' | 'body'> & { headers: Headers };
/** Over a real socket. */
async function send(body: unknown, headers: Record<string, string> = {}): Promise<Sent> {
  const response = await fetch(`http://127.0.0.1:${port}${path()}`, {
    method: 'POST',
    headers: { 'x-api-key': project.key, 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
  return { status: response.status, headers: response.headers, body: await response.json() };
}
const run = (query: string, params: unknown[] = [], more: object = {}) => send({ query, params, ...more });
const sleep = (seconds: number, more: object = {}) =>
  run('select $1::int as n, pg_sleep($2)', [1, seconds], more);
/** So often that it is known to be short, with sessions open for lanes. */
async function makeShort(query: string, params: unknown[]): Promise<void> {
  for (let n = 0; n < 12; n++) await Promise.all(Array.from({ length: 6 }, () => run(query, params)));
}

describe('reads that share a pipeline', () => {
  it('each get their own answer', async () => {
    await run('create table things (id int primary key, name text)');
    await run("insert into things select n, 'thing ' || n from generate_series(1, 1000) as n");
    const query = 'select id, name from things where id = $1';
    await makeShort(query, [1]);
    for (let round = 0; round < 5; round++) {
      const answers = await Promise.all(Array.from({ length: 200 }, (_, n) => run(query, [n + 1])));
      answers.forEach(({ body }, n) => {
        expect(body.rows).toEqual([{ id: n + 1, name: `thing ${n + 1}` }]);
      });
    }
  });

  it('need few connections when many come at once', async () => {
    const query = 'select id, name from things where id = $1';
    const mostBusy = async () => {
      await makeShort(query, [1]);
      let most = 0;
      const supervise = setInterval(() => {
        const { open, idle } = rowhouse.service.deps.query.sessions.counts();
        most = Math.max(most, open - idle);
      }, 1);
      const answers = await Promise.all(Array.from({ length: 100 }, () => run(query, [7])));
      clearInterval(supervise);
      for (const { status } of answers) expect(status).toBe(200);
      return most;
    };
    // On a machine that is busy with something else no statement is short.
    await until('a few are enough', async () => (await mostBusy()) <= 5, 60_000);
  });

  it('wait for room in a pipeline, not for a connection', async () => {
    const query = 'select id, name from things where id = $1';
    const { sessions } = rowhouse.service.deps.query;
    const mostWaiting = async () => {
      await makeShort(query, [1]);
      let most = 0;
      const supervise = setInterval(() => {
        most = Math.max(most, sessions.counts().waiting);
      }, 1);
      const answers = await Promise.all(Array.from({ length: 600 }, (_, n) => run(query, [n + 1])));
      clearInterval(supervise);
      answers.forEach(({ body }, n) => {
        expect(body.rows).toEqual([{ id: n + 1, name: `thing ${n + 1}` }]);
      });
      return most;
    };
    await until('none waits for a connection', async () => (await mostWaiting()) <= 2, 60_000);
  });

  it('are not held up by a slow one or by a lost connection while they wait', async () => {
    const query = 'select $1::int as n, pg_sleep($2)';
    await makeShort(query, [1, 0]);
    const slow = Array.from({ length: 3 }, () => sleep(3));
    const quick = Array.from({ length: 400 }, () => sleep(0));
    const began = performance.now();
    for (const { body } of await Promise.all(quick)) expect(body.rows).toEqual([{ n: 1, pg_sleep: '' }]);
    expect(performance.now() - began).toBeLessThan(2_500);
    for (const { body } of await Promise.all(slow)) expect(body.rows).toEqual([{ n: 1, pg_sleep: '' }]);

    await makeShort(query, [1, 0]);
    const many = Array.from({ length: 400 }, () => sleep(0));
    await asAdmin((admin) =>
      admin.query(
        sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = ${`p_${project.id}`}`,
      ),
    );
    for (const { status, body } of await Promise.all(many)) {
      if (status === 200) expect(body.rows).toEqual([{ n: 1, pg_sleep: '' }]);
      else expect([status, body.error.code]).toEqual([503, 'unavailable']);
    }
    await until('it is served again', async () => (await sleep(0)).status === 200, 5_000);
  });

  it('check for code briefly in a project without any, and fully in one with code', {
    timeout: 20_000,
  }, async () => {
    const other = await rowhouse.project('Codeless');
    const { query } = rowhouse.service.deps;
    const ask = (text: string) =>
      rowhouse.call('POST', `/projects/${other.slug}/query`, { key: other.key, body: { query: text } });
    const profileOf = async (text: string) => query.profiles.of(other, await query.parser.parse(other, text));
    const plain = (text: string) =>
      until('it is known to be plain', async () => {
        await ask(text);
        return isPlain(await profileOf(text));
      });
    const checkFor = async (text: string) => {
      await plain(text);
      return (await profileOf(text)).project.check;
    };
    await ask('create table bare (id int primary key)');
    expect(await checkFor('select id from bare')).toBe('least');
    // `b.id` could be a call of a function, and a WITH query could have the name of a table.
    expect(await checkFor('select b.id, lower(b.id::text) as low from bare as b')).toBe('least');
    expect(await checkFor('with few as (select id from bare limit 3) select id from few')).toBe('least');
    expect((await ask('select id from "1259"')).status).toBe(400);
    await ask('create table "1259" (id int)');
    expect(await checkFor('select id from "1259"')).toBe('least');
    await ask('create table "a""b\\,{}" (id int)');
    expect(await checkFor('select id from "a""b\\,{}"')).toBe('least');
    await ask('create view seen as select id from bare');
    // A statement on a view needs the full check. Other statements of the project do not.
    expect(await checkFor('select id from seen')).toBe('least');
    expect((await profileOf('select id from seen')).needsFull).toBe(true);
    await ask("create type mood as enum ('calm')");
    await ask('create table moods (m mood)');
    expect(await checkFor('select id from bare')).toBe('least');
    expect(await checkFor('select m from moods')).toBe('quick');
    await ask('create function own() returns int language sql as $$ select 1 $$');
    expect(await checkFor('select id from bare')).toBe('full');
    await ask('select own() as n');
    expect(isPlain(await profileOf('select own() as n'))).toBe(false);
  });

  it('fail alone', async () => {
    const query = 'select 10 / $1::int as ten';
    await makeShort(query, [1]);
    const answers = await Promise.all(Array.from({ length: 60 }, (_, n) => run(query, [n % 3])));
    answers.forEach(({ status, body }, n) => {
      if (n % 3 === 0) expect([status, body.error.sql.state]).toEqual([400, '22012']);
      else expect(body.rows).toEqual([{ ten: Math.floor(10 / (n % 3)) }]);
    });
  });

  it('do not wait behind a slow one', async () => {
    await makeShort('select $1::int as n, pg_sleep($2)', [1, 0]);
    const slow = Array.from({ length: 3 }, () => sleep(4));
    await new Promise((resolve) => setTimeout(resolve, 5));
    const began = performance.now();
    for (const { body } of await Promise.all(Array.from({ length: 60 }, () => sleep(0)))) {
      expect(body.rows).toEqual([{ n: 1, pg_sleep: '' }]);
    }
    expect(performance.now() - began).toBeLessThan(2_500);
    for (const { body } of await Promise.all(slow)) expect(body.rows).toEqual([{ n: 1, pg_sleep: '' }]);
  });

  it('do not wait behind a slow client with a large result', async () => {
    const query = "select repeat('x', $1::int) as text";
    await makeShort(query, [10]);
    const text = JSON.stringify({ query, params: [60_000_000] });
    const socket = connect(port, '127.0.0.1');
    socket.on('error', () => {});
    socket.write(
      `POST ${path()} HTTP/1.1\r\nHost: x\r\nX-API-Key: ${project.key}\r\nContent-Type: application/json\r\n` +
        `Content-Length: ${text.length}\r\n\r\n${text}`,
    );
    await once(socket, 'readable');
    for (const { body } of await Promise.all(Array.from({ length: 60 }, () => run(query, [3])))) {
      expect(body.rows).toEqual([{ text: 'xxx' }]);
    }
    socket.destroy();
    await until('it is given up', async () => {
      const { open, idle } = rowhouse.service.deps.query.sessions.counts();
      return open === idle;
    });
  });

  it('end at their deadline or when their caller hangs up', async () => {
    await makeShort('select $1::int as n, pg_sleep($2)', [1, 0]);
    const late = await sleep(30, { timeout_ms: 1_500 });
    expect([late.status, late.body.error.code]).toEqual([504, 'query_timeout']);
    await makeShort('select $1::int as n, pg_sleep($2)', [1, 0]);
    const running = () =>
      asAdmin((admin) =>
        admin.query(
          sql`select 1 from pg_stat_activity where datname = ${`p_${project.id}`} and state = 'active'`,
        ),
      );
    const hangUp = new AbortController();
    const gone = fetch(`http://127.0.0.1:${port}${path()}`, {
      method: 'POST',
      headers: { 'x-api-key': project.key, 'content-type': 'application/json' },
      body: JSON.stringify({ query: 'select $1::int as n, pg_sleep($2)', params: [1, 60] }),
      signal: hangUp.signal,
    }).catch(() => 'gone');
    await until('it runs', async () => (await running()).length === 1);
    hangUp.abort();
    expect(await gone).toBe('gone');
    await until('it is cancelled', async () => (await running()).length === 0, 5_000);
  });

  it('follow a table that changes meanwhile', async () => {
    await run('create table shifting (id int primary key)');
    await run('insert into shifting values (1)');
    const query = 'select * from shifting where id = $1';
    await makeShort(query, [1]);
    for (let n = 0; n < 5; n++) {
      const [changed, ...read] = await Promise.all([
        run(`alter table shifting add column c${n} int default ${n}`),
        ...Array.from({ length: 30 }, () => run(query, [1])),
      ]);
      expect(changed.status).toBe(200);
      for (const { status } of read) expect(status).toBe(200);
      expect((await run(query, [1])).body.rows[0][`c${n}`]).toBe(n);
    }
  });

  it('do not see the settings or sequences of others', async () => {
    await run('create table counted (id bigint generated always as identity, v int)');
    const insert = 'insert into counted (v) values ($1)';
    for (let n = 0; n < 10; n++) await run(insert, [n]);
    await new Promise((resolve) => setTimeout(resolve, 1_100));
    for (let n = 0; n < 10; n++) await run(insert, [n]);
    for (let n = 0; n < 12; n++) {
      await run(insert, [n]);
      const { body } = await run('select lastval()');
      expect(body.error.sql.state).toBe('55000');
    }
  });

  it('do not trust a view that took the place of a table', async () => {
    await run('create table real_one (id int)');
    const query = 'select id from real_one';
    await makeShort(query, []);
    await run('drop table real_one');
    await run(
      `create or replace function sets() returns int language plpgsql as $$ begin perform set_config('app.secret', 'leaked', false); return 1; end $$`,
    );
    await run('create view real_one as select sets() as id');
    expect((await run(query)).body.rows).toEqual([{ id: 1 }]);
    for (let n = 0; n < 12; n++) {
      const { body } = await run("select coalesce(current_setting('app.secret', true), '') as secret");
      expect(body.rows).toEqual([{ secret: '' }]);
    }
  });

  it.each([
    ['a domain', 'create domain sly as int check (leak(value))', 'select 5::sly as x'],
    [
      'a cast',
      'create type pair as (a int, b int); create function pair_text(pair) returns text language sql as $$ select leak(1)::text $$; create cast (pair as text) with function pair_text(pair)',
      'select (1, 2)::pair::text as x',
    ],
    [
      'a function like a column',
      'create table rowed (id int); insert into rowed values (1); create function sneak(rowed) returns boolean language sql as $$ select leak(1) $$',
      'select rowed.sneak as x from rowed',
    ],
    [
      "a built-in function's name",
      'create function lower(varchar) returns boolean language sql as $$ select leak(1) $$',
      "select lower('A'::varchar) as x",
    ],
    [
      'an index',
      'create table indexed (id int); create index on indexed ((leak(id)))',
      'insert into indexed values (1)',
    ],
    [
      'a partition',
      'create table parted (id int) partition by range (id); create table part_1 partition of parted (check (leak(id))) for values from (0) to (10)',
      'insert into parted values (1)',
    ],
  ])('leave nothing behind of code that hides in %s', { tags: 'long' }, async (_where, make, query) => {
    const mine = await rowhouse.project('Hiding');
    const here = async (text: string) => {
      const body = { query: text };
      return (await rowhouse.call('POST', `/projects/${mine.slug}/query`, { key: mine.key, body })).body;
    };
    await here(
      "create function leak(int) returns boolean language plpgsql immutable as $$ begin perform set_config('app.leak', 'yes', false); return true; end $$",
    );
    for (const statement of make.split('; ')) expect((await here(statement)).error).toBeUndefined();
    for (let n = 0; n < 30; n++) {
      expect((await here(query)).error).toBeUndefined();
      const { rows } = await here("select coalesce(current_setting('app.leak', true), '') as leak");
      expect(rows).toEqual([{ leak: '' }]);
      if (n === 10) await new Promise((resolve) => setTimeout(resolve, 1_100));
    }
  });

  it('are answered once when they are moved to another session', async () => {
    // Its rows are few bytes to PostgreSQL and many as JSON: they come in one piece behind the end of the slow one.
    const wide = `select true as ${'w'.repeat(60)} from generate_series(1, $1::int)`;
    const slow = 'select $1::int as n, pg_sleep($2)';
    for (let round = 0; round < 4; round++) {
      for (const [query, params] of [[slow, [1, 0]] as const, [wide, [3]] as const, [slow, [1, 0]] as const])
        await makeShort(query, [...params]);
      const sleeping = Array.from({ length: 4 }, () => sleep(0.1));
      const read = await Promise.all(Array.from({ length: 24 }, () => run(wide, [9_000])));
      for (const { body } of read) expect([body.row_count, body.rows.length]).toEqual([9_000, 9_000]);
      await Promise.all(sleeping);
    }
  });

  it('are not lost when one of them ends the session', async () => {
    const fine = 'select $1::int as n';
    const fatal = "select case when $1 > 9 then ('x' || repeat('y', $1))::int end as n";
    for (let round = 0; round < 3; round++) {
      await makeShort(fine, [1]);
      await makeShort(fatal, [1]);
      const answers = await Promise.all(
        Array.from({ length: 90 }, (_, n) => (n % 30 ? run(fine, [n]) : run(fatal, [1_100_000]))),
      );
      answers.forEach(({ body }, n) => {
        if (n % 30) expect(body.rows).toEqual([{ n }]);
        else expect(body.error.message).toMatch(/larger than 1 MB/);
      });
    }
  });

  it('lose at most the answers of a lost connection', async () => {
    const query = 'select id, name from things where id = $1';
    await makeShort(query, [1]);
    const asked = Array.from({ length: 100 }, () => run(query, [5]));
    await asAdmin((admin) =>
      admin.query(
        sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = ${`p_${project.id}`}`,
      ),
    );
    for (const { status } of await Promise.all(asked)) expect([200, 503]).toContain(status);
    await until('it works again', async () => (await run(query, [5])).status === 200);
  });
});

describe('a read that calls a hidden function', () => {
  const trigger = (name: string) =>
    `create function ${name}() returns trigger language plpgsql as $$ begin perform leak(); return coalesce(new, old); end $$`;
  beforeAll(async () => {
    await run(
      `create function leak() returns int language plpgsql as $$ begin perform set_config('app.hidden', 'leaked', false); return 1; end $$`,
    );
  });

  const hiding: [string, string[], string][] = [
    [
      'a built-in name',
      ["create function abs(text) returns int language sql as 'select leak()'"],
      "select abs('x'::text)",
    ],
    [
      'a column that is none',
      [
        'create table rowed as select 1 as a',
        "create function seeming(rowed) returns int language sql as 'select leak()'",
      ],
      'select rowed.seeming from rowed',
    ],
    [
      'an index',
      [
        'create table indexed (a int)',
        'create function keyed(int) returns int language plpgsql immutable as $$ begin return leak(); end $$',
        'create index on indexed (keyed(a))',
      ],
      'insert into indexed values (1)',
    ],
    [
      'a sequence’s name',
      [
        'create sequence chosen',
        "create function choice() returns regclass language sql as $$ select leak(); select 'chosen'::regclass $$",
        'create table choosing (a int, b bigint default nextval(choice()))',
      ],
      'insert into choosing (a) values (1)',
    ],
    [
      'a partition',
      [
        'create table parted (a int) partition by list (a)',
        'create table parted_1 partition of parted for values in (1)',
        trigger('in_part'),
        'create trigger t before insert on parted_1 for each row execute function in_part()',
      ],
      'insert into parted values (1)',
    ],
    [
      'a cascade',
      [
        'create table parents (id int primary key)',
        'create table children (id int references parents on delete cascade)',
        trigger('in_child'),
        'create trigger t before delete on children for each row execute function in_child()',
        'insert into parents select generate_series(1, 20)',
        'insert into children select generate_series(1, 20)',
      ],
      'with gone as (delete from parents where id = (select min(id) from parents) returning id) select id from gone',
    ],
    [
      'a cascade of an upsert',
      [
        'create table heads (id int primary key, k int unique)',
        'create table tails (k int references heads (k) on update cascade)',
        trigger('in_tail'),
        'create trigger t before update on tails for each row execute function in_tail()',
        'insert into heads values (1, 1)',
        'insert into tails values (1)',
      ],
      'insert into heads values (1, 1) on conflict (id) do update set k = heads.k + 1',
    ],
    ['a domain', ['create domain checked as int check (leak() = value)'], 'select 1::checked'],
    [
      'a cast',
      [
        'drop domain if exists checked',
        'create type made as (a int)',
        "create function make(int) returns made language sql as 'select row(leak())::made'",
        'create cast (int as made) with function make(int)',
      ],
      'select (1::made) is null as made',
    ],
    [
      'an operator',
      [
        'drop cast if exists (int as made)',
        "create function compare(int, int) returns int language sql as 'select leak()'",
        'create operator === (leftarg = int, rightarg = int, function = compare)',
      ],
      'select 1 === 2 as same',
    ],
  ];
  it.each(hiding)('leaves no setting behind: %s', { tags: 'long' }, async (_what, setup, query) => {
    for (const statement of setup) expect((await run(statement)).status, statement).toBe(200);
    const often = async () => {
      for (let n = 0; n < 3; n++) expect((await run(query)).status).toBe(200);
    };
    await often();
    await new Promise((resolve) => setTimeout(resolve, 1_100));
    await often();
    for (let n = 0; n < 6; n++) {
      const { body } = await run("select coalesce(current_setting('app.hidden', true), '') as hidden");
      expect(body.rows).toEqual([{ hidden: '' }]);
    }
  });
});

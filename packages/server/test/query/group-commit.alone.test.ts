// Short inserts of a project travel in one transaction; nobody may notice but by how fast they are.
import { beforeAll, describe, expect, it } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { isPlain } from '../../src/query/sessions/statement-profiles.ts';
import { canGroup } from '../../src/query/sharing/group-commit.ts';
import { databaseOf } from '../../src/servers/databases/names.ts';
import { address, asAdmin, until, useTestService } from '../support/helpers.ts';

const rowhouse = useTestService({ spares: 2, connections: { budget: 20, share: 10 } });
let project: { slug: string; id: string; key: string };
beforeAll(async () => {
  project = await rowhouse.project('Convoys');
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
const atOnce = (count: number, query: string, first = 0) =>
  Promise.all(Array.from({ length: count }, (_, n) => run(query, [first + n])));
const inside = <T>(use: Parameters<typeof asAdmin<T>>[0]) =>
  asAdmin(use, { ...address(), database: databaseOf(project.id) });
const profileOf = async (query: string) => {
  const { profiles, parser } = rowhouse.service.deps.query;
  return profiles.of({ id: project.id }, await parser.parse(project, query));
};
/** Run until it is known to be short and plain. */
const makeShort = (query: string) =>
  until('it travels', async () => {
    await run(query, [-1]);
    const profile = await profileOf(query);
    return isPlain(profile) && canGroup(profile);
  });
/** In so many transactions the rows were written. */
const transactions = async (table: string) =>
  Number((await fine(`select count(distinct xmin::text) as n from ${table} where a >= 0`))[0].n);

describe('inserts that share a transaction', () => {
  it('are each stored once, and each gets its own answer', async () => {
    await fine('create table many (id bigint generated always as identity, a int)');
    const insert = 'insert into many (a) values ($1) returning a, id';
    await makeShort(insert);
    // On a machine that is busy with something else nothing is short.
    await until('they do', async () => {
      await fine('delete from many');
      const answers = await atOnce(300, insert);
      const ids = new Set<number>();
      answers.forEach(({ status, body }, n) => {
        expect(status).toBe(200);
        expect(body).toMatchObject({ command: 'INSERT', affected: 1, row_count: 1, truncated: false });
        expect(body.rows[0].a).toBe(n);
        ids.add(body.rows[0].id);
      });
      expect(ids.size).toBe(300);
      const rows = await fine('select a from many where a >= 0 order by a');
      expect(rows.map(({ a }: { a: number }) => a)).toEqual(Array.from({ length: 300 }, (_, n) => n));
      return (await transactions('many')) < 100;
    });
  });

  it('also come from the table endpoint', async () => {
    await fine('create table notes (a int primary key, text text)');
    const insert = (a: number) =>
      rowhouse.call('POST', `/projects/${project.slug}/tables/notes`, {
        key: project.key,
        body: { a, text: `note ${a}` },
      });
    await until('they do', async () => {
      await fine('delete from notes');
      const answers = await Promise.all(Array.from({ length: 100 }, (_, a) => insert(a)));
      answers.forEach(({ status, body }, a) => {
        expect(status).toBe(201);
        expect(body.row).toEqual({ a, text: `note ${a}` });
      });
      return (await transactions('notes')) < 50;
    });
  });

  it('fail alone when one of them is wrong, with the reason', async () => {
    await fine('create table unique_ones (a int primary key)');
    const insert = 'insert into unique_ones values ($1)';
    await makeShort(`${insert} on conflict do nothing`);
    for (let round = 0; round < 5; round++) {
      // Each number comes twice: one of the two has it.
      const params = Array.from({ length: 100 }, (_, n) => round * 50 + Math.floor(n / 2));
      const answers = await Promise.all(params.map((a) => run(insert, [a])));
      const statuses = answers.map(({ status }) => status);
      expect(statuses.filter((status) => status === 200)).toHaveLength(50);
      expect(statuses.filter((status) => status === 409)).toHaveLength(50);
    }
    expect(await fine('select count(*)::int as n from unique_ones where a >= 0')).toEqual([{ n: 250 }]);
  });

  it('fail alone when a deferred constraint is violated', async () => {
    await fine('create table parents (a int primary key)');
    await fine('insert into parents select generate_series(-1, 500) where true');
    await fine(
      'create table children (a int references parents deferrable initially deferred, b int default 1)',
    );
    const insert = 'insert into children (a) values ($1)';
    await makeShort(insert);
    const answers = await atOnce(60, insert, 470);
    answers.forEach(({ status }, n) => {
      expect(status, String(n)).toBe(n <= 30 ? 200 : 422);
    });
    expect(await fine('select count(*)::int as n from children where a >= 0')).toEqual([{ n: 31 }]);
  });

  it('do not wait for one that waits for a lock', async () => {
    await fine('create table locked (a int)');
    await fine('create table open (a int)');
    const [blocked, free] = ['insert into locked values ($1)', 'insert into open values ($1)'];
    await makeShort(blocked);
    await makeShort(free);
    let isLocked = true;
    const waiting = inside((admin) =>
      admin.transaction(async (inner) => {
        await inner.query(sql`lock table locked in share mode`);
        const those = Promise.all([
          run(blocked, [1], { timeout_ms: 30_000 }),
          run(blocked, [2], { timeout_ms: 30_000 }),
        ]).finally(() => {
          isLocked = false;
        });
        const others = await atOnce(50, free);
        expect(others.every(({ status }) => status === 200)).toBe(true);
        expect(isLocked).toBe(true);
        return { those };
      }),
    );
    const answers = await (await waiting).those;
    expect(answers.map(({ status }) => status)).toEqual([200, 200]);
    expect(await fine('select count(*)::int as n from locked where a >= 0')).toEqual([{ n: 2 }]);
    expect(await fine('select count(*)::int as n from open where a >= 0')).toEqual([{ n: 50 }]);
  });

  it('end at their deadlines', async () => {
    await fine('create table late (a int)');
    const insert = 'insert into late values ($1)';
    await makeShort(insert);
    await inside((admin) =>
      admin.transaction(async (inner) => {
        await inner.query(sql`lock table late in share mode`);
        const { status, body } = await run(insert, [1], { timeout_ms: 1_500 });
        expect([status, body.error.code]).toEqual([504, 'query_timeout']);
      }),
    );
    expect(await fine('select count(*)::int as n from late where a >= 0')).toEqual([{ n: 0 }]);
  });

  it('leave no sequence state for other requests', async () => {
    await fine('create table counted (id serial, a int)');
    const insert = 'insert into counted (a) values ($1)';
    await makeShort(insert);
    await atOnce(40, insert);
    const seen = await Promise.all(Array.from({ length: 20 }, () => run('select lastval()')));
    for (const { status, body } of seen) expect([status, body.error.sql.state]).toEqual([400, '55000']);
  });

  it('follow a table that changes meanwhile', async () => {
    await fine('create table changing (a int)');
    const insert = 'insert into changing values ($1) returning *';
    await makeShort(insert);
    const first = atOnce(50, insert);
    await fine("alter table changing add column b text default 'new'");
    for (const { status } of await first) expect(status).toBe(200);
    for (const { status, body } of await atOnce(50, insert, 100)) {
      expect(status).toBe(200);
      expect(body.rows[0].b).toBe('new');
    }
    expect(await fine('select count(*)::int as n from changing where a >= 0')).toEqual([{ n: 100 }]);
  });

  it('stop sharing once their table has a trigger', async () => {
    await fine('create table triggered (a int)');
    const insert = 'insert into triggered values ($1)';
    await makeShort(insert);
    await fine(`create function mark() returns trigger language plpgsql as $$ begin
      perform set_config('app.mark', new.a::text, false); return new; end $$`);
    await fine('create trigger mark before insert on triggered for each row execute function mark()');
    await atOnce(40, insert);
    const seen = await Promise.all(
      Array.from({ length: 20 }, () => run("select current_setting('app.mark', true) as mark")),
    );
    for (const { body } of seen) expect(['', null]).toContain(body.rows[0].mark);
    expect(await transactions('triggered')).toBe(40);
  });

  it('get a long answer without delaying the others', { tags: 'long' }, async () => {
    await fine('create table wide (a int)');
    const small = 'insert into wide values ($1)';
    const large = "insert into wide values ($1) returning repeat('x', 1000000 * a)";
    await makeShort(small);
    for (const megabytes of [1, 3, 100]) {
      await makeShort(large);
      const [mine, others] = await Promise.all([run(large, [megabytes]), atOnce(20, small)]);
      expect(mine.status).toBe(200);
      expect(mine.body.rows[0].repeat).toHaveLength(megabytes * 1_000_000);
      for (const { status } of others) expect(status).toBe(200);
    }
    expect(await fine('select count(*)::int as n from wide where a >= 0')).toEqual([{ n: 63 }]);
  });

  it('are not harmed by an error message that is far too long', async () => {
    await fine('create table numbers (a int)');
    const insert = 'insert into numbers select repeat($1::text, $2::int)::int';
    const make = (digit: number, times: number) => run(insert, [digit, times]);
    await until('it travels', async () => {
      await make(1, 1);
      const profile = await profileOf(insert);
      return isPlain(profile) && canGroup(profile);
    });
    const answers = await Promise.all([
      ...Array.from({ length: 10 }, () => make(2, 2)),
      make(9, 1_500_000),
      ...Array.from({ length: 10 }, () => make(2, 2)),
    ]);
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(20);
    expect(await fine('select count(*)::int as n from numbers where a = 22')).toEqual([{ n: 20 }]);
  });

  it('leave one prepared statement for each text in the session', async () => {
    await fine('create table texts (a int)');
    const texts = Array.from({ length: 5 }, (_, n) => `insert into texts values ($1 + ${n})`);
    for (const text of texts) await makeShort(text);
    for (let round = 0; round < 3; round++) await Promise.all(texts.map((text) => atOnce(60, text)));
    const counts = await Promise.all(
      Array.from({ length: 10 }, () => fine('select count(*)::int as n from pg_prepared_statements')),
    );
    for (const [{ n }] of counts) expect(n).toBeLessThan(100);
  });

  it('leave nothing behind of the settings of a trigger that was just created', async () => {
    await fine('create table surprised (a int)');
    await fine(`create function whisper() returns trigger language plpgsql as $$ begin
      perform set_config('app.secret', new.a::text, false); return new; end $$`);
    const slow = 'insert into surprised select $1::int from pg_sleep(0.09)';
    const insert = 'insert into surprised values ($1)';
    await makeShort(insert);
    await run(slow, [-1]);
    (await profileOf(slow)).usualMs = 1;
    const first = run(slow, [0]);
    await new Promise((resolve) => setTimeout(resolve, 30));
    const change = run(
      'create trigger whisper before insert on surprised for each row execute function whisper()',
    );
    const others = atOnce(5, insert, 1);
    for (const { status } of [await first, await change, ...(await others)]) expect(status).toBe(200);
    for (let n = 0; n < 20; n++) {
      const [{ secret }] = await fine("select current_setting('app.secret', true) as secret");
      expect(['', null]).toContain(secret);
    }
  });

  it('do not count as plain while a change of the schema runs, because they can be answered before it is', async () => {
    await fine('create table altered (a int)');
    const insert = 'insert into altered values ($1)';
    await makeShort(insert);
    const isWaiting = sql`select 1 from pg_stat_activity where datname = ${databaseOf(project.id)} and wait_event_type = 'Lock'`;
    const change = await inside((admin) =>
      admin.transaction(async (other) => {
        await other.query(sql`lock table altered in share mode`);
        const running = run('alter table altered add column b int');
        await until('the change waits for its lock', async () => (await other.query(isWaiting)).length > 0);
        expect(isPlain(await profileOf(insert))).toBe(false);
        return { running };
      }),
    );
    expect((await change.running).status).toBe(200);
    await makeShort(insert);
  });

  it('are told when their connection is lost, and no acknowledged one is lost', async () => {
    await fine('create table cut (a int)');
    const insert = 'insert into cut values ($1)';
    await makeShort(insert);
    let isOver = false;
    const cutting = inside(async (admin) => {
      while (!isOver) {
        await admin.query(sql`
          select pg_terminate_backend(pid) from pg_stat_activity
          where datname = current_database() and application_name = 'rowhouse query'`);
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    });
    const acknowledged: number[] = [];
    try {
      await Promise.all(
        Array.from({ length: 16 }, async (_, client) => {
          for (let n = 0; n < 30; n++) {
            const a = client * 100 + n;
            const { status } = await run(insert, [a]);
            expect([200, 503]).toContain(status);
            if (status === 200) acknowledged.push(a);
          }
        }),
      );
    } finally {
      isOver = true;
      await cutting;
    }
    // The last sessions may still be about to end.
    const { body } = await until('sessions last again', async () => {
      const answer = await run('select a from cut where a >= 0');
      return answer.status === 200 && answer;
    });
    const stored = body.rows.map(({ a }: { a: number }) => a);
    expect(new Set(stored).size).toBe(stored.length);
    expect(acknowledged.filter((a) => !stored.includes(a))).toEqual([]);
    expect(acknowledged.length).toBeGreaterThan(50);
  });

  it('are refused when too many wait, and the others are stored', {
    tags: 'long',
  }, async () => {
    await fine('create table crowd (a int)');
    const insert = 'insert into crowd values ($1)';
    await makeShort(insert);
    const answers = await inside(async (admin) => {
      const [locking] = await admin.transaction(async (transaction) => {
        await transaction.query(sql`lock table crowd`);
        const sent = atOnce(2_600, insert);
        await new Promise((resolve) => setTimeout(resolve, 1_500));
        return [sent];
      });
      return locking;
    });
    const done = answers.flatMap(({ status }, a) => (status === 200 ? [a] : []));
    const refused = answers.filter(({ status }) => status !== 200);
    for (const { status, body } of refused) expect([status, body.error.code]).toEqual([429, 'overloaded']);
    expect(refused.length).toBeGreaterThan(100);
    expect(done.length).toBeGreaterThan(1_000);
    const rows = await fine('select a from crowd where a >= 0 order by a');
    expect(rows.map(({ a }: { a: number }) => a)).toEqual(done);
    await fine(insert, [1]);
  });
});

describe('group commit in a small project', () => {
  it('keeps all inserts of a transaction together within the limit', {
    tags: 'long',
  }, async () => {
    const { body } = await rowhouse.call('POST', '/projects', { body: { name: 'Small', limit_mb: 20 } });
    const small = { slug: body.project.slug, id: body.project.id, key: body.api_key };
    const ask = (query: string, params: unknown[] = []) =>
      rowhouse.call('POST', `/projects/${small.slug}/query`, { key: small.key, body: { query, params } });
    await ask('create table t (a int, b text)');
    await ask('alter table t alter column b set storage plain');
    const insert = 'insert into t values ($1, repeat($2::text, $3::int))';
    let next = 0;
    const stored: number[] = [];
    const some = async (count: number, length: number) => {
      const numbers = Array.from({ length: count }, () => next++);
      const answers = await Promise.all(numbers.map((a) => ask(insert, [a, 'x', length])));
      answers.forEach(({ status, body: answer }, n) => {
        expect([200, 507], JSON.stringify(answer)).toContain(status);
        if (status === 200) stored.push(numbers[n] as number);
      });
      return answers.filter(({ status }) => status === 507).length;
    };
    await until(
      'they travel',
      async () => {
        await some(50, 1);
        const { body: found } = await ask(
          'select count(*)::int as n, count(distinct xmin::text)::int as transactions from t',
        );
        const [{ n, transactions }] = found.rows;
        return transactions < n - 50;
      },
      60_000,
    );
    for (let round = 0; round < 200 && (await some(50, 4000)) < 50; round++);
    const { body: found } = await ask('select a from t order by a');
    expect(found.rows.map(({ a }: { a: number }) => a)).toEqual(stored.sort((a, b) => a - b));
    const [row] = await asAdmin((admin) =>
      admin.query<{ bytes: number }>(sql`select pg_database_size(${databaseOf(small.id)})::float8 as bytes`),
    );
    const [empty] = await rowhouse.service.deps.control.query<{ bytes: number }>(
      sql`select empty_bytes::float8 as bytes from projects where id = ${small.id}`,
    );
    const mb = ((row?.bytes ?? 0) - (empty?.bytes ?? 0)) / 1024 / 1024;
    expect(mb).toBeGreaterThan(10);
    expect(mb).toBeLessThanOrEqual(20);
  });
});

describe('the profile of an insert', () => {
  it('is learned under load, and no other profile is forgotten for it', async () => {
    await fine('create table busy (a int)');
    const read = 'select a from busy where a = $1';
    const insert = 'insert into busy values ($1)';
    await until('the read is known', async () => {
      await run(read, [1]);
      return isPlain(await profileOf(read));
    });
    await atOnce(100, insert);
    expect(isPlain(await profileOf(insert))).toBe(true);
    expect(isPlain(await profileOf(read))).toBe(true);
    // A change of any table makes it unknown, and one more insert makes it known.
    await fine('create table another (a int)');
    expect(isPlain(await profileOf(insert))).toBe(false);
    await atOnce(100, insert);
    expect(isPlain(await profileOf(insert))).toBe(true);
  });

  it('is learned again under load after another statement has run code', async () => {
    await fine('create table loaded (a int)');
    await fine('create table coded (a int)');
    await fine(`create function look() returns trigger language plpgsql as $$ begin return new; end $$`);
    await fine('create trigger look before insert on coded for each row execute function look()');
    const insert = 'insert into loaded values ($1)';
    await makeShort(insert);
    let isOver = false;
    const load = Promise.all(
      Array.from({ length: 16 }, async (_, n) => {
        while (!isOver) expect((await run(insert, [n])).status).toBe(200);
      }),
    );
    try {
      await fine('insert into coded values (1)');
      expect(isPlain(await profileOf(insert))).toBe(false);
      await until('it is known again', async () => isPlain(await profileOf(insert)));
    } finally {
      // The tests behind this one would run under its load.
      isOver = true;
      await load;
    }
  });

  it('is learned in a batch', async () => {
    await fine('create table batched (a int)');
    const read = 'select a from batched where a = $1';
    await until('the read is known', async () => {
      await run(read, [1]);
      return isPlain(await profileOf(read));
    });
    const { status } = await rowhouse.call('POST', `/projects/${project.slug}/batch`, {
      key: project.key,
      body: { statements: [{ query: 'insert into batched values (1)' }] },
    });
    expect(status).toBe(200);
    expect(isPlain(await profileOf(read))).toBe(true);
  });
});

// Batches that are one write, when what is known of their statements is wrong or changes, when their session ends, and when their
// answers are large.
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { Session } from '../../src/postgres/wire/session.ts';
import { answerMemory } from '../../src/query/exchange/held-answer.ts';
import { Sequence } from '../../src/query/exchange/sequence.ts';
import { isPlain } from '../../src/query/sessions/statement-profiles.ts';
import { databaseOf } from '../../src/servers/databases/names.ts';
import { holdTransaction } from '../support/held-transaction.ts';
import { address, asAdmin, until, useTestService } from '../support/helpers.ts';

const rowhouse = useTestService({ spares: 1, connections: { budget: 10, share: 6 } });
let project: { slug: string; id: string; key: string };
beforeAll(async () => {
  project = await rowhouse.project('One write');
});

type Entry = { query: string; params?: unknown[]; expect_affected?: number };
const batch = (statements: Entry[], more: object = {}) =>
  rowhouse.call('POST', `/projects/${project.slug}/batch`, {
    key: project.key,
    body: { statements, ...more },
  });
const fine = async (query: string) => {
  const answer = await rowhouse.call('POST', `/projects/${project.slug}/query`, {
    key: project.key,
    body: { query },
  });
  expect(answer.status, JSON.stringify(answer.body)).toBe(200);
  return answer.body.rows;
};
const profileOf = async (query: string) => {
  const { profiles, parser } = rowhouse.service.deps.query;
  return profiles.of({ id: project.id }, await parser.parse(project, query));
};

/** How the batches ended that were sent as one write while `act` ran. */
async function sequencesIn(act: () => Promise<unknown>): Promise<boolean[]> {
  const run = vi.spyOn(Sequence.prototype, 'run');
  try {
    await act();
    await Promise.allSettled(run.mock.results.map(({ value }) => value as Promise<void>));
    return (run.mock.contexts as Sequence[]).map(({ hasRun }) => hasRun);
  } finally {
    run.mockRestore();
  }
}

/** Terminates the session that waits for a lock. */
const endWaiting = () =>
  until('it is terminated', () =>
    asAdmin(async (admin) => {
      const ended = await admin.query(sql`
        select pg_terminate_backend(pid) from pg_stat_activity
        where datname = ${databaseOf(project.id)} and wait_event_type = 'Lock'`);
      return ended.length > 0;
    }),
  );

/** Sent until it is one write. */
const makeOneWrite = (statements: Entry[], more: object = {}) =>
  until('it is one write', async () => {
    const ended = await sequencesIn(() => batch(statements, more));
    return ended.length === 1 && ended[0] === true;
  });

describe('a batch in one write', () => {
  it('is learned from batches alone, also in a project with code of its own', async () => {
    await fine('create table u (id int primary key, n int)');
    await fine('create function of_no_concern() returns int language sql as $$ select 1 $$');
    await makeOneWrite([
      { query: 'insert into u values ($1, 0) on conflict do nothing', params: [1] },
      { query: 'update u set n = n + 1 where id = $1', params: [1] },
      { query: 'delete from u where id = $1', params: [1] },
    ]);
  });

  it('is learned while many send it, although each run of unknown statements outdates what the catalog says', async () => {
    await fine('create table busy (id int primary key, n int)');
    await fine('insert into busy select n, 0 from generate_series(0, 11) n');
    await fine('create function of_others() returns int language sql as $$ select 1 $$');
    const run = vi.spyOn(Sequence.prototype, 'run');
    let isOver = false;
    const client = async (id: number) => {
      while (!isOver)
        await batch([
          { query: 'update busy set n = n + 1 where id = $1', params: [id] },
          { query: 'select n from busy where id = $1', params: [id] },
        ]);
    };
    const clients = Promise.all(Array.from({ length: 12 }, (_, id) => client(id)));
    await until('it is one write', async () => run.mock.contexts.length > 100, 20_000).finally(() => {
      isOver = true;
      run.mockRestore();
    });
    await clients;
  });

  it('runs one by one if a statement stopped being plain while it waited for a session', async () => {
    await fine('create table w (id int)');
    const statements = [{ query: 'select id from w' }, { query: 'select count(*)::int as n from w' }];
    await makeOneWrite(statements);
    const { profiles, sessions } = rowhouse.service.deps.query;
    const { takeIdle } = sessions;
    sessions.takeIdle = (...asked) => {
      profiles.forget(project.id, 'schema');
      return takeIdle(...asked);
    };
    const ended = await sequencesIn(async () => {
      expect((await batch(statements)).status).toBe(200);
    }).finally(() => {
      sessions.takeIdle = takeIdle;
    });
    expect(ended).toEqual([]);
  });

  it('whose statement writes although it was assumed only to read is not trusted again', async () => {
    await fine('create table seen (n int)');
    await fine(`create function note(n int) returns int language plpgsql as
      $$ begin insert into seen values (n); return n; end $$`);
    const first = { query: 'select 1 as one' };
    const statements = [first, { query: 'select note(1) as n' }];
    const profile = await profileOf('select note(1) as n');
    await makeOneWrite([first, { query: 'select 2 as two' }]);
    // As if the catalog had been wrong about it.
    Object.assign(profile, { wasPlain: true, trustedUntil: performance.now() + 60_000, usualMs: 1 });
    expect(isPlain(profile)).toBe(true);
    expect(await sequencesIn(() => batch(statements))).toEqual([false]);
    expect(profile.isDistrusted).toBe(true);
    expect(await fine('select n from seen')).toEqual([{ n: 1 }]);
  });

  it('that is terminated before its end is undone, and says so', async () => {
    await fine('create table x (id int primary key, n int)');
    await fine('insert into x values (1, 0), (2, 0)');
    const update = 'update x set n = n + 1 where id = $1 returning n';
    const statements = [1, 2].map((id) => ({ query: update, params: [id] }));
    await makeOneWrite(statements);
    const before = (await batch(statements)).body.results[0].rows[0].n;
    const release = await holdTransaction({ ...address(), database: databaseOf(project.id) }, (transaction) =>
      transaction.query(sql`select from x where id = 2 for update`),
    );
    const run = vi.spyOn(Sequence.prototype, 'run');
    const waiting = batch(statements);
    await endWaiting();
    const { status, body } = await waiting.finally(release);
    expect(run).toHaveBeenCalledOnce();
    run.mockRestore();
    expect([status, body.error.code]).toEqual([503, 'unavailable']);
    expect((await batch(statements)).body.results[0].rows).toEqual([{ n: before + 1 }]);
  });

  it('that runs one by one and is terminated before its commit is undone, too', async () => {
    await fine('create table y (id int primary key, n int)');
    await fine('insert into y values (1, 0), (2, 0)');
    const update = 'update y set n = n + 1 where id = $1';
    const statements = [1, 2].map((id) => ({ query: update, params: [id], expect_affected: 1 }));
    const release = await holdTransaction({ ...address(), database: databaseOf(project.id) }, (transaction) =>
      transaction.query(sql`select from y where id = 2 for update`),
    );
    const waiting = batch(statements);
    await endWaiting();
    const { status, body } = await waiting.finally(release);
    expect([status, body.error.code]).toEqual([503, 'unavailable']);
    expect(await fine('select sum(n)::int as n from y')).toEqual([{ n: 0 }]);
  });

  it('counts the memory of its answers, however late it is halted', async () => {
    await fine("create table big as select n, repeat('x', 1000) as text from generate_series(1, 200) n");
    const read = { query: 'select text from big limit $1::int', params: [1] };
    await makeOneWrite(Array.from({ length: 20 }, () => read));
    const take = vi.spyOn(answerMemory, 'take');
    // The cancel comes too late.
    const cancel = vi.spyOn(Session.prototype, 'cancel').mockResolvedValue();
    try {
      const ended = await sequencesIn(async () => {
        const { status, body } = await batch(Array.from({ length: 20 }, () => ({ ...read, params: [200] })));
        expect([status, body.results?.length]).toEqual([200, 20]);
      });
      expect(ended).toEqual([true]);
      expect(cancel).toHaveBeenCalledOnce();
      const counted = take.mock.calls.reduce((sum, [, bytes]) => sum + Math.max(0, bytes), 0);
      expect(counted).toBeGreaterThan(4_000_000);
    } finally {
      take.mockRestore();
      cancel.mockRestore();
    }
  });
});

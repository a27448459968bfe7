// Statements that do not end at their deadline. One that has only read has changed nothing, however it ends: its caller is never
// told that the outcome is unknown. Nor is a caller whose statement PostgreSQL reported as cancelled.
import { describe, expect, it } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { databaseOf } from '../../src/servers/databases/names.ts';
import { type Answer, asAdmin, until } from '../support/helpers.ts';
import { useOwnPostgres } from '../support/own-postgres.ts';

const own = useOwnPostgres({ connections: { budget: 30, share: 15 } });
type Project = { slug: string; id: string; key: string };
// Long enough to be found at work on a busy machine.
const timeout_ms = 3_000;

const post = ({ slug }: Project, path: string, key: string, body: object) =>
  own.rowhouse.call('POST', `/projects/${slug}/${path}`, { key, body });

/** Stops the backend that runs the statement, so that neither cancel nor terminate ends it, until the answer is there. */
async function unstoppable({ id }: Project, mark: string, send: () => Promise<Answer>): Promise<Answer> {
  const answer = send();
  const pids = await until('the statement runs', async () => {
    const rows = await asAdmin(
      (admin) =>
        admin.query<{ pid: number }>(sql`
          select pid from pg_stat_activity
          where datname = ${databaseOf(id)} and state = 'active' and query like ${`%${mark}%`}`),
      own.engine.address,
    );
    return rows.length > 0 && rows.map(({ pid }) => pid);
  });
  for (const pid of pids) process.kill(pid, 'SIGSTOP');
  try {
    return await answer;
  } finally {
    for (const pid of pids) process.kill(pid, 'SIGCONT');
  }
}

// Each stops the backends of a project of its own, and mostly waits.
describe.concurrent('a read that nothing ends', () => {
  const reading = 'select pg_sleep(20)';
  const cases: [string, (project: Project, reader: string) => Promise<Answer>][] = [
    [
      'with the scope query:read',
      (project, reader) => post(project, 'query', reader, { query: reading, timeout_ms }),
    ],
    [
      'in a function of the project',
      (project, reader) =>
        post(project, 'query', reader, { query: 'select slow(), pg_sleep(0)', timeout_ms }),
    ],
    [
      'with read_only',
      (project) => post(project, 'query', project.key, { query: reading, read_only: true, timeout_ms }),
    ],
    [
      'with read_only and max_affected',
      (project) =>
        post(project, 'query', project.key, { query: reading, read_only: true, max_affected: 1, timeout_ms }),
    ],
    [
      'in a batch that only reads',
      (project) =>
        post(project, 'batch', project.key, {
          statements: [{ query: reading }],
          read_only: true,
          timeout_ms,
        }),
    ],
    [
      'as a dry run',
      (project) =>
        post(project, 'query', project.key, {
          query: 'insert into things select 1 from pg_sleep(20)',
          dry_run: true,
          timeout_ms,
        }),
    ],
  ];
  it.each(cases)('is a timeout %s', async (_how, send) => {
    const project = await own.rowhouse.project('Reads');
    for (const query of [
      'create table things (n int)',
      "create function slow() returns void language plpgsql as 'begin perform pg_sleep(20); end'",
    ])
      expect((await post(project, 'query', project.key, { query })).status).toBe(200);
    const { body: issued } = await post(project, 'keys', own.rowhouse.accountKey, {
      name: 'reader',
      scopes: ['query:read'],
    });
    const { status, body } = await unstoppable(project, 'pg_sleep(', () => send(project, issued.api_key));
    expect([status, body.error.code], JSON.stringify(body)).toEqual([504, 'query_timeout']);
  });
});

describe.concurrent('a statement that nothing ends, with a key that may write,', () => {
  const xml = `('<a>' || repeat('<b/>', 6000) || '</a>')::xml`;
  const counts = '//*[count(//*[count(//*)>0])>0]';
  const late = 'select pg_sleep(20)';
  const prepare = async () => {
    const project = await own.rowhouse.project('Full');
    for (const query of [
      'create table things (n int)',
      'insert into things values (1)',
      `create function sum_slowly() returns bigint language plpgsql as
        'begin perform pg_sleep(20); return (select sum(n) from things); end'`,
      `create function catch_all() returns int language plpgsql as
        'begin perform count(*) from things; begin perform pg_sleep(20); exception when others then null; end; return 1; end'`,
      `create function write_first() returns int language plpgsql as
        'begin insert into things values (2); perform pg_sleep(20); return 1; end'`,
      `create function write_last() returns int language plpgsql as
        'begin begin perform pg_sleep(20); exception when others then null; end; insert into things values (3); return 1; end'`,
      'create view slow as select sum_slowly()',
    ])
      expect((await post(project, 'query', project.key, { query })).status, query).toBe(200);
    return project;
  };
  const left = async (project: Project) => {
    const { id } = project;
    await until('its backend has ended', async () => {
      const rows = await asAdmin(
        (admin) =>
          admin.query(
            sql`select from pg_stat_activity where datname = ${databaseOf(id)} and state = 'active'`,
          ),
        own.engine.address,
      );
      return rows.length === 0;
    });
    const { body } = await post(project, 'query', project.key, { query: 'select n from things order by n' });
    return body.rows.map(({ n }: { n: number }) => n);
  };

  const reads: Record<string, string> = {
    xpath: `select xpath('count(//*)', ${xml}), pg_sleep(20)`,
    xmltable: `select count(*) from pg_sleep(20), xmltable('//b' passing (${xml}) columns a text path '.')`,
    'a function of the project': 'select sum_slowly(), pg_sleep(0)',
    'one that catches a cancel': 'select catch_all(), pg_sleep(0)',
    'a view that calls one': 'select *, pg_sleep(0) from slow',
    'a query with WITH': `with x as materialized (select xmlforest(n) from things) select x.*, pg_sleep(20) from x`,
  };
  it.each(Object.entries(reads))('is a timeout if it has only read: %s', async (_what, query) => {
    const project = await prepare();
    const send = () => post(project, 'query', project.key, { query, timeout_ms });
    const { status, body } = await unstoppable(project, 'pg_sleep(', send);
    expect([status, body.error.code], JSON.stringify(body)).toEqual([504, 'query_timeout']);
    expect(await left(project)).toEqual([1]);
  });

  it.each([
    ['xpath', `select xpath('count(${counts})', ${xml})`],
    ['xmltable', `select count(*) from xmltable('${counts}' passing (${xml}) columns a text path '.')`],
  ])('is a timeout if it really ignores everything: %s', { timeout: 60_000 }, async (_what, query) => {
    const project = await prepare();
    const { status, body } = await post(project, 'query', project.key, { query, timeout_ms });
    expect([status, body.error.code], JSON.stringify(body)).toEqual([504, 'query_timeout']);
    expect(await left(project)).toEqual([1]);
  });

  it('is a timeout if it would have written later, and does not write', async () => {
    const project = await prepare();
    const send = () =>
      post(project, 'query', project.key, { query: 'select write_last(), pg_sleep(0)', timeout_ms });
    const { status, body } = await unstoppable(project, 'pg_sleep(', send);
    expect([status, body.error.code], JSON.stringify(body)).toEqual([504, 'query_timeout']);
    expect(await left(project)).toEqual([1]);
  });

  it.each([
    ['a function', 'select write_first(), pg_sleep(0)'],
    [
      'an insert',
      'insert into things select 2 from (values (1), (2)) as v (n) where n = 1 or pg_sleep(20) is null',
    ],
  ])('has an unknown outcome if it has written: %s', async (_what, query) => {
    const project = await prepare();
    const send = () => post(project, 'query', project.key, { query, timeout_ms });
    const { status, body } = await unstoppable(project, 'pg_sleep(', send);
    expect([status, body.error.code], JSON.stringify(body)).toEqual([503, 'outcome_unknown']);
  });

  it('has an unknown outcome if a part of it is committed', async () => {
    const project = await prepare();
    const query = 'do $$ begin insert into things values (2); commit; perform pg_sleep(20); end $$';
    const send = () => post(project, 'query', project.key, { query, timeout_ms });
    const { status, body } = await unstoppable(project, 'pg_sleep(', send);
    expect([status, body.error.code], JSON.stringify(body)).toEqual([503, 'outcome_unknown']);
    expect(await left(project)).toEqual([1, 2]);
  });

  it('runs again under its Idempotency-Key if it has only read', async () => {
    const project = await prepare();
    const send = () =>
      own.rowhouse.call('POST', `/projects/${project.slug}/query`, {
        key: project.key,
        body: { query: `${late}, sum_slowly()`, timeout_ms },
        headers: { 'idempotency-key': 'one' },
      });
    for (let time = 0; time < 2; time++) {
      const { status, body } = await unstoppable(project, 'pg_sleep(', send);
      expect([status, body.error.code], JSON.stringify(body)).toEqual([504, 'query_timeout']);
      expect(await left(project)).toEqual([1]);
    }
  });

  it('is unavailable if it has only read, and somebody else ended its session', async () => {
    const project = await prepare();
    const answer = post(project, 'query', project.key, { query: 'select sum_slowly(), pg_sleep(0)' });
    await until('it is ended', async () => {
      const ended = await asAdmin(
        (admin) =>
          admin.query(sql`
            select pg_terminate_backend(pid) from pg_stat_activity
            where datname = ${databaseOf(project.id)} and state = 'active' and query like '%sum_slowly(%'`),
        own.engine.address,
      );
      return ended.length > 0;
    });
    const { status, body } = await answer;
    expect([status, body.error.code], JSON.stringify(body)).toEqual([503, 'unavailable']);
  });
});

it('a statement that PostgreSQL cancelled is a timeout, whatever it has set', async () => {
  const project = await own.rowhouse.project('Cancelled');
  const query = `do $$ begin perform set_config('statement_timeout', '0', false); perform pg_sleep(100); end $$`;
  const answers = await Promise.all(
    Array.from({ length: 5 }, () => post(project, 'query', project.key, { query, timeout_ms: 700 })),
  );
  expect(answers.map(({ status, body }) => [status, body.error.code])).toEqual(
    answers.map(() => [504, 'query_timeout']),
  );
});

// Statements that do not end at their deadline. One that can only read has changed nothing, however it ends: its caller is never
// told that the outcome is unknown. Nor is a caller whose statement PostgreSQL reported as cancelled.
import { describe, expect, it } from 'vitest';
import { databaseOf } from '../src/engine/provision.ts';
import { sql } from '../src/postgres/sql.ts';
import { type Answer, asAdmin, until } from './helpers.ts';
import { useOwnPostgres } from './own-postgres.ts';

const own = useOwnPostgres({ connections: { budget: 30, share: 15 } });
type Project = { slug: string; id: string; key: string };
const timeout_ms = 1_500;

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

describe('a read that nothing ends', () => {
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
    expect([status, body.error.code]).toEqual([504, 'query_timeout']);
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

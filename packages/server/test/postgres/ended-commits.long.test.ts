// Statements that are ended at the worst moments: during their deferred triggers, and after their commit record was written, while
// they wait for a synchronous standby. Whatever ends them, "Nothing was changed" is said only where it is true.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Sql, sql } from '../../src/postgres/sql.ts';
import { databaseOf } from '../../src/servers/databases/names.ts';
import { type Answer, asAdmin, openTestService, type TestService, until } from '../support/helpers.ts';
import { type Pair, startPair } from '../support/standby.ts';

type Project = { slug: string; id: string; key: string };

const ends: (() => Promise<void>)[] = [];
let pair: Pair;
let service: TestService;
const projects = new Map<string, Project>();

beforeAll(async () => {
  pair = await startPair({ onEnd: (end) => ends.unshift(end) });
  service = await openTestService({ at: pair.address(), masterKey: pair.masterKey, spares: 0 });
  ends.unshift(service.stop);
  // 4 MB: always near its limit, so each write is checked before its commit.
  for (const limitMb of [4, 4_000]) {
    const { body } = await service.call('POST', '/projects', { body: { name: 'Ended', limit_mb: limitMb } });
    const project = { slug: body.project.slug, id: body.project.id, key: body.api_key };
    projects.set(limitMb === 4 ? 'near its limit' : 'far from its limit', project);
    for (const query of [
      'create table plain (id int primary key)',
      'create table deferred (id int primary key)',
      `create function write(id int, name text) returns int language plpgsql as
        $$ begin execute format('insert into %I values ($1)', name) using id; return 1; end $$`,
      'create operator <| (leftarg = int, rightarg = text, function = write)',
      `create function slow() returns trigger language plpgsql as
        $$ begin perform pg_sleep(20); return null; end $$`,
      `create constraint trigger slow after insert on deferred deferrable initially deferred
        for each row when (new.id > 0) execute function slow()`,
    ])
      expect((await post(project, 'query', { query })).status).toBe(200);
  }
}, 240_000);
afterAll(async () => {
  for (const end of ends) await end();
});

const post = ({ slug, key }: Project, path: string, body: object) =>
  service.call('POST', `/projects/${slug}/${path}`, { key, body });
const ask = <T>(text: Sql, database = 'postgres', node = pair.nodes[0]) =>
  asAdmin((admin) => admin.query<T>(text), { ...node.engine.address, database });

type Way = (on: Project, table: string, id: number, timeoutMs: number) => Promise<Answer>;

const ways: Record<string, Way> = {
  'a statement': (on, table, id, timeout_ms) =>
    post(on, 'query', { query: `insert into ${table} values ($1)`, params: [id], timeout_ms }),
  'a statement that looks like a read': (on, table, id, timeout_ms) =>
    post(on, 'query', { query: `select ${id} <| '${table}'`, timeout_ms }),
  'a statement that PostgreSQL cannot prepare': (on, table, id, timeout_ms) =>
    post(on, 'query', { query: `do $$ begin insert into ${table} values (${id}); end $$`, timeout_ms }),
  'a statement with max_affected': (on, table, id, timeout_ms) =>
    post(on, 'query', { query: `insert into ${table} values (${id})`, max_affected: 5, timeout_ms }),
  'a batch': (on, table, id, timeout_ms) =>
    post(on, 'batch', {
      statements: [{ query: `insert into ${table} values (${id})` }, { query: 'select 1' }],
      timeout_ms,
    }),
};
const run = (way: string, ...given: Parameters<Way>) => (ways[way] as Way)(...given);

const endings = ['by its deadline', 'by a cancel', 'by a termination'] as const;
type Ending = (typeof endings)[number];

let next = 1;
/** Runs one, and ends it as soon as its backend waits for `event`. */
async function endAt(
  event: 'PgSleep' | 'SyncRep',
  begin: () => Promise<Answer>,
  on: Project,
  ending: Ending,
) {
  const answer = begin();
  const pid = await until(`it waits (${event})`, async () => {
    const [row] = await ask<{ pid: number }>(sql`
      select pid from pg_stat_activity where datname = ${databaseOf(on.id)} and wait_event = ${event}`);
    return row?.pid;
  });
  // As some other administrator or a shutdown would.
  if (ending === 'by a cancel') await ask(sql`select pg_cancel_backend(${pid})`);
  if (ending === 'by a termination') await ask(sql`select pg_terminate_backend(${pid})`);
  return answer;
}

const isThere = async (on: Project, table: string, id: number) => {
  const rows = await ask(sql`select from ${sql.id(table)} where id = ${id}`, databaseOf(on.id));
  return rows.length > 0;
};

const cases = ['near its limit', 'far from its limit'].flatMap((where) =>
  Object.keys(ways).flatMap((way) => endings.map((ending) => [way, where, ending] as const)),
);

describe('ended during its deferred triggers,', () => {
  it.each(cases)('%s in a project %s, %s, is told the truth', async (way, where, ending) => {
    const on = projects.get(where) as Project;
    const id = next++;
    const timeoutMs = ending === 'by its deadline' ? 700 : 15_000;
    const { status, body } = await endAt(
      'PgSleep',
      () => run(way, on, 'deferred', id, timeoutMs),
      on,
      ending,
    );
    expect(status, JSON.stringify(body)).not.toBe(200);
    await sleep(100);
    expect(await isThere(on, 'deferred', id)).toBe(false);
    // PostgreSQL has said that it failed.
    if (ending !== 'by a termination') expect(body.error.code).not.toBe('outcome_unknown');
  });
});

describe('ended while its commit waits for a standby,', () => {
  it.each(cases)(
    '%s in a project %s, %s, is never told that nothing was changed',
    async (way, where, ending) => {
      const on = projects.get(where) as Project;
      const id = next++;
      const timeoutMs = ending === 'by its deadline' ? 700 : 15_000;
      const [receiver] = await ask<{ pid: number }>(
        sql`select pid from pg_stat_wal_receiver`,
        'postgres',
        pair.nodes[1],
      );
      if (!receiver) throw new Error('no receiver');
      process.kill(receiver.pid, 'SIGSTOP');
      const { status, body } = await endAt(
        'SyncRep',
        () => run(way, on, 'plain', id, timeoutMs),
        on,
        ending,
      ).finally(() => process.kill(receiver.pid, 'SIGCONT'));
      // Its commit record is written.
      expect(await isThere(on, 'plain', id)).toBe(true);
      expect([status, body.error?.code], JSON.stringify(body)).toEqual([503, 'outcome_unknown']);
      expect(body.error.message).not.toMatch(/nothing (was|has been) changed/i);
    },
  );
});

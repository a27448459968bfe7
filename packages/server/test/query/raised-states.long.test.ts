// A project's own code can raise any SQLSTATE. It is answered, and decides nothing: no retry, no alarm, no "disk full".
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { useTestService } from '../support/helpers.ts';

const rowhouse = useTestService();
type Project = { slug: string; id: string; key: string };
let project: Project;
let neighbour: Project;

const call = (path: string, body: unknown, headers: Record<string, string> = {}) =>
  rowhouse.call('POST', `/projects/${project.slug}${path}`, { key: project.key, body, headers });
const run = (query: string) => call('/query', { query });

/** Codes that mean something to the service, or would, if PostgreSQL itself had said them. */
const states = [
  ...['53100', '53200', '53300', '54000', '57014', '57P01', '57P03', '58030', '55P03', 'XX000'],
  ...[
    '40001',
    '40P01',
    '25001',
    '2D000',
    '25006',
    '08P01',
    '08006',
    '28P01',
    '3D000',
    '3F000',
    '42P01',
    '42703',
  ],
  ...['RH001', 'RH002', 'RH507'],
];

/** Each is counted by a sequence, which no rollback takes back. */
const ways: [string, (state: string) => Promise<{ status: number; body: { error: Failure } }>][] = [
  [
    'a DO block',
    (state) =>
      run(`do $$ begin perform nextval('runs'); raise exception 'mine' using errcode = '${state}'; end $$`),
  ],
  ['a function in a select', (state) => run(`select fail('${state}')`)],
  ['an operator', (state) => run(`select 1 !!! '${state}'`)],
  ['a trigger', (state) => run(`insert into triggered values ('${state}')`)],
  ['a trigger, by the tables', (state) => call('/tables/triggered', { state })],
  ['a trigger, by an import', (state) => importInto('triggered', state)],
  ['a deferred trigger', (state) => run(`insert into deferred values ('${state}')`)],
  ['a deferred trigger, by the tables', (state) => call('/tables/deferred', { state })],
  ['a domain', (state) => run(`insert into domained values ('${state}')`)],
  ['a domain, by the tables', (state) => call('/tables/domained', { state })],
  ['a check', (state) => run(`insert into checked values ('${state}')`)],
  [
    'a batch',
    (state) => call('/batch', { statements: [{ query: 'select 1' }, { query: `select fail('${state}')` }] }),
  ],
  [
    'caught and raised again',
    (state) => run(`do $$ begin perform fail('${state}'); exception when others then raise; end $$`),
  ],
];

type Failure = { code: string; message: string; details?: { retryable?: boolean }; sql?: { state: string } };

const importInto = (table: string, state: string) =>
  rowhouse.call('POST', `/projects/${project.slug}/tables/${table}`, {
    key: project.key,
    raw: `state\n${state}\n`,
    headers: { 'content-type': 'text/csv' },
  });

async function runs(): Promise<number> {
  const { body } = await run('select case when is_called then last_value else 0 end::int as n from runs');
  return body.rows[0].n;
}

beforeAll(async () => {
  project = await rowhouse.project('Raises');
  neighbour = await rowhouse.project('Neighbour');
  for (const query of [
    'create sequence runs',
    `create function fail(state text) returns int language plpgsql as $$
       begin perform nextval('public.runs'); raise exception 'mine' using errcode = state; end $$`,
    `create function fail2(n int, state text) returns int language sql as 'select public.fail(state)'`,
    'create operator !!! (leftarg = int, rightarg = text, function = fail2)',
    `create function on_write() returns trigger language plpgsql as $$ begin perform public.fail(new.state); return new; end $$`,
    'create table triggered (state text)',
    'create trigger fail before insert on triggered for each row execute function on_write()',
    'create table deferred (state text)',
    'create constraint trigger fail after insert on deferred deferrable initially deferred for each row execute function on_write()',
    'create domain failing as text check (fail(value) > 0)',
    'create table domained (state failing)',
    'create table checked (state text check (fail(state) > 0))',
  ])
    expect([query, (await run(query)).status]).toEqual([query, 200]);
});

beforeEach(async () => {
  await run('alter sequence runs restart');
});

describe.each(ways)('a state raised by %s', (_way, act) => {
  it('is answered by its code, and the statement runs once', async () => {
    for (const [n, state] of states.entries()) {
      const { status, body } = await act(state);
      const seen = `${state}: ${JSON.stringify(body)}`;
      expect([400, 403, 409, 422], seen).toContain(status);
      expect(['sql_error', 'conflict', 'constraint_violation'], seen).toContain(body.error.code);
      expect(body.error.sql?.state, seen).toBe(state);
      expect(body.error.message, seen).toContain('mine');
      expect(body.error.details?.retryable ?? false, seen).toBe(false);
      expect(await runs(), `${seen}: ran more than once`).toBe(n + 1);
    }
    const other = await rowhouse.call('POST', `/projects/${neighbour.slug}/query`, {
      key: neighbour.key,
      body: { query: 'select 1 as fine' },
    });
    expect(other.body.rows).toEqual([{ fine: 1 }]);
    const metrics = await rowhouse.call('GET', '/metrics');
    expect(metrics.body).toMatch(/rowhouse_writes_refused_total\{reason="server_full"\} 0/);
    expect(metrics.body).toMatch(/rowhouse_writes_refused_total\{reason="project_full"\} 0/);
  });
});

it('a raised SQLSTATE near the limit, where statements are measured, decides nothing either', async () => {
  const { body } = await rowhouse.call('POST', '/projects', { body: { name: 'Small', limit_mb: 5 } });
  const [slug, key] = [body.project.slug, body.api_key];
  const inSmall = (query: string) =>
    rowhouse.call('POST', `/projects/${slug}/query`, { key, body: { query } });
  for (const query of [
    'create sequence runs',
    `create function late() returns trigger language plpgsql as $$
       begin perform nextval('public.runs'); raise exception 'mine' using errcode = new.state; end $$`,
    'create table t (state text)',
    'create constraint trigger late after insert on t deferrable initially deferred for each row execute function late()',
  ])
    expect((await inSmall(query)).status).toBe(200);
  for (const [n, state] of ['RH507', '25001', '2D000', '53100'].entries()) {
    const { status, body: answer } = await inSmall(`insert into t values ('${state}')`);
    expect([status, answer.error.code, answer.error.sql?.state]).toEqual([400, 'sql_error', state]);
    const { body: counted } = await inSmall('select last_value::int as n from runs');
    expect(counted.rows).toEqual([{ n: n + 1 }]);
  }
});

it('a repeated request whose first committed and then raised gets the same answer and does not run again', async () => {
  for (const [n, state] of ['57P01', '53100', '40001', '55P03'].entries()) {
    const query = `do $$ begin perform nextval('runs'); commit; raise exception 'mine' using errcode = '${state}'; end $$`;
    const headers = { 'idempotency-key': `raised-${state}` };
    const first = await call('/query', { query }, headers);
    const second = await call('/query', { query }, headers);
    expect(second.status).toBe(first.status);
    expect(second.headers['idempotency-replayed']).toBe('true');
    expect(await runs()).toBe(n + 1);
  }
});

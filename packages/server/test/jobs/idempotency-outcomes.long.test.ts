// A request that may have committed something never runs again under its Idempotency-Key, however it ended.
import { randomUUID } from 'node:crypto';
import { request as httpRequest } from 'node:http';
import { beforeAll, describe, expect, it } from 'vitest';
import {
  type Answer,
  api,
  openSecondProcess,
  type TestService,
  until,
  useTestService,
} from '../support/helpers.ts';

const rowhouse = useTestService();
type Project = { slug: string; id: string; key: string };

const send = (
  { slug, key }: Project,
  body: object,
  header: string,
  path = 'query',
  at: TestService = rowhouse,
): Promise<Answer> =>
  at.call('POST', `/projects/${slug}/${path}`, { key, body, headers: { 'idempotency-key': header } });
const run = async ({ slug, key }: Project, query: string) => {
  const { status, body } = await rowhouse.call('POST', `/projects/${slug}/query`, { key, body: { query } });
  expect(status, JSON.stringify(body)).toBe(200);
  return body.rows;
};
const count = async (project: Project) => (await run(project, 'select count(*)::int as n from t'))[0].n;

const withTable = async () => {
  const project = await rowhouse.project();
  await run(project, 'create table t (id int)');
  await run(
    project,
    `create procedure work(seconds float8) language plpgsql as $$ begin
       insert into t values (1); commit; perform pg_sleep(seconds); insert into t values (2); end $$`,
  );
  return project;
};
const outcome = ({ status, body }: Answer) => [status, body.error?.code];
const unknown = [409, 'outcome_unknown'];

describe('under an Idempotency-Key, a statement that commits by itself and', () => {
  const texts: [name: string, text: string][] = [
    ['is a procedure', 'call work(30)'],
    ['is a DO block', 'do $$ begin insert into t values (1); commit; perform pg_sleep(30); end $$'],
    [
      'takes the cancel for an error like others',
      `do $$ begin insert into t values (1); commit;
         begin perform pg_sleep(30); exception when query_canceled then perform pg_sleep(30); end; end $$`,
    ],
    [
      'is too large to be parsed',
      `do $$ begin insert into t values (1); commit; perform pg_sleep(30); end $$ /*${'x'.repeat(1024 * 1024)}*/`,
    ],
  ];
  it.each(texts)('%s never runs again after its deadline', async (_name, query) => {
    const project = await withTable();
    const header = randomUUID();
    const body = { query, timeout_ms: 500 };
    expect((await send(project, body, header)).status).toBe(504);
    expect(await count(project)).toBe(1);
    for (let n = 0; n < 2; n++) expect(outcome(await send(project, body, header))).toEqual(unknown);
    expect(await count(project)).toBe(1);
    // Another key is another request.
    expect((await send(project, { query: 'insert into t values (3)' }, randomUUID())).status).toBe(200);
  });

  it('fails for a temporary reason gets the same answer again', async () => {
    const project = await withTable();
    const header = randomUUID();
    const query = `do $$ begin insert into t values (1); commit; raise 'later' using errcode = '40001'; end $$`;
    const first = await send(project, { query }, header);
    expect(first.body.error.sql.state).toBe('40001');
    const again = await send(project, { query }, header);
    expect([again.status, again.headers['idempotency-replayed']]).toEqual([first.status, 'true']);
    expect(again.body.error).toEqual(first.body.error);
    expect(await count(project)).toBe(1);
  });

  it('is stopped halfway by limit_mb gets the same answer again', async () => {
    const { body: made } = await rowhouse.call('POST', '/projects', { body: { name: 'Half', limit_mb: 60 } });
    const project = { ...made.project, key: made.api_key };
    await run(project, 'create table t (id int, v text)');
    const header = randomUUID();
    const body = {
      query: `do $$ begin for i in 1..200 loop
        insert into t select n, repeat('x', 1000) from generate_series(1, 1000) as n; commit; end loop; end $$`,
    };
    const first = await send(project, body, header);
    expect(outcome(first)).toEqual([507, 'project_full']);
    const committed = await count(project);
    expect(committed).toBeGreaterThan(0);
    const again = await send(project, body, header);
    expect([...outcome(again), again.headers['idempotency-replayed']]).toEqual([507, 'project_full', 'true']);
    expect(await count(project)).toBe(committed);
  });

  it('loses its caller never runs again', async () => {
    const second = await openSecondProcess(rowhouse);
    const project = await withTable();
    await second.app.listen({ port: 0, host: '127.0.0.1' });
    const { port } = second.app.server.address() as { port: number };
    const header = randomUUID();
    const body = { query: 'call work(30)' };
    const headers = {
      'x-api-key': project.key,
      'content-type': 'application/json',
      'idempotency-key': header,
    };
    const path = `${api}/projects/${project.slug}/query`;
    const hanging = httpRequest({ port, host: '127.0.0.1', method: 'POST', path, headers });
    hanging.on('error', () => {});
    hanging.end(JSON.stringify(body));
    await until('its first row is committed', async () => (await count(project)) === 1);
    hanging.destroy();
    const answer = await until('it has ended', async () => {
      const repeat = await send(project, body, header);
      return repeat.body.error?.details?.retryable !== true && repeat;
    });
    expect(outcome(answer)).toEqual(unknown);
    expect(await count(project)).toBe(1);
    await second.stop();
  });

  it('cannot run in a transaction never runs again', async () => {
    const project = await withTable();
    await run(
      project,
      'create function slow(int) returns int language plpgsql immutable as $$ begin perform pg_sleep(20); return $1; end $$',
    );
    await run(project, 'insert into t values (1)');
    const header = randomUUID();
    const body = { query: 'create index concurrently slow_index on t (slow(id))', timeout_ms: 500 };
    expect((await send(project, body, header)).status).toBe(504);
    expect(outcome(await send(project, body, header))).toEqual(unknown);
  });

  it("is lost in Neon's protocol never runs again", async () => {
    const project = await withTable();
    const { body: place } = await rowhouse.call('GET', `/projects/${project.slug}/connection`);
    const header = randomUUID();
    const neon = (query: string) =>
      rowhouse.call('POST', '/sql', {
        key: '',
        headers: { 'neon-connection-string': place.connection.url, 'idempotency-key': header },
        body: { query, params: [] },
      });
    const query =
      'with i as (insert into t values (1) returning id) select pg_terminate_backend(pg_backend_pid()) from i';
    const first = await neon(query);
    expect(first.status).toBeGreaterThanOrEqual(400);
    const again = await neon(query);
    expect(again.headers['idempotency-replayed']).toBeUndefined();
    expect(JSON.stringify(again.body)).toMatch(/may have taken effect|not known/);
  });
});

describe('a statement that was certainly rolled back leaves its Idempotency-Key usable', () => {
  let project: Project;
  beforeAll(async () => {
    project = await withTable();
  });
  const bodies: [name: string, path: string, body: object][] = [
    ['a statement', 'query', { query: 'insert into t select 1 from (select pg_sleep(30)) as s' }],
    ['a read', 'query', { query: 'select pg_sleep(30)' }],
    [
      'a batch',
      'batch',
      { statements: [{ query: 'insert into t values (1)' }, { query: 'select pg_sleep(30)' }] },
    ],
    [
      'a DO block in a transaction',
      'query',
      { query: 'do $$ begin perform pg_sleep(30); end $$', max_affected: 1 },
    ],
  ];
  it.each(bodies)('after a 504: %s', async (_name, path, body) => {
    const before = await count(project);
    const header = randomUUID();
    const limited = { ...body, timeout_ms: 300 };
    for (let n = 0; n < 2; n++) {
      const answer = await send(project, limited, header, path);
      expect([...outcome(answer), answer.headers['idempotency-replayed']]).toEqual([
        504,
        'query_timeout',
        undefined,
      ]);
    }
    expect(await count(project)).toBe(before);
  });
});

it('a statement that had to be terminated, so that its end is unknown, never runs again', async () => {
  const project = await withTable();
  const header = randomUUID();
  // It does not hear the cancel; whether it was committed when the connection was cut is not known.
  await run(
    project,
    `create function deaf() returns int language plpgsql as $$ begin
       loop begin perform pg_sleep(30); return 1; exception when query_canceled then null; end; end loop; end $$`,
  );
  const body = { query: 'insert into t select deaf()', timeout_ms: 300 };
  expect((await send(project, body, header)).status).toBe(504);
  expect(outcome(await send(project, body, header))).toEqual(unknown);
});

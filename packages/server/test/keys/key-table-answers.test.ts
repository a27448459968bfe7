// A key for some tables that may manage the project asks every endpoint of the OpenAPI document, in several ways. No answer,
// and no error message, names a table that the key does not list.
import { beforeAll, describe, expect, it } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { type Answer, api, until, useTestService } from '../support/helpers.ts';
import { type Route, readOpenApi } from '../support/open-api.ts';

const rowhouse = useTestService();
/** In names, columns, comments and values: whoever sees one of them has seen what the key must not see. */
const secret = /zquartz/i;

type Operation = { requestBody?: { content: Record<string, { example?: unknown }> } };
let routes: Route<Operation>[];
let slug: string;
let id: string;
let whole: string;
let limited: string;
let ids: string[];

const run = (query: string) =>
  rowhouse.call('POST', `/projects/${slug}/query`, { key: whole, body: { query } });

beforeAll(async () => {
  ({ slug, key: whole, id } = await rowhouse.project('Answers'));
  for (const query of [
    'create schema zquartz_vault',
    'create table zquartz_payroll (id int primary key, zquartz_salary int check (zquartz_salary > 0))',
    'create table zquartz_vault.gold (id int primary key)',
    'create table "Zquartz ""odd"".name" (id int primary key)',
    'insert into zquartz_payroll select n, n from generate_series(1, 100) n',
    'create table staff (id int primary key, name text unique, payroll int references zquartz_payroll)',
    "insert into staff values (1, 'Ann', 1)",
    'create view rich as select staff.name, zquartz_salary as pay from staff join zquartz_payroll on zquartz_payroll.id = payroll',
    `create function zquartz_log() returns trigger language plpgsql as $$ begin insert into zquartz_payroll values (-1, -1); return new; end $$`,
    'create table logged (a int)',
    // Types of columns: rows of another table, arrays of them, what contains them, and a default that names the type.
    'create table zquartz_coins (id int, amount int)',
    'create type purse as (coins zquartz_coins, name text)',
    'create domain chest as zquartz_coins',
    `create table owners (id int primary key, one zquartz_coins, many zquartz_coins[], purse purse, chest chest,
      set zquartz_coins default '(1,2)'::zquartz_coins, mail text default 'none'::text)`,
    "insert into owners values (1, '(1,2)', '{\"(1,2)\"}', row(row(1, 2)::zquartz_coins, 'a'), '(1,2)')",
    'create view holders as select id, one, purse from owners',
    'create trigger zquartz_log before insert on logged for each row execute function zquartz_log()',
  ])
    expect((await run(query)).status, query).toBe(200);
  const issue = async (body: object) => {
    const answer = await rowhouse.call('POST', `/projects/${slug}/keys`, { key: whole, body });
    expect(answer.status, JSON.stringify(answer.body)).toBe(201);
    return answer.body as { api_key: string; key: { id: string } };
  };
  const scopes = ['tables:read', 'tables:write', 'auth', 'manage'];
  const tables = ['staff', 'public.rich', 'logged', 'owners', 'holders'];
  limited = (await issue({ name: 'limited', scopes, tables })).api_key;
  const others = [
    await issue({ name: 'zquartz kiosk', scopes: ['tables:read'], tables: ['zquartz_payroll'] }),
    await issue({
      name: 'both of zquartz',
      scopes: ['tables:read'],
      tables: ['staff', 'zquartz_vault.gold'],
    }),
    await issue({ name: 'all of zquartz', scopes: ['query'] }),
  ];
  // A compaction that skips a table, and one row of each kind of job as the service stores them.
  const report = {
    tables: 2,
    rows: 7,
    skipped: [{ entry: 'TABLE zquartz_payroll', reason: 'relation "zquartz_vault.gold" does not exist' }],
    skipped_count: 1,
  };
  const error = {
    code: 'invalid_dump',
    message: 'zquartz_payroll is broken',
    hint: 'zquartz',
    details: { table: 'zquartz_payroll' },
  };
  ids = others.map(({ key }) => key.id);
  for (const [index, kind] of ['import', 'branch', 'reset', 'restore', 'move'].entries())
    for (const status of ['done', 'failed', 'running']) {
      const job = `00job${index}${status}`.padEnd(16, '0').slice(0, 16);
      ids.push(job);
      await rowhouse.service.deps.control.change(sql`
        insert into jobs (id, kind, status, account_id, project_id, alive_until, ended_at, details, error, result)
        select ${job}, ${kind}, ${status}, account_id, id, now() + interval '1 hour',
               case when ${status} <> 'running' then now() end, '{"table": "zquartz_payroll", "phase": "zquartz"}',
               case when ${status} = 'failed' then ${JSON.stringify(error)}::jsonb end,
               case when ${status} = 'done' then ${JSON.stringify(report)}::jsonb end
        from projects where id = ${id}`);
    }
  ({ routes } = await readOpenApi<Operation>(rowhouse));
});

const seenBy = (answer: Answer) => `${JSON.stringify(answer.body)} ${JSON.stringify(answer.headers)}`;

/** Bodies for an operation: its example, the smallest, and one that is wrong everywhere. */
function bodiesOf({ requestBody }: Operation): (object | undefined)[] {
  const example = requestBody?.content['application/json']?.example;
  if (!requestBody) return [undefined];
  return [...(example ? [example as object] : []), {}, { nobody_knows: 1 }];
}

/** Without the project, the others have nothing to tell. */
const isLast = ({ method, path }: { method: string; path: string }) =>
  method === 'DELETE' && path.endsWith('/projects/{slug}');

describe('a key for some tables', () => {
  it('is told of no other table while a compaction works on one, and skips it', async () => {
    const holder = run(
      'do $$ begin lock table zquartz_payroll, zquartz_vault.gold, staff; perform pg_sleep(4); end $$',
    );
    await new Promise((resolve) => setTimeout(resolve, 300));
    const started = await rowhouse.call('POST', `/projects/${slug}/compact`, { key: limited });
    expect(started.status).toBe(202);
    const answers = [started];
    await until(
      'it has ended',
      async () => {
        const answer = await rowhouse.call('GET', `/projects/${slug}/compact`, { key: limited });
        answers.push(answer);
        return answer.body.compaction?.status !== 'running';
      },
      60_000,
    );
    for (const answer of answers) expect(seenBy(answer)).not.toMatch(secret);
    await holder;
    const own = await rowhouse.call('GET', `/projects/${slug}/compact`, { key: whole });
    const shown = await rowhouse.call('GET', `/projects/${slug}/compact`, { key: limited });
    // The test is worth nothing if nothing was skipped.
    expect(JSON.stringify(own.body.compaction.skipped)).toMatch(
      /zquartz_payroll.*gold|gold.*zquartz_payroll/,
    );
    expect(shown.body.compaction.skipped.map(({ table }: { table: string }) => table)).toEqual(
      own.body.compaction.skipped
        .map(({ table }: { table: string }) => table)
        .filter((name: string) => !secret.test(name)),
    );
    expect(shown.body.compaction.skipped).not.toEqual([]);
    expect(shown.body.compaction.skipped_count).toBe(shown.body.compaction.skipped.length);
  }, 90_000);

  it('sees only keys that reach no more than it does', async () => {
    const names = async (key: string) =>
      (await rowhouse.call('GET', `/projects/${slug}/keys`, { key })).body.keys.map(
        ({ name }: { name: string }) => name,
      );
    expect(await names(limited)).toEqual(['limited']);
    expect((await names(whole)).length).toBe(5);
    const { body } = await rowhouse.call('POST', `/projects/${slug}/keys`, {
      key: limited,
      body: { name: 'smaller', scopes: ['tables:read'], tables: ['staff'] },
    });
    expect(await names(limited)).toEqual(['limited', 'smaller']);
    // A key that it does not see cannot be told from one that does not exist, and lives on.
    const end = (key: string) => rowhouse.call('DELETE', `/projects/${slug}/keys/${key}`, { key: limited });
    const all = (await rowhouse.call('GET', `/projects/${slug}/keys`, { key: whole })).body.keys;
    for (const { name, id: other } of all) {
      if (['limited', 'smaller'].includes(name)) continue;
      const answer = await end(other);
      expect([answer.status, answer.body.error.code], name).toEqual([404, 'key_not_found']);
    }
    expect((await end(body.key.id)).status).toBe(200);
    const after = (await rowhouse.call('GET', `/projects/${slug}/keys`, { key: whole })).body.keys;
    expect(after.filter(({ status }: { status: string }) => status === 'revoked')).toHaveLength(1);
  });

  it('still sees how its jobs go', async () => {
    const { status, body } = await rowhouse.call('GET', `${api}/jobs`, { key: limited });
    expect(status, JSON.stringify(body)).toBe(200);
    const done = body.jobs.filter(({ status }: { status: string }) => status === 'done');
    expect(done).toHaveLength(5);
    for (const job of done) expect(job.result).toEqual({ tables: 2, rows: 7, skipped_count: 1 });
    const failed = body.jobs.filter(({ status }: { status: string }) => status === 'failed');
    for (const job of failed) expect(job.error.code).toBe('invalid_dump');
    const seen = await rowhouse.call('GET', `${api}/jobs`, { key: whole });
    expect(JSON.stringify(seen.body)).toMatch(secret);
  });

  it('learns the name of a table from no type of a column', async () => {
    type Request = [method: string, path: string, body?: unknown, headers?: Record<string, string>];
    const filters = ['eq.1', 'gt.(1,2)', 'like.x', 'cs.{1}', 'fts.x'];
    const columns = ['one', 'many', 'purse', 'chest', 'set'];
    const values = [5, 'x', { coins: 5 }, { coins: { id: 'x' } }, [{ id: 'x' }]];
    const requests: Request[] = [
      ['GET', 'schema'],
      ...['owners', 'holders'].flatMap((table): Request[] => [
        ['GET', `tables/${table}`],
        ['GET', `tables/${table}?numbers=strings`],
        ['GET', `tables/${table}?order=one`],
        ['GET', `tables/${table}?select=one->amount,purse->coins`],
        ['GET', `tables/${table}`, undefined, { accept: 'text/csv' }],
      ]),
      ...columns.flatMap((column): Request[] => [
        ...['int', 'text', 'json', 'int[]', 'purse'].map(
          (type): Request => ['GET', `tables/owners?select=${column}::${encodeURIComponent(type)}`],
        ),
        ...filters.map((filter): Request => ['GET', `tables/owners?${column}=${encodeURIComponent(filter)}`]),
        ['GET', `tables/owners?order=${column}&limit=1`],
        ['GET', `tables/owners?${column}->x=eq.1`],
        ['DELETE', `tables/owners?${column}=like.x`],
        ['POST', 'tables/owners', `id,${column}\n7,x\n`, { 'content-type': 'text/csv' }],
        ['POST', `tables/owners?on_conflict=${column}&resolution=merge`, { id: 8 }],
        ...values.flatMap((value): Request[] => [
          ['POST', 'tables/owners', { id: 9, [column]: value }],
          ['POST', 'tables/owners', [{ id: 1, [column]: value }, { id: 10 }]],
          ['PATCH', 'tables/owners?id=eq.1&numbers=strings', { [column]: value }],
        ]),
      ]),
      ['POST', 'tables/owners?numbers=strings', { id: 11 }],
    ];
    const answers = { limited: '', whole: '' };
    const found: string[] = [];
    for (const [who, key] of [
      ['limited', limited],
      ['whole', whole],
    ] as const)
      for (const [method, path, body, headers] of requests) {
        const sent =
          typeof body === 'string' ? { raw: body } : body !== undefined && { body: body as object };
        const answer = await rowhouse.call(method, `/projects/${slug}/${path}`, {
          key,
          ...sent,
          ...(headers && { headers }),
        });
        const seen = seenBy(answer);
        answers[who] += seen;
        if (who === 'limited' && secret.test(seen))
          found.push(`${method} ${path} ${JSON.stringify(body)} ${seen}`);
      }
    expect(found).toEqual([]);
    // What is shown instead, and to whom the name is shown.
    expect(answers.limited).toMatch(/"types":\["int4","record","record\[\]"/);
    expect(answers.limited).toMatch(/"type":"record\[\]"/);
    expect(answers.limited).toContain(`'none'::text`);
    expect(answers.whole).toMatch(/"types":\["int4","zquartz_coins","zquartz_coins\[\]"/);
    expect(answers.whole).not.toContain('is_row');
    expect(answers.whole).toMatch(/cannot (?:cast|be cast)[^"]*zquartz_coins|does not fit zquartz_coins/);
  });

  it('finds no secret in any answer of any endpoint', async () => {
    const found: string[] = [];
    let answered = 0;
    const ask = async (method: string, path: string, body?: object) => {
      const answer = await rowhouse.call(method, path, { key: limited, ...(body && { body }) });
      if (answer.body?.error?.code !== 'route_not_found') answered++;
      if (secret.test(seenBy(answer))) found.push(`${method} ${path} ${seenBy(answer).slice(0, 300)}`);
    };
    const inOrder = [...routes.filter((route) => !isLast(route)), ...routes.filter(isLast)];
    for (const { method, path, operation } of inOrder) {
      // What is not under the prefix of the API is for everybody.
      if (!path.startsWith(api)) continue;
      const short = path.replace('{slug}', slug);
      const places = short.includes('{table}')
        ? ['staff', 'rich', 'logged', 'owners', 'holders'].map((name) => short.replace('{table}', name))
        : /\{\w+\}/.test(short)
          ? ids.map((one) => short.replace(/\{\w+\}/g, one))
          : [short];
      for (const place of places) {
        for (const body of bodiesOf(operation)) await ask(method, place, body);
        if (method === 'GET')
          for (const query of ['limit=1', 'nobody_knows=1', 'select=*', 'select=*,zz(*)', 'count=exact'])
            await ask(method, `${place}?${query}`);
      }
    }
    expect(found).toEqual([]);
    expect(answered).toBeGreaterThan(500);
  }, 120_000);
});

// A key for some tables cannot tell a table that it may not use from one that does not exist.
import { beforeAll, describe, expect, it } from 'vitest';
import { type LoginAs, newUser, seatOf, type User } from '../support/end-users.ts';
import { type Answer, useTestService } from '../support/helpers.ts';

const rowhouse = useTestService();
let slug: string;
let all: string;
let some: string;
let loginAs: LoginAs;
let ann: User;

/** As long as the name of the hidden table, and as unlike those that are seen. */
const [hidden, missing] = ['payroll', 'zzzzzzz'];

const call = (key: string, method: string, rest: string, given: object = {}) =>
  rowhouse.call(method, `/projects/${slug}/${rest}`, { key, ...given });
const csv = (raw: string) => ({ raw, headers: { 'content-type': 'text/csv' } });

beforeAll(async () => {
  const project = await rowhouse.project('Sight');
  ({ slug, key: all } = project);
  for (const query of [
    'create table payroll (id int primary key, salary int check (salary > 0))',
    'insert into payroll values (1, 100)',
    `create table staff (id int primary key, name text, payroll_id int references payroll, boss int references staff)`,
    'create table staff_payroll (staff int references staff, payroll int references payroll, primary key (staff, payroll))',
    'create table notes (id int primary key, staff_id int references staff)',
    "insert into staff values (1, 'Ann', 1, null), (2, 'Bob', null, 1)",
    'insert into staff_payroll values (1, 1)',
    'create view rich as select staff.name, salary from staff join payroll on payroll.id = payroll_id',
    'create schema vault',
    'create table vault.gold (id int primary key)',
    'create table logged (a int)',
    `create function log_it() returns trigger language plpgsql as $$ begin
       insert into payroll values (new.a, 1); return new; end $$`,
    'create trigger log_it before insert on logged for each row execute function log_it()',
    'create view broken as select 1 as a',
    `create function look() returns int language plpgsql stable as $$ begin return (select count(*) from gone_table); end $$`,
    'create or replace view broken as select look() as a',
    "create type mood as enum ('ok', 'sad')",
    "create type hidden_mood as enum ('ok', 'sad')",
    'create domain hidden_name as text',
    'create domain link as regclass',
    'create text search configuration hidden_words (copy = simple)',
    'create function hidden_number() returns int language sql as $$ select 1 $$',
    "create table feelings (id int primary key default hidden_number(), m mood default 'ok', l link, at date default current_date)",
    'insert into feelings (id) values (1)',
    'alter table feelings enable row level security',
    'create policy everybody on feelings to authenticated, anon using (true) with check (true)',
    'grant select, insert, update on feelings to authenticated, anon',
  ])
    expect((await call(all, 'POST', 'query', { body: { query } })).body.ok, query).toBe(true);
  const { body } = await rowhouse.call('POST', `/projects/${slug}/keys`, {
    body: {
      name: 'some',
      scopes: ['tables:read', 'tables:write'],
      tables: ['staff', 'notes', 'rich', 'logged', 'broken', 'feelings'],
    },
  });
  some = body.api_key;
  loginAs = await seatOf(rowhouse, project);
  ann = await newUser(rowhouse, project);
});

/** All that a caller sees of an answer, with the name it gave taken out. */
const seen = ({ status, body, headers }: Answer, name: string) => [
  status,
  JSON.stringify({ ...body, request_id: '' }).replaceAll(name, '…'),
  Object.keys(headers).filter((header) => !['content-length', 'date'].includes(header)),
];

type Asked = [what: string, method: string, rest: (name: string) => string, given?: object];
const ways: Asked[] = [
  ['a page', 'GET', (name) => `tables/${name}`],
  ['with its schema', 'GET', (name) => `tables/public.${name}`],
  ['a page with parameters', 'GET', (name) => `tables/${name}?salary=eq.1&select=id&order=id&count=exact`],
  ['with what is wrong', 'GET', (name) => `tables/${name}?salry=eq.1`],
  ['a row', 'POST', (name) => `tables/${name}`, { body: { id: 5, salary: 1 } }],
  ['a row that does not fit', 'POST', (name) => `tables/${name}`, { body: { nothing: 1 } }],
  ['a change', 'PATCH', (name) => `tables/${name}?id=eq.1`, { body: { salary: 2 } }],
  ['a deletion', 'DELETE', (name) => `tables/${name}?id=eq.1`],
  ['an import', 'POST', (name) => `tables/${name}`, csv('id,salary\n7,1\n')],
  ['an embed', 'GET', (name) => `tables/staff?select=*,${name}(*)`],
  ['an embed with a hint', 'GET', (name) => `tables/staff?select=*,${name}!payroll_id(*)`],
  ['an embed through another table', 'GET', (name) => `tables/staff?select=*,${name}!staff_payroll(*)`],
  ['an embed in an embed', 'GET', (name) => `tables/notes?select=*,staff(*,${name}(*))`],
  ['an embed of its column', 'GET', (name) => `tables/staff?select=*,${name}(salary)`],
  ['a filter on an embed', 'GET', (name) => `tables/staff?select=*,${name}(*)&${name}.salary=eq.1`],
];
describe('for a table that the key does not list, the answer is the same as for a missing one', () => {
  it.each(ways)('to %s', async (_what, method, rest, given = {}) => {
    // What another key has asked before changes nothing.
    for (let turn = 0; turn < 2; turn++) {
      const [one, other] = [
        await call(some, method, rest(hidden), given),
        await call(some, method, rest(missing), given),
      ];
      expect(seen(one, hidden)).toEqual(seen(other, missing));
      expect([400, 404]).toContain(one.status);
      if (method === 'GET') await call(all, method, rest(hidden), given);
    }
  });

  it('also in another schema', async () => {
    expect(seen(await call(some, 'GET', 'tables/vault.gold'), 'vault.gold')).toEqual(
      seen(await call(some, 'GET', 'tables/vault.tin'), 'vault.tin'),
    );
  });

  it('and no similar name is suggested', async () => {
    expect(JSON.stringify((await call(some, 'GET', 'tables/payrol')).body)).not.toContain('payroll');
    expect((await call(all, 'GET', 'tables/payrol')).body.error.details.nearest).toBe('payroll');
  });
});

describe('answers to a key for some tables name no other table', () => {
  it('in lists, descriptions and sizes', async () => {
    for (const rest of ['tables', 'schema', 'usage']) {
      const { status, body } = await call(some, 'GET', rest);
      expect(status).toBe(200);
      // The column of its own is the key's to see.
      expect(JSON.stringify(body).replaceAll('payroll_id', ''), rest).not.toMatch(/payroll|vault|gold/);
    }
  });

  it('in errors about violated constraints', async () => {
    const failures: [method: string, rest: string, given: object][] = [
      // It refers to what is not there; others refer to it; a trigger fails elsewhere.
      ['POST', 'tables/staff', { body: { id: 9, payroll_id: 77 } }],
      ['POST', 'tables/staff', csv('id,payroll_id\n9,77\n')],
      ['PATCH', 'tables/staff?id=eq.1', { body: { payroll_id: 77 } }],
      ['DELETE', 'tables/staff?id=eq.1', {}],
      ['POST', 'tables/logged', { body: { a: 1 } }],
      ['POST', 'tables/logged', csv('a\n1\n')],
    ];
    for (const [method, rest, given] of failures) {
      const answer = await call(some, method, rest, given);
      const told = JSON.stringify(answer.body);
      expect([400, 409, 422], `${method} ${rest} ${told}`).toContain(answer.status);
      expect(told.replaceAll('payroll_id', ''), `${method} ${rest}`).not.toMatch(/payroll|vault/);
      const whole = await call(all, method, rest, given);
      expect([whole.status, whole.body.error.code]).toEqual([answer.status, answer.body.error.code]);
    }
    // The key hears as much as any about tables that it sees.
    const own = await call(some, 'POST', 'tables/notes', { body: { id: 1, staff_id: 77 } });
    expect(own.body.error.message).toContain('"staff"');
  });

  it('in errors inside views', async () => {
    const answer = await call(some, 'GET', 'tables/broken');
    expect(answer.body.ok).toBe(false);
    expect(JSON.stringify(answer.body)).not.toContain('gone_table');
    expect(JSON.stringify((await call(all, 'GET', 'tables/broken')).body)).toContain('gone_table');
  });

  it('and show all of the listed tables', async () => {
    expect((await call(some, 'GET', 'tables/rich')).body.rows).toEqual([{ name: 'Ann', salary: 100 }]);
    expect((await call(some, 'GET', 'tables/staff?select=id,boss(name)&id=eq.2')).status).toBe(200);
    expect((await call(some, 'POST', 'tables/notes', { body: { id: 1, staff_id: 1 } })).status).toBe(201);
    expect((await call(some, 'GET', 'tables/notes?select=id,staff(name)')).body.rows).toEqual([
      { id: 1, staff: { name: 'Ann' } },
    ]);
  });
});

describe('values that PostgreSQL looks up as names', () => {
  /** Everybody who does not see the whole project. */
  const callers: [who: string, ask: (method: string, rest: string, given?: object) => Promise<Answer>][] = [
    ['a key with a list of tables', (method, rest, given) => call(some, method, `tables/${rest}`, given)],
    ['a user', (method, rest, given) => loginAs.rows(ann, method, rest, given)],
    [
      'a user by the key of the project',
      (method, rest, given) => loginAs.rows(ann, method, rest, { key: all, ...given }),
    ],
    ['a stranger', (method, rest, given) => call(loginAs.publishable, method, `tables/${rest}`, given)],
  ];
  const registers = 'class type proc procedure oper operator namespace role config dictionary collation';
  const types = [
    ...['payroll', 'PAYROLL', '"payroll"', '_payroll', 'payroll[]', 'hidden_mood', 'hidden_name', 'link'],
    ...registers.split(' ').flatMap((name) => [`reg${name}`, `"_reg${name}"`, `REG${name}[]`]),
    ...['pg_authid', 'aclitem', 'record', 'refcursor', 'unknown', 'feelings'],
  ];

  it.each(callers)('reveal no types to %s', { tags: 'long' }, async (_who, ask) => {
    const missingType = await ask('GET', 'feelings?select=x:id::zzzzzzz');
    expect(missingType.status).toBe(400);
    for (const type of types) {
      const name = type.replace(/"|\[\]/g, '');
      const cast = encodeURIComponent(`id::${type}`);
      const rest = `feelings?select=x:${cast}`;
      // An earlier request by a key that sees everything makes no difference.
      await call(all, 'GET', `tables/${rest}`);
      const answer = await ask('GET', rest);
      expect(seen(answer, name), type).toEqual(seen(missingType, 'zzzzzzz'));
      const written = await ask('PATCH', `feelings?id=eq.1&select=x:${cast}`, { body: { m: 'ok' } });
      expect(seen(written, name), type).toEqual(seen(missingType, 'zzzzzzz'));
    }
  });

  it.each(callers)('reveal no text search configurations to %s', async (_who, ask) => {
    const of = (name: string) => ask('GET', `feelings?m=fts(${name}).ok`);
    const missingOne = await of('zzzzzzz');
    expect(missingOne.status).toBe(400);
    for (const name of ['hidden_words', 'public.hidden_words', 'vault.zzz', 'nowhere.zzz', '3748'])
      expect(seen(await of(name), name), name).toEqual(seen(missingOne, 'zzzzzzz'));
  });

  it.each(callers)('work for %s where they are built in', async (_who, ask) => {
    const answer = await ask('GET', 'feelings?select=id,a:id::text,b:m::text,c:m::mood,d:at::timestamp');
    expect(answer.body.rows?.[0], JSON.stringify(answer.body)).toMatchObject({ a: '1', b: 'ok', c: 'ok' });
  });

  it('are refused in an embedded table, and catalog names are refused for every key', async () => {
    const embedded = (type: string) => call(some, 'GET', `tables/notes?select=id,staff(x:id::${type})`);
    expect(seen(await embedded('payroll'), 'payroll')).toEqual(seen(await embedded('zzzzzzz'), 'zzzzzzz'));
    for (const type of ['regrole', 'regclass', '"_regrole"', 'aclitem', 'regnamespace[]'])
      expect((await call(all, 'GET', `tables/staff?select=x:id::${type}`)).body.error?.code, type).toBe(
        'invalid_request',
      );
    expect((await call(all, 'GET', 'tables/staff?select=x:name::hidden_name&id=eq.1')).body.rows).toEqual([
      { x: 'Ann' },
    ]);
  });

  it('are hidden in defaults that a key with a list of tables sees', async () => {
    const { body } = await call(some, 'GET', 'schema');
    const table = body.tables.find(({ name }: { name: string }) => name === 'feelings');
    const defaults = table.columns.map((column: { default: string | null }) => column.default);
    expect(defaults).toEqual(['(expression)', "'ok'::mood", null, 'CURRENT_DATE']);
    expect(JSON.stringify((await call(all, 'GET', 'schema')).body)).toContain('hidden_number()');
  });
});

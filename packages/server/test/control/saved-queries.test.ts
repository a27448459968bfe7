// Saved queries, drafts and the history of statements.
import { HistoryResponse, SavedQueriesResponse, SavedQueryResponse } from '@rowhouse/api';
import { Compile } from 'typebox/compile';
import { beforeAll, describe, expect, it } from 'vitest';
import { forgetOldHistory } from '../../src/control/saved/history.ts';
import { sql } from '../../src/postgres/sql.ts';
import { openSecondProcess, useTestService } from '../support/helpers.ts';

const rowhouse = useTestService();
let mine: { slug: string; id: string; key: string };
let other: { slug: string; id: string; key: string };
beforeAll(async () => {
  mine = await rowhouse.project('Saved');
  other = await rowhouse.project('Other');
});

const call = (method: string, path: string, body?: object, key = mine.key, project = mine) =>
  rowhouse.call(method, `/projects/${project.slug}${path}`, { key, ...(body && { body }) });
const save = async (more: object = {}) => {
  const answer = await call('POST', '/queries', { name: 'All', query: 'select 1', ...more });
  expect(answer.status, JSON.stringify(answer.body)).toBe(201);
  expect(Compile(SavedQueryResponse).Check(answer.body)).toBe(true);
  return answer.body.saved;
};
const code = ({ status, body }: { status: number; body: { error?: { code: string } } }) => [
  status,
  body.error?.code,
];

describe('saved queries', () => {
  it('can be created, read, changed and deleted, and are listed by name with a preview', async () => {
    const long = `select '${'ü'.repeat(5_000)}'`;
    const saved = await save({ name: 'b', query: long });
    const draft = await save({ name: 'A', kind: 'draft', query: 'not valid SQL; -- at all' });
    expect((await call('GET', `/queries/${saved.id}`)).body.saved).toEqual(saved);
    expect(saved).toMatchObject({ kind: 'saved', name: 'b', query: long });
    const { body } = await call('GET', '/queries');
    expect(Compile(SavedQueriesResponse).Check(body)).toBe(true);
    expect(
      body.queries.map((one: { name: string; preview: string }) => [one.name, one.preview.length]),
    ).toEqual([
      ['A', 24],
      ['b', 200],
    ]);
    expect((await call('GET', '/queries?kind=draft')).body.queries).toHaveLength(1);
    const changed = await call('PATCH', `/queries/${draft.id}`, { kind: 'saved', name: 'c' });
    expect(changed.body.saved).toMatchObject({ kind: 'saved', name: 'c', query: draft.query });
    expect((await call('DELETE', `/queries/${draft.id}`)).body).toEqual({ ok: true, deleted: 1 });
    for (const method of ['GET', 'DELETE'])
      expect(code(await call(method, `/queries/${draft.id}`))).toEqual([404, 'query_not_found']);
    expect(code(await call('PATCH', `/queries/${draft.id}`, { name: 'x' }))).toEqual([
      404,
      'query_not_found',
    ]);
    expect((await call('GET', '/queries/..%2Fx')).status).toBe(404);
  });

  it('that were changed meanwhile are not overwritten, also by two at once', async () => {
    const saved = await save();
    const write = (query: string) =>
      call('PATCH', `/queries/${saved.id}`, { query, if_updated_at: saved.updated_at });
    const answers = await Promise.all(['one', 'two', 'three'].map(write));
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 409, 409]);
    const winner = answers.find(({ status }) => status === 200)?.body.saved;
    const refused = answers.find(({ status }) => status === 409)?.body.error;
    expect(refused.details).toEqual({ retryable: false, updated_at: winner.updated_at });
    expect((await call('GET', `/queries/${saved.id}`)).body.saved).toEqual(winner);
    const next = await call('PATCH', `/queries/${saved.id}`, {
      query: 'four',
      if_updated_at: winner.updated_at,
    });
    expect(next.body.saved.query).toBe('four');
    expect(Date.parse(next.body.saved.updated_at)).toBeGreaterThan(Date.parse(winner.updated_at));
  });

  it('are there after a restart, for every key of the account, and for no other project', async () => {
    const saved = await save({ name: 'kept' });
    const second = await openSecondProcess(rowhouse);
    try {
      const key = rowhouse.accountKey;
      const there = await second.call('GET', `/projects/${mine.slug}/queries/${saved.id}`, { key });
      expect(there.body.saved).toEqual(saved);
    } finally {
      await second.stop();
    }
    expect((await call('GET', `/queries/${saved.id}`, undefined, other.key)).status).toBe(404);
    const elsewhere = await call('GET', `/queries/${saved.id}`, undefined, other.key, other);
    expect(code(elsewhere)).toEqual([404, 'query_not_found']);
    expect((await call('DELETE', `/queries/${saved.id}`, undefined, other.key, other)).status).toBe(404);
    expect((await call('GET', '/queries', undefined, other.key, other)).body.queries).toEqual([]);
  });

  it.each([
    ['without a name', { query: 'select 1' }],
    ['with an empty text', { name: 'x', query: '' }],
    ['that are too long', { name: 'x', query: 'x'.repeat(100_001) }],
    ['with a NUL', { name: 'x', query: 'select \0' }],
    ['of an unknown kind', { name: 'x', query: 'x', kind: 'other' }],
    ['with unknown fields', { name: 'x', query: 'x', account: 'y' }],
  ])('%s are refused', async (_what, body) => {
    expect((await call('POST', '/queries', body)).status).toBe(400);
  });

  it('are limited in number, also if many come at once', async () => {
    const { control } = rowhouse.service.deps;
    await control.query(sql`
      insert into saved_queries (id, project_id, kind, name, query)
      select 'filler0000000' || to_char(n, 'FM000'), ${other.id}, 'draft', 'filler', 'x' from generate_series(1, 97) as n`);
    const make = () => call('POST', '/queries', { name: 'd', query: 'x', kind: 'draft' }, other.key, other);
    const statuses = (await Promise.all([make(), make(), make(), make(), make()])).map(code);
    expect(statuses.filter(([status]) => status === 201)).toHaveLength(3);
    expect(statuses.filter(([, error]) => error === 'conflict')).toHaveLength(2);
    const saved = await call('POST', '/queries', { name: 's', query: 'x' }, other.key, other);
    const moved = await call('PATCH', `/queries/${saved.body.saved.id}`, { kind: 'draft' }, other.key, other);
    expect(code(moved)).toEqual([409, 'conflict']);
    expect((await save()).name).toBe('All');
  });
});

describe('the history', () => {
  it('has what was added, newest first, and nothing that merely ran', async () => {
    await call('POST', '/query', { query: 'select 42' });
    expect((await call('GET', '/history')).body.history).toEqual([]);
    for (const n of [1, 2, 3])
      expect(
        (await call('POST', '/history', { query: `select ${n}`, row_count: n, duration_ms: 0.5 })).status,
      ).toBe(201);
    await call('POST', '/history', { query: 'SELEKT', error: 'sql_error' });
    const { body } = await call('GET', '/history?limit=2');
    expect(Compile(HistoryResponse).Check(body)).toBe(true);
    expect(body).toMatchObject({ page: 1, limit: 2, has_more: true });
    expect(body.history).toMatchObject([
      {
        query: 'SELEKT',
        error: 'sql_error',
        duration_ms: null,
        row_count: null,
        key_id: expect.stringMatching(/^key_/),
      },
      { query: 'select 3', error: null, duration_ms: 0.5, row_count: 3 },
    ]);
    const found = (search: string) => call('GET', `/history?search=${encodeURIComponent(search)}`);
    expect((await found('SELECT 2')).body.history).toHaveLength(1);
    expect((await found('%')).body.history).toEqual([]);
    expect((await found('\0')).status).toBe(400);
    const [newest] = body.history;
    expect((await call('DELETE', `/history/${newest.id}`)).body.deleted).toBe(1);
    expect(code(await call('DELETE', `/history/${newest.id}`))).toEqual([404, 'query_not_found']);
    expect((await call('DELETE', '/history')).body.deleted).toBe(3);
    expect((await call('GET', '/history')).body.history).toEqual([]);
  });

  it('is bounded in number, length and age, and one project does not cost another', async () => {
    const { control } = rowhouse.service.deps;
    await control.query(sql`
      insert into query_history (project_id, id, key_id, query, at)
      select ${mine.id}, 'filler0000' || to_char(n, 'FM000000'), 'key_x', 'old ' || n,
             now() - case when n <= 5 then interval '31 days' else interval '1 hour' end - n * interval '1 s'
      from generate_series(1, 1200) as n`);
    await call('POST', '/history', { query: 'other' }, other.key, other);
    const added = await call('POST', '/history', { query: 'y'.repeat(50_000) });
    expect(added.body.entry.query).toHaveLength(10_000);
    const count = async (id: string) => {
      const rows = await control.query<{ n: number }>(sql`
        select count(*)::int as n from query_history where project_id = ${id}`);
      return rows[0]?.n;
    };
    expect(await count(mine.id)).toBe(1_000);
    await control.query(sql`
      update query_history set at = now() - interval '31 days' where query = 'old 6' and project_id = ${mine.id}`);
    await forgetOldHistory(control);
    expect([await count(mine.id), await count(other.id)]).toEqual([999, 1]);
  });

  it('is bounded in size: long texts of several bytes a character leave earlier', async () => {
    const { control } = rowhouse.service.deps;
    const small = await rowhouse.project('Wordy');
    await control.query(sql`
      insert into query_history (project_id, id, key_id, query, at)
      select ${small.id}, 'filler0000' || to_char(n, 'FM000000'), 'key_x', repeat('茶', 10000), now() - n * interval '1 s'
      from generate_series(1, 300) as n`);
    const added = await call('POST', '/history', { query: '🍵'.repeat(10_000) }, small.key, small);
    expect(added.status).toBe(201);
    const [kept] = await control.query<{ bytes: number; newest: number }>(sql`
      select sum(octet_length(query))::int as bytes, count(*) filter (where query like '🍵%')::int as newest
      from query_history where project_id = ${small.id}`);
    expect(kept?.newest).toBe(1);
    expect(kept?.bytes).toBeLessThanOrEqual(4 * 1024 * 1024);
    expect(kept?.bytes).toBeGreaterThan(4 * 1024 * 1024 - 40_000);
  });
});

it('are for keys that can run SQL or manage', async () => {
  const issue = async (body: object) => {
    const issued = await rowhouse.call('POST', `/projects/${mine.slug}/keys`, {
      body: { name: 'k', ...body },
    });
    return issued.body.api_key as string;
  };
  for (const scopes of [['query'], ['query:read'], ['manage']])
    for (const path of ['/queries', '/history'])
      expect((await call('GET', path, undefined, await issue({ scopes }))).status).toBe(200);
  for (const body of [
    { scopes: ['tables:read', 'auth'] },
    { scopes: ['tables:read'], tables: ['t'] },
    { kind: 'publishable' },
  ])
    for (const path of ['/queries', '/history'])
      expect((await call('GET', path, undefined, await issue(body))).status).toBe(403);
  const { id } = await save();
  for (const body of [{ kind: 'publishable' }, { scopes: ['query:read'] }]) {
    const key = await issue(body);
    const text = { name: 'x', query: 'x' };
    for (const [method, path, sent] of [
      ['POST', '/queries', text],
      ['PATCH', `/queries/${id}`, text],
      ['DELETE', `/queries/${id}`],
      ['DELETE', '/history'],
    ] as const)
      expect([method, path, (await call(method, path, sent, key)).status]).toEqual([method, path, 403]);
  }
  expect(
    (await call('POST', '/history', { query: 'x' }, await issue({ scopes: ['query:read'] }))).status,
  ).toBe(201);
});

it('of a project are bounded in size, and many requests at once wait for each other', async () => {
  const { control } = rowhouse.service.deps;
  const saved = await save();
  await control.query(sql`
    insert into saved_queries (id, project_id, kind, name, query)
    select 'large' || n, ${mine.id}, 'saved', 'large', repeat('x', 1048576) from generate_series(1, 10) as n`);
  const large = 'y'.repeat(100_000);
  expect(code(await call('PATCH', `/queries/${saved.id}`, { query: large }))).toEqual([409, 'conflict']);
  expect(code(await call('POST', '/queries', { name: 'x', query: large }))).toEqual([409, 'conflict']);
  await control.query(sql`delete from saved_queries where name = 'large'`);
  const changes = await Promise.all(
    Array.from({ length: 80 }, (_, n) => call('PATCH', `/queries/${saved.id}`, { query: `select ${n}` })),
  );
  expect(new Set(changes.map(({ status }) => status))).toEqual(new Set([200, 429]));
  expect((await call('POST', '/queries', { name: 'x', query: 'x' })).status).toBe(201);
  expect((await call('GET', '/queries', undefined, other.key, other)).status).toBe(200);
});

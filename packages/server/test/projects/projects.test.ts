import { errorCodes, ProjectsResponse } from '@rowhouse/api';
import { Compile } from 'typebox/compile';
import { describe, expect, it } from 'vitest';
import { openDatabase } from '../../src/postgres/admin/database.ts';
import { sql } from '../../src/postgres/sql.ts';
import { databaseOf, roleOf } from '../../src/servers/databases/names.ts';
import { derivePassword } from '../../src/servers/role-passwords.ts';
import { soon, until, useTestService } from '../support/helpers.ts';

const rowhouse = useTestService();

/** As the project's own role, the way its statements will run. */
async function inProject<T>(
  id: string,
  run: (database: ReturnType<typeof openDatabase>) => Promise<T>,
): Promise<T> {
  const { server } = rowhouse.service.deps;
  const user = roleOf(id);
  const password = derivePassword(server.masterKey, user);
  const database = openDatabase({ ...server.address, user, password, database: databaseOf(id) }, { max: 1 });
  try {
    return await run(database);
  } finally {
    await database.end();
  }
}

describe('creating a project', () => {
  it('answers 201 with the project and its key, which works at once', async () => {
    const { status, body, headers } = await rowhouse.call('POST', '/projects', {
      body: { name: 'My Shop', limit_mb: 64 },
    });
    expect(status).toBe(201);
    expect(body).toMatchObject({
      ok: true,
      project: { name: 'My Shop', limit_mb: 64, size_mb: 0, status: 'ready' },
    });
    expect(body.project.slug).toMatch(/^my-shop(-\w+)?$/);
    expect(body.project.created_at).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
    expect(body.api_key).toMatch(/^rh_proj_[0-9A-Za-z]{49}$/);
    expect(headers.location).toBe(`/api/dbaas/v2/projects/${body.project.slug}`);

    const listed = await rowhouse.call('GET', '/projects', { key: body.api_key });
    expect(listed.body.projects).toEqual([body.project]);
    const [row] = await inProject(body.project.id, (database) => database.query(sql`select 1 as one`));
    expect(row).toEqual({ one: 1 });
  });

  it('accepts the key in either header', async () => {
    for (const headers of [
      { 'x-api-key': rowhouse.accountKey },
      { authorization: `Bearer ${rowhouse.accountKey}` },
    ]) {
      const { status, body } = await rowhouse.call('GET', '/projects', { key: '', headers });
      expect([status, body.ok]).toEqual([200, true]);
      expect(Compile(ProjectsResponse).Check(body)).toBe(true);
    }
  });

  it('uses 512 MB when no limit is given, and refuses what is over the maximum', async () => {
    const { body } = await rowhouse.call('POST', '/projects', { body: { name: 'Default' } });
    expect(body.project.limit_mb).toBe(512);
    const over = await rowhouse.call('POST', '/projects', { body: { name: 'Big', limit_mb: 10_001 } });
    expect(over.status).toBe(400);
    expect(over.body.error.details).toEqual([
      { path: 'limit_mb', problem: expect.stringContaining('10000') },
    ]);
  });

  it.each([
    [{}, 'name'],
    [{ name: '' }, 'name'],
    [{ name: '   ' }, 'name'],
    [{ name: 'x'.repeat(101) }, 'name'],
    [{ name: 'a\u0000b' }, 'name'],
    [{ name: ['a'] }, 'name'],
    [{ name: null }, 'name'],
    [{ name: 'a', limit_mb: 0 }, 'limit_mb'],
    [{ name: 'a', limit_mb: -1 }, 'limit_mb'],
    [{ name: 'a', limit_mb: 1.5 }, 'limit_mb'],
    [{ name: 'a', limit_mb: '5' }, 'limit_mb'],
    [{ name: 'a', limit_mb: 1e300 }, 'limit_mb'],
    [{ name: 'a', slug: 'No' }, 'slug'],
    [{ name: 'a', slug: 'ab' }, 'slug'],
    [{ name: 'a', slug: '-abc' }, 'slug'],
    [{ name: 'a', slug: 'a--b' }, 'slug'],
    [{ name: 'a', slug: 'x'.repeat(49) }, 'slug'],
    [{ name: 'a', limit_Mb: 5 }, 'limit_Mb'],
    [{ name: 'a', toString: 5 }, 'toString'],
  ])('refuses %j, naming %s, and creates nothing', async (body, path) => {
    const before = await rowhouse.call('GET', '/projects?limit=1000');
    const { status, body: answer } = await rowhouse.call('POST', '/projects', { body });
    expect(status).toBe(400);
    expect(answer).toMatchObject({ ok: false, error: { code: 'invalid_request' } });
    expect(answer.error.details.map((problem: { path: string }) => problem.path)).toContain(path);
    const after = await rowhouse.call('GET', '/projects?limit=1000');
    expect(after.body.projects.length).toBe(before.body.projects.length);
  });

  it('makes a slug from any script, and never the same twice', async () => {
    const slugs = [];
    for (const name of ['Crème Brûlée', 'Crème Brûlée', 'Кофейня', '日本語', '🙂🙂', '…', 'A', "Ann's tea"]) {
      const { body, status } = await rowhouse.call('POST', '/projects', { body: { name } });
      expect(status).toBe(201);
      expect(body.project.name).toBe(name);
      expect(body.project.slug).toMatch(/^[a-z0-9][a-z0-9-]{1,46}[a-z0-9]$/);
      slugs.push(body.project.slug);
    }
    expect(slugs[0]).toBe('creme-brulee');
    expect(slugs[1]).toMatch(/^creme-brulee-\w{5}$/);
    expect(slugs[7]).toBe('anns-tea');
    expect(new Set(slugs).size).toBe(slugs.length);
  });

  it('gives a requested slug to one of many concurrent requests', async () => {
    const ask = () => rowhouse.call('POST', '/projects', { body: { name: 'Race', slug: 'the-race' } });
    const answers = await Promise.all(Array.from({ length: 6 }, ask));
    expect(answers.map(({ status }) => status).sort()).toEqual([201, 409, 409, 409, 409, 409]);
    expect(answers.find(({ status }) => status === 409)?.body.error.code).toBe('slug_taken');
  });

  it('works for many at once without spares', async () => {
    const answers = await Promise.all(
      Array.from({ length: 12 }, () => rowhouse.call('POST', '/projects', { body: { name: 'Burst' } })),
    );
    expect(answers.map(({ status }) => status)).toEqual(Array(12).fill(201));
    const ids = new Set(answers.map(({ body }) => body.project.id));
    expect(ids.size).toBe(12);
    for (const id of ids) {
      const [row] = await inProject(id, (database) => database.query(sql`select current_database() as name`));
      expect(row).toEqual({ name: databaseOf(id) });
    }
  });
});

it('refuses a part of a flood, and keeps every project that it acknowledged', {
  tags: 'long',
}, async () => {
  const answers = await Promise.all(
    Array.from({ length: 70 }, () => rowhouse.call('POST', '/projects', { body: { name: 'Flood' } })),
  );
  const made = answers.filter(({ status }) => status === 201);
  const refused = answers.filter(({ status }) => status === 429);
  expect(made.length + refused.length).toBe(70);
  expect(refused.length).toBeGreaterThan(0);
  for (const { body, headers } of refused) {
    expect([body.error.code, Number(headers['retry-after']) > 0]).toEqual(['overloaded', true]);
  }
  const { body } = await rowhouse.call('GET', '/projects?limit=1000');
  const ids = new Set(body.projects.map((project: { id: string }) => project.id));
  for (const { body: created } of made) expect(ids.has(created.project.id)).toBe(true);
});

describe('listing projects', () => {
  it('returns the newest first, in pages that neither overlap nor skip', async () => {
    for (let index = 0; index < 3; index++) await rowhouse.project(`Page ${index}`);
    const all = await rowhouse.call('GET', '/projects?limit=1000');
    expect(all.body).toMatchObject({ page: 1, limit: 1000, has_more: false });
    const times = all.body.projects.map((project: { created_at: string }) => project.created_at);
    expect(times).toEqual([...times].sort().reverse());
    const seen = [];
    for (let page = 1; ; page++) {
      const { body } = await rowhouse.call('GET', `/projects?limit=2&page=${page}`);
      seen.push(...body.projects);
      if (!body.has_more) break;
    }
    // A size may be measured between two requests.
    const withoutSizes = (projects: { size_mb: number }[]) => projects.map(({ size_mb: _, ...rest }) => rest);
    expect(withoutSizes(seen)).toEqual(withoutSizes(all.body.projects));
  });

  it.each([
    'limit=0',
    'limit=1001',
    'limit=x',
    'limit=1.0',
    'limit=',
    'page=0',
    'page=-1',
    'limit=1&limit=2',
    'lim=1',
    'status=gone',
  ])('refuses ?%s', async (query) => {
    const { status, body } = await rowhouse.call('GET', `/projects?${query}`);
    expect([status, body.error.code]).toEqual([400, 'invalid_request']);
  });

  it('finds a part of the name or of the slug, in upper or lower case, and nothing more', async () => {
    const mark = `m${Date.now().toString(36)}`;
    const made = [];
    for (const name of [`${mark} 50% Ölmühle`, `${mark} Tea_Shop`, `${mark} Teapot`])
      made.push((await rowhouse.project(name)).slug);
    const [mill, shop, pot] = made;
    const list = async (search: string, more = '', key = rowhouse.accountKey) => {
      const path = `/projects?search=${encodeURIComponent(search)}${more}`;
      const { status, body } = await rowhouse.call('GET', path, { key });
      expect(status, JSON.stringify(body)).toBe(200);
      return body.projects.map(({ slug }: { slug: string }) => slug);
    };
    expect(await list(mark)).toEqual([pot, shop, mill]);
    expect(await list(`${mark} TEA`)).toEqual([pot, shop]);
    expect(await list(`${mark} tea`, '&limit=1&page=2')).toEqual([shop]);
    expect(await list(`${mark} tea`, '&order=size')).toHaveLength(2);
    expect(await list(mill?.slice(2) ?? '')).toContain(mill);
    // Neither is a wildcard.
    expect(await list(`${mark} 50%`)).toEqual([mill]);
    expect(await list(`${mark} %Ö`)).toEqual([]);
    expect(await list(`${mark} Tea_`)).toEqual([shop]);
    expect(await list(`${mark} Tea\\`)).toEqual([]);
    const other = await rowhouse.project('Other');
    expect(await list(mark, '', other.key)).toEqual([]);
    for (const search of ['', 'x'.repeat(101), '%00', 'a%0A']) {
      const { status, body } = await rowhouse.call('GET', `/projects?search=${search}`);
      expect([status, body.error?.code], search).toEqual([400, 'invalid_request']);
    }
  });
});

describe('a project key', () => {
  it('sees exactly its own project, and cannot create, delete, restore or set its own limit', async () => {
    const mine = await rowhouse.project('Mine');
    const other = await rowhouse.project('Other');
    const list = await rowhouse.call('GET', '/projects', { key: mine.key });
    expect(list.body.projects.map((project: { slug: string }) => project.slug)).toEqual([mine.slug]);
    expect((await rowhouse.call('GET', `/projects/${mine.slug}`, { key: mine.key })).status).toBe(200);

    const foreign = await rowhouse.call('GET', `/projects/${other.slug}`, { key: mine.key });
    const missing = await rowhouse.call('GET', '/projects/no-such-project', { key: mine.key });
    expect([foreign.status, foreign.body.error.code]).toEqual([404, 'project_not_found']);
    expect({ ...foreign.body.error, message: '' }).toEqual({ ...missing.body.error, message: '' });
    for (const [method, path, body] of [
      ['PATCH', `/projects/${other.slug}`, { name: 'Stolen' }],
      ['DELETE', `/projects/${other.slug}`, undefined],
      ['GET', `/projects/${other.slug}/connection`, undefined],
      ['GET', `/projects/${other.slug}/keys`, undefined],
    ] as const) {
      expect((await rowhouse.call(method, path, { key: mine.key, body })).status).toBe(404);
    }
    for (const [method, path, body] of [
      ['POST', '/projects', { name: 'More' }],
      ['DELETE', `/projects/${mine.slug}`, undefined],
      ['POST', `/projects/${mine.slug}/restore`, undefined],
      ['PATCH', `/projects/${mine.slug}`, { limit_mb: 9999 }],
    ] as const) {
      const { status, body: answer } = await rowhouse.call(method, path, { key: mine.key, body });
      expect([status, answer.error.code]).toEqual([403, 'forbidden']);
      expect(answer.error.hint).toContain('account key');
    }
    const renamed = await rowhouse.call('PATCH', `/projects/${mine.slug}`, {
      key: mine.key,
      body: { name: 'Renamed' },
    });
    expect(renamed.body.project.name).toBe('Renamed');
  });
});

describe('changing a project', () => {
  it('renames it and sets its limit, and refuses an empty or unknown change', async () => {
    const { slug } = await rowhouse.project('Before');
    const { body } = await rowhouse.call('PATCH', `/projects/${slug}`, {
      body: { name: ' After ', limit_mb: 7 },
    });
    expect(body.project).toMatchObject({ slug, name: 'After', limit_mb: 7 });
    for (const change of [{}, { slug: 'other' }, { limit_mb: 10_001 }, { name: null }]) {
      expect((await rowhouse.call('PATCH', `/projects/${slug}`, { body: change })).status).toBe(400);
    }
    expect((await rowhouse.call('GET', `/projects/${slug}`)).body.project).toMatchObject({
      name: 'After',
      limit_mb: 7,
    });
  });

  it('shows its size within seconds, and that it is full at the limit', async () => {
    const { slug, id } = await rowhouse.project('Growing');
    await inProject(id, (database) =>
      database.query(sql`create table t as select repeat('x', 1000) as text from generate_series(1, 3000)`),
    );
    await rowhouse.call('PATCH', `/projects/${slug}`, { body: { limit_mb: 1 } });
    const project = await until('the size is seen', async () => {
      const { body } = await rowhouse.call('GET', `/projects/${slug}`);
      return body.project.size_mb > 2 && body.project;
    });
    expect(project).toMatchObject({ status: 'full', limit_mb: 1 });
    expect(project.size_mb).toBeLessThan(10);
  });
});

describe('deleting and restoring a project', () => {
  it('ends its keys and connections at once, and restores all of them', async () => {
    const { slug, id, key } = await rowhouse.project('Gone');
    await inProject(id, async (database) => {
      await database.query(sql`create table kept as select 42 as answer`);
      const { status, body } = await rowhouse.call('DELETE', `/projects/${slug}`);
      expect(status).toBe(200);
      expect(body.project).toMatchObject({ status: 'deleted', slug });
      const days =
        (Date.parse(body.project.dropped_after) - Date.parse(body.project.deleted_at)) / 86_400_000;
      expect(days).toBe(7);
      await expect(database.query(sql`select 1`), 'the open connection was ended').rejects.toThrow();
      await expect(database.query(sql`select 1`), 'and no new one is let in').rejects.toThrow();
    });
    await until(
      'the key ends',
      async () => (await rowhouse.call('GET', '/projects', { key })).status === 401,
      soon,
    );
    expect((await rowhouse.call('GET', `/projects/${slug}`)).body.project.status).toBe('deleted');
    expect((await rowhouse.call('PATCH', `/projects/${slug}`, { body: { name: 'x' } })).status).toBe(404);
    expect((await rowhouse.call('DELETE', `/projects/${slug}`)).status).toBe(404);
    const live = await rowhouse.call('GET', '/projects?limit=1000');
    expect(JSON.stringify(live.body)).not.toContain(id);
    const deleted = await rowhouse.call('GET', '/projects?status=deleted');
    expect(deleted.body.projects.map((project: { id: string }) => project.id)).toContain(id);
    const taken = await rowhouse.call('POST', '/projects', { body: { name: 'Gone', slug } });
    expect(taken.body.error.code).toBe('slug_taken');

    const { status, body } = await rowhouse.call('POST', `/projects/${slug}/restore`);
    expect([status, body.project.status]).toEqual([200, 'ready']);
    const again = await rowhouse.call('POST', `/projects/${slug}/restore`);
    expect([again.status, again.body.error.code]).toEqual([409, 'conflict']);
    const [row] = await inProject(id, (database) => database.query(sql`select answer from kept`));
    expect(row).toEqual({ answer: 42 });
    await until(
      'the key works',
      async () => (await rowhouse.call('GET', '/projects', { key })).status === 200,
      soon,
    );
  });
});

describe('a connection address', () => {
  it('works, even after the role has changed its own password', async () => {
    const { slug, key } = await rowhouse.project('Direct');
    const connect = async () => {
      const { body } = await rowhouse.call('GET', `/projects/${slug}/connection`, { key });
      const url = new URL(body.connection.url);
      expect(url.protocol).toBe('postgres:');
      return openDatabase(
        {
          ...rowhouse.service.deps.server.address,
          ...body.connection,
          password: decodeURIComponent(url.password),
        },
        { max: 1 },
      );
    };
    const first = await connect();
    await first.query(sql`alter role current_user password 'lost'`);
    await first.end();
    const second = await connect();
    expect(await second.query(sql`select 1 as one`)).toEqual([{ one: 1 }]);
    await second.end();
  });
});

it('error codes have the documented statuses', () => {
  const contract = {
    400: ['invalid_request', 'invalid_json', 'sql_error', 'multiple_statements', 'statement_not_allowed'],
    401: ['missing_api_key', 'invalid_api_key', 'invalid_credentials', 'invalid_token'],
    403: ['forbidden'],
    404: ['project_not_found', 'table_not_found', 'row_not_found', 'route_not_found'],
    405: ['method_not_allowed'],
    409: ['email_taken', 'slug_taken', 'conflict'],
    413: ['payload_too_large'],
    415: ['unsupported_media_type'],
    422: ['constraint_violation'],
    429: ['rate_limited', 'overloaded'],
    503: ['unavailable'],
    504: ['query_timeout'],
    507: ['project_full', 'server_full'],
  };
  for (const [status, codes] of Object.entries(contract)) {
    for (const code of codes)
      expect([code, errorCodes[code as keyof typeof errorCodes]?.status]).toEqual([code, Number(status)]);
  }
});

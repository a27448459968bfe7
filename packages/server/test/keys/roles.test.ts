// Every route of the API with every role. The table is written by hand: a route that is missing here fails the test.
import { beforeAll, describe, expect, it } from 'vitest';
import { api, soon, useTestService } from '../support/helpers.ts';
import { readOpenApi } from '../support/open-api.ts';

const rowhouse = useTestService();
const roles = ['viewer', 'developer', 'admin', 'owner'] as const;
type Actor = (typeof roles)[number] | 'operator';
const keys = {} as Record<Actor, string>;

const everyone: Actor[] = [...roles];
const developers: Actor[] = ['developer', 'admin', 'owner'];
const admins: Actor[] = ['admin', 'owner'];
const operator: Actor[] = ['operator'];
const project = '/projects/{slug}';

const table: [who: Actor[], routes: string[]][] = [
  [
    everyone,
    [
      'GET /account',
      'GET /account/members',
      // Every member can leave. Whether it may remove others is decided by the member's role.
      'DELETE /account/members/{id}',
      'GET /projects',
      `GET ${project}`,
      `GET ${project}/usage`,
      `GET ${project}/compact`,
      `GET ${project}/branches`,
      `GET ${project}/snapshots`,
      `GET ${project}/queries`,
      `GET ${project}/queries/{id}`,
      `GET ${project}/history`,
      `GET ${project}/tables`,
      `GET ${project}/tables/{table}`,
      `GET ${project}/schema`,
      `GET ${project}/auth/users`,
      `GET ${project}/auth/users/{id}`,
      `GET ${project}/auth/users/{id}/sessions`,
      `GET ${project}/auth/user`,
      `GET ${project}/auth/settings`,
      // In a transaction that cannot write.
      `POST ${project}/query`,
      `POST ${project}/batch`,
    ],
  ],
  [
    developers,
    [
      'POST /projects',
      'POST /projects/import',
      'POST /uploads',
      'GET /uploads',
      'GET /uploads/{id}',
      'PATCH /uploads/{id}',
      'DELETE /uploads/{id}',
      `PATCH ${project}`,
      `DELETE ${project}`,
      `POST ${project}/restore`,
      `GET ${project}/connection`,
      `GET ${project}/export`,
      `GET ${project}/logs`,
      `POST ${project}/compact`,
      `POST ${project}/branches`,
      `POST ${project}/reset`,
      `POST ${project}/promote`,
      `POST ${project}/snapshots`,
      `DELETE ${project}/snapshots/{name}`,
      `GET ${project}/keys`,
      `POST ${project}/keys`,
      `DELETE ${project}/keys/{id}`,
      `POST ${project}/keys/rotate`,
      `POST ${project}/queries`,
      `PATCH ${project}/queries/{id}`,
      `DELETE ${project}/queries/{id}`,
      `POST ${project}/history`,
      `DELETE ${project}/history`,
      `DELETE ${project}/history/{id}`,
      `POST ${project}/tables/{table}`,
      `PATCH ${project}/tables/{table}`,
      `DELETE ${project}/tables/{table}`,
      `POST ${project}/auth/signup`,
      `POST ${project}/auth/signin`,
      `POST ${project}/auth/refresh`,
      `POST ${project}/auth/signout`,
      `PATCH ${project}/auth/user`,
      `DELETE ${project}/auth/user`,
      `POST ${project}/auth/recover`,
      `POST ${project}/auth/verify`,
      `POST ${project}/auth/users`,
      `PATCH ${project}/auth/users/{id}`,
      `DELETE ${project}/auth/users/{id}`,
      `DELETE ${project}/auth/users/{id}/sessions`,
      `DELETE ${project}/auth/users/{id}/sessions/{session}`,
      `PATCH ${project}/auth/settings`,
      `POST ${project}/auth/users/{id}/act-as`,
      `GET ${project}/auth/act-as`,
      `DELETE ${project}/auth/act-as/{id}`,
    ],
  ],
  [
    [...developers, 'operator'],
    ['GET /jobs', 'GET /jobs/{id}', 'DELETE /jobs/{id}'],
  ],
  [
    admins,
    [
      'PATCH /account',
      'GET /account/keys',
      'POST /account/keys',
      'DELETE /account/keys/{id}',
      'PATCH /account/members/{id}',
      'GET /account/members/{id}/keys',
      'POST /account/invitations',
      'DELETE /account/invitations/{id}',
    ],
  ],
  [[...admins, 'operator'], ['GET /audit']],
  [
    operator,
    [
      'GET /accounts',
      'POST /accounts',
      'GET /accounts/{id}',
      'PATCH /accounts/{id}',
      'DELETE /accounts/{id}',
      'POST /accounts/{id}/restore',
      'POST /accounts/{id}/keys',
      'POST /people/recovery',
      'GET /servers',
      'POST /servers',
      'PATCH /servers/{id}',
      'DELETE /servers/{id}',
      'POST /servers/{id}/drain',
      'GET /backups',
      'POST /backups',
      'POST /backups/verify',
      'POST /backups/drill',
      'POST /backups/prune',
      `POST ${project}/move`,
    ],
  ],
];

beforeAll(async () => {
  keys.operator = rowhouse.operatorKey;
  const { body } = await rowhouse.call('POST', `${api}/accounts`, {
    key: rowhouse.operatorKey,
    body: { name: 'Customer' },
  });
  for (const role of roles) {
    const issued = await rowhouse.call('POST', `${api}/account/keys`, {
      key: body.api_key,
      body: { name: role, role },
    });
    expect(issued.status, JSON.stringify(issued.body)).toBe(201);
    keys[role] = issued.body.api_key;
  }
});

it('names every route of the API', async () => {
  const { routes } = await readOpenApi(rowhouse);
  const documented = routes
    .filter(({ path }) => path.startsWith(api))
    .map(({ method, path }) => `${method} ${path.slice(api.length)}`);
  expect(table.flatMap(([, names]) => names).sort()).toEqual(documented.sort());
});

describe.each(table)('only %s', (who, routes) => {
  it.each(routes)('%s', async (route) => {
    const [method = '', path = ''] = route.split(' ');
    const target = api + path.replace(/\{\w+\}/g, 'none');
    const allowed = [];
    for (const actor of [...roles, 'operator'] as Actor[]) {
      // Refused before the body is read. Whoever is not refused gets to know that the body is invalid, or that there is no
      // such project.
      const hasBody = !['GET', 'DELETE'].includes(method);
      const answer = await rowhouse.call(method, target, {
        key: keys[actor],
        ...(hasBody && { body: { unknown: 1 } }),
      });
      const isRefused = answer.status === 403 && answer.body.error.code === 'forbidden';
      if (!isRefused) allowed.push(actor);
      expect(answer.status, JSON.stringify(answer.body)).toBeLessThan(500);
    }
    expect(allowed).toEqual(who);
  });
});

describe('a viewer', () => {
  it('reads with SQL, and writes by no statement', async () => {
    const made = await rowhouse.call('POST', '/projects', { key: keys.owner, body: { name: 'Seen' } });
    const query = (text: string, key: string) =>
      rowhouse.call('POST', `/projects/${made.body.project.slug}/query`, { key, body: { query: text } });
    expect((await query('create table notes (id int)', keys.developer)).status).toBe(200);
    expect((await query('select count(*) from notes', keys.viewer)).body.rows).toEqual([{ count: 0 }]);
    for (const text of [
      'insert into notes values (1)',
      'drop table notes',
      'do $$ begin insert into notes values (1); end $$',
      'set transaction read write',
      'with more as (insert into notes values (1) returning id) select id from more',
    ]) {
      const { status } = await query(text, keys.viewer);
      expect([text, status >= 400 && status < 500]).toEqual([text, true]);
    }
    const batch = await rowhouse.call('POST', `/projects/${made.body.project.slug}/batch`, {
      key: keys.viewer,
      body: { statements: [{ query: 'insert into notes values (1)' }] },
    });
    expect(batch.status).toBe(400);
    const inserted = await rowhouse.call('POST', `/projects/${made.body.project.slug}/tables/notes`, {
      key: keys.viewer,
      body: { id: 1 },
    });
    expect(inserted.body.error).toMatchObject({
      code: 'forbidden',
      message: 'The role "viewer" does not allow this.',
    });
    expect((await query('select count(*) from notes', keys.owner)).body.rows).toEqual([{ count: 0 }]);
  });
});

describe('the operator key', () => {
  it('reads no project', async () => {
    const { slug } = await rowhouse.project();
    const answer = await rowhouse.call('POST', `/projects/${slug}/query`, {
      key: keys.operator,
      body: { query: 'select 1' },
    });
    expect([answer.status, answer.body.error.message]).toEqual([
      403,
      'An operator key reaches accounts and servers, and no project.',
    ]);
  });

  it('is also held by admins of the default account, until the operator takes that away', async () => {
    const change = (isOperator: boolean) =>
      rowhouse.call('PATCH', `${api}/accounts/default`, {
        key: keys.operator,
        body: { is_operator: isOperator },
      });
    const list = () => rowhouse.call('GET', `${api}/servers`);
    expect((await list()).status).toBe(200);
    expect((await change(false)).status).toBe(200);
    await expect.poll(async () => (await list()).status, { timeout: soon }).toBe(403);
    expect((await change(true)).status).toBe(200);
    await expect.poll(async () => (await list()).status, { timeout: soon }).toBe(200);
  });
});

// The OpenAPI document: what generators of clients need, and examples that work. The programs of others that read it are
// tested in compatibility/.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import * as declared from '@rowhouse/api';
import { Compile } from 'typebox/compile';
import { afterAll, describe, expect, it } from 'vitest';
import { api, useTestService } from '../support/helpers.ts';

type Parameter = { name: string; in: string; example?: unknown };
type Media = { example?: unknown; schema: Record<string, unknown> };
type Operation = {
  operationId: string;
  parameters?: Parameter[];
  requestBody?: { content: Record<string, Media> };
  responses: Record<string, { description?: string; $ref?: string; content?: Record<string, Media> }>;
  security?: Record<string, unknown>[];
};
type Route = { method: string; path: string; operation: Operation };
type Schema = Record<string, unknown>;

const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-openapi-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const rowhouse = useTestService({ console: null, imports: { folder, allowPrivateHosts: false } });

const read = async () =>
  (await rowhouse.call('GET', '/openapi.json', { key: '' })).body as {
    servers: object[];
    paths: Record<string, Record<string, Operation>>;
    components: { schemas: Record<string, Schema>; responses: Record<string, object> };
  };

const routesOf = ({ paths }: Awaited<ReturnType<typeof read>>): Route[] =>
  Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ method: method.toUpperCase(), path, operation })),
  );

describe('the OpenAPI document', () => {
  it('names every operation once', async () => {
    const ids = routesOf(await read()).map(({ operation }) => operation.operationId);
    expect(ids.length).toBeGreaterThan(100);
    expect(new Set(ids).size).toBe(ids.length);
    for (const id of ids) expect(id).toMatch(/^[a-z]+([A-Z][a-z]*)+$|^signUp$/);
  });

  it('has a name for every body, and no schema of an object twice', async () => {
    const document = await read();
    for (const { path, method, operation } of routesOf(document)) {
      for (const [status, { content }] of Object.entries(operation.responses)) {
        const schema = content?.['application/json']?.schema;
        const names = (schema?.anyOf as Schema[] | undefined) ?? (schema ? [schema] : []);
        for (const named of names) expect(named, `${method} ${path} ${status}`).toHaveProperty('$ref');
      }
      const json = operation.requestBody?.content['application/json'];
      if (json && operation.operationId !== 'insertRows' && operation.operationId !== 'updateRows')
        expect(json.schema, `${method} ${path}`).toHaveProperty('$ref');
    }
    const found = new Map<string, string[]>();
    collectObjects([document.paths, document.components.schemas], '', found);
    expect([...found.values()].filter((places) => places.length > 1)).toEqual([]);
  });

  it('calls a body by the name of its operation, where a schema has that name', async () => {
    const named = routesOf(await read()).flatMap(({ operation: { operationId, requestBody } }) => {
      const name = operationId.charAt(0).toUpperCase() + operationId.slice(1);
      const schema = requestBody?.content['application/json']?.schema;
      return schema && Object.hasOwn(declared, name) ? [[name, schema.$ref]] : [];
    });
    expect(named.map(([name]) => name)).toContain('CreateSnapshot');
    expect(named).toEqual(named.map(([name]) => [name, `#/components/schemas/${name}`]));
  });

  it('documents for every operation how it fails, with the codes', async () => {
    const document = await read();
    expect(document.servers).toEqual([{ url: '/', description: 'This service.' }]);
    for (const { path, method, operation } of routesOf(document)) {
      const statuses = Object.keys(operation.responses).filter((status) => /^4\d\d$/.test(status));
      expect(statuses.length, `${method} ${path}`).toBeGreaterThan(0);
      if (path.startsWith(api))
        expect(statuses).toEqual(expect.arrayContaining(['400', '401', '403', '429']));
      if (path.includes('{slug}')) expect(statuses).toContain('404');
    }
    const responses = document.paths[`${api}/projects/{slug}/query`]?.post?.responses;
    expect(responses?.['400']?.description).toContain('- `multiple_statements`: ');
    expect(responses?.['403']?.description).toContain('- `sql_error`: ');
    const neon = document.paths['/sql']?.post?.responses;
    expect(neon?.['400']?.content?.['application/json']?.schema).toEqual({
      $ref: '#/components/schemas/NeonErrorBody',
    });
  });
});

it("the errors of Neon's endpoint have the form that the document gives them", async () => {
  const { key, slug } = await rowhouse.project('Neon');
  const responses = (await read()).paths['/sql']?.post?.responses;
  const valid = Compile(declared.NeonErrorBody);
  const connection = `postgres://anybody:${key}@rowhouse.example/${slug}`;
  for (const [query, headers] of [
    ['select * from missing', {}],
    ['select 1; select 2', {}],
    ['select 1 / 0', {}],
    ['vacuum', { 'neon-array-mode': 'perhaps' }],
    ['select 1', { 'neon-connection-string': 'postgres://anybody:rh_proj_wrong@rowhouse.example/x' }],
    ['select 1', { 'neon-connection-string': '' }],
    ['select 1', { 'content-type': 'text/csv' }],
  ] as const) {
    const { status, body } = await rowhouse.call('POST', '/sql', {
      key: '',
      body: { query },
      headers: { 'neon-connection-string': connection, ...headers },
    });
    expect(status, query).toBeGreaterThanOrEqual(400);
    expect([...valid.Errors(body)], JSON.stringify(body)).toEqual([]);
    expect(responses?.[status]?.description, `${status} ${body.error.code}`).toContain(
      `\`${body.error.code}\``,
    );
  }
});

/** What a form cannot contain: another server, backups, the token of a session, a person. The code says how it fails. */
const notPrefilled: Record<string, string> = {
  moveProject: 'invalid_request',
  addServer: 'invalid_request',
  refreshSession: 'invalid_token',
  changeMember: 'member_not_found',
  recoverPerson: 'member_not_found',
  removeMember: 'member_not_found',
  listMemberKeys: 'member_not_found',
  removeServer: 'conflict',
  ...Object.fromEntries(
    ['listBackups', 'takeBackup', 'verifyBackups', 'drillRestore', 'pruneBackups', 'createSnapshot'].map(
      (id) => [id, 'backups_off'],
    ),
  ),
  deleteSnapshot: 'snapshot_not_found',
};

describe('the examples of the OpenAPI document', () => {
  it('work as they are in a service with the project, the table and the user that they name', async () => {
    const routes = routesOf(await read());
    const ids = new Map<string, string>();
    const failed: string[] = [];
    const byId = (id: string) => routes.find(({ operation }) => operation.operationId === id) as Route;
    const send = async (route: Route) => {
      for (const request of await requestsOf(route, ids)) {
        const { status, body } = await rowhouse.call(route.method, request.url, request);
        const { operationId } = route.operation;
        remember(ids, operationId, body);
        const outcome = status < 300 ? undefined : (body?.error?.code ?? status);
        if (outcome !== notPrefilled[operationId] && request.isJson)
          failed.push(`${operationId}: ${status} ${JSON.stringify(body).slice(0, 300)}`);
        else if (!request.isJson && status >= 300) failed.push(`${operationId}: ${JSON.stringify(body)}`);
      }
    };
    const first = ['createProject', 'signUp'].map(byId);
    for (const route of first) await send(route);
    await rowhouse.call('POST', '/projects/my-shop/query', {
      body: {
        query:
          'create table teas (id integer generated always as identity primary key, name text, price numeric)',
      },
    });
    const { servers } = (await rowhouse.call('GET', `${api}/servers`)).body;
    ids.set('servers', String(servers[0].id));
    const last = ['deleteProject', 'restoreProject', 'deleteAccount', 'restoreAccount'].map(byId);
    const rest = routes.filter((route) => !first.includes(route) && !last.includes(route));
    for (const route of rest.filter(({ method }) => method === 'POST')) await send(route);
    ids.set('session', await sessionOf(ids.get('users') ?? ''));
    for (const route of rest.filter(({ method }) => method === 'GET' || method === 'PATCH'))
      await send(route);
    for (const route of rest.filter(({ method }) => method === 'DELETE').reverse()) await send(route);
    for (const route of last) await send(route);
    expect(failed).toEqual([]);
  });
});

/** A session of the user of the example of createUser. */
async function sessionOf(user: string): Promise<string> {
  const body = { email: 'grace@example.com', password: 'correct horse' };
  await rowhouse.call('POST', '/projects/my-shop/auth/signin', { body });
  return (await rowhouse.call('GET', `/projects/my-shop/auth/users/${user}/sessions`)).body.sessions[0].id;
}

type Sent = {
  url: string;
  key: string;
  body?: unknown;
  raw?: string;
  headers: Record<string, string>;
  isJson: boolean;
};

/** One request for each content type that has an example. */
async function requestsOf({ path, operation }: Route, ids: Map<string, string>): Promise<Sent[]> {
  const { operationId, parameters = [], requestBody } = operation;
  const query = new URLSearchParams();
  for (const { in: place, name, example } of parameters) {
    if (place !== 'query' || example === undefined) continue;
    const fields = typeof example === 'object' ? (example as object) : { [name]: example };
    for (const [key, value] of Object.entries(fields)) query.set(key, String(value));
  }
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const example = parameters.find(
      (parameter) => parameter.in === 'path' && parameter.name === name,
    )?.example;
    return encodeURIComponent(String(example ?? ids.get(idOf(path, name)) ?? 'missing'));
  });
  const headers: Record<string, string> = {};
  if (operationId.includes('SignedInUser') || operationId === 'signOut') {
    const { body } = await rowhouse.call('POST', '/projects/my-shop/auth/signin', {
      body: { email: 'ada@example.com', password: 'correct horse' },
    });
    headers.authorization = `Bearer ${body.session.access_token}`;
  }
  if (path === '/sql') {
    const { body } = await rowhouse.call('GET', '/projects/my-shop/connection');
    headers['neon-connection-string'] = body.connection.url;
  }
  const key =
    path.startsWith(`${api}/accounts`) || path.startsWith(`${api}/people`)
      ? rowhouse.operatorKey
      : rowhouse.accountKey;
  const base = {
    url: filled + (query.size > 0 ? `?${query}` : ''),
    key: path === '/sql' ? '' : key,
    headers,
    isJson: true,
  };
  const content = Object.entries(requestBody?.content ?? {});
  if (content.length === 0) return [base];
  return content
    .filter(([, media]) => media.example !== undefined)
    .map(([type, { example }]) =>
      type === 'application/json'
        ? { ...base, body: example }
        : {
            ...base,
            // An import takes no parameters.
            url: filled,
            raw: String(example),
            headers: { ...headers, 'content-type': type },
            isJson: false,
          },
    );
}

/** Under which name the id in a path is kept. */
function idOf(path: string, name: string): string {
  if (name === 'session') return name;
  if (path.endsWith('{slug}/keys/{id}')) return 'project keys';
  const before = path.slice(0, path.indexOf(`/{${name}}`));
  return before.slice(before.lastIndexOf('/') + 1);
}

function remember(
  ids: Map<string, string>,
  operationId: string,
  body: Record<string, { id?: string }>,
): void {
  const made: Record<string, [string, string]> = {
    createAccount: ['accounts', 'account'],
    importProject: ['jobs', 'job'],
    createUpload: ['uploads', 'upload'],
    createUser: ['users', 'user'],
    saveQuery: ['queries', 'saved'],
    addToHistory: ['history', 'entry'],
    inviteMember: ['invitations', 'invitation'],
    actAsUser: ['act-as', 'acting'],
    issueAccountKey: ['keys', 'key'],
    issueKey: ['project keys', 'key'],
  };
  const [kind, field] = made[operationId] ?? [];
  const id = field && body?.[field]?.id;
  if (kind && id) ids.set(kind, String(id));
}

/** The schemas of objects with properties, by their text. */
function collectObjects(value: unknown, place: string, found: Map<string, string[]>): void {
  if (typeof value !== 'object' || value === null) return;
  const { type, properties } = value as Schema;
  if (type === 'object' && typeof properties === 'object') {
    const text = JSON.stringify(value);
    found.set(text, [...(found.get(text) ?? []), place]);
  }
  for (const [key, part] of Object.entries(value)) collectObjects(part, `${place}/${key}`, found);
}

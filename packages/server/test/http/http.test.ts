import { once } from 'node:events';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { ErrorBody } from '@rowhouse/api';
import { Compile } from 'typebox/compile';
import { beforeAll, describe, expect, it } from 'vitest';
import { withoutSecrets } from '../../src/lib/log.ts';
import { lackedByPostgres } from '../../src/settings/security-fixes.ts';
import { api, openSecondProcess, useTestService } from '../support/helpers.ts';

const rowhouse = useTestService({
  spares: 0,
  corsOrigins: ['https://app.example.com'],
  timeouts: { headersMs: 400, requestMs: 800, checkMs: 50 },
});
const isErrorBody = Compile(ErrorBody);
let port = 0;
beforeAll(async () => {
  await rowhouse.app.listen({ host: '127.0.0.1', port: 0 });
  port = (rowhouse.app.server.address() as AddressInfo).port;
});

/** Bytes over a bare socket, and everything that comes back until the service closes. */
async function raw(...pieces: (string | Buffer | number)[]): Promise<string> {
  const socket: Socket = connect(port, '127.0.0.1');
  let answer = '';
  socket.on('data', (data) => {
    answer += data;
  });
  socket.on('error', () => {});
  const closed = once(socket, 'close');
  for (const piece of pieces) {
    if (typeof piece === 'number') await new Promise((resolve) => setTimeout(resolve, piece));
    else socket.write(piece);
  }
  await closed;
  return answer;
}

const request = (extra: string, body = '') =>
  `POST ${api}/projects HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${extra}\r\n${body}`;
const key = () => `X-API-Key: ${rowhouse.accountKey}\r\n`;
const json = 'Content-Type: application/json\r\n';
const length = (body: string | Buffer) => `Content-Length: ${Buffer.byteLength(body)}\r\n`;
const parse = (answer: string) => ({
  status: Number(answer.slice(9, 12)),
  body: JSON.parse(
    answer.slice(answer.indexOf('\r\n\r\n') + 4).replace(/^[0-9a-f]+\r\n|\r\n0\r\n\r\n$/g, ''),
  ),
});

describe('request bodies', () => {
  it.each([
    ['not JSON', '{"name":', 'invalid_json', 400],
    ['text', 'hello', 'invalid_json', 400],
    ['blank', '  ', 'invalid_json', 400],
    ['a second value', '{"name":"a"} {}', 'invalid_json', 400],
    ['invalid UTF-8', Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]), 'invalid_json', 400],
    ['half a surrogate pair', '{"name":"a\\ud800"}', 'invalid_json', 400],
    ['an array', '[]', 'invalid_request', 400],
    ['null', 'null', 'invalid_request', 400],
    ['a NUL', '{"name":"a\\u0000b"}', 'invalid_request', 400],
    ['100,000 levels', `{"name":${'['.repeat(100_000)}${']'.repeat(100_000)}}`, 'invalid_request', 400],
    ['40,000 levels of objects', `${'{"a":'.repeat(40_000)}1${'}'.repeat(40_000)}`, 'invalid_request', 400],
    ['__proto__', '{"name":"a","__proto__":{"x":1}}', 'invalid_request', 400],
    ['constructor', '{"name":"a","constructor":{"prototype":1}}', 'invalid_request', 400],
    [
      '10,000 unknown fields',
      JSON.stringify(Object.fromEntries(Array.from({ length: 10_000 }, (_, n) => [`f${n}`, n]))),
      'invalid_request',
      400,
    ],
    ['too much', `{"name":"${'x'.repeat(1024 * 1024)}"}`, 'payload_too_large', 413],
  ])('are refused with a clear message: %s', async (_what, body, code, status) => {
    const answer = await rowhouse.call('POST', '/projects', { raw: body });
    expect([answer.status, answer.body.error.code]).toEqual([status, code]);
    expect(isErrorBody.Check(answer.body), JSON.stringify(answer.body).slice(0, 500)).toBe(true);
    expect(JSON.stringify(answer.body).length).toBeLessThan(5000);
  });

  it('are never quoted in a message about bad JSON', async () => {
    const answer = await rowhouse.call('POST', '/projects', { raw: '{"password": hunter2-secret}' });
    expect(JSON.stringify(answer.body)).not.toContain('hunter2');
    expect(answer.body.error.code).toBe('invalid_json');
  });

  it.each([
    ['text/plain'],
    ['text/csv'],
    ['application/x-www-form-urlencoded'],
    ['application/json2'],
    ['a/b/c'],
    [''],
  ])('of type %j get 415', async (type) => {
    const answer = await rowhouse.call('POST', '/projects', { raw: '{}', headers: { 'content-type': type } });
    expect([answer.status, answer.body.error.code]).toEqual([415, 'unsupported_media_type']);
    expect(answer.body.error.hint).toContain('application/json');
  });

  it('may have a charset, emoji and names of 100 characters', async () => {
    const name = '🏠'.repeat(50) + 'é'.repeat(50);
    const { status, body } = await rowhouse.call('POST', '/projects', {
      body: { name },
      headers: { 'content-type': 'application/json; charset=utf-8' },
    });
    expect([status, body.project?.name]).toEqual([201, name]);
  });
});

describe('paths and methods', () => {
  it.each([
    ['GET', '/nowhere', 404, 'route_not_found'],
    ['GET', `${api}/nowhere`, 404, 'route_not_found'],
    ['PUT', `${api}/projects`, 405, 'method_not_allowed'],
    ['DELETE', `${api}/projects`, 405, 'method_not_allowed'],
    ['POST', '/healthz', 405, 'method_not_allowed'],
    ['TRACE', '/healthz', 405, 'method_not_allowed'],
    ['GET', `${api}/projects/some-slug?surprise=1`, 400, 'invalid_request'],
    ['GET', `${api}/projects/%zz`, 400, 'invalid_request'],
    ['GET', `${api}/projects/a%2Fb`, 404, 'project_not_found'],
    ['GET', `${api}/projects/%00`, 404, 'project_not_found'],
    ['GET', `${api}/projects/..%2f..%2fetc`, 404, 'project_not_found'],
    ['GET', `${api}/projects/UPPER`, 404, 'project_not_found'],
    ['GET', `${api}/projects/%F0%9F%99%82`, 404, 'project_not_found'],
  ])('%s %s → %i %s', async (method, path, status, code) => {
    const answer = await rowhouse.call(method, path);
    expect([answer.status, answer.body.error?.code]).toEqual([status, code]);
    expect(isErrorBody.Check(answer.body)).toBe(true);
    if (status === 405) expect(answer.headers.allow).toContain('GET');
  });

  it('a path of thousands of characters is not echoed in full', async () => {
    const answer = await rowhouse.call('GET', `/projects/${'x'.repeat(5000)}`);
    expect([answer.status, answer.body.error.code]).toEqual([404, 'route_not_found']);
    expect(answer.body.error.message.length).toBeLessThan(200);
  });

  it('a percent-encoded slug is the same slug', async () => {
    const { slug } = await rowhouse.project('Encoded');
    const encoded = [...slug].map((letter) => `%${letter.charCodeAt(0).toString(16)}`).join('');
    expect((await rowhouse.call('GET', `/projects/${encoded}`)).body.project.slug).toBe(slug);
  });

  it('a caller without a key learns nothing and cannot make the service read a body', async () => {
    for (const path of ['/projects', '/projects/x', '/projects/x/keys']) {
      expect((await rowhouse.call('GET', path, { key: '' })).body.error.code).toBe('missing_api_key');
    }
    const started = performance.now();
    const answer = await raw(request(`${json}Content-Length: 1000000\r\n`, '{'));
    expect(parse(answer).status).toBe(401);
    expect(performance.now() - started, 'it did not wait for the body').toBeLessThan(10_000);
  });
});

describe('raw HTTP requests', () => {
  it.each([
    ['X-API-Key', () => key() + key()],
    ['Authorization', () => `Authorization: Bearer ${rowhouse.accountKey}\r\n`.repeat(2)],
    ['Content-Type', () => key() + json + json],
  ])('with a repeated %s are refused', async (name, headers) => {
    const { status, body } = parse(await raw(request(`${headers()}${length('{}')}`, '{}')));
    expect([status, body.error.details[0].path]).toEqual([400, name.toLowerCase()]);
  });

  it.each([
    ['rubbish', 'hello\r\n\r\n', 400],
    ['a bad header', 'GET / HTTP/1.1\r\nHost: x\r\nBad Header\r\n\r\n', 400],
    [
      'a length and chunks',
      `POST ${api}/projects HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}`,
      400,
    ],
    [
      'two lengths',
      `POST ${api}/projects HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}`,
      400,
    ],
    ['two hosts', 'GET /readyz HTTP/1.1\r\nHost: localhost\r\nhost: example.com\r\n\r\n', 400],
    ['no host', 'GET /readyz HTTP/1.1\r\n\r\n', 400],
    ['HTTP/2.0', 'GET /readyz HTTP/2.0\r\nHost: localhost\r\n\r\n', 400],
    ['no version', 'GET /readyz\r\n\r\n', 400],
    ['the address of another host', 'GET http://example.com/readyz HTTP/1.1\r\nHost: localhost\r\n\r\n', 400],
    ['huge headers', `GET / HTTP/1.1\r\nHost: x\r\nX-Big: ${'x'.repeat(40_000)}\r\n\r\n`, 431],
  ])('are answered by the book: %s', async (_what, bytes, status) => {
    const answer = parse(await raw(bytes));
    expect(answer.status).toBe(status);
    expect(isErrorBody.Check(answer.body)).toBe(true);
  });

  it('behind the last one of a connection are not answered', async () => {
    const answer = await raw('GET /readyz HTTP/1.0\r\n\r\nGET /readyz HTTP/1.0\r\n\r\n');
    expect(answer.match(/HTTP\/1\.1 \d{3}/g)).toEqual(['HTTP/1.1 200']);
  });

  it('with a whole address are those for its path', async () => {
    const answer = await raw(
      'GET http://localhost/console HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n',
    );
    expect(answer).toMatch(/^HTTP\/1\.1 (200|30\d|404) /);
    expect(answer.toLowerCase()).toContain('content-security-policy: ');
  });

  it('that arrive too slowly are cut off, in headers and body, while others are served', async () => {
    const headers = raw('GET / HTTP/1.1\r\nHost: x\r\n');
    const body = raw(request(`${key()}${json}Content-Length: 100\r\n`, '{"name":'));
    expect((await rowhouse.call('GET', '/projects')).status).toBe(200);
    expect(parse(await headers)).toMatchObject({ status: 408, body: { error: { code: 'request_timeout' } } });
    expect((await body).slice(0, 12)).toBe('HTTP/1.1 408');
  });
});

describe('request ids', () => {
  it('are echoed when valid and generated otherwise', async () => {
    const id = async (given?: string) =>
      (
        await rowhouse.call('GET', '/healthz', {
          headers: given === undefined ? {} : { 'x-request-id': given },
        })
      ).headers['x-request-id'];
    expect(await id('abc-123')).toBe('abc-123');
    for (const bad of [undefined, '', 'x'.repeat(200), 'a b', '<script>']) {
      expect(await id(bad)).toMatch(/^[0-9a-f-]{36}$/);
    }
    const failed = await rowhouse.call('GET', '/nowhere', { headers: { 'x-request-id': 'mine' } });
    expect(failed.body.request_id).toBe('mine');
  });
});

describe('CORS', () => {
  const preflight = (app: typeof rowhouse.app, origin: string) =>
    app.inject({
      method: 'OPTIONS',
      url: `${api}/projects`,
      headers: {
        origin,
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'x-api-key',
      },
    });

  it('allows the configured origins and no other', async () => {
    const good = await preflight(rowhouse.app, 'https://app.example.com');
    expect(good.statusCode).toBe(204);
    expect(good.headers['access-control-allow-origin']).toBe('https://app.example.com');
    expect(good.headers['access-control-allow-headers']).toContain('x-api-key');
    for (const method of ['GET', 'POST', 'PATCH', 'DELETE']) {
      expect(good.headers['access-control-allow-methods']).toContain(method);
    }
    const bad = await preflight(rowhouse.app, 'https://evil.example.com');
    expect(bad.headers['access-control-allow-origin']).toBeUndefined();
  });

  it('can be open to all origins or closed', async () => {
    for (const [corsOrigins, expected] of [
      ['*', '*'],
      [[], undefined],
    ] as const) {
      const other = await openSecondProcess(rowhouse, { corsOrigins: corsOrigins === '*' ? '*' : [] });
      const answer = await preflight(other.app, 'https://anybody.example.com');
      expect(answer.headers['access-control-allow-origin']).toBe(expected);
      await other.stop();
    }
  });
});

describe('endpoints without a key', () => {
  it('include /healthz and /readyz', async () => {
    expect((await rowhouse.call('GET', '/healthz', { key: '' })).body).toMatchObject({ ok: true });
    expect((await rowhouse.call('GET', '/readyz', { key: '' })).body).toMatchObject({
      ok: true,
      postgres: expect.stringMatching(/^\d+\.\d+/),
    });
  });

  it('include /metrics, whose labels callers cannot multiply', async () => {
    await rowhouse.call('GET', '/projects/some-slug');
    const { body, headers } = await rowhouse.call('GET', '/metrics', { key: '' });
    expect(headers['content-type']).toContain('text/plain');
    expect(body).toMatch(/rowhouse_projects \d+/);
    expect(body).toContain('rowhouse_postgres_up 1');
    const { name, version } = rowhouse.service.deps.server;
    const lacked = lackedByPostgres(version)?.releases ?? 0;
    expect(body).toContain(`rowhouse_server_security_releases_missing{server="${name}"} ${lacked}\n`);
    expect(body).toContain('route="/api/dbaas/v2/projects/:slug"');
    expect(body).not.toContain('some-slug');
  });

  it('exclude /metrics for pages in a browser on this machine, by whatever name they reach it', async () => {
    const read = async (headers: Record<string, string>) =>
      (await rowhouse.call('GET', '/metrics', { key: '', headers })).status;
    for (const host of ['localhost:8765', '127.0.0.1', '[::1]:8765']) expect(await read({ host })).toBe(200);
    for (const headers of [
      { host: 'evil.example' },
      { host: '127.0.0.1.evil.example:8765' },
      { host: 'localhost', origin: 'https://evil.example' },
      { host: 'localhost', 'sec-fetch-site': 'cross-site' },
    ])
      expect(await read(headers), JSON.stringify(headers)).toBe(401);
    const { status } = await rowhouse.call('GET', '/metrics', {
      key: rowhouse.operatorKey,
      headers: { host: 'evil.example' },
    });
    expect(status).toBe(200);
  });

  it('include an OpenAPI 3.1 document with every route, and a page for it', async () => {
    const { body } = await rowhouse.call('GET', '/openapi.json', { key: '' });
    expect(body.openapi).toBe('3.1.0');
    expect(Object.keys(body.paths)).toEqual(
      expect.arrayContaining([
        `${api}/projects`,
        `${api}/projects/{slug}`,
        `${api}/projects/{slug}/keys/rotate`,
        '/readyz',
      ]),
    );
    const create = body.paths[`${api}/projects`].post;
    const { schemas } = body.components;
    const named = (name: string) => ({ $ref: `#/components/schemas/${name}` });
    expect(create.requestBody.content['application/json'].schema).toEqual(named('CreateProject'));
    expect(schemas.CreateProject.required).toEqual(['name']);
    expect(Object.keys(create.responses)).toEqual(expect.arrayContaining(['201', 'default']));
    expect(create.responses['201'].content['application/json'].schema).toEqual(
      named('CreatedProjectResponse'),
    );
    expect(schemas.CreatedProjectResponse.properties).toMatchObject({
      project: named('Project'),
      api_key: { type: 'string' },
    });
    const { get, post, patch } = body.paths[`${api}/projects/{slug}/tables/{table}`];
    const namesOf = ({ parameters }: { parameters: { name: string }[] }) =>
      parameters.map(({ name }) => name);
    expect(namesOf(get)).toEqual(expect.arrayContaining(['slug', 'table', 'cursor', 'filters']));
    expect(namesOf(patch)).not.toContain('on_conflict');
    expect(Object.keys(post.requestBody.content)).toEqual([
      'application/json',
      'text/csv',
      'application/x-ndjson',
    ]);
    // What needs a user's token says so, and what only takes one.
    const withToken = { apiKey: [], accessToken: [] };
    for (const { security } of Object.values<{ security: object[] }>(
      body.paths[`${api}/projects/{slug}/auth/user`],
    ))
      expect(security).toEqual([withToken]);
    expect(get.security).toEqual([{ bearer: [] }, { apiKey: [] }, withToken]);
    expect((await rowhouse.call('GET', '/docs', { key: '' })).status).toBe(200);
  });
});

describe('the log', () => {
  it('has a line for each request and never a key, wherever it was sent', async () => {
    const stray = rowhouse.accountKey;
    await rowhouse.call('GET', `/projects?limit=${stray}`, { headers: { 'x-request-id': 'stray-1' } });
    await rowhouse.call('POST', '/projects', { body: { name: stray, slug: 'Bad' } });
    const lines = rowhouse.log.join('');
    expect(lines).toContain('"request_id":"stray-1"');
    expect(lines).not.toContain(stray.slice(10));
  });

  it('hides secrets that appear in a path or an error', () => {
    const line = withoutSecrets(
      `{"path":"/x/${rowhouse.accountKey}","a":"eyJhbGciOi.eyJzdWIi.c2ln","b":"postgres://u:hunter2@h/db","c":"SCRAM-SHA-256$4096:ab$cd:ef"}`,
    );
    expect(line).toBe('{"path":"/x/rh_acct_…","a":"eyJ…","b":"postgres://u:…@h/db","c":"SCRAM-SHA-256$…"}');
    const ofUsers = withoutSecrets(
      '"rh_ref_a-b_c","rh_code_0aZ","smtp://u:hunter2@h","smtps://u:hunter2@h:465"',
    );
    expect(ofUsers).toBe('"rh_ref_…","rh_code_…","smtp://u:…@h","smtps://u:…@h:465"');
    const ofConsole = withoutSecrets('"rh_link_a-b_c","#link=rh_link_Z","rh_cookie_a-b;","rh_token_0_-"');
    expect(ofConsole).toBe('"rh_link_…","#link=rh_link_…","rh_cookie_…;","rh_token_…"');
  });
});

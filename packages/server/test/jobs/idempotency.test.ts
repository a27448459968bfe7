import { randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { request as httpRequest } from 'node:http';
import { Readable } from 'node:stream';
import Fastify from 'fastify';
import { describe, expect, it } from 'vitest';
import { openControl } from '../../src/control/control.ts';
import { acceptIdempotencyKeys } from '../../src/http/request/idempotency.ts';
import { registerDeadlines } from '../../src/http/request/request-deadline.ts';
import { errorResponder } from '../../src/http/response/error-response.ts';
import {
  forgetOldIdempotencyKeys,
  type IdempotentRequest,
  openIdempotency,
} from '../../src/jobs/idempotency.ts';
import type { Caller } from '../../src/keys/caller.ts';
import { sql } from '../../src/postgres/sql.ts';
import {
  address,
  api,
  openSecondProcess,
  type TestService,
  until,
  useTestService,
} from '../support/helpers.ts';

const masterKey = randomBytes(32);
let shiftMs = 0;
const now = () => Date.now() + shiftMs;
const rowhouse = useTestService({ masterKey, now, background: false });

type More = { key?: string; header?: string; at?: TestService; url?: string };

const post = (path: string, body: unknown, { key, header = randomUUID(), at = rowhouse }: More = {}) =>
  at.call('POST', path, { body, headers: { 'idempotency-key': header }, ...(key !== undefined && { key }) });
const query = (project: { slug: string; key: string }, statement: string, more: More = {}) =>
  post(`/projects/${project.slug}/query`, { query: statement }, { key: project.key, ...more });
const rows = async (project: { slug: string; key: string }, statement: string) => {
  const { status, body } = await rowhouse.call('POST', `/projects/${project.slug}/query`, {
    key: project.key,
    body: { query: statement },
  });
  expect(status, JSON.stringify(body)).toBe(200);
  return body.rows;
};
const countProjects = async (name: string) => {
  const { body } = await rowhouse.call('GET', '/projects?limit=1000');
  return body.projects.filter((project: { name: string }) => project.name === name).length;
};
const withTable = async () => {
  const project = await rowhouse.project();
  await rows(project, 'create table t (id int primary key)');
  return project;
};
const count = async (project: { slug: string; key: string }) =>
  (await rows(project, 'select count(*)::int as n from t'))[0].n;

const reserved = async () => {
  const found = await rowhouse.service.deps.control.query(sql`select 1 from repeats where state = 'running'`);
  return found.length > 0;
};

describe('a repeated request with the same Idempotency-Key', () => {
  it('gets the first answer again, including the API key, and nothing runs twice', async () => {
    const header = randomUUID();
    const first = await post('/projects', { name: 'Only one' }, { header });
    const again = await post('/projects', { name: 'Only one' }, { header });
    expect(first.status).toBe(201);
    expect(again.status).toBe(201);
    expect(again.body).toEqual(first.body);
    expect(again.headers.location).toBe(first.headers.location);
    expect(again.headers['content-type']).toBe(first.headers['content-type']);
    expect(first.headers['idempotency-replayed']).toBeUndefined();
    expect(again.headers['idempotency-replayed']).toBe('true');
    expect(again.headers['x-request-id']).not.toBe(first.headers['x-request-id']);
    expect(await countProjects('Only one')).toBe(1);
    const { status } = await rowhouse.call('GET', `/projects/${first.body.project.slug}`, {
      key: again.body.api_key,
    });
    expect(status).toBe(200);
  });

  it('is refused with another body; another path or API key makes it another request', async () => {
    const project = await withTable();
    const header = 'k';
    expect((await query(project, 'insert into t values (1)', { header })).status).toBe(200);
    const other = await query(project, 'insert into t values (2)', { header });
    expect(other.status).toBe(409);
    expect(other.body.error).toMatchObject({ code: 'conflict', details: { retryable: false } });
    expect(other.headers['retry-after']).toBeUndefined();
    // The same JSON in other bytes is another body.
    const spaced = await rowhouse.call('POST', `/projects/${project.slug}/query`, {
      key: project.key,
      raw: '{"query": "insert into t values (1)"}',
      headers: { 'idempotency-key': header },
    });
    expect(spaced.status).toBe(409);
    expect((await query(project, 'insert into t values (3)', { header: 'K' })).status).toBe(200);
    const batch = await post(
      `/projects/${project.slug}/batch`,
      { statements: [{ query: 'insert into t values (4)' }] },
      { key: project.key, header },
    );
    expect(batch.status).toBe(200);
    expect(await count(project)).toBe(3);
  });

  it('works for a POST without a body', async () => {
    const project = await rowhouse.project();
    await rowhouse.call('DELETE', `/projects/${project.slug}`);
    const restore = () =>
      rowhouse.call('POST', `/projects/${project.slug}/restore`, { headers: { 'idempotency-key': 'back' } });
    const first = await restore();
    expect(first.status).toBe(200);
    expect((await restore()).headers['idempotency-replayed']).toBe('true');
    // After another deletion the answer is still the first one: that is what a repeat is.
    await rowhouse.call('DELETE', `/projects/${project.slug}`);
    expect((await restore()).body).toEqual(first.body);
  });

  it('has one effect when twenty arrive at once', async () => {
    const header = randomUUID();
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => post('/projects', { name: 'Twenty' }, { header })),
    );
    const made = answers.filter(({ status }) => status === 201);
    const busy = answers.filter(({ status }) => status === 409);
    expect(made.length + busy.length).toBe(20);
    expect(made.filter(({ headers }) => headers['idempotency-replayed'] === undefined)).toHaveLength(1);
    for (const { body, headers } of busy) {
      expect(body.error).toMatchObject({ code: 'conflict', details: { retryable: true } });
      expect(headers['retry-after']).toBe('1');
    }
    const later = await post('/projects', { name: 'Twenty' }, { header });
    expect(new Set([later, ...made].map(({ body }) => body.api_key)).size).toBe(1);
    expect(await countProjects('Twenty')).toBe(1);
  });

  it('works after a restart and on another process', async () => {
    const header = randomUUID();
    const ask = (at: TestService) =>
      post('/projects', { name: 'Twice' }, { header, at, key: rowhouse.accountKey });
    const second = await openSecondProcess(rowhouse);
    const answers = await Promise.all([rowhouse, second, rowhouse, second, rowhouse, second].map(ask));
    expect(answers.filter(({ status }) => ![201, 409].includes(status))).toEqual([]);
    const first = await ask(rowhouse);
    expect((await ask(second)).body).toEqual(first.body);
    await second.stop();
    const third = await openSecondProcess(rowhouse);
    const again = await ask(third);
    expect(again.body).toEqual(first.body);
    expect(again.headers['idempotency-replayed']).toBe('true');
    await third.stop();
    expect(await countProjects('Twice')).toBe(1);
  });

  it('ignores the header on other methods', async () => {
    const project = await rowhouse.project();
    for (const name of ['One', 'Two']) {
      const { body } = await rowhouse.call('PATCH', `/projects/${project.slug}`, {
        body: { name },
        headers: { 'idempotency-key': 'same' },
      });
      expect(body.project.name).toBe(name);
    }
  });

  it('is told that the answer was streamed or too large to store', async () => {
    const project = await withTable();
    // Up to 256 KB an answer goes out whole and is kept; a larger one streams.
    for (const [from, to, isKept] of [
      [1, 1, true],
      [2, 11, false],
    ] as const) {
      const header = randomUUID();
      const statement = `insert into t select n from generate_series(${from}, ${to}) n returning repeat($$x$$, 200000)`;
      const first = await query(project, statement, { header });
      expect(first.status, JSON.stringify(first.body).slice(0, 300)).toBe(200);
      const again = await until('its end is known', async () => {
        const answer = await query(project, statement, { header });
        return answer.body.error?.details?.retryable !== true && answer;
      });
      if (isKept) expect(again.body).toEqual(first.body);
      else {
        expect(again.status).toBe(409);
        expect(again.body.error).toMatchObject({
          code: 'conflict',
          details: { retryable: false, ran: true, status: 200 },
        });
      }
      expect(await count(project)).toBe(to);
    }
  });
});

describe('the owner of an Idempotency-Key', () => {
  it('two callers can use the same key independently', async () => {
    const mine = await withTable();
    const header = randomUUID();
    const issue = (scopes: string[]) =>
      rowhouse.call('POST', `/projects/${mine.slug}/keys`, { key: mine.key, body: { name: 'k', scopes } });
    const one = (await issue(['query'])).body.api_key;
    const two = (await issue(['query'])).body.api_key;
    for (const [index, key] of [rowhouse.accountKey, mine.key, one, two].entries()) {
      const answer = await query(mine, `insert into t values (${index})`, { header, key });
      expect(answer.status).toBe(200);
      expect(answer.headers['idempotency-replayed']).toBeUndefined();
    }
    expect(await count(mine)).toBe(4);
  });

  it('an API key with fewer scopes cannot fetch the answer of another', async () => {
    const project = await rowhouse.project();
    const header = 'make-key';
    const body = { name: 'weak', scopes: ['tables:read'] };
    const path = `/projects/${project.slug}/keys`;
    const issued = await post(path, body, { key: project.key, header });
    expect(issued.status).toBe(201);
    const answer = await post(path, body, { key: issued.body.api_key, header });
    expect(answer.status).toBe(403);
    expect(JSON.stringify(answer.body)).not.toContain('rh_');
  });

  it('repeats work after a rotation, but the old API key does not reveal the new one', async () => {
    const project = await withTable();
    const header = randomUUID();
    const insert = 'insert into t values (1)';
    expect((await query(project, insert, { header })).status).toBe(200);
    const path = `/projects/${project.slug}/keys/rotate`;
    const rotated = await post(path, {}, { key: project.key, header });
    expect(rotated.status).toBe(200);
    const old = await until('the rotation is known', async () => {
      const answer = await post(path, {}, { key: project.key, header });
      return answer.status === 403 && answer;
    });
    expect(JSON.stringify(old.body)).not.toContain(rotated.body.api_key);
    const present = await post(path, {}, { key: rotated.body.api_key, header });
    expect(present.body).toEqual(rotated.body);
    for (const key of [project.key, rotated.body.api_key]) {
      expect((await query(project, insert, { header, key })).headers['idempotency-replayed']).toBe('true');
    }
  });

  it('stored answers are encrypted, and no API key is readable', async () => {
    const { body } = await post('/projects', { name: 'Sealed' }, { header: 'plain-to-see' });
    const dump = await rowhouse.service.deps.control.query<{ text: string }>(
      sql`select coalesce(encode(answer, 'escape'), '') || repeats::text as text from repeats`,
    );
    const text = dump.map((row) => row.text).join();
    expect(text).not.toContain('rh_proj_');
    expect(text).not.toContain('plain-to-see');
    expect(body.api_key).toContain('rh_proj_');
  });
});

describe('failures under an Idempotency-Key', () => {
  it('that would recur are stored and repeated', async () => {
    const project = await withTable();
    await rows(project, 'insert into t values (1)');
    for (const [statement, status] of [
      ['insert into t values (1)', 409],
      ["insert into t values ('x')", 422],
      ['insert into nowhere values (1)', 400],
    ] as const) {
      const header = randomUUID();
      const first = await query(project, statement, { header });
      const again = await query(project, statement, { header });
      expect([first.status, again.status]).toEqual([status, status]);
      expect(again.headers['idempotency-replayed']).toBe('true');
      expect(again.body).toEqual(first.body);
    }
    const slug = { name: 'A', slug: project.slug };
    const header = randomUUID();
    expect((await post('/projects', slug, { header })).body.error.code).toBe('slug_taken');
    expect((await post('/projects', slug, { header })).headers['idempotency-replayed']).toBe('true');
  });

  it('that are temporary, or due to the API key or the form, allow another try', async () => {
    const project = await withTable();
    const readOnly = await rowhouse.call('POST', `/projects/${project.slug}/keys`, {
      body: { name: 'r', scopes: ['tables:read'] },
    });
    const header = randomUUID();
    const insert = 'insert into t values (7)';
    const insertAs = (key: string) => query(project, insert, { header, key });
    expect((await insertAs(readOnly.body.api_key)).status).toBe(403);
    expect((await insertAs('rh_proj_typo')).status).toBe(401);
    expect((await insertAs('')).status).toBe(401);
    const elsewhere = { ...project, slug: 'there-is-none' };
    expect((await query(elsewhere, insert, { header })).status).toBe(404);
    expect((await post(`/projects/${project.slug}/query`, {}, { key: project.key, header })).status).toBe(
      400,
    );
    const late = await post(
      `/projects/${project.slug}/query`,
      {
        query: 'with i as (insert into t values (7) returning id) select pg_sleep(9) from i',
        timeout_ms: 100,
      },
      { key: project.key, header },
    );
    expect(late.status).toBe(504);
    const first = await insertAs(project.key);
    expect([first.status, first.headers['idempotency-replayed']]).toEqual([200, undefined]);
    expect((await insertAs(project.key)).headers['idempotency-replayed']).toBe('true');
    expect(await count(project)).toBe(1);
  });

  it('with an unknown outcome never run again', async () => {
    const project = await withTable();
    const header = randomUUID();
    const statement =
      'with i as (insert into t values (1) returning id) select pg_terminate_backend(pg_backend_pid()) from i';
    const first = await query(project, statement, { header });
    expect([first.status, first.body.error.code]).toEqual([503, 'outcome_unknown']);
    const again = await query(project, statement, { header });
    expect([again.status, again.body.error.code]).toEqual([409, 'outcome_unknown']);
    expect(again.body.error.hint).toContain('new key');
    const other = await query(project, 'select 1', { header });
    expect(other.body.error.code).toBe('conflict');
  });

  it('of the process: conflict while it lives, then unknown, and its late answer still counts', async () => {
    const project = await withTable();
    const header = randomUUID();
    const statement = 'insert into t select 1 from pg_sleep(1.5)';
    const first = query(project, statement, { header });
    await until('it runs', reserved);
    const busy = await query(project, statement, { header });
    expect(busy.status).toBe(409);
    expect(busy.body.error).toMatchObject({ code: 'conflict', details: { retryable: true } });
    // As if its process had not been heard of for long.
    await rowhouse.service.deps.control.query(
      sql`update repeats set alive_until = now() - interval '1 second' where state = 'running'`,
    );
    const dead = await query(project, statement, { header });
    expect([dead.status, dead.body.error.code]).toEqual([409, 'outcome_unknown']);
    expect((await first).status).toBe(200);
    const again = await query(project, statement, { header });
    expect([again.status, again.headers['idempotency-replayed']]).toEqual([200, 'true']);
    expect(await count(project)).toBe(1);
  });

  it('of a caller who hung up: the statement is cancelled and a repeat runs', async () => {
    const second = await openSecondProcess(rowhouse);
    const project = await withTable();
    await second.app.listen({ port: 0, host: '127.0.0.1' });
    const { port } = second.app.server.address() as { port: number };
    const header = randomUUID();
    const body = { query: 'with i as (insert into t values (1) returning id) select pg_sleep(1) from i' };
    const headers = {
      'x-api-key': project.key,
      'content-type': 'application/json',
      'idempotency-key': header,
    };
    const path = `${api}/projects/${project.slug}/query`;
    const hanging = httpRequest({ port, host: '127.0.0.1', method: 'POST', path, headers });
    hanging.on('error', () => {});
    hanging.end(JSON.stringify(body));
    await until('it runs', reserved);
    hanging.destroy();
    const answer = await until('the key is free', async () => {
      const repeat = await query(project, body.query, { header });
      return repeat.status !== 409 && repeat;
    });
    expect(answer.status).toBe(200);
    expect(await count(project)).toBe(1);
    await second.stop();
  });
});

describe('the header Idempotency-Key', () => {
  it.each([
    ['empty', ''],
    ['blank inside', 'a b'],
    ['too long', 'x'.repeat(256)],
    ['a tab', 'a\tb'],
    ['not ASCII', 'é'],
  ])('(%s) is refused', async (_what, header) => {
    const { status, body } = await post('/projects', { name: 'Never' }, { header });
    expect(status).toBe(400);
    expect(body.error.code).toBe('invalid_request');
    expect(await countProjects('Never')).toBe(0);
  });

  it.each([
    ['the longest', 'x'.repeat(255)],
    ['quotes and SQL', `"';drop/**/table\u0020repeats;--"`.replaceAll(' ', '')],
    ['a prototype name', '__proto__'],
  ])('(%s) is accepted', async (_what, header) => {
    const project = await withTable();
    expect((await query(project, 'insert into t values (1)', { header })).status).toBe(200);
    expect((await query(project, 'insert into t values (1)', { header })).status).toBe(200);
    expect(await count(project)).toBe(1);
  });

  it('is documented in OpenAPI for every POST and nothing else', async () => {
    const { body } = await rowhouse.call('GET', '/openapi.json', { key: '' });
    for (const methods of Object.values(body.paths) as Record<
      string,
      { parameters?: { name: string }[] }
    >[]) {
      for (const [method, { parameters = [] }] of Object.entries(methods)) {
        const named = parameters.some(({ name }) => name === 'idempotency-key');
        expect(named).toBe(method === 'post');
      }
    }
  });
});

describe('Idempotency-Keys over time', () => {
  it('are new again after a day, and old ones are removed', async () => {
    const project = await withTable();
    const { control } = rowhouse.service.deps;
    const header = randomUUID();
    const insert = 'insert into t select count(*) from t';
    try {
      await query(project, insert, { header });
      shiftMs = 24 * 3_600_000 - 60_000;
      expect((await query(project, insert, { header })).headers['idempotency-replayed']).toBe('true');
      shiftMs = 24 * 3_600_000 + 60_000;
      expect((await query(project, insert, { header })).headers['idempotency-replayed']).toBeUndefined();
      expect((await query(project, insert, { header })).headers['idempotency-replayed']).toBe('true');
      expect(await count(project)).toBe(2);
      await forgetOldIdempotencyKeys(control, now());
      expect((await query(project, insert, { header })).headers['idempotency-replayed']).toBe('true');
      shiftMs = 49 * 3_600_000;
      await forgetOldIdempotencyKeys(control, now());
      expect(await control.query(sql`select 1 from repeats`)).toEqual([]);
    } finally {
      shiftMs = 0;
    }
  });
});

describe('storage of Idempotency-Keys', () => {
  const limits = {
    beatMs: 50,
    aliveMs: 400,
    maxKeys: 20,
    maxAnswerBytes: 1000,
    maxBytes: 2000,
    smallBytes: 10,
  };
  const callerOf = (kind: 'project' | 'publishable', accountId: string = randomUUID()): Caller => ({
    kind,
    accountId,
    keyId: randomUUID(),
    projectId: 'p',
    serverId: 1,
    passwordVersion: 1,
    isRotated: false,
    slug: 's',
    scopes: [],
    tables: null,
    maxPerSecond: null,
    expiresAt: null,
  });
  const fingerprint = Buffer.alloc(32, 1);
  const requestOf = (caller: Caller, key: string): IdempotentRequest => ({
    caller,
    user: null,
    key,
    method: 'POST',
    path: '/x',
    fingerprint,
    readToEnd: async () => fingerprint,
  });
  const answerOf = (size: number) => ({
    status: 200,
    contentType: null,
    location: null,
    body: Buffer.alloc(size, 'x'),
  });
  type Options = Partial<Parameters<typeof openIdempotency>[0]>;
  const within = async (
    use: (idempotency: ReturnType<typeof openIdempotency>) => Promise<void>,
    more: Options = {},
  ) => {
    const control = openControl(address(), rowhouse.controlDatabase);
    const idempotency = openIdempotency({
      control,
      masterKey,
      now: Date.now,
      onError: () => {},
      limits,
      ...more,
    });
    try {
      await use(idempotency);
    } finally {
      await idempotency.stop();
      await control.end();
    }
  };
  const reserve = async (idempotency: ReturnType<typeof openIdempotency>, caller: Caller, key: string) => {
    const found = await idempotency.begin(requestOf(caller, key));
    if (!('reservation' in found)) throw new Error('It was there already.');
    return found.reservation;
  };

  it('treats a long request as running, and one whose process died as not', async () => {
    const caller = callerOf('project');
    await within(async (idempotency) => {
      await reserve(idempotency, caller, 'long');
      await new Promise((resolve) => setTimeout(resolve, 800));
      await expect(idempotency.begin(requestOf(caller, 'long'))).rejects.toMatchObject({ code: 'conflict' });
    });
    await within(async (idempotency) => {
      await until('it counts as dead', async () => {
        const error = await idempotency.begin(requestOf(caller, 'long')).catch((thrown) => thrown);
        return error.code === 'outcome_unknown';
      });
    });
  });

  it('is limited per account, and repeats of stored ones still work', async () => {
    const caller = callerOf('project');
    await within(async (idempotency) => {
      for (let index = 0; index < limits.maxKeys; index++) {
        const reservation = await reserve(idempotency, caller, `k${index}`);
        await reservation.end({ is: 'answered', fingerprint, answer: answerOf(5) });
      }
      await expect(idempotency.begin(requestOf(caller, 'one more'))).rejects.toMatchObject({
        code: 'rate_limited',
        status: 429,
        retryAfterS: 60,
      });
      expect(await idempotency.begin(requestOf(caller, 'k3'))).toMatchObject({ answer: { status: 200 } });
      await reserve(idempotency, callerOf('project'), 'another account');
    });
  });

  it('cannot be used up by publishable keys', async () => {
    const caller = callerOf('publishable');
    await within(async (idempotency) => {
      await reserve(idempotency, caller, 'a');
      await reserve(idempotency, caller, 'b');
      await expect(idempotency.begin(requestOf(caller, 'c'))).rejects.toMatchObject({ code: 'rate_limited' });
      await reserve(idempotency, callerOf('project', caller.accountId), 'c');
    });
  });

  it('omits large answers, and with many keys stores only small ones', async () => {
    const caller = callerOf('project');
    await within(async (idempotency) => {
      for (const [key, size, isKept] of [
        ['too large', 1001, false],
        ['large', 1000, true],
        ['large 2', 1000, true],
        ['large 3', 1000, true],
        ['large 4', 1000, false],
        ['small', 10, true],
      ] as const) {
        const reservation = await reserve(idempotency, caller, key);
        await reservation.end({ is: 'answered', fingerprint, answer: answerOf(size) });
        const again = await idempotency.begin(requestOf(caller, key)).catch((error) => error);
        if (isKept) expect(again.answer?.body.length, key).toBe(size);
        else expect(again.details, key).toEqual({ retryable: false, ran: true, status: 200 });
      }
    });
  });

  it('catches up on what could not be written when PostgreSQL is back', async () => {
    const control = openControl(address(), rowhouse.controlDatabase);
    let isAway = false;
    const shaky = {
      ...control,
      query: ((statement) =>
        isAway ? Promise.reject(new Error('away')) : control.query(statement)) as typeof control.query,
    };
    const caller = callerOf('project');
    await within(
      async (idempotency) => {
        const nothing = await reserve(idempotency, caller, 'nothing');
        const answered = await reserve(idempotency, caller, 'answered');
        isAway = true;
        await nothing.end({ is: 'nothing_ran' });
        await answered.end({ is: 'answered', fingerprint, answer: answerOf(5) });
        isAway = false;
        await until('the key is free', () =>
          reserve(idempotency, caller, 'nothing').then(
            () => true,
            () => false,
          ),
        );
        const again = await idempotency.begin(requestOf(caller, 'answered')).catch((error) => error);
        expect(again.details).toMatchObject({ ran: true });
      },
      { control: shaky },
    );
    await control.end();
  });
});

describe('an import with an Idempotency-Key', () => {
  it('is hashed while it streams, and a repeat is compared without running', async () => {
    const app = Fastify({ bodyLimit: 100 });
    app.setErrorHandler(errorResponder(rowhouse.service.deps.log));
    registerDeadlines(app);
    app.decorateRequest('caller', null);
    app.addHook('onRequest', async (request) => {
      const accountId = 'streams';
      const owner = {
        ...({ kind: 'account', role: 'owner', keyId: 'k', projects: null } as const),
        isOperator: false,
        person: null,
        maxPerSecond: null,
        expiresAt: null,
      };
      request.caller = { ...owner, accountId };
    });
    app.addContentTypeParser('text/csv', (_request, payload, done) => done(null, payload));
    acceptIdempotencyKeys(app, rowhouse.service.deps.idempotency);
    let runs = 0;
    let most = 0;
    app.post('/import', async (request) => {
      runs++;
      let size = 0;
      for await (const chunk of request.body as Readable) {
        size += chunk.length;
        most = Math.max(most, (request.body as Readable).readableLength);
        if (String(chunk.subarray(0, 3)) === 'bad') throw new Error('in the middle');
      }
      return { ok: true, size };
    });
    await app.listen({ port: 0, host: '127.0.0.1' });
    const { port } = app.server.address() as { port: number };
    const piece = Buffer.alloc(65_536, 'a');
    const send = async (pieces: Buffer[], key: string, path = '/import') => {
      const headers = { 'content-type': 'text/csv', 'idempotency-key': key };
      const request = httpRequest({ port, host: '127.0.0.1', method: 'POST', path, headers });
      request.on('error', () => {});
      Readable.from(pieces).pipe(request);
      const [response] = await once(request, 'response');
      const text = Buffer.concat(await response.toArray()).toString();
      return { status: response.statusCode, replayed: response.headers['idempotency-replayed'], text };
    };
    const pieces = Array.from({ length: 200 }, () => piece);
    expect(await send(pieces, 'big')).toEqual({
      status: 200,
      replayed: undefined,
      text: '{"ok":true,"size":13107200}',
    });
    expect(await send(pieces, 'big')).toMatchObject({ status: 200, replayed: 'true' });
    expect((await send([...pieces, Buffer.from('b')], 'big')).status).toBe(409);
    expect((await send(pieces.slice(1), 'big')).status).toBe(409);
    expect((await send(pieces, 'big', '/import?x=1')).status).toBe(409);
    expect(runs).toBe(1);
    expect(most).toBeLessThan(1_000_000);
    // A fault of ours in the middle: nobody knows, and the body was never read to its end.
    const bad = [...pieces.slice(0, 3), Buffer.from('bad'), ...pieces];
    expect((await send(bad, 'bad')).status).toBe(500);
    expect(JSON.parse((await send(bad, 'bad')).text).error.code).toBe('outcome_unknown');
    app.server.closeAllConnections();
    await app.close();
  });
});

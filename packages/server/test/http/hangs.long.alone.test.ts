// PostgreSQL that hangs: stopped processes, and a wire on which nothing moves any more. Every request is answered within
// its timeout_ms and a second, or within 30 s, and nobody is told that nothing was changed when that is not known.
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type Answer,
  address,
  type Call,
  openTestService,
  removeTestService,
  type TestService,
  until,
} from '../support/helpers.ts';
import { launch, newAccountKey, postmasterPid, type Running, usedDataFolder } from '../support/process.ts';

type Project = { slug: string; key: string };
type Timed = Answer & { ms: number };
type Ask = (method: string, path: string, options?: Call) => Promise<Answer>;

/** For a machine that has other work to do. */
const slackMs = 1_500;

async function timed(asked: Promise<Answer>): Promise<Timed> {
  const startedAt = performance.now();
  const answer = await asked;
  return { ...answer, ms: performance.now() - startedAt };
}

/** In time, a failure of the service's and not of the request, in the API's form. */
function expectGivenUp({ status, body, ms }: Timed, withinMs: number, what: string, codes: string[]): void {
  const told = `${what}: ${status} after ${Math.round(ms)} ms: ${JSON.stringify(body).slice(0, 300)}`;
  expect(ms, told).toBeLessThan(withinMs + slackMs);
  expect(codes, told).toContain(body.error?.code);
  expect(body.request_id, told).toBeTruthy();
  if (body.error.code === 'outcome_unknown') expect(body.error.message).not.toMatch(/nothing was changed/i);
}

async function prepare(ask: Ask, name: string): Promise<Project> {
  const { body } = await ask('POST', '/projects', { body: { name } });
  const project = { slug: body.project.slug, key: body.api_key };
  const query = (text: string) =>
    ask('POST', `/projects/${project.slug}/query`, { key: project.key, body: { query: text } });
  expect((await query('create table things (id int generated always as identity, name text)')).status).toBe(
    200,
  );
  expect((await query("insert into things (name) values ('one')")).status).toBe(200);
  expect((await query("create type mood as enum ('happy')")).status).toBe(200);
  expect((await query('create function touch() returns int language sql as $$ select 1 $$')).status).toBe(
    200,
  );
  return project;
}

const reads = ['unavailable', 'query_timeout', 'overloaded'];
const writes = [...reads, 'outcome_unknown'];

/** What callers ask for; `withinMs` is what the API promises. */
function requests(ask: Ask, { slug, key }: Project): [string, number, string[], () => Promise<Answer>][] {
  const base = `/projects/${slug}`;
  const query = (text: string, more: object = {}) =>
    ask('POST', `${base}/query`, { key, body: { query: text, ...more } });
  const short = [1, 400, 1_500, 4_000].flatMap((timeout_ms): ReturnType<typeof requests> => {
    const withinMs = timeout_ms + 1_000;
    const batch = { statements: [{ query: "insert into things (name) values ('batch')" }], timeout_ms };
    return [
      [`read ${timeout_ms}`, withinMs, reads, () => query('select * from things', { timeout_ms })],
      [`own types ${timeout_ms}`, withinMs, reads, () => query("select 'happy'::mood as m", { timeout_ms })],
      [
        `arrays ${timeout_ms}`,
        withinMs,
        reads,
        () => query('select $1::int[]', { params: [[1]], timeout_ms }),
      ],
      [
        `insert ${timeout_ms}`,
        withinMs,
        writes,
        () => query("insert into things (name) values ('two')", { timeout_ms }),
      ],
      [`code ${timeout_ms}`, withinMs, writes, () => query('select touch()', { timeout_ms })],
      [
        `dry run ${timeout_ms}`,
        withinMs,
        reads,
        () => query('delete from things', { dry_run: true, timeout_ms }),
      ],
      [`batch ${timeout_ms}`, withinMs, writes, () => ask('POST', `${base}/batch`, { key, body: batch })],
    ];
  });
  const others: [string, string, string, object?][] = [
    ['list', 'GET', '/projects'],
    ['get', 'GET', base],
    ['create', 'POST', '/projects', { name: 'Late' }],
    ['rename', 'PATCH', base, { name: 'Late' }],
    ['usage', 'GET', `${base}/usage`],
    ['keys', 'GET', `${base}/keys`],
    ['issue', 'POST', `${base}/keys`, { name: 'late', scopes: ['query'] }],
    ['connection', 'GET', `${base}/connection`],
    ['page', 'GET', `${base}/tables/things`],
    ['row', 'POST', `${base}/tables/things`, { name: 'row' }],
    ['rows', 'DELETE', `${base}/tables/things?id=eq.99`],
    ['tables', 'GET', `${base}/tables`],
    ['schema', 'GET', `${base}/schema`],
    ['sign-up', 'POST', `${base}/auth/signup`, { email: 'a@example.com', password: 'correct horse' }],
    ['sign-in', 'POST', `${base}/auth/signin`, { email: 'a@example.com', password: 'correct horse' }],
    ['users', 'GET', `${base}/auth/users`],
    ['settings', 'GET', `${base}/auth/settings`],
  ];
  return [
    ...short,
    ...others.map(([name, method, path, body]): ReturnType<typeof requests>[number] => [
      name,
      30_000,
      method === 'GET' ? reads : writes,
      // An account's key for some, so that the project has to be looked up too.
      () => ask(method, path, { ...(path.startsWith(base) && { key }), ...(body && { body }) }),
    ]),
  ];
}

/** All at once, each for itself. */
async function expectAllGivenUp(ask: Ask, project: Project): Promise<void> {
  await Promise.all(
    requests(ask, project).map(async ([name, withinMs, codes, send]) =>
      expectGivenUp(await timed(send()), withinMs, name, codes),
    ),
  );
}

async function expectFine(ask: Ask, projects: Project[]): Promise<void> {
  for (const { slug, key } of projects) {
    const run = (text: string) => ask('POST', `/projects/${slug}/query`, { key, body: { query: text } });
    await until('it answers again', async () => (await run('select 1')).status === 200);
    expect((await run("insert into things (name) values ('after')")).status).toBe(200);
    const page = await ask('GET', `/projects/${slug}/tables/things?name=eq.after`, { key });
    expect(page.body.row_count).toBe(1);
    await run("delete from things where name = 'after'");
  }
  expect((await ask('GET', '/projects')).status).toBe(200);
  expect((await ask('GET', '/readyz')).status).toBe(200);
}

/** PostgreSQL's own processes of one data folder, the first of all included. */
function processesOf(dataFolder: string): number[] {
  const first = postmasterPid(dataFolder) ?? 0;
  const lines = execFileSync('ps', ['-A', '-o', 'pid=,ppid='], { encoding: 'utf8' }).trim().split('\n');
  const pairs = lines.map((line) => line.trim().split(/\s+/).map(Number) as [number, number]);
  return [first, ...pairs.filter(([, parent]) => parent === first).map(([pid]) => pid)];
}

function signal(pids: number[], name: NodeJS.Signals): void {
  for (const pid of pids) {
    try {
      process.kill(pid, name);
    } catch {
      // One that ended meanwhile.
    }
  }
}

describe('while processes of PostgreSQL are stopped', () => {
  let dataFolder: string;
  let service: Running;
  let project: Project;
  let neighbour: Project;

  beforeAll(async () => {
    dataFolder = await usedDataFolder();
    service = await launch({ ROWHOUSE_DATA: dataFolder, ROWHOUSE_ACCOUNT_KEY: newAccountKey() });
    project = await prepare(service.call, 'Hangs');
    neighbour = await prepare(service.call, 'Neighbour');
  });

  const whileStopped = async (choose: () => number[], act: () => Promise<void>) => {
    const pids = choose();
    signal(pids, 'SIGSTOP');
    try {
      await act();
    } finally {
      signal([...pids, ...processesOf(dataFolder)], 'SIGCONT');
    }
    await expectFine(service.call, [project, neighbour]);
  };

  it('all of them: every request is answered in time, and everything works afterwards', async () => {
    await whileStopped(
      () => processesOf(dataFolder),
      async () => {
        await expectAllGivenUp(service.call, project);
        // Nothing that is kept in memory is trusted by now: keys and projects are looked up.
        await expectAllGivenUp(service.call, project);
        // Metrics and readiness are for those who look at a service in trouble.
        for (const path of ['/readyz', '/metrics', '/healthz'])
          expect((await timed(service.call('GET', path))).ms, path).toBeLessThan(5_000 + slackMs);
        expect((await service.call('GET', '/metrics')).body).toContain('rowhouse_postgres_up 0');
        expect((await service.call('GET', '/readyz')).status).toBe(503);
      },
    );
    const metrics = await until('no session is left in use', async () => {
      const { body } = await service.call('GET', '/metrics');
      const read = (name: string) => Number(new RegExp(`^${name} (\\d+)`, 'm').exec(body)?.[1]);
      return read('rowhouse_sessions') === read('rowhouse_sessions_idle') && body;
    });
    expect(metrics).toContain('rowhouse_sessions_waiting 0');
  });

  it('only the postmaster: requests with a session go on, requests that need a new one are answered in time', async () => {
    await whileStopped(
      () => [postmasterPid(dataFolder) ?? 0],
      async () => {
        const fresh = Array.from({ length: 12 }, () =>
          timed(
            service.call('POST', `/projects/${project.slug}/query`, {
              key: project.key,
              body: { query: 'select pg_sleep(0.5)', timeout_ms: 1_000 },
            }),
          ),
        );
        for (const answer of await Promise.all(fresh)) {
          expect(answer.ms).toBeLessThan(2_000 + slackMs);
          if (answer.status !== 200) expectGivenUp(answer, 2_000, 'a new session', writes);
        }
      },
    );
  });

  it('a change that PostgreSQL was running is answered with outcome_unknown', async () => {
    const query = (text: string, more: object = {}) =>
      service.call('POST', `/projects/${project.slug}/query`, {
        key: project.key,
        body: { query: text, ...more },
      });
    const insert = "insert into things (name) select 'unknown' from pg_sleep(2)";
    const asked = timed(query(insert, { timeout_ms: 4_000 }));
    await until('PostgreSQL runs it', async () => {
      const { body } = await query(
        `select count(*)::int as n from pg_stat_activity where state = 'active' and query like 'insert into things%'`,
      );
      return body.rows[0].n === 1;
    });
    let answer: Timed | undefined;
    await whileStopped(
      () => processesOf(dataFolder),
      async () => {
        answer = await asked;
      },
    );
    // A 504 would say that nothing was kept, and PostgreSQL may commit it yet.
    expectGivenUp(answer as Timed, 5_000, 'a change', ['outcome_unknown']);
  });

  it('a change is made only if its answer was outcome_unknown', async () => {
    const count = async () => {
      const { body } = await service.call('POST', `/projects/${project.slug}/query`, {
        key: project.key,
        body: { query: "select count(*)::int as n from things where name = 'late'" },
      });
      return body.rows[0].n as number;
    };
    expect(await count()).toBe(0);
    let answer: Timed | undefined;
    await whileStopped(
      () => processesOf(dataFolder),
      async () => {
        answer = await timed(
          service.call('POST', `/projects/${project.slug}/query`, {
            key: project.key,
            body: { query: "insert into things (name) values ('late')", timeout_ms: 2_000 },
          }),
        );
      },
    );
    // Sent on an open session, its outcome is unknown. Without one it waited for a connection and never left the service.
    expectGivenUp(answer as Timed, 3_000, 'a change', ['outcome_unknown', 'unavailable', 'query_timeout']);
    if (answer?.body.error.code !== 'outcome_unknown') expect(await count()).toBe(0);
  });
});

/** A wire to PostgreSQL that can be cut without anybody hearing of it. */
async function openWire(to: { host: string; port: number }) {
  const pairs = new Set<[Socket, Socket]>();
  const stranded = new Set<Socket>();
  let isCut = false;
  const server = createServer((near) => {
    const far = connect(to.port, to.host);
    const pair: [Socket, Socket] = [near, far];
    pairs.add(pair);
    for (const [one, other] of [pair, [far, near] as const]) {
      one.on('data', (bytes) => isCut || other.write(bytes));
      one.on('close', () => {
        pairs.delete(pair);
        if (isCut) stranded.add(other);
        else other.destroy();
      });
      one.on('error', () => {});
    }
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as { port: number }).port,
    cut: () => {
      isCut = true;
    },
    /** Connections of before stay dead, as after a router's restart: nothing that is sent on them arrives. */
    mend: () => {
      for (const [near, far] of pairs) {
        near.removeAllListeners('data').on('data', () => {});
        far.destroy();
      }
      for (const socket of stranded) socket.destroy();
      isCut = false;
    },
    close: () => {
      for (const pair of pairs) for (const socket of pair) socket.destroy();
      server.close();
    },
  };
}

describe('a network in which no packet arrives', () => {
  let wire: Awaited<ReturnType<typeof openWire>>;
  let rowhouse: TestService;
  let project: Project;

  beforeAll(async () => {
    const { socket: _none, ...at } = address();
    wire = await openWire(at);
    rowhouse = await openTestService({
      at: { ...at, host: '127.0.0.1', port: wire.port },
      background: false,
    });
    project = await prepare(rowhouse.call, 'Cut');
  });

  afterAll(async () => {
    const { installation } = rowhouse.service.deps.server;
    await rowhouse.stop();
    await removeTestService(rowhouse.controlDatabase, installation);
    wire.close();
  });

  it('every request is answered in time, and new connections work when the network is back', async () => {
    wire.cut();
    await expectAllGivenUp(rowhouse.call, project);
    await expectAllGivenUp(rowhouse.call, project);
    wire.mend();
    await until(
      'it answers again',
      async () => (await rowhouse.call('GET', '/projects')).status === 200,
      30_000,
    );
    await expectFine(rowhouse.call, [project]);
    const { sessions } = rowhouse.service.deps.query;
    await until('no session is left in use', async () => sessions.counts().open === sessions.counts().idle);
  });

  it('a request with an Idempotency-Key that got no answer runs once, and its key becomes usable again', async () => {
    const headers = { 'idempotency-key': 'cut-1' };
    const body = { query: "insert into things (name) values ('once')", timeout_ms: 1_500 };
    const send = () =>
      rowhouse.call('POST', `/projects/${project.slug}/query`, { key: project.key, body, headers });
    wire.cut();
    expectGivenUp(await timed(send()), 2_500, 'with a key', writes);
    wire.mend();
    const last = await until(
      'the key is free, or its fate is told',
      async () => {
        const answer = await send();
        return (answer.status === 200 || answer.body.error.code === 'outcome_unknown') && answer;
      },
      60_000,
    );
    const { body: found } = await rowhouse.call('POST', `/projects/${project.slug}/query`, {
      key: project.key,
      body: { query: "select count(*)::int as n from things where name = 'once'" },
    });
    if (last.status === 200) expect(found.rows).toEqual([{ n: 1 }]);
    else expect(found.rows[0].n).toBeLessThanOrEqual(1);
  });
});

// Moves between two servers.
import pg from 'pg';
import { describe, expect, it, onTestFinished } from 'vitest';
import { errors } from '../../src/errors/errors.ts';
import { sql } from '../../src/postgres/sql.ts';
import { findServer, whyEnded } from '../../src/postgres-proxy/start.ts';
import { databaseOf } from '../../src/servers/databases/names.ts';
import { address, api, asAdmin, type TestService, until } from '../support/helpers.ts';
import { connectPg, loginOf, openProxy } from '../support/proxy-clients.ts';
import { jobs, useTwoServers } from '../support/two-servers.ts';

const { rowhouse, other, secondAddress, create, query, move, ended, databasesAt, movesLeft, holdBefore } =
  useTwoServers();

describe('a move', () => {
  it('keeps everything, and writers through two processes see no error', async () => {
    const project = await create();
    const { slug, key } = project;
    await query(project, 'create table ledger (id text primary key, n serial)');
    await query(project, 'create table keyless (v text)');
    await query(project, "insert into keyless select 'v' || n from generate_series(1, 1000) as n");
    await query(project, "select lo_from_bytea(4711, 'large')");
    await query(project, 'grant select on large object 4711 to authenticated');
    // Names that an import takes for those of another service.
    for (const name of ['storage', 'realtime'])
      await query(project, `create schema ${name} create table t (id int)`);
    const signup = await rowhouse.call('POST', `/projects/${slug}/auth/signup`, {
      key,
      body: { email: 'ada@example.com', password: 'correct horse battery' },
    });
    expect(signup.status).toBe(201);
    const once = { key, headers: { 'idempotency-key': 'before-the-move' }, body: { id: 'once' } };
    expect((await rowhouse.call('POST', `/projects/${slug}/tables/ledger`, once)).status).toBe(201);
    await query(project, "insert into ledger (id) values ('p1'), ('p2')");
    const pageOf = (through: TestService, cursor = '') =>
      through.call(
        'GET',
        `/projects/${slug}/tables/ledger?id=like.p*&limit=1${cursor && `&cursor=${cursor}`}`,
        {
          key,
        },
      );
    const first = await pageOf(rowhouse);
    const login = await loginOf(rowhouse, slug);
    const acknowledged: string[] = [];
    const failures: unknown[] = [];
    let isOver = false;
    const writer = async (name: string, through: TestService) => {
      for (let n = 0; !isOver; n++) {
        const id = `${name}-${n}`;
        const { status, body } = await through.call('POST', `/projects/${slug}/tables/ledger`, {
          key,
          body: { id },
        });
        if (status === 201) acknowledged.push(id);
        else failures.push(body);
      }
    };
    const writers = [0, 1, 2, 3, 4, 5, 6, 7].map((n) => writer(`w${n}`, n % 2 === 0 ? rowhouse : other()));
    const job = await ended(await move(project, 'second'));
    const after = acknowledged.length;
    await until('writers go on', async () => acknowledged.length > after + 20);
    isOver = true;
    await Promise.all(writers);
    expect(job.error).toBe(null);
    expect(job).toMatchObject({ status: 'done', kind: 'move', result: { server: 'second' } });
    expect(failures).toEqual([]);
    const rows: { id: string }[] = await query(project, 'select id from ledger', other());
    const stored = new Set(rows.map(({ id }) => id));
    const others = ['once', 'p1', 'p2'];
    expect([...stored].toSorted()).toEqual([...acknowledged, ...others].toSorted());
    expect(await query(project, 'select count(*)::int as n from keyless')).toEqual([{ n: 1000 }]);
    expect(
      await query(
        project,
        "select oid::int, lomacl::text ~ 'authenticated=r' as granted from pg_largeobject_metadata",
      ),
    ).toEqual([{ oid: 4711, granted: true }]);
    expect(await query(project, 'select from storage.t union all select from realtime.t')).toEqual([]);
    const me = await other().call('GET', `/projects/${slug}/auth/user`, {
      key,
      headers: { authorization: `Bearer ${signup.body.session.access_token}` },
    });
    expect(me.body.user?.email, JSON.stringify(me.body)).toBe('ada@example.com');
    const again = await other().call('POST', `/projects/${slug}/tables/ledger`, once);
    expect([again.status, again.body.error]).toEqual([201, undefined]);
    const next = await pageOf(other(), first.body.next_cursor);
    expect([first.body.rows, next.body.rows]).toMatchObject([[{ id: 'p1' }], [{ id: 'p2' }]]);
    expect(await loginOf(rowhouse, slug)).toEqual(login);
    expect(await databasesAt(project.id)).toEqual([]);
    expect(await databasesAt(project.id, secondAddress())).toEqual([databaseOf(project.id)]);
    expect(await movesLeft(project.id)).toBe(0);
    const found = await rowhouse.call('GET', `/projects/${slug}`);
    expect(found.body.project.status).toBe('ready');
    // And back again, where its roles were.
    expect((await ended(await move(project, 'test'))).error).toBe(null);
    expect(await query(project, 'select count(*)::int as n from ledger')).toEqual([{ n: stored.size }]);
  });

  it('is refused to the same server, to an unknown one, twice, and with a short pause', async () => {
    const project = await create();
    const call = (body: object) => rowhouse.call('POST', `/projects/${project.slug}/move`, { body });
    expect((await call({ server: 'test' })).status).toBe(409);
    expect((await call({ server: 'none' })).status).toBe(400);
    expect((await call({ server: 'second', max_pause_ms: 100 })).body.error.message).toContain(
      'max_pause_ms',
    );
    const keyed = await rowhouse.call('POST', `/projects/${project.slug}/move`, {
      key: project.key,
      body: { server: 'second' },
    });
    expect(keyed.status).toBe(403);
    const first = await move(project, 'second');
    expect((await call({ server: 'second' })).status).toBe(409);
    expect((await ended(first)).status).toBe('done');
  });

  it('ends direct connections, and the old copy cannot be reached', async () => {
    const project = await create();
    await query(project, 'create table notes (id int)');
    const { host, port } = address();
    const before = { host, port, ...(await loginOf(rowhouse, project.slug)) };
    const client = new pg.Client(before);
    const lost = new Promise<Error & { code?: string }>((resolve) => client.on('error', resolve));
    await client.connect();
    const id = await move(project, 'second');
    expect((await lost).code).toBe('57P01');
    expect((await ended(id)).status).toBe('done');
    const late = new pg.Client(before);
    await expect(late.connect()).rejects.toThrow();
    await client.end().catch(() => {});
  });

  it('tells a client of the proxy why it is disconnected, lets it wait, and leads it to the new server', async () => {
    const project = await create();
    await query(project, 'create table notes (id int)');
    const { control, servers } = rowhouse.service.deps;
    const proxy = await openProxy(rowhouse, {
      serverOf: (id) => findServer(control, servers, id),
      servers: () => servers.all(),
      whyEnded: (id) => whyEnded(control, id),
    });
    const login = await loginOf(rowhouse, project.slug);
    const port = async (client: pg.Client) => {
      const { rows } = await client.query('select inet_server_port() as port');
      return rows[0].port;
    };
    const first = await connectPg(proxy.port, login);
    const lost = new Promise<Error & { code?: string }>((resolve) => first.on('error', resolve));
    expect(await port(first)).toBe(address().port);
    const fill = holdBefore('fill');
    const id = await move(project, 'second');
    await fill.reached;
    expect(await lost).toMatchObject({
      code: '57P01',
      message: expect.stringContaining('moving to another server'),
    });
    const connecting = connectPg(proxy.port, login);
    // Time enough to be refused.
    await new Promise((resolve) => setTimeout(resolve, 300));
    fill.resume();
    const client = await connecting;
    expect(await port(client)).toBe(secondAddress().port);
    expect((await client.query('insert into notes values (1)')).rowCount).toBe(1);
    expect((await ended(id)).status).toBe('done');
  });
});

describe('a project of a suspended account', () => {
  const openLate = async (slug: string) => {
    const { body: opened } = await rowhouse.call('POST', `${api}/accounts`, {
      key: rowhouse.operatorKey,
      body: { name: slug },
    });
    const made = await rowhouse.call('POST', '/projects', {
      key: opened.api_key,
      body: { name: slug, slug, server: 'test' },
    });
    expect(made.status, JSON.stringify(made.body)).toBe(201);
    const project = { id: made.body.project.id as string, slug, key: made.body.api_key as string };
    return { accountId: opened.account.id as string, project };
  };
  const isOpen = async (id: string) => {
    const [row] = await asAdmin((admin) =>
      admin.query<{ isOpen: boolean }>(
        sql`select datallowconn as "isOpen" from pg_database where datname = ${databaseOf(id)}`,
      ),
    );
    return row?.isOpen;
  };
  /** Jobs of other accounts are the operator's to see. */
  const over = (id: string) =>
    until('the job ends', async () => {
      const { body } = await rowhouse.call('GET', `${jobs}/${id}`, { key: rowhouse.operatorKey });
      return body.job.status !== 'running' && body.job;
    });
  const moveTo = (slug: string, body: object) =>
    rowhouse.call('POST', `/projects/${slug}/move`, { key: rowhouse.operatorKey, body });
  const suspend = async (id: string, because: string | null) => {
    const answer = await rowhouse.call('PATCH', `${api}/accounts/${id}`, {
      key: rowhouse.operatorKey,
      body: { suspended_because: because },
    });
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);
  };

  it('is moved while it stays closed, also by a drain, and has all its rows when the account is resumed', async () => {
    const { accountId, project } = await openLate('late');
    await query(project, 'create table notes (id int primary key, text text)');
    await query(project, "insert into notes select n, 'n' || n from generate_series(1, 1000) as n");
    await rowhouse.call('POST', '/projects/late/auth/signup', {
      key: project.key,
      body: { email: 'ada@example.com', password: 'correct horse battery' },
    });
    await suspend(accountId, 'Unpaid.');
    expect(await isOpen(project.id)).toBe(false);
    const refused = await moveTo('late', { server: 'second', mode: 'online' });
    expect([refused.status, refused.body.error.message]).toEqual([
      409,
      'The project cannot be moved online: its account is suspended.',
    ]);
    // As one that an earlier version of the service has made.
    await rowhouse.service.deps.control.query(
      sql`update projects set template = 'rowhouse_template_0' where id = ${project.id}`,
    );
    // A move that fails leaves it closed.
    const { moves } = rowhouse.service.deps;
    const mend = () => void Object.assign(moves, { onStep: undefined });
    onTestFinished(mend);
    Object.assign(moves, {
      onStep: async (step: string) => {
        if (step === 'name') throw new Error('broken on purpose');
      },
    });
    const broken = await over((await moveTo('late', { server: 'second' })).body.job.id);
    mend();
    expect([broken.status, await isOpen(project.id)]).toEqual(['failed', false]);
    await until('the move is undone', async () => (await movesLeft(project.id)) === 0);

    const moved = await over((await moveTo('late', { server: 'second' })).body.job.id);
    expect(moved, JSON.stringify(moved)).toMatchObject({ status: 'done', result: { mode: 'dump' } });
    const { body } = await rowhouse.call('GET', `${api}/servers`);
    const { id } = body.servers.find((one: { name: string }) => one.name === 'second');
    const drained = await rowhouse.call('POST', `${api}/servers/${id}/drain`, { body: { move: true } });
    const job = await over(drained.body.job.id);
    expect(job, JSON.stringify(job)).toMatchObject({ status: 'done', result: { left: [] } });
    await rowhouse.call('PATCH', `${api}/servers/${id}`, { body: { state: 'ready' } });
    expect(await isOpen(project.id)).toBe(false);

    await suspend(accountId, null);
    const rows = await query(project, 'select count(*)::int as count from notes');
    expect(rows).toEqual([{ count: 1000 }]);
    const signedIn = await rowhouse.call('POST', '/projects/late/auth/signin', {
      key: project.key,
      body: { email: 'ada@example.com', password: 'correct horse battery' },
    });
    expect(signedIn.status).toBe(200);
  });

  it('is not moved if other projects would wait for long, and not longer paused than others once it is resumed', async () => {
    const { accountId, project } = await openLate('later');
    await query(project, 'create table notes (id int primary key)');
    await suspend(accountId, 'Unpaid.');
    const { control, moves } = rowhouse.service.deps;
    const [before] = await control.query<{ bytes: string }>(
      sql`select size_bytes::text as bytes from projects where id = ${project.id}`,
    );
    const setSize = (bytes: string) =>
      control.query(sql`update projects set size_bytes = ${bytes}::int8 where id = ${project.id}`);
    await setSize(String(4 * 1024 ** 3));
    const refused = await moveTo('later', { server: 'second' });
    await setSize(before?.bytes ?? '0');
    expect([refused.status, refused.body.error]).toEqual([
      409,
      expect.objectContaining({
        message: expect.stringContaining('too large to be moved while its account is suspended'),
        hint: expect.stringContaining('Resume the account'),
      }),
    ]);
    // The account is resumed when the move has its turn.
    const mend = () => void Object.assign(moves, { onStep: undefined });
    onTestFinished(mend);
    Object.assign(moves, {
      onStep: async (step: string) => {
        if (step === 'close') await suspend(accountId, null);
      },
    });
    const { body } = await moveTo('later', { server: 'second', max_pause_ms: 100 });
    const job = await over(body.job.id);
    mend();
    expect([job.status, job.error.message]).toEqual([
      'failed',
      expect.stringContaining('longer than max_pause_ms allows'),
    ]);
    await until('the move is undone', async () => (await movesLeft(project.id)) === 0);
    expect(await query(project, 'select count(*)::int as count from notes')).toEqual([{ count: 0 }]);
  });
});

describe('a server that is drained', () => {
  /** The first look at a move finds no control database, and the move of one project does not begin. */
  const failOnce = (failing: string) => {
    const { moves } = rowhouse.service.deps;
    const { control, jobs } = moves;
    let isDown = true;
    const query: typeof control.query = async (statement, withinMs) => {
      if (!isDown || !/select status.* from jobs/.test(statement.text))
        return control.query(statement, withinMs);
      isDown = false;
      throw errors.unavailable('the control database is down');
    };
    const start: typeof jobs.start = async (job, work) => {
      if (job.projectId === failing) throw new Error('unexpected');
      return jobs.start(job, work);
    };
    Object.assign(moves, { control: { ...control, query }, jobs: { ...jobs, start } });
    return () => void Object.assign(moves, { control, jobs });
  };

  it('loses all its projects to others, and can then be removed', async () => {
    const { body } = await rowhouse.call('GET', '/api/dbaas/v2/servers');
    const { id } = body.servers.find((one: { name: string }) => one.name === 'second');
    const made = await Promise.all([0, 1, 2].map(() => create()));
    for (const project of made) {
      await query(project, 'create table notes (id int)');
      expect((await ended(await move(project, 'second'))).status).toBe('done');
    }
    const drain = async () => {
      const answer = await rowhouse.call('POST', `/api/dbaas/v2/servers/${id}/drain`, {
        body: { move: true },
      });
      expect([answer.status, answer.body.server?.state]).toEqual([200, 'draining']);
      return ended(answer.body.job.id);
    };
    const mend = failOnce(made[0]?.id ?? '');
    onTestFinished(mend);
    const first = await drain();
    mend();
    expect(first, JSON.stringify(first)).toMatchObject({
      status: 'done',
      kind: 'drain',
      result: { left: [{ project: made[0]?.slug, reason: expect.stringContaining('unexpected error') }] },
    });
    expect(first.result.moved).toBeGreaterThanOrEqual(made.length - 1);
    const job = await drain();
    expect(job, JSON.stringify(job)).toMatchObject({ status: 'done', result: { moved: 1, left: [] } });
    for (const project of made) {
      await query(project, 'insert into notes values (1)', other());
      expect(await databasesAt(project.id)).toEqual([databaseOf(project.id)]);
    }
    const removed = await rowhouse.call('DELETE', `/api/dbaas/v2/servers/${id}`);
    expect([removed.status, JSON.stringify(removed.body)]).toEqual([200, expect.any(String)]);
  });
});

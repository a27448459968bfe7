// Moves that fail, are cancelled or interrupted, and what requests see while a project is closed.
import pg from 'pg';
import { describe, expect, it } from 'vitest';
import type { MoveStep } from '../../src/moves/move.ts';
import { sql } from '../../src/postgres/sql.ts';
import { databaseOf, roleOf } from '../../src/servers/databases/names.ts';
import { asAdmin, until } from '../support/helpers.ts';
import { type Login, loginOf } from '../support/proxy-clients.ts';
import { noReplication, replicationAt, useTwoServers } from '../support/two-servers.ts';

const {
  rowhouse,
  other,
  secondAddress,
  create,
  query,
  move,
  ended,
  cancel,
  databasesAt,
  movesLeft,
  holdBefore,
} = useTwoServers();
const identities = "select distinct relreplident::text from pg_class where relname = 'notes'";

describe('a move that fails or is interrupted', () => {
  it('is completed after the switch', async () => {
    const project = await create();
    await query(project, 'create table notes (id int)');
    for (const failing of ['open', 'drop'] as const) {
      const server = failing === 'open' ? 'second' : 'test';
      Object.assign(rowhouse.service.deps.moves, {
        onStep: async (step: MoveStep) => {
          if (step === failing) throw new Error(`stopped before ${step}`);
        },
      });
      const job = await ended(await move(project, server));
      expect(job, failing).toMatchObject({ status: 'done', result: { server } });
      await query(project, 'insert into notes values (1)', other());
      await query(project, 'insert into notes values (1)');
      await until('nothing is left', async () => (await movesLeft(project.id)) === 0);
    }
    Object.assign(rowhouse.service.deps.moves, { onStep: undefined });
    expect(await databasesAt(project.id)).toEqual([databaseOf(project.id)]);
    expect(await databasesAt(project.id, secondAddress())).toEqual([]);
    expect(await query(project, 'select count(*)::int as n from notes')).toEqual([{ n: 4 }]);
  });

  const byDump: MoveStep[] = ['provision', 'close', 'fill', 'name', 'switch'];
  const online: MoveStep[] = ['provision', 'copy', 'catch up', 'close', 'fill', 'name', 'switch'];

  it.each([
    ['dump', byDump],
    ['online', online],
  ])(
    'is undone before the switch, at every step, and the project goes on: %s',
    async (mode, steps) => {
      const project = await create();
      await query(project, 'create table notes (id int)');
      for (const failing of steps) {
        Object.assign(rowhouse.service.deps.moves, {
          onStep: async (step: MoveStep) => {
            if (step === failing) throw new Error(`stopped before ${step}`);
          },
        });
        const job = await ended(await move(project, 'second', { mode }));
        expect(job.status, failing).toBe('failed');
        await query(project, 'insert into notes values (1)', other());
        await until('nothing is left', async () => (await movesLeft(project.id)) === 0);
        expect(await databasesAt(project.id), failing).toEqual([databaseOf(project.id)]);
        expect(await databasesAt(project.id, secondAddress()), failing).toEqual([]);
        expect(await replicationAt(project.id), failing).toEqual(noReplication);
        expect(await replicationAt(project.id, secondAddress()), failing).toEqual(noReplication);
      }
      Object.assign(rowhouse.service.deps.moves, { onStep: undefined });
      expect(await query(project, 'select count(*)::int as n from notes')).toEqual([{ n: steps.length }]);
      expect(await query(project, identities)).toEqual([{ relreplident: 'd' }]);
      expect(await query(project, 'select from pg_publication')).toEqual([]);
    },
    120_000,
  );

  it('is undone when its job is cancelled', async () => {
    const project = await create();
    await query(project, 'create table notes (id int)');
    const fill = holdBefore('fill');
    const id = await move(project, 'second');
    await fill.reached;
    const shown = await rowhouse.call('GET', `/projects/${project.slug}`);
    expect(shown.body.project.status).toBe('moving');
    // A request waits meanwhile, in both processes, and is served by the source again.
    const waiting = [rowhouse, other()].map((through) =>
      query(project, 'insert into notes values (2)', through),
    );
    await cancel(id);
    fill.resume();
    expect((await ended(id)).status).toBe('cancelled');
    await Promise.all(waiting);
    expect(await databasesAt(project.id)).toEqual([databaseOf(project.id)]);
    await until('nothing is left', async () => (await movesLeft(project.id)) === 0);
  });

  it('is undone when requests have waited for max_pause_ms, or when something would be lost', async () => {
    const project = await create();
    await query(project, 'create table notes (id int)');
    const fill = holdBefore('fill');
    const slow = await move(project, 'second', { max_pause_ms: 2_000 });
    await fill.reached;
    const waiting = query(project, 'insert into notes values (1)', other());
    await new Promise((resolve) => setTimeout(resolve, 2_200));
    fill.resume();
    expect((await ended(slow)).error).toMatchObject({
      code: 'conflict',
      message: expect.stringContaining('2000'),
    });
    await waiting;
    await until('nothing is left', async () => (await movesLeft(project.id)) === 0);
    const neighbour = roleOf((await create()).id);
    await query(project, `grant select on notes to ${neighbour}`);
    const lossy = await ended(await move(project, 'second'));
    expect(lossy.error).toMatchObject({ code: 'conflict', message: expect.stringContaining(neighbour) });
    expect(await databasesAt(project.id)).toEqual([databaseOf(project.id)]);
    expect(await query(project, 'select count(*)::int as n from notes')).toEqual([{ n: 1 }]);
  });

  it('leaves a project that is deleted meanwhile closed', async () => {
    const project = await create();
    const acceptsConnections = () =>
      asAdmin((admin) =>
        admin.query<{ open: boolean }>(
          sql`select datallowconn as open from pg_database where datname = ${databaseOf(project.id)}`,
        ),
      );
    const name = holdBefore('name');
    const id = await move(project, 'second');
    await name.reached;
    expect((await rowhouse.call('DELETE', `/projects/${project.slug}`)).status).toBe(200);
    name.resume();
    expect((await ended(id)).status).toBe('failed');
    await until('nothing is left', async () => (await movesLeft(project.id)) === 0);
    expect(await acceptsConnections()).toEqual([{ open: false }]);
    const restored = await rowhouse.call('POST', `/projects/${project.slug}/restore`, { body: {} });
    expect(restored.status, JSON.stringify(restored.body)).toBe(200);
    await query(project, 'select 1', other());
  });
});

describe('while a project is closed for a move', () => {
  it('requests of every kind wait in all processes, and are served afterwards', async () => {
    const project = await create();
    const { slug, key } = project;
    await query(project, 'create table notes (id int)');
    const at = `/projects/${slug}`;
    const account = rowhouse.accountKey;
    const call = (method: string, path: string, body?: object) => {
      // As if the process had not heard of the project before.
      for (const { service } of [rowhouse, other()]) service.deps.query.admission.headroom.forget(project.id);
      return [rowhouse, other()].map(async (through) => {
        const options = { key: path.includes('/auth/') ? key : account, ...(body && { body }) };
        const answer = await through.call(method, path, options);
        return { path, status: answer.status, error: answer.body?.error, job: answer.body?.job?.id };
      });
    };
    const whileClosed = async (server: string, ask: () => ReturnType<typeof call>) => {
      const fill = holdBefore('fill');
      const id = await move(project, server);
      await fill.reached;
      const waiting = ask();
      // Most of them have come to where they wait. Those that have not are served like any other().
      await new Promise((resolve) => setTimeout(resolve, 500));
      fill.resume();
      const answers = await Promise.all(waiting);
      expect((await ended(id)).error).toBe(null);
      return answers;
    };
    const answers = await whileClosed('second', () => [
      ...call('POST', `${at}/tables/notes`, { id: 1 }),
      ...call('POST', `${at}/query`, { query: 'select 1' }),
      ...call('GET', `${at}/schema`),
      ...call('GET', `${at}/usage`),
      ...call('GET', `${at}/connection`),
      ...call('GET', `${at}/export`),
      ...call('PATCH', at, { limit_mb: 99 }),
      ...call('POST', `${at}/branches`, { name: 'Branch' }),
      ...call('POST', `${at}/auth/signup`, {
        email: `${Math.random()}@example.com`,
        password: 'correct horse',
      }),
    ]);
    for (const { job } of answers) if (job) expect((await ended(job)).error).toBe(null);
    // Apart from the others: it locks the tables that it rewrites.
    answers.push(...(await whileClosed('test', () => call('POST', `${at}/compact`))));
    // One export of a project runs at a time, and an address signs up once.
    const isServed = ({ status, error }: { status: number; error?: { code: string } }) =>
      status < 400 || ['rate_limited', 'email_taken'].includes(error?.code ?? '');
    expect(answers.filter((answer) => !isServed(answer))).toEqual([]);
  });

  it('a key that is rotated ends the old password of direct connections, before the switch and after it', async () => {
    const project = await create();
    const { host, port } = secondAddress();
    const refusedAs = async (login: Login) => {
      const client = new pg.Client({ host, port, ...login });
      const refusal = await client.connect().then(
        () => null,
        (error: { code?: string }) => error.code,
      );
      await client.end().catch(() => {});
      return refusal;
    };
    const rotate = async () => {
      const body = { grace_seconds: 0 };
      const { status } = await rowhouse.call('POST', `/projects/${project.slug}/keys/rotate`, { body });
      expect(status).toBe(200);
    };
    const first = await loginOf(rowhouse, project.slug);
    const last = holdBefore('switch');
    const id = await move(project, 'second');
    await last.reached;
    await rotate();
    last.resume();
    expect((await ended(id)).error).toBe(null);
    const second = await loginOf(rowhouse, project.slug);
    expect([await refusedAs(first), await refusedAs(second)]).toEqual(['28P01', null]);
    await rotate();
    expect(await refusedAs(second)).toBe('28P01');
    expect(await refusedAs(await loginOf(rowhouse, project.slug))).toBe(null);
  });
});

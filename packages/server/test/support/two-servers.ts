// A service with two processes and two servers, for tests of moves: the common PostgreSQL, and one that is started here.
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished } from 'vitest';
import type { MoveStep } from '../../src/moves/move.ts';
import type { Address } from '../../src/postgres/admin/database.ts';
import { sql } from '../../src/postgres/sql.ts';
import { movingDatabaseOf } from '../../src/servers/databases/move-database.ts';
import { databaseOf } from '../../src/servers/databases/names.ts';
import { type Embedded, startEmbedded } from '../../src/servers/embedded/embedded.ts';
import {
  address,
  asAdmin,
  openSecondProcess,
  type TestService,
  type TestServiceOptions,
  until,
  useTestService,
} from './helpers.ts';
import { postmasterPid } from './process.ts';
import { openRelay, type Relay } from './relay.ts';

export type Project = { slug: string; id: string; key: string };
export const jobs = '/api/dbaas/v2/jobs';

/** What a move has of replication on a server, and in the project's database there. */
export const noReplication = { slots: [], roles: [], subscriptions: [], publications: [], identities: [] };
export async function replicationAt(id: string, at: Address = address()) {
  const ofServer = await asAdmin(
    async (admin) => ({
      slots: await admin.query(
        sql`select slot_name from pg_replication_slots where slot_name = ${`rowhouse_move_${id}`} or database like ${`p_${id}%`}`,
      ),
      roles: await admin.query(sql`select rolname from pg_roles where rolname = ${`p_${id}_move`}`),
      subscriptions: await admin.query(
        sql`select subname from pg_subscription where subname = ${`rowhouse_move_${id}`}`,
      ),
      databases: await admin.query<{ name: string }>(sql`
        select datname as name from pg_database
        where datname in (${databaseOf(id)}, ${movingDatabaseOf(id)}) and datallowconn`),
    }),
    at,
  );
  const { databases, ...rest } = ofServer;
  const inside = await Promise.all(databases.map(({ name }) => publishedIn({ ...at, database: name })));
  return {
    ...rest,
    publications: inside.flatMap(({ publications }) => publications),
    identities: inside.flatMap(({ identities }) => identities),
  };
}

/** No test sets REPLICA IDENTITY FULL itself. */
const publishedIn = (at: Address) =>
  asAdmin(
    async (admin) => ({
      publications: await admin.query(
        sql`select pubname from pg_publication where pubname like 'rowhouse%' order by 1`,
      ),
      identities: await admin.query(sql`select oid::regclass::text from pg_class where relreplident = 'f'`),
    }),
    at,
  );

/** A warning or worse. */
const isProblem = (line: string) => /"level":[4-6]/.test(line);

/** The servers are called "test" and "second". `isRelayed`: the service and the other server reach "second" through a relay. */
export function useTwoServers({
  isRelayed = false,
  ...options
}: { isRelayed?: boolean } & Pick<TestServiceOptions, 'console'> = {}) {
  const rowhouse = useTestService({ ...options, spares: 1, connections: { budget: 20, share: 6 } });
  const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-move-'));
  let second: Embedded;
  /** Another process of the service, which hears of moves by its feed alone. */
  let other: TestService;
  let relay: Relay | undefined;

  /** Not through the relay. */
  const secondAddress = (): Address => {
    const { host, port, user, password, database } = second.address;
    return { host, port, user, password, database, tls: false };
  };

  beforeAll(async () => {
    second = await startEmbedded({
      dataFolder: folder,
      masterKey: randomBytes(32),
      connections: 40,
      reserveBytes: 0,
      say: () => {},
      onEvent: () => {},
    });
    other = await openSecondProcess(rowhouse);
    const { user, password, host, port, database } = secondAddress();
    if (isRelayed) relay = await openRelay({ host, port });
    const url = `postgres://${user}:${encodeURIComponent(password)}@${host}:${relay?.port ?? port}/${database}`;
    const { status, body } = await rowhouse.call('POST', '/api/dbaas/v2/servers', {
      body: { name: 'second', address: url },
    });
    expect(status, JSON.stringify(body)).toBe(201);
    await until('the other process knows the server', async () =>
      other.service.deps.servers
        .members()
        .some(({ row, server }) => row.name === 'second' && server !== null),
    );
  }, 120_000);
  afterAll(async () => {
    await other.stop();
    await relay?.stop();
    await second.stop();
    rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  });

  /** kill -9 of the postmaster, which is then started again. Returns when the new one runs, which is before it answers. */
  const killSecond = async () => {
    const pid = postmasterPid(folder);
    process.kill(pid ?? 0, 'SIGKILL');
    await until('another postmaster runs', async () => ![null, pid].includes(postmasterPid(folder)));
  };
  const create = async (): Promise<Project> => {
    const { status, body } = await rowhouse.call('POST', '/projects', {
      body: { name: 'To be moved', server: 'test' },
    });
    expect(status, JSON.stringify(body)).toBe(201);
    return { slug: body.project.slug, id: body.project.id, key: body.api_key };
  };
  const query = async ({ slug, key }: Project, text: string, through: TestService = rowhouse) => {
    const { status, body } = await through.call('POST', `/projects/${slug}/query`, {
      key,
      body: { query: text },
    });
    expect(status, `${text}: ${JSON.stringify(body)}`).toBe(200);
    return body.rows;
  };
  const move = async ({ slug }: Project, server: string, more: object = {}) => {
    const { status, body } = await rowhouse.call('POST', `/projects/${slug}/move`, {
      body: { server, ...more },
    });
    expect(status, JSON.stringify(body)).toBe(202);
    expect(body.expected_pause_ms).toBeGreaterThan(0);
    return body.job.id as string;
  };
  const ended = (id: string) =>
    until(
      'the job ends',
      async () => {
        const { body } = await rowhouse.call('GET', `${jobs}/${id}`);
        if (body.job.error?.code === 'internal_error') body.job.error.log = rowhouse.log.filter(isProblem);
        return body.job.status !== 'running' && body.job;
      },
      60_000,
    );
  const databasesAt = async (id: string, at?: Address) => {
    const rows = await asAdmin(
      (admin) =>
        admin.query<{ name: string }>(sql`
          select datname as name from pg_database where datname in (${databaseOf(id)}, ${movingDatabaseOf(id)})`),
      at,
    );
    return rows.map(({ name }) => name);
  };
  /** Stops the job, and waits until its process has heard of it. */
  const cancel = async (id: string) => {
    await rowhouse.call('DELETE', `${jobs}/${id}`);
    // It hears of it with its next heartbeat: the second one from now began after the request.
    const beats = new Set<string>();
    await until('the job has heard of it', async () => {
      const [row] = await rowhouse.service.deps.control.query<{ seen: string }>(
        sql`select alive_until::text as seen from jobs where id = ${id}`,
      );
      beats.add(row?.seen ?? '');
      return beats.size > 2;
    });
  };
  const movesLeft = async (id: string) =>
    (await rowhouse.service.deps.control.query(sql`select from moves where project_id = ${id}`)).length;

  /** Stops the next move before a step. It goes on when the test has ended, whatever its result. */
  const holdBefore = (wanted: MoveStep) => {
    const { moves } = rowhouse.service.deps;
    let resume = () => {};
    const resumed = new Promise<void>((resolve) => {
      resume = resolve;
    });
    const reached = new Promise<void>((resolve) => {
      const onStep = async (step: MoveStep) => {
        if (step !== wanted) return;
        resolve();
        await resumed;
      };
      Object.assign(moves, { onStep });
    });
    const goOn = () => {
      Object.assign(moves, { onStep: undefined });
      resume();
    };
    onTestFinished(goOn);
    return { reached, resume: goOn };
  };

  return {
    rowhouse,
    secondAddress,
    create,
    query,
    move,
    ended,
    cancel,
    databasesAt,
    movesLeft,
    holdBefore,
    other: () => other,
    killSecond,
    relay: () => relay as Relay,
  };
}

// kill -9 of the service, or of PostgreSQL, at each step of a move, online and by a dump: at most one copy can be written at any
// time, the next start finishes the move or undoes it, and nothing of the replication is left.
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it, onTestFinished } from 'vitest';
import { type Database, openDatabase } from '../../src/postgres/admin/database.ts';
import { sql } from '../../src/postgres/sql.ts';
import { movingDatabaseOf } from '../../src/servers/databases/move-database.ts';
import { databaseOf, roleOf } from '../../src/servers/databases/names.ts';
import { clusterFolderOf, startEmbedded } from '../../src/servers/embedded/embedded.ts';
import { addressIn } from '../support/embedded-data.ts';
import { until } from '../support/helpers.ts';
import { launch, newAccountKey, type Running, usedDataFolder } from '../support/process.ts';

type Seen = {
  state: string | null;
  isPublished: boolean;
  isFollowed: boolean;
  /** The copy has been created. */
  isCopied: boolean;
  isClosed: boolean;
  /** Somebody works in the copy while the source is closed. */
  isFilled: boolean;
  isNamed: boolean;
};
type Moment = { when: string; isReached: (seen: Seen) => boolean; victim?: 'from' | 'to' };
/** What has happened when the service, or PostgreSQL on one of the servers, is killed. */
const isRegistered = ({ state }: Seen) => state !== null;
const isFollowed = (seen: Seen) => seen.isFollowed;
const isClosed = (seen: Seen) => seen.isClosed;
const isFilled = (seen: Seen) => seen.isFilled;
const isNamed = (seen: Seen) => seen.isNamed;
const isSwitched = ({ state }: Seen) => state === 'switched' || state === 'opened';
const moments: Record<'online' | 'dump', Moment[]> = {
  online: [
    { when: 'the move is registered', isReached: isRegistered },
    { when: 'the role that replicates exists', isReached: ({ isPublished }) => isPublished },
    { when: 'the target follows', isReached: isFollowed },
    { when: 'the target follows, source', isReached: isFollowed, victim: 'from' },
    { when: 'the target follows, target', isReached: isFollowed, victim: 'to' },
    { when: 'the source is closed', isReached: isClosed },
    { when: 'the source is closed, source', isReached: isClosed, victim: 'from' },
    { when: 'the source is closed, target', isReached: isClosed, victim: 'to' },
    { when: 'the copy has its name', isReached: isNamed },
    { when: 'the project is switched', isReached: isSwitched },
  ],
  dump: [
    { when: 'the move is registered', isReached: isRegistered },
    { when: 'the copy exists', isReached: ({ isCopied }) => isCopied },
    { when: 'the copy exists, target', isReached: ({ isCopied }) => isCopied, victim: 'to' },
    { when: 'the source is closed', isReached: isClosed },
    { when: 'the source is closed, source', isReached: isClosed, victim: 'from' },
    { when: 'the source is closed, target', isReached: isClosed, victim: 'to' },
    { when: 'the copy is filled', isReached: isFilled },
    { when: 'the copy is filled, source', isReached: isFilled, victim: 'from' },
    { when: 'the copy is filled, target', isReached: isFilled, victim: 'to' },
    { when: 'the copy has its name', isReached: isNamed },
    { when: 'the copy has its name, target', isReached: isNamed, victim: 'to' },
    { when: 'the project is switched', isReached: isSwitched },
  ],
};

it.each(['online', 'dump'] as const)(
  'kill -9 of the service or of PostgreSQL during a move leaves one copy that counts: %s',
  {
    timeout: 900_000,
  },
  async (mode) => {
    const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-move-crash-'));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 }));
    const second = await startEmbedded({
      dataFolder: folder,
      masterKey: randomBytes(32),
      connections: 40,
      reserveBytes: 0,
      say: () => {},
      onEvent: () => {},
    });
    onTestFinished(second.stop);
    const data = await usedDataFolder();
    const env = { ROWHOUSE_DATA: data, ROWHOUSE_ACCOUNT_KEY: newAccountKey(), ROWHOUSE_SPARES: '1' };
    let service = await launch(env);
    const open = (address: Parameters<typeof openDatabase>[0]) => {
      const database = openDatabase(address, { max: 2 });
      onTestFinished(() => database.end());
      return database;
    };
    const { user, password, host, port, database } = second.address;
    const atSecond = open({ user, password, host, port, database, tls: false });
    /** After a start: PostgreSQL may have another port. */
    const connect = () => {
      const at: Record<string, Database> = { embedded: open(addressIn(data)), second: atSecond };
      return { control: open(addressIn(data, 'rowhouse')), at };
    };
    let { control, at } = connect();
    const added = await service.call('POST', '/api/dbaas/v2/servers', {
      body: {
        name: 'second',
        address: `postgres://${user}:${encodeURIComponent(password)}@${host}:${port}/${database}`,
      },
    });
    expect(added.status, JSON.stringify(added.body)).toBe(201);
    const created = await service.call('POST', '/projects', { body: { name: 'Moved', server: 'embedded' } });
    expect(created.status, JSON.stringify(created.body)).toBe(201);
    const { slug, id } = created.body.project;
    let moment = 'before';
    const run = async (through: Running, query: string) => {
      const { status, body } = await through.call('POST', `/projects/${slug}/query`, { body: { query } });
      expect([moment, query, status, body.error]).toEqual([moment, query, 200, undefined]);
      return body.rows;
    };
    await run(service, 'create table ledger (id text primary key)');
    await run(service, 'create table pad as select n, md5(n::text) from generate_series(1, 100000) as n');

    const namesAt = async (server: string) => {
      const rows = await (at[server] as Database).query<{ name: string; writable: boolean }>(sql`
      select datname as name, datallowconn and has_database_privilege(${roleOf(id)}, oid, 'connect') as writable
      from pg_database where datname in (${databaseOf(id)}, ${movingDatabaseOf(id)})
        and exists (select from pg_roles where rolname = ${roleOf(id)})`);
      return rows;
    };
    const replicationOn = async (server: string) => {
      const [row] = await (at[server] as Database).query<{
        roles: number;
        slots: number;
        subscriptions: number;
      }>(sql`
      select (select count(*) from pg_roles where rolname like 'p\\_%\\_move')::int as roles,
             (select count(*) from pg_replication_slots where slot_type = 'logical')::int as slots,
             (select count(*) from pg_subscription)::int as subscriptions`);
      return row ?? { roles: 0, slots: 0, subscriptions: 0 };
    };
    const postmasterOf = (server: string) => {
      const cluster = clusterFolderOf(server === 'embedded' ? data : folder);
      return Number.parseInt(readFileSync(path.join(cluster, 'postmaster.pid'), 'utf8'), 10);
    };
    /** Its sessions go on for a moment, so that one of them which answers does not tell that it is back. */
    const killPostmaster = async (server: string) => {
      const pid = postmasterOf(server);
      process.kill(pid, 'SIGKILL');
      const isBack = async () => {
        const [row] = await (at[server] as Database).query<{ pid: number }>(
          sql`select (regexp_match(pg_read_file('postmaster.pid'), '^[0-9]+'))[1]::int as pid`,
        );
        return row !== undefined && row.pid !== pid;
      };
      await until('PostgreSQL is back', () => isBack().catch(() => false), 60_000);
    };
    const copyAt = async (server: string, copy: string) => {
      const [row] = await (at[server] as Database).query<{ sessions: number }>(sql`
      select (select count(*)::int from pg_stat_activity where datname = ${databaseOf(copy)} and state = 'active') as sessions
      from pg_database where datname = ${databaseOf(copy)}`);
      return row;
    };
    const look = async (from: string, to: string): Promise<Seen> => {
      const [move] = await control.query<{ state: string; copy: string }>(
        sql`select state, copy_id as copy from moves`,
      );
      const names = async (server: string) => (await namesAt(server)).map(({ name }) => name);
      const copy = await copyAt(to, move?.copy ?? '');
      const isClosed = (await names(from)).includes(movingDatabaseOf(id));
      return {
        state: move?.state ?? null,
        isPublished: (await replicationOn(from)).roles > 0,
        isFollowed: (await replicationOn(from)).slots > 0,
        isCopied: copy !== undefined,
        isClosed,
        isFilled: isClosed && (copy?.sessions ?? 0) > 0,
        isNamed: (await names(to)).includes(databaseOf(id)),
      };
    };
    const whereNow = async () => {
      const [row] = await control.query<{ name: string }>(
        sql`select servers.name from projects join servers on servers.id = server_id where projects.id = ${id}`,
      );
      return row?.name ?? '';
    };

    const acknowledged: string[] = [];
    for (const { when: name, isReached, victim } of moments[mode]) {
      moment = name;
      const from = await whereNow();
      const to = from === 'embedded' ? 'second' : 'embedded';
      let isOver = false;
      const writing = (async () => {
        for (let n = 0; !isOver; n++) {
          const row = `${name} ${n}`;
          const answer = await service
            .call('POST', `/projects/${slug}/tables/ledger`, { body: { id: row } })
            .catch(() => null);
          if (answer?.status === 201) acknowledged.push(row);
          else if (!answer) return;
        }
      })();
      // After a crash of PostgreSQL, connections that are kept open fail once, and the answer says to try again.
      const started = await until('both servers can be reached', async () => {
        const answer = await service.call('POST', `/projects/${slug}/move`, { body: { server: to, mode } });
        return answer.status !== 503 && answer;
      });
      expect(started.status, JSON.stringify(started.body)).toBe(202);
      let seen = await look(from, to);
      for (const deadline = performance.now() + 30_000; performance.now() < deadline; await sleep(2)) {
        seen = await look(from, to);
        if (isReached(seen) || seen.state === null) break;
      }
      if (victim) await killPostmaster(victim === 'from' ? from : to);
      else await service.stop('SIGKILL');
      expect(isReached(seen), `${name}: ${JSON.stringify(seen)}`).toBe(true);
      isOver = true;
      await writing;
      const copies = [...(await namesAt('embedded')), ...(await namesAt('second'))];
      expect(copies.filter(({ writable }) => writable).length, name).toBeLessThanOrEqual(1);
      if (!victim) service = await launch(env);
      ({ control, at } = connect());
      await until('the project answers', async () => {
        const body = { query: 'select 1' };
        return (await service.call('POST', `/projects/${slug}/query`, { body })).status === 200;
      });
      await run(service, 'select count(*) from pad');
      await until(
        'the move is finished or undone',
        async () => (await control.query(sql`select from moves`)).length === 0,
        90_000,
      ).catch(async (error) => {
        const rows = await control.query(
          sql`select moves.*, jobs.status, jobs.details, jobs.error from moves join jobs on jobs.id = job_id`,
        );
        throw new Error(`${name}: ${error}: ${JSON.stringify(rows)} ${service.output().slice(-3_000)}`);
      });
      const here = await whereNow();
      const there = here === 'embedded' ? 'second' : 'embedded';
      expect(await namesAt(here), name).toEqual([{ name: databaseOf(id), writable: true }]);
      expect(await namesAt(there), name).toEqual([]);
      for (const server of [here, there])
        expect(await replicationOn(server), name).toEqual({ roles: 0, slots: 0, subscriptions: 0 });
      expect(
        await run(
          service,
          `select (select count(*)::int from pg_publication) as publications,
                (select relreplident::text from pg_class where relname = 'pad') as identity`,
        ),
        name,
      ).toEqual([{ publications: 0, identity: 'd' }]);
      expect(await run(service, 'select count(*)::int as n from pad')).toEqual([{ n: 100_000 }]);
      const rows: { id: string }[] = await run(service, 'select id from ledger');
      const stored = new Set(rows.map((row) => row.id));
      expect(
        acknowledged.filter((row) => !stored.has(row)),
        name,
      ).toEqual([]);
    }
    const metrics = (await service.call('GET', '/metrics')).body;
    expect(metrics).toContain('rowhouse_projects_without_database 0');
  },
);

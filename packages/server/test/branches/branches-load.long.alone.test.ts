import pg from 'pg';
import { describe, expect, it } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { databaseOf } from '../../src/servers/databases/names.ts';
import { run } from '../support/exports.ts';
import {
  address,
  asAdmin,
  openSecondProcess,
  type TestService,
  until,
  useTestService,
} from '../support/helpers.ts';

const rowhouse = useTestService();

type Project = { id: string; slug: string; key: string };

/** Inserts one row after the other, by the table's endpoint and by SQL in turn, until it is stopped. */
function startWriter(service: TestService, { slug, key }: Project, writer: number) {
  const acknowledged: string[] = [];
  const problems: unknown[] = [];
  let isOver = false;
  const work = (async () => {
    for (let n = 0; !isOver; n++) {
      const id = `${writer}-${String(n).padStart(6, '0')}`;
      const { status, body } = await (n % 2
        ? service.call('POST', `/projects/${slug}/tables/ledger`, { key, body: { id } })
        : service.call('POST', `/projects/${slug}/query`, {
            key,
            body: { query: 'insert into ledger (id) values ($1)', params: [id] },
          }));
      if (status === (n % 2 ? 201 : 200)) acknowledged.push(id);
      else problems.push([status, body.error]);
    }
  })();
  return {
    count: () => acknowledged.length,
    stop: async () => {
      isOver = true;
      await work;
      return { acknowledged, problems };
    },
  };
}

async function ledgerOf({ slug, key }: Project): Promise<string[]> {
  const { body } = await rowhouse.call('POST', `/projects/${slug}/query`, {
    key,
    body: { query: 'select id from ledger order by id' },
  });
  return body.rows.map(({ id }: { id: string }) => id);
}

async function branchOf({ slug }: Project): Promise<Project> {
  const { status, body } = await rowhouse.call('POST', `/projects/${slug}/branches`, { body: { name: 'B' } });
  expect(status, JSON.stringify(body)).toBe(201);
  return { id: body.project.id, slug: body.project.slug, key: body.api_key };
}

describe('a branch under load', () => {
  it('makes no request of two processes fail, loses nothing, and holds a prefix of what each writer wrote', async () => {
    const parent = await rowhouse.project('Load');
    const neighbour = await rowhouse.project('Neighbour');
    for (const project of [parent, neighbour])
      await run(rowhouse, project, 'create table ledger (id text primary key)');
    await run(
      rowhouse,
      parent,
      'create table bulk as select n, repeat(md5(n::text), 30) as v from generate_series(1, 60000) as n',
    );
    const second = await openSecondProcess(rowhouse);
    try {
      const writers = [1, 2, 3, 4, 5, 6, 7, 8].map((n) => startWriter(n % 2 ? rowhouse : second, parent, n));
      const beside = startWriter(second, neighbour, 9);
      const readers = startReader(second, parent);
      const progress = async (more: number) => {
        const from = writers.map(({ count }) => count());
        await until('all writers go on', async () =>
          writers.every(({ count }, n) => count() >= (from[n] ?? 0) + more),
        );
      };
      await progress(20);
      const branches: Project[] = [];
      for (let n = 0; n < 3; n++) {
        branches.push(await branchOf(parent));
        await progress(20);
      }
      const written = await Promise.all(writers.map(({ stop }) => stop()));
      const { problems: besides } = await beside.stop();
      expect(await readers.stop()).toEqual([]);
      expect(written.flatMap(({ problems }) => problems)).toEqual([]);
      expect(besides).toEqual([]);
      const stored = await ledgerOf(parent);
      expect(stored).toEqual(written.flatMap(({ acknowledged }) => acknowledged).sort());
      for (const branch of branches) {
        const held = new Set(await ledgerOf(branch));
        expect(held.size).toBeGreaterThan(0);
        for (const { acknowledged } of written) {
          const missing = acknowledged.findIndex((id) => !held.has(id));
          expect(missing).toBeGreaterThanOrEqual(0);
          expect(acknowledged.slice(missing).filter((id) => held.has(id))).toEqual([]);
        }
      }
    } finally {
      await second.stop();
    }
  });
});

describe('reset and promote under load', () => {
  it('make no request of two processes fail, and keep every acknowledged row in one of the two databases', async () => {
    const parent = await rowhouse.project('Promoted');
    await run(rowhouse, parent, 'create table ledger (id text primary key)');
    const second = await openSecondProcess(rowhouse);
    try {
      const writers = [1, 2, 3, 4].map((n) => startWriter(n % 2 ? rowhouse : second, parent, n));
      const progress = async () => {
        const from = writers.map(({ count }) => count());
        await until('all writers go on', async () =>
          writers.every(({ count }, n) => count() >= (from[n] ?? 0) + 20),
        );
      };
      await progress();
      const branch = await branchOf(parent);
      await progress();
      for (const action of ['reset', 'promote']) {
        const { status, body } = await rowhouse.call('POST', `/projects/${branch.slug}/${action}`);
        expect([action, status, body.error]).toEqual([action, 200, undefined]);
        await progress();
      }
      const written = await Promise.all(writers.map(({ stop }) => stop()));
      expect(written.flatMap(({ problems }) => problems)).toEqual([]);
      expect((await rowhouse.call('POST', `/projects/${branch.slug}/restore`)).status).toBe(200);
      const [now, before] = [new Set(await ledgerOf(parent)), new Set(await ledgerOf(branch))];
      const acknowledged = written.flatMap(({ acknowledged: ids }) => ids);
      expect(acknowledged.filter((id) => !now.has(id) && !before.has(id))).toEqual([]);
      // Those after the promotion are in the promoted database, those between the reset and it in the replaced one.
      expect([acknowledged.some((id) => !before.has(id)), acknowledged.some((id) => !now.has(id))]).toEqual([
        true,
        true,
      ]);
    } finally {
      await second.stop();
    }
  });
});

describe('many branches at once', () => {
  it('are made one after the other, and too many are refused', async () => {
    const parent = await rowhouse.project('Many');
    const neighbour = await rowhouse.project('Quiet');
    await run(rowhouse, neighbour, 'create table ledger (id text primary key)');
    const beside = startWriter(rowhouse, neighbour, 1);
    const answers = await Promise.all(
      Array.from({ length: 16 }, () =>
        rowhouse.call('POST', `/projects/${parent.slug}/branches`, { body: { name: 'One of many' } }),
      ),
    );
    const { problems, acknowledged } = await beside.stop();
    expect(problems).toEqual([]);
    expect(acknowledged.length).toBeGreaterThan(0);
    const made = answers.filter(({ status }) => status === 201);
    const refused = answers.filter(({ status }) => status === 429);
    expect(made.length + refused.length).toBe(16);
    expect([made.length > 0, refused.length >= 5]).toEqual([true, true]);
    expect(refused[0]?.body.error.code).toBe('overloaded');
    const { body } = await rowhouse.call('GET', `/projects/${parent.slug}/branches`);
    expect(body.branches).toHaveLength(made.length);
  });
});

/** Reads short and long results, through pipelines and in exclusive sessions. */
function startReader(service: TestService, { slug, key }: Project) {
  const problems: unknown[] = [];
  let isOver = false;
  const work = Promise.all(
    ['select count(*) from ledger', 'select n from bulk where n = 7', 'select * from bulk limit 20000'].map(
      async (query) => {
        while (!isOver) {
          const { status, body } = await service.call('POST', `/projects/${slug}/query`, {
            key,
            body: { query },
          });
          if (status !== 200) problems.push([query, status, body.error]);
        }
      },
    ),
  );
  return {
    stop: async () => {
      isOver = true;
      await work;
      return problems;
    },
  };
}

describe('a statement that runs for long', () => {
  it('is named when it keeps a project from being branched; other requests go on', async () => {
    const parent = await rowhouse.project('Long statement');
    const slow = rowhouse.call('POST', `/projects/${parent.slug}/query`, {
      body: { query: 'select pg_sleep(25)', timeout_ms: 40_000 },
    });
    await until('it runs', async () => {
      const found = await asAdmin((admin) =>
        admin.query(sql`
          select from pg_stat_activity where datname = ${databaseOf(parent.id)} and query like '%pg_sleep%'`),
      );
      return found.length > 0;
    });
    let answered = 0;
    let isOver = false;
    const others = (async () => {
      while (!isOver) {
        const { status: other } = await rowhouse.call('POST', `/projects/${parent.slug}/query`, {
          body: { query: 'select 1' },
        });
        expect(other).toBe(200);
        answered++;
      }
    })();
    const { status, body } = await rowhouse.call('POST', `/projects/${parent.slug}/branches`, {
      body: { name: 'No' },
    });
    isOver = true;
    await others;
    expect([status, body.error.code]).toEqual([409, 'conflict']);
    expect(body.error.details).toMatchObject({ retryable: true });
    expect(body.error.details.query).toContain('pg_sleep');
    expect(answered).toBeGreaterThan(10);
    expect((await slow).status).toBe(200);
    const [spares] = await rowhouse.service.deps.control.query(
      sql`select from spares where state <> 'ready'`,
    );
    expect(spares).toBeUndefined();
  });
});

describe('a base backup', () => {
  it('makes a copy go through the log, so that a recovery from the backup gives the same copy', async () => {
    const parent = await rowhouse.project('Backed up');
    await run(
      rowhouse,
      parent,
      "create table bulk as select decode(string_agg(md5(random()::text), ''), 'hex') as v from generate_series(1, 800000) as n group by n % 1000",
      'create table ledger (id text primary key)',
    );
    const walMb = async (act: () => Promise<unknown>) => {
      const position = () =>
        asAdmin((admin) =>
          admin.query<{ lsn: string }>(sql`select pg_current_wal_insert_lsn()::text as lsn`),
        );
      const [before] = await position();
      await act();
      const [row] = await asAdmin((admin) =>
        admin.query<{ mb: number }>(sql`
          select (pg_wal_lsn_diff(pg_current_wal_insert_lsn(), ${before?.lsn}::pg_lsn) / 1048576)::float8 as mb`),
      );
      return row?.mb ?? Number.NaN;
    };
    expect(await walMb(() => branchOf(parent))).toBeLessThan(6);
    const { host, port, user, password } = address();
    const backup = new pg.Client({ host, port, user, password, replication: 'true' } as pg.ClientConfig);
    backup.on('error', () => {});
    await backup.connect();
    // Slow enough to be still running at the end.
    const taken = backup
      .query("BASE_BACKUP (LABEL 'test', MAX_RATE 32, CHECKPOINT 'fast', WAIT false)")
      .catch(() => {});
    await until('it runs', async () => {
      const found = await asAdmin((admin) => admin.query(sql`select from pg_stat_progress_basebackup`));
      return found.length > 0;
    });
    let branch: Project | null = null;
    expect(
      await walMb(async () => {
        branch = await branchOf(parent);
      }),
    ).toBeGreaterThan(10);
    await asAdmin((admin) =>
      admin.query(sql`select pg_terminate_backend(pid) from pg_stat_progress_basebackup`),
    );
    await taken;
    await backup.end().catch(() => {});
    expect(branch && (await ledgerOf(branch))).toEqual([]);
  });
});

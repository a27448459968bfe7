import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { openDatabase } from '../../src/postgres/admin/database.ts';
import { sql } from '../../src/postgres/sql.ts';
import { embeddedAddress } from '../../src/servers/embedded/embedded.ts';
import { masterKeyFile, readKeyFile } from '../../src/servers/embedded/master-key.ts';
import { until } from '../support/helpers.ts';
import { launch, newAccountKey, postmasterPid, type Running, usedDataFolder } from '../support/process.ts';

type Project = { slug: string; key: string };

async function create(service: Running, target: string, body: object): Promise<Project> {
  const answer = await service.call('POST', target, { body });
  expect(answer.status, JSON.stringify(answer.body)).toBe(201);
  return { slug: answer.body.project.slug, key: answer.body.api_key };
}

async function run(service: Running, { slug }: { slug: string }, query: string) {
  const { status, body } = await service.call('POST', `/projects/${slug}/query`, { body: { query } });
  expect([query, status, body.error]).toEqual([query, 200, undefined]);
  return body.rows;
}

async function inControl<T extends object>(data: string, statement: ReturnType<typeof sql>): Promise<T[]> {
  const file = readKeyFile(masterKeyFile(data));
  if (!('key' in file)) throw new Error('The data folder has no master key.');
  const { key } = file;
  const control = openDatabase({ ...embeddedAddress(data, key), database: 'rowhouse' }, { max: 1 });
  try {
    return await control.query<T>(statement);
  } finally {
    await control.end();
  }
}

const list = async (service: Running, slug: string) =>
  (await service.call('GET', `/projects/${slug}/branches`)).body.branches as {
    slug: string;
    status: string;
  }[];

async function start(): Promise<{
  env: Record<string, string>;
  data: string;
  parent: Project;
  service: Running;
}> {
  const data = await usedDataFolder();
  const env = { ROWHOUSE_DATA: data, ROWHOUSE_ACCOUNT_KEY: newAccountKey(), ROWHOUSE_SPARES: '1' };
  const service = await launch(env);
  const parent = await create(service, '/projects', { name: 'Parent' });
  await run(service, parent, 'create table t (id int primary key, pad text)');
  await run(
    service,
    parent,
    'insert into t select n, repeat(md5(n::text), 20) from generate_series(1, 20000) as n',
  );
  return { env, data, parent, service };
}

/** What a crash has left is gone: a spare that is being made counts as abandoned after two minutes. */
async function tidied(service: Running, data: string): Promise<void> {
  await inControl(data, sql`update spares set created_at = now() - interval '1 hour' where state = 'making'`);
  await until(
    'everything is tidied up',
    async () => {
      const [row] = await inControl<{ tidy: boolean }>(
        data,
        sql`
          select not exists (select from spares where state <> 'ready') and not exists (select from swaps)
            and (select count(*) from pg_database where datname ~ '^p_')
              = (select count(*) from projects) + (select count(*) from spares) as tidy`,
      );
      return row?.tidy;
    },
    90_000,
  );
  const metrics = (await service.call('GET', '/metrics')).body;
  expect(metrics).toContain('rowhouse_projects_without_database 0');
}

const moments = [20, 150, 300, 450, 600, 800, 1_000, 1_300];

it('kill -9 of the service while it branches leaves whole branches or nothing', async () => {
  const { env, data, parent, service: first } = await start();
  let service = first;
  const acknowledged: string[] = [];
  for (const moment of moments) {
    const branching = service
      .call('POST', `/projects/${parent.slug}/branches`, { body: { name: `At ${moment}` } })
      .catch(() => null);
    await sleep(moment);
    await service.stop('SIGKILL');
    const answer = await branching;
    if (answer?.status === 201) acknowledged.push(answer.body.project.slug);
    service = await launch(env);
    // A hold of the process that died ends by itself.
    await run(service, parent, 'select count(*) from t');
  }
  const branches = await list(service, parent.slug);
  expect(branches.map(({ slug }) => slug)).toEqual(expect.arrayContaining(acknowledged));
  for (const branch of branches) {
    expect(await run(service, branch, 'select count(*) from t')).toEqual([{ count: 20_000 }]);
    await run(service, branch, 'delete from t where id = 1');
  }
  expect(await run(service, parent, 'select count(*) from t')).toEqual([{ count: 20_000 }]);
  await tidied(service, data);
  await create(service, `/projects/${parent.slug}/branches`, { name: 'After all' });
});

type Victim = 'the service' | 'PostgreSQL';

/** Kills it, and waits until requests are answered again. */
async function kill(
  victim: Victim,
  { env, data, parent }: Awaited<ReturnType<typeof start>>,
  service: Running,
): Promise<Running> {
  if (victim === 'the service') {
    await service.stop('SIGKILL');
    return launch(env);
  }
  const pid = postmasterPid(data);
  if (pid) process.kill(pid, 'SIGKILL');
  await until(
    'PostgreSQL is back',
    async () => {
      const body = { query: 'select 1' };
      const { status } = await service.call('POST', `/projects/${parent.slug}/query`, { body });
      return status === 200 && postmasterPid(data) !== pid;
    },
    60_000,
  );
  return service;
}

/** Inserts row after row into a project, and keeps the ids that were acknowledged. */
function writeInto(service: Running, { slug }: Project, from: number) {
  const acknowledged: number[] = [];
  let isOver = false;
  const working = (async () => {
    for (let id = from; !isOver; id++) {
      const body = { query: `insert into t values (${id}, 'written meanwhile')` };
      const answer = await service.call('POST', `/projects/${slug}/query`, { body }).catch(() => null);
      if (answer?.status === 200) acknowledged.push(id);
      else await sleep(20);
    }
  })();
  return {
    acknowledged,
    stop: async () => {
      isOver = true;
      await working;
    },
  };
}

/** Measured on this machine, and spread over the whole. The last one comes after the end. */
async function momentsOf(act: () => Promise<unknown>, count: number): Promise<number[]> {
  const startedAt = performance.now();
  await act();
  const wholeMs = performance.now() - startedAt;
  return Array.from({ length: count }, (_, n) => (wholeMs * (n + 0.5)) / (count - 0.5));
}

const rounds = 8;

it.each<Victim>(['the service', 'PostgreSQL'])(
  'kill -9 of %s while a branch is reset or promoted leaves the one or the other, and loses nothing',
  { timeout: 1_200_000 },
  async (victim) => {
    const started = await start();
    const { data, parent } = started;
    let { service } = started;
    const keys = new Map([[parent.slug, parent.key]]);
    const branchOff = async (name: string) => {
      const branch = await create(service, `/projects/${parent.slug}/branches`, { name });
      keys.set(branch.slug, branch.key);
      return branch;
    };
    const act = ({ slug }: Project, isReset: boolean) =>
      service.call('POST', `/projects/${slug}/${isReset ? 'reset' : 'promote'}`).catch(() => null);
    const first = await branchOff('Measured');
    const moments = {
      reset: await momentsOf(() => act(first, true), rounds),
      promote: await momentsOf(() => act(first, false), rounds),
    };
    for (let round = 0; round < 2 * rounds; round++) {
      const isReset = round % 2 === 0;
      const branch = await branchOff(`Round ${round}`);
      await run(service, parent, `insert into t values (${-1 - round}, 'of the parent')`);
      await run(service, branch, `insert into t values (${-1 - round}, 'of the branch')`);
      const word = async (slug: string): Promise<string> => {
        const rows = await run(service, { slug }, `select pad from t where id = ${-1 - round}`);
        return rows[0].pad;
      };
      const idsIn = async (slug: string): Promise<number[]> => {
        const rows = await run(service, { slug }, `select id from t where id > ${1_000_000 * (round + 1)}`);
        return rows.map(({ id }: { id: number }) => id);
      };
      const writing = writeInto(service, parent, 1_000_000 * (round + 1) + 1);
      const action = act(branch, isReset);
      await sleep(moments[isReset ? 'reset' : 'promote'][round >> 1] ?? 0);
      service = await kill(victim, started, service);
      const wasAcknowledged = (await action)?.status === 200;
      await writing.stop();
      await until(
        'the exchange is completed or forgotten',
        async () => (await inControl(data, sql`select from swaps`)).length === 0,
        120_000,
      );
      const { body } = await service.call('GET', `/projects/${branch.slug}`);
      if (isReset) {
        expect(await word(parent.slug)).toBe('of the parent');
        expect(['of the branch', 'of the parent']).toContain(await word(branch.slug));
        if (wasAcknowledged) expect(await word(branch.slug)).toBe('of the parent');
        expect(await idsIn(parent.slug)).toEqual(expect.arrayContaining(writing.acknowledged));
      } else {
        if (body.project.status === 'deleted') {
          expect(await word(parent.slug)).toBe('of the branch');
          expect((await service.call('POST', `/projects/${branch.slug}/restore`)).status).toBe(200);
          expect(await word(branch.slug)).toBe('of the parent');
        } else {
          expect(wasAcknowledged).toBe(false);
          const words = [await word(parent.slug), await word(branch.slug)];
          expect(words).toEqual(['of the parent', 'of the branch']);
        }
        const both = [...(await idsIn(parent.slug)), ...(await idsIn(branch.slug))];
        expect(both).toEqual(expect.arrayContaining(writing.acknowledged));
      }
      for (const slug of [parent.slug, branch.slug]) {
        const key = keys.get(slug);
        expect((await service.call('GET', `/projects/${slug}`, { ...(key && { key }) })).status).toBe(200);
        const { body: found } = await service.call('GET', `/projects/${slug}/connection`);
        const direct = openDatabase({ ...found.connection, tls: false }, { max: 1 });
        expect(await direct.query(sql`select count(*)::int as n from t where id = 7`)).toEqual([{ n: 1 }]);
        await direct.end();
      }
      await service.call('DELETE', `/projects/${branch.slug}`);
    }
    await tidied(service, data);
  },
);

it('kill -9 of PostgreSQL while a project is branched leaves whole branches or nothing', async () => {
  const { data, parent, service } = await start();
  for (const moment of [100, 400, 550, 900]) {
    const branching = service.call('POST', `/projects/${parent.slug}/branches`, { body: { name: 'Branch' } });
    await sleep(moment);
    const pid = postmasterPid(data);
    if (pid) process.kill(pid, 'SIGKILL');
    const { status } = await branching;
    expect([201, 500, 503]).toContain(status);
    await until(
      'it is back',
      async () => {
        const { status: now } = await service.call('POST', `/projects/${parent.slug}/query`, {
          body: { query: 'select 1' },
        });
        return now === 200 && postmasterPid(data) !== pid;
      },
      60_000,
    );
  }
  for (const branch of await list(service, parent.slug))
    expect(await run(service, branch, 'select count(*) from t')).toEqual([{ count: 20_000 }]);
  expect(await run(service, parent, 'select count(*) from t')).toEqual([{ count: 20_000 }]);
  await tidied(service, data);
});

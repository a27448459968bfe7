// Every pool of slots that accounts share: what one account occupies never keeps another one from its turn. The attacker has
// several projects, and whatever runs in their databases hangs.

import type { JobKind } from '@rowhouse/api';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { restoreInTurn } from '../../src/backups/restore/restore-turns.ts';
import { openServerTurns } from '../../src/branches/server-turns.ts';
import { openDatabase } from '../../src/postgres/admin/database.ts';
import { sql } from '../../src/postgres/sql.ts';
import { databaseOf } from '../../src/servers/databases/names.ts';
import { sourceOf } from '../support/exports.ts';
import { holdTransaction } from '../support/held-transaction.ts';
import { address, api, openGate, soon, until, useTestService } from '../support/helpers.ts';

const rowhouse = useTestService({ spares: 4, connections: { budget: 16, share: 8 } });
type Project = { slug: string; id: string; key: string };
type Account = { id: string; key: string; projects: Project[] };
let loud: Account;
let quiet: Account;
const deps = () => rowhouse.service.deps;

beforeAll(async () => {
  loud = await openAccount('Loud', 8);
  quiet = await openAccount('Quiet', 2);
});

async function openAccount(name: string, count: number): Promise<Account> {
  const { body } = await rowhouse.call('POST', `${api}/accounts`, {
    key: rowhouse.operatorKey,
    body: { name },
  });
  const account: Account = { id: body.account.id, key: body.api_key, projects: [] };
  for (let n = 0; n < count; n++) {
    const made = await rowhouse.call('POST', '/projects', {
      key: account.key,
      body: { name: `${name} ${n}` },
    });
    expect(made.status, JSON.stringify(made.body)).toBe(201);
    const { slug, id } = made.body.project;
    account.projects.push({ slug, id, key: made.body.api_key });
    const created = await query(account.projects[n] as Project, 'create table t (n int)');
    expect(created.status, JSON.stringify(created.body)).toBe(200);
  }
  return account;
}
const query = ({ slug, key }: Project, text: string) =>
  rowhouse.call('POST', `/projects/${slug}/query`, { key, body: { query: text } });
const first = ({ projects }: Account) => projects[0] as Project;
const send = (method: string, path: string) => (project: Project) =>
  rowhouse.call(method, `/projects/${project.slug}/${path}`, { key: project.key });

/** Resolves to 'late' if it does not end soon. */
const inTime = <T>(work: Promise<T>) =>
  Promise.race([work, new Promise<'late'>((resolve) => setTimeout(resolve, soon, 'late'))]);

/** Whatever reads the catalog of one of these databases waits. Gives what lets it go on. */
async function hang(projects: readonly Project[]): Promise<() => Promise<void>> {
  const releases = await Promise.all(
    projects.map(({ id }) =>
      holdTransaction({ ...address(), database: databaseOf(id) }, (transaction) =>
        transaction.query(sql`lock table pg_catalog.pg_class in access exclusive mode`),
      ),
    ),
  );
  return async () => {
    await Promise.all(releases.map((release) => release()));
  };
}

describe('while the databases of one account hang', () => {
  let release = async () => {};
  const sent: Promise<unknown>[] = [];
  beforeAll(async () => {
    release = await hang(loud.projects);
  });
  afterAll(async () => {
    await release();
    await Promise.allSettled(sent);
    await until('all jobs have ended', async () => {
      const { body } = await rowhouse.call('GET', `${api}/jobs`, { key: loud.key });
      return body.jobs.every((job: { status: string }) => job.status !== 'running');
    });
  });

  /** `hangs`: until the database answers. The others are begun, and go on by themselves. */
  type Pool = { act: (project: Project) => Promise<{ status: number }>; status: number; hangs?: boolean };
  const pools: Record<string, Pool> = {
    'looks at the usage': { act: send('GET', 'usage'), status: 200, hangs: true },
    compactions: { act: send('POST', 'compact'), status: 202 },
    exports: { act: send('GET', 'export?format=csv'), status: 200 },
    'look-ups of tables': { act: send('GET', 'tables/t'), status: 200, hangs: true },
    statements: { act: (project) => query(project, 'select count(*) from t'), status: 200, hangs: true },
    'lists of users': { act: send('GET', 'auth/users'), status: 200, hangs: true },
    'live branches': {
      act: ({ slug }) => {
        const { key } = [loud, quiet].find(({ projects }) =>
          projects.some((one) => one.slug === slug),
        ) as Account;
        const body = { name: 'Live', mode: 'live' };
        return rowhouse.call('POST', `/projects/${slug}/branches`, { key, body });
      },
      status: 201,
    },
  };
  it.each(Object.keys(pools))('%s of another account are served', async (name) => {
    const { act, status, hangs = false } = pools[name] as Pool;
    let hanging = 0;
    for (const project of loud.projects.flatMap((one) => [one, one])) {
      hanging++;
      sent.push(act(project).finally(() => hanging--));
    }
    await new Promise((resolve) => setTimeout(resolve, 300));
    if (hangs) expect(hanging, 'requests of the other account that hang').toBeGreaterThan(0);
    const answer = await inTime(act(first(quiet)));
    expect(answer, name).not.toBe('late');
    expect((answer as { status: number }).status, JSON.stringify(answer)).toBe(status);
  });

  it('a compaction of another account ends', async () => {
    await until(
      'the compaction is done',
      async () => (await send('GET', 'compact')(first(quiet))).body.compaction.status === 'done',
      soon,
    );
  });
});

describe('imports', () => {
  const upload = async ({ key }: Account, dump: string) => {
    const response = await rowhouse.app.inject({
      method: 'POST',
      url: `${api}/projects/import?name=Imported`,
      payload: dump,
      headers: { 'x-api-key': key, 'content-type': 'application/octet-stream' },
    });
    return { status: response.statusCode, body: response.json() };
  };
  const statusOf = async ({ key }: Account, id: string) =>
    (await rowhouse.call('GET', `${api}/jobs/${id}`, { key })).body.job.status;

  it('of one account leave turns and places for another', async () => {
    const slow: string[] = [];
    for (let n = 0; n < 6; n++) {
      const { status, body } = await upload(loud, 'select pg_catalog.pg_sleep(20);\n');
      expect(status, JSON.stringify(body)).toBe(202);
      slow.push(body.job.id);
    }
    const more = await upload(loud, 'select 1;\n');
    expect([more.status, more.body.error?.code]).toEqual([429, 'overloaded']);
    const other = await upload(quiet, 'create table t (n int);\n');
    expect(other.status, JSON.stringify(other.body)).toBe(202);
    await until('it is done', async () => (await statusOf(quiet, other.body.job.id)) === 'done', soon);
    expect(await Promise.all(slow.map((id) => statusOf(loud, id)))).toEqual(Array(6).fill('running'));
    expect(more.body.error.message).toBe(
      'The imports of this account use up its share: 6 of them are running or waiting.',
    );
    for (const id of slow) await rowhouse.call('DELETE', `${api}/jobs/${id}`, { key: loud.key });
    await until('all have ended', async () =>
      (await Promise.all(slow.map((id) => statusOf(loud, id)))).every((status) => status === 'cancelled'),
    );
    const again = await upload(loud, 'create table t (n int);\n');
    expect(again.status).toBe(202);
    await until('it is done', async () => (await statusOf(loud, again.body.job.id)) === 'done', soon);
  });
});

describe('exports', () => {
  it('without a reader leave one for another account', async () => {
    const left = new AbortController();
    const held = loud.projects.map(({ id }) => {
      const source = { ...sourceOf(rowhouse, id), account_id: loud.id };
      return deps().exports.run(source, 'csv', () => new Promise(() => {}), left.signal);
    });
    const ended = Promise.allSettled(held);
    await new Promise((resolve) => setTimeout(resolve, 300));
    const answer = await inTime(send('GET', 'export?format=csv')(first(quiet)));
    left.abort(new Error('left'));
    const refused = (await ended).filter(
      (one) => one.status === 'rejected' && one.reason.code === 'overloaded',
    );
    expect((answer as { status: number }).status).toBe(200);
    expect(refused.length).toBe(loud.projects.length - 2);
  });
});

/** Work that needs a lock of all processes, held by this test: in which order does it begin? */
async function order(
  lock: string,
  more: unknown[],
  take: (account: Account, act: () => Promise<void>) => Promise<unknown>,
) {
  const begun: string[] = [];
  const database = openDatabase({ ...address(), database: rowhouse.controlDatabase }, { max: 1 });
  const work: Promise<unknown>[] = [];
  await database.session(async (session) => {
    const key = more.length > 0 ? sql`hashtext(${lock}), ${Number(more[0])}::int` : sql`hashtext(${lock})`;
    await session.query(sql`select pg_advisory_lock(${key})`);
    const add = (account: Account, name: string) =>
      work.push(
        take(account, async () => {
          begun.push(name);
          await new Promise((resolve) => setTimeout(resolve, 10));
        }).catch((error) => begun.push(error.code)),
      );
    for (let n = 0; n < 12; n++) add(loud, 'loud');
    add(quiet, 'quiet');
    await new Promise((resolve) => setTimeout(resolve, 200));
    await session.query(sql`select pg_advisory_unlock(${key})`);
  });
  await Promise.all(work);
  await database.end();
  return begun.filter((name) => name !== 'overloaded');
}

describe('what runs one at a time goes by turns of accounts', () => {
  it('branches', async () => {
    const { server, control } = deps();
    const turns = openServerTurns(control);
    const begun = await order('rowhouse branches', [server.id], ({ id }, act) => turns(server, id, act));
    expect(begun.indexOf('quiet')).toBeLessThanOrEqual(1);
    expect(begun.indexOf('quiet')).toBeGreaterThanOrEqual(0);
  });

  it('restores', async () => {
    const { control } = deps();
    const { signal } = new AbortController();
    const begun = await order('rowhouse restore', [], ({ id }, act) =>
      restoreInTurn(control, { account: id, signal }, act),
    );
    expect(begun.indexOf('quiet')).toBeLessThanOrEqual(1);
    expect(begun.indexOf('quiet')).toBeGreaterThanOrEqual(0);
  });
});

describe('jobs', () => {
  it.each(['restore', 'branch'] satisfies JobKind[])(
    'of the kind %s leave some for another account',
    async (kind) => {
      const gate = openGate();
      const start = ({ id }: Account) =>
        deps().jobs.start({ kind, accountId: id }, async () => {
          await gate.passed;
          return {};
        });
      const started = await Promise.allSettled(Array.from({ length: 60 }, () => start(loud)));
      expect(started.filter(({ status }) => status === 'rejected').length).toBeGreaterThan(0);
      const other = await start(quiet).finally(gate.open);
      expect(other.status).toBe('running');
    },
  );
});

describe('new projects', () => {
  it('beside a flood of them are made in turn', async () => {
    const done: string[] = [];
    const create = async (account: Account, name: string) => {
      const made = await rowhouse.call('POST', '/projects', { key: account.key, body: { name: 'Flood' } });
      done.push(made.status === 201 ? name : String(made.status));
    };
    const flood = Array.from({ length: 24 }, () => create(loud, 'loud'));
    await new Promise((resolve) => setTimeout(resolve, 20));
    await create(quiet, 'quiet');
    const before = done.indexOf('quiet');
    await Promise.all(flood);
    expect(before).toBeLessThan(12);
  });
});

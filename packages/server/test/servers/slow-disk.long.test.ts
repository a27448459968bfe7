// A disk that is too slow. The process that writes checkpoints is stopped (SIGSTOP) on a PostgreSQL of its own: whatever waits
// for a checkpoint then waits for ever, as it does for very long on an overloaded disk.
import { describe, expect, it, onTestFinished } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { databaseOf } from '../../src/servers/databases/names.ts';
import { holdTransaction } from '../support/held-transaction.ts';
import { asAdmin } from '../support/helpers.ts';
import { useOwnPostgres } from '../support/own-postgres.ts';

const own = useOwnPostgres();
type Project = { slug: string; id: string; key: string };
const query = async ({ slug, key }: Project, text: string) => {
  const { status, body } = await own.rowhouse.call('POST', `/projects/${slug}/query`, {
    key,
    body: { query: text },
  });
  expect([text, status, body.error]).toEqual([text, 200, undefined]);
  return body.rows;
};

/** No checkpoint begins or ends until the test is over. Returns how to go on earlier. */
async function stopCheckpoints(): Promise<() => void> {
  const rows = await asAdmin(
    (admin) =>
      admin.query<{ pid: number }>(sql`select pid from pg_stat_activity where backend_type = 'checkpointer'`),
    own.engine.address,
  );
  const { pid } = rows[0] as { pid: number };
  process.kill(pid, 'SIGSTOP');
  const goOn = () => void process.kill(pid, 'SIGCONT');
  onTestFinished(goOn);
  return goOn;
}

describe('while no checkpoint ends', () => {
  it('small projects are branched, reset and promoted, and their neighbours notice nothing', async () => {
    const [parent, neighbour] = [await own.rowhouse.project('Slow'), await own.rowhouse.project('Neighbour')];
    await query(parent, 'create table t as select n from generate_series(1, 1000) as n');
    const goOn = await stopCheckpoints();
    const made = await own.rowhouse.call('POST', `/projects/${parent.slug}/branches`, {
      body: { name: 'Branch' },
    });
    expect([made.status, made.body.error]).toEqual([201, undefined]);
    const branch = { slug: made.body.project.slug, id: made.body.project.id, key: made.body.api_key };
    expect(await query(branch, 'select count(*) from t')).toEqual([{ count: 1000 }]);
    await query(parent, 'insert into t values (0)');
    expect((await own.rowhouse.call('POST', `/projects/${branch.slug}/reset`)).status).toBe(200);
    expect(await query(branch, 'select count(*) from t')).toEqual([{ count: 1001 }]);
    await query(branch, 'delete from t');
    expect((await own.rowhouse.call('POST', `/projects/${branch.slug}/promote`)).status).toBe(200);
    expect(await query(parent, 'select count(*) from t')).toEqual([{ count: 0 }]);
    expect(await query(neighbour, 'select 1 as one')).toEqual([{ one: 1 }]);
    goOn();
  });

  it('a copy that needs checkpoints is given up with 503, leaves nothing, and succeeds later', {
    tags: 'long',
  }, async () => {
    const parent = await own.rowhouse.project('Large');
    // Above the size that is copied through the log.
    await query(parent, 'create table t (n int, pad text)');
    await query(parent, 'alter table t alter pad set storage external');
    await query(parent, "insert into t select n, repeat('x', 10000) from generate_series(1, 30000) as n");
    const goOn = await stopCheckpoints();
    const branch = () =>
      own.rowhouse.call('POST', `/projects/${parent.slug}/branches`, { body: { name: 'Branch' } });
    const { status, body, headers } = await branch();
    expect([status, body.error.code, body.error.message]).toEqual([
      503,
      'unavailable',
      'PostgreSQL took too long for a step of this request, so the request was given up. Nothing was changed.',
    ]);
    expect(Number(headers['retry-after'])).toBeGreaterThan(0);
    expect(await query(parent, 'select count(*) from t')).toEqual([{ count: 30_000 }]);
    goOn();
    expect((await branch()).status).toBe(201);
  });
});

it('a lock that keeps a branch waiting gives 503, not 500', { tags: 'long' }, async () => {
  const parent = await own.rowhouse.project('Locked');
  const letGo = await holdTransaction(own.engine.address, (transaction) =>
    transaction.query(sql`comment on database ${sql.id(databaseOf(parent.id))} is 'held'`),
  );
  try {
    const { status, body } = await own.rowhouse.call('POST', `/projects/${parent.slug}/branches`, {
      body: { name: 'Branch' },
    });
    expect([status, body.error.code]).toEqual([503, 'unavailable']);
    expect(await query(parent, 'select 1 as one')).toEqual([{ one: 1 }]);
  } finally {
    await letGo();
  }
});

// Databases that cannot be dropped now. A backend that does not react is a stopped one (SIGSTOP): DROP DATABASE of any project
// waits for it, as it does for one that computes without checking for interrupts.
import { expect, it, onTestFinished } from 'vitest';
import { newId } from '../../src/control/new-id.ts';
import { sql } from '../../src/postgres/sql.ts';
import { createProject } from '../../src/projects/create.ts';
import { databaseOf } from '../../src/servers/databases/names.ts';
import { databaseExists } from '../../src/servers/databases/provision.ts';
import { holdTransaction } from '../support/held-transaction.ts';
import { asAdmin, jobEnd, until } from '../support/helpers.ts';
import { useOwnPostgres } from '../support/own-postgres.ts';

const own = useOwnPostgres();
const deps = () => own.rowhouse.service.deps;
const exists = (id: string) => databaseExists(deps().server, id);
const expectServed = async ({ slug, key }: { slug: string; key: string }) => {
  const { status, body } = await own.rowhouse.call('POST', `/projects/${slug}/query`, {
    key,
    body: { query: 'select 1 as one' },
  });
  expect([status, body.rows]).toEqual([200, [{ one: 1 }]]);
};

/** Stops a session of a project until the test is over. Returns how to let it go on earlier. */
async function freeze({ id, slug, key }: { id: string; slug: string; key: string }): Promise<() => void> {
  const sleeping = own.rowhouse.call('POST', `/projects/${slug}/query`, {
    key,
    body: { query: 'select pg_sleep(100)', timeout_ms: 100_000 },
  });
  const [row] = await until('the statement runs', async () => {
    const rows = await asAdmin(
      (admin) =>
        admin.query<{ pid: number }>(sql`
          select pid from pg_stat_activity where datname = ${databaseOf(id)} and query like '%pg_sleep%'`),
      own.engine.address,
    );
    return rows.length > 0 && rows;
  });
  const pid = (row as { pid: number }).pid;
  process.kill(pid, 'SIGSTOP');
  let isOver = false;
  const goOn = () => {
    if (!isOver) process.kill(pid, 'SIGCONT');
    isOver = true;
  };
  onTestFinished(async () => {
    goOn();
    await own.rowhouse.call('DELETE', `/projects/${slug}`);
    await sleeping;
  });
  return goOn;
}

it('while no database can be dropped, jobs end, slugs are free, projects expire, and the drops follow later', async () => {
  const { rowhouse } = own;
  const [culprit, neighbour] = [await rowhouse.project('Culprit'), await rowhouse.project('Neighbour')];
  const goOn = await freeze(culprit);
  const [account] = await deps().control.query<{ id: string }>(sql`select id from accounts`);
  const jobId = newId();
  const { project } = await createProject(
    deps(),
    account?.id ?? '',
    { name: 'Filled' },
    { issuer: null, filledBy: jobId },
  );
  await deps().jobs.start(
    { id: jobId, kind: 'import', accountId: account?.id ?? '', projectId: project.id },
    async () => {
      throw new Error('a bad dump');
    },
  );
  const expiring = await rowhouse.project('Expiring');
  await deps().control.query(sql`update projects set expires_at = now() where id = ${expiring.id}`);

  expect((await jobEnd(rowhouse, jobId, 20_000)).status).toBe('failed');
  const again = { name: 'Filled', slug: project.slug };
  expect((await rowhouse.call('POST', '/projects', { body: again })).status).toBe(201);
  await until(
    'the expired project is deleted',
    async () => {
      const [row] = await deps().server.maintenance.query<{ open: boolean }>(
        sql`select datallowconn as open from pg_database where datname = ${databaseOf(expiring.id)}`,
      );
      return row?.open === false;
    },
    20_000,
  );
  await expectServed(neighbour);
  // The database is not forgotten.
  expect(await exists(project.id)).toBe(true);
  goOn();
  await until('the database is dropped', async () => !(await exists(project.id)), 60_000);
  await expectServed(neighbour);
}, 150_000);

it('databases that cannot be dropped hold up no other', { tags: 'long', timeout: 150_000 }, async () => {
  const { rowhouse } = own;
  const locked = await Promise.all(Array.from({ length: 6 }, (_, n) => rowhouse.project(`Locked ${n}`)));
  const free = await rowhouse.project('Free');
  const neighbour = await rowhouse.project('Neighbour');
  for (const { slug } of [...locked, free]) await rowhouse.call('DELETE', `/projects/${slug}`);
  const letGo = await holdTransaction(own.engine.address, async (transaction) => {
    for (const { id } of locked)
      await transaction.query(sql`comment on database ${sql.id(databaseOf(id))} is 'held'`);
  });
  try {
    const ids = [...locked, free].map(({ id }) => id);
    // The free one is the last to be noted.
    await deps().control.query(sql`
      with gone as (delete from projects where id = any (${ids}::text[]) returning id, server_id, template)
      insert into spares (id, server_id, state, template, created_at)
      select id, server_id, 'dropping', template, now() - make_interval(secs => array_position(${[...ids].reverse()}::text[], id))
      from gone`);
    await until('the free one is dropped', async () => !(await exists(free.id)), 60_000);
    for (const { id } of locked) expect(await exists(id)).toBe(true);
    await expectServed(neighbour);
  } finally {
    await letGo();
  }
  await until(
    'the others follow',
    async () => (await Promise.all(locked.map(({ id }) => exists(id)))).every((is) => !is),
    60_000,
  );
});

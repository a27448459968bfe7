// A further server whose disk is full: its projects get errors that say so, those on other servers do not notice, and a move to it
// fails and leaves the project where it was.
import { randomBytes } from 'node:crypto';
import { expect, it, onTestFinished } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { movingDatabaseOf } from '../../src/servers/databases/move-database.ts';
import { databaseOf } from '../../src/servers/databases/names.ts';
import { startEmbedded } from '../../src/servers/embedded/embedded.ts';
import { asAdmin, until, useTestService } from '../support/helpers.ts';
import { newDataFolder } from '../support/process.ts';
import { fill, smallDisk } from '../support/small-disk.ts';

const rowhouse = useTestService({ spares: 1, connections: { budget: 20, share: 6 } });
const prefix = '/api/dbaas/v2';
type Project = { slug: string; id: string; key: string };

async function projectOn(server: string): Promise<Project> {
  const { status, body } = await rowhouse.call('POST', '/projects', {
    body: { name: `On ${server}`, server, limit_mb: 2_000 },
  });
  expect(status, JSON.stringify(body)).toBe(201);
  return { slug: body.project.slug, id: body.project.id, key: body.api_key };
}
const ask = ({ slug, key }: Project, query: string) =>
  rowhouse.call('POST', `/projects/${slug}/query`, { key, body: { query } });
const run = async (project: Project, query: string) => {
  const { status, body } = await ask(project, query);
  expect([query, status, body.error]).toEqual([query, 200, undefined]);
  return body.rows;
};
/** About 200 kB, which are not compressed. */
const insert = (project: Project, id: number) =>
  ask(
    project,
    `insert into t select ${id}, string_agg(md5(random()::text), '') from generate_series(1, 6000)`,
  );

it('affects its own projects only, and takes no project', { timeout: 600_000 }, async ({ skip }) => {
  const disk = smallDisk(400);
  if (!disk) return skip();
  const second = await startEmbedded({
    dataFolder: newDataFolder(disk),
    masterKey: randomBytes(32),
    connections: 40,
    reserveBytes: 0,
    say: () => {},
    onEvent: () => {},
  });
  onTestFinished(second.stop);
  const { user, password, host, port, database } = second.address;
  const added = await rowhouse.call('POST', `${prefix}/servers`, {
    body: {
      name: 'small',
      address: `postgres://${user}:${encodeURIComponent(password)}@${host}:${port}/${database}`,
    },
  });
  expect(added.status, JSON.stringify(added.body)).toBe(201);
  const [here, there, moving] = [await projectOn('test'), await projectOn('small'), await projectOn('test')];
  for (const project of [here, there, moving]) {
    await run(project, 'create table t (id int primary key, v text)');
    await run(project, 'alter table t alter v set storage external');
  }
  for (let id = 0; id < 50; id++) expect((await insert(moving, id)).status).toBe(200);
  expect((await insert(there, 0)).status).toBe(200);

  // A neighbour on the other server, all the time.
  const answers: { ms: number; status: number }[] = [];
  let isOver = false;
  onTestFinished(() => {
    isOver = true;
  });
  const working = (async () => {
    for (let n = 0; !isOver; n++) {
      const startedAt = performance.now();
      const { status } = await ask(here, `insert into t values (${n}, 'x')`);
      answers.push({ ms: performance.now() - startedAt, status });
    }
  })();

  const filler = fill(disk);
  const acknowledged = [0];
  const refusals = new Set<string>();
  for (let id = 1, refused = 0; refused < 20; id++) {
    expect(id).toBeLessThan(5_000);
    const { status, body, headers } = await insert(there, id);
    if (status === 200) acknowledged.push(id);
    else {
      refused++;
      refusals.add(`${status} ${body.error.code}`);
      // PostgreSQL itself may have given up: it needs room for its log.
      if (status === 503) expect(headers['retry-after']).toBeTruthy();
    }
  }
  for (const refusal of refusals)
    expect(['507 server_full', '503 unavailable', '503 outcome_unknown']).toContain(refusal);
  expect((await rowhouse.call('GET', '/readyz')).status).toBe(200);

  for (const mode of ['dump', 'online']) {
    const { status, body } = await rowhouse.call('POST', `/projects/${moving.slug}/move`, {
      body: { server: 'small', mode },
    });
    if (status === 202) {
      const job = await until('the move has ended', async () => {
        const answer = await rowhouse.call('GET', `${prefix}/jobs/${body.job.id}`);
        return answer.body.job.status !== 'running' && answer.body.job;
      });
      const problems = rowhouse.log.filter((line) => /"level":50/.test(line)).join('\n');
      expect([mode, job.status, job.error.code], problems).toEqual([
        mode,
        'failed',
        expect.stringMatching(/^(server_full|unavailable|conflict)$/),
      ]);
    } else expect([mode, status, body.error.code]).toEqual([mode, 503, 'unavailable']);
    // The source counts, at once.
    expect((await insert(moving, mode === 'dump' ? 100 : 101)).status).toBe(200);
  }
  isOver = true;
  await working;
  expect(answers.filter(({ status }) => status !== 200)).toEqual([]);
  expect(answers.length).toBeGreaterThan(20);
  // Each takes milliseconds. One that waited for the other server would take longer than this.
  expect(Math.max(...answers.map(({ ms }) => ms))).toBeLessThan(15_000);

  filler.free();
  await until('there is room again', async () => (await insert(there, 10_000)).status === 200, 120_000);
  const stored = new Set((await run(there, 'select id from t')).map(({ id }: { id: number }) => id));
  expect(acknowledged.filter((id) => !stored.has(id))).toEqual([]);
  const moves = () =>
    rowhouse.service.deps.control.query(sql`select from moves where project_id = ${moving.id}`);
  await until('nothing is left of the moves', async () => (await moves()).length === 0, 120_000);
  const databases = (at?: Parameters<typeof asAdmin>[1]) =>
    asAdmin(
      (admin) =>
        admin.query<{ name: string }>(sql`
          select datname as name from pg_database
          where datname in (${databaseOf(moving.id)}, ${movingDatabaseOf(moving.id)})`),
      at,
    );
  expect(await databases()).toEqual([{ name: databaseOf(moving.id) }]);
  expect(await databases({ user, password, host, port, database, tls: false })).toEqual([]);

  // With room, it moves. A busy machine may lose a connection meanwhile, and the error says to try again.
  const move = async () => {
    const { status, body } = await rowhouse.call('POST', `/projects/${moving.slug}/move`, {
      body: { server: 'small' },
    });
    expect([status, body.error]).toEqual([202, undefined]);
    return until('the move has ended', async () => {
      const answer = await rowhouse.call('GET', `${prefix}/jobs/${body.job.id}`);
      return answer.body.job.status !== 'running' && answer.body.job;
    });
  };
  await until(
    'it is moved',
    async () => {
      const { status, error } = await move();
      if (status !== 'done') expect(error.details).toMatchObject({ retryable: true });
      return status === 'done';
    },
    240_000,
  );
  expect(await run(moving, 'select count(*) from t')).toEqual([{ count: 52 }]);
});

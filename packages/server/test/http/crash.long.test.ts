import { expect, it } from 'vitest';
import { openDatabase } from '../../src/postgres/admin/database.ts';
import { sql } from '../../src/postgres/sql.ts';
import { type Answer, until } from '../support/helpers.ts';
import { launch, newAccountKey, postmasterPid, type Running, usedDataFolder } from '../support/process.ts';

/** Creates projects without pause until told to stop; keeps what was acknowledged. */
function createOnAndOn(service: Running): { acknowledged: Answer['body'][]; stop: () => Promise<void> } {
  const acknowledged: Answer['body'][] = [];
  let stopped = false;
  const work = async (worker: number) => {
    for (let n = 0; !stopped; n++) {
      const answer = await service
        .call('POST', '/projects', { body: { name: `W${worker} ${n}` } })
        .catch(() => null);
      if (answer?.status === 201) acknowledged.push(answer.body);
      else await new Promise((resolve) => setTimeout(resolve, 20));
    }
  };
  const workers = [work(1), work(2), work(3)];
  return {
    acknowledged,
    stop: async () => {
      stopped = true;
      await Promise.all(workers);
    },
  };
}

/** Every acknowledged project is listed, its key works, and its database takes statements. */
async function checkAll(service: Running, acknowledged: Answer['body'][]): Promise<void> {
  const { body: list } = await service.call('GET', '/projects?limit=1000');
  const listed = new Map(list.projects.map((project: { id: string }) => [project.id, project]));
  for (const { project, api_key: key } of acknowledged) {
    expect(listed.get(project.id)).toMatchObject({ slug: project.slug, status: 'ready' });
    expect((await service.call('GET', `/projects/${project.slug}`, { key })).status).toBe(200);
  }
  // Nothing half-made is visible: whatever is listed works, acknowledged or not.
  for (const { slug } of list.projects) {
    const { body } = await service.call('GET', `/projects/${slug}/connection`);
    const database = openDatabase({ ...body.connection, tls: false }, { max: 1 });
    await database.query(sql`create table proof as select 1 as one`);
    expect(await database.query(sql`select one from proof`)).toEqual([{ one: 1 }]);
    await database.query(sql`drop table proof`);
    await database.end();
  }
}

it('every acknowledged project survives kill -9 of the service, three times', async () => {
  const ROWHOUSE_DATA = await usedDataFolder();
  const env = { ROWHOUSE_DATA, ROWHOUSE_ACCOUNT_KEY: newAccountKey(), ROWHOUSE_SPARES: '2' };
  const acknowledged: Answer['body'][] = [];
  for (let round = 0; round < 3; round++) {
    const service = await launch(env);
    const creating = createOnAndOn(service);
    await until('some are made', async () => creating.acknowledged.length > 3);
    await service.stop('SIGKILL');
    await creating.stop();
    acknowledged.push(...creating.acknowledged);
  }
  const service = await launch(env);
  await checkAll(service, acknowledged);
  const after = await service.call('POST', '/projects', { body: { name: 'After all' } });
  expect(after.status).toBe(201);
  const metrics = (await service.call('GET', '/metrics')).body;
  expect(metrics).toContain('rowhouse_projects_without_database 0');
  expect(metrics).toContain('rowhouse_databases_without_project 0');
});

it('every acknowledged project survives kill -9 of PostgreSQL, three times', async () => {
  const ROWHOUSE_DATA = await usedDataFolder();
  const env = { ROWHOUSE_DATA, ROWHOUSE_ACCOUNT_KEY: newAccountKey(), ROWHOUSE_SPARES: '2' };
  const service = await launch(env);
  const creating = createOnAndOn(service);
  for (let round = 0; round < 3; round++) {
    const before = creating.acknowledged.length;
    await until('some are made', async () => creating.acknowledged.length > before + 2);
    const pid = postmasterPid(ROWHOUSE_DATA);
    if (pid) process.kill(pid, 'SIGKILL');
    await until(
      'it is back',
      async () =>
        (await service.call('GET', '/readyz')).status === 200 && postmasterPid(ROWHOUSE_DATA) !== pid,
    );
  }
  await creating.stop();
  await checkAll(service, creating.acknowledged);
  expect(await service.stop()).toBe(0);
  const again = await launch(env);
  await checkAll(again, creating.acknowledged);
});

it('PostgreSQL restarts after kill -9 although a statement of before never ends', async () => {
  const ROWHOUSE_DATA = await usedDataFolder();
  const service = await launch({
    ROWHOUSE_DATA,
    ROWHOUSE_ACCOUNT_KEY: newAccountKey(),
    ROWHOUSE_SPARES: '1',
  });
  const { body } = await service.call('POST', '/projects', { body: { name: 'Endless' } });
  const run = (query: string) =>
    service.call('POST', `/projects/${body.project.slug}/query`, {
      key: body.api_key,
      body: { query, timeout_ms: 110_000 },
    });
  const endless = run('do $$ begin loop end loop; end $$');
  await until('it runs', async () => {
    const found = await run("select 1 from pg_stat_activity where state = 'active' and query like 'do %'");
    return found.body.row_count === 1;
  });
  process.kill(postmasterPid(ROWHOUSE_DATA) ?? 0, 'SIGKILL');
  await until('it is back', async () => (await run('select 1')).status === 200, 60_000);
  expect((await endless).status).toBe(503);
  expect(await service.stop()).toBe(0);
});

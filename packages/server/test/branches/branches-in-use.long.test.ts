// Branches, resets and promotions while others use what they need: a connection that does not leave the database, and statements that
// change the same rows of PostgreSQL's catalog. The answer is a success, or says that it is for a moment. Never 500.
import pg from 'pg';
import { expect, it, onTestFinished } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { databaseOf, roleOf } from '../../src/servers/databases/names.ts';
import { address, asAdmin, useTestService } from '../support/helpers.ts';

const rowhouse = useTestService();
const ask = (target: string, body?: object) =>
  rowhouse.call('POST', `/projects/${target}`, body ? { body } : {});

it('a replication connection in the database is a conflict, and nothing is left of the attempt', {
  timeout: 180_000,
}, async () => {
  const parent = await rowhouse.project('Replicated');
  const branch = 'replicated-branch';
  expect((await ask(`${parent.slug}/branches`, { name: 'Branch', slug: branch })).status).toBe(201);
  const { host, port, user, password } = address();
  const config = { host, port, user, password, database: databaseOf(parent.id), replication: 'database' };
  const walsender = new pg.Client(config as pg.ClientConfig);
  walsender.on('error', () => {});
  await walsender.connect();
  onTestFinished(() => walsender.end().catch(() => {}));
  for (const target of [`${parent.slug}/branches`, `${branch}/promote`]) {
    const body = target.endsWith('branches') ? { name: 'Another' } : undefined;
    const answer = await ask(target, body);
    expect([target, answer.status, answer.body.error?.code]).toEqual([target, 409, 'conflict']);
    expect(answer.body.error).toMatchObject({ details: { retryable: true } });
    expect(answer.body.error.message).toContain('connected to the database');
  }
  const { body } = await rowhouse.call('POST', `/projects/${parent.slug}/query`, {
    body: { query: 'select 1 as one' },
  });
  expect(body.rows).toEqual([{ one: 1 }]);
  await walsender.end();
  expect((await ask(`${parent.slug}/branches`, { name: 'Another' })).status).toBe(201);
  expect((await ask(`${branch}/promote`)).status).toBe(200);
});

it('statements that change the same roles and databases at the same moment cost no request', {
  timeout: 180_000,
}, async () => {
  const parent = await rowhouse.project('Contended');
  const stopped = new AbortController();
  onTestFinished(() => stopped.abort());
  const change = async (statement: () => ReturnType<typeof sql>) => {
    while (!stopped.signal.aborted) await asAdmin((admin) => admin.query(statement())).catch(() => {});
  };
  const changing = [
    change(() => sql`alter role ${sql.id(roleOf(parent.id))} connection limit -1`),
    change(() => sql`alter database ${sql.id(databaseOf(parent.id))} connection limit -1`),
  ];
  const statuses: number[] = [];
  for (let round = 0; round < 4; round++) {
    const slug = `contended-${round}`;
    const answers = [await ask(`${parent.slug}/branches`, { name: 'Branch', slug })];
    answers.push(await ask(`${slug}/reset`), await ask(`${slug}/promote`));
    for (const { status, body } of answers) {
      statuses.push(status);
      expect([200, 201, 409, 503], JSON.stringify(body)).toContain(status);
    }
  }
  stopped.abort();
  await Promise.all(changing);
  expect(statuses.filter((status) => status < 300).length).toBeGreaterThan(6);
});

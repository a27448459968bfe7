// The first request of a project that nobody used for a while opens a connection. It waits for PostgreSQL as often as a program
// that opens one and runs a statement, and no more often: these waits are most of its time.
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { address, asAdmin, useTestService } from '../support/helpers.ts';
import { openRelay } from '../support/relay.ts';

/** What is known about a project's statements expires after ten seconds. */
const forgottenMs = 11_000;

type Connection = { database: string; waits: number; isWaiting: boolean };
const connections = new Map<number, Connection>();
const relay = await openRelay(address(), (number, from, bytes) => {
  const known = connections.get(number);
  // The names and values of a startup packet.
  const database = /\0database\0([^\0]+)/.exec(bytes.toString('latin1'))?.[1] ?? '';
  const connection = known ?? { database, waits: 0, isWaiting: false };
  connections.set(number, connection);
  if (from === 'client' && !connection.isWaiting) connection.waits++;
  connection.isWaiting = from === 'client';
});
const { socket: _, ...network } = address();
const through = { ...network, port: relay.port };
const rowhouse = useTestService({ at: through, spares: 4, background: false });

const read = { query: 'select * from notes where id = $1', params: [1] };
const write = { query: 'insert into notes (text) values ($1)', params: ['x'] };
const requests = [
  ['a statement', 'POST', '/query', read],
  ['a page of a table', 'GET', '/tables/notes?limit=50', undefined],
  ['an insert by SQL', 'POST', '/query', write],
  ['an insert into a table', 'POST', '/tables/notes', { text: 'x' }],
] as const;
const projects: { slug: string; id: string; key: string }[] = [];

async function ask(n: number, method: string, target: string, body?: unknown) {
  const { slug, key } = projects[n] ?? { slug: '', key: '' };
  const path = `/projects/${slug}${target}`;
  const answer = await rowhouse.call(method, path, { key, ...(body !== undefined && { body }) });
  expect(answer.body).toMatchObject({ ok: true });
}

beforeAll(async () => {
  for (const [n, [, method, target, body]] of requests.entries()) {
    projects.push(await rowhouse.project(`Sleepy ${n}`));
    await ask(n, 'POST', '/query', { query: 'create table notes (id serial primary key, text text)' });
    await ask(n, method, target, body);
  }
  const databases = projects.map(({ id }) => `p_${id}`);
  await asAdmin((admin) =>
    admin.query(sql`
      select pg_terminate_backend(pid) from pg_stat_activity where datname = any (${databases}::name[])`),
  );
  await sleep(forgottenMs);
  connections.clear();
}, 60_000);
afterAll(() => relay.stop());

const waitsIn = (database: string) =>
  [...connections.values()].filter((one) => one.database === database).map(({ waits }) => waits);

/** The start, two messages of SCRAM, and the statement. */
const waitsOfProgram = 4;

it('a program that opens a connection and runs a statement waits four times', async () => {
  const client = new pg.Client(through);
  await client.connect();
  await client.query('select $1::int', [1]);
  expect(waitsIn(through.database)).toEqual([waitsOfProgram]);
  await client.end();
});

it.each(requests.map(([what, ...request], n) => ({ what, n, request })))(
  '$what that wakes a project waits no more often',
  async ({ n, request: [method, target, body] }) => {
    await ask(n, method, target, body);
    expect(waitsIn(`p_${projects[n]?.id}`)).toEqual([waitsOfProgram]);
  },
);

// What tests of the NOTIFY queue share: statements, direct connections that end with each test, and how full the queue is.
import pg from 'pg';
import { afterEach } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { type TestService, until } from '../support/helpers.ts';

export type Project = { slug: string; id: string; key: string };
export type Client = pg.Client & { isOver?: boolean };

/** `service` is called when a test runs: some start theirs later. `shortBelow`: the usage below which the queue counts as empty. */
export function useNotifyQueue(service: () => TestService, shortBelow: number) {
  const open: pg.Client[] = [];

  const run = ({ slug, key }: Project, query: string) =>
    service().call('POST', `/projects/${slug}/query`, { key, body: { query, timeout_ms: 60_000 } });

  const connect = async ({ slug }: Project): Promise<Client> => {
    const { body } = await service().call('GET', `/projects/${slug}/connection`);
    const client: Client = new pg.Client({ connectionString: body.connection.url });
    client.on('error', () => {});
    client.on('end', () => {
      client.isOver = true;
    });
    await client.connect();
    open.push(client);
    return client;
  };

  const usage = async (): Promise<number> => {
    const { maintenance } = service().service.deps.server;
    const [row] = await maintenance.query<{ usage: number }>(
      sql`select pg_notification_queue_usage() as usage`,
    );
    return row?.usage ?? 0;
  };

  const untilShort = () => until('the queue is short', async () => (await usage()) < shortBelow, 20_000);

  afterEach(async () => {
    await Promise.all(open.splice(0).map((client) => client.end().catch(() => {})));
    await untilShort();
  });

  return { run, connect, usage, untilShort };
}

/** A statement that fills the queue with `megabytes` in one transaction. */
export const flood = (megabytes: number) =>
  `do $$ begin for i in 1..${megabytes * 128} loop perform pg_notify('c', repeat('x', 7900) || i); end loop; end $$`;

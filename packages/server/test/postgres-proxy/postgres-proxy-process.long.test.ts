// The PostgreSQL proxy in real processes: several of them share the port.
import { existsSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import pg from 'pg';
import { expect, it } from 'vitest';
import { until } from '../support/helpers.ts';
import { freePort, launch, newAccountKey, usedDataFolder } from '../support/process.ts';
import { cancelRequest, exchange } from '../support/proxy-clients.ts';

it("two workers share the port, cancel each other's statements and add up their metrics; the certificate stays", async () => {
  const folder = await usedDataFolder();
  const port = await freePort();
  const settings = {
    ROWHOUSE_DATA: folder,
    ROWHOUSE_ACCOUNT_KEY: newAccountKey(),
    ROWHOUSE_WORKERS: '2',
    ROWHOUSE_POSTGRES_PORT: String(port),
    ROWHOUSE_PUBLIC_HOST: 'localhost',
  };
  const service = await launch(settings);
  expect(service.output()).toContain(`PostgreSQL   localhost:${port}`);
  const { body: created } = await service.call('POST', '/projects', { body: { name: 'Proxied' } });
  const { body } = await service.call('GET', `/projects/${created.project.slug}/connection`);
  expect(body.connection).toMatchObject({ host: 'localhost', port });
  const { url } = body.connection;
  const key = path.join(folder, 'postgres-tls', 'key.pem');
  const firstKey = readFileSync(key, 'utf8');
  expect(statSync(key).mode & 0o777).toBe(0o600);

  const clients = await Promise.all(Array.from({ length: 4 }, () => connect(url)));
  for (const client of clients) {
    const { processID, secretKey } = client as unknown as { processID: number; secretKey: number };
    const secret = Buffer.alloc(4);
    secret.writeInt32BE(secretKey);
    const outcome = client.query('select pg_sleep(60)').catch(({ code }) => code);
    // The processes take turns, so that one of two requests in a row reaches the other process. Repeated, because a
    // request that arrives before the statement has no effect.
    let isOver = false;
    void outcome.finally(() => {
      isOver = true;
    });
    await until('it is cancelled', async () => {
      await exchange(port, cancelRequest(processID, secret));
      return isOver;
    });
    expect(await outcome).toBe('57014');
  }
  const metrics = (await service.call('GET', '/metrics')).body as string;
  expect(metrics).toContain('rowhouse_postgres_proxy_connections 4');
  expect(metrics).toContain('rowhouse_postgres_proxy_connections_total{result="accepted"} 4');
  expect(metrics).toMatch(/rowhouse_postgres_proxy_bytes_total\{direction="received"\} [1-9]/);

  const ends = clients.map((client) => new Promise((resolve) => client.once('error', resolve)));
  expect(await service.stop()).toBe(0);
  expect(await Promise.all(ends)).toMatchObject(clients.map(() => ({ code: '57P01' })));

  const again = await launch(settings);
  expect(readFileSync(key, 'utf8')).toBe(firstKey);
  expect(existsSync(`${path.dirname(key)}.new`)).toBe(false);
  const client = await connect(url);
  expect((await client.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
  await client.end();
  expect(await again.stop()).toBe(0);
});

async function connect(url: string): Promise<pg.Client> {
  const client = new pg.Client(url);
  client.on('error', () => {});
  await client.connect();
  return client;
}

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeAll, expect, it } from 'vitest';
import { launch, newAccountKey, type Running, usedDataFolder } from '../../server/test/support/process.ts';

const bin = fileURLToPath(new URL('../bin/rowhouse.mjs', import.meta.url));
const key = newAccountKey();
let service: Running;

beforeAll(async () => {
  service = await launch({ ROWHOUSE_DATA: await usedDataFolder(), ROWHOUSE_ACCOUNT_KEY: key });
});

/** This process serves the proxy meanwhile. */
async function run(args: string[], env: Record<string, string> = {}, input = '') {
  const child = spawn(process.execPath, [bin, ...args], {
    env: { ...process.env, NO_COLOR: '1', ROWHOUSE_URL: service.url, ROWHOUSE_API_KEY: key, ...env },
  });
  let [out, err] = ['', ''];
  child.stdout.on('data', (data) => {
    out += data;
  });
  child.stderr.on('data', (data) => {
    err += data;
  });
  child.stdin.end(input);
  const [status] = await once(child, 'close');
  return { status, out, err };
}

/** Breaks connections to the service after so many bytes, so many times. */
async function openCuttingProxy(port: number) {
  let [left, cuts, bytes, limit] = [0, 0, 0, 0];
  const proxy = createServer((client) => {
    const server = connect(port, '127.0.0.1');
    let sent = 0;
    for (const socket of [client, server]) {
      socket.on('error', () => {});
      socket.on('close', () => [client, server].map((one) => one.destroy()));
    }
    client.on('data', (data) => {
      sent += data.length;
      bytes += data.length;
      if (left === 0 || sent < limit) return;
      left--;
      cuts++;
      client.resetAndDestroy();
      server.destroy();
    });
    client.pipe(server).pipe(client);
  }).listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  return {
    url: `http://127.0.0.1:${(proxy.address() as { port: number }).port}`,
    cutAfter: (most: number, times: number) => {
      [limit, left] = [most, times];
    },
    cuts: () => cuts,
    bytes: () => bytes,
    close: () => new Promise((resolve) => proxy.close(resolve)),
  };
}

it('projects import goes on after connections that break, and continues an upload', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-import-'));
  const proxy = await openCuttingProxy(Number(new URL(service.url).port));
  try {
    const file = path.join(folder, 'many.sql');
    const rows = `${'x'.repeat(99)}\n`.repeat(200_000);
    writeFileSync(file, `create table many (a text);\ncopy many from stdin;\n${rows}\\.\n`);
    const args = ['projects', 'import', file, '--name', 'Many'];
    proxy.cutAfter(5_000_000, 3);
    const { status, out, err } = await run(args, { ROWHOUSE_URL: proxy.url });
    expect([status, out.includes('Imported 1 table, 200000 rows')]).toEqual([0, true]);
    expect(err).toMatch(/sent \d+ %\n[\s\S]*Trying again in 1 s/);
    expect(proxy.cuts()).toBe(3);
    // The client did not send the bytes from before the cuts again.
    expect(proxy.bytes()).toBeLessThan(30_000_000);

    // A command that fails says how to go on.
    const taken = await run([...args, '--slug', 'many']);
    expect([taken.status, taken.err]).toEqual([1, expect.stringContaining('to continue')]);
    const upload = /--upload (\S+)/.exec(taken.err)?.[1] ?? '';
    const continued = await run([...args, '--upload', upload, '--slug', 'many-more']);
    expect([continued.status, continued.out.includes('Imported 1 table, 200000 rows')]).toEqual([0, true]);
    const piped = await run(['projects', 'import', '-', '--name', 'Piped'], {}, 'create table t ();\n');
    expect([piped.status, piped.out.includes('Imported 1 table')]).toEqual([0, true]);
    const { uploads } = (await service.call('GET', '/api/dbaas/v2/uploads')).body;
    expect(uploads).toEqual([]);
  } finally {
    await proxy.close();
    rmSync(folder, { recursive: true });
  }
});

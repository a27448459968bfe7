// What tests of `rowhouse restore` share: the command, and a service that it starts.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { onTestFinished } from 'vitest';

export const bin = path.resolve(import.meta.dirname, '../bin/rowhouse.mjs');
export const bare = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => !name.startsWith('ROWHOUSE_')),
);

export function newFolder(): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-restore-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 }));
  return folder;
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  return typeof address === 'object' && address ? address.port : 0;
}

export async function start(data: string, repository: string, more: Record<string, string> = {}) {
  const port = await freePort();
  const args = ['start', '--data', data, '--port', String(port), '--spares', '0'];
  const env = { ...bare, ROWHOUSE_BACKUP_URL: `file:${repository}`, ...more };
  const child = spawn(process.execPath, [bin, ...args], { env, stdio: ['ignore', 'pipe', 'inherit'] });
  let output = '';
  child.stdout.on('data', (piece) => {
    output += piece;
  });
  while (!/^ready$/m.test(output)) {
    if (child.exitCode !== null) throw new Error(output);
    await sleep(100);
  }
  const stop = async () => {
    if (child.exitCode !== null) return;
    child.kill('SIGTERM');
    await once(child, 'exit');
  };
  onTestFinished(stop);
  return { url: `http://127.0.0.1:${port}/api/dbaas/v2`, key: /rh_acct_\w+/.exec(output)?.[0] ?? '', stop };
}

export const rowhouse = (args: string[], env: Record<string, string> = {}) => {
  const { status, stdout, stderr } = spawnSync(process.execPath, [bin, ...args], {
    encoding: 'utf8',
    env: { ...bare, ...env },
    // A service that starts although it should not would never end.
    timeout: 240_000,
  });
  return { status, stdout, stderr };
};

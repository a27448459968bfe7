// Whoever waits for /readyz finds the account key printed: a script that reads it then must not come too early.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it, onTestFinished } from 'vitest';
import { freePort, newDataFolder } from '../support/process.ts';

const main = fileURLToPath(new URL('../../dist/main.js', import.meta.url));

for (const workers of ['1', '2'])
  it(`with ${workers} workers the account key is printed before the service is ready`, async () => {
    const dataFolder = newDataFolder();
    const file = path.join(dataFolder, 'output');
    const port = String(await freePort());
    const output = openSync(file, 'w');
    const env = {
      ...process.env,
      ROWHOUSE_DATA: dataFolder,
      ROWHOUSE_PORT: port,
      ROWHOUSE_WORKERS: workers,
      ROWHOUSE_BACKUP_URL: 'off',
    };
    const child = spawn(process.execPath, [main], { env, stdio: ['ignore', output, output] });
    closeSync(output);
    const exited = once(child, 'exit');
    onTestFinished(async () => {
      child.kill('SIGTERM');
      await exited;
    });
    const statuses = new Set<number>();
    let printed = '';
    while (!statuses.has(200)) {
      const status = await fetch(`http://127.0.0.1:${port}/readyz`).then(
        (response) => response.status,
        () => 0,
      );
      printed = readFileSync(file, 'utf8');
      statuses.add(status);
      await new Promise((resolve) => setTimeout(resolve, 2));
      expect(child.exitCode, printed).toBeNull();
    }
    expect(printed).toMatch(/master key {3}.*master\.key\n.*\n {2}account key {2}rh_acct_\w+/);
    // And once it is said to be ready, it is, in every process.
    while (!/^ready$/m.test(readFileSync(file, 'utf8')))
      await new Promise((resolve) => setTimeout(resolve, 5));
    for (let n = 0; n < 10; n++)
      expect(
        (await fetch(`http://127.0.0.1:${port}/readyz`, { headers: { connection: 'close' } })).status,
      ).toBe(200);
  });

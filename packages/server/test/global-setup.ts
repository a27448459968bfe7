// One PostgreSQL for all tests: embedded, or the one whose address is given (npm run test:external).
import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { TestProject } from 'vitest/node';
import type { Address } from '../src/postgres/admin/database.ts';
import { startEmbedded } from '../src/servers/embedded/embedded.ts';
import { parseDatabaseUrl } from '../src/servers/external.ts';

declare module 'vitest' {
  interface ProvidedContext {
    address: Address;
    /** For what test files share. */
    sharedFolder: string;
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-test-'));
  const sharedFolder = path.join(folder, 'shared');
  mkdirSync(sharedFolder);
  project.provide('sharedFolder', sharedFolder);
  const remove = () => rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  const given = process.env.ROWHOUSE_TEST_DATABASE_URL;
  if (given) {
    project.provide('address', parseDatabaseUrl(given));
    process.once('exit', remove);
    return async () => {};
  }
  const engine = await startEmbedded({
    connections: 100,
    dataFolder: folder,
    masterKey: randomBytes(32),
    // Each DROP DATABASE forces a checkpoint. Without waiting for the disk it takes 25 ms instead of 140, and no other
    // file waits for it. Tests that kill PostgreSQL start one of their own, which does wait for the disk.
    more: { fsync: 'off' },
    say: () => {},
    onEvent: (event, details) => console.error(event, details),
  });
  // Ctrl-C ends vitest without a teardown: an immediate shutdown, so that neither PostgreSQL nor its files are left.
  const endNow = () => {
    const pidFile = path.join(folder, 'postgres', 'postmaster.pid');
    process.kill(Number.parseInt(readFileSync(pidFile, 'utf8'), 10), 'SIGQUIT');
    remove();
  };
  process.once('exit', endNow);
  project.provide('address', engine.address);
  return async () => {
    process.off('exit', endNow);
    await engine.stop();
    remove();
  };
}

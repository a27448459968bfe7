// A PostgreSQL and a service of one test file's own, for tests that stop processes of PostgreSQL (SIGSTOP): on the common one,
// other files would wait.
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll } from 'vitest';
import { clusterFolderOf, type Embedded, startEmbedded } from '../../src/servers/embedded/embedded.ts';
import { openTestService, removeTestService, type TestService, type TestServiceOptions } from './helpers.ts';

export type OwnPostgres = { engine: Embedded; rowhouse: TestService; folder: string };

/** `restartAfterMs`: when PostgreSQL is restarted because of a statement that nothing ends. `more`: settings of PostgreSQL. */
export function useOwnPostgres({
  restartAfterMs = 0,
  more = {},
  ...options
}: TestServiceOptions & { restartAfterMs?: number; more?: Record<string, string> } = {}): OwnPostgres {
  const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-own-'));
  const own = { folder } as OwnPostgres;
  const masterKey = randomBytes(32);
  beforeAll(async () => {
    own.engine = await startEmbedded({
      dataFolder: folder,
      masterKey,
      connections: 60,
      more: { fsync: 'off', ...more },
      say: () => {},
      onEvent: () => {},
    });
    const embedded = { folder: clusterFolderOf(folder), restartAfterMs };
    own.rowhouse = await openTestService({ ...options, masterKey, embedded, at: own.engine.address });
  });
  afterAll(async () => {
    const { engine, rowhouse } = own;
    await rowhouse?.stop();
    if (rowhouse)
      await removeTestService(
        rowhouse.controlDatabase,
        rowhouse.service.deps.server.installation,
        engine.address,
      );
    await engine?.stop();
    rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  });
  return own;
}

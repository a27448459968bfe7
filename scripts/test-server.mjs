// Starts a separate PostgreSQL for `npm run test:external`, in a new folder that is removed afterwards.
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

export async function startExternal() {
  const { startEmbedded } = await import('../packages/server/dist/servers/embedded/embedded.js');
  const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-external-'));
  const engine = await startEmbedded({
    connections: 100,
    dataFolder: folder,
    masterKey: randomBytes(32),
    // As in packages/server/test/global-setup.ts: checkpoints do not wait for the disk.
    more: { fsync: 'off' },
    say: () => {},
    onEvent: (event, details) => console.error(event, details),
  });
  const { host, port, user, password, database } = engine.address;
  return {
    url: `postgres://${user}:${encodeURIComponent(password)}@${host}:${port}/${database}`,
    stop: async () => {
      await engine.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

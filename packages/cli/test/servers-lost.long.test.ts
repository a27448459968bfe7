// rowhouse servers remove --lost: gives up a server that will never answer again, after its name was typed on a terminal.
import { spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startEmbedded } from '../../server/src/servers/embedded/embedded.ts';
import { until } from '../../server/test/support/helpers.ts';
import { bin } from './installation.ts';
import { useService } from './live.ts';

const live = useService();
const folders: string[] = [];
afterAll(() => {
  for (const folder of folders)
    rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
});

/** Adds a server with a project and a deleted one. It never answers again. */
async function loseServer(name: string): Promise<void> {
  const dataFolder = mkdtempSync(path.join(tmpdir(), 'rowhouse-lost-'));
  folders.push(dataFolder);
  const server = await startEmbedded({
    dataFolder,
    masterKey: randomBytes(32),
    connections: 40,
    reserveBytes: 0,
    say: () => {},
    onEvent: () => {},
  });
  try {
    const { user, password, port } = server.address;
    const url = `postgres://${user}:${encodeURIComponent(password)}@127.0.0.1:${port}/postgres`;
    const added = live.run(['servers', 'add', name], { env: { ROWHOUSE_SERVER_URL: url } });
    expect(added.status, added.err).toBe(0);
    for (const slug of [`kept-${name}`, `deleted-${name}`])
      live.json('projects', 'create', slug, '--slug', slug, '--server', name);
    expect(live.run(['projects', 'delete', `deleted-${name}`, '--yes']).status).toBe(0);
  } finally {
    await server.stop();
  }
  await until('it is known to be away', async () => stateOf(name) === 'unavailable');
}

function stateOf(name: string): string | undefined {
  const { servers } = live.json('servers', 'list') as { servers: { name: string; state: string }[] };
  return servers.find((one) => one.name === name)?.state;
}

const isKept = (name: string) => live.run(['projects', 'show', `kept-${name}`]).status === 0;

/** On a terminal of its own, on which `typed` is typed when the question is there. */
async function onTerminal(args: string[], typed: string): Promise<{ status: number | null; screen: string }> {
  const command = [process.execPath, bin, ...args].map((word) => `'${word}'`).join(' ');
  // Wide enough for the question: a terminal of no size breaks it after each letter.
  const child = spawn('script', ['-qec', `stty cols 400; ${command}`, '/dev/null'], {
    env: live.env(),
    stdio: 'pipe',
  });
  let screen = '';
  child.stdout.on('data', (data) => {
    screen += data;
  });
  const ended = new Promise<number | null>((resolve) => child.once('exit', resolve));
  await until(`the question is there: ${args.join(' ')}`, async () => screen.includes('to confirm')).catch(
    (error: unknown) => {
      throw new Error(`The screen shows: ${screen}`, { cause: error });
    },
  );
  // The prompt ignores keys that are pressed before it is shown.
  await sleep(500);
  child.stdin.write(`${typed}\r`);
  return { status: await ended, screen };
}

const hasTerminal = spawnSync('script', ['--version']).status === 0;
if (!hasTerminal) console.warn('SKIPPED: script is not installed, so typing on a terminal is not tested.');

beforeAll(() => loseServer('db2'), 120_000);

it('without a terminal, it needs --yes, which names what is given up', { timeout: 120_000 }, async () => {
  for (const more of [[], ['--json']]) {
    const refused = live.run(['servers', 'remove', 'db2', '--lost', ...more]);
    expect([refused.status, refused.out + refused.err]).toEqual([1, expect.stringContaining('--yes')]);
  }
  expect([stateOf('db2'), isKept('db2')]).toEqual(['unavailable', true]);
  const embedded = live.run(['servers', 'remove', 'embedded', '--lost', '--yes']);
  expect([embedded.status, embedded.err]).toEqual([1, expect.stringContaining('not lost')]);

  await loseServer('db3');
  const removed = live.run(['servers', 'remove', 'db3', '--lost', '--yes']);
  expect([removed.status, removed.out]).toEqual([0, 'The server "db3" is removed.\n']);
  expect(removed.err).toContain('Given up: 1 project and 1 deleted project.');
  expect(removed.err).toMatch(/select pg_drop_replication_slot\('rowhouse_backup_[0-9a-z]{8}'\);/);
  expect([stateOf('db3'), isKept('db3'), isKept('db2')]).toEqual([undefined, false, true]);
});

it.skipIf(!hasTerminal)('on a terminal, the name has to be typed', { timeout: 120_000 }, async () => {
  const args = ['servers', 'remove', 'db2', '--lost'];
  const other = await onTerminal(args, 'db3');
  expect([other.status, other.screen]).toEqual([1, expect.stringContaining('Nothing was given up.')]);
  expect(other.screen.replace(/\s+/g, ' ')).toContain('has 1 project.');
  expect(isKept('db2')).toBe(true);
  const same = await onTerminal(args, 'db2');
  expect([same.status, same.screen]).toEqual([0, expect.stringContaining('Given up: 1 project')]);
  expect([stateOf('db2'), isKept('db2')]).toEqual([undefined, false]);
});

// The service as a real process, for tests of starting, dying and stopping.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, inject, onTestFinished } from 'vitest';
import { makeKey } from '../../src/keys/form.ts';
import { rememberPort } from '../../src/servers/embedded/data-folder.ts';
import { type Answer, api, type Call, until } from './helpers.ts';

const main = fileURLToPath(new URL('../../dist/main.js', import.meta.url));

export type Running = {
  child: ChildProcess;
  url: string;
  output(): string;
  exited: Promise<{ code: number | null; signal: string | null }>;
  call(method: string, path: string, options?: Call): Promise<Answer>;
  stop(signal?: NodeJS.Signals): Promise<number | null>;
};

/** A data folder that is gone after the test, with whatever still runs on it. */
export function newDataFolder(parent = tmpdir()): string {
  const folder = mkdtempSync(path.join(parent, 'rowhouse-process-'));
  whenDone(() => {
    // An immediate shutdown, not SIGKILL: that would leave shared memory behind.
    const pid = postmasterPid(folder);
    if (pid) tryKill(pid, 'SIGQUIT');
    rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  });
  return folder;
}

/** A data folder in which a service has run before: a copy of one that was made once for all test files. */
export async function usedDataFolder(): Promise<string> {
  const seed = path.join(inject('sharedFolder'), 'seed');
  if (!existsSync(seed)) await makeSeed(seed);
  const folder = newDataFolder();
  execFileSync('cp', ['-a', `${seed}/.`, folder]);
  // Or all that run at the same time would want that of the seed.
  rememberPort(folder, await freePort());
  return folder;
}

let atEnd: (() => void | Promise<void>)[] = [];
afterAll(cleanUp);

/** Ordinary test files share this module: one whose beforeAll makes processes or folders has to call this itself. */
export async function cleanUp(): Promise<void> {
  const made = atEnd.reverse();
  atEnd = [];
  for (const clean of made) await clean();
}

/** After the test; for what a beforeAll made, after all tests of the file. */
function whenDone(clean: () => void | Promise<void>): void {
  try {
    onTestFinished(clean);
  } catch {
    // Not inside of a test.
    atEnd.push(clean);
  }
}

async function makeSeed(seed: string): Promise<void> {
  const folder = mkdtempSync(path.join(inject('sharedFolder'), 'making-seed-'));
  try {
    const service = await launch({ ROWHOUSE_DATA: folder, ROWHOUSE_ACCOUNT_KEY: newAccountKey() });
    if ((await service.stop()) !== 0) throw new Error(service.output());
    renameSync(folder, seed);
  } catch (error) {
    // Another test file was faster. The global setup removes the shared folder, and this one with it.
    if (!existsSync(seed)) throw error;
  }
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  server.close();
  return port;
}

/**
 * Starts the service and waits for `ready`, or for its end. `isRead` false: the reader of its output ends at once. `program`:
 * that of another version.
 */
export async function launch(
  env: Record<string, string>,
  { isRead = true, program = main } = {},
): Promise<Running> {
  const clean = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !name.startsWith('ROWHOUSE_')),
  );
  const port = env.ROWHOUSE_PORT ?? String(await freePort());
  const key = env.ROWHOUSE_ACCOUNT_KEY ?? '';
  const child = spawn(process.execPath, [program], {
    env: { ...clean, ROWHOUSE_SPARES: '1', ROWHOUSE_BACKUP_URL: 'off', ...env, ROWHOUSE_PORT: port },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  const exited = once(child, 'exit').then(([code, signal]) => ({ code, signal }));
  const url = `http://127.0.0.1:${port}`;
  const saysReady = () =>
    new Promise<void>((resolve) => {
      const read = (data: Buffer) => {
        output += data;
        if (/^ready$/m.test(output)) resolve();
      };
      child.stdout.on('data', read);
      child.stderr.on('data', read);
    });
  const answersReady = async () => {
    child.stdout.destroy();
    child.stderr.destroy();
    await until('it is ready', async () => (await fetch(`${url}/readyz`).catch(() => null))?.ok, 60_000);
  };
  const ready = isRead ? saysReady() : answersReady();
  whenDone(async () => {
    child.kill('SIGKILL');
    await exited;
  });
  await Promise.race([ready, exited]);
  return {
    child,
    url,
    output: () => output,
    exited,
    call: async (method, target, { key: other = key, body } = {}) => {
      const response = await fetch(url + (target.startsWith('/projects') ? api : '') + target, {
        method,
        headers: {
          // While a test waits in spawnSync, it does not learn that the service closes an idle connection.
          connection: 'close',
          ...(other && { 'x-api-key': other }),
          ...(body !== undefined && { 'content-type': 'application/json' }),
        },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      });
      const text = await response.text();
      const isJson = response.headers.get('content-type')?.includes('json');
      return {
        status: response.status,
        body: isJson ? JSON.parse(text) : text,
        headers: Object.fromEntries(response.headers),
      };
    },
    stop: async (signal = 'SIGTERM') => {
      child.kill(signal);
      return (await exited).code;
    },
  };
}

export const newAccountKey = () => makeKey('rh_acct_');

export function postmasterPid(dataFolder: string): number | null {
  const file = path.join(dataFolder, 'postgres', 'postmaster.pid');
  return existsSync(file) ? Number(readFileSync(file, 'utf8').split('\n')[0]) : null;
}

export function isRunning(pid: number): boolean {
  return tryKill(pid, 0);
}

/** The API processes, if there are several. */
export function workersOf({ child }: Pick<Running, 'child'>): number[] {
  const args = ['--ppid', String(child.pid), '-o', 'pid=,comm='];
  const lines = execFileSync('ps', args, { encoding: 'utf8' }).split('\n');
  return lines.filter((line) => line.includes('node')).map((line) => Number.parseInt(line, 10));
}

/** The processes that hash passwords for this one. */
export function hashProcessesOf(pid: number): number[] {
  return hashProcesses()
    .filter(({ parent }) => parent === pid)
    .map((found) => found.pid);
}

/** One that is dead and only not yet taken note of by the system has no command line any more. */
export function hashProcesses(): { pid: number; parent: number }[] {
  const lines = execFileSync('ps', ['-A', '-o', 'pid=,ppid=,args='], { encoding: 'utf8' }).split('\n');
  return lines
    .filter((line) => line.includes('hash-process'))
    .map((line) => line.trim().split(/\s+/).map(Number))
    .map(([pid = 0, parent = 0]) => ({ pid, parent }));
}

function tryKill(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(pid, signal);
  } catch {
    return false;
  }
}

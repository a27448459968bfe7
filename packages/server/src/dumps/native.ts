// A pg_dump that is installed on this machine: faster than WebAssembly, and the only one for servers newer than that.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import type { Address } from '../postgres/database.ts';
import { DumpError, type DumpRun } from './pg-dump.ts';

const program = 'pg_dump';
const versionMs = 2_000;
const maxSaid = 16 * 1024;

/** The environment of an installed program: PATH and what else it needs to start. */
export type ProgramEnvironment = Readonly<Record<string, string>>;

/** The major version of the pg_dump on PATH; null: there is none that answers. */
export function findNativeMajor(environment: ProgramEnvironment): Promise<number | null> {
  return new Promise((resolve) => {
    const options = { timeout: versionMs, env: withLocale(environment) };
    execFile(program, ['--version'], options, (error, output) => {
      const [, major] = /^pg_dump \(PostgreSQL\) (\d+)/.exec(output) ?? [];
      resolve(error || !major ? null : Number(major));
    });
  });
}

/** The dump as it comes. Ends its process however it ends. */
export async function* dumpByProgram(
  { address, args, env, signal }: DumpRun,
  environment: ProgramEnvironment,
): AsyncGenerator<Uint8Array> {
  const [file, ...limited] = withinMemory([program, ...args, ...placeArguments(address)]);
  const child = spawn(file, limited, {
    env: { ...withLocale(environment), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    windowsHide: true,
  });
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    if (said.length < maxSaid) said += text;
  });
  const ended = once(child, 'close');
  // Told by the loop below; without a listener it would end the process.
  ended.catch(() => {});
  const stop = () => child.stdout.destroy(signal.reason);
  signal.addEventListener('abort', stop, { once: true });
  if (signal.aborted) stop();
  try {
    for await (const piece of child.stdout) yield piece;
    const [code] = await ended;
    if (code !== 0) throw new DumpError(said);
  } finally {
    signal.removeEventListener('abort', stop);
    child.kill('SIGKILL');
  }
}

/** As for the WebAssembly (wasm-module.ts). Addresses count, so this is more. Where a shell cannot set it, there is no limit. */
const maxMemoryKb = 2 * 1024 * 1024;

/** The shell becomes the program, so that ending it ends the program. */
function withinMemory(command: readonly string[]): [string, ...string[]] {
  if (process.platform === 'win32') return command as [string, ...string[]];
  return ['/bin/sh', '-c', `ulimit -v ${maxMemoryKb} 2> /dev/null; exec "$@"`, 'sh', ...command];
}

/** libpq finds a Unix socket by its folder and port. */
function placeArguments({ host, port, socket }: Address): string[] {
  if (!socket) return [`--host=${host}`, `--port=${port}`];
  const [, number = ''] = /\.(\d+)$/.exec(socket) ?? [];
  return [`--host=${path.dirname(socket)}`, `--port=${number}`];
}

/** Its messages are read. */
function withLocale(environment: ProgramEnvironment): Record<string, string> {
  return { ...environment, LC_ALL: 'C' };
}

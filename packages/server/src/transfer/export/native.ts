// A pg_dump that is installed on this machine: faster than WebAssembly, and the only one for servers newer than that.

import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import type { Address } from '../../postgres/admin/database.ts';
import { maxDumpMemoryMb } from '../../settings/limits/exports.ts';
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
  { address, args, env, signal, maxMemoryMb = maxDumpMemoryMb }: DumpRun,
  environment: ProgramEnvironment,
): AsyncGenerator<Uint8Array> {
  const child = spawn(program, [...args, ...placeArguments(address)], {
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
  const stopWatching = watchMemory(child, maxMemoryMb, () => {
    said = 'out of memory';
  });
  const stop = () => child.stdout.destroy(signal.reason);
  signal.addEventListener('abort', stop, { once: true });
  if (signal.aborted) stop();
  try {
    for await (const piece of child.stdout) yield piece;
    const [code] = await ended;
    if (code !== 0) throw new DumpError(said);
  } finally {
    signal.removeEventListener('abort', stop);
    stopWatching();
    child.kill('SIGKILL');
  }
}

const lookMs = 50;
const pageBytes = 4_096;

/**
 * Ends the program when it has more memory than this. Not by a limit of the system (ulimit -v), with which malloc returns NULL:
 * pg_dump does not notice that everywhere, so it left out definitions of 100 MB and reported success. Where there is no /proc,
 * there is no limit.
 */
function watchMemory(child: ChildProcess, maxMemoryMb: number, onEnd: () => void): () => void {
  const maxPages = (maxMemoryMb * 1024 * 1024) / pageBytes;
  const look = async () => {
    const [, resident = ''] = (await readFile(`/proc/${child.pid}/statm`, 'latin1')).split(' ');
    if (Number(resident) < maxPages) return;
    onEnd();
    child.kill('SIGKILL');
  };
  const timer = setInterval(() => void look().catch(() => {}), lookMs);
  return () => clearInterval(timer);
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

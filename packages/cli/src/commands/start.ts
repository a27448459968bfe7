// rowhouse start: runs the service as a child process in the foreground, forwards signals, and exits with its status.
import { type ChildProcess, spawn } from 'node:child_process';
import { constants } from 'node:os';
import type { Command } from 'commander';
import { failure } from '../failure.ts';
import { findProgram } from '../server.ts';
import { environmentOf, withSettings } from '../settings.ts';

const parentCheckMs = 250;
/** glibc's initial thresholds, fixed. Otherwise it raises them, and with a thousand busy projects keeps 100 MB more. */
const memorySettings = { MALLOC_MMAP_THRESHOLD_: '131072', MALLOC_TRIM_THRESHOLD_: '131072' };

export function addStart(program: Command): void {
  const command = program
    .command('start')
    .summary('start the service on this machine')
    .description(
      'Start the service in the foreground. Ctrl-C stops it. Each flag can also be set by the environment variable that ' +
        'its description names. Flags are visible in process lists, so set those marked secret in the environment.',
    );
  withSettings(command).action(start);
}

async function start(options: Record<string, unknown>): Promise<void> {
  const child = spawn(process.execPath, [findProgram('main')], {
    // The channel closes when this process ends, even by SIGKILL. The service notices that and stops.
    stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
    env: { ...memorySettings, ...environmentOf(options) },
  });
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const)
    process.on(signal, () => pass(child, signal));
  endWithNpm(child);
  process.exitCode = await ended(child);
}

function pass(child: ChildProcess, signal: NodeJS.Signals): void {
  // On Windows a signal kills the process. A closed channel lets the service shut down cleanly.
  if (process.platform !== 'win32') child.kill(signal);
  else if (child.connected) child.disconnect();
}

/**
 * npm runs this command through a shell, and some shells die of a signal without passing it on: `npx rowhouse start` would
 * end while the service kept running. A changed parent process reveals that.
 */
function endWithNpm(child: ChildProcess): void {
  if (process.env.npm_command === undefined) return;
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    pass(child, 'SIGTERM');
  }, parentCheckMs);
  timer.unref();
}

function ended(child: ChildProcess): Promise<number> {
  return new Promise((resolve, reject) => {
    child.once('error', (error) =>
      reject(failure('not_started', `The service could not start: ${error.message}`)),
    );
    child.once('exit', (status, signal) => {
      // A clean shutdown ends with a status, not a signal.
      if (signal) process.stderr.write(`The service was killed by ${signal}.\n`);
      resolve(signal ? 128 + constants.signals[signal] : (status ?? 1));
    });
  });
}

// rowhouse start: the service as a child process in the foreground. Signals go on to it; its exit status is ours.
import { type ChildProcess, spawn } from 'node:child_process';
import { constants } from 'node:os';
import type { Command } from 'commander';
import { failure } from './failure.ts';
import { findProgram } from './server.ts';
import { environmentOf, withSettings } from './settings.ts';

const parentCheckMs = 250;

export function addStart(program: Command): void {
  const command = program
    .command('start')
    .summary('start the service here')
    .description(
      'Start the service in the foreground; Ctrl-C stops it. Each setting can also be given by the environment ' +
        'variable in brackets; defaults are in parentheses. Flags are visible in process lists: give secrets by environment.',
    );
  withSettings(command).action(start);
}

async function start(options: Record<string, unknown>): Promise<void> {
  const child = spawn(process.execPath, [findProgram('main')], {
    // By the channel the service notices when we are gone, even killed, and stops.
    stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
    env: environmentOf(options),
  });
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const)
    process.on(signal, () => pass(child, signal));
  endWithNpm(child);
  process.exitCode = await ended(child);
}

function pass(child: ChildProcess, signal: NodeJS.Signals): void {
  // On Windows a signal is a kill; a closed channel lets the service stop in order.
  if (process.platform !== 'win32') child.kill(signal);
  else if (child.connected) child.disconnect();
}

/**
 * npm puts a shell between itself and us, and some shells die of a signal without passing it on: `npx rowhouse start`
 * would be gone and the service not. That our parent has become another one tells us.
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
      reject(failure('not_started', `The service cannot be started: ${error.message}`)),
    );
    child.once('exit', (status, signal) => {
      // It goes by itself, with a status, whenever it can.
      if (signal) process.stderr.write(`The service was ended by ${signal}.\n`);
      resolve(signal ? 128 + constants.signals[signal] : (status ?? 1));
    });
  });
}

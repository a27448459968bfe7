// rowhouse doctor: runs the service's own checks of this machine and shows the results.
import { spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';
import type { Command } from 'commander';
import { failure } from '../failure.ts';
import { type OutputOptions, show, waiting } from '../output.ts';
import { findProgram } from '../server.ts';
import { environmentOf, withSettings } from '../settings.ts';
import { clean, counted } from '../table.ts';

type Check = { check: string; state: 'ok' | 'warning' | 'problem'; found: string; todo?: string };

export function addDoctor(program: Command): void {
  const command = program
    .command('doctor')
    .summary('check this machine for problems with the service')
    .description(
      'Check this machine for problems that would keep the service from starting or running well. Doctor changes nothing ' +
        'and starts nothing. It reads settings from the environment too. The exit status is 1 if it finds a problem.',
    );
  withSettings(command, ['ROWHOUSE_DATA', 'ROWHOUSE_PORT', 'ROWHOUSE_HOST'])
    .option('--json', 'print the checks as JSON')
    .action(doctor);
}

async function doctor(options: OutputOptions & Record<string, unknown>): Promise<void> {
  const checks = await waiting(options, 'Checking', examine(options));
  show(options, checks, describe);
  if (checks.some(({ state }) => state === 'problem')) process.exitCode = 1;
}

async function examine(options: Record<string, unknown>): Promise<Check[]> {
  const child = spawn(process.execPath, [findProgram('doctor')], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: environmentOf(options),
  });
  const started = new Promise<never>((_, reject) => child.once('error', reject));
  try {
    return JSON.parse(await Promise.race([text(child.stdout), started])) as Check[];
  } catch (error) {
    throw failure('doctor_failed', `The checks could not run: ${(error as Error).message}`);
  }
}

export function describe(checks: readonly Check[]): string {
  const stateWidth = Math.max(...checks.map(({ state }) => state.length));
  const checkWidth = Math.max(...checks.map(({ check }) => check.length));
  const lines = checks.flatMap(({ check, state, found, todo }) => [
    `${state.padEnd(stateWidth)}  ${check.padEnd(checkWidth)}  ${clean(found)}`,
    ...(todo ? [`${' '.repeat(stateWidth + checkWidth + 4)}→ ${clean(todo)}`] : []),
  ]);
  return [...lines, '', summarize(checks)].join('\n');
}

function summarize(checks: readonly Check[]): string {
  const count = (wanted: Check['state']) => checks.filter(({ state }) => state === wanted).length;
  const [problems, warnings] = [count('problem'), count('warning')];
  if (problems + warnings === 0) return 'No problems found.';
  const parts = [
    ...(problems > 0 ? [counted(problems, 'problem')] : []),
    ...(warnings > 0 ? [counted(warnings, 'warning')] : []),
  ];
  return `${parts.join(', ')}.`;
}

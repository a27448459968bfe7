// The version before this one, from the history of the repository, compiled once. It shares the installed packages if their
// versions have not changed.
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { buildTimeoutMs, root } from './toolchains.ts';

/** The program of the last release or, before the first one, of the version without the newest migration. null: skipped. */
export function findEarlierVersion(without: string): { name: string; program: string } | null {
  const commit = findCommit();
  if (!commit) {
    console.warn(`SKIPPED: the history of the repository is not here, so ${without}.`);
    return null;
  }
  const folder = path.join(root, '.cache', `version-${commit}`);
  const complete = path.join(folder, 'complete');
  if (!existsSync(complete)) {
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    build(commit, folder);
    writeFileSync(complete, '');
  }
  return { name: commit, program: path.join(folder, 'packages/server/dist/main.js') };
}

function findCommit(): string | null {
  const release = git('describe', '--tags', '--abbrev=0', '--match', 'v[0-9]*', 'HEAD^');
  const added = git('log', '--diff-filter=AR', '--format=%H', '--', migrations)?.split('\n') ?? [];
  const migration = added.find((commit) => isNumbered(`${commit}^`));
  return git('rev-parse', '--short', '--verify', '--quiet', `${release ?? `${migration}^`}^{commit}`);
}

const migrations = 'packages/server/migrations/control';

/** Whether the version can start: its migrations have the numbers 1, 2, 3 and so on. */
function isNumbered(commit: string): boolean {
  const names = git('ls-tree', '--name-only', commit, `${migrations}/`)?.split('\n') ?? [];
  return (
    names.length > 0 && names.every((name, index) => Number(path.basename(name).slice(0, 4)) === index + 1)
  );
}

/** null if it fails or prints nothing. */
function git(...args: string[]): string | null {
  const { status, stdout } = spawnSync('git', args, { cwd: root, encoding: 'utf8' });
  return status === 0 ? stdout.trim() || null : null;
}

function build(commit: string, folder: string): void {
  const options = { cwd: folder, timeout: buildTimeoutMs, maxBuffer: 2 ** 30 };
  const files = ['package.json', 'package-lock.json', 'tsconfig.base.json', 'packages'];
  const archive = execFileSync('git', ['archive', commit, ...files], { ...options, cwd: root });
  execFileSync('tar', ['-x'], { ...options, input: archive });
  if (installedIn(folder) === installedIn(root)) {
    // All other packages are found in the folder above, that of the checkout.
    const scope = path.join(folder, 'node_modules/@rowhouse');
    mkdirSync(scope, { recursive: true });
    for (const name of ['api', 'server']) symlinkSync(`../../packages/${name}`, path.join(scope, name));
  } else execFileSync('npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error'], options);
  const typescript = path.dirname(createRequire(import.meta.url).resolve('typescript/package.json'));
  const tsc = path.join(typescript, 'bin/tsc');
  execFileSync(process.execPath, [tsc, '-b', 'packages/api', 'packages/server'], options);
}

/** What its lock file installs, without the packages of the repository itself. */
function installedIn(at: string): string {
  const { packages } = JSON.parse(readFileSync(path.join(at, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, object>;
  };
  return JSON.stringify(Object.entries(packages).filter(([name]) => name.includes('node_modules/')));
}

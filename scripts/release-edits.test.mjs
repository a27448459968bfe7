import { describe, expect, it } from 'vitest';
import {
  editChangelog,
  editLock,
  editManifest,
  editReadme,
  entriesOf,
  isGreater,
  parseRequest,
  problemsOf,
  versionsAfter,
} from './release-edits.mjs';
import { problemsOfFiles, problemsOfVersions } from './tarballs.mjs';

const manifests = [
  { name: '@rowhouse/api', version: '0.1.0' },
  { name: 'rowhouse', version: '0.1.0', dependencies: { '@rowhouse/api': '0.1.0', commander: '14.0.3' } },
  { name: '@rowhouse/client', version: '1.0.0' },
];
const changelog =
  '# Changes\n\n## Unreleased\n\n### Added\n\n- One.\n- Two.\n\n## 0.1.0 (2026-01-02)\n\n- Old.\n';
const clean = {
  status: '',
  branch: 'main',
  tags: ['v0.1.0'],
  lastTag: 'v0.1.0',
  clientChanged: false,
  changelog,
  manifests,
};

describe('arguments of a release', () => {
  it('are a version and two options', () => {
    expect(parseRequest(['0.2.0'])).toEqual({ version: '0.2.0', client: undefined, dryRun: false });
    expect(parseRequest(['1.10.0', '--client', '1.0.1', '--dry-run'])).toEqual({
      version: '1.10.0',
      client: '1.0.1',
      dryRun: true,
    });
  });

  it.each([[[]], [['0.2.0', '0.3.0']], [['v0.2.0']], [['0.2']], [['0.2.0-rc.1']], [['0.02.0']], [['minor']]])(
    '%j is refused with the usage',
    (args) => {
      expect(() => parseRequest(args)).toThrow('Usage: npm run release');
    },
  );

  it('an unknown option is refused', () => {
    expect(() => parseRequest(['0.2.0', '--dryrun'])).toThrow('--dryrun');
  });
});

it.each([
  ['0.2.0', '0.1.9', true],
  ['0.10.0', '0.9.9', true],
  ['1.0.0', '0.99.99', true],
  ['0.1.10', '0.1.9', true],
  ['0.1.0', '0.1.0', false],
  ['0.1.9', '0.2.0', false],
  ['0.9.0', '0.10.0', false],
])('%s is greater than %s: %s', (version, than, expected) => {
  expect(isGreater(version, than)).toBe(expected);
});

describe('checks before a release', () => {
  it('let a greater version pass on a clean main with a changelog', () => {
    expect(problemsOf({ version: '0.2.0' }, clean)).toEqual([]);
    expect(problemsOf({ version: '0.2.0', client: '1.1.0' }, { ...clean, clientChanged: true })).toEqual([]);
  });

  it.each([
    ['changes in the tree', {}, { status: ' M README.md' }, 'The working tree has changes'],
    ['another branch', {}, { branch: 'topic' }, 'The branch is "topic"'],
    ['a tag that exists', {}, { tags: ['v0.2.0'] }, 'The tag v0.2.0 exists'],
    ['the current version', { version: '0.1.0' }, { tags: [] }, '0.1.0 is not greater than'],
    ['a smaller version', { version: '0.0.9' }, {}, '0.0.9 is not greater than'],
    ['an empty changelog', {}, { changelog: '## Unreleased\n\n## 0.1.0\n\n- Old.\n' }, 'has no entry'],
    ['no section for it', {}, { changelog: '# Changes\n\n- One.\n' }, 'has no entry'],
    ['a changed client without a version', {}, { clientChanged: true }, 'has changed since v0.1.0'],
    ['a client version that does not grow', { client: '1.0.0' }, {}, '1.0.0 is not greater than'],
    ['another major version of the client', { client: '2.0.0' }, {}, 'stays 1.x'],
    [
      'packages that disagree',
      {},
      { manifests: [...manifests, { name: '@rowhouse/server', version: '0.1.1' }] },
      'different versions: 0.1.0, 0.1.1',
    ],
  ])('refuse %s', (_what, request, state, problem) => {
    const problems = problemsOf({ version: '0.2.0', ...request }, { ...clean, ...state });
    expect(problems).toEqual([expect.stringContaining(problem)]);
  });
});

describe('what a release writes', () => {
  const versions = versionsAfter({ version: '0.2.0' }, manifests);

  it('gives the product one version and leaves the client its own', () => {
    expect(versions).toEqual({ '@rowhouse/api': '0.2.0', rowhouse: '0.2.0', '@rowhouse/client': '1.0.0' });
    expect(versionsAfter({ version: '0.2.0', client: '1.0.1' }, manifests)['@rowhouse/client']).toBe('1.0.1');
  });

  it('changes a manifest in its version and its dependencies on ours only', () => {
    expect(JSON.parse(editManifest(JSON.stringify(manifests[1]), versions))).toEqual({
      name: 'rowhouse',
      version: '0.2.0',
      dependencies: { '@rowhouse/api': '0.2.0', commander: '14.0.3' },
    });
  });

  it('changes the same in the lock file, and no package of others', () => {
    const other = { version: '0.1.0', dependencies: { ms: '2.0.0' } };
    const lock = { packages: { 'packages/cli': manifests[1], 'node_modules/debug': other } };
    const { packages } = JSON.parse(editLock(JSON.stringify(lock), versions));
    expect(packages['packages/cli']).toMatchObject({
      version: '0.2.0',
      dependencies: { '@rowhouse/api': '0.2.0' },
    });
    expect(packages['node_modules/debug']).toEqual(other);
  });

  it('dates the changelog and opens an empty section', () => {
    const edited = editChangelog(changelog, { version: '0.2.0', date: '2026-03-04', client: '1.0.0' });
    expect(edited).toBe(
      '# Changes\n\n## Unreleased\n\n## 0.2.0 (2026-03-04)\n\nWith `@rowhouse/client` 1.0.0.\n\n### Added\n\n- One.\n- Two.\n\n## 0.1.0 (2026-01-02)\n\n- Old.\n',
    );
    expect([entriesOf(changelog), entriesOf(edited)]).toEqual([2, 0]);
  });

  it('changes what the README shows of a start', () => {
    expect(editReadme('Rowhouse 0.1.0 on PostgreSQL 18.4\n0.1.0', '0.1.0', '0.2.0')).toBe(
      'Rowhouse 0.2.0 on PostgreSQL 18.4\n0.1.0',
    );
  });
});

describe('what a tarball holds', () => {
  const manifest = {
    name: '@rowhouse/api',
    version: '0.2.0',
    exports: { '.': { types: './dist/index.d.ts', default: './dist/index.js' } },
    bin: { tool: 'bin/tool.mjs' },
  };
  const files = ['package.json', 'README.md', 'LICENSE', 'dist/index.js', 'dist/index.d.ts', 'bin/tool.mjs'];

  it('is what package.json names, and nothing else', () => {
    expect(problemsOfFiles(files, manifest)).toEqual([]);
    for (const file of files)
      expect(
        problemsOfFiles(
          files.filter((other) => other !== file),
          manifest,
        ),
      ).toEqual([`${file} is missing`]);
    for (const file of ['src/index.ts', 'dist/a.test.js', 'dist/tsconfig.tsbuildinfo', '.env', 'data/a.json'])
      expect(problemsOfFiles([...files, file], manifest)).toEqual([`${file} does not belong in it`]);
  });

  it('has the versions of the release', () => {
    const versions = { '@rowhouse/api': '0.2.0', rowhouse: '0.2.0' };
    expect(problemsOfVersions(manifest, '@rowhouse/api', versions)).toEqual([]);
    expect(
      problemsOfVersions(
        { name: 'rowhouse', version: '0.1.0', dependencies: { '@rowhouse/api': '0.1.0', pg: '8.0.0' } },
        'rowhouse',
        versions,
      ),
    ).toEqual([
      'it is rowhouse 0.1.0 instead of rowhouse 0.2.0',
      'it depends on @rowhouse/api 0.1.0 instead of 0.2.0',
    ]);
  });
});

// A whole release in a clone of this repository: real git, real npm, real tarballs.
import { spawnSync } from 'node:child_process';
import {
  appendFileSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { root } from './setup.mjs';

const place = mkdtempSync(path.join(tmpdir(), 'rowhouse-release-'));
const clone = path.join(place, 'clone');
afterAll(() => rmSync(place, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 }));

// An identity, no hooks and no signatures, whatever the machine's own configuration says.
const config = path.join(place, 'gitconfig');
writeFileSync(config, '[user]\nname = Test\nemail = test@example.com\n[safe]\ndirectory = *\n');
// Without what the npm of this run has set: the one in the clone must not work here.
const inherited = Object.entries(process.env).filter(([name]) => !/^(npm_|INIT_CWD$|GIT_)/i.test(name));
const env = { ...Object.fromEntries(inherited), GIT_CONFIG_GLOBAL: config, GIT_CONFIG_NOSYSTEM: '1' };

function run(program, args, cwd = clone) {
  const { status, stdout, stderr } = spawnSync(program, args, {
    cwd,
    env,
    encoding: 'utf8',
    shell: process.platform === 'win32',
  });
  return { status, stdout, output: `${stdout}${stderr}` };
}

function git(...args) {
  const { status, stdout, output } = run('git', args);
  expect(status, output).toBe(0);
  return stdout.trimEnd();
}

const release = (...args) => run('npm', ['run', '--silent', 'release', '--', ...args]);
const read = (file) => readFileSync(path.join(clone, file), 'utf8');
const versionOf = (name) => JSON.parse(read(`packages/${name}/package.json`)).version;
const nextVersion = (version) => version.replace(/\.(\d+)\.\d+$/, (_all, minor) => `.${Number(minor) + 1}.0`);

function commit(message) {
  git('add', '--all');
  git('commit', '--quiet', '--allow-empty', '--message', message);
}

/** Right after a release the real changelog has none. */
function addEntry(text) {
  writeFileSync(
    path.join(clone, 'CHANGELOG.md'),
    read('CHANGELOG.md').replace('## Unreleased\n', `## Unreleased\n\n- ${text}\n`),
  );
}

/** The commit, the tags and the files: what a release may change. */
const stateOf = () => [git('rev-parse', 'HEAD'), git('tag'), git('status', '--short', '--ignored')];

beforeAll(() => {
  const cloned = run('git', ['clone', '--quiet', root, clone], place);
  expect(cloned.status, cloned.output).toBe(0);
  git('checkout', '--quiet', '-B', 'main');
  // The files of the working tree, so that uncommitted changes of the script are tested too.
  const listed = run('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], root).stdout;
  for (const file of listed.split('\0').filter(Boolean)) {
    const [from, to] = [path.join(root, file), path.join(clone, file)];
    if (existsSync(from)) cpSync(from, to, { recursive: true });
    else rmSync(to, { force: true });
  }
  linkDependencies();
  addEntry('An entry of the test.');
  commit('The working tree');
});

/** The packages of others from here, ours from the clone. */
function linkDependencies() {
  const [from, to] = [path.join(root, 'node_modules'), path.join(clone, 'node_modules')];
  mkdirSync(path.join(to, '@rowhouse'), { recursive: true });
  for (const name of readdirSync(from).filter((entry) => !/^(\.|@rowhouse$|rowhouse$)/.test(entry)))
    symlinkSync(path.join(from, name), path.join(to, name), 'junction');
  for (const name of ['api', 'client', 'server'])
    symlinkSync(path.join(clone, 'packages', name), path.join(to, '@rowhouse', name), 'junction');
  symlinkSync(path.join(clone, 'packages', 'cli'), path.join(to, 'rowhouse'), 'junction');
  copyFileSync(path.join(from, '.rowhouse-installed'), path.join(to, '.rowhouse-installed'));
}

describe('npm run release', () => {
  let version;
  let client;
  let folder;

  beforeAll(() => {
    version = nextVersion(versionOf('cli'));
    client = nextVersion(versionOf('client'));
    folder = path.join(clone, 'dist', `release-${version}`);
  });

  it('says what it would do in a dry run, and changes nothing', () => {
    const before = stateOf();
    const { status, output } = release(version, '--client', client, '--dry-run');
    expect(status, output).toBe(0);
    expect(output).toContain(`${versionOf('server')} → ${version}`);
    expect(output).toContain(`${versionOf('client')} → ${client}`);
    expect(output).toContain('Dry run: nothing was changed.');
    const swallowed = run('npm', ['run', '--silent', 'release', version, `--client=${client}`, '--dry-run']);
    expect(swallowed.output).not.toContain('To publish');
    expect(stateOf()).toEqual(before);
  });

  it('refuses a tree with changes', () => {
    appendFileSync(path.join(clone, 'README.md'), '\n');
    const before = stateOf();
    const { status, output } = release(version, '--client', client);
    expect([status, output]).toEqual([1, expect.stringContaining('The working tree has changes')]);
    expect(stateOf()).toEqual(before);
    git('checkout', '--quiet', '--', 'README.md');
  });

  it('puts everything back when a tarball is not as it should be', () => {
    git('rm', '--quiet', 'packages/api/LICENSE');
    commit('A package without its licence');
    const [head, tags] = stateOf();
    const { status, output } = release(version, '--client', client);
    expect([status, output]).toEqual([
      1,
      expect.stringContaining(`rowhouse-api-${version}.tgz: LICENSE is missing`),
    ]);
    expect([git('rev-parse', 'HEAD'), git('tag'), git('status', '--short')]).toEqual([head, tags, '']);
    expect(existsSync(folder)).toBe(false);
    git('reset', '--quiet', '--hard', 'HEAD~1');
  });

  it('makes tarballs, a commit and a tag, and pushes nothing', () => {
    const before = git('rev-parse', 'HEAD');
    mkdirSync(path.join(clone, 'packages/server/dist'), { recursive: true });
    writeFileSync(path.join(clone, 'packages/server/dist/renamed-away.js'), '');
    const { status, output } = release(version, '--client', client);
    expect(status, output).toBe(0);

    expect(git('rev-parse', 'HEAD~1')).toBe(before);
    expect(git('log', '-1', '--format=%s')).toBe(`Release ${version}`);
    expect(git('rev-parse', `v${version}^{commit}`)).toBe(git('rev-parse', 'HEAD'));
    expect(git('cat-file', '-t', `v${version}`)).toBe('tag');
    expect(git('status', '--short')).toBe('');
    expect(git('ls-remote', '--tags', 'origin', `v${version}`)).toBe('');
    expect(output).toContain(`git push --atomic origin main v${version}`);
    const publish = [...output.matchAll(/npm publish \.\/(\S+)/g)].map(([, file]) => path.basename(file));
    expect(publish.indexOf(`rowhouse-api-${version}.tgz`)).toBe(0);
    expect(publish.indexOf(`rowhouse-server-${version}.tgz`)).toBeLessThan(
      publish.indexOf(`rowhouse-${version}.tgz`),
    );
    expect(publish.toSorted()).toEqual(readdirSync(folder).toSorted());
  });

  it('wrote one version into every package, the lock file and the changelog', () => {
    expect(['api', 'server', 'cli', 'client'].map(versionOf)).toEqual([version, version, version, client]);
    const { packages } = JSON.parse(read('package-lock.json'));
    expect(packages['packages/cli']).toMatchObject({
      version,
      dependencies: { '@rowhouse/api': version, '@rowhouse/server': version },
    });
    expect(packages['packages/client'].version).toBe(client);
    expect(read('CHANGELOG.md')).toMatch(
      new RegExp(
        `^## Unreleased\n\n## ${version} \\(\\d{4}-\\d\\d-\\d\\d\\)\n\nWith \`@rowhouse/client\` ${client}\\.\n\n- An entry of the test\\.$`,
        'm',
      ),
    );
    // Nothing but versions and the changelog: formatting stays as it is.
    const changed = git('show', '--format=', '--unified=0', 'HEAD', '--', '*.json')
      .split('\n')
      .filter((line) => /^\+ /.test(line));
    expect(changed.filter((line) => !line.includes(`"${version}"`) && !line.includes(`"${client}"`))).toEqual(
      [],
    );
  });

  it('packed what each package needs, freshly built', () => {
    const inside = (name, ...args) => run('tar', [...args, `${name}.tgz`], folder).stdout;
    expect(readdirSync(folder).toSorted()).toEqual(
      [
        `rowhouse-${version}.tgz`,
        `rowhouse-api-${version}.tgz`,
        `rowhouse-client-${client}.tgz`,
        `rowhouse-server-${version}.tgz`,
      ].toSorted(),
    );
    const server = inside(`rowhouse-server-${version}`, '-tzf').split('\n');
    expect(server).toEqual(expect.arrayContaining(['package/dist/main.js', 'package/data/common-words.txt']));
    expect(server.filter((file) => /^package\/migrations\/.+\.sql$/.test(file)).length).toBe(
      git('ls-files', 'packages/server/migrations').split('\n').length,
    );
    expect(server).not.toContain('package/dist/renamed-away.js');
    const { stdout } = run('tar', ['-xzOf', `rowhouse-${version}.tgz`, 'package/package.json'], folder);
    expect(JSON.parse(stdout)).toMatchObject({
      version,
      dependencies: { '@rowhouse/api': version, '@rowhouse/server': version },
    });
  });

  it('asks for a new version of the client if it has changed since the last release, and only then', () => {
    addEntry('Another entry of the test.');
    commit('An entry');
    const next = nextVersion(version);
    const unchanged = release(next, '--dry-run');
    expect([unchanged.status, unchanged.output]).toEqual([
      0,
      expect.stringContaining(`${client} (unchanged)`),
    ]);
    appendFileSync(path.join(clone, 'packages/client/src/index.ts'), '// A change.\n');
    commit('A change of the client');
    const refused = release(next, '--dry-run');
    expect([refused.status, refused.output]).toEqual([
      1,
      expect.stringContaining(`@rowhouse/client has changed since v${version}`),
    ]);
    expect(release(next, '--client', nextVersion(client), '--dry-run').status).toBe(0);
  });
});

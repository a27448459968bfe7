// What is published, as somebody gets it who has never seen this repository: packed, looked through, installed into an
// empty folder, and run there.
import { execFile, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { publint } from 'publint';
import { formatMessage } from 'publint/utils';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { until } from '../support/helpers.ts';
import { freePort, isRunning, newDataFolder, postmasterPid } from '../support/process.ts';

type Manifest = {
  name: string;
  version: string;
  private?: boolean;
  license?: string;
  engines?: { node?: string };
  exports?: Record<string, { require?: unknown } | string>;
  bin?: Record<string, string>;
  dependencies?: Record<string, string>;
};

const root = path.resolve(import.meta.dirname, '../../../..');
const readManifest = (folder: string) =>
  JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8')) as Manifest;
const published = readdirSync(path.join(root, 'packages'))
  .map((name) => path.join(root, 'packages', name))
  .map((folder) => ({ folder, manifest: readManifest(folder) }))
  .filter(({ manifest }) => !manifest.private);
const rootManifest = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')) as Manifest;

const place = mkdtempSync(path.join(tmpdir(), 'rowhouse-packages-'));
const empty = path.join(place, 'empty');
const tarballOf = ({ name, version }: Manifest) =>
  path.join(place, `${name.replace('@', '').replace('/', '-')}-${version}.tgz`);
afterAll(() => rmSync(place, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 }));

/** Without what this run itself was given, its settings and npm's. */
const environment = Object.fromEntries(
  Object.entries(process.env).filter(
    ([name]) => !/^(ROWHOUSE_|npm_(package|lifecycle)_|INIT_CWD$)/.test(name),
  ),
);

function run(program: string, args: string[], cwd: string) {
  const { status, stdout, stderr } = spawnSync(program, args, {
    cwd,
    encoding: 'utf8',
    env: environment,
    shell: process.platform === 'win32',
  });
  expect(status, `${program} ${args.join(' ')}\n${stdout}${stderr}`).toBe(0);
  return stdout;
}

/** null: npm could install them. Else why the network does not allow it, which was said aloud. */
async function install(cwd: string, args: string[]): Promise<string | null> {
  try {
    await promisify(execFile)('npm', ['install', '--no-audit', '--no-fund', ...args], {
      cwd,
      env: environment,
      shell: process.platform === 'win32',
    });
    return null;
  } catch (error) {
    const reason = /\b(ENOTFOUND|EAI_AGAIN|ETIMEDOUT|ENETUNREACH|ECONNRE\w+)\b/.exec(String(error))?.[0];
    if (!reason) throw error;
    console.warn(`SKIPPED: npm cannot reach its registry (${reason}), so no packed package is installed.`);
    return reason;
  }
}

const { pack } = (await import(path.join(root, 'scripts/tarballs.mjs'))) as {
  pack(root: string, folders: string[], destination: string): void;
};
beforeAll(() => {
  pack(
    root,
    published.map(({ folder }) => path.relative(root, folder)),
    place,
  );
});

describe.each(published.map(({ folder, manifest }) => ({ name: manifest.name, folder, manifest })))(
  '$name',
  ({ folder, manifest }) => {
    const files = () =>
      run('tar', ['-tzf', path.basename(tarballOf(manifest))], place)
        .trim()
        .split(/\r?\n/)
        .map((file) => file.replace(/^package\//, ''));

    it('contains the files it needs and no others', () => {
      const packed = files();
      expect(packed).toEqual(expect.arrayContaining(['package.json', 'README.md', 'LICENSE']));
      const allowed =
        /^(package\.json|README\.md|LICENSE|bin\/[\w-]+\.mjs|dist\/(.+\.([cm]?js|[cm]?js\.map|d\.[cm]?ts)|cjs\/package\.json)|migrations\/.+\.sql|data\/.+\.txt|console\/(index\.html|[\w.-]+\.svg|assets\/[\w.-]+\.(js|css))(\.br|\.gz)?)$/;
      expect(packed.filter((file) => !allowed.test(file) || /\.test\.|\.tsbuildinfo$/.test(file))).toEqual(
        [],
      );
      const targets = [...Object.values(manifest.exports ?? {}), ...Object.values(manifest.bin ?? {})]
        .flatMap((target) => JSON.stringify(target).match(/[^"]+\.\w+(?=")/g) ?? [])
        .map((target) => target.replace(/^\.\//, ''));
      expect(packed).toEqual(expect.arrayContaining(targets));
      if (manifest.name === '@rowhouse/server')
        expect(packed).toEqual(
          expect.arrayContaining([
            ...['console/index.html', 'console/index.html.br', 'console/index.html.gz'],
            // What the tool search_docs searches.
            'data/llms-full.txt',
          ]),
        );
      const sources = ['migrations', 'data'].filter((name) => readdirSync(folder).includes(name));
      for (const name of sources) {
        const wanted = readdirSync(path.join(folder, name), { recursive: true, encoding: 'utf8' })
          .filter((file) => /\.\w+$/.test(file))
          .map((file) => `${name}/${file.split(path.sep).join('/')}`);
        expect(packed).toEqual(expect.arrayContaining(wanted));
      }
    });

    it('has complete metadata and exact dependency versions', () => {
      expect(manifest).toMatchObject({ license: 'Apache-2.0', engines: { node: expect.any(String) } });
      for (const version of Object.values(manifest.dependencies ?? {}))
        expect(version).toMatch(/^\d+\.\d+\.\d+/);
    });

    it('passes publint', async () => {
      const tarball = readFileSync(tarballOf(manifest));
      const { messages, pkg = manifest } = await publint({
        strict: true,
        pack: { tarball: new Uint8Array(tarball).buffer },
      });
      expect(messages.map((message) => formatMessage(message, pkg))).toEqual([]);
    });
  },
);

describe('packages installed in an empty folder', { timeout: 600_000 }, () => {
  let reason: string | null = null;
  beforeEach(({ skip }) => skip(reason !== null, reason ?? ''));
  beforeAll(async () => {
    mkdirSync(empty);
    // Else npm would look for a project further up.
    writeFileSync(path.join(empty, 'package.json'), '{ "private": true }\n');
    const tarballs = published.map(({ manifest }) => tarballOf(manifest));
    reason = await install(empty, tarballs);
  }, 600_000);

  it('can each be imported', () => {
    for (const { manifest } of published) {
      const main = manifest.exports?.['.'];
      if (main === undefined) continue;
      run(process.execPath, ['--input-type=module', '-e', `import '${manifest.name}'`], empty);
      if (typeof main === 'object' && main.require)
        run(process.execPath, ['--input-type=commonjs', '-e', `require('${manifest.name}')`], empty);
    }
  });

  it('need no later Node.js than documented', () => {
    const wanted = rootManifest.engines?.node?.replace('>=', '') ?? '';
    const [major = 0] = wanted.split('.').map(Number);
    const found = readdirSync(path.join(empty, 'node_modules'), { recursive: true, encoding: 'utf8' })
      .filter((file) => /(^|node_modules[\\/])(@[^\\/]+[\\/])?[^\\/@]+[\\/]package\.json$/.test(file))
      .map((file) => readManifest(path.dirname(path.join(empty, 'node_modules', file))));
    expect(found.length).toBeGreaterThan(50);
    const tooNew = found.filter(
      ({ engines }) => Number(/^\s*(?:>=|\^|~)?\s*(\d+)[^|]*$/.exec(engines?.node ?? '')?.[1]) > major,
    );
    expect(tooNew.map(({ name, version }) => `${name} ${version}`)).toEqual([]);
  });

  // As a terminal does it for Ctrl-C, all at once; and as a process manager does it, npx alone.
  it.each([
    ['Ctrl-C', 'SIGINT', (pid: number) => -pid],
    ['SIGTERM to npx', 'SIGTERM', (pid: number) => pid],
  ] as const)('start by npx rowhouse start and stop by %s', async (_how, signal, target) => {
    const data = newDataFolder();
    const port = await freePort();
    const args = ['rowhouse', 'start', '--port', String(port), '--data', data];
    const child = spawn('npx', args, { cwd: empty, env: environment, detached: true });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (output += text));
    const exited = once(child, 'exit');
    const pid = child.pid ?? 0;
    try {
      await Promise.race([until('ready', async () => /^ready$/m.test(output), 120_000), exited]);
      const [key = ''] = /rh_acct_\w+/.exec(output) ?? [];
      const post = async (url: string, body: object) => {
        const response = await fetch(`http://127.0.0.1:${port}/api/dbaas/v2/projects${url}`, {
          method: 'POST',
          headers: { 'x-api-key': key, 'content-type': 'application/json' },
          body: JSON.stringify(body),
        });
        return { status: response.status, body: (await response.json()) as Record<string, unknown> };
      };
      expect((await post('', { name: 'Packed' })).status, output).toBe(201);
      await visitConsole(`http://127.0.0.1:${port}`);
      expect(await post('/packed/query', { query: 'select 1 as one' })).toMatchObject({
        status: 200,
        body: { ok: true, rows: [{ one: 1 }] },
      });
      const user = { email: 'ada@example.com', password: 'correct horse battery' };
      expect((await post('/packed/auth/signup', user)).status).toBe(201);
      if (published.some(({ manifest }) => manifest.name === '@rowhouse/client'))
        useClient(`http://127.0.0.1:${port}`, key);
      const postmaster = postmasterPid(data);
      expect(postmaster).toBeGreaterThan(0);
      process.kill(target(pid), signal);
      await exited;
      await until('PostgreSQL is stopped', async () => postmasterPid(data) === null, 60_000);
      await until('its process has ended', async () => !isRunning(postmaster ?? 0), 60_000);
    } finally {
      if (isRunning(-pid)) process.kill(-pid, 'SIGKILL');
    }
  });

  /** The page, and every file that it names. */
  async function visitConsole(url: string): Promise<void> {
    const page = await fetch(`${url}/`, { headers: { accept: 'text/html' } });
    expect([page.url, page.status]).toEqual([`${url}/console/`, 200]);
    const files = (await page.text()).match(/\/console\/assets\/[\w.-]+\.(js|css)/g) ?? [];
    expect(files.map((file) => path.extname(file))).toEqual(expect.arrayContaining(['.js', '.css']));
    for (const file of files) {
      const { status, headers } = await fetch(url + file);
      expect([status, headers.get('content-encoding')], file).toEqual([200, 'gzip']);
    }
  }

  /** By each of the two ways in which a program can load it. */
  function useClient(url: string, apiKey: string): void {
    const use = `createClient(${JSON.stringify({ apiKey, project: 'packed', url })}).query('select 1 as one')
      .then(({ rows }) => console.log(JSON.stringify(rows)))`;
    for (const [type, load] of [
      ['module', "import { createClient } from '@rowhouse/client';"],
      ['commonjs', "const { createClient } = require('@rowhouse/client');"],
    ]) {
      const printed = run(process.execPath, [`--input-type=${type}`, '-e', `${load} ${use}`], empty);
      expect(JSON.parse(printed)).toEqual([{ one: 1 }]);
    }
  }

  it('have the other commands', () => {
    expect(run('npx', ['rowhouse', '--version'], empty).trim()).toBe(
      published.find(({ manifest }) => manifest.name === 'rowhouse')?.manifest.version,
    );
    expect(
      run('npx', ['rowhouse', 'doctor', '--data', path.join(place, 'none'), '--port', '0'], empty),
    ).toMatch(/ok +/);
  });
});

const long = { timeout: 600_000, tags: 'long' };
it('npm run pack prints commands that install what it has packed', long, async ({ skip }) => {
  const printed = run(process.execPath, ['scripts/pack.mjs'], root);
  const prefix = path.join(place, 'opt');
  const application = path.join(place, 'application');
  mkdirSync(application);
  writeFileSync(path.join(application, 'package.json'), '{ "private": true }\n');
  const [service = '', link = '', client = ''] = printed.split('\n').filter((line) => line.startsWith('  '));
  expect(link).toContain('/opt/rowhouse/node_modules/.bin/rowhouse');
  const [, command, ...args] = service
    .trim()
    .replace('sudo ', '')
    .replace('/opt/rowhouse', prefix)
    .split(' ');
  expect(command).toBe('install');
  skip((await install(root, args)) !== null);
  expect(run(path.join(prefix, 'node_modules/.bin/rowhouse'), ['--version'], place)).toMatch(
    /^\d+\.\d+\.\d+\n$/,
  );
  await install(application, client.trim().split(' ').slice(2));
  run(process.execPath, ['--input-type=module', '-e', "import '@rowhouse/client'"], application);
});

// Makes a checkout ready: installs what package-lock.json names and compiles. Does nothing where nothing is to be done,
// so that `npm start` and `npm test` are the only commands anybody needs.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('..', import.meta.url));

/**
 * `tests`: compile (check) them too. `client`: not needed to run the service. `clients`: those that others wrote, for the
 * tests in compatibility/.
 */
export function setup({ tests = false, client = true, clients = false } = {}) {
  const [major, minor] = process.versions.node.split('.').map(Number);
  if (major < 20 || (major === 20 && minor < 19)) {
    fail(`Rowhouse needs Node.js 20.19 or newer; this is ${process.versions.node}.`);
  }
  install(root, ['package-lock.json'], 'dependencies (only at the first start)');
  if (clients) installClients();
  build(
    tests ? [] : ['packages/api', 'packages/server', 'packages/cli', ...(client ? ['packages/client'] : [])],
  );
  if (client) bundleClient();
}

/** Once for each state of `files`. `more`: arguments of npm; `finish`: what else belongs to it. */
function install(folder, files, what, more = [], finish = () => {}) {
  const marker = path.join(folder, 'node_modules', '.rowhouse-installed');
  const hash = createHash('sha256');
  for (const file of files) hash.update(readFileSync(path.join(folder, file)));
  const wanted = `${hash.digest('hex')} ${process.platform} ${process.arch}\n`;
  if (existsSync(marker) && readFileSync(marker, 'utf8') === wanted) return;
  console.log(`Installing ${what} …`);
  const npm = process.env.npm_execpath;
  const args = ['ci', '--no-audit', '--no-fund', '--loglevel=error', ...more];
  const result = npm
    ? spawnSync(process.execPath, [npm, ...args], { cwd: folder, stdio: ['ignore', 'ignore', 'inherit'] })
    : spawnSync('npm', args, {
        cwd: folder,
        stdio: ['ignore', 'ignore', 'inherit'],
        shell: process.platform === 'win32',
      });
  if (result.status !== 0) fail('The dependencies could not be installed: see above. Is the network there?');
  finish();
  writeFileSync(marker, wanted);
}

/** Clients that others wrote. None of their install scripts is needed, and some would download programs. */
function installClients() {
  const folder = path.join(root, 'compatibility');
  const files = ['package-lock.json', 'schema.prisma', 'prisma.config.mjs'];
  install(folder, files, 'clients to be tested', ['--ignore-scripts'], () => {
    // Its engine for schemas is such a program: it has to be named, and is not run to generate a client.
    const env = { ...process.env, PRISMA_SCHEMA_ENGINE_BINARY: process.execPath, CHECKPOINT_DISABLE: '1' };
    const args = ['node_modules/prisma/build/index.js', 'generate', '--config', 'prisma.config.mjs'];
    const { status } = spawnSync(process.execPath, args, {
      cwd: folder,
      env,
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    if (status !== 0) fail("Prisma's client could not be generated: see above.");
  });
}

function build(projects) {
  const tsc = path.join(
    path.dirname(createRequire(import.meta.url).resolve('typescript/package.json')),
    'bin',
    'tsc',
  );
  const result = spawnSync(process.execPath, [tsc, '-b', ...projects], {
    cwd: root,
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  if (result.status !== 0) fail('Rowhouse could not be compiled: see above.');
}

/** Into what is published, if it has changed. */
function bundleClient() {
  const folder = path.join(root, 'packages', 'client');
  const bundle = path.join(folder, 'dist', 'index.js');
  const sources = readdirSync(path.join(folder, 'src')).map((name) => path.join(folder, 'src', name));
  const changedAt = (file) => statSync(file).mtimeMs;
  const newest = Math.max(...[...sources, path.join(folder, 'build.mjs')].map(changedAt));
  if (existsSync(bundle) && changedAt(bundle) >= newest) return;
  const result = spawnSync(process.execPath, [path.join(folder, 'build.mjs')], {
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  if (result.status !== 0) fail('The client could not be bundled: see above.');
}

function fail(message) {
  console.error(message);
  process.exit(1);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) setup();

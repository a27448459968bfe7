// Prepares a checkout: installs the dependencies of package-lock.json, compiles, and joins the pages of the documentation
// for the search in them. Skips what is up to date, so that
// `npm start` and `npm test` are the only commands a developer needs.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { writeLlmsFull } from './llms-full.mjs';

export const root = fileURLToPath(new URL('..', import.meta.url));

/**
 * `tests`: also type-check the tests. `client`: also build the client, which the service itself does not need. `clients`:
 * also install the third-party clients for the tests in compatibility/.
 */
export function setup({ tests = false, client = true, clients = false } = {}) {
  const [major, minor] = process.versions.node.split('.').map(Number);
  if (major < 20 || (major === 20 && minor < 19)) {
    fail(`Rowhouse requires Node.js 20.19 or newer. This is ${process.versions.node}.`);
  }
  install(root, ['package-lock.json'], 'dependencies (only the first time)');
  if (clients) installClients();
  build(
    tests ? [] : ['packages/api', 'packages/server', 'packages/cli', ...(client ? ['packages/client'] : [])],
  );
  if (client) bundleClient();
  buildConsole();
  writeLlmsFull(root);
}

/** Runs once for each state of `files`. `more`: additional arguments of npm. `finish`: a final step. */
function install(folder, files, what, more = [], finish = () => {}) {
  const marker = path.join(folder, 'node_modules', '.rowhouse-installed');
  const hash = createHash('sha256');
  for (const file of files) hash.update(readFileSync(path.join(folder, file)));
  const wanted = `${hash.digest('hex')} ${process.platform} ${process.arch}\n`;
  if (existsSync(marker) && readFileSync(marker, 'utf8') === wanted) return;
  console.log(`Installing ${what} …`);
  const args = ['ci', '--no-audit', '--no-fund', '--loglevel=error', ...more];
  const result = spawnSync(process.execPath, [path.join(root, 'scripts', 'install.mjs'), folder, ...args], {
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  if (result.status !== 0)
    fail('npm could not install the dependencies: see above. Check the network connection.');
  finish();
  writeFileSync(marker, wanted);
}

/** Third-party clients. None of their install scripts is needed, and some would download programs. */
function installClients() {
  const folder = path.join(root, 'compatibility');
  const files = ['package-lock.json', 'schema.prisma', 'prisma.config.mjs'];
  install(folder, files, 'third-party clients for the tests', ['--ignore-scripts'], () => {
    // Prisma's schema engine is such a program. A path is required, but generating a client does not run it.
    const env = { ...process.env, PRISMA_SCHEMA_ENGINE_BINARY: process.execPath, CHECKPOINT_DISABLE: '1' };
    const args = ['node_modules/prisma/build/index.js', 'generate', '--config', 'prisma.config.mjs'];
    const { status } = spawnSync(process.execPath, args, {
      cwd: folder,
      env,
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    if (status !== 0) fail('Prisma could not generate its client: see above.');
  });
}

function build(projects) {
  const tsc = path.join(
    path.dirname(createRequire(import.meta.url).resolve('typescript/package.json')),
    'bin',
    'tsc',
  );
  if (!existsSync(path.join(root, 'packages', 'server', 'dist', 'main.js'))) console.log('Compiling …');
  const result = spawnSync(process.execPath, [tsc, '-b', ...projects], {
    cwd: root,
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  if (result.status !== 0) fail('TypeScript could not compile Rowhouse: see above.');
}

/** Builds the published files of the client, if its sources have changed. */
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
  if (result.status !== 0) fail('The client could not be built: see above.');
}

/** Builds the page at /console, if its sources or its libraries have changed. */
function buildConsole() {
  const folder = path.join(root, 'packages', 'console');
  const marker = path.join(folder, 'dist', '.built');
  const hash = createHash('sha256').update(readFileSync(path.join(root, 'package-lock.json')));
  for (const name of ['index.html', 'vite.config.ts', 'package.json', 'build', 'public', 'src']) {
    for (const file of filesIn(path.join(folder, name))) {
      if (!file.includes('.test.')) hash.update(path.relative(folder, file)).update(readFileSync(file));
    }
  }
  const wanted = `${hash.digest('hex')}\n`;
  if (existsSync(marker) && readFileSync(marker, 'utf8') === wanted) return;
  console.log('Building the console …');
  const vite = path.join(
    path.dirname(createRequire(import.meta.url).resolve('vite/package.json')),
    'bin',
    'vite.js',
  );
  const result = spawnSync(process.execPath, [vite, 'build'], {
    cwd: folder,
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  if (result.status !== 0) fail('The console could not be built: see above.');
  writeFileSync(marker, wanted);
}

function filesIn(place) {
  if (!statSync(place).isDirectory()) return [place];
  return readdirSync(place)
    .sort()
    .flatMap((name) => filesIn(path.join(place, name)));
}

function fail(message) {
  console.error(message);
  process.exit(1);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) setup();

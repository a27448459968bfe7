// What the console adds to the first `npm start` in a fresh clone: its packages and its build.
// npm run bench -- console-start [--repeats 5] [--quick] [--write]. Needs the packages of package-lock.json in npm's cache,
// or a network. Measures the last commit.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { median } from './load.mjs';
import { readOptions } from './options.mjs';
import { range, report } from './report.mjs';

const options = readOptions({ repeats: { quick: 1, full: 5 } });
const root = path.resolve(import.meta.dirname, '..');
const goal = 4;
const install = ['ci', '--no-audit', '--no-fund', '--loglevel=error'];
const seconds = { packages: [], build: [], added: [], start: [] };

/** In seconds. */
function time(program, args, cwd) {
  const began = performance.now();
  execFileSync(program, args, { cwd, stdio: ['ignore', 'ignore', 'inherit'] });
  return (performance.now() - began) / 1000;
}

function withoutConsole(clone) {
  const others = readdirSync(path.join(clone, 'packages')).filter((name) => name !== 'console');
  return [...install, '--include-workspace-root', ...others.map((name) => `--workspace=packages/${name}`)];
}

/** Installing into an empty folder, so that both begin alike. */
function installAgain(clone, args) {
  rmSync(path.join(clone, 'node_modules'), { recursive: true, force: true });
  return time('npm', args, clone);
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  return port;
}

/** The whole first start, from the command to `ready`. */
async function firstStart(clone) {
  rmSync(path.join(clone, 'node_modules'), { recursive: true, force: true });
  const port = await freePort();
  const began = performance.now();
  const args = ['start', '--', '--port', String(port), '--data', path.join(clone, '.data')];
  const child = spawn('npm', args, { cwd: clone, stdio: ['ignore', 'pipe', 'inherit'], detached: true });
  const exited = once(child, 'exit');
  let output = '';
  const ready = new Promise((resolve) => {
    child.stdout.on('data', (text) => {
      output += text;
      if (/^ready$/m.test(output)) resolve(true);
    });
  });
  const isReady = await Promise.race([ready, exited.then(() => false)]);
  const took = (performance.now() - began) / 1000;
  if (!isReady) throw new Error(`The service did not start:\n${output}`);
  process.kill(-child.pid, 'SIGTERM');
  await exited;
  return took;
}

for (let turn = 0; turn < options.repeats; turn++) {
  const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-bench-start-'));
  const clone = path.join(folder, 'clone');
  try {
    execFileSync('git', ['clone', '--quiet', '--depth=1', `file://${root}`, clone]);
    // The first one only brings the packages into the memory of the machine.
    installAgain(clone, install);
    const all = installAgain(clone, install);
    const others = installAgain(clone, withoutConsole(clone));
    installAgain(clone, install);
    // A start compiles the server anyway, and before the console, which uses a part of it.
    time(
      process.execPath,
      [path.join(clone, 'node_modules/typescript/bin/tsc'), '-b', 'packages/api'],
      clone,
    );
    const { bin } = JSON.parse(readFileSync(path.join(clone, 'node_modules/vite/package.json'), 'utf8'));
    const vite = path.join(clone, 'node_modules/vite', bin.vite);
    const build = time(process.execPath, [vite, 'build'], path.join(clone, 'packages/console'));
    rmSync(path.join(clone, 'packages/console/dist'), { recursive: true });
    seconds.packages.push(all - others);
    seconds.build.push(build);
    seconds.added.push(all - others + build);
    seconds.start.push(await firstStart(clone));
  } finally {
    rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  }
}

const row = (title, list, wanted = '') => [title, `${median(list).toFixed(1)} s`, range(list, 1), wanted];
report(
  'console-start',
  ['', 'median', 'range', 'goal'],
  [
    row('installing the packages of the console', seconds.packages),
    row('building the console', seconds.build),
    row('both: what the console adds', seconds.added, `≤ ${goal} s`),
    row('the whole first `npm start`, until `ready`', seconds.start),
  ],
  options.write,
  {
    notes: [
      'Each turn is a new clone of the last commit, without node_modules. npm has the packages in its cache. The packages of the console: `npm ci` less `npm ci` of all other packages.',
    ],
  },
);

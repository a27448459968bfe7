// npm run bench -- [suite] [options]: prepares the checkout, then runs bench/<suite>.mjs, or all suites without a name.
// --compare <commit> compares this version with another one (bench/compare.mjs).
// --quick shows that everything runs, not how fast. --write updates bench/RESULTS.md.
// --list lists the suites. --help prints this text, and after a suite's name what it measures and its options.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { root, setup } from './setup.mjs';

const suites = {
  forms: 'every form of a request, users under row security among them, and real clients',
  readers: "processor time of Rowhouse's reader of requests and of Node's server",
  projects: 'creating, listing and starting with many projects',
  query: 'one row, 50 rows, 10,000 rows and an insert by SQL',
  beside: 'reads and inserts beside large answers and direct connections',
  tables: 'pages, inserts, cursors and imports by the table endpoints',
  console: 'the first screens and a grid of a million rows in a real browser',
  'console-start': 'what the console adds to the first start in a fresh clone',
  users: 'sign-in, and what queries notice of it',
  quotas: 'what limit_mb costs, and how exactly it holds',
  'postgres-proxy': 'the PostgreSQL proxy beside direct connections, with and without TLS',
  fleet: 'three servers behind one process',
  'fleet-simulation': 'placement and the control database with a million projects',
  failover: 'a Patroni cluster whose nodes are killed',
  export: 'time and memory of exports',
  branches: 'how long a branch takes, and how long writes wait for it',
  moves: 'how long a move to another server takes, and how long writes wait for it',
  backups: 'what backups cost writers, and how long a restore takes',
  rpo: 'what is lost if everything is killed and restored from its backups',
  peers: 'the same work done by other servers',
  growth: 'speed with many projects and many rows',
  idle: 'processor time and memory of an installation that nobody uses',
  waking: 'the first request of an idle project',
  workers: 'two processes against one',
  profile: 'where the processor time of a query goes (needs perf)',
  soak: 'mixed load with crashes and hostile statements, checked against a ledger',
};
const list = Object.entries(suites)
  .map(([suite, what]) => `  ${suite.padEnd(18)} ${what}`)
  .join('\n');
const args = process.argv.slice(2);
const name = args[0]?.startsWith('-') ? undefined : args.shift();
if (name && !(name in suites)) {
  console.error(`Unknown benchmark "${name}". "npm run bench -- --list" lists them.`);
  process.exit(1);
}
const isComparison = args.some((arg) => /^--compare(=|$)/.test(arg));
const isHelp = args.includes('--help') || args.includes('-h');
if (args.includes('--list')) {
  console.log(list);
  process.exit();
}
if (isHelp && !name && !isComparison) {
  const [head] = readFileSync(fileURLToPath(import.meta.url), 'utf8').split(/^(?!\/\/)/m);
  console.log(`${head.replaceAll(/^\/\/ ?/gm, '')}\nSuites:\n${list}`);
  process.exit();
}
// Help compiles and installs nothing.
if (!isHelp) setup();
const failed = [];
for (const suite of isComparison ? ['compare'] : name ? [name] : Object.keys(suites)) {
  const began = performance.now();
  const file = path.join(root, 'bench', `${suite}.mjs`);
  const { status } = spawnSync(process.execPath, [file, ...args], { stdio: 'inherit' });
  if (status !== 0) failed.push(suite);
  if (isHelp) continue;
  console.log(
    `${suite}: ${((performance.now() - began) / 1000).toFixed(0)} s${status === 0 ? '' : ', failed'}\n`,
  );
}
if (failed.length > 0) {
  if (!isHelp) console.error(`Failed: ${failed.join(', ')}.`);
  process.exit(1);
}

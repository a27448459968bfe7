// npm run bench -- [suite] [options]: prepares the checkout, then runs bench/<suite>.mjs, or all suites without a name.
// --compare <commit> compares this version with another one (bench/compare.mjs).
// --quick takes under five minutes for all and shows that everything runs. --write updates bench/RESULTS.md.
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { root, setup } from './setup.mjs';

const suites = [
  'projects',
  'query',
  'beside',
  'tables',
  'console',
  'console-start',
  'users',
  'quotas',
  'postgres-proxy',
  'fleet',
  'fleet-simulation',
  'failover',
  'export',
  'branches',
  'moves',
  'backups',
  'rpo',
  'peers',
  'growth',
  'idle',
  'waking',
  'workers',
  'profile',
  'soak',
];
const args = process.argv.slice(2);
const name = args[0]?.startsWith('-') ? undefined : args.shift();
if (name && !suites.includes(name)) {
  console.error(`Unknown benchmark "${name}". Known benchmarks: ${suites.join(', ')}.`);
  process.exit(1);
}
setup();
const failed = [];
const isComparison = args.some((arg) => /^--compare(=|$)/.test(arg));
for (const suite of isComparison ? ['compare'] : name ? [name] : suites) {
  const began = performance.now();
  const file = path.join(root, 'bench', `${suite}.mjs`);
  const { status } = spawnSync(process.execPath, [file, ...args], { stdio: 'inherit' });
  if (status !== 0) failed.push(suite);
  console.log(
    `${suite}: ${((performance.now() - began) / 1000).toFixed(0)} s${status === 0 ? '' : ', failed'}\n`,
  );
}
if (failed.length > 0) {
  console.error(`Failed: ${failed.join(', ')}.`);
  process.exit(1);
}

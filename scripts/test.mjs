// npm test: types, lint, format, the direction of imports, the wording of comments, and the ordinary tests on a real PostgreSQL, as in CI.
// --all adds the long tests. --shard runs a part of the long tests, within 25 minutes (shard.mjs). --external runs the tests on a
// second, separate PostgreSQL by its address. Other arguments go to vitest: with a file or a test's name it runs that one, long or
// not, without the lint.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { installBrowsers } from './browsers.mjs';
import { root, setup } from './setup.mjs';
import { readShard } from './shard.mjs';
import { startExternal } from './test-server.mjs';

const own = ['--all', '--shard', '--external'];
const shardMs = 25 * 60_000;
/** How many files of a shard start together, and until when: those after it would not end in time. */
const [shardStep, lastStartMs] = [8, 16 * 60_000];
/** More failures than this are a defect, and take too long to run again. */
const maxSecondAttempts = 12;
const args = process.argv.slice(2);
const isShard = args.includes('--shard');
const deadline = isShard ? Date.now() + shardMs : null;
const rest = [...args.filter((arg) => !own.includes(arg)), ...(isShard ? readShard().chosen : [])];
if (isShard) console.log(`Long tests of this run:\n  ${rest.join('\n  ')}`);
const takesName = (arg) => arg === '-t' || arg === '--testNamePattern';
const files = rest.filter((arg, index) => !arg.startsWith('-') && !takesName(rest[index - 1]));
const withLong = args.includes('--all') || rest.some(takesName) || files.length > 0;

// Other people's clients and browsers take long to install, and only the tests in one folder use them.
const runsIn = (folder) => {
  const users = readdirSync(path.join(root, folder)).filter((name) => name.includes('.test.'));
  return files.length === 0 || files.some((part) => users.some((name) => `${folder}/${name}`.includes(part)));
};
setup({ tests: true, clients: withLong && runsIn('compatibility') });
if (runsIn('packages/console/test')) installBrowsers();
if (rest.length === 0) {
  run('node_modules/@biomejs/biome/bin/biome', ['ci', '--error-on-warnings', '.']);
  run('scripts/check-imports.mjs', []);
  run('scripts/check-comments.mjs', []);
}
const server = args.includes('--external') ? await startExternal() : null;
try {
  const env = server ? { ...process.env, ROWHOUSE_TEST_DATABASE_URL: server.url } : process.env;
  const selection = withLong ? [] : ['--project=ordinary', '--project=alone', '--tagsFilter=!long'];
  const vitest = (vitestArgs, more) =>
    spawn('node_modules/vitest/vitest.mjs', ['run', ...vitestArgs], { ...env, ...more });
  if (isShard) process.exitCode = runShard(vitest, rest);
  else process.exitCode = rest.length === 0 ? runTwice(vitest, selection) : vitest([...selection, ...rest]);
} finally {
  await server?.stop();
}

/**
 * The selected tests, and then the files that failed a second time, one at a time: a machine that is busy elsewhere can fail one of
 * thousands of tests. A defect fails twice.
 */
function runTwice(vitest, selection) {
  const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-test-'));
  const report = path.join(folder, 'failed.json');
  // Not called ROWHOUSE_…: the service refuses settings that it does not know.
  const reporters = ['--reporter=default', '--reporter=./scripts/failed-files.mjs'];
  try {
    const status = vitest([...selection, ...reporters], { FAILED_FILES_REPORT: report });
    if (status === 0 || !existsSync(report)) return status;
    const { files, names, hasOtherErrors } = JSON.parse(readFileSync(report, 'utf8'));
    if (hasOtherErrors || files.length === 0 || files.length > maxSecondAttempts) return status;
    console.log(`\n${files.length} files failed. They run a second time, one at a time.`);
    const second = vitest([...selection.filter((arg) => arg.startsWith('-')), ...files], {
      TEST_WORKERS: '1',
    });
    if (second === 0) console.log(`\nFailed at the first attempt only:\n  ${names.join('\n  ')}`);
    return second;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** A slow machine runs fewer of the files, and says which it leaves out. */
function runShard(vitest, chosen) {
  const lastStart = Date.now() + lastStartMs;
  const waiting = [...chosen];
  let worst = 0;
  do worst = Math.max(worst, runTwice(vitest, waiting.splice(0, shardStep)));
  while (waiting.length > 0 && Date.now() < lastStart);
  if (waiting.length > 0) console.log(`\nLeft out, because the time is over:\n  ${waiting.join('\n  ')}`);
  return worst;
}

function run(script, scriptArgs) {
  const status = spawn(script, scriptArgs, process.env);
  if (status !== 0) process.exit(status);
}

function spawn(script, scriptArgs, env) {
  const timeout = deadline === null ? undefined : Math.max(1, deadline - Date.now());
  const result = spawnSync(process.execPath, [script, ...scriptArgs], {
    cwd: root,
    stdio: 'inherit',
    env,
    timeout,
  });
  if (result.error?.code === 'ETIMEDOUT')
    console.error(
      `\nThe run was stopped after ${shardMs / 60_000} minutes: not all of its tests have ended.`,
    );
  return result.status ?? 1;
}

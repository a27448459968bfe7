// npm test: types, lint, format, the direction of imports, and the ordinary tests on a real PostgreSQL.
// --all adds the long tests. --external runs them on a second, separate PostgreSQL by its address. Other arguments go to
// vitest: with a file or a test's name it runs that one, long or not, without the lint.
import { spawnSync } from 'node:child_process';
import { root, setup } from './setup.mjs';
import { startExternal } from './test-server.mjs';

const own = ['--all', '--external'];
const args = process.argv.slice(2);
const rest = args.filter((arg) => !own.includes(arg));
const isNamed = rest.some((arg) => !arg.startsWith('-') || /^(-t|--testNamePattern)\b/.test(arg));
const withLong = args.includes('--all') || isNamed;

// What others wrote takes long to install, and only the tests in compatibility/ use it.
const clients = isNamed ? rest.some((arg) => arg.includes('compatibility')) : withLong;
setup({ tests: true, clients });
if (rest.length === 0) {
  run('node_modules/@biomejs/biome/bin/biome', ['ci', '--error-on-warnings', '.']);
  run('scripts/check-imports.mjs', []);
}
const server = args.includes('--external') ? await startExternal() : null;
try {
  const env = server ? { ...process.env, ROWHOUSE_TEST_DATABASE_URL: server.url } : process.env;
  const projects = withLong ? [] : ['--project=ordinary', '--project=alone'];
  process.exitCode = spawn('node_modules/vitest/vitest.mjs', ['run', ...projects, ...rest], env);
} finally {
  await server?.stop();
}

function run(script, scriptArgs) {
  const status = spawn(script, scriptArgs, process.env);
  if (status !== 0) process.exit(status);
}

function spawn(script, scriptArgs, env) {
  const result = spawnSync(process.execPath, [script, ...scriptArgs], { cwd: root, stdio: 'inherit', env });
  return result.status ?? 1;
}

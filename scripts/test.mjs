// npm test: types, lint, format, import directions, and the tests on a real PostgreSQL.
// With --external the same tests use a separate PostgreSQL by its URL. Other arguments are passed to vitest.
import { spawnSync } from 'node:child_process';
import { root, setup } from './setup.mjs';
import { startExternal } from './test-server.mjs';

const args = process.argv.slice(2);
const external = args.includes('--external');
const rest = args.filter((arg) => arg !== '--external');

// A run of single files does not wait for the installation of clients that they do not use.
setup({ tests: true, clients: rest.length === 0 || rest.some((arg) => arg.includes('compatibility')) });
if (rest.length === 0) {
  run('node_modules/@biomejs/biome/bin/biome', ['ci', '--error-on-warnings', '.']);
  run('scripts/check-imports.mjs', []);
}
const server = external ? await startExternal() : null;
try {
  const env = server ? { ...process.env, ROWHOUSE_TEST_DATABASE_URL: server.url } : process.env;
  process.exitCode = spawn('node_modules/vitest/vitest.mjs', ['run', ...rest], env);
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

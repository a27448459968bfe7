// npm run bench -- <suite> [options]: sets up, then runs bench/<suite>.mjs; without a name, all of them.
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { root, setup } from './setup.mjs';

const suites = ['projects', 'query', 'tables', 'users', 'quotas', 'growth', 'workers', 'soak'];
const [name, ...options] = process.argv.slice(2);
if (name && !suites.includes(name)) {
  console.error(`There is no benchmark "${name}". There are: ${suites.join(', ')}.`);
  process.exit(1);
}
setup();
for (const suite of name ? [name] : suites) {
  const { status } = spawnSync(process.execPath, [path.join(root, 'bench', `${suite}.mjs`), ...options], {
    stdio: 'inherit',
  });
  if (status !== 0) process.exit(status ?? 1);
}

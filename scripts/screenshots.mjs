// The second part of npm run docs: the pictures of the console in docs/images, taken by its tests.
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { findBrowser, howToInstall } from './browsers.mjs';
import { root } from './setup.mjs';

if (findBrowser('chromium')) {
  const vitest = path.join(root, 'node_modules/vitest/vitest.mjs');
  const test = ['packages/console/test/screens.long.test.ts', '-t', 'chromium'];
  const env = {
    ...process.env,
    ROWHOUSE_SCREENSHOTS: path.join(root, 'docs/images'),
    ROWHOUSE_SCREENSHOTS_OF: 'docs',
  };
  const { status } = spawnSync(process.execPath, [vitest, 'run', ...test], {
    cwd: root,
    stdio: 'inherit',
    env,
  });
  process.exitCode = status ?? 1;
} else {
  console.error(`The pictures of the console stay as they are. ${howToInstall('chromium')}`);
}

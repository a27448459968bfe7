// The browsers for the tests of the console: where they are, and how they get onto a machine that has none.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));

/** `channel`: how playwright drives a browser that it did not bring itself. */
const browsers = {
  chromium: {
    package: 'chromium',
    places: [
      { executablePath: '/usr/bin/chromium' },
      { executablePath: '/usr/bin/chromium-browser' },
      { executablePath: '/usr/bin/google-chrome' },
      { executablePath: '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome' },
    ],
  },
  firefox: {
    package: 'firefox-esr',
    places: [{ executablePath: '/usr/bin/firefox-esr', channel: 'moz-firefox' }],
  },
};

/** What playwright needs to start a browser, or null if the machine does not have it. */
export function findBrowser(name) {
  const own = { executablePath: createRequire(import.meta.url)('playwright-core')[name].executablePath() };
  return [...browsers[name].places, own].find(({ executablePath }) => existsSync(executablePath)) ?? null;
}

/** For the message of a test that cannot run. */
export function howToInstall(name) {
  return `Run "npx playwright-core install --with-deps ${name}", or on Debian "apt-get install ${browsers[name].package}".`;
}

/** A browser that cannot be installed is reported here, and its tests are skipped. */
export function installBrowsers() {
  const missing = () => Object.keys(browsers).filter((name) => findBrowser(name) === null);
  if (missing().length === 0) return;
  console.log(`Installing browsers for the tests: ${missing().join(', ')} …`);
  // Debian's own packages bring the libraries that the browsers need. Elsewhere, playwright downloads its builds.
  if (process.getuid?.() === 0 && existsSync('/etc/debian_version')) {
    apt(['update']);
    apt(['install', '--yes', '--no-install-recommends', ...missing().map((name) => browsers[name].package)]);
  }
  if (missing().length === 0) return;
  const program = path.join(
    path.dirname(createRequire(import.meta.url).resolve('playwright-core/package.json')),
    'cli.js',
  );
  const args = [program, 'install', ...missing()];
  const { stderr } = spawnSync(process.execPath, args, { cwd: root, encoding: 'utf8', timeout: 600_000 });
  // It tries several servers, and repeats itself for each.
  const reason = /^Error: (.*)$/m.exec(stderr ?? '')?.[1];
  if (reason) console.error(reason);
  for (const name of missing()) {
    console.error(`${name} could not be installed, so its tests are skipped. ${howToInstall(name)}`);
  }
}

function apt(args) {
  const options = [
    'DPkg::Lock::Timeout=120',
    'DPkg::Use-Pty=0',
    'Acquire::http::Timeout=20',
    'Acquire::Retries=2',
  ];
  spawnSync('apt-get', ['-qq', ...options.flatMap((option) => ['-o', option]), ...args], {
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
    stdio: ['ignore', 'ignore', 'inherit'],
    timeout: 600_000,
  });
}

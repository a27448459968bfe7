// Keys in a real keyring: secret-tool with gnome-keyring on a session bus of its own.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { bin } from './installation.ts';
import { useService } from './live.ts';

const live = useService();
const has = (program: string) => spawnSync('sh', ['-c', `command -v ${program}`]).status === 0;
const missing = ['dbus-run-session', 'gnome-keyring-daemon', 'secret-tool'].filter(
  (program) => !has(program),
);
if (missing.length > 0)
  console.warn(`SKIPPED: ${missing.join(', ')} not installed, so no key was stored in a keyring.`);

it.skipIf(missing.length > 0)('login stores the key in the keyring, and logout removes it', () => {
  const home = mkdtempSync(path.join(tmpdir(), 'rowhouse-keyring-'));
  onTestFinished(() => rmSync(home, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 }));
  const rowhouse = `'${process.execPath}' '${bin}'`;
  const script = `printf secret | gnome-keyring-daemon --unlock --components=secrets > /dev/null
    printf %s "$KEY" | ${rowhouse} login --url "$URL"
    cat "$XDG_CONFIG_HOME/rowhouse/config.json"
    ${rowhouse} projects list --json
    ${rowhouse} profiles list
    ${rowhouse} logout
    secret-tool lookup service rowhouse profile default || echo gone`;
  const { stdout, stderr } = spawnSync('dbus-run-session', ['--', 'bash', '-c', script], {
    encoding: 'utf8',
    timeout: 120_000,
    env: {
      ...live.env({ ROWHOUSE_URL: '', ROWHOUSE_API_KEY: '', XDG_CONFIG_HOME: path.join(home, 'config') }),
      HOME: home,
      XDG_DATA_HOME: path.join(home, 'data'),
      XDG_RUNTIME_DIR: home,
      KEY: live.accountKey,
      URL: live.service.url,
    },
  });
  expect(stdout, stderr).toContain('its key is in the keyring (secret-tool)');
  expect(stdout).toContain('"keyring": "secret-tool"');
  expect(stdout + stderr).not.toContain(live.accountKey);
  expect(stdout).toContain('"projects": []');
  expect(stdout).toMatch(/\* +default +http\S+ +secret-tool\n/);
  expect(stdout).toMatch(/are forgotten\.\ngone\n$/);
  expect(readFileSync(path.join(home, 'config/rowhouse/config.json'), 'utf8')).toContain('"profiles": {}');
});

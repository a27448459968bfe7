// clients/python: its own tests, types and README, with the package as pip installs it.
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { launch, newAccountKey, newDataFolder, type Running } from './process.ts';
import { buildTimeoutMs, pythonWithClient, root, skipReason } from './toolchains.ts';

const client = path.join(root, 'clients/python');
const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-python-client-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const missing = skipReason('python', 'the Python client was not tried');

describe.skipIf(missing !== null)('the Python client', { timeout: buildTimeoutMs }, () => {
  const accountKey = newAccountKey();
  let service: Running;
  let env: NodeJS.ProcessEnv;

  beforeAll(async () => {
    const made = pythonWithClient(folder, 'mypy==2.4.1');
    if (typeof made === 'string') throw new Error(made);
    env = made;
    service = await launch({
      ...{ ROWHOUSE_DATA: newDataFolder(), ROWHOUSE_ACCOUNT_KEY: accountKey },
      ROWHOUSE_PASSWORD_ITERATIONS: '100000',
    });
  }, buildTimeoutMs);

  const python = (args: string[], more: Record<string, string> = {}) =>
    promisify(execFile)(path.join(folder, 'bin/python'), args, { cwd: client, env: { ...env, ...more } });

  it('passes its own tests', async () => {
    const more = { ROWHOUSE_URL: service.url, ROWHOUSE_ACCOUNT_KEY: accountKey };
    const { stderr } = await python(['-m', 'unittest', 'discover', '-s', 'tests'], more);
    expect(stderr).toMatch(/\nOK\n/);
  });

  it('has types that a strict program can rely on', async () => {
    const { stdout } = await python(['-m', 'mypy', '--strict', 'tests', '../../examples/python/example.py']);
    expect(stdout).toContain('Success: no issues found');
  });

  it('does what its README shows', async () => {
    const { body } = await service.call('POST', '/projects', { body: { name: 'My Shop', slug: 'my-shop' } });
    const [, program = ''] =
      /```python\n(.*?)```/s.exec(readFileSync(path.join(client, 'README.md'), 'utf8')) ?? [];
    const here = program.replace('http://127.0.0.1:8765', service.url).replace('rh_proj_…', body.api_key);
    const { stdout } = await python(['-c', here]);
    expect(stdout).toBe("[{'name': 'Assam'}]\nOolong 12\nAssam 4.50\nada@example.com\n");
  });
});

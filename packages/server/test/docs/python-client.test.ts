// clients/python: its own tests, types and README, with the package as pip installs it.
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { cleanUp, launch, newAccountKey, type Running, usedDataFolder } from '../support/process.ts';
import { findProgram } from '../support/programs.ts';
import { buildTimeoutMs, pythonWithClient, root } from '../support/toolchains.ts';

const client = path.join(root, 'clients/python');
const folder = mkdtempSync(path.join(inject('sharedFolder'), 'python-client-'));
afterAll(async () => {
  await cleanUp();
  rmSync(folder, { recursive: true, force: true });
});
const env = await pythonWithClient(folder, 'the Python client was not tried');
const mypy = env && (await findProgram('mypy', 'its types are not checked'));

describe.skipIf(env === null)('the Python client', { timeout: buildTimeoutMs }, () => {
  const accountKey = newAccountKey();
  let service: Running;

  beforeAll(async () => {
    service = await launch({
      ROWHOUSE_DATA: await usedDataFolder(),
      ROWHOUSE_ACCOUNT_KEY: accountKey,
      ROWHOUSE_PASSWORD_ITERATIONS: '100000',
    });
  });

  const python = (args: string[], more: Record<string, string> = {}) =>
    promisify(execFile)(path.join(folder, 'bin/python'), args, { cwd: client, env: { ...env, ...more } });

  it('passes its own tests', async () => {
    const more = { ROWHOUSE_URL: service.url, ROWHOUSE_ACCOUNT_KEY: accountKey };
    const { stderr } = await python(['-m', 'unittest', 'discover', '-s', 'tests'], more);
    expect(stderr).toMatch(/\nOK\n/);
  });

  it.skipIf(mypy === null)('has types that a strict program can rely on', async () => {
    const args = ['--strict', '--python-executable', path.join(folder, 'bin/python')];
    const { stdout } = await promisify(execFile)(
      mypy ?? '',
      [...args, `--cache-dir=${folder}/mypy`, 'tests', '../../examples/python/example.py'],
      { cwd: client, env: env ?? {} },
    );
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

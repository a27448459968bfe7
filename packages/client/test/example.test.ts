import { execFile } from 'node:child_process';
import { rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { promisify } from 'node:util';
import { expect, it, onTestFinished } from 'vitest';
import { useLive } from './live.ts';

const example = path.resolve(import.meta.dirname, '../../../examples/typescript');
const tsc = createRequire(import.meta.url)
  .resolve('typescript/package.json')
  .replace('package.json', 'bin/tsc');
const live = useLive();

it('examples/typescript compiles, runs and says what it did', async () => {
  const built = path.join(example, 'dist', 'test');
  onTestFinished(() => rmSync(built, { recursive: true, force: true }));
  const env = {
    ...process.env,
    ROWHOUSE_URL: live.url,
    ROWHOUSE_API_KEY: live.projectKey,
    ROWHOUSE_PROJECT: live.slug,
  };
  const run = (...args: string[]) => promisify(execFile)(process.execPath, args, { cwd: example, env });
  await run(tsc, '--outDir', built).catch(({ stdout }) => expect.fail(stdout));
  for (let times = 0; times < 2; times++) {
    const { stdout, stderr } = await run(path.join(built, 'main.js'));
    expect(stderr).toBe('');
    expect(stdout.trimEnd().split('\n')).toEqual([
      expect.stringMatching(/^signed up ada-\d+@example\.com$/),
      expect.stringMatching(/^signed in, until 20.*Z$/),
      'inserted 3 teas',
      'first page: Mint, Assam',
      ...['  Oolong 12', '  Assam 4.5', '  Mint 2'],
      'under 10: Assam, Mint',
      expect.stringMatching(/^the token is ada-.*'s: true$/),
      'refused: 409 conflict',
      'done',
    ]);
  }
});

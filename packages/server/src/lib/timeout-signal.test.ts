import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, it } from 'vitest';
import { root } from '../../test/support/toolchains.ts';
import { timeoutSignal } from './timeout-signal.ts';

it('fires although only AbortSignal.any() refers to it, and memory is freed meanwhile', async () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const stopping = new AbortController();
  let fired = 0;
  const waitFor = (ms: number) =>
    AbortSignal.any([stopping.signal, timeoutSignal(ms)]).addEventListener('abort', () => fired++);
  for (let n = 0; n < 100; n++) waitFor(100);
  await sleep(20);
  collect();
  await expect.poll(() => fired, { timeout: 10_000 }).toBe(100);
});

/** The sources without their first comments. */
function sources(): { file: string; text: string }[] {
  const folders = ['server', 'cli', 'client', 'console'].map((name) =>
    path.join(root, 'packages', name, 'src'),
  );
  const files = folders.flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .filter((name) => /\.tsx?$/.test(name) && !name.endsWith('.test.ts'))
      .map((name) => path.join(folder, name)),
  );
  return files.map((file) => ({ file, text: readFileSync(file, 'utf8').replace(/^\/\/.*$/gm, '') }));
}

it('is what AbortSignal.any() gets, everywhere', () => {
  const wrong = sources().filter(
    ({ text }) => text.includes('AbortSignal.any(') && text.includes('AbortSignal.timeout('),
  );
  expect(wrong.map(({ file }) => file)).toEqual([]);
});

it('is not needed for a pause, which takes several signals: no loop makes one of them in each round', () => {
  const wrong = sources().filter(({ text }) => /\b(?:pause|sleep)\([^;]*AbortSignal\.any\(/.test(text));
  expect(wrong.map(({ file }) => file)).toEqual([]);
});

import { appendFileSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { openLogFile } from './log-file.ts';

it('follows from the last whole line that was shown, over a replacement', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-log-file-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const file = path.join(folder, 'rowhouse.log');
  writeFileSync(`${file}.1`, 'older\n');
  writeFileSync(file, 'first\nin two ');
  const log = openLogFile(file);
  onTestFinished(() => log.close());
  expect(log.lines).toEqual(['older', 'first']);
  appendFileSync(file, 'pieces\nlast of the old\n');
  renameSync(file, `${file}.1`);
  writeFileSync(file, 'first of the new\n');
  const stopped = new AbortController();
  const followed: string[] = [];
  for await (const line of log.follow(stopped.signal)) {
    followed.push(line);
    if (line === 'first of the new') stopped.abort();
  }
  expect(followed).toEqual(['in two pieces', 'last of the old', 'first of the new']);
});

import { spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { findCopied, findOwner, findPort, lockDataFolder, rememberPort } from './data-folder.ts';

function newFolder(): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-folder-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

it('the lock is held while its process lives, and removed when released', () => {
  const folder = newFolder();
  const lock = lockDataFolder(folder, 'http://here');
  expect(findOwner(folder)).toMatchObject({ pid: process.pid, address: 'http://here' });
  expect(() => lockDataFolder(folder, 'http://there')).toThrow(`already running on ${folder}`);
  lock.release();
  expect(findOwner(folder)).toBeNull();
  expect(readdirSync(folder)).toEqual([]);
});

it('a copy of a folder in use is refused as a copy, and names the original', () => {
  const folder = newFolder();
  const lock = lockDataFolder(folder, 'http://here');
  const copy = `${newFolder()}/copy`;
  cpSync(folder, copy, { recursive: true });
  expect(() => lockDataFolder(copy, 'x')).toThrow(`${copy} is a copy of ${folder}, taken while`);
  expect(findOwner(copy)).toBeNull();
  expect(findCopied(copy)?.hint).toContain(`delete ${copy}/service.lock`);
  expect(findCopied(folder)).toBeNull();
  // Another name of the same folder is no copy.
  const other = `${newFolder()}/other`;
  symlinkSync(folder, other);
  expect(() => lockDataFolder(other, 'x')).toThrow(`already running on ${other}`);
  renameSync(folder, `${folder}.renamed`);
  expect(() => lockDataFolder(`${folder}.renamed`, 'x')).toThrow(`already running on ${folder}.renamed`);
  renameSync(`${folder}.renamed`, folder);
  lock.release();
});

it.each([
  [
    'a process that has ended',
    () => JSON.stringify({ pid: spawnSync('true').pid, process: 'old', address: 'x' }),
  ],
  [
    'a process whose id another process has now',
    () => JSON.stringify({ pid: process.pid, process: 'another', address: 'x' }),
  ],
  ['a crash in the middle of the file', () => '{"pid": 1'],
  ['a crash before the first byte', () => ''],
])('a lock left by %s is taken over', (_what, content) => {
  const folder = newFolder();
  writeFileSync(path.join(folder, 'service.lock'), content());
  expect(findOwner(folder)).toBeNull();
  lockDataFolder(folder, 'x').release();
  expect(existsSync(path.join(folder, 'service.lock'))).toBe(false);
});

it('the port is remembered, and an invalid file counts as no port', () => {
  const folder = newFolder();
  expect(findPort(folder)).toBeNull();
  rememberPort(folder, 4321);
  expect(findPort(folder)).toBe(4321);
  writeFileSync(path.join(folder, 'postgres.port'), 'abc');
  expect(findPort(folder)).toBeNull();
});

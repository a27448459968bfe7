import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  chmodSync,
  chownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import {
  makeMasterKey,
  masterKeyCheck,
  masterKeyFile,
  parseMasterKey,
  readKeyFile,
  replaceMasterKey,
} from './master-key.ts';

const isPosix = process.platform !== 'win32';

function newFolder(): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-master-key-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

it('a key is made once, whole, and for its owner alone', () => {
  const folder = newFolder();
  const file = masterKeyFile(folder);
  expect(readKeyFile(file)).toEqual({ kind: 'missing' });
  const key = makeMasterKey(folder);
  expect(key.length).toBe(32);
  expect(readKeyFile(file)).toEqual({ kind: 'key', key });
  expect(makeMasterKey(folder).equals(key), 'a second process takes the first one’s').toBe(true);
  expect(readdirSync(folder)).toEqual(['master.key']);
  if (isPosix) expect(statSync(file).mode & 0o777).toBe(0o600);
});

it('a key that is put back keeps what was there under another name', () => {
  const folder = newFolder();
  const [before, after] = [makeMasterKey(folder), randomBytes(32)];
  const { keptAs } = replaceMasterKey(folder, after);
  expect(readKeyFile(masterKeyFile(folder))).toEqual({ kind: 'key', key: after });
  expect(parseMasterKey(readFileSync(keptAs ?? '', 'utf8'))).toEqual(before);
  expect(readdirSync(folder).sort()).toEqual(['master.key', path.basename(keptAs ?? '')]);
});

it('the check differs from key to key, and is not the key', () => {
  const [one, other] = [Buffer.alloc(32, 7), Buffer.alloc(32, 8)];
  expect(masterKeyCheck(one)).not.toBe(masterKeyCheck(other));
  expect(masterKeyCheck(one)).not.toContain(one.toString('hex'));
});

describe('a file that cannot be used', () => {
  const digits = 'ab'.repeat(32);
  it.each([
    ['empty', '', 'it is empty'],
    ['truncated', digits.slice(1), '64 hex digits'],
    ['two keys', `${digits}\n${digits}\n`, '64 hex digits'],
    ['something else', Buffer.from([0, 255, 1, 254]), '64 hex digits'],
    ['without end', Buffer.alloc(1_000_000, 'a'), '64 hex digits'],
  ])('%s', (_what, content, problem) => {
    const file = masterKeyFile(newFolder());
    writeFileSync(file, content, { mode: 0o600 });
    expect(readKeyFile(file)).toEqual({ kind: 'unusable', problem: expect.stringContaining(problem) });
  });

  it('a folder', () => {
    const file = masterKeyFile(newFolder());
    mkdirSync(file);
    expect(readKeyFile(file)).toMatchObject({ kind: 'unusable' });
  });

  it.runIf(isPosix)('a pipe, without waiting for a writer', () => {
    const file = masterKeyFile(newFolder());
    execFileSync('mkfifo', ['-m', '600', file]);
    expect(readKeyFile(file)).toMatchObject({
      kind: 'unusable',
      problem: expect.stringContaining('not a regular file'),
    });
  });

  it.runIf(isPosix)('one that others can read, directly or through a link', () => {
    const folder = newFolder();
    const [file, target] = [masterKeyFile(folder), path.join(folder, 'elsewhere')];
    writeFileSync(target, digits, { mode: 0o600 });
    symlinkSync(target, file);
    expect(readKeyFile(file)).toMatchObject({ kind: 'key' });
    chmodSync(target, 0o640);
    expect(readKeyFile(file)).toMatchObject({
      kind: 'unusable',
      remedy: expect.stringContaining('chmod 600'),
    });
  });

  it.runIf(isPosix)('a link that leads nowhere is not taken for a missing key', () => {
    const folder = newFolder();
    symlinkSync(path.join(folder, 'not-mounted', 'key'), masterKeyFile(folder));
    expect(readKeyFile(masterKeyFile(folder))).toMatchObject({
      kind: 'unusable',
      problem: expect.stringContaining('does not exist'),
    });
    expect(() => makeMasterKey(folder)).toThrow('cannot be read back');
  });

  it.runIf(process.getuid?.() === 0)('one that belongs to another user', () => {
    const folder = newFolder();
    const file = masterKeyFile(folder);
    writeFileSync(file, digits, { mode: 0o600 });
    const nobody = Number(execFileSync('id', ['-u', 'nobody'], { encoding: 'utf8' }));
    chownSync(folder, nobody, 0);
    process.seteuid?.(nobody);
    try {
      expect(readKeyFile(file)).toMatchObject({
        kind: 'unusable',
        problem: expect.stringContaining('EACCES'),
      });
    } finally {
      process.seteuid?.(0);
    }
  });
});

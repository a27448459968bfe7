import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { isOnDataDisk } from './data-disk.ts';

it('compares the disks of folders, also of those that do not exist yet', () => {
  const data = mkdtempSync(path.join(tmpdir(), 'rowhouse-disk-'));
  onTestFinished(() => rmSync(data, { recursive: true, force: true }));
  const on = (folder: string, dataFolder: string | null = data) =>
    isOnDataDisk({ kind: 'folder', folder }, dataFolder);
  expect(on(path.join(data, 'backups'))).toBe(true);
  expect(on(path.join(tmpdir(), 'not', 'there', 'yet'))).toBe(true);
  // Devices are a file system of their own.
  expect(on('/dev/backups')).toBe(false);
  expect(on(data, null)).toBe(false);
  const credentials = { accessKeyId: '', secretAccessKey: '', sessionToken: null };
  const s3 = { kind: 's3' as const, bucket: 'b', prefix: '', region: 'r', endpoint: null, credentials };
  expect(isOnDataDisk(s3, data)).toBe(false);
});

import { mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { parseBackupUrl } from '../src/backup-url.ts';
import { openFolder } from '../src/backups/storage/folder.ts';
import { contentOf, namesIn, problemOf, storageCases } from './storage-cases.ts';

const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-storage-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
let count = 0;
const newRoot = () => path.join(folder, String(count++), 'not', 'there', 'yet');

describe('backups in a folder', () => {
  storageCases(() => openFolder(newRoot(), 0));

  it('keeps unfinished files apart, and removes those that a crash left', async () => {
    const root = newRoot();
    const storage = openFolder(root, 0);
    await storage.put('a/1', [Buffer.from('x')]);
    expect(readdirSync(path.join(root, '.incoming'))).toEqual([]);
    const left = path.join(root, '.incoming', 'left');
    writeFileSync(left, 'half');
    expect(await namesIn(storage)).toEqual(['a/1']);
    const removeOld = (prefix: string) => storage.removeUnfinished(prefix, new Date(Date.now() - 60_000));
    expect(await removeOld('')).toBe(0);
    utimesSync(left, new Date(0), new Date(0));
    expect(await removeOld('')).toBe(1);
    expect(readdirSync(path.join(root, '.incoming'))).toEqual([]);
  });

  it('removes unfinished files of one server, and leaves those of another one', async () => {
    const root = newRoot();
    const storage = openFolder(root, 0);
    const incoming = path.join(root, '.incoming');
    const removeOld = (prefix: string) => storage.removeUnfinished(prefix, new Date(Date.now() - 60_000));
    async function* slow() {
      yield Buffer.from('half');
      // As one part of a large backup, which takes longer than a day.
      for (const name of readdirSync(incoming)) utimesSync(path.join(incoming, name), 0, 0);
      expect(await removeOld('22/')).toBe(0);
      expect(readdirSync(incoming)).toHaveLength(1);
      yield Buffer.from(' and half');
      for (const name of readdirSync(incoming)) utimesSync(path.join(incoming, name), 0, 0);
      expect(await removeOld('2/')).toBe(0);
    }
    await storage.put('222/part', slow());
    expect(await namesIn(storage)).toEqual(['222/part']);
    writeFileSync(path.join(incoming, '222.left'), 'half');
    utimesSync(path.join(incoming, '222.left'), 0, 0);
    expect(await removeOld('222/')).toBe(1);
    expect(readdirSync(path.join(root, '.incoming'))).toEqual([]);
  });

  it('leaves no empty folders behind', async () => {
    const root = newRoot();
    const storage = openFolder(root, 0);
    await storage.put('a/b/c', [Buffer.from('x')]);
    await storage.put('a/d', [Buffer.from('x')]);
    await storage.delete('a/b/c');
    expect(readdirSync(path.join(root, 'a'))).toEqual(['d']);
  });

  it('stops before the disk is full', async () => {
    const storage = openFolder(newRoot(), Number.MAX_SAFE_INTEGER / 4);
    expect(await problemOf(storage.put('a', [Buffer.from('x')]))).toBe('full');
    expect(await namesIn(storage)).toEqual([]);
  });

  it('says that the folder cannot be used while something else is in its place', async () => {
    const root = newRoot();
    mkdirSync(path.dirname(root), { recursive: true });
    writeFileSync(root, 'a file');
    const storage = openFolder(root, 0);
    expect(await problemOf(storage.put('a', [Buffer.from('x')]))).toBe('unavailable');
    rmSync(root);
    await storage.put('a', [Buffer.from('x')]);
    expect((await contentOf(await storage.get('a'))).toString()).toBe('x');
  });
});

describe('ROWHOUSE_BACKUP_URL', () => {
  it('names a folder or a bucket', () => {
    const at = (url: string) => parseBackupUrl(url, '/srv');
    expect(at('file:/var/backups')).toEqual({ kind: 'folder', folder: '/var/backups' });
    expect(at('file:///var/backups')).toEqual({ kind: 'folder', folder: '/var/backups' });
    expect(at('file:backups')).toEqual({ kind: 'folder', folder: '/srv/backups' });
    const bucket = { kind: 's3', bucket: 'my-bucket', prefix: '', region: 'us-east-1', endpoint: null };
    expect(at('s3://my-bucket')).toEqual(bucket);
    expect(at('s3://my-bucket/a/b/?region=eu-central-1&endpoint=http://127.0.0.1:9000')).toEqual({
      ...{ ...bucket, prefix: 'a/b', region: 'eu-central-1' },
      endpoint: 'http://127.0.0.1:9000',
    });
  });

  it('is refused if it is neither', () => {
    const wrong = [
      ...[
        '',
        'off ',
        'file:',
        'file://host/x',
        '/var/backups',
        'http://bucket/x',
        's3:bucket',
        's3://',
        's3://B',
      ],
      ...['s3://key:secret@bucket/x', 's3://bucket/../x', 's3://bucket/a//b', 's3://bucket/x?regoin=eu'],
      ...['s3://bucket?endpoint=ftp://x', 's3://bucket?endpoint=http://x/path', 's3://bucket?region=EU!'],
    ];
    for (const url of wrong) expect(parseBackupUrl(url, '/srv'), url).toBeNull();
  });
});

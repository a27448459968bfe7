import { mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { openFolder } from '../../src/backups/storage/folder.ts';
import { guardStorage } from '../../src/backups/storage/guard.ts';
import type { Storage } from '../../src/backups/storage/storage.ts';
import { parseBackupUrl } from '../../src/settings/backup-url.ts';
import { contentOf, namesIn, problemOf, storageCases } from './storage-cases.ts';

const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-storage-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
let count = 0;
const newRoot = () => {
  const root = path.join(folder, String(count++), 'some', 'where');
  mkdirSync(root, { recursive: true });
  return root;
};

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
    rmSync(root, { recursive: true });
    writeFileSync(root, 'a file');
    const storage = openFolder(root, 0);
    expect(await problemOf(storage.put('a', [Buffer.from('x')]))).toBe('unavailable');
    rmSync(root);
    mkdirSync(root);
    await storage.put('a', [Buffer.from('x')]);
    expect((await contentOf(await storage.get('a'))).toString()).toBe('x');
  });
});

describe('a repository with a marker', () => {
  const guarded = (root: string) => guardStorage(openFolder(root, 0), async () => 'mine');
  const mark = (root: string, id: string) =>
    writeFileSync(path.join(root, 'repository'), JSON.stringify({ format: 1, id }));
  const accesses = (storage: Storage): Record<string, () => Promise<unknown>> => ({
    put: () => storage.put('a/b/c', [Buffer.from('x')]),
    get: () => storage.get('a/b/c').then(contentOf),
    list: () => namesIn(storage),
    folders: () => storage.folders(''),
    delete: () => storage.delete('a/b/c'),
    deleteAll: () => storage.deleteAll(['a/b/c']),
    removeUnfinished: () => storage.removeUnfinished('', new Date()),
    check: () => storage.check(),
  });

  it('refuses every access to a place that is not it, and changes nothing there', async () => {
    const places: Record<string, (root: string) => void> = {
      nothing: (root) => rmSync(root, { recursive: true }),
      'an empty folder': () => {},
      'an empty marker': (root) => writeFileSync(path.join(root, 'repository'), ''),
      'a marker that is no object': (root) => writeFileSync(path.join(root, 'repository'), 'null'),
      'a marker that is too large': (root) =>
        writeFileSync(path.join(root, 'repository'), 'x'.repeat(100_000)),
      'the marker of another one': (root) => mark(root, 'yours'),
    };
    for (const [place, make] of Object.entries(places)) {
      const root = newRoot();
      make(root);
      const before = filesBeside(root);
      for (const [access, act] of Object.entries(accesses(guarded(root)))) {
        const wanted = place.startsWith('the marker') ? 'foreign' : 'unmarked';
        expect([place, access, await problemOf(act())]).toEqual([place, access, wanted]);
      }
      expect(filesBeside(root)).toEqual(before);
    }
  });

  it('gives an object no name if it vanishes while the object is written, whatever is in its place then', async () => {
    for (const form of ['nothing', 'an empty folder', 'another one']) {
      const root = newRoot();
      mark(root, 'mine');
      const storage = guarded(root);
      await storage.put('a/first', [Buffer.from('x')]);
      async function* content() {
        yield Buffer.from('some');
        renameSync(root, `${root}.away`);
        if (form !== 'nothing') mkdirSync(root);
        if (form === 'another one') mark(root, 'yours');
        yield Buffer.from('more');
      }
      expect(await problemOf(storage.put('a/second', content()))).not.toBe('none');
      const left = {
        nothing: [],
        'an empty folder': ['where'],
        'another one': ['where', 'where/repository'],
      };
      const found = filesBeside(root).filter((name) => !name.startsWith('where.away'));
      expect(found).toEqual(left[form as keyof typeof left]);
      rmSync(root, { recursive: true, force: true });
      renameSync(`${root}.away`, root);
      await storage.put('a/second', [Buffer.from('y')]);
      expect(await namesIn(guarded(root), 'a/')).toEqual(['a/first', 'a/second']);
    }
  });
});

const filesBeside = (root: string) =>
  readdirSync(path.dirname(root), { recursive: true, encoding: 'utf8' }).sort();

describe('ROWHOUSE_BACKUP_URL', () => {
  it('names a folder or a bucket', () => {
    const at = (url: string) => parseBackupUrl(url, '/srv');
    expect(at('file:/var/backups')).toEqual({ kind: 'folder', folder: '/var/backups' });
    expect(at('file:///var/backups')).toEqual({ kind: 'folder', folder: '/var/backups' });
    expect(at('file:backups')).toEqual({ kind: 'folder', folder: '/srv/backups' });
    const bucket = { kind: 's3', bucket: 'my-bucket', prefix: '', region: 'us-east-1', endpoint: null };
    expect(at('s3://my-bucket')).toEqual(bucket);
    expect(at('s3://my-bucket/a/b/?region=eu-central-1&endpoint=http://127.0.0.1:9000')).toEqual({
      ...bucket,
      prefix: 'a/b',
      region: 'eu-central-1',
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

// What every storage for backups must do, whatever it is made of.
import { randomBytes } from 'node:crypto';
import { expect, it } from 'vitest';
import type { Storage } from '../../src/backups/storage/storage.ts';
import { StorageError } from '../../src/backups/storage/storage.ts';

export async function contentOf(source: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const pieces: Uint8Array[] = [];
  for await (const piece of source) pieces.push(piece);
  return Buffer.concat(pieces);
}

export async function namesIn(storage: Storage, prefix = ''): Promise<string[]> {
  const names: string[] = [];
  for await (const { name } of storage.list(prefix)) names.push(name);
  return names;
}

export const problemOf = (attempt: Promise<unknown>): Promise<string> =>
  attempt.then(
    () => 'none',
    (error) => (error instanceof StorageError ? error.problem : String(error)),
  );

export function storageCases(open: () => Storage): void {
  it('gives back what was stored, small and large, and never replaces it', async () => {
    const storage = open();
    for (const size of [0, 1, 20 * 1024 * 1024 + 7]) {
      const content = randomBytes(size);
      const name = `sizes/${size}`;
      const half = Math.floor(size / 2);
      const stored = await storage.put(name, [content.subarray(0, half), content.subarray(half)]);
      expect(stored.bytes).toBe(size);
      expect((await contentOf(await storage.get(name))).equals(content)).toBe(true);
      expect(await problemOf(storage.put(name, [Buffer.from('other')]))).toBe('exists');
      expect((await contentOf(await storage.get(name))).equals(content)).toBe(true);
    }
    const large = randomBytes(10 * 1024 * 1024);
    expect(await problemOf(storage.put(`sizes/${20 * 1024 * 1024 + 7}`, [large, large]))).toBe('exists');
  });

  it('lists by prefix, in order, with sizes and times', async () => {
    const storage = open();
    const since = Date.now() - 60_000;
    for (const name of ['l/b/2', 'l/a', 'l/b/1', 'l/b.x', 'm/c', 'l/bb/3']) {
      await storage.put(name, [Buffer.from(name)]);
    }
    expect(await namesIn(storage, 'l/')).toEqual(['l/a', 'l/b.x', 'l/b/1', 'l/b/2', 'l/bb/3']);
    expect(await namesIn(storage, 'l/b/')).toEqual(['l/b/1', 'l/b/2']);
    expect(await namesIn(storage, 'l/b')).toEqual(['l/b.x', 'l/b/1', 'l/b/2', 'l/bb/3']);
    expect(await namesIn(storage, 'nothing/')).toEqual([]);
    expect(await storage.folders('l/')).toEqual(['b', 'bb']);
    expect(await storage.folders('')).toEqual(['l', 'm']);
    expect(await storage.folders('nothing/')).toEqual([]);
    for await (const { name, bytes, storedAt } of storage.list('l/')) {
      expect(bytes).toBe(name.length);
      expect(storedAt.getTime()).toBeGreaterThan(since);
    }
  });

  it('deletes, and says what is missing', async () => {
    const storage = open();
    await storage.put('d/1', [Buffer.from('x')]);
    await storage.delete('d/1');
    await storage.delete('d/1');
    expect(await namesIn(storage, 'd/')).toEqual([]);
    expect(await problemOf(storage.get('d/1').then(contentOf))).toBe('missing');
  });

  it('deletes many at once, and those that do not exist', async () => {
    const storage = open();
    const names = Array.from({ length: 12 }, (_, n) => `many/${n}`);
    for (const name of ['many/kept', ...names]) await storage.put(name, [Buffer.from('x')]);
    expect(await storage.deleteAll(['many/none', ...names])).toBe(13);
    expect(await namesIn(storage)).toEqual(['many/kept']);
    expect(await storage.deleteAll([])).toBe(0);
    await expect(storage.deleteAll(['many/kept', '../x'])).rejects.toThrow('not a name');
  });

  it('shows nothing of an upload that is not complete, or that fails', async () => {
    const storage = open();
    let goOn = () => {};
    const halfway = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    async function* content() {
      // More than one part, so that an upload in several steps has begun.
      for (let count = 0; count < 20; count++) yield randomBytes(1024 * 1024);
      await halfway;
      yield Buffer.from('end');
    }
    const putting = storage.put('u/whole', content());
    for (let look = 0; look < 20; look++) expect(await namesIn(storage, 'u/')).toEqual([]);
    goOn();
    await putting;
    expect(await namesIn(storage, 'u/')).toEqual(['u/whole']);
    async function* failing() {
      for (let count = 0; count < 20; count++) yield randomBytes(1024 * 1024);
      throw new Error('the source broke');
    }
    await expect(storage.put('u/failed', failing())).rejects.toThrow('the source broke');
    expect(await namesIn(storage, 'u/')).toEqual(['u/whole']);
    expect(await storage.removeUnfinished('', new Date(Date.now() + 60_000))).toBe(0);
  });

  it('refuses names that lead out of it', async () => {
    const storage = open();
    for (const name of ['../x', 'a/../../x', '/x', 'a//x', '', '.incoming/x', 'a/.x', 'a\0']) {
      await expect(storage.put(name, [Buffer.from('x')]), name).rejects.toThrow('not a name');
      await expect(storage.get(name), name).rejects.toThrow('not a name');
    }
  });
}

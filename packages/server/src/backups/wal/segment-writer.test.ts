import { randomBytes } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { openRepository, RepositoryConflict } from '../repository/repository.ts';
import { deleteEach, type Storage, StorageError } from '../storage/storage.ts';
import { SegmentWriter } from './segment-writer.ts';
import { listSegments, readSegment } from './wal-archive.ts';

const segmentBytes = 1024 * 1024;
const name = '000000010000000000000003';
const start = BigInt(3 * segmentBytes);
const { signal } = new AbortController();

/** A thousand objects on a disk would take half a minute. */
function memory(): Storage {
  const objects = new Map<string, Buffer>();
  const deleteOne = async (name: string) => void objects.delete(name);
  return {
    kind: 'folder',
    place: 'memory',
    folders: async () => [],
    removeUnfinished: async () => 0,
    source: async () => ({ location: { kind: 'folder', folder: '' }, reserveBytes: 0, repository: null }),
    prepare: async () => {},
    check: async () => {},
    close: () => {},
    put: async (name, content) => {
      const pieces: Uint8Array[] = [];
      for await (const piece of content) pieces.push(piece);
      if (objects.has(name)) throw new StorageError('exists', name);
      objects.set(name, Buffer.concat(pieces));
      return { bytes: 0, sha256: '' };
    },
    get: async (name) => {
      const content = objects.get(name);
      if (!content) throw new StorageError('missing', name);
      return (async function* () {
        yield content;
      })();
    },
    list: async function* (prefix) {
      for (const name of [...objects.keys()].sort()) {
        if (name.startsWith(prefix)) yield { name, bytes: 0, storedAt: new Date() };
      }
    },
    delete: deleteOne,
    deleteAll: (names) => deleteEach(names, deleteOne),
  };
}

function newRepository(change: (storage: Storage) => Storage = (storage) => storage) {
  return openRepository(change(memory()), Buffer.alloc(32, 1), '1');
}
const writerFor = (repository: ReturnType<typeof newRepository>, more = {}) =>
  new SegmentWriter(repository, { timeline: 1, start, segmentBytes, ...more });

describe('a WAL segment', () => {
  it('is readable after each of a thousand small additions, and never has many pieces', async () => {
    const repository = newRepository();
    const content = randomBytes(1_000 * 100);
    const writer = writerFor(repository);
    let most = 0;
    for (let at = 0; at < content.length; at += 100) {
      writer.add(content.subarray(at, at + 100));
      await writer.store(signal);
      expect(writer.storedEnd).toBe(start + BigInt(at + 100));
      if (at % 7_700 !== 0) continue;
      const [segment] = await listSegments(repository, 1);
      most = Math.max(most, segment?.pieces.length ?? 0);
      const bytes = await readSegment(repository, name, segmentBytes);
      expect(bytes?.subarray(0, at + 100).equals(content.subarray(0, at + 100)), String(at)).toBe(true);
      expect(bytes?.subarray(at + 100).every((byte) => byte === 0)).toBe(true);
    }
    expect(most).toBeLessThan(70);
  });

  it('is one object when it is complete', async () => {
    const repository = newRepository();
    const content = randomBytes(segmentBytes);
    const writer = writerFor(repository);
    for (let at = 0; at < segmentBytes; at += segmentBytes / 8) {
      expect(writer.isComplete).toBe(false);
      writer.add(content.subarray(at, at + segmentBytes / 8));
      await writer.store(signal);
    }
    expect(await listSegments(repository, 1)).toMatchObject([{ name, isWhole: true, pieces: [] }]);
    expect((await readSegment(repository, name, segmentBytes))?.equals(content)).toBe(true);
  });

  it('keeps all bytes if the storage fails at any step', { tags: 'long' }, async () => {
    // The 32nd piece is followed by a merge: two steps to store the larger piece, then the deletions.
    for (const failAt of [0, 1, 2, 31, 62, 63, 64, 65, 66, 67, 80, 97, 98, 99]) {
      let steps = 0;
      const failing = () => {
        if (steps++ === failAt) throw new Error('the storage failed');
      };
      const repository = newRepository((storage) => ({
        ...storage,
        put: async (...args) => {
          failing();
          const stored = await storage.put(...args);
          failing();
          return stored;
        },
        deleteAll: (names) =>
          deleteEach(names, async (name) => {
            failing();
            await storage.delete(name);
          }),
      }));
      const content = randomBytes(40 * 50);
      const writer = writerFor(repository);
      let confirmed = 0;
      for (let at = 0; at < content.length; at += 50) {
        writer.add(content.subarray(at, at + 50));
        await writer.store(signal).catch(() => {});
        // WAL that was confirmed before stays stored, whatever fails now.
        const bytes = await readSegment(repository, name, segmentBytes);
        expect(bytes?.subarray(0, confirmed).equals(content.subarray(0, confirmed)) ?? confirmed === 0).toBe(
          true,
        );
        confirmed = writer.stored;
      }
      const resumed = writerFor(repository, {
        pieces: (await listSegments(repository, 1))[0]?.pieces,
        content: await readSegment(repository, name, segmentBytes),
      });
      resumed.add(content);
      await resumed.store(signal);
      const bytes = await readSegment(repository, name, segmentBytes);
      expect(bytes?.subarray(0, content.length).equals(content), `failed at step ${failAt}`).toBe(true);
    }
  });

  it('refuses other content than what is stored', async () => {
    const repository = newRepository();
    const writer = writerFor(repository);
    writer.add(Buffer.from('one history'));
    await writer.store(signal);
    const resumed = writerFor(repository, {
      pieces: [{ from: 0, to: 11 }],
      content: await readSegment(repository, name, segmentBytes),
    });
    expect(() => resumed.add(Buffer.from('one historian'))).toThrow(RepositoryConflict);
    const other = writerFor(repository);
    other.add(Buffer.from('two history'));
    await expect(other.store(signal)).rejects.toBeInstanceOf(RepositoryConflict);
  });
});

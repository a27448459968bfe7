// A storage that is used only while it is the repository that it should be. Each access looks for the marker first: without it,
// nothing is written, and nothing that is read counts.
import { within } from '../../lib/pause.ts';
import { readMarker } from './marker.ts';
import { type Content, type Storage, StorageError } from './storage.ts';

/** `fresh`: what was known before did not fit, and another process may have set up a repository since. */
export type WantedId = (fresh: boolean) => Promise<string>;

/** How long ago the marker may have been seen. In a folder a look costs nothing; in S3 it is a request. */
const seenMs = {
  folder: { write: 0, read: 1_000, idle: 0 },
  s3: { write: 2_000, read: 10_000, idle: 30_000 },
};
/** A network file system can hang in a way that nothing ends. */
const lookMs = 20_000;

export function guardStorage(storage: Storage, wanted: WantedId): Storage {
  const { place, kind } = storage;
  let seenAt = Number.NEGATIVE_INFINITY;

  const look = async (): Promise<void> => {
    const present = await readMarker(storage);
    if (present !== null && present === (await wanted(false))) return;
    const id = await wanted(true);
    if (present === id) return;
    // A repository may have been set up since the look.
    if (present === null && (await readMarker(storage)) === id) return;
    throw absent(place, present);
  };

  const check = async (why: 'write' | 'read' | 'idle'): Promise<void> => {
    if (performance.now() - seenAt < seenMs[kind][why]) return;
    const at = performance.now();
    seenAt = Number.NEGATIVE_INFINITY;
    const answer = await within(
      lookMs,
      look().then(() => 'seen' as const),
      'late' as const,
    );
    if (answer === 'late') throw new StorageError('unavailable', `${place} does not answer.`);
    seenAt = at;
  };

  /** At the end once more, before the object gets its name: writing a large one takes long. */
  async function* checked(content: Content): AsyncGenerator<Uint8Array> {
    yield* content;
    await check('write');
  }

  return {
    ...storage,
    source: async () => ({ ...(await storage.source()), repository: await wanted(false) }),
    check: () => check('idle'),
    put: async (name, content, signal) => {
      await check('write');
      return storage.put(name, checked(content), signal);
    },
    get: async (name, signal) => {
      await check('read');
      return storage.get(name, signal);
    },
    list: async function* (prefix, signal) {
      await check('read');
      yield* storage.list(prefix, signal);
    },
    folders: async (prefix, signal) => {
      await check('read');
      return storage.folders(prefix, signal);
    },
    delete: async (name, signal) => {
      await check('write');
      await storage.delete(name, signal);
    },
    deleteAll: async (names, signal) => {
      await check('write');
      return storage.deleteAll(names, signal);
    },
    removeUnfinished: async (prefix, before, signal) => {
      await check('write');
      return storage.removeUnfinished(prefix, before, signal);
    },
  };
}

/** `present`: the id of the repository that is there instead. */
export function absent(place: string, present: string | null): StorageError {
  const what = present === null ? 'Its marker is missing' : 'It has the marker of another one';
  return new StorageError(
    present === null ? 'unmarked' : 'foreign',
    `${place} is not the repository of the backups. ${what}. Nothing is written there.`,
  );
}

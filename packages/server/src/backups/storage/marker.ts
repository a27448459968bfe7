// The marker of a repository: an object with an id, which tells the repository from an empty folder, a disk that is not mounted
// and another repository. It is not encrypted: whoever has to look at it may not have the key.
import { randomUUID } from 'node:crypto';
import { type Storage, StorageError } from './storage.ts';

const markerName = 'repository';
const maxMarkerBytes = 4096;

/** The id of the repository. null: there is no marker. */
export async function readMarker(storage: Storage, signal?: AbortSignal): Promise<string | null> {
  const pieces: Uint8Array[] = [];
  let bytes = 0;
  try {
    for await (const piece of await storage.get(markerName, signal)) {
      pieces.push(piece);
      bytes += piece.length;
      if (bytes > maxMarkerBytes) return null;
    }
  } catch (error) {
    if (error instanceof StorageError && error.problem === 'missing') return null;
    throw error;
  }
  return idIn(Buffer.concat(pieces, bytes).toString('utf8'));
}

/** Returns the id that the repository has then: another process may have been first. */
export async function writeMarker(storage: Storage): Promise<string> {
  const id = randomUUID();
  await storage.prepare();
  try {
    await storage.put(markerName, [Buffer.from(JSON.stringify({ format: 1, id }))]);
    return id;
  } catch (error) {
    if (!(error instanceof StorageError) || error.problem !== 'exists') throw error;
  }
  const present = await readMarker(storage);
  if (present !== null) return present;
  throw new StorageError('unmarked', `The marker "${markerName}" in ${storage.place} is damaged.`);
}

/** null: these are not the words of a marker. */
function idIn(text: string): string | null {
  try {
    const { id } = JSON.parse(text) as { id?: unknown };
    return typeof id === 'string' && id !== '' ? id : null;
  } catch {
    return null;
  }
}

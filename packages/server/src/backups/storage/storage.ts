// Where backups are stored: a folder or an S3 bucket behind one interface. Objects are written once and become visible
// whole or not at all, so a list never shows a part of an upload.
import type { BackupLocation } from '../../settings/backup-url.ts';

export type StoredObject = { name: string; bytes: number; storedAt: Date };
/** `sha256` of the stored bytes, in hex. */
export type Stored = { bytes: number; sha256: string };
export type Content = AsyncIterable<Uint8Array> | Iterable<Uint8Array>;

/**
 * Plain data, with which a thread opens the same storage. `reserveBytes`: of the disk of a folder. `repository`: the id in its
 * marker. null: the storage is not guarded.
 */
export type StorageSource = {
  location: BackupLocation;
  reserveBytes: number | null;
  repository: string | null;
};

export type Storage = {
  kind: BackupLocation['kind'];
  source(): Promise<StorageSource>;
  /** For messages: where it is, without credentials. */
  place: string;
  /** Makes the place where objects are stored, if it is missing. Nothing else does: it may be a disk that is not mounted. */
  prepare(): Promise<void>;
  /** Rejects if this is not the repository that it should be (guard.ts). */
  check(): Promise<void>;
  /** Rejects with a StorageError of kind `exists` if there is an object of this name: nothing is ever replaced. */
  put(name: string, content: Content, signal?: AbortSignal): Promise<Stored>;
  /** Rejects with a StorageError of kind `missing` if there is no such object. */
  get(name: string, signal?: AbortSignal): Promise<AsyncIterable<Uint8Array>>;
  /** All objects whose names begin with `prefix`, in order of their names. */
  list(prefix: string, signal?: AbortSignal): AsyncIterable<StoredObject>;
  /** The names of the folders directly below `prefix`, which is empty or ends with a slash. */
  folders(prefix: string, signal?: AbortSignal): Promise<string[]>;
  /** Deleting an object that does not exist is no error. */
  delete(name: string, signal?: AbortSignal): Promise<void>;
  /** The same for many, with fewer requests where the storage can. In order: an error leaves a beginning deleted. */
  deleteAll(names: AsyncIterable<string> | Iterable<string>, signal?: AbortSignal): Promise<number>;
  /**
   * Removes uploads that began before this time and were never completed. Returns their number. `prefix`: empty, or the
   * topmost folder of their names with its slash.
   */
  removeUnfinished(prefix: string, before: Date, signal?: AbortSignal): Promise<number>;
  close(): void;
};

/**
 * `unavailable`: try again later. `denied`: the credentials or permissions are wrong. `full`: too little space.
 * `missing` and `exists`: see get and put. `unmarked` and `foreign`: this is not the repository, but an empty folder or another one.
 */
export type StorageProblem =
  | 'unavailable'
  | 'denied'
  | 'full'
  | 'missing'
  | 'exists'
  | 'unmarked'
  | 'foreign';

export class StorageError extends Error {
  override readonly name = 'StorageError';
  readonly problem: StorageProblem;

  constructor(problem: StorageProblem, message: string, options?: { cause: unknown }) {
    super(message, options);
    this.problem = problem;
  }
}

/** The storage is not the repository that it should be. */
export function isAbsent(error: unknown): boolean {
  return error instanceof StorageError && (error.problem === 'unmarked' || error.problem === 'foreign');
}

/** Deletes one after the other, for a storage that knows no other way. */
export async function deleteEach(
  names: AsyncIterable<string> | Iterable<string>,
  deleteOne: (name: string) => Promise<void>,
): Promise<number> {
  let count = 0;
  for await (const name of names) {
    await deleteOne(name);
    count++;
  }
  return count;
}

/** Object names come from lists of the storage, which others may have written to: nothing that leaves its folder. */
export function checkName(name: string): void {
  const isValid = name.split('/').every((part) => /^[A-Za-z0-9_-][A-Za-z0-9._-]*$/.test(part));
  if (!isValid || name.length > 512) throw new Error(`${JSON.stringify(name)} is not a name of an object.`);
}

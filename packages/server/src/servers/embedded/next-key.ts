// The file master.key.next: it exists while the master key is being replaced, and holds the new key. As long as it is there, the
// data may belong to either key, so that no service starts on it.
import { existsSync, rmSync } from 'node:fs';
import path from 'node:path';
import { EngineError } from '../engine-error.ts';
import { flushFolder, makeKeyFile, masterKeyFile, readKeyFile } from './master-key.ts';

export function nextKeyFile(dataFolder: string): string {
  return `${masterKeyFile(dataFolder)}.next`;
}

/** The key of an interrupted rotation. */
export function findNextKey(dataFolder: string): Buffer | null {
  const found = readKeyFile(nextKeyFile(dataFolder));
  if (found.kind === 'unusable')
    throw new EngineError(`The new master key cannot be used: ${found.problem}.`);
  return found.kind === 'key' ? found.key : null;
}

/** The same, or a new one. */
export function openNextKey(dataFolder: string): Buffer {
  return makeKeyFile(nextKeyFile(dataFolder));
}

export function removeNextKey(dataFolder: string): void {
  rmSync(nextKeyFile(dataFolder), { force: true });
  flushFolder(path.dirname(nextKeyFile(dataFolder)));
}

export function findInterruptedRotation(dataFolder: string): EngineError | null {
  if (!existsSync(nextKeyFile(dataFolder))) return null;
  return new EngineError('The rotation of the master key was interrupted.', {
    hint: `Complete it: rowhouse master-key rotate --data ${dataFolder}`,
  });
}

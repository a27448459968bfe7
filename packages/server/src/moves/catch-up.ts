// What an online move does in the pause, when the source is closed: the target gets the last rows and what replication does not
// carry, and the subscription ends.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Database } from '../postgres/admin/database.ts';
import { movingDatabaseOf } from '../servers/databases/move-database.ts';
import { databaseOf } from '../servers/databases/names.ts';
import { openInside } from '../servers/databases/publication.ts';
import {
  dropSubscriptions,
  readSync,
  resumeSubscription,
  seesMarker,
  writeMarker,
} from '../servers/databases/subscription.ts';
import type { ImportSession } from '../transfer/import/import-session.ts';
import { fingerprint, SchemaChanged } from './catalog-fingerprint.ts';
import { type CopyOptions, copySettings } from './copy.ts';
import { hasStopped } from './follow.ts';
import { NotOnline, readRest } from './replicable.ts';
import { copyRest, copySequences } from './rest.ts';

const [markerMs, enabledEvery] = [1, 20];

type Following = {
  copy: Database;
  writer: ImportSession;
  print: string;
  connection: (database: string) => string;
};

export async function catchUp(
  options: CopyOptions,
  { copy, writer, print, connection }: Following,
): Promise<void> {
  const { projectId, copyId, from, to } = options;
  const closed = openInside(from, movingDatabaseOf(projectId));
  try {
    const moving = connection(movingDatabaseOf(projectId));
    const [, marker] = await settled([
      resumeSubscription(copy, projectId, moving),
      writeMarker(closed, projectId),
    ]);
    const read = async () => {
      if ((await fingerprint(closed)) !== print) throw new SchemaChanged();
      const found = await readRest(closed);
      await copySequences(closed, writer);
      return found;
    };
    const [rest] = await settled([read(), waitForMarker(options, copy, marker), copySettings(options)]);
    await settled([copyRest(options, rest), dropSubscriptions(to, databaseOf(copyId), copy)]);
  } finally {
    // Nothing waits for its end: the source is opened again or dropped, and its sessions are ended first.
    closed.end().catch(() => {});
  }
}

async function waitForMarker(
  { projectId, signal }: CopyOptions,
  copy: Database,
  marker: Buffer,
): Promise<void> {
  for (let look = 1; !(await seesMarker(copy, marker)); look++) {
    signal.throwIfAborted();
    if (look % enabledEvery === 0 && !(await readSync(copy, projectId)).isEnabled)
      throw new NotOnline(hasStopped);
    await sleep(markerMs);
  }
}

/** All end before the next step begins, also if one fails. */
async function settled<T extends readonly unknown[]>(work: { [K in keyof T]: Promise<T[K]> }): Promise<T> {
  await Promise.allSettled(work);
  return Promise.all(work) as unknown as Promise<T>;
}

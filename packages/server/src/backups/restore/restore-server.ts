// The whole installation out of its backups, on a machine that has nothing but the master key. The data folder gets its
// PostgreSQL folder at the very end: until then there is nothing that a start could take for data.
import { rename, rm } from 'node:fs/promises';
import { sql } from '../../postgres/sql.ts';
import { prepareBinaries } from '../../servers/embedded/binaries.ts';
import { readDisk } from '../../servers/embedded/disk.ts';
import { embedConfiguration } from '../../servers/embedded/embed.ts';
import { clusterFolderOf, holdsData, restoreFolderOf } from '../../servers/embedded/embedded.ts';
import { superuser } from '../../servers/embedded/postmaster.ts';
import { removeRecovery, writeOutMs } from '../../servers/embedded/recovery-server.ts';
import { findRunAs } from '../../servers/embedded/run-as.ts';
import { EngineError } from '../../servers/engine-error.ts';
import { readBackups } from '../repository/descriptions.ts';
import { DecryptionError } from '../repository/encryption.ts';
import {
  type BackupDescription,
  listClusters,
  openRepository,
  type Repository,
} from '../repository/repository.ts';
import type { Storage } from '../storage/storage.ts';
import { type Access, type AccessChanges, compareAccess, readAccess } from './access.ts';
import { type DetachedServer, detachServers } from './detach.ts';
import { type Embedded, embed } from './embed.ts';
import { findVersionProblem } from './origin.ts';
import { planRestore } from './plan.ts';
import { recover, type Workshop } from './recover.ts';
import { databasesNamed } from './recover-project.ts';

type Request = {
  storage: Storage;
  masterKey: Buffer;
  dataFolder: string;
  controlDatabase: string;
  /** PostgreSQL's identifier of the server to restore. null: the only one that has the control database. */
  cluster: string | null;
  /** null: everything that is stored. */
  to: Date | null;
  signal: AbortSignal;
  progress: (fraction: number) => void;
  /** Called when everything is restored, before the folder becomes the data of the installation. */
  onComplete: () => void;
};

export type RestoredServer = {
  /** The time of the last change that is there. null: there was none since the backup. */
  lastChangeAt: Date | null;
  backup: string;
  projects: number;
  /** The service leaves them alone until an operator attaches them. */
  detached: DetachedServer[];
  /** Facts about a server that was not embedded, and now is. null: it was embedded. */
  embedded: Embedded | null;
  since: Since | null;
};

/**
 * The changes of access between the restored moment and the last one that is stored. If this report cannot be made,
 * `problem` says why, and the restore is complete all the same.
 */
export type Since = ({ until: string | null } & AccessChanges) | { problem: string };

/** The rest of the progress is for the report. */
const restoredPart = 0.8;
const spareBytes = 512 * 1024 * 1024;

export async function restoreServer(request: Request): Promise<RestoredServer> {
  const { storage, masterKey, dataFolder, to, signal, progress } = request;
  const cluster = clusterFolderOf(dataFolder);
  if (holdsData(cluster)) {
    throw new EngineError(`${cluster} already contains data. Nothing was changed.`, {
      hint: 'Choose an empty data folder with --data. Or move that folder away.',
    });
  }
  const repository = openRepository(storage, masterKey, await findCluster(request));
  const plan = await planRestore(repository, to, { signal });
  const problem = findVersionProblem(plan.tip);
  if (problem !== null)
    throw new EngineError(problem, {
      hint: 'Run "rowhouse restore" of a version of Rowhouse that has these programs.',
    });
  const foreign = foreignSuperuser(plan.tip);
  const folder = restoreFolderOf(dataFolder);
  // A restore whose process died may have left these. Its PostgreSQL may still run.
  for (const left of [folder, newestBeside(folder)]) await discard(left);
  const runAs = findRunAs(cluster);
  const binaries = prepareBinaries(dataFolder, runAs);
  const workshop = {
    folder,
    runAs,
    binaries,
    masterKey,
    capacity: null,
    isDurable: true,
    superuser: foreign,
  };
  try {
    const restored = await recover(
      {
        repository,
        plan,
        keep: null,
        target: to,
        signal,
        workshop,
        progress: (fraction) => progress(to ? fraction * restoredPart : fraction),
        checkSpace: (bytes) => checkSpace(dataFolder, bytes),
      },
      async ({ server, lastCommit }) => {
        await server.open();
        const access = await readAccess(server, request.controlDatabase);
        const detached = await detachServers(server, request.controlDatabase);
        const embedded = foreign === null ? null : await embed(request, server);
        // The replayed changes and the end of the replay are written out: the folder is complete without its WAL.
        await server.database.query(sql`checkpoint`, writeOutMs);
        return { lastChangeAt: lastCommit, backup: plan.tip.id, detached, embedded, access };
      },
    );
    if (!restored) throw new Error('A restore of everything cannot leave anything out.');
    const { access, ...facts } = restored;
    const since = to && (await findChanges(request, repository, access, workshop));
    if (foreign !== null) embedConfiguration({ folder, runAs }, plan.tip.configuration ?? {});
    request.onComplete();
    await rename(folder, cluster);
    const projects = access.projects.filter(({ deleted_at }) => deleted_at === null).length;
    return { ...facts, projects, since };
  } finally {
    await discard(folder);
  }
}

/** The role by which the restored server is opened. null: the superuser of the embedded one, whose password is known. */
function foreignSuperuser({ superuser: name, configuration }: BackupDescription): string | null {
  // Backups by earlier versions do not say which server it was, and the first ones not even its superuser.
  const isEmbedded =
    configuration === undefined ? name === undefined || name === superuser : configuration === null;
  return isEmbedded ? null : (name ?? superuser);
}

const newestBeside = (folder: string) => `${folder}.newest`;

async function discard(folder: string): Promise<void> {
  await removeRecovery(folder);
  await rm(`${folder}.log`, { force: true });
}

/** That of the first server: the storage also has the backups of further ones, which have no control database. */
async function findCluster(request: Request): Promise<string> {
  const { storage, controlDatabase } = request;
  const all = (await listClusters(storage)).filter(
    (id) => request.cluster === null || id === request.cluster,
  );
  const found: Found[] = [];
  const refusals: DecryptionError[] = [];
  for (const cluster of all) {
    const one = await examine(request, cluster).catch((error: unknown) => {
      // It belongs to another installation in the same storage. That matters only if no other fits.
      if (!(error instanceof DecryptionError) || error.problem !== 'wrong_key') throw error;
      refusals.push(error);
      return null;
    });
    if (one && (one.holdsControl || all.length === 1)) found.push(one);
  }
  const [only] = found;
  if (only === undefined && refusals[0]) throw refusals[0];
  if (only === undefined) {
    const which = request.cluster === null ? '' : ` of the cluster ${request.cluster}`;
    const place = `${storage.place} contains no complete backup${which}`;
    throw new EngineError(`${place} with the control database "${controlDatabase}".`, {
      hint: 'Check the address: --from file:/path or --from s3://bucket/prefix. And ROWHOUSE_CONTROL_DATABASE, if it was set.',
    });
  }
  if (found.length > 1) {
    const list = found
      .map(({ cluster, newest }) => `${cluster} (newest backup: ${newest ?? 'none'})`)
      .join(', ');
    throw new EngineError(`${storage.place} contains backups of several installations: ${list}.`, {
      hint: 'Name one of them: --cluster <id>.',
    });
  }
  return only.cluster;
}

type Found = { cluster: string; holdsControl: boolean; newest: string | null };

async function examine(
  { storage, masterKey, controlDatabase, signal }: Request,
  cluster: string,
): Promise<Found> {
  const { backups } = await readBackups(openRepository(storage, masterKey, cluster), signal);
  const holdsControl = backups.some(({ databases }) =>
    databases.some(({ name }) => name === controlDatabase),
  );
  return { cluster, holdsControl, newest: backups.at(-1)?.ended_at ?? null };
}

/** Recovers the control database alone a second time, to the end of the stored WAL. The other databases are left out. */
async function findChanges(
  { controlDatabase, dataFolder, signal, progress }: Request,
  repository: Repository,
  restored: Access,
  { folder: beside, ...workshop }: Workshop,
): Promise<Since> {
  const folder = newestBeside(beside);
  try {
    const plan = await planRestore(repository, null, { signal });
    const found = await recover(
      {
        repository,
        plan,
        keep: databasesNamed(plan, controlDatabase),
        target: null,
        signal,
        workshop: { ...workshop, folder, isDurable: false },
        checkSpace: (bytes) => checkSpace(dataFolder, bytes),
        progress: (fraction) => progress(restoredPart + fraction * (1 - restoredPart)),
      },
      async ({ server, lastCommit }) => ({ newest: await readAccess(server, controlDatabase), lastCommit }),
    );
    if (!found) return { problem: 'The backed up server did not log whole pages (full_page_writes).' };
    const until = found.lastCommit?.toISOString() ?? null;
    return { until, ...compareAccess(restored, found.newest, new Date()) };
  } catch (error) {
    signal.throwIfAborted();
    return { problem: error instanceof Error ? error.message : String(error) };
  } finally {
    await discard(folder);
  }
}

function checkSpace(folder: string, bytes: number): void {
  const { freeBytes } = readDisk(folder, 0);
  const mb = (value: number) => Math.ceil(value / 1024 / 1024);
  if (freeBytes >= bytes + spareBytes) return;
  throw new EngineError(
    `The restore needs ${mb(bytes + spareBytes)} MB, and only ${mb(freeBytes)} MB are free.`,
    { hint: 'Free disk space, or choose another disk with --data.' },
  );
}

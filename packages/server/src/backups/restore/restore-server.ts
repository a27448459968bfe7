// The whole installation out of its backups, on a machine that has nothing but the master key. The data folder gets its
// PostgreSQL folder at the very end: until then there is nothing that a start could take for data.
import { rename, rm } from 'node:fs/promises';
import { prepareBinaries } from '../../engine/binaries.ts';
import { readDisk } from '../../engine/disk.ts';
import { clusterFolderOf, holdsData } from '../../engine/embedded.ts';
import { EngineError } from '../../engine/engine-error.ts';
import { type RecoveryServer, removeRecovery } from '../../engine/recovery-server.ts';
import { findRunAs } from '../../engine/run-as.ts';
import { openDatabase } from '../../postgres/database.ts';
import { sql } from '../../postgres/sql.ts';
import { listClusters, openRepository } from '../repository.ts';
import type { Storage } from '../storage/storage.ts';
import { planRestore } from './plan.ts';
import { recover } from './recover.ts';

type Request = {
  storage: Storage;
  masterKey: Buffer;
  dataFolder: string;
  controlDatabase: string;
  /** null: everything that is stored. */
  to: Date | null;
  signal: AbortSignal;
  progress: (fraction: number) => void;
};

export type RestoredServer = {
  /** The time of the last change that is there. null: there was none since the backup. */
  lastChangeAt: Date | null;
  backup: string;
  projects: number;
};

const spareBytes = 512 * 1024 * 1024;

export async function restoreServer(request: Request): Promise<RestoredServer> {
  const { storage, masterKey, dataFolder, to, signal, progress } = request;
  const cluster = clusterFolderOf(dataFolder);
  if (holdsData(cluster)) {
    throw new EngineError(`${cluster} contains data already. Nothing was changed.`, {
      hint: 'Choose an empty data folder with --data. Or move that folder away.',
    });
  }
  const repository = openRepository(storage, masterKey, await findCluster(storage));
  const plan = await planRestore(repository, to ?? new Date(8.64e15), signal);
  const folder = `${cluster}.restored`;
  await removeRecovery(folder);
  const runAs = findRunAs(cluster);
  const workshop = { folder, runAs, masterKey, capacity: null, isDurable: true };
  try {
    const restored = await recover(
      {
        ...{ repository, plan, keep: null, target: to, signal, progress },
        workshop: { ...workshop, binaries: prepareBinaries(dataFolder, runAs) },
        checkSpace: (bytes) => checkSpace(dataFolder, bytes),
      },
      async ({ server, lastCommit }) => {
        await server.open();
        const projects = await countProjects(server, request.controlDatabase);
        // The replayed changes and the end of the replay are written out: the folder is complete without its WAL.
        await server.database.query(sql`checkpoint`);
        return { lastChangeAt: lastCommit, backup: plan.tip.id, projects };
      },
    );
    if (!restored) throw new Error('A restore of everything cannot leave anything out.');
    await rename(folder, cluster);
    return restored;
  } finally {
    await removeRecovery(folder);
    await rm(`${folder}.log`, { force: true });
  }
}

async function findCluster(storage: Storage): Promise<string> {
  const clusters = await listClusters(storage);
  const [only] = clusters;
  if (only === undefined) {
    throw new EngineError(`${storage.place} contains no complete backup.`, {
      hint: 'Check the address: --from file:/path or --from s3://bucket/prefix.',
    });
  }
  if (clusters.length > 1) {
    throw new EngineError(`${storage.place} contains backups of several installations.`, {
      hint: `Copy the folder of one of them to a place of its own: ${clusters.join(', ')}.`,
    });
  }
  return only;
}

async function countProjects({ address }: RecoveryServer, controlDatabase: string): Promise<number> {
  const control = openDatabase({ ...address, database: controlDatabase }, { max: 1 });
  try {
    const [row] = await control.query<{ count: number }>(
      sql`select count(*)::int as count from projects where deleted_at is null`,
    );
    return row?.count ?? 0;
  } finally {
    await control.end();
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

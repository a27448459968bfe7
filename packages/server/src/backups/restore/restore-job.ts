// The work of one restore: recover the project beside the server that serves, dump it, load it into the new project.

import { mkdir, readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import type { Project } from '@rowhouse/api';
import { promote } from '../../branches/branches.ts';
import { waitForTurn } from '../../branches/server-turns.ts';
import type { Control } from '../../control/control.ts';
import { errors } from '../../errors/errors.ts';
import type { JobRun } from '../../jobs/jobs.ts';
import { mb } from '../../lib/bytes.ts';
import { Stalled, touching } from '../../lib/stall-watch.ts';
import { sql } from '../../postgres/sql.ts';
import type { ProjectRow } from '../../projects/project.ts';
import { prepareBinaries } from '../../servers/embedded/binaries.ts';
import { readCapacity } from '../../servers/embedded/control-file.ts';
import type { DiskWatch } from '../../servers/embedded/disk.ts';
import { clusterFolderOf } from '../../servers/embedded/embedded.ts';
import { superuser } from '../../servers/embedded/postmaster.ts';
import { removeRecovery } from '../../servers/embedded/recovery-server.ts';
import { findRunAs } from '../../servers/embedded/run-as.ts';
import type { Server } from '../../servers/server.ts';
import { findProgram } from '../../transfer/export/export.ts';
import type { Spool } from '../../transfer/receive/spool.ts';
import type { RestoreDeps } from './deps.ts';
import { dumpRecovered } from './dump-recovered.ts';
import type { Origin } from './origin.ts';
import type { Plan } from './plan.ts';
import type { Planned } from './plan-stored.ts';
import type { Recovered, Workshop } from './recover.ts';
import { recoverLast, recoverProject } from './recover-project.ts';
import { restoreInTurn } from './restore-turns.ts';

type Place = {
  dataFolder: string;
  /** The folder of this restore. It is removed at the end. */
  folder: string;
  origin: Origin;
};
/** `home`: the server of the project. null: it does not answer. */
type RestorePlace = Place & { home: Server | null };
export type Work = {
  source: ProjectRow;
  target: Date;
  created: { project: Project; serverId: number };
  planned: Planned;
  into: 'new' | 'in_place';
};

/** For the WAL on its way and the dump. */
const spareBytes = 512 * mb;
/** How much of the whole is done when the dump begins. */
const recoveredPart = 0.7;

export async function restore(
  deps: RestoreDeps,
  place: RestorePlace,
  { source, target, created, into, planned: { whole } }: Work,
  run: JobRun,
): Promise<Record<string, unknown>> {
  const startedAt = performance.now();
  const { origin } = place;
  let filled = null as Spool | null;
  let lastChange = null as Date | null;
  const patience = { account: source.account_id, signal: run.signal, stallMs: deps.stallMs };
  const spool = await restoreInTurn(deps.control, patience, async (turn) => {
    const { signal, touch } = turn;
    await removeLeft(path.dirname(place.folder));
    const { repository } = origin;
    const plan = await whole(turn);
    const recovery = {
      repository,
      plan,
      projectId: source.id,
      target,
      signal,
      workshop: await openWorkshop(deps, place, plan),
      isCopy: await isCopy(deps.control, source.id),
      checkSpace: (bytes: number) => checkSpace(deps.disk, bytes),
      progress: (fraction: number) => {
        if (deps.disk.isLow()) throw errors.serverFull();
        touch(fraction);
        run.progress(fraction * recoveredPart);
      },
    };
    const dump = async ({ server, lastCommit }: Recovered) => {
      lastChange = lastCommit;
      const findNative = () => findProgram(deps.programs);
      const pieces = dumpRecovered(server, { of: origin.marks, id: source.id, findNative, signal });
      const spool = await deps.imports.spool(created.project.limit_mb, touching(pieces, touch));
      if (signal.aborted) {
        // The turn may have ended without this work: nobody else would close it.
        await spool.close();
        signal.throwIfAborted();
      }
      filled = spool;
      return spool;
    };
    return origin.backups ? recoverProject(recovery, dump) : recoverLast(recovery, dump);
  }).catch(async (error: unknown) => {
    // The server of the restore can fail after the dump is written.
    await filled?.close();
    throw error instanceof Stalled ? errors.restoreStalled(error) : error;
  });
  // Not in turn with other restores: this runs code of the project (materialized views, indexes), which can take hours. Imports
  // have their own turns.
  const progress = (fraction: number) => run.progress(recoveredPart + fraction * (1 - recoveredPart));
  const report = await deps.imports.load(source.account_id, created, spool, { ...run, progress });
  if (into === 'in_place' && place.home)
    await replace(
      deps,
      { server: place.home, account: source.account_id },
      { id: source.id, restoredId: created.project.id },
      run,
    );
  const seconds = Math.round((performance.now() - startedAt) / 1000);
  const moments = {
    restored_to: target.toISOString(),
    last_change_at: lastChange?.toISOString() ?? null,
  };
  return { ...moments, into, seconds, ...report };
}

/** `parent` of the row is null if the parent is deleted, which changes nothing about where the files came from. */
async function isCopy(control: Control, id: string): Promise<boolean> {
  return (
    (await control.query(sql`select from projects where id = ${id} and parent_id is not null`)).length > 0
  );
}

/** In a second PostgreSQL on the machine of the service, with the programs of the embedded one. */
export async function openWorkshop(
  { isEmbedded, servers }: RestoreDeps,
  { dataFolder, folder, origin }: Place,
  { tip }: Pick<Plan, 'tip'>,
): Promise<Workshop> {
  const runAs = findRunAs(clusterFolderOf(dataFolder));
  const server = origin.backups?.server ?? null;
  const isOwn = isEmbedded && server === servers.first;
  return {
    folder,
    runAs,
    binaries: prepareBinaries(dataFolder, runAs),
    masterKey: origin.marks.masterKey,
    // Backups by earlier versions do not name it.
    superuser: isOwn ? null : (tip.superuser ?? server?.address.user ?? superuser),
    capacity: server && (await readCapacity(server.maintenance)),
    isDurable: false,
  };
}

/** The restored project is a usable project before the exchange: a crash in between leaves two projects, and loses none. */
async function replace(
  deps: RestoreDeps,
  place: { server: Server; account: string },
  { id, restoredId }: { id: string; restoredId: string },
  run: JobRun,
): Promise<void> {
  const { control, branches } = deps;
  await control.change(sql`update projects set filled_by = null where id = ${restoredId}`);
  try {
    await waitForTurn(branches.inTurn, place, run.signal, () =>
      promote({ ...branches, server: place.server }, id, restoredId),
    );
  } catch (error) {
    // The job drops what it owns. If PostgreSQL died meanwhile, the exchange may have taken place, and this project has the
    // replaced data then: it is deleted and kept, or a row in `swaps` says that it is not decided yet.
    await control.change(sql`
      update projects set filled_by = ${run.id}
      where id = ${restoredId} and deleted_at is null
        and not exists (select from swaps where other_id = ${restoredId})`);
    throw error;
  }
}

export function checkSpace(disk: DiskWatch, bytes: number): void {
  const facts = disk.facts();
  if (!facts || facts.freeBytes - facts.reserveBytes >= bytes + spareBytes) return;
  const [free, reserve] = [facts.freeBytes, facts.reserveBytes].map((value) => Math.floor(value / mb));
  throw errors.serverFull({ free_mb: free ?? 0, reserve_mb: reserve ?? 0 });
}

/** Removes the folders of processes that died: no other restore runs now. */
export async function removeLeft(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const at = path.join(folder, entry.name);
    if (entry.isDirectory()) await removeRecovery(at);
    else await rm(at, { force: true });
  }
}

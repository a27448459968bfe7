// Imports: how many run at once, their sources, and their limits. Each fills a new project, which no request can use before
// the import is done, and which is dropped if the import fails (jobs/jobs.ts).

import path from 'node:path';
import type { CreateProject, CreateUpload, Job, Project, Upload } from '@rowhouse/api';
import type { Control } from '../../control/control.ts';
import { newId } from '../../control/new-id.ts';
import { errors, RowhouseError } from '../../errors/errors.ts';
import { dropFilledProjects } from '../../jobs/abandoned.ts';
import type { JobRun, Jobs } from '../../jobs/jobs.ts';
import type { AccountCaller, Caller } from '../../keys/caller.ts';
import { AccountSlots, type LeaveSlot, type SlotLimits, slotsOnServers } from '../../lib/account-slots.ts';
import { mb } from '../../lib/bytes.ts';
import { Stalled, touching, whileItProgresses } from '../../lib/stall-watch.ts';
import { timeoutSignal } from '../../lib/timeout-signal.ts';
import { checkLimit, createProject } from '../../projects/create.ts';
import type { Headroom } from '../../quotas/headroom.ts';
import { measure } from '../../quotas/sizes.ts';
import { databaseOf } from '../../servers/databases/names.ts';
import type { DiskWatch } from '../../servers/embedded/disk.ts';
import type { Fleet } from '../../servers/fleet.ts';
import {
  dumpFileFactor,
  extraDumpBytes,
  importLimits,
  unpackedDumpFactor,
} from '../../settings/limits/imports.ts';
import { defaultLimitMb } from '../../settings/limits/projects.ts';
import { openArrivals } from '../receive/arrivals.ts';
import { checkFirstBytes } from '../receive/first-bytes.ts';
import { atPace, type Pace } from '../receive/pace.ts';
import { dumpRemote, readRemote } from '../receive/remote.ts';
import { fillSpool, prepareSpoolFolder, type Spool } from '../receive/spool.ts';
import { openUploads, type Taken, type Uploads } from '../receive/uploads.ts';
import { loadDump } from './load.ts';
import type { ImportReport } from './report.ts';

export type Started = { project: Project; apiKey: string; job: Job };
export type Imports = {
  /** Returns when the dump has arrived; the rest is the job's. */
  fromUpload(caller: AccountCaller, input: CreateProject, body: AsyncIterable<Buffer>): Promise<Started>;
  /** Dumps that arrive in parts. */
  uploads: {
    create(accountId: string, input: CreateUpload): Promise<Upload>;
    append(accountId: string, id: string, offset: number, body: AsyncIterable<Buffer>): Promise<Upload>;
  } & Pick<Uploads, 'list' | 'get' | 'remove'>;
  /** `bytes`: the size of the whole dump. */
  fromStored(caller: AccountCaller, input: CreateProject, id: string, bytes: number): Promise<Started>;
  /** `from`: the address of a PostgreSQL server. */
  fromServer(caller: AccountCaller, input: CreateProject, from: string): Promise<Started>;
  /** A branch: `pieces` are a dump of its parent, made by this service. */
  fromParent(accountId: string, input: CreateProject, origin: BranchOrigin, pieces: Pieces): Promise<Started>;
  /** For a dump of our own: keeps it on disk, for a project with this limit. */
  spool(limitMb: number, pieces: AsyncIterable<Uint8Array>): Promise<Spool>;
  /** Fills a project that the job has created. Closes the spool. `accountId`: whose project it is. */
  load(accountId: string, created: Filled, spool: Spool, run: JobRun): Promise<ImportReport>;
};
/** The project to fill, and its server. */
type Filled = Readonly<{ project: Project; serverId: number }>;
/** `serverId`: that of the parent. */
export type BranchOrigin = { issuer: Caller; parentId: string; expiresAt: Date | null; serverId: number };
type Pieces = (signal: AbortSignal) => AsyncIterable<Uint8Array>;

type Deps = {
  control: Control;
  servers: Fleet;
  jobs: Jobs;
  headroom: Headroom;
  disk: DiskWatch;
  limits: { maxLimitMb: number; keepDeletedDays: number };
  onError: (error: unknown) => void;
};

export type ImportOptions = {
  /** For dumps on their way. */
  folder: string;
  allowPrivateHosts: boolean;
  limits?: Partial<Limits>;
};
type Limits = {
  /** On a server. Each runs in a session of its own, as fast as PostgreSQL can. */
  running: SlotLimits;
  /** Together with those that are arriving or waiting. */
  inAll: SlotLimits;
  /** Uploads that arrive at once. Each may be as slow as `pace` allows. */
  arrivingPerAccount: number;
  pace: Pace;
  /** Dumps that are kept for one account, and how long after their last byte. */
  keptPerAccount: number;
  keepMs: number;
  statementMs: number;
  /** Without progress. Longer than a statement may take. */
  stallMs: number;
  maxMs: number;
};
/**
 * A dump of our own was within limit_mb in its project, however large it is as text: long values are compressed there, and a NULL
 * takes a bit. limit_mb itself still holds.
 */
export const ownUnpackedBytes = Number.POSITIVE_INFINITY;

/** For data that does not fit into limit_mb. The hints for a full project do not help: this one is dropped. */
const hints = {
  import: 'Import it again with a larger limit_mb.',
  branch: 'Create the branch again with a larger limit_mb.',
  restore: 'Raise limit_mb of the project with PATCH /api/dbaas/v2/projects/:slug, then restore it again.',
};

function orFull(hint: string) {
  return (error: unknown): never => {
    const isFull = error instanceof RowhouseError && error.code === 'project_full';
    throw isFull ? errors.importFull(error.details, hint) : error;
  };
}

/** `touch`: there is progress. */
type WatchedRun = JobRun & { touch: () => void };
type Source = (run: WatchedRun) => Promise<Spool>;

export function openImports(deps: Deps, { folder, allowPrivateHosts, limits = {} }: ImportOptions): Imports {
  const { running, inAll, arrivingPerAccount, pace, statementMs, stallMs, maxMs, keptPerAccount, keepMs } = {
    ...importLimits,
    ...limits,
  };
  const { control, servers, jobs, headroom, disk } = deps;
  /** On each server: an import that waits for a server that hangs does not hold up those on another. */
  const slotsOn = slotsOnServers('imports', running);
  /** Among all imports of this process. */
  const places = new AccountSlots('imports', inAll);
  const arrivals = openArrivals(arrivingPerAccount);
  const uploads = openUploads({
    folder: path.join(folder, 'uploads'),
    pace,
    perAccount: keptPerAccount,
    keepMs,
    isDiskLow: disk.isLow,
    onError: deps.onError,
  });
  uploads.sweep().catch(deps.onError);
  let isPrepared = false;

  const maxSpoolBytes = (limitMb: number) => dumpFileFactor * limitMb * mb + extraDumpBytes;
  const spoolOptions = (limitMb: number) => {
    if (!isPrepared) prepareSpoolFolder(folder);
    isPrepared = true;
    return { folder, maxBytes: maxSpoolBytes(limitMb), isDiskLow: disk.isLow };
  };
  const limitOf = ({ limit_mb }: { limit_mb?: number }) => {
    const limitMb = limit_mb ?? Math.min(defaultLimitMb, deps.limits.maxLimitMb);
    checkLimit(limitMb, deps.limits.maxLimitMb);
    return limitMb;
  };

  const fill = async (
    { project, serverId }: Filled,
    { source, maxUnpackedBytes }: { source: Source; maxUnpackedBytes: number },
    run: WatchedRun,
  ): Promise<ImportReport> => {
    const server = servers.of(serverId);
    const overdue = timeoutSignal(maxMs);
    const explain = (error: unknown) =>
      overdue.aborted && !run.signal.aborted ? errors.importTooLong(maxMs) : error;
    // The server of an import can send as slowly as it likes, and others wait for this turn.
    const spool = await source({ ...run, signal: AbortSignal.any([run.signal, overdue]) }).catch(
      (error: unknown) => {
        throw explain(error);
      },
    );
    try {
      const full = new AbortController();
      const signal = AbortSignal.any([run.signal, full.signal, overdue]);
      const admitted = await headroom.admit(project.id, { alwaysMeasured: true });
      if (!admitted || admitted.isServerFull) throw errors.serverFull();
      const unwatch = headroom.watch(project.id, admitted.ceiling, (because) => full.abort(because));
      try {
        const report = await loadDump({
          server,
          signal,
          file: spool.file(),
          progress: run.progress,
          limits: { statementMs, onStep: run.touch },
          project: { id: project.id, serverId, passwordVersion: 1, accountId: null },
          maxUnpackedBytes,
        });
        const { size } = await headroom.look(project.id);
        if (size > admitted.ceiling) throw await headroom.refusal(project.id);
        await measure({ control, server }, [databaseOf(project.id)]);
        return report;
      } catch (error) {
        throw full.signal.aborted ? error : explain(error);
      } finally {
        unwatch();
      }
    } finally {
      await spool.close();
    }
  };

  /** In turn. One that makes no progress is ended: the others wait for it. */
  const fillInTurn = (
    accountId: string,
    created: Filled,
    dump: { source: Source; maxUnpackedBytes: number },
    run: JobRun,
    hint: string,
  ): Promise<ImportReport> => {
    const watched = () =>
      whileItProgresses(run.signal, stallMs, ({ signal, touch }) => {
        const progress = (fraction: number) => {
          touch(fraction);
          run.progress(fraction);
        };
        return fill(created, dump, { ...run, signal, progress, touch });
      });
    return slotsOn(created.serverId)
      .take(accountId, watched, run.signal)
      .catch((error) => {
        throw error instanceof Stalled ? errors.importStalled(error.time, error) : error;
      })
      .catch(orFull(hint));
  };

  /** A dump that has arrived. A job that is cancelled while it waits does not get to it. */
  const startWith = (caller: AccountCaller, input: CreateProject, spool: Spool, free: LeaveSlot) => {
    if (spool.size === 0) throw errors.brokenDump('the dump is empty');
    const end = () => {
      free();
      spool.close().catch(deps.onError);
    };
    return start(caller.accountId, input, async () => spool, end, { issuer: caller });
  };

  /** The project exists only with its job. */
  const start = async (
    accountId: string,
    input: CreateProject,
    source: Source,
    free: LeaveSlot,
    origin: BranchOrigin | { issuer: Caller },
  ) => {
    const id = newId();
    const isBranch = 'parentId' in origin;
    const kind = isBranch ? 'branch' : 'import';
    const created = await createProject(deps, accountId, input, { filledBy: id, ...origin });
    const { project, apiKey } = created;
    const maxUnpackedBytes = isBranch
      ? ownUnpackedBytes
      : unpackedDumpFactor * project.limit_mb * mb + extraDumpBytes;
    try {
      const job = await jobs.start({ id, kind, accountId, projectId: project.id }, async (run) => {
        try {
          return await fillInTurn(accountId, created, { source, maxUnpackedBytes }, run, hints[kind]);
        } finally {
          free();
        }
      });
      return { project, apiKey, job };
    } catch (error) {
      await dropFilledProjects({ control, servers }, id).catch(deps.onError);
      throw error;
    }
  };

  return {
    spool: (limitMb, pieces) => fillSpool(spoolOptions(limitMb), pieces),
    load: (accountId, created, spool, run) => {
      const dump = { source: async () => spool, maxUnpackedBytes: ownUnpackedBytes };
      return fillInTurn(accountId, created, dump, run, hints.restore).finally(() => spool.close());
    },
    uploads: {
      list: uploads.list,
      get: uploads.get,
      remove: uploads.remove,
      create: async (accountId, { bytes, ...input }) => {
        const maxBytes = maxSpoolBytes(limitOf(input));
        if (bytes !== undefined && bytes > maxBytes) throw errors.dumpTooLarge(Math.floor(maxBytes / mb));
        return uploads.create(accountId, bytes ?? maxBytes);
      },
      append: (accountId, id, offset, body) =>
        arrivals.count(accountId, () => uploads.append(accountId, id, offset, body)),
    },
    fromUpload: async (caller, input, body) => {
      const limitMb = limitOf(input);
      const free = places.enter(caller.accountId);
      let spool: Spool | null = null;
      try {
        spool = await arrivals.count(caller.accountId, () =>
          fillSpool(spoolOptions(limitMb), checkFirstBytes(atPace(body, pace))),
        );
        return await startWith(caller, input, spool, free);
      } catch (error) {
        free();
        await spool?.close();
        throw error;
      }
    },
    fromStored: async (caller, input, id, bytes) => {
      const maxBytes = maxSpoolBytes(limitOf(input));
      if (bytes > maxBytes) throw errors.dumpTooLarge(Math.floor(maxBytes / mb));
      const free = places.enter(caller.accountId);
      let taken: Taken | null = null;
      try {
        taken = await uploads.take(caller.accountId, id, bytes);
        const started = await startWith(caller, input, taken.spool, free);
        await taken.drop().catch(deps.onError);
        return started;
      } catch (error) {
        free();
        await taken?.spool.close();
        await taken?.putBack();
        throw error;
      }
    },
    fromServer: async (caller, input, from) => {
      const limitMb = limitOf(input);
      const remote = readRemote(from);
      const free = places.enter(caller.accountId);
      const source: Source = async ({ signal, touch }) =>
        fillSpool(spoolOptions(limitMb), touching(dumpRemote(remote, allowPrivateHosts, signal), touch));
      try {
        return await start(caller.accountId, input, source, free, { issuer: caller });
      } catch (error) {
        free();
        throw error;
      }
    },
    fromParent: async (accountId, input, origin, pieces) => {
      const limitMb = limitOf(input);
      const free = places.enter(accountId);
      const source: Source = ({ signal, touch }) =>
        fillSpool(spoolOptions(limitMb), touching(pieces(signal), touch));
      try {
        return await start(accountId, input, source, free, origin);
      } catch (error) {
        free();
        throw error;
      }
    },
  };
}

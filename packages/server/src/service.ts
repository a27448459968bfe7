// Wires the parts of the service together, for a given address of PostgreSQL. main.ts and the tests start and stop it: the order of
// start and stop is in main.ts.
import { randomUUID } from 'node:crypto';
import type { Logger } from 'pino';
import type { UserDeps } from './access/end-users/deps.ts';
import { refreshTokenKey } from './access/end-users/refresh-tokens.ts';
import { openUserStore } from './access/end-users/store.ts';
import { openVerifiedTokens } from './access/end-users/verified-tokens.ts';
import { type DeliveryConfig, openDelivery } from './access/mail/delivery.ts';
import { openHashing } from './access/passwords/hashing.ts';
import { openPeopleMail } from './access/people/mail.ts';
import { mailBackupNews } from './access/people/operators.ts';
import { relyingPartyOf } from './access/people/passkeys.ts';
import { openProvider, type ProviderConfig } from './access/people/provider.ts';
import { startBackground } from './background/background.ts';
import type { BackupOptions } from './backups/backups.ts';
import { openDrills } from './backups/check/drills.ts';
import { openFleetBackups } from './backups/fleet-backups.ts';
import { openFleetKeeper } from './backups/fleet-keeper.ts';
import type { NotBackedUp } from './backups/problem.ts';
import type { RestoreDeps } from './backups/restore/deps.ts';
import { openRestores } from './backups/restore/restores.ts';
import type { BranchDeps } from './branches/deps.ts';
import { openServerTurns } from './branches/server-turns.ts';
import { followChanges } from './control/change-feed.ts';
import { openControl } from './control/control.ts';
import { keepSetting } from './control/settings.ts';
import type { Deps } from './http/deps.ts';
import { openIdempotency } from './jobs/idempotency.ts';
import { openJobs } from './jobs/jobs.ts';
import { openAccountRates } from './keys/account-rates.ts';
import { openKeyRing } from './keys/verify.ts';
import { openLater } from './lib/later.ts';
import { serverBackupGauges } from './metrics/backups.ts';
import { backgroundGauges, serverGauges, serviceCounters, serviceGauges } from './metrics/metrics.ts';
import { openProjectLog } from './metrics/project-log.ts';
import type { Counters, Gauges, LabelledGauges } from './metrics/registry.ts';
import type { MoveDeps } from './moves/move.ts';
import { locateProject } from './moves/rows.ts';
import type { Address } from './postgres/admin/database.ts';
import type { PublicAddress } from './postgres-proxy/public-address.ts';
import { openLogins } from './projects/logins.ts';
import { openUpgrades } from './projects/upgrade.ts';
import { openDistrustedTables } from './query/distrusted-tables.ts';
import { stopSession } from './query/exchange/statement-deadline.ts';
import { openInsertBounds } from './query/insert-bounds.ts';
import { lookUp } from './query/look-up.ts';
import { type Connections, poolLimitsOf } from './query/sessions/pool-limits.ts';
import { openProjectSessions } from './query/sessions/project-sessions.ts';
import { countTraces } from './query/sessions/session-audit.ts';
import { openStatementProfiles } from './query/sessions/statement-profiles.ts';
import { openGroupCommit } from './query/sharing/group-commit.ts';
import { openPipelines } from './query/sharing/pipelines.ts';
import { startParser } from './query/statement/parser.ts';
import { countUnshared } from './query/unshared.ts';
import { openDiskRelief } from './quotas/direct/disk-relief.ts';
import { openHeadroom } from './quotas/headroom.ts';
import { openCompactions } from './quotas/reclaiming/compact.ts';
import { openReclaim } from './quotas/reclaiming/reclaim.ts';
import { countRefusals, openUsageLooks } from './quotas/usage.ts';
import { openWriterQueue } from './quotas/writer-queue.ts';
import { openBackendPriority } from './servers/embedded/backend-priority.ts';
import { openDiskWatch } from './servers/embedded/disk.ts';
import { clusterFolderOf } from './servers/embedded/embedded.ts';
import { checkMasterKey } from './servers/embedded/master-key-fit.ts';
import { openFleet } from './servers/fleet.ts';
import { type OwnPostgres, openSurvivors } from './servers/guards/survivors.ts';
import { openTerminations } from './servers/guards/terminations.ts';
import { openServer, registerFirst, type Server } from './servers/server.ts';
import { version } from './settings/version.ts';
import { followContents } from './tables/known-contents.ts';
import { openTableCache } from './tables/table-cache.ts';
import { type ExportLimits, openExports } from './transfer/export/export.ts';
import type { ProgramEnvironment } from './transfer/export/native.ts';
import { type ImportOptions, openImports } from './transfer/import/import.ts';

export type Service = {
  deps: Deps;
  gauges: Gauges;
  counters: Counters;
  serverGauges: LabelledGauges;
  /** Those of `gauges` that workers cannot read. */
  backgroundGauges: Gauges;
  backgroundServerGauges: LabelledGauges;
  stop(): Promise<void>;
};

type Options = {
  address: Address;
  serverName: string;
  controlDatabase: string;
  masterKey: Buffer;
  spares: number;
  /** The data folder, if it is on this machine. */
  disk?: { folder: string; reserveBytes: number | null };
  embedded?: OwnPostgres;
  /** Whether this process may do the background work. */
  background: boolean;
  limits: { maxLimitMb: number; keepDeletedDays: number; maxTimeoutMs: number; auditDays?: number };
  connections: Connections;
  users: { passwordIterations: number; hashingSlots?: number; delivery: DeliveryConfig };
  exports?: { programs?: ProgramEnvironment; limits?: ExportLimits };
  imports: ImportOptions;
  /** Where the PostgreSQL proxy is reached, if there is one. */
  proxy?: PublicAddress | null;
  /** Where a browser opens the console. */
  consolePage?: string | null;
  /** With whom else people sign in to the console. */
  provider?: ProviderConfig | null;
  /** Without it, backups are off. */
  backups?: BackupOptions;
  /** Where single projects can be restored. `isExternal`: the first server is not the embedded one. */
  restores?: { dataFolder: string; isExternal?: boolean; stallMs?: number };
  now?: () => number;
  log: Logger;
};

/** The control database must have been prepared (prepareControl). */
export async function openService(options: Options): Promise<Service> {
  const { address, masterKey, limits, log, now = Date.now } = options;
  const control = openControl(address, options.controlDatabase);
  await checkMasterKey(control, masterKey);
  const installation = await keepSetting(control, 'installation', randomUUID());
  const server = await openServer({
    ...(await registerFirst(control, options.serverName)),
    control,
    holdsControl: true,
    address,
    masterKey,
    installation,
  });
  const onError = (error: unknown) => log.error({ err: error }, 'background work failed');
  const disk = openDiskWatch({ folder: null, reserveBytes: null, ...options.disk, onError });
  const noDisk = openDiskWatch({ folder: null, reserveBytes: null, onError });
  /** Only the disk of this machine is visible. */
  const diskOf = (serverId: number) => (serverId === server.id ? disk : noDisk);
  const feed = followChanges(control);
  const servers = await openFleet({
    control,
    feed,
    first: server,
    masterKey,
    onError,
    wantedSpares: ({ id }) => (diskOf(id).isLow() ? 0 : options.spares),
    loadOf: (serverId) => sessions.loadOf(serverId),
    onOpen: ({ name, version: postgres, findings }) => {
      log.info({ server: name, postgres }, 'a server was opened');
      for (const finding of findings) log.warn({ server: name, ...finding }, 'a server lacks a guard');
    },
  });
  const compactions = openCompactions({ control, servers, diskOf, onError });
  const keyRing = openKeyRing({ control, feed, masterKey, now, onError });
  const logins = openLogins(control, feed);
  const idempotency = openIdempotency({ control, masterKey, now, onError });
  const upgrades = openUpgrades({ control, servers });
  const jobs = openJobs({ control, servers, onError });
  const exports = openExports({
    control,
    servers,
    ensureCurrent: upgrades.ensure,
    onError,
    ...options.exports,
  });
  const parser = startParser();
  const { budget, share, processes = 1 } = options.connections;
  const limitsOf = poolLimitsOf(servers, options.connections);
  const survivors = openSurvivors(server, options.embedded, log);
  const terminations = openTerminations(servers, survivors);
  const traces = countTraces();
  const unshared = countUnshared(log);
  const profiles = openStatementProfiles(() => sessions.counts().open);
  const sessions = openProjectSessions(servers, upgrades.ensure, limitsOf, {
    terminations,
    locate: (projectId) => locateProject(control, projectId),
    onTraces: (projectId, source, found) => {
      traces.count(source);
      profiles.suspect(projectId);
      log.error({ project: projectId, found }, 'a statement left state behind in a shared session');
    },
  });
  feed.listenToHolds(sessions.gate.follow);
  const pipelines = openPipelines(sessions, Math.min(share, budget));
  const groupCommit = openGroupCommit(sessions);
  const { findDatabase } = sessions;
  const headroom = openHeadroom({
    control,
    servers,
    feed,
    findDatabase,
    isDiskLow: disk.isLow,
    onError,
    ownPids: sessions.pidsOf,
  });
  const distrusted = openDistrustedTables({ control, servers, pidsOf: sessions.pidsOf }, log);
  const insertBounds = openInsertBounds(
    (project, text, params) => lookUp({ sessions, profiles }, project, text, params, { readOnly: true }),
    distrusted,
  );
  const imports = openImports({ control, servers, jobs, headroom, disk, limits, onError }, options.imports);
  const relief = options.disk
    ? openDiskRelief({ server, disk, stop: stopSession, onError })
    : { stop: async () => {} };
  const refusals = countRefusals();
  const reclaim = openReclaim({ servers, headroom, terminations, onError });
  terminations.listen((project) => void reclaim.run(project));
  const onSlotLost = ({ name }: Server) =>
    log.error(
      { server: name },
      'WAL WAS LOST FOR BACKUPS: the storage was unavailable for so long that PostgreSQL gave up the replication slot, to keep the disk from filling up. Times since then cannot be restored until the next full backup is complete. It begins now',
    );
  const { dataFolder, isExternal } = { dataFolder: null, isExternal: false, ...options.restores };
  const onDataDisk = isExternal ? null : dataFolder;
  const backups = options.backups
    ? openFleetBackups({ control, servers, dataFolder: onDataDisk, now, onSlotLost }, options.backups)
    : null;
  const writerQueue = openWriterQueue();
  feed.listen(({ projectId }) => {
    if (projectId !== null) writerQueue.open(projectId);
  });
  const { warm } = sessions;
  const admission = { headroom, writerQueue, reclaim, warm, onRefused: refusals.count };
  const query = {
    sessions,
    parser,
    profiles,
    pipelines,
    groupCommit,
    insertBounds,
    unshared,
    admission,
  };
  const tableCache = openTableCache();
  const forgetContents = followContents({ feed, servers, sessions, headroom, profiles, tableCache, log });
  const branches: BranchDeps = {
    control,
    servers,
    diskOf,
    exports,
    imports,
    gate: sessions.gate,
    limits,
    now,
    onError,
    inTurn: openServerTurns(control),
    ensureCurrent: upgrades.ensure,
    forget: (projectId) => {
      logins.forget(projectId);
      forgetContents(projectId);
    },
  };
  const moves: MoveDeps = {
    control,
    servers,
    jobs,
    imports,
    gate: sessions.gate,
    inTurn: branches.inTurn,
    onError,
    ensureCurrent: branches.ensureCurrent,
    forget: branches.forget,
    setHome: sessions.homes.set,
  };
  /** The disk on which restored servers run. PostgreSQL itself may be on another machine. */
  const workDisk =
    isExternal && dataFolder !== null
      ? openDiskWatch({ folder: dataFolder, reserveBytes: null, onError })
      : disk;
  const restoreDeps: RestoreDeps = {
    control,
    servers,
    jobs,
    imports,
    backups,
    branches,
    limits,
    now,
    onError,
    dataFolder,
    disk: workDisk,
    isEmbedded: !isExternal,
    stallMs: options.restores?.stallMs,
    ...(options.exports?.programs && { programs: options.exports.programs }),
  };
  const restores = openRestores(restoreDeps);
  if (options.background) await restores.tidy().catch(onError);
  const delivery = openDelivery(options.users.delivery);
  // Mail has a queue of its own: requests for mail, which anybody can send, must not displace entries of the audit log.
  const mailLater = openLater(onError);
  const peopleMail = openPeopleMail(delivery, options.consolePage ?? null, mailLater);
  const tell = (name: string, problem: NotBackedUp | null) =>
    void mailBackupNews({ control, mail: peopleMail, onError }, { server: name, problem });
  const keeper = backups && options.background ? openFleetKeeper({ backups, servers, now, tell }, log) : null;
  const drills =
    backups && dataFolder !== null ? openDrills(restoreDeps, { dataFolder, backups }, log) : null;
  const shared = { control, servers, reclaim, terminations };
  const background = options.background
    ? startBackground({ ...shared, upgrades, limits, now, backups: keeper, drills }, log)
    : null;
  const later = openLater(onError);
  const backendPriority = openBackendPriority(onDataDisk === null ? null : clusterFolderOf(onDataDisk));
  const hashing = openHashing({
    iterations: options.users.passwordIterations,
    onBegin: backendPriority.lower,
    ...(options.users.hashingSlots && { slots: options.users.hashingSlots }),
    onError,
  });
  const users: UserDeps = {
    control,
    query,
    hashing,
    keyRing,
    tokens: openVerifiedTokens(keyRing, now),
    delivery,
    now,
    onError,
    store: openUserStore(query),
    refreshKey: refreshTokenKey(masterKey),
  };
  const usageLooks = openUsageLooks(servers);
  const deps: Deps = {
    control,
    server,
    servers,
    disk,
    compactions,
    exports,
    imports,
    branches,
    moves,
    jobs,
    backups,
    drills,
    restores,
    keyRing,
    rates: openAccountRates(now, processes),
    logins,
    masterKey,
    query,
    tables: { query, cache: tableCache },
    users,
    idempotency,
    usageLooks,
    projectLog: openProjectLog(now),
    countRefused: refusals.count,
    proxy: options.proxy ?? null,
    later,
    peopleMail,
    relyingParty: relyingPartyOf(options.consolePage ?? null),
    provider:
      options.provider && options.consolePage
        ? openProvider({ control, masterKey, now }, options.provider, options.consolePage)
        : null,
    limits,
    now,
    log,
    version,
  };
  const ownGauges = background ? backgroundGauges(background, keeper, drills, now) : {};
  const ownServerGauges = keeper ? serverBackupGauges(keeper, now) : {};
  return {
    deps,
    gauges: {
      ...serviceGauges({ control, servers, sessions, survivors, hashing, disk, distrusted }),
      ...ownGauges,
    },
    serverGauges: { ...serverGauges(servers, sessions), ...ownServerGauges },
    counters: serviceCounters({
      refusals: refusals.counts,
      traces: traces.counts,
      unshared: unshared.counts,
    }),
    backgroundGauges: ownGauges,
    backgroundServerGauges: ownServerGauges,
    stop: async () => {
      await background?.stop();
      headroom.stop();
      await jobs.stop();
      await exports.stop();
      backups?.close();
      await compactions.stop();
      disk.stop();
      workDisk.stop();
      await relief.stop();
      await hashing.stop();
      backendPriority.stop();
      await later.stop();
      await mailLater.stop();
      await delivery.stop();
      await sessions.end();
      survivors.stop();
      await terminations.stop();
      await reclaim.stop();
      await upgrades.stop();
      await parser.stop();
      await feed.stop();
      await keyRing.stop();
      await idempotency.stop();
      await usageLooks.stop();
      await servers.stop();
      await control.end();
    },
  };
}

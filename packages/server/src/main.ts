// Starts the service: environment → config → engine → app → listen. Stops it in reverse order on a signal.
import { availableParallelism } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import type { FastifyInstance } from 'fastify';
import type { Logger } from 'pino';
import {
  accountId,
  accountKeyProblem,
  ensureAccount,
  type MadeKeys,
  operatorKeyProblem,
} from './accounts/first-account.ts';
import { refuseAdopted } from './adoption/mark.ts';
import { buildApp, buildMetricsApp } from './app.ts';
import { backupLocation, type Config, ConfigError, consoleUrl, readConfig, urlOf } from './config.ts';
import { prepareControl } from './control/control.ts';
import { lockDataFolder, openDataFolder } from './engine/data-folder.ts';
import {
  clusterFolderOf,
  type Embedded,
  embeddedAddress,
  makeRoomToStart,
  refuseInterruptedRestore,
  startEmbedded,
} from './engine/embedded.ts';
import { connectionsByMemory, incrementalBackups, machineMemoryMb } from './engine/embedded-settings.ts';
import { EngineError } from './engine/engine-error.ts';
import { checkExternal, parseDatabaseUrl } from './engine/external.ts';
import { openMasterKey, proveMasterKey, recordMasterKey, requireMasterKey } from './engine/master-key-fit.ts';
import { RowhouseError } from './errors.ts';
import { hostNames } from './fleet/rows.ts';
import { createMetrics, type Metrics } from './http/metrics.ts';
import { openLog, withoutSecrets } from './log.ts';
import { proxyCounters, proxyGauges, restartGauges } from './metrics/metrics.ts';
import { createRegistry } from './metrics/registry.ts';
import { createLink, linkMinutes } from './people/links.ts';
import type { Address } from './postgres/database.ts';
import { MigrationError } from './postgres/migrations.ts';
import { isPublicHostMissing, publicAddress } from './postgres-proxy/public-address.ts';
import { listenForPostgres, openProxyFor, tlsFilesOf } from './postgres-proxy/start.ts';
import { openService, type Service } from './service.ts';
import { version } from './version.ts';
import { isWorker, sharedMetrics, startWorkers, tellReady, whenTold } from './workers.ts';

// Once V8 considers the objects of an allocation site long-lived, it allocates them in the old generation, and everything
// that they reference stays alive for seconds. A few long requests decided this for all later ones: every third byte
// survived, a collection took 7 ms instead of 1, and the slowest responses took three times as long.
setFlagsFromString('--no-allocation-site-pretenuring');

const finishMs = 15_000;
const say = (line = '') => process.stdout.write(`${line}\n`);

/** How to stop what was started, in the order of the start. Stopping runs backwards. */
const started: (() => Promise<void> | void)[] = [];
let stopping: Promise<void> | null = null;
let isAnnounced = false;
/** Requests are served, and `/readyz` says that they should go elsewhere. */
let isDraining = false;
let drainSeconds = 0;
let drainWorkers = () => {};
const interrupted = new AbortController();

async function start(): Promise<void> {
  const config = readConfig(process.env, process.cwd());
  const problem = accountKeyProblem(config.accountKey) ?? operatorKeyProblem(config.operatorKey);
  if (problem) throw new ConfigError([problem]);
  drainSeconds = config.drainSeconds;
  // The command line or the first process started this one: when it ends, this process ends too.
  if (process.connected) process.on('disconnect', stopAndExit);
  if (isWorker) await startWorker(config);
  else await startFirst(config);
}

/** The first process, which is usually the only one. */
async function startFirst(config: Config): Promise<void> {
  openDataFolder(config.dataFolder);
  if (!config.databaseUrl) makeRoomToStart(config.dataFolder);
  const lock = lockDataFolder(config.dataFolder, urlOf(config.host, config.port));
  started.push(lock.release);
  if (config.databaseUrl) await checkExternal(parseDatabaseUrl(config.databaseUrl));
  else refuseInterruptedRestore(config.dataFolder);
  const masterKey = await openMasterKey(config);
  if (!config.databaseUrl) await refuseAdopted(config.dataFolder, masterKey);
  const log = openLog(config);
  const { address, embedded } = await startEngine(config, masterKey, log);
  if (embedded) await proveMasterKey(config, address, masterKey);
  await prepareControl(address, config.controlDatabase);
  const service = await openFor(config, address, masterKey, log, { background: true });
  started.push(service.stop);
  const restarts = restartGauges(embedded);
  if (config.postgresPort !== null) tlsFilesOf(config, { make: true });
  if (embedded) record(config, masterKey, log);

  let url: string;
  let announce = async () => {};
  if (config.workers === 1) {
    const { proxy, ...own } = openProxy(config, service, log);
    const metrics = createMetrics(
      { ...service.gauges, ...own.gauges, ...restarts },
      own.counters,
      service.serverGauges,
    );
    url = await listen(config, service, metrics);
    if (proxy) await listenForPostgres(config, proxy);
    if (config.metricsPort) await listenForMetrics(config, metrics);
  } else {
    const onEvent = (event: string, details: object) => log.warn(details, event);
    // What only this process knows; all else comes from the workers.
    const own = createRegistry(
      { ...service.backgroundGauges, ...restarts },
      {},
      service.backgroundServerGauges,
    );
    const workers = await startWorkers({ count: config.workers, own, onEvent });
    started.push(workers.stop);
    announce = workers.announce;
    drainWorkers = workers.drain;
    url = urlOf(config.host, config.port);
    if (config.metricsPort) {
      await listenForMetrics(config, { contentType: own.contentType, text: workers.metrics });
    }
  }
  lock.setAddress(url);
  await ensureAccount(service.deps.control, config, (made) => greet(config, service, embedded, url, made));
  // The key is printed before /readyz answers 200.
  isAnnounced = true;
  await announce();
  say('ready');
  log.info({ url, version, postgres: service.deps.server.version }, 'ready');
}

/** One of several API processes. The first process runs PostgreSQL, the migrations and the background work. */
async function startWorker(config: Config): Promise<void> {
  const masterKey = requireMasterKey(config);
  const log = openLog(config);
  const address = config.databaseUrl
    ? parseDatabaseUrl(config.databaseUrl)
    : embeddedAddress(config.dataFolder, masterKey);
  const service = await openFor(config, address, masterKey, log, { background: false });
  started.push(service.stop);
  const { proxy, ...own } = openProxy(config, service, log);
  const metrics = createMetrics({ ...service.gauges, ...own.gauges }, own.counters, service.serverGauges);
  whenTold({
    announced: () => {
      isAnnounced = true;
    },
    draining: () => {
      isDraining = true;
    },
    stop: stopAndExit,
  });
  await listen(config, service, { ...metrics, text: sharedMetrics(metrics.registry) });
  if (proxy) await listenForPostgres(config, proxy);
  tellReady();
}

async function startEngine(
  config: Config,
  masterKey: Buffer,
  log: Logger,
): Promise<{ address: Address; embedded: Embedded | null }> {
  if (config.databaseUrl) {
    return { address: parseDatabaseUrl(config.databaseUrl), embedded: null };
  }
  const onEvent = (event: string, details: object) => log.warn(details, event);
  const embedded = await startEmbedded({
    dataFolder: config.dataFolder,
    masterKey,
    connections: keptConnections(config) + (config.postgresPort === null ? 0 : config.postgresConnections),
    say,
    onEvent,
    interrupted: interrupted.signal,
    reserveBytes: diskOf(config).reserveBytes,
    ...(backupLocation(config) && { more: incrementalBackups }),
  });
  started.push(embedded.stop);
  return { address: embedded.address, embedded };
}

/** For later starts and for doctor. On a full disk the service works without it. */
function record(config: Config, masterKey: Buffer, log: Logger): void {
  try {
    recordMasterKey(config.dataFolder, masterKey);
  } catch (error) {
    log.warn({ err: error }, 'the check value of the master key could not be written');
  }
}

function openFor(
  config: Config,
  address: Address,
  masterKey: Buffer,
  log: Logger,
  role: { background: boolean },
) {
  return openService({
    address,
    serverName: config.databaseUrl ? 'external' : 'embedded',
    controlDatabase: config.controlDatabase,
    masterKey,
    spares: config.spares,
    ...(!config.databaseUrl && { disk: diskOf(config) }),
    restores: { dataFolder: config.dataFolder, isExternal: config.databaseUrl !== null },
    ...backupOptions(config),
    consolePage: consoleUrl(config, urlOf(config.host, config.port)),
    limits: {
      maxLimitMb: config.maxLimitMb,
      keepDeletedDays: config.keepDeletedDays,
      auditDays: config.auditDays,
      maxTimeoutMs: config.maxTimeoutMs,
    },
    // Each worker gets its share.
    connections: {
      budget: Math.max(1, Math.floor(config.connections / config.workers)),
      kept: Math.max(1, Math.floor(keptConnections(config) / config.workers)),
      share: Math.max(1, Math.ceil(config.projectConnections / config.workers)),
      processes: config.workers,
    },
    users: {
      passwordIterations: config.passwordIterations,
      hashingSlots: Math.max(1, Math.floor(availableParallelism() / config.workers)),
      delivery: config,
    },
    proxy: publicAddress(config),
    exports: { programs: config.programEnvironment },
    imports: {
      folder: path.join(config.dataFolder, 'imports'),
      allowPrivateHosts: config.importPrivateHosts,
    },
    log,
    ...role,
  });
}

/** For an external server, it is unknown how many more connections it can serve. */
function keptConnections({ databaseUrl, connections, keptConnections: kept }: Config): number {
  const usual = databaseUrl ? connections : connectionsByMemory(machineMemoryMb());
  return Math.max(connections, kept ?? usual);
}

function backupOptions(config: Config) {
  const location = backupLocation(config);
  const { backupDays: retentionDays, backupRateMb: rateMb } = config;
  return (
    location && {
      backups: {
        ...{ location, retentionDays, rateMb, reserveBytes: diskOf(config).reserveBytes },
        // The usual folder is on the disk of the first server, which may not have room for the others.
        onlyFirst: config.backup === null,
      },
    }
  );
}

function diskOf({ dataFolder, diskReserveMb }: Config) {
  const reserveBytes = diskReserveMb === null ? null : diskReserveMb * 1024 * 1024;
  return { folder: clusterFolderOf(dataFolder), reserveBytes };
}

/** The PostgreSQL proxy, if the settings ask for one, and its metrics. It does not listen yet. */
function openProxy(config: Config, { deps, counters }: Service, log: Logger) {
  const proxy = openProxyFor(config, { control: deps.control, servers: deps.servers, log });
  if (!proxy) return { proxy, gauges: {}, counters };
  started.push(proxy.stop);
  return { proxy, gauges: proxyGauges(proxy), counters: { ...counters, ...proxyCounters(proxy) } };
}

async function listen(config: Config, service: Service, metrics: Metrics): Promise<string> {
  const { corsOrigins, metricsPort } = config;
  const app = await buildApp(service.deps, {
    corsOrigins,
    metrics,
    metricsHere: metricsPort === null,
    trustedProxies: config.trustedProxies ?? [],
    isAnnounced: () => isAnnounced,
    isDraining: () => isDraining,
    console: config.console === 'on' ? { hosts: config.consoleHosts ?? [] } : null,
  });
  started.push(() => finishRequests(app));
  await listenOn(app, config.host, config.port, 'ROWHOUSE_PORT');
  const address = app.server.address();
  const port = typeof address === 'object' && address ? address.port : config.port;
  return urlOf(config.host, port);
}

async function listenForMetrics(
  config: Config,
  metrics: Pick<Metrics, 'text' | 'contentType'>,
): Promise<void> {
  const app = buildMetricsApp(metrics);
  started.push(() => app.close());
  await listenOn(app, config.host, config.metricsPort ?? 0, 'ROWHOUSE_METRICS_PORT');
}

async function listenOn(app: FastifyInstance, host: string, port: number, setting: string): Promise<void> {
  await app.listen({ host, port }).catch((error: NodeJS.ErrnoException) => {
    const hints: Record<string, string> = {
      EADDRINUSE: `Another program uses this port. Set ${setting} to another port, or stop that program.`,
      EACCES: `This port requires more privileges. Set ${setting} to a port above 1023.`,
      EADDRNOTAVAIL: 'This machine does not have this address. Set ROWHOUSE_HOST to one of its addresses.',
    };
    const hint = hints[error.code ?? ''];
    throw new EngineError(`Rowhouse cannot listen on ${host}:${port} (${error.code ?? error.message}).`, {
      ...(hint && { hint }),
    });
  });
}

/** Accepts no more requests, lets running ones finish, and closes the connections of those that do not. */
async function finishRequests(app: FastifyInstance): Promise<void> {
  const cut = setTimeout(() => app.server.closeAllConnections(), finishMs);
  // A connection becomes idle only when its last response is sent.
  const sweep = setInterval(() => app.server.closeIdleConnections(), 50);
  await app.close();
  clearTimeout(cut);
  clearInterval(sweep);
}

async function greet(
  config: Config,
  service: Service,
  embedded: Embedded | null,
  url: string,
  { account: key, operator }: MadeKeys,
): Promise<void> {
  const { server } = service.deps;
  const where = embedded
    ? `${config.dataFolder}${embedded.adopted ? ' (PostgreSQL was still running and is used again)' : ''}`
    : hostNames(server.address).join(', ');
  say(`Rowhouse ${version} on PostgreSQL ${server.version}`);
  say(`  address      ${url}`);
  say(`  docs         ${url}/docs`);
  await greetWithConsole(config, service, url, key !== null);
  const direct = publicAddress(config);
  if (direct) say(`  PostgreSQL   ${direct.host}:${direct.port}`);
  if (isPublicHostMissing(config)) {
    say('               Connection strings contain 127.0.0.1, which other machines cannot use.');
    say('               To fix it: set ROWHOUSE_PUBLIC_HOST to the name of this machine.');
  }
  say(`  data         ${where}`);
  const { backups } = service.deps;
  say(`  backups      ${backups ? backups.place : 'off'}`);
  if (backups?.isOnDataDisk) {
    say('               This is the disk of the data: if it is lost, so are the backups.');
    say('               To fix it: set ROWHOUSE_BACKUP_URL to another disk or to a bucket.');
  }
  // A copy of this file is all that is needed beside the backups, and the only thing that they do not contain.
  if (key && embedded && !config.masterKey) {
    say(`  master key   ${path.join(config.dataFolder, 'master.key')}`);
    say('               Backups cannot be read without it. Keep a copy on another machine.');
  }
  if (key) say(`  account key  ${key}   This key is shown only once. Store it now.`);
  if (operator) say(`  operator key ${operator}   The same holds for it. It manages accounts and servers.`);
  const { disk } = service.deps;
  const facts = disk.facts();
  if (facts && disk.isLow()) {
    const [free, reserve] = [facts.freeBytes, facts.reserveBytes].map((bytes) =>
      Math.floor(bytes / 1024 ** 2),
    );
    say(`  disk         only ${free} MB free, less than the reserve of ${reserve} MB: projects cannot grow.`);
    say('               To fix it: free disk space, or lower ROWHOUSE_DISK_RESERVE_MB.');
  }
  for (const { missing, risk, remedy } of server.findings) {
    say(`  warning      missing: ${missing}. Risk: ${risk}.`);
    say(`               To fix it: ${remedy}`);
  }
}

/**
 * The link signs in once. It is printed beside a new account key, which allows more, and to a terminal: other output may be
 * kept by a supervisor where more people can read it.
 */
async function greetWithConsole(
  config: Config,
  service: Service,
  url: string,
  isFirst: boolean,
): Promise<void> {
  const page = config.console === 'on' ? consoleUrl(config, url) : null;
  if (page === null) return;
  const code = isFirst || process.stdout.isTTY ? await createLink(service.deps, accountId) : null;
  say(`  console      ${page}${code === null ? '' : `#link=${code}`}`);
  if (code !== null) say(`               This link signs in once, within ${linkMinutes} minutes.`);
}

async function stopAll(): Promise<void> {
  for (let stop = started.pop(); stop; stop = started.pop()) {
    await Promise.resolve(stop()).catch((error) => process.stderr.write(`Error while stopping: ${error}\n`));
  }
}

/** On SIGTERM. It can come twice: from the command line, and from a supervisor that signals every process. */
function drainAndExit(): void {
  if (drainSeconds === 0 || !isAnnounced) return stopAndExit();
  if (isDraining) return;
  isDraining = true;
  drainWorkers();
  setTimeout(stopAndExit, drainSeconds * 1000);
}

/** On another signal, and when draining is over. A start in progress is interrupted first, so that nothing that it began is left behind. */
function stopAndExit(): void {
  const startEnded = Promise.race([starting.catch(() => {}), sleep(finishMs, undefined, { ref: false })]);
  stopping ??= startEnded.then(stopAll).then(() => process.exit(0));
  interrupted.abort();
}

async function fail(error: unknown): Promise<void> {
  if (stopping) return;
  process.stderr.write(`${explain(error)}\n`);
  stopping = stopAll();
  await stopping;
  process.exit(1);
}

function explain(error: unknown): string {
  if (error instanceof ConfigError) return ['Rowhouse cannot start:', ...error.problems].join('\n  ');
  if (error instanceof MigrationError) return `Rowhouse cannot start: ${error.message}`;
  if (error instanceof EngineError) {
    const lines = error.lines.map((line) => `  | ${line}`);
    return [error.message, ...lines, ...(error.hint ? [`→ ${error.hint}`] : [])].join('\n');
  }
  if (error instanceof RowhouseError && error.code === 'unavailable') {
    const cause = error.cause as { message?: string; code?: string; severity?: string } | undefined;
    const wrongPassword = cause?.code === '28P01' && cause.severity === 'FATAL';
    const hint = wrongPassword
      ? 'Check the user and the password in ROWHOUSE_DATABASE_URL.'
      : 'Check the address in ROWHOUSE_DATABASE_URL, and that the server is running.';
    return `PostgreSQL cannot be reached: ${cause?.message || cause?.code}\n→ ${hint}`;
  }
  return `Rowhouse cannot start: ${error instanceof Error ? (error.stack ?? error.message) : error}`;
}

process.on('SIGTERM', drainAndExit);
for (const signal of ['SIGINT', 'SIGHUP'] as const) process.on(signal, stopAndExit);
// The reader of a pipe may end first. Without these handlers each write would be an uncaught error, whose report is a write.
process.stdout.on('error', () => {});
process.stderr.on('error', () => {});
process.on('uncaughtException', (error) => {
  // An unexpected bug. Acknowledged changes are in PostgreSQL; the process supervisor restarts the service.
  process.stderr.write(
    `Rowhouse stops because of an internal error: ${withoutSecrets(error.stack ?? String(error))}\n`,
  );
  stopping ??= stopAll();
  void stopping.finally(() => process.exit(1));
});
const starting = start();
starting.catch(fail);

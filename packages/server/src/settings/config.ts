// Reads the settings that @rowhouse/api/settings declares: pure, typed, frozen. Every problem is reported at once; no invalid
// value silently becomes a default.

import { isIP } from 'node:net';
import path from 'node:path';
import { requirementOf, type Setting, type SettingName, settings } from '@rowhouse/api/settings';
import { isLoopback, isRange } from '../lib/networks.ts';
import { type BackupLocation, type Credentials, parseBackupUrl } from './backup-url.ts';
import { splitHosts } from './database-url.ts';

type Env = Readonly<Record<string, string | undefined>>;
type Declared<Name extends SettingName> = (typeof settings)[Name];
/** Returns null for an invalid value. */
type Parse<Name extends SettingName, T> = (text: string, setting: Declared<Name>) => T | null;

export type Config = Readonly<ReturnType<typeof readValues>>;

export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(problems.join('\n'));
    this.problems = problems;
  }
}

export function readConfig(env: Env, workingFolder: string): Config {
  const problems: string[] = [];
  const config = readValues(env, workingFolder, problems);
  problems.push(...conflictsIn(config, env), ...unknownIn(env));
  if (problems.length > 0) throw new ConfigError(problems);
  return Object.freeze(config);
}

/** null: off. An external server has backups only if they are asked for: it may be backed up by other means. */
export function backupLocation({ backup, databaseUrl, dataFolder }: Config): BackupLocation | null {
  if (backup === 'off' || (backup === null && databaseUrl)) return null;
  return backup ?? { kind: 'folder', folder: path.join(dataFolder, 'backups') };
}

/** The address of the service. `port`: the one in use, if the setting leaves the choice. */
export function urlOf(config: Pick<Config, 'host' | 'port' | 'tlsCert'>, port = config.port): string {
  const { host, tlsCert } = config;
  return `${tlsCert === null ? 'http' : 'https'}://${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/** Where a browser can open the console; null if it cannot, because only another machine reaches the service. */
export function consoleUrl({ host, consoleHosts }: Config, url: string): string | null {
  const [first] = consoleHosts ?? [];
  if (first !== undefined) return `https://${first}/console/`;
  if (host === '0.0.0.0' || host === '::') {
    const local = new URL('/console/', url);
    local.hostname = '127.0.0.1';
    return local.href;
  }
  return isLoopback(host) ? `${url}/console/` : null;
}

/** Whether other machines can reach the service without TLS. A proxy that is trusted has TLS of its own. */
export function isOpenWithoutTls({ host, tlsCert, trustedProxies }: Config): boolean {
  return !isLoopback(host) && tlsCert === null && (trustedProxies ?? []).length === 0;
}

/** With whom else people sign in to the console. null: nobody. */
export function providerIn({ oidcIssuer, oidcClientId, oidcClientSecret, oidcName, oidcDomains }: Config) {
  if (oidcIssuer === null || oidcClientId === null || oidcClientSecret === null) return null;
  return {
    issuer: oidcIssuer,
    clientId: oidcClientId,
    clientSecret: oidcClientSecret,
    name: oidcName,
    domains: oidcDomains ?? [],
  };
}

function readValues(env: Env, workingFolder: string, problems: string[]) {
  const value = <Name extends SettingName, T>(
    name: Name,
    parse: Parse<Name, T>,
  ): T | Declared<Name>['default'] => {
    const setting = settings[name];
    const given = env[name]?.trim();
    if (given === undefined) return setting.default;
    const parsed = parse(given, setting);
    if (parsed === null) problems.push(describeProblem(name, setting, given));
    return parsed ?? setting.default;
  };
  return {
    host: value('ROWHOUSE_HOST', text),
    port: value('ROWHOUSE_PORT', integer),
    tlsCert: value('ROWHOUSE_TLS_CERT', fileIn(workingFolder)),
    tlsKey: value('ROWHOUSE_TLS_KEY', fileIn(workingFolder)),
    postgresPort: value('ROWHOUSE_POSTGRES_PORT', integer),
    postgresHost: value('ROWHOUSE_POSTGRES_HOST', text),
    publicHost: value('ROWHOUSE_PUBLIC_HOST', hostName),
    postgresTlsCert: value('ROWHOUSE_POSTGRES_TLS_CERT', fileIn(workingFolder)),
    postgresTlsKey: value('ROWHOUSE_POSTGRES_TLS_KEY', fileIn(workingFolder)),
    postgresPlaintext: value('ROWHOUSE_POSTGRES_PLAINTEXT', boolean),
    postgresConnections: value('ROWHOUSE_POSTGRES_CONNECTIONS', integer),
    dataFolder: path.resolve(workingFolder, value('ROWHOUSE_DATA', text)),
    databaseUrl: value('ROWHOUSE_DATABASE_URL', databaseUrl),
    controlDatabase: value('ROWHOUSE_CONTROL_DATABASE', text),
    accountKey: value('ROWHOUSE_ACCOUNT_KEY', text),
    newAccountKey: value('ROWHOUSE_NEW_ACCOUNT_KEY', boolean),
    operatorKey: value('ROWHOUSE_OPERATOR_KEY', text),
    newOperatorKey: value('ROWHOUSE_NEW_OPERATOR_KEY', boolean),
    masterKey: value('ROWHOUSE_MASTER_KEY', masterKey),
    workers: value('ROWHOUSE_WORKERS', integer),
    drainSeconds: value('ROWHOUSE_DRAIN_SECONDS', integer),
    restartAfterSeconds: value('ROWHOUSE_RESTART_AFTER_SECONDS', integer),
    maxLimitMb: value('ROWHOUSE_MAX_LIMIT_MB', integer),
    diskReserveMb: value('ROWHOUSE_DISK_RESERVE_MB', integer),
    importPrivateHosts: value('ROWHOUSE_IMPORT_PRIVATE_HOSTS', boolean),
    spares: value('ROWHOUSE_SPARES', integer),
    connections: value('ROWHOUSE_CONNECTIONS', integer),
    keptConnections: value('ROWHOUSE_KEPT_CONNECTIONS', integer),
    projectConnections: value('ROWHOUSE_PROJECT_CONNECTIONS', integer),
    maxTimeoutMs: value('ROWHOUSE_MAX_TIMEOUT_MS', integer),
    keepDeletedDays: value('ROWHOUSE_KEEP_DELETED_DAYS', integer),
    auditDays: value('ROWHOUSE_AUDIT_DAYS', integer),
    backup: value('ROWHOUSE_BACKUP_URL', (url) => backupUrl(url, env, workingFolder)),
    backupDays: value('ROWHOUSE_BACKUP_DAYS', integer),
    backupRateMb: value('ROWHOUSE_BACKUP_RATE_MB', integer),
    corsOrigins: value('ROWHOUSE_CORS_ORIGINS', origins),
    trustedProxies: value('ROWHOUSE_TRUSTED_PROXIES', proxies),
    console: value('ROWHOUSE_CONSOLE', choice),
    consoleHosts: value('ROWHOUSE_CONSOLE_HOSTS', hosts),
    oidcIssuer: value('ROWHOUSE_OIDC_ISSUER', issuer),
    oidcClientId: value('ROWHOUSE_OIDC_CLIENT_ID', text),
    oidcClientSecret: value('ROWHOUSE_OIDC_CLIENT_SECRET', text),
    oidcName: value('ROWHOUSE_OIDC_NAME', text),
    oidcDomains: value('ROWHOUSE_OIDC_DOMAINS', domains),
    passwordIterations: value('ROWHOUSE_PASSWORD_ITERATIONS', integer),
    smtpUrl: value('ROWHOUSE_SMTP_URL', smtpUrl),
    mailFrom: value('ROWHOUSE_MAIL_FROM', mailAddress),
    webhookUrl: value('ROWHOUSE_WEBHOOK_URL', webhookUrl),
    webhookSecret: value('ROWHOUSE_WEBHOOK_SECRET', text),
    metricsPort: value('ROWHOUSE_METRICS_PORT', integer),
    metricsHost: value('ROWHOUSE_METRICS_HOST', text),
    logLevel: value('ROWHOUSE_LOG_LEVEL', choice),
    logTo: value('ROWHOUSE_LOG_TO', choice),
    requestLog: value('ROWHOUSE_REQUEST_LOG', choice),
    programEnvironment: programEnvironment(env),
  };
}

/**
 * For PostgreSQL's own programs. They get nothing else of the environment: the master key may be in it, and PG… variables
 * would change what is dumped.
 */
function programEnvironment(env: Env): Readonly<Record<string, string>> {
  const names = ['PATH', 'SystemRoot', 'LD_LIBRARY_PATH', 'TMPDIR'];
  return Object.fromEntries(names.flatMap((name) => (env[name] === undefined ? [] : [[name, env[name]]])));
}

function describeProblem(name: SettingName, setting: Setting, given: string): string {
  const shown = given.length > 60 ? `${given.slice(0, 60)}…` : given;
  return `${name} must be ${requirementOf(setting)}${setting.secret ? '' : `, not "${shown}"`}.`;
}

function conflictsIn(config: Config, env: Env): string[] {
  const problems: string[] = [];
  if (config.accountKey !== null && config.newAccountKey) {
    problems.push('ROWHOUSE_ACCOUNT_KEY and ROWHOUSE_NEW_ACCOUNT_KEY exclude each other. Set only one.');
  }
  if (config.operatorKey !== null && config.newOperatorKey) {
    problems.push('ROWHOUSE_OPERATOR_KEY and ROWHOUSE_NEW_OPERATOR_KEY exclude each other. Set only one.');
  }
  if (config.workers > 1 && config.port === 0) {
    problems.push('ROWHOUSE_PORT must not be 0 when ROWHOUSE_WORKERS is greater than 1.');
  }
  if ((config.tlsCert === null) !== (config.tlsKey === null)) {
    problems.push('ROWHOUSE_TLS_CERT and ROWHOUSE_TLS_KEY belong together. Set both.');
  }
  if ((config.postgresTlsCert === null) !== (config.postgresTlsKey === null)) {
    problems.push('ROWHOUSE_POSTGRES_TLS_CERT and ROWHOUSE_POSTGRES_TLS_KEY belong together. Set both.');
  }
  if (config.postgresPort !== null && [config.port, config.metricsPort].includes(config.postgresPort)) {
    problems.push('ROWHOUSE_POSTGRES_PORT must not be the port of another service. Set it to another port.');
  }
  if (config.backup !== null && config.backup !== 'off' && config.backup.kind === 's3') {
    const missing = ['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY'].filter((name) => !env[name]);
    if (missing.length > 0) problems.push(`ROWHOUSE_BACKUP_URL requires ${missing.join(' and ')}.`);
  }
  const oidc = {
    ROWHOUSE_OIDC_ISSUER: config.oidcIssuer,
    ROWHOUSE_OIDC_CLIENT_ID: config.oidcClientId,
    ROWHOUSE_OIDC_CLIENT_SECRET: config.oidcClientSecret,
  };
  const names = Object.keys(oidc);
  const unset = names.filter((name) => env[name] === undefined);
  if (unset.length > 0 && Object.values(oidc).some((value) => value !== null)) {
    problems.push(`${names.join(', ')} belong together. Set ${unset.join(' and ')}, too.`);
  }
  if (config.oidcIssuer !== null && consoleUrl(config, urlOf(config)) === null) {
    problems.push(
      'ROWHOUSE_OIDC_ISSUER requires ROWHOUSE_CONSOLE_HOSTS. Set it to the host name under which browsers open the console.',
    );
  }
  if (config.smtpUrl !== null && config.webhookUrl !== null) {
    problems.push('ROWHOUSE_SMTP_URL and ROWHOUSE_WEBHOOK_URL exclude each other. Set only one.');
  }
  if (config.smtpUrl !== null && env.ROWHOUSE_MAIL_FROM === undefined) {
    problems.push('ROWHOUSE_SMTP_URL requires ROWHOUSE_MAIL_FROM. Set it to the sender address.');
  }
  if (config.webhookUrl !== null && env.ROWHOUSE_WEBHOOK_SECRET === undefined) {
    problems.push(
      'ROWHOUSE_WEBHOOK_URL requires ROWHOUSE_WEBHOOK_SECRET. Set it to the secret that signs the requests.',
    );
  }
  return problems;
}

function unknownIn(env: Env): string[] {
  return Object.keys(env)
    .filter((name) => name.startsWith('ROWHOUSE_') && !(name in settings) && !notForTheService.has(name))
    .map((name) => `Unknown setting ${name}. Known settings: ${Object.keys(settings).join(', ')}.`);
}

/** The command line, the examples and the tests read these, possibly from the same environment. */
const notForTheService = new Set([
  'ROWHOUSE_URL',
  'ROWHOUSE_API_KEY',
  'ROWHOUSE_PROJECT',
  'ROWHOUSE_PROFILE',
  'ROWHOUSE_SERVER_URL',
  'ROWHOUSE_TEST_DATABASE_URL',
]);

function text(value: string, { pattern }: { type: 'text'; pattern?: RegExp }): string | null {
  return pattern && !pattern.test(value) ? null : value;
}

function integer(value: string, { min, max }: { type: 'integer'; min: number; max: number }): number | null {
  const number = Number(value);
  return /^\d{1,15}$/.test(value) && number >= min && number <= max ? number : null;
}

function boolean(value: string, _setting: { type: 'boolean' }): boolean | null {
  if (value === 'true' || value === '1') return true;
  return value === 'false' || value === '0' ? false : null;
}

function choice<T extends string>(value: string, { choices }: { choices: readonly T[] }): T | null {
  return choices.find((candidate) => candidate === value) ?? null;
}

function databaseUrl(value: string): string | null {
  return splitHosts(value) ? value : null;
}

function fileIn(folder: string) {
  return (value: string, setting: { type: 'text'; pattern: RegExp }): string | null =>
    text(value, setting) === null ? null : path.resolve(folder, value);
}

function hostName(value: string): string | null {
  const isName = /^(?=.{1,253}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/i.test(
    value,
  );
  return isName || isIP(value) ? value : null;
}

function masterKey(value: string, setting: { type: 'text'; pattern: RegExp }): Buffer | null {
  return text(value, setting) === null ? null : Buffer.from(value, 'hex');
}

function backupUrl(value: string, env: Env, workingFolder: string): BackupLocation | 'off' | null {
  if (value === 'off') return 'off';
  const location = parseBackupUrl(value, workingFolder);
  return location?.kind === 's3' ? { ...location, credentials: credentialsIn(env) } : location;
}

/** The names that Amazon's own tools use. */
function credentialsIn(env: Env): Credentials {
  return {
    accessKeyId: env.AWS_ACCESS_KEY_ID ?? '',
    secretAccessKey: env.AWS_SECRET_ACCESS_KEY ?? '',
    sessionToken: env.AWS_SESSION_TOKEN || null,
  };
}

function origins(value: string): '*' | readonly string[] | null {
  if (value === '*') return '*';
  if (value === 'none') return [];
  const found = value.split(',').map((entry) => {
    const url = parseUrl(entry.trim());
    return url && url.origin !== 'null' && url.href === `${url.origin}/` ? url.origin : null;
  });
  return found.every((origin) => origin !== null) ? found : null;
}

/** In the form that browsers send them: lower case, an IPv6 address in brackets. */
function hosts(value: string): readonly string[] | null {
  const found = value.split(',').map((entry) => {
    const [, bracketed, plain = '', port = ''] =
      /^(?:\[([^\]]+)\]|([^:/@\s]+))(:\d{1,5})?$/.exec(entry.trim()) ?? [];
    const host = bracketed ?? plain;
    if (hostName(host) === null || Boolean(bracketed) !== (isIP(host) === 6)) return null;
    const url = parseUrl(`https://${bracketed ? `[${host}]` : host}${port}`);
    return url && `${url.hostname}${port}`;
  });
  return found.every((host) => host !== null) ? found : null;
}

function proxies(value: string): readonly string[] | null {
  const entries = value.split(',').map((entry) => entry.trim());
  return entries.every((proxy) => proxy === 'loopback' || isRange(proxy)) ? entries : null;
}

function smtpUrl(value: string): string | null {
  const url = parseUrl(value);
  if (!url || !['smtp:', 'smtps:'].includes(url.protocol) || !/^([\w.-]+|\[.+\])$/.test(url.hostname)) {
    return null;
  }
  // Options after the host would be ignored, and a user without a password is a mistake.
  const isPlain = !url.search && !url.hash && ['', '/'].includes(url.pathname);
  const isComplete = Boolean(url.username) === Boolean(url.password);
  return isPlain && isComplete && canDecode(url.username, url.password) ? value : null;
}

/** An address, or a name followed by one. A name with punctuation could be read as a second address. */
function mailAddress(value: string): string | null {
  const address = String.raw`[^\p{C}\p{Z}<>()[\]\\,;:"@]+@[^\p{C}\p{Z}<>()[\]\\,;:"@]+`;
  const pattern = new RegExp(String.raw`^(?:${address}|[^\p{C}<>()[\]\\,;:"@]+ <${address}>)$`, 'u');
  return pattern.test(value) ? value : null;
}

/** HTTPS, or this machine. As the provider itself writes it: it is compared with what tokens say. */
function issuer(value: string): string | null {
  const url = parseUrl(value);
  if (!url || url.username || url.password || url.search || url.hash) return null;
  return url.protocol === 'https:' || (url.protocol === 'http:' && isLoopback(url.hostname)) ? value : null;
}

function domains(value: string): readonly string[] | null {
  const found = value.split(',').map((entry) => entry.trim().toLowerCase());
  return found.every((domain) => domain.includes('.') && hostName(domain) !== null && !isIP(domain))
    ? found
    : null;
}

function webhookUrl(value: string): string | null {
  const url = parseUrl(value);
  if (!url || !['http:', 'https:'].includes(url.protocol) || url.username || url.password || url.hash) {
    return null;
  }
  return value;
}

function parseUrl(value: string): URL | null {
  return URL.canParse(value) ? new URL(value) : null;
}

/** A stray % cannot be decoded. */
function canDecode(...parts: string[]): boolean {
  try {
    for (const part of parts) decodeURIComponent(part);
    return true;
  } catch {
    return false;
  }
}

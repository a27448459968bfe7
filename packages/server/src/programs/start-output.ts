// What a start and a stop print, and how a failed start is explained.
import path from 'node:path';
import { accountId, type MadeKeys } from '../access/accounts/first-account.ts';
import { createLink } from '../access/people/links.ts';
import { RowhouseError } from '../errors/errors.ts';
import { MigrationError } from '../postgres/admin/migrations.ts';
import { isPublicHostMissing, publicAddress } from '../postgres-proxy/public-address.ts';
import type { Embedded } from '../servers/embedded/embedded.ts';
import { EngineError } from '../servers/engine-error.ts';
import { hostNames } from '../servers/rows.ts';
import type { Service } from '../service.ts';
import { type Config, ConfigError, consoleUrl, isOpenWithoutTls } from '../settings/config.ts';
import { signInLinkMinutes } from '../settings/limits/people.ts';
import { lackedByNode, lackedByPostgres, nodeRemedy, remedyOf } from '../settings/security-fixes.ts';
import { version } from '../settings/version.ts';

export const say = (line = '') => process.stdout.write(`${line}\n`);

export async function greet(
  config: Config,
  service: Service,
  embedded: Embedded | null,
  url: string,
  { account: key, operator, isRefused }: MadeKeys,
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
  if (isOpenWithoutTls(config)) {
    say(
      '  warning      Other machines reach this address without TLS: keys and data are readable on the network.',
    );
    say(
      '               To fix it: set ROWHOUSE_TLS_CERT and ROWHOUSE_TLS_KEY. Or let a proxy with TLS connect to',
    );
    say('               127.0.0.1, or to this address if ROWHOUSE_TRUSTED_PROXIES names it.');
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
  if (isRefused) {
    say('  warning      ROWHOUSE_ACCOUNT_KEY is a key that somebody has revoked. It does not work.');
    say('               To fix it: set another key, or remove the setting. Other keys go on working.');
  }
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
  for (const [found, remedy] of missingFixes(server.version, embedded !== null)) {
    say(`  warning      ${found}.`);
    say(`               To fix it: ${remedy}`);
  }
  for (const { missing, risk, remedy } of server.findings) {
    say(`  warning      missing: ${missing}. Risk: ${risk}.`);
    say(`               To fix it: ${remedy}`);
  }
}

/** What the versions that run lack of the security fixes that this release knows. */
function missingFixes(version: string, isEmbedded: boolean): [found: string, remedy: string][] {
  const postgres = lackedByPostgres(version);
  const node = lackedByNode(process.versions.node, Date.now());
  return [
    ...(postgres ? [[postgres.found, remedyOf(postgres, isEmbedded)] as [string, string]] : []),
    ...(node ? [[node.found, nodeRemedy] as [string, string]] : []),
  ];
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
  if (code !== null) say(`               This link signs in once, within ${signInLinkMinutes} minutes.`);
}

export function explain(error: unknown): string {
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

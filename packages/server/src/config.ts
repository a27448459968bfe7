// The settings, read once: pure, typed, frozen. Every problem is reported at once; nothing falls back silently.
import { isIP } from 'node:net';
import path from 'node:path';

export type Config = Readonly<{
  host: string;
  port: number;
  dataFolder: string;
  databaseUrl: string | null;
  controlDatabase: string;
  accountKey: string | null;
  newAccountKey: boolean;
  masterKey: Buffer | null;
  workers: number;
  maxLimitMb: number;
  /** null: follows from the size of the disk. */
  diskReserveMb: number | null;
  spares: number;
  connections: number;
  /** null: follows from the memory. */
  keptConnections: number | null;
  projectConnections: number;
  maxTimeoutMs: number;
  keepDeletedDays: number;
  corsOrigins: '*' | readonly string[];
  trustedProxies: readonly string[] | null;
  passwordIterations: number;
  smtpUrl: string | null;
  mailFrom: string | null;
  webhookUrl: string | null;
  webhookSecret: string | null;
  metricsPort: number | null;
  logLevel: LogLevel;
  logTo: 'file' | 'stderr';
}>;

const logLevels = ['debug', 'info', 'warn', 'error'] as const;
export type LogLevel = (typeof logLevels)[number];

export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(problems.join('\n'));
    this.problems = problems;
  }
}

type Env = Readonly<Record<string, string | undefined>>;
/** `unset`: what holds without it, where the fallback does not say so. */
type Setting<T> = { fallback: T; about: string; read: (text: string) => T; unset?: string };

/** The whole list, in the order the documentation shows it. */
export const settings = {
  ROWHOUSE_HOST: text('127.0.0.1', 'Address the service listens on.'),
  ROWHOUSE_PORT: integer(8765, 0, 65_535, 'Port the service listens on; 0 picks a free one.'),
  ROWHOUSE_DATA: text('.rowhouse', 'Folder for the embedded PostgreSQL, the master key and logs.'),
  ROWHOUSE_DATABASE_URL: optional(databaseUrl, 'A PostgreSQL server of yours, instead of the embedded one.'),
  ROWHOUSE_CONTROL_DATABASE: {
    fallback: 'rowhouse',
    about: "Name of the service's own database.",
    read: matching(/^[a-z][a-z0-9_]{0,40}$/, '1 to 41 of a-z, 0-9 and _, beginning with a letter'),
  },
  ROWHOUSE_ACCOUNT_KEY: optional(
    (value) => value,
    'The account key, instead of one made at the first start.',
    'made at the first start',
  ),
  ROWHOUSE_NEW_ACCOUNT_KEY: boolean(false, 'Make and print a new account key; the old one ends.'),
  ROWHOUSE_MASTER_KEY: optional(
    masterKey,
    'Seals project keys: 64 hex digits. Made at the first start.',
    'made at the first start',
  ),
  ROWHOUSE_WORKERS: integer(1, 1, 64, 'API processes on this machine.'),
  ROWHOUSE_MAX_LIMIT_MB: integer(1_048_576, 1, 1_073_741_824, 'The highest limit_mb a project can have.'),
  ROWHOUSE_DISK_RESERVE_MB: optional(
    integer(0, 0, 1_073_741_824, '').read,
    'Room to leave on the disk of the embedded PostgreSQL: with less, nothing may grow. 0: none.',
    '1024, at most 32 MB and a sixteenth of the disk',
  ),
  ROWHOUSE_SPARES: integer(
    5,
    0,
    100,
    'Empty project databases kept ready, so that creating a project is fast.',
  ),
  ROWHOUSE_CONNECTIONS: integer(
    100,
    1,
    10_000,
    'Connections to project databases in use at a time, of all projects together.',
  ),
  ROWHOUSE_KEPT_CONNECTIONS: optional(
    integer(0, 1, 10_000, '').read,
    'Connections to project databases kept open, those in use among them: 3 MB of memory each.',
    'as many as fit into a half of the memory; on a server of yours, as many as are used',
  ),
  ROWHOUSE_PROJECT_CONNECTIONS: integer(10, 1, 1_000, 'Connections one project can have at a time.'),
  ROWHOUSE_MAX_TIMEOUT_MS: integer(
    300_000,
    100,
    86_400_000,
    'The longest timeout_ms a statement can ask for.',
  ),
  ROWHOUSE_KEEP_DELETED_DAYS: integer(7, 0, 3650, 'How long a deleted project can be restored.'),
  ROWHOUSE_CORS_ORIGINS: {
    fallback: '*' as '*' | string[],
    about: 'Web origins that may call the API: *, none, or a list with commas.',
    read: origins,
  },
  ROWHOUSE_TRUSTED_PROXIES: optional(
    proxies,
    'Proxies whose X-Forwarded-For is believed: addresses or ranges with commas, or loopback.',
  ),
  ROWHOUSE_PASSWORD_ITERATIONS: integer(
    600_000,
    100_000,
    10_000_000,
    "Rounds of PBKDF2 for users' passwords; older hashes follow at the next sign-in.",
  ),
  ROWHOUSE_SMTP_URL: optional(smtpUrl, 'Mail server that sends codes to users.'),
  ROWHOUSE_MAIL_FROM: optional(mailAddress, 'Address that mails to users come from.'),
  ROWHOUSE_WEBHOOK_URL: optional(webhookUrl, 'Gets the messages with codes, instead of a mail server.'),
  ROWHOUSE_WEBHOOK_SECRET: optional(
    matching(
      /^[\x21-\x7e]{16,1024}$/,
      '16 or more characters without blanks (openssl rand -hex 32 makes them)',
    ),
    'Signs what is sent to the webhook.',
  ),
  ROWHOUSE_METRICS_PORT: optional(integer(0, 1, 65_535, '').read, 'Serve /metrics on this port instead.'),
  ROWHOUSE_LOG_LEVEL: {
    fallback: 'info' as LogLevel,
    about: `One of ${logLevels.join(', ')}.`,
    read: oneOf(logLevels),
  },
  ROWHOUSE_LOG_TO: {
    fallback: 'file' as 'file' | 'stderr',
    about: 'file (logs/rowhouse.log in the data folder) or stderr.',
    read: oneOf(['file', 'stderr'] as const),
  },
} satisfies Record<string, Setting<unknown>>;

export function readConfig(env: Env, workingFolder: string): Config {
  const problems: string[] = [];
  const value = <Name extends keyof typeof settings>(name: Name) => {
    const setting = settings[name] as Setting<(typeof settings)[Name]['fallback']>;
    const given = env[name];
    if (given === undefined) return setting.fallback;
    try {
      return setting.read(given.trim());
    } catch (problem) {
      problems.push(`${name} must be ${(problem as Error).message}.`);
      return setting.fallback;
    }
  };
  const config: Config = {
    host: value('ROWHOUSE_HOST'),
    port: value('ROWHOUSE_PORT'),
    dataFolder: path.resolve(workingFolder, value('ROWHOUSE_DATA')),
    databaseUrl: value('ROWHOUSE_DATABASE_URL'),
    controlDatabase: value('ROWHOUSE_CONTROL_DATABASE'),
    accountKey: value('ROWHOUSE_ACCOUNT_KEY'),
    newAccountKey: value('ROWHOUSE_NEW_ACCOUNT_KEY'),
    masterKey: value('ROWHOUSE_MASTER_KEY'),
    workers: value('ROWHOUSE_WORKERS'),
    maxLimitMb: value('ROWHOUSE_MAX_LIMIT_MB'),
    diskReserveMb: value('ROWHOUSE_DISK_RESERVE_MB'),
    spares: value('ROWHOUSE_SPARES'),
    connections: value('ROWHOUSE_CONNECTIONS'),
    keptConnections: value('ROWHOUSE_KEPT_CONNECTIONS'),
    projectConnections: value('ROWHOUSE_PROJECT_CONNECTIONS'),
    maxTimeoutMs: value('ROWHOUSE_MAX_TIMEOUT_MS'),
    keepDeletedDays: value('ROWHOUSE_KEEP_DELETED_DAYS'),
    corsOrigins: value('ROWHOUSE_CORS_ORIGINS'),
    trustedProxies: value('ROWHOUSE_TRUSTED_PROXIES'),
    passwordIterations: value('ROWHOUSE_PASSWORD_ITERATIONS'),
    smtpUrl: value('ROWHOUSE_SMTP_URL'),
    mailFrom: value('ROWHOUSE_MAIL_FROM'),
    webhookUrl: value('ROWHOUSE_WEBHOOK_URL'),
    webhookSecret: value('ROWHOUSE_WEBHOOK_SECRET'),
    metricsPort: value('ROWHOUSE_METRICS_PORT'),
    logLevel: value('ROWHOUSE_LOG_LEVEL'),
    logTo: value('ROWHOUSE_LOG_TO'),
  };
  if (config.accountKey !== null && config.newAccountKey) {
    problems.push(
      'ROWHOUSE_ACCOUNT_KEY and ROWHOUSE_NEW_ACCOUNT_KEY contradict each other: set one of them.',
    );
  }
  if (config.workers > 1 && config.port === 0) {
    problems.push('ROWHOUSE_PORT must not be 0 with several workers.');
  }
  if (config.smtpUrl !== null && config.webhookUrl !== null) {
    problems.push('ROWHOUSE_SMTP_URL and ROWHOUSE_WEBHOOK_URL contradict each other: choose one of them.');
  }
  if (config.smtpUrl !== null && env.ROWHOUSE_MAIL_FROM === undefined) {
    problems.push('ROWHOUSE_SMTP_URL needs ROWHOUSE_MAIL_FROM: set the address that mails come from.');
  }
  if (config.webhookUrl !== null && env.ROWHOUSE_WEBHOOK_SECRET === undefined) {
    problems.push(
      'ROWHOUSE_WEBHOOK_URL needs ROWHOUSE_WEBHOOK_SECRET: set the secret that messages are signed with.',
    );
  }
  for (const name of Object.keys(env)) {
    if (name.startsWith('ROWHOUSE_') && !(name in settings) && !notForTheService.has(name)) {
      problems.push(`${name} is no setting of Rowhouse. There are: ${Object.keys(settings).join(', ')}.`);
    }
  }
  if (problems.length > 0) throw new ConfigError(problems);
  return Object.freeze(config);
}

/** How an address is written in a URL. */
export function urlOf(host: string, port: number): string {
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/** Read by the command line, the examples and the tests; they may stand in the same environment. */
const notForTheService = new Set([
  'ROWHOUSE_URL',
  'ROWHOUSE_API_KEY',
  'ROWHOUSE_PROJECT',
  'ROWHOUSE_TEST_DATABASE_URL',
]);

function text(fallback: string, about: string): Setting<string> {
  return { fallback, about, read: matching(/^[^\0]+$/, 'a text that is not empty') };
}

function integer(fallback: number, min: number, max: number, about: string): Setting<number> {
  return {
    fallback,
    about,
    read: (value) => {
      const number = Number(value);
      if (!/^\d{1,15}$/.test(value) || number < min || number > max) {
        throw new Error(`a whole number from ${min} to ${max}`);
      }
      return number;
    },
  };
}

function boolean(fallback: boolean, about: string): Setting<boolean> {
  const read = oneOf(['true', 'false', '1', '0'] as const);
  return { fallback, about, read: (value) => ['true', '1'].includes(read(value)) };
}

function optional<T>(read: (text: string) => T, about: string, unset = 'none'): Setting<T | null> {
  return { fallback: null, about, read, unset };
}

function matching(pattern: RegExp, description: string) {
  return (value: string) => {
    if (!pattern.test(value)) throw new Error(description);
    return value;
  };
}

function oneOf<const T extends string>(values: readonly T[]) {
  return (value: string): T => {
    const found = values.find((candidate) => candidate === value);
    if (!found) throw new Error(`one of ${values.join(', ')}`);
    return found;
  };
}

function databaseUrl(value: string): string {
  const url = URL.canParse(value) ? new URL(value) : null;
  if (!url || !['postgres:', 'postgresql:'].includes(url.protocol) || !url.hostname || !url.username) {
    throw new Error('an address like postgres://user:password@host:5432/postgres');
  }
  try {
    for (const part of [url.username, url.password, url.pathname]) decodeURIComponent(part);
  } catch {
    throw new Error('an address in which % is written as %25');
  }
  return value;
}

function masterKey(value: string): Buffer {
  if (!/^[0-9a-f]{64}$/i.test(value)) {
    throw new Error(`64 hex digits (openssl rand -hex 32 makes them)`);
  }
  return Buffer.from(value, 'hex');
}

function origins(value: string): '*' | string[] {
  if (value === '*') return '*';
  if (value === 'none') return [];
  return value.split(',').map((entry) => {
    const url = URL.canParse(entry.trim()) ? new URL(entry.trim()) : null;
    if (!url || url.origin === 'null' || url.href !== `${url.origin}/`) {
      throw new Error('*, none, or a list of origins like https://app.example.com');
    }
    return url.origin;
  });
}

function proxies(value: string): string[] {
  return value.split(',').map((entry) => {
    const proxy = entry.trim();
    const [, address = '', bits] = /^([^/%]+)(?:\/(\d{1,3}))?$/.exec(proxy) ?? [];
    const maxBits = { 4: 32, 6: 128 }[isIP(address)] ?? 0;
    // A range of 0 bits would believe everybody.
    const isRange = Number(bits ?? maxBits) >= 1 && Number(bits ?? maxBits) <= maxBits;
    if (proxy !== 'loopback' && !isRange) {
      throw new Error('a list of addresses or ranges like 10.0.0.7, 10.1.0.0/16 or fd00::/8, or loopback');
    }
    return proxy;
  });
}

function smtpUrl(value: string): string {
  const url = URL.canParse(value) ? new URL(value) : null;
  const isMail = url && ['smtp:', 'smtps:'].includes(url.protocol) && /^([\w.-]+|\[.+\])$/.test(url.hostname);
  // Options behind the host would be ignored, and a user without a password is a slip.
  const isPlain = url && !url.search && !url.hash && ['', '/'].includes(url.pathname);
  if (!isMail || !isPlain || Boolean(url.username) !== Boolean(url.password)) {
    throw new Error(
      'an address like smtp://user:password@mail.example.com:587 or smtps://user:password@mail.example.com:465',
    );
  }
  try {
    for (const part of [url.username, url.password]) decodeURIComponent(part);
  } catch {
    throw new Error('an address in which % is written as %25');
  }
  return value;
}

/** An address, or a name in front of one. A name with punctuation could be read as a second address. */
function mailAddress(value: string): string {
  const address = String.raw`[^\p{C}\p{Z}<>()[\]\\,;:"@]+@[^\p{C}\p{Z}<>()[\]\\,;:"@]+`;
  const pattern = new RegExp(String.raw`^(?:${address}|[^\p{C}<>()[\]\\,;:"@]+ <${address}>)$`, 'u');
  if (!pattern.test(value)) {
    throw new Error('an address like no-reply@example.com or My Shop <no-reply@example.com>');
  }
  return value;
}

function webhookUrl(value: string): string {
  const url = URL.canParse(value) ? new URL(value) : null;
  if (!url || !['http:', 'https:'].includes(url.protocol) || url.username || url.password || url.hash) {
    throw new Error('an address like https://app.example.com/rowhouse, without a user or password');
  }
  return value;
}

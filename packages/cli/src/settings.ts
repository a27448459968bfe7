// The service's settings as flags: each sets the environment variable of the same name for the program we start.
import { type Command, Option } from 'commander';

type Setting = { variable: string; flag: string; about: string };

export const settings: readonly Setting[] = [
  { variable: 'ROWHOUSE_HOST', flag: '--host <address>', about: 'address to listen on (127.0.0.1)' },
  {
    variable: 'ROWHOUSE_PORT',
    flag: '--port <number>',
    about: 'port to listen on; 0 picks a free one (8765)',
  },
  {
    variable: 'ROWHOUSE_DATA',
    flag: '--data <folder>',
    about: 'folder for the embedded PostgreSQL, the master key and logs (.rowhouse)',
  },
  {
    variable: 'ROWHOUSE_DATABASE_URL',
    flag: '--database-url <url>',
    about:
      'a PostgreSQL server of yours instead of the embedded one; better by environment: holds a password',
  },
  {
    variable: 'ROWHOUSE_CONTROL_DATABASE',
    flag: '--control-database <name>',
    about: "name of the service's own database (rowhouse)",
  },
  {
    variable: 'ROWHOUSE_ACCOUNT_KEY',
    flag: '--account-key <key>',
    about: 'the account key, instead of one made at the first start; better by environment: a secret',
  },
  {
    variable: 'ROWHOUSE_NEW_ACCOUNT_KEY',
    flag: '--new-account-key',
    about: 'make and print a new account key; the old one ends',
  },
  {
    variable: 'ROWHOUSE_MASTER_KEY',
    flag: '--master-key <hex>',
    about: 'seals project keys: 64 hex digits, made at the first start; better by environment: a secret',
  },
  { variable: 'ROWHOUSE_WORKERS', flag: '--workers <number>', about: 'API processes on this machine (1)' },
  {
    variable: 'ROWHOUSE_MAX_LIMIT_MB',
    flag: '--max-limit-mb <number>',
    about: 'the highest limit a project can have (1048576)',
  },
  {
    variable: 'ROWHOUSE_DISK_RESERVE_MB',
    flag: '--disk-reserve-mb <number>',
    about:
      'room to leave on the disk of the embedded PostgreSQL; 0: none (1024, at most 32 MB and a sixteenth of the disk)',
  },
  {
    variable: 'ROWHOUSE_SPARES',
    flag: '--spares <number>',
    about: 'empty project databases kept ready, so that creating a project is fast (5)',
  },
  {
    variable: 'ROWHOUSE_CONNECTIONS',
    flag: '--connections <number>',
    about: 'connections to project databases in use at a time, of all projects together (100)',
  },
  {
    variable: 'ROWHOUSE_KEPT_CONNECTIONS',
    flag: '--kept-connections <number>',
    about: 'connections to project databases kept open, 3 MB each (by memory)',
  },
  {
    variable: 'ROWHOUSE_PROJECT_CONNECTIONS',
    flag: '--project-connections <number>',
    about: 'connections one project can have at a time (10)',
  },
  {
    variable: 'ROWHOUSE_MAX_TIMEOUT_MS',
    flag: '--max-timeout-ms <number>',
    about: 'the longest timeout_ms a statement can ask for (300000)',
  },
  {
    variable: 'ROWHOUSE_KEEP_DELETED_DAYS',
    flag: '--keep-deleted-days <number>',
    about: 'how long a deleted project can be restored (7)',
  },
  {
    variable: 'ROWHOUSE_CORS_ORIGINS',
    flag: '--cors-origins <list>',
    about: 'web origins that may call the API: *, none, or a list with commas (*)',
  },
  {
    variable: 'ROWHOUSE_TRUSTED_PROXIES',
    flag: '--trusted-proxies <list>',
    about: 'proxies whose X-Forwarded-For is believed: addresses or ranges with commas, or loopback',
  },
  {
    variable: 'ROWHOUSE_PASSWORD_ITERATIONS',
    flag: '--password-iterations <number>',
    about: "rounds of PBKDF2 for users' passwords (600000)",
  },
  {
    variable: 'ROWHOUSE_SMTP_URL',
    flag: '--smtp-url <url>',
    about: 'mail server that sends codes to users; better by environment: holds a password',
  },
  {
    variable: 'ROWHOUSE_MAIL_FROM',
    flag: '--mail-from <address>',
    about: 'address that mails to users come from',
  },
  {
    variable: 'ROWHOUSE_WEBHOOK_URL',
    flag: '--webhook-url <url>',
    about: 'gets the messages with codes, instead of a mail server',
  },
  {
    variable: 'ROWHOUSE_WEBHOOK_SECRET',
    flag: '--webhook-secret <text>',
    about: 'signs what is sent to the webhook; better by environment: a secret',
  },
  {
    variable: 'ROWHOUSE_METRICS_PORT',
    flag: '--metrics-port <number>',
    about: 'serve /metrics on this port instead',
  },
  {
    variable: 'ROWHOUSE_LOG_LEVEL',
    flag: '--log-level <level>',
    about: 'debug, info, warn or error (info)',
  },
  {
    variable: 'ROWHOUSE_LOG_TO',
    flag: '--log-to <where>',
    about: 'file (logs/rowhouse.log in the data folder) or stderr (file)',
  },
];

/** Adds the flags of these settings, or of all. */
export function withSettings(command: Command, only?: readonly string[]): Command {
  for (const { variable, flag, about } of settings) {
    if (!only || only.includes(variable)) command.addOption(new Option(flag, `${about} [${variable}]`));
  }
  return command;
}

/** The environment for a program of the service: ours, with what the flags say in front. */
export function environmentOf(options: Readonly<Record<string, unknown>>): NodeJS.ProcessEnv {
  const given = settings.flatMap(({ variable, flag }) => {
    const value = options[new Option(flag).attributeName()];
    return value === undefined ? [] : [[variable, String(value)]];
  });
  return { ...process.env, ...Object.fromEntries(given) };
}

// Every setting of the service, declared once. The server's config.ts reads values by these declarations, `rowhouse start`
// takes its flags from them, and docs/configuration.md is their table. A module of its own (@rowhouse/api/settings): the
// command line imports it without loading the schemas.
import { listenSettings } from './listen-settings.ts';
import type { Setting } from './setting.ts';
import { watchSettings } from './watch-settings.ts';

export * from './setting.ts';
export type SettingName = keyof typeof settings;

/** In the order in which the documentation shows them. */
export const settings = {
  ...listenSettings,
  ROWHOUSE_DATA: {
    type: 'text',
    placeholder: 'folder',
    format: 'a path',
    pattern: /^[^\0]+$/,
    example: '/var/lib/rowhouse',
    default: '.rowhouse',
    description: 'Folder for the embedded PostgreSQL, the master key and logs.',
  },
  ROWHOUSE_DATABASE_URL: {
    type: 'text',
    placeholder: 'url',
    format: 'a URL in which % is written as %25',
    example: 'postgres://user:password@host:5432/postgres',
    default: null,
    unset: 'none',
    secret: true,
    description:
      'PostgreSQL server to use instead of the embedded one. Separate several hosts of it by commas: host1:5432,host2:5432.',
  },
  ROWHOUSE_CONTROL_DATABASE: {
    type: 'text',
    placeholder: 'name',
    format: '1 to 41 characters from a-z, 0-9 and _, beginning with a letter',
    pattern: /^[a-z][a-z0-9_]{0,40}$/,
    example: 'rowhouse_2',
    default: 'rowhouse',
    description: "Name of the service's own database.",
  },
  ROWHOUSE_ACCOUNT_KEY: {
    type: 'text',
    placeholder: 'key',
    format: 'an account key',
    default: null,
    unset: 'generated at the first start',
    secret: true,
    description: 'Account key to use instead of a generated one.',
  },
  ROWHOUSE_NEW_ACCOUNT_KEY: {
    type: 'boolean',
    default: false,
    description: 'Generate and print a new account key. The old key stops working.',
  },
  ROWHOUSE_OPERATOR_KEY: {
    type: 'text',
    placeholder: 'key',
    format: 'an operator key',
    default: null,
    unset: 'generated at the first start',
    secret: true,
    description: 'Operator key to use instead of a generated one.',
  },
  ROWHOUSE_NEW_OPERATOR_KEY: {
    type: 'boolean',
    default: false,
    description: 'Generate and print a new operator key. The old key stops working.',
  },
  ROWHOUSE_MASTER_KEY: {
    type: 'text',
    placeholder: 'hex',
    format: '64 hex digits (openssl rand -hex 32 generates them)',
    pattern: /^[0-9a-f]{64}$/i,
    default: null,
    unset: 'generated at the first start',
    secret: true,
    description: 'Key that encrypts the project keys.',
  },
  ROWHOUSE_WORKERS: {
    type: 'integer',
    min: 1,
    max: 64,
    default: 1,
    description: 'Number of API processes on this machine.',
  },
  ROWHOUSE_DRAIN_SECONDS: {
    type: 'integer',
    min: 0,
    max: 3_600,
    unit: 's',
    default: 0,
    description:
      'How long the service goes on serving after SIGTERM while `/readyz` returns 503, so that a load balancer stops sending requests first.',
  },
  ROWHOUSE_MAX_LIMIT_MB: {
    type: 'integer',
    min: 1,
    max: 1_073_741_824,
    unit: 'MB',
    default: 1_048_576,
    description: 'Highest limit_mb a project can have.',
  },
  ROWHOUSE_DISK_RESERVE_MB: {
    type: 'integer',
    min: 0,
    max: 1_073_741_824,
    unit: 'MB',
    default: null,
    unset: '32 MB plus 1/16 of the disk, at most 1024 MB',
    description:
      'Free space to keep on the disk of the embedded PostgreSQL. With less, no project can grow. 0 turns the reserve off.',
  },
  ROWHOUSE_IMPORT_PRIVATE_HOSTS: {
    type: 'boolean',
    default: false,
    description:
      'Whether `POST /projects/import` may copy from servers in private networks and on this machine. Holders of an account key can then reach them.',
  },
  ROWHOUSE_SPARES: {
    type: 'integer',
    min: 0,
    max: 100,
    default: 5,
    description: 'Empty project databases kept ready, so that creating a project is fast.',
  },
  ROWHOUSE_CONNECTIONS: {
    type: 'integer',
    min: 1,
    max: 10_000,
    default: 100,
    description: 'Connections to project databases in use at the same time, for all projects together.',
  },
  ROWHOUSE_KEPT_CONNECTIONS: {
    type: 'integer',
    min: 1,
    max: 10_000,
    default: null,
    unset: 'as many as fit in half of the memory; with ROWHOUSE_DATABASE_URL, as ROWHOUSE_CONNECTIONS',
    description:
      'Connections to project databases kept open, including those in use. Each takes 3 MB of memory. Never fewer than ROWHOUSE_CONNECTIONS.',
  },
  ROWHOUSE_PROJECT_CONNECTIONS: {
    type: 'integer',
    min: 1,
    max: 1_000,
    default: 10,
    description: 'Connections one project can use at the same time.',
  },
  ROWHOUSE_MAX_TIMEOUT_MS: {
    type: 'integer',
    min: 100,
    max: 86_400_000,
    unit: 'ms',
    default: 300_000,
    description: 'Longest timeout_ms a statement can ask for.',
  },
  ROWHOUSE_KEEP_DELETED_DAYS: {
    type: 'integer',
    min: 0,
    max: 3650,
    unit: 'days',
    default: 7,
    description: 'How long a deleted project can be restored.',
  },
  ROWHOUSE_AUDIT_DAYS: {
    type: 'integer',
    min: 1,
    max: 36500,
    unit: 'days',
    default: 365,
    description: 'How long entries of the audit log are kept.',
  },
  ROWHOUSE_BACKUP_URL: {
    type: 'text',
    placeholder: 'url',
    format:
      'off, a folder as file:/path, or a bucket as s3://bucket/prefix, which may have ?region=…&endpoint=…',
    example: 'file:/mnt/backups/rowhouse',
    default: null,
    unset:
      'the folder backups in ROWHOUSE_DATA, for the embedded server only; with ROWHOUSE_DATABASE_URL, off',
    description:
      'Where backups are stored, of all servers. Another disk or a bucket survives the loss of the disk that holds the data. A bucket needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and AWS_SESSION_TOKEN for temporary credentials. off turns backups off.',
  },
  ROWHOUSE_BACKUP_DAYS: {
    type: 'integer',
    min: 1,
    max: 3650,
    unit: 'days',
    default: 7,
    description: 'How far back a project can be restored from backups.',
  },
  ROWHOUSE_BACKUP_RATE_MB: {
    type: 'integer',
    min: 0,
    max: 1_000,
    unit: 'MB',
    default: 12,
    description:
      'How many MB a base backup reads per second at most, so that it does not slow down requests. 0 removes the limit.',
  },
  ROWHOUSE_CORS_ORIGINS: {
    type: 'text',
    placeholder: 'list',
    format: '*, none, or a comma-separated list of origins',
    example: 'https://app.example.com',
    default: '*',
    description: 'Web origins that may call the API: *, none, or a comma-separated list.',
  },
  ROWHOUSE_TRUSTED_PROXIES: {
    type: 'text',
    placeholder: 'list',
    format: 'a comma-separated list of addresses, ranges or loopback',
    example: '10.0.0.7,10.1.0.0/16,fd00::/8',
    default: null,
    unset: 'none',
    description:
      'Proxies whose X-Forwarded-For header is trusted: a comma-separated list of addresses, ranges or loopback.',
  },
  ROWHOUSE_CONSOLE: {
    type: 'choice',
    choices: ['on', 'off'],
    default: 'on',
    description: 'Whether the service has the console, the web page at /console.',
  },
  ROWHOUSE_CONSOLE_HOSTS: {
    type: 'text',
    placeholder: 'list',
    format: 'a comma-separated list of host names or addresses, each with or without a port',
    example: 'db.example.com,db.example.com:8443',
    default: null,
    unset: 'only this machine: localhost, 127.0.0.1 and ::1',
    description:
      'Host names under which browsers may open the console, in addition to those of this machine. They need HTTPS.',
  },
  ROWHOUSE_PASSWORD_ITERATIONS: {
    type: 'integer',
    min: 100_000,
    max: 10_000_000,
    default: 600_000,
    description: "PBKDF2 iterations for users' passwords. Older hashes are upgraded at the next sign-in.",
  },
  ROWHOUSE_SMTP_URL: {
    type: 'text',
    placeholder: 'url',
    format:
      'an smtp:// or smtps:// URL in which % is written as %25, with both a user and a password or neither',
    example: 'smtp://user:password@mail.example.com:587',
    default: null,
    unset: 'none',
    secret: true,
    description: 'Mail server that sends codes to users, and links to people who use the console.',
  },
  ROWHOUSE_MAIL_FROM: {
    type: 'text',
    placeholder: 'address',
    format: 'an e-mail address, with or without a name',
    example: 'My Shop <no-reply@example.com>',
    default: null,
    unset: 'none',
    description: 'Sender address of mail to users and people.',
  },
  ROWHOUSE_WEBHOOK_URL: {
    type: 'text',
    placeholder: 'url',
    format: 'an http:// or https:// URL without a user or password',
    example: 'https://app.example.com/rowhouse',
    default: null,
    unset: 'none',
    secret: true,
    description: 'URL that receives the messages with codes, instead of a mail server.',
  },
  ROWHOUSE_WEBHOOK_SECRET: {
    type: 'text',
    placeholder: 'text',
    format: '16 to 1024 visible ASCII characters without spaces (openssl rand -hex 32 generates them)',
    pattern: /^[\x21-\x7e]{16,1024}$/,
    default: null,
    unset: 'none',
    secret: true,
    description: 'Key that signs the requests to the webhook.',
  },
  ...watchSettings,
} as const satisfies Record<`ROWHOUSE_${string}`, Setting>;

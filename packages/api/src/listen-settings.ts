// Where the service listens: HTTP, TLS, and direct connections.
import type { Setting } from './setting.ts';

export const listenSettings = {
  ROWHOUSE_HOST: {
    type: 'text',
    placeholder: 'address',
    format: 'an address',
    pattern: /^[^\0]+$/,
    example: '0.0.0.0',
    default: '127.0.0.1',
    description: 'Address the service listens on.',
  },
  ROWHOUSE_PORT: {
    type: 'integer',
    min: 0,
    max: 65_535,
    default: 8765,
    description: 'Port the service listens on. 0 picks a free port.',
  },
  ROWHOUSE_TLS_CERT: {
    type: 'text',
    placeholder: 'file',
    format: 'a path',
    pattern: /^[^\0]+$/,
    example: '/etc/letsencrypt/live/db.example.com/fullchain.pem',
    default: null,
    unset: 'none: HTTP without TLS',
    description:
      'TLS certificate of the service, with its chain, in PEM format. The service then speaks HTTPS. A renewed file is used within seconds, without a restart. Direct connections use it too, unless ROWHOUSE_POSTGRES_TLS_CERT is set.',
  },
  ROWHOUSE_TLS_KEY: {
    type: 'text',
    placeholder: 'file',
    format: 'a path',
    pattern: /^[^\0]+$/,
    example: '/etc/letsencrypt/live/db.example.com/privkey.pem',
    default: null,
    unset: 'none',
    description: 'Private key of ROWHOUSE_TLS_CERT, in PEM format, without a passphrase.',
  },
  ROWHOUSE_POSTGRES_PORT: {
    type: 'integer',
    min: 1,
    max: 65_535,
    default: null,
    unset: 'off',
    description:
      'Port for direct connections: psql, ORMs and other PostgreSQL clients, from this and other machines. Without it, clients on this machine connect to PostgreSQL itself.',
  },
  ROWHOUSE_POSTGRES_HOST: {
    type: 'text',
    placeholder: 'address',
    format: 'an address',
    pattern: /^[^\0]+$/,
    example: '0.0.0.0',
    default: null,
    unset: 'as ROWHOUSE_HOST',
    description: 'Address on which ROWHOUSE_POSTGRES_PORT listens.',
  },
  ROWHOUSE_PUBLIC_HOST: {
    type: 'text',
    placeholder: 'name',
    format: 'a host name or an address',
    example: 'db.example.com',
    default: null,
    unset: 'ROWHOUSE_POSTGRES_HOST, or 127.0.0.1 if that is every address of the machine',
    description: 'Host name in the connection strings of projects, if ROWHOUSE_POSTGRES_PORT is set.',
  },
  ROWHOUSE_POSTGRES_TLS_CERT: {
    type: 'text',
    placeholder: 'file',
    format: 'a path',
    pattern: /^[^\0]+$/,
    example: '/etc/letsencrypt/live/db.example.com/fullchain.pem',
    default: null,
    unset: 'ROWHOUSE_TLS_CERT, or else a self-signed certificate, created at the first start',
    description:
      'TLS certificate for direct connections, with its chain, in PEM format. A renewed file is used within seconds, without a restart.',
  },
  ROWHOUSE_POSTGRES_TLS_KEY: {
    type: 'text',
    placeholder: 'file',
    format: 'a path',
    pattern: /^[^\0]+$/,
    example: '/etc/letsencrypt/live/db.example.com/privkey.pem',
    default: null,
    unset: 'the key of that certificate',
    description: 'Private key of ROWHOUSE_POSTGRES_TLS_CERT, in PEM format, without a passphrase.',
  },
  ROWHOUSE_POSTGRES_PLAINTEXT: {
    type: 'boolean',
    default: false,
    description:
      'Whether other machines may use direct connections without TLS. Queries and data are then readable on the network. This machine always may.',
  },
  ROWHOUSE_POSTGRES_CONNECTIONS: {
    type: 'integer',
    min: 1,
    max: 10_000,
    default: 100,
    description:
      'Direct connections through ROWHOUSE_POSTGRES_PORT that can be open at the same time, for all projects together.',
  },
} as const satisfies Record<`ROWHOUSE_${string}`, Setting>;

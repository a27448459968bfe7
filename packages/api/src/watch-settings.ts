// What operators see of a running service: metrics and logs.
import type { Setting } from './setting.ts';

export const watchSettings = {
  ROWHOUSE_METRICS_PORT: {
    type: 'integer',
    min: 1,
    max: 65_535,
    default: null,
    unset: 'as ROWHOUSE_PORT',
    description:
      'Separate port for /metrics, where it needs no key. Without it, /metrics answers this machine, and others with an operator key.',
  },
  ROWHOUSE_METRICS_HOST: {
    type: 'text',
    placeholder: 'address',
    format: 'an address',
    pattern: /^[^\0]+$/,
    example: '10.0.0.5',
    default: '127.0.0.1',
    description: 'Address on which ROWHOUSE_METRICS_PORT listens. Keep it in a private network.',
  },
  ROWHOUSE_LOG_LEVEL: {
    type: 'choice',
    choices: ['debug', 'info', 'warn', 'error'],
    default: 'info',
    description: 'Lowest level that is logged.',
  },
  ROWHOUSE_LOG_TO: {
    type: 'choice',
    choices: ['file', 'stderr'],
    default: 'file',
    description: 'Where the log goes: logs/rowhouse.log in the data folder, or stderr.',
  },
  ROWHOUSE_REQUEST_LOG: {
    type: 'choice',
    choices: ['off', 'file', 'stderr'],
    default: 'off',
    description:
      'A log with a line for every request: logs/requests.log in the data folder, or stderr. Without it, only requests that failed or were slow are logged, in the log of the service.',
  },
} as const satisfies Record<`ROWHOUSE_${string}`, Setting>;

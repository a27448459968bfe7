// What `rowhouse doctor` says about the PostgreSQL proxy: its port, its public name and its certificate.

import type { Check } from '../lib/check.ts';
import { refusalToListen } from '../servers/embedded/listening.ts';
import type { Config } from '../settings/config.ts';
import { examineCertificate } from '../tls/examine.ts';
import { isPublicHostMissing, listenHost, publicAddress } from './public-address.ts';
import { tlsFilesOf } from './start.ts';

const check = 'direct connections';

/** `isRunning`: the service runs on this data folder, so that the port is in use. Nothing is checked without a port. */
export async function examineProxy(config: Config, isRunning: boolean, now = Date.now()): Promise<Check[]> {
  if (config.postgresPort === null) return [];
  const checks = [await examinePort(config, isRunning), examineOwnCertificate(config, now)];
  if (isPublicHostMissing(config)) {
    const found = 'connection strings contain 127.0.0.1, which other machines cannot use';
    checks.push({
      check,
      state: 'warning',
      found,
      todo: 'Set ROWHOUSE_PUBLIC_HOST to the name of this machine.',
    });
  }
  return checks;
}

async function examinePort(config: Config, isRunning: boolean): Promise<Check> {
  const [host, port] = [listenHost(config), config.postgresPort ?? 0];
  const refusal = await refusalToListen(host, port);
  if (refusal === null) return { check, state: 'ok', found: `${port} on ${host} is free` };
  if (refusal === 'EADDRINUSE' && isRunning)
    return { check, state: 'ok', found: `${port} on ${host} is used by the service` };
  return {
    check,
    state: 'problem',
    found: `the service cannot listen on ${host}:${port} (${refusal})`,
    todo: 'Set ROWHOUSE_POSTGRES_PORT to another port, or ROWHOUSE_POSTGRES_HOST to an address of this machine.',
  };
}

function examineOwnCertificate(config: Config, now: number): Check {
  return examineCertificate({
    check,
    now,
    files: tlsFilesOf(config, { make: false }),
    isSelfSigned: config.postgresTlsCert === null && config.tlsCert === null,
    name: {
      text: publicAddress(config)?.host ?? '',
      todo: 'Set ROWHOUSE_PUBLIC_HOST to a name in the certificate.',
    },
    settings: config.postgresTlsCert === null ? 'ROWHOUSE_TLS' : 'ROWHOUSE_POSTGRES_TLS',
  });
}

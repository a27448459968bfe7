// What `rowhouse doctor` says about the PostgreSQL proxy: its port, its public name and its certificate.
import { isIP } from 'node:net';
import type { Config } from '../config.ts';
import { refusalToListen } from '../engine/listening.ts';
import { isPublicHostMissing, listenHost, publicAddress } from './public-address.ts';
import { tlsFilesOf } from './start.ts';
import { openTls, readCertificate } from './tls-files.ts';

type Check = { check: string; state: 'ok' | 'warning' | 'problem'; found: string; todo?: string };

const check = 'direct connections';
const soonDays = 14;

/** `isRunning`: the service runs on this data folder, so that the port is in use. Nothing is checked without a port. */
export async function examineProxy(config: Config, isRunning: boolean, now = Date.now()): Promise<Check[]> {
  if (config.postgresPort === null) return [];
  const checks = [await examinePort(config, isRunning), examineCertificate(config, now)];
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
    ...{ check, state: 'problem', found: `the service cannot listen on ${host}:${port} (${refusal})` },
    todo: 'Set ROWHOUSE_POSTGRES_PORT to another port, or ROWHOUSE_POSTGRES_HOST to an address of this machine.',
  };
}

function examineCertificate(config: Config, now: number): Check {
  const isOwn = config.postgresTlsCert === null;
  const files = tlsFilesOf(config, { make: false });
  try {
    openTls(files, () => {});
    const certificate = readCertificate(files);
    const { validTo } = certificate;
    const days = Math.floor((Date.parse(validTo) - now) / 86_400_000);
    const todo = isOwn
      ? `Remove ${files.certificate} and ${files.key}; the next start makes new ones.`
      : 'Renew the certificate. A running service uses the new files within seconds.';
    if (days < 0) return { check, state: 'problem', found: `the certificate has expired (${validTo})`, todo };
    if (days < soonDays)
      return { check, state: 'warning', found: `the certificate expires in ${days} days`, todo };
    const host = publicAddress(config)?.host ?? '';
    const isNamed = isIP(host) ? certificate.checkIP(host) : certificate.checkHost(host);
    if (!isOwn && !isNamed) {
      const found = `the certificate is not for ${host}, the name in connection strings`;
      return {
        check,
        state: 'warning',
        found,
        todo: 'Set ROWHOUSE_PUBLIC_HOST to a name in the certificate.',
      };
    }
    const kind = isOwn ? 'self-signed certificate' : files.certificate;
    return { check, state: 'ok', found: `${kind}, valid for ${days} days` };
  } catch (error) {
    if (isOwn && (error as Error).message.includes('ENOENT'))
      return { check, state: 'ok', found: 'a self-signed certificate will be created at the start' };
    const todo = 'Check ROWHOUSE_POSTGRES_TLS_CERT and ROWHOUSE_POSTGRES_TLS_KEY.';
    return { check, state: 'problem', found: (error as Error).message, todo };
  }
}

// The address of the proxy: where it listens, and what clients are told.

import { isLoopback } from '../lib/networks.ts';
import type { Config } from '../settings/config.ts';

type Settings = Pick<Config, 'host' | 'postgresHost' | 'postgresPort' | 'publicHost'>;
/** `sslmode`: what a connection string must contain. Without it, clients may choose. */
export type PublicAddress = Readonly<{ host: string; port: number; sslmode: 'require' | null }>;

export function listenHost({ host, postgresHost }: Pick<Settings, 'host' | 'postgresHost'>): string {
  return postgresHost ?? host;
}

/** null: there is no proxy, and clients connect to PostgreSQL itself. */
export function publicAddress(settings: Settings): PublicAddress | null {
  const { postgresPort: port, publicHost } = settings;
  if (port === null) return null;
  const listen = listenHost(settings);
  const host = publicHost ?? (isAllAddresses(listen) ? '127.0.0.1' : listen);
  return { host, port, sslmode: isLoopback(host) ? null : 'require' };
}

/** Whether other machines can connect, although clients are told the address of this one. */
export function isPublicHostMissing(settings: Settings): boolean {
  return (
    settings.postgresPort !== null && settings.publicHost === null && isAllAddresses(listenHost(settings))
  );
}

function isAllAddresses(host: string): boolean {
  return ['0.0.0.0', '::', '*'].includes(host);
}

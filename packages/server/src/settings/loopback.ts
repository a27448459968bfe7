// Whether a host or an address is this machine.
import { isIPv4 } from 'node:net';

/** A name or an address in lower case, as a URL or a Host header has it: IPv6 with or without brackets. */
export function isLoopback(host: string): boolean {
  return ['localhost', '::1', '[::1]'].includes(host) || (isIPv4(host) && host.startsWith('127.'));
}

/** IPv4 addresses may come in the form ::ffff:192.0.2.1, if the port is bound to all addresses of IPv6. */
export function plainAddress(address: string | undefined): string {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address ?? '')?.[1];
  return mapped ?? address ?? '';
}

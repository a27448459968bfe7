// The address of a client, as limits count it.
import { isIPv4, isIPv6 } from 'node:net';

/** IPv4 addresses may come in the form ::ffff:192.0.2.1, if the port is bound to all addresses of IPv6. */
export function plainAddress(address: string | undefined): string {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address ?? '')?.[1];
  return mapped ?? address ?? '';
}

export function isLoopback(address: string): boolean {
  return (isIPv4(address) && address.startsWith('127.')) || address === '::1' || address === 'localhost';
}

/** Limits count a whole /64 of IPv6 as one client: that is what a single subscriber gets. */
export function limitKey(address: string): string {
  if (!isIPv6(address)) return address;
  const [before = '', after] = (address.split('%')[0] ?? '').split('::');
  const [head, tail] = [before, after ?? ''].map((part) => part.split(':').filter(Boolean));
  const missing = after === undefined ? 0 : 8 - (head?.length ?? 0) - (tail?.length ?? 0);
  const groups = [...(head ?? []), ...Array.from({ length: missing }, () => '0'), ...(tail ?? [])];
  return groups.slice(0, 4).join(':');
}

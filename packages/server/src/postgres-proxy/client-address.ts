// The client as limits count it.
import { isIPv6 } from 'node:net';

/** Limits count a whole /64 of IPv6 as one client: that is what a single subscriber gets. */
export function limitKey(address: string): string {
  if (!isIPv6(address)) return address;
  const [before = '', after] = (address.split('%')[0] ?? '').split('::');
  const [head, tail] = [before, after ?? ''].map((part) => part.split(':').filter(Boolean));
  const missing = after === undefined ? 0 : 8 - (head?.length ?? 0) - (tail?.length ?? 0);
  const groups = [...(head ?? []), ...Array.from({ length: missing }, () => '0'), ...(tail ?? [])];
  return groups.slice(0, 4).join(':');
}

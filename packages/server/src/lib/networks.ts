// Addresses of the network: which are this machine, which are public, and which belong to one client. Apart from the rest of
// lib, it imports nothing of ours, because settings are checked with it.
import { BlockList, isIP, isIPv4, isIPv6 } from 'node:net';
import { networkInterfaces } from 'node:os';
import ipaddr from 'ipaddr.js';

/** A name or an address in lower case, as a URL or a Host header has it: IPv6 with or without brackets. */
export function isLoopback(host: string): boolean {
  return ['localhost', '::1', '[::1]'].includes(host) || (isIPv4(host) && host.startsWith('127.'));
}

/** URLs have IPv6 in brackets, sockets have it without. */
export function withoutBrackets(host: string): string {
  return host.replace(/^\[(.*)\]$/, '$1');
}

/** IPv4 addresses may come in the form ::ffff:192.0.2.1, if the port is bound to all addresses of IPv6. */
export function plainAddress(address: string | undefined): string {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address ?? '')?.[1];
  return mapped ?? address ?? '';
}

/** Whether a text is one address, with or without a port. */
export function isAddress(given: string): boolean {
  return isIP(withoutPort(given)) !== 0;
}

/**
 * The network of an address, which limits count as one client: of IPv6 the whole /64, because a single subscriber gets that.
 * Hashes of this text are stored in projects: its form does not change.
 */
export function networkOf(given: string): string {
  const address = plainAddress(withoutPort(given));
  if (!isIPv6(address)) return address;
  const groups = parseIPv6(address).parts.slice(0, 4);
  return `${groups.map((group) => group.toString(16)).join(':')}::/64`;
}

/** The bytes of an IPv4 or IPv6 address, as certificates contain them. */
export function addressBytes(address: string): Buffer {
  return Buffer.from((isIPv4(address) ? ipaddr.IPv4.parse(address) : parseIPv6(address)).toByteArray());
}

/** An address, or one with the length of its prefix: 10.0.0.0/8. A prefix of 0 bits is none: it would contain everybody. */
export function isRange(text: string): boolean {
  const [, address = '', bits] = /^([^/%]+)(?:\/(\d{1,3}))?$/.exec(text) ?? [];
  const maxBits = { 4: 32, 6: 128 }[isIP(address)] ?? 0;
  return Number(bits ?? maxBits) >= 1 && Number(bits ?? maxBits) <= maxBits;
}

type Family = 'ipv4' | 'ipv6';

/**
 * A connection to a public address of this machine does not leave it, so no firewall in front of it would see it. `own`: the
 * addresses of this machine now.
 */
export function isElsewhere(ip: string, family: Family, own = ownAddresses()): boolean {
  return isPublic(ip, family) && !own.check(ip, family);
}

export function isPublic(ip: string, family: Family): boolean {
  if (notPublic.check(ip, family)) return false;
  return family === 'ipv4' || publicIPv6.check(ip, 'ipv6');
}

/** The only range of IPv6 that is allocated for the public Internet. `notPublic` excludes the parts of it that embed IPv4. */
const publicIPv6 = blockList('2000::/3');
const notPublic = blockList(
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/3',
  '2001::/32',
  '2001:db8::/32',
  '2002::/16',
  '3fff::/20',
);

function blockList(...ranges: string[]): BlockList {
  const list = new BlockList();
  for (const range of ranges) {
    const [address, prefix] = ipaddr.parseCIDR(range);
    list.addSubnet(address.toString(), prefix, address.kind());
  }
  return list;
}

function ownAddresses(): BlockList {
  const own = new BlockList();
  for (const { address, family } of Object.values(networkInterfaces()).flatMap((list) => list ?? []))
    own.addAddress(address, family === 'IPv6' ? 'ipv6' : 'ipv4');
  return own;
}

/** Some proxies append the port, which differs each time. */
function withoutPort(given: string): string {
  return /^(?:(\d+\.\d+\.\d+\.\d+)|\[(.+)\])(?::\d+)?$/.exec(given)?.slice(1).find(Boolean) ?? given;
}

/** Without the zone (fe80::1%eth0), whose name may contain more than the library reads. */
function parseIPv6(address: string): ipaddr.IPv6 {
  return ipaddr.IPv6.parse(address.split('%', 1)[0] ?? '');
}

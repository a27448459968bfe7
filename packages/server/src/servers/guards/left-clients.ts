// Clients that have closed their connection to a server on this machine, although the server has not: what Linux shows of them.
import { readFileSync } from 'node:fs';
import { endianness } from 'node:os';

/** One end of a connection. */
export type End = Readonly<{ address: string; port: number }>;

const closeWait = '08';

/** Empty where the system does not show it. */
export function findLeftClients({ host, port }: { host: string; port: number }): End[] {
  try {
    return leftClients(readFileSync('/proc/net/tcp', 'utf8'), { address: host, port });
  } catch {
    return [];
  }
}

/**
 * `table`: as /proc/net/tcp has it. With the addresses of both ends: on another address of this machine, the same port can belong to
 * another server, or to another client.
 */
export function leftClients(table: string, server: End): End[] {
  return table.split('\n').flatMap((line) => {
    const [, own, remote, state] = line.trim().split(/\s+/);
    const [here, client] = [readEnd(own), readEnd(remote)];
    const isServer = here?.address === server.address && here.port === server.port;
    return isServer && client && state === closeWait ? [client] : [];
  });
}

/** `0100007F:1538`: the bytes of the address in the order of the machine, the port as a number. */
function readEnd(text: string | undefined): End | null {
  const [, address, port] = /^([0-9A-F]{8}):([0-9A-F]{4})$/.exec(text ?? '') ?? [];
  if (!address || !port) return null;
  const bytes = [...Buffer.from(address, 'hex')];
  if (endianness() === 'LE') bytes.reverse();
  return { address: bytes.join('.'), port: Number.parseInt(port, 16) };
}

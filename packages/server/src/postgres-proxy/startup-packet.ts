// The packets that a client can send first. They are read as PostgreSQL reads them, or more strictly: whatever two readers
// could understand differently is refused, because the proxy decides by its own reading and PostgreSQL by another.
import { ProxyError } from './proxy-error.ts';

export type FirstPacket =
  | { kind: 'tls' }
  | { kind: 'gss' }
  | { kind: 'cancel'; pid: number; secret: Buffer }
  | StartupRequest;

export type StartupRequest = {
  kind: 'startup';
  user: string;
  database: string;
  isReplication: boolean;
};

/** PostgreSQL's MAX_STARTUP_PACKET_LENGTH. */
const maxBytes = 10_000;
/** PostgreSQL's limit for the key of protocol 3.2. In 3.0 it has 4 bytes. */
const maxSecretBytes = 256;

const codes = { cancel: 80_877_102, tls: 80_877_103, gss: 80_877_104 };
const supportedMajor = 3;

/** The length of the packet at the start of `bytes`, or null if too little has arrived. Throws if it cannot be a packet. */
export function packetLength(bytes: Buffer): number | null {
  if (bytes.length < 4) return null;
  const length = bytes.readUInt32BE(0);
  if (length < 8 || length > maxBytes) throw malformed('invalid length of startup packet');
  return length;
}

/** `packet`: exactly one packet. */
export function readPacket(packet: Buffer): FirstPacket {
  const code = packet.readUInt32BE(4);
  if (code === codes.tls || code === codes.gss) {
    if (packet.length !== 8) throw malformed('invalid length of startup packet');
    return { kind: code === codes.tls ? 'tls' : 'gss' };
  }
  if (code === codes.cancel) return readCancel(packet);
  if (code >>> 16 !== supportedMajor) {
    throw new ProxyError(
      '0A000',
      `unsupported frontend protocol ${code >>> 16}.${code & 0xffff}: server supports 3.0 to 3.2`,
    );
  }
  return readStartup(packet);
}

function readCancel(packet: Buffer): FirstPacket {
  const secret = packet.subarray(12);
  if (packet.length < 13 || secret.length > maxSecretBytes)
    throw malformed('invalid length of cancel request packet');
  return { kind: 'cancel', pid: packet.readInt32BE(8), secret: Buffer.from(secret) };
}

function readStartup(packet: Buffer): FirstPacket {
  // Bytes, not characters: names are only compared.
  const fields = packet.toString('latin1', 8).split('\0');
  // Each name and value ends with a zero byte, and so does the list: what follows the last two is empty.
  const isComplete = fields.length % 2 === 0 && fields.at(-1) === '' && fields.at(-2) === '';
  if (!isComplete) throw malformed('invalid startup packet layout: expected terminator as last byte');
  const found = new Map<string, string>();
  for (let at = 0; at < fields.length - 2; at += 2) {
    const [name = '', value = ''] = [fields[at], fields[at + 1]];
    // PostgreSQL stops at an empty name, and takes the last of several values.
    if (name === '') throw malformed('invalid startup packet layout: expected terminator as last byte');
    if (found.has(name)) throw malformed('a parameter occurs twice in the startup packet');
    found.set(name, value);
  }
  const user = found.get('user') ?? '';
  if (user === '') throw new ProxyError('28000', 'no PostgreSQL user name specified in startup packet');
  const replication = found.get('replication');
  return {
    kind: 'startup',
    user,
    database: found.get('database') || user,
    isReplication: replication !== undefined && !['false', 'off', 'no', '0'].includes(replication),
  };
}

function malformed(message: string): ProxyError {
  return new ProxyError('08P01', message);
}

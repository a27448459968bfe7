// From an accepted connection to its startup packet: TLS by SSLRequest or from the first byte on (sslnegotiation=direct),
// and GSSENCRequest, which is declined.
import type { Socket } from 'node:net';
import { type SecureContext, TLSSocket } from 'node:tls';
import { ProxyError } from './proxy-error.ts';
import { type FirstPacket, packetLength, readPacket } from './startup-packet.ts';

type Request = Extract<FirstPacket, { kind: 'cancel' | 'startup' }>;

export type Negotiated = {
  /** The connection, which is inside TLS if the client asked for it. */
  socket: Socket;
  isEncrypted: boolean;
  request: Request;
  packet: Buffer;
  /** Bytes that arrived with the packet. */
  rest: Buffer;
};

/** The client closed the connection before it sent a whole packet: port scanners and health checks do. */
export class Disconnected extends Error {}

/** The connection cannot carry an ErrorResponse: TLS has failed. */
export class TlsFailure extends Error {}

/** The first byte of a TLS handshake. As the length of a packet it would be far too large. */
const tlsHandshake = 0x16;
export const alpn = 'postgresql';

/** `onTls` learns of the encrypted socket as soon as it can carry an answer. */
export async function negotiate(
  raw: Socket,
  context: () => Promise<SecureContext>,
  onTls: (socket: Socket) => void,
): Promise<Negotiated> {
  let socket = raw;
  let isEncrypted = false;
  let wasGssAsked = false;
  const encrypt = async (secureContext: SecureContext) => {
    const secure = await startTls(raw, secureContext);
    socket = secure;
    isEncrypted = true;
    onTls(secure);
    return secure;
  };
  for (;;) {
    const bytes = await readUntil(socket, (got) => (!isEncrypted && got[0] === tlsHandshake) || isWhole(got));
    if (!isEncrypted && bytes[0] === tlsHandshake) {
      if (wasGssAsked) throw new ProxyError('08P01', 'received unencrypted data after GSSENC request');
      const secureContext = await context();
      raw.unshift(bytes);
      const secure = await encrypt(secureContext);
      // As PostgreSQL: without it, another protocol's client could be made to talk to this port.
      if (secure.alpnProtocol !== alpn)
        throw new ProxyError(
          '08P01',
          'received direct SSL connection request without ALPN protocol negotiation extension',
        );
      continue;
    }
    const length = packetLength(bytes) ?? 0;
    const packet = bytes.subarray(0, length);
    const rest = bytes.subarray(length);
    const request = readPacket(packet);
    if (request.kind === 'startup' || request.kind === 'cancel')
      return { socket, isEncrypted, request, packet, rest };
    // Bytes in clear text that would count as sent inside TLS (CVE-2021-23222).
    if (rest.length > 0)
      throw new ProxyError(
        '08P01',
        `received unencrypted data after ${request.kind === 'tls' ? 'SSL' : 'GSSENC'} request`,
      );
    if (isEncrypted || (request.kind === 'gss' && wasGssAsked))
      throw new ProxyError('08P01', 'encryption was requested twice');
    if (request.kind === 'gss') {
      wasGssAsked = true;
      raw.write('N');
    } else {
      const secureContext = await context();
      raw.write('S');
      await encrypt(secureContext);
    }
  }
}

function isWhole(bytes: Buffer): boolean {
  const length = packetLength(bytes);
  return length !== null && bytes.length >= length;
}

/** Leaves the socket paused. */
function readUntil(socket: Socket, isEnough: (bytes: Buffer) => boolean): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    let bytes: Buffer = Buffer.alloc(0);
    const onData = (piece: Buffer) => {
      bytes = bytes.length > 0 ? Buffer.concat([bytes, piece]) : piece;
      try {
        if (isEnough(bytes)) settle(() => resolve(bytes));
      } catch (error) {
        settle(() => reject(error));
      }
    };
    const onGone = () => settle(() => reject(new Disconnected()));
    const settle = (act: () => void) => {
      socket.pause();
      socket.off('data', onData).off('end', onGone).off('close', onGone);
      act();
    };
    socket.on('data', onData).once('end', onGone).once('close', onGone);
    socket.resume();
    if (socket.destroyed) onGone();
  });
}

function startTls(raw: Socket, secureContext: SecureContext): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    if (raw.destroyed) return reject(new Disconnected());
    const secure = new TLSSocket(raw, {
      isServer: true,
      secureContext,
      ALPNProtocols: [alpn],
    });
    secure.on('error', (error) => reject(new TlsFailure(error.message)));
    secure.once('close', () => reject(new TlsFailure('closed')));
    secure.once('secure', () => resolve(secure));
  });
}

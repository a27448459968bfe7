// The address of the client that sent a request: of the connection, or what a trusted proxy says.
import type { IncomingMessage } from 'node:http';
import proxyAddr from '@fastify/proxy-addr';

export type AddressOf = (request: Pick<IncomingMessage, 'headers' | 'socket'>) => string;

export function openAddressOf(trustedProxies: readonly string[]): AddressOf {
  if (trustedProxies.length === 0) return ({ socket }) => socket.remoteAddress ?? '';
  const isTrusted = proxyAddr.compile([...trustedProxies]);
  return (request) => proxyAddr(request as IncomingMessage, isTrusted) ?? '';
}

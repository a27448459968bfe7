// Node's server under the framework: HTTP, or HTTPS with a certificate that can be renewed while connections are open.
import { createServer, type RequestListener, type Server, type ServerOptions } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { Socket } from 'node:net';
import type { SecureContextOptions } from 'node:tls';
import { respondToAmbiguous } from '../response/error-response.ts';
import { refuseAmbiguous } from './request-form.ts';

/** Returns a new object when the files have changed. null: without TLS. */
export type TlsOptions = (() => SecureContextOptions) | null;

export function createNodeServer(given: ServerOptions, tls: TlsOptions, handler: RequestListener): Server {
  // request-form.ts checks the host of all requests, and its error says more.
  const options = { ...given, requireHostHeader: false };
  const refused = new WeakSet<Socket>();
  const handle: RequestListener = (request, response) => {
    // Node reads all requests of a piece before it closes the connection.
    if (refused.has(request.socket)) return;
    const refusal = refuseAmbiguous(request);
    if (!refusal) return handler(request, response);
    refused.add(request.socket);
    respondToAmbiguous(refusal, response);
  };
  if (!tls) return createServer(options, handle);
  let used = tls();
  const server = createTlsServer({ ...options, ...used, handshakeTimeout: options.headersTimeout }, handle);
  // Before Node's own listener, which begins the handshake. Connections that are open keep what they began with.
  server.prependListener('connection', () => {
    const found = tls();
    if (found === used) return;
    used = found;
    server.setSecureContext(found);
  });
  return server;
}

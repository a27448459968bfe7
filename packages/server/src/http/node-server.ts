// Node's server under the framework: HTTP, or HTTPS with a certificate that can be renewed while connections are open.
import { createServer, type RequestListener, type Server, type ServerOptions } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { SecureContextOptions } from 'node:tls';

/** Returns a new object when the files have changed. null: without TLS. */
export type TlsOptions = (() => SecureContextOptions) | null;

export function createNodeServer(options: ServerOptions, tls: TlsOptions, handle: RequestListener): Server {
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

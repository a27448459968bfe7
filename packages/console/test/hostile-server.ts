// A stranger's web server on this machine, under its own port, and what of its pages' requests reaches the console.
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll } from 'vitest';

/** Browsers for these tests take it for this machine, as after DNS rebinding. */
export const strangersName = 'stranger.example';

export type HostileServer = { port: number /** As browsers sent them here. */; cookies: string[] };

/**
 * Every path is an empty page without any protection. `/redirect?to=…` sends the request on with its method and body,
 * `/cookie?set=…` sets a cookie.
 */
export function useHostileServer(): HostileServer {
  const hostile: HostileServer = { port: 0, cookies: [] };
  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://stranger');
    if (request.headers.cookie) hostile.cookies.push(request.headers.cookie);
    if (pathname === '/redirect')
      return response.writeHead(307, { location: searchParams.get('to') ?? '' }).end();
    const cookie = searchParams.get('set');
    if (cookie) response.setHeader('set-cookie', cookie);
    response.setHeader('content-type', 'text/html');
    response.end('<!doctype html><title>A stranger</title><body></body>');
  });
  beforeAll(async () => {
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    hostile.port = (server.address() as AddressInfo).port;
  });
  afterAll(() => {
    server.close();
    server.closeAllConnections();
  });
  return hostile;
}

export type Seen = { method: string; url: string; hasCookie: boolean; status: number };

/** The requests that do not come from the console's own page, with their answers. */
export function watchForeignRequests(server: Server): Seen[] {
  const seen: Seen[] = [];
  server.on('request', ({ method = '', url = '', headers }, response) => {
    if (headers['sec-fetch-site'] === 'same-origin') return;
    const hasCookie = headers.cookie?.includes('rowhouse_console') ?? false;
    response.on('finish', () => seen.push({ method, url, hasCookie, status: response.statusCode }));
  });
  return seen;
}

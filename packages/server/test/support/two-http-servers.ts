// A server with fast connections and one of Node's, on real connections: they get the same bytes, and are compared.
import { once } from 'node:events';
import type { RequestListener, Server } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { isDeepStrictEqual } from 'node:util';
import { apiPrefix } from '@rowhouse/api';
import { expect, onTestFinished, vi } from 'vitest';
import { openFastConnections } from '../../src/http/fast/fast-connections.ts';
import { createNodeServer } from '../../src/http/fast/node-server.ts';
import { type HttpExchange, NodeExchange } from '../../src/http/http-exchange.ts';
import { createSelfSigned } from '../../src/tls/certificate.ts';

type Seen = { method: string; url: string; body: string; headers: object };
type Served = {
  port: number;
  server: Server;
  seen: Seen[];
  fastCount: () => number;
  last: () => HttpExchange;
};

export const fast = `${apiPrefix}/projects/a/query`;
export const slow = `${fast}?slow`;
export const other = `${apiPrefix}/projects/a/other`;

/** The fast path answers `fast` after a moment, as a statement would. The framework answers all other paths. */
function handlers(seen: Seen[]) {
  const note = ({ method, url, headers }: Pick<HttpExchange, 'method' | 'url' | 'headers'>, body: Buffer) =>
    seen.push({ method, url, body: body.toString('latin1'), headers: { ...headers } });
  const fastPath = (exchange: HttpExchange) => {
    if (!exchange.url.startsWith(fast)) return false;
    exchange.readBody((body) => {
      const size = note(exchange, body);
      const answer = Buffer.from(
        `fast ${size} ${exchange.url.includes('large') ? 'x'.repeat(100_000) : 'é'}`,
      );
      const head = ['content-type', 'text/plain', 'content-length', String(answer.length)];
      setTimeout(() => exchange.send(200, head, answer), exchange.url === slow ? 300 : 0);
    });
    return true;
  };
  const framework: RequestListener = (request, response) => {
    const pieces: Buffer[] = [];
    request.on('error', () => {});
    request.on('data', (piece) => pieces.push(piece));
    request.on('end', () => {
      note(new NodeExchange(request, response), Buffer.concat(pieces));
      if (request.url?.includes('slow')) return void setTimeout(() => response.end(), 300);
      if (request.url?.includes('stream')) {
        response.writeHead(200, { 'content-type': 'text/plain' });
        for (let n = 0; n < 20; n++) response.write(String(n).repeat(5_000));
        response.end();
      } else {
        const last: Record<string, string> = request.url?.includes('last') ? { connection: 'close' } : {};
        response.writeHead(201, last);
        response.end(`framework ${seen.length}`);
      }
    });
  };
  return { fastPath, framework };
}

export async function serve(isFast: boolean, tls = false): Promise<Served> {
  const seen: Seen[] = [];
  const { fastPath, framework } = handlers(seen);
  let fastCount = 0;
  let last: HttpExchange | undefined;
  const byNode: RequestListener = (request, response) => {
    if (!fastPath(new NodeExchange(request, response))) framework(request, response);
  };
  const options = {
    keepAliveTimeout: 5_000,
    headersTimeout: 2_000,
    requestTimeout: 3_000,
    connectionsCheckingInterval: 50,
  };
  const certificate = newCertificate();
  const server = createNodeServer(options, tls ? () => certificate : null, byNode);
  if (isFast)
    openFastConnections(server, {
      event: tls ? 'secureConnection' : 'connection',
      fastPath: (exchange) => {
        fastCount++;
        last = exchange;
        return fastPath(exchange);
      },
      framework,
      checkMs: 50,
    });
  server.on('clientError', ({ code }: NodeJS.ErrnoException, socket) => {
    if (code === 'HPE_CLOSED_CONNECTION') return;
    socket.end(`HTTP/1.1 ${code === 'ERR_HTTP_REQUEST_TIMEOUT' ? 408 : 400} ${code}\r\n\r\n`);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return {
    port: (server.address() as AddressInfo).port,
    server,
    seen,
    fastCount: () => fastCount,
    last: () => last as HttpExchange,
  };
}

function newCertificate() {
  const { key, certificate: cert } = createSelfSigned(['localhost']);
  return { key, cert };
}

export function open({ port }: Served, tls = false): Socket {
  const socket = tls
    ? connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false })
    : connect({ port, host: '127.0.0.1', noDelay: true });
  socket.on('error', () => {});
  onTestFinished(() => void socket.destroy());
  return socket;
}

/** Waits for a response, if there is one, and for its end. */
async function answered(count: () => number): Promise<void> {
  for (const start = performance.now(); performance.now() - start < 500 && count() === 0; ) await sleep(10);
  for (let seen = -1; seen !== count(); await sleep(30)) seen = count();
}

/**
 * How long to wait between two pieces: milliseconds, or until the first is answered. Part of a request gets no answer.
 * `pipelined`: until the first request was read, but not answered yet.
 */
export type Gap = number | 'answered' | 'pipelined';

/** Everything that comes back until the server closes, or says nothing more for a while. */
export async function exchange(
  served: Served,
  pieces: Buffer[],
  gap: Gap = 0,
  quietMs = 1_200,
): Promise<string> {
  const socket = open(served);
  const answer: Buffer[] = [];
  socket.on('data', (data) => answer.push(data));
  const closed = once(socket, 'close');
  for (const piece of pieces) {
    if (socket.destroyed) break;
    const before = answer.length;
    socket.write(piece);
    const isPart = /Content-Length: [1-9]\d*\r\n\r\n$/.test(piece.toString('latin1'));
    if (gap === 'answered' && !isPart) await answered(() => answer.length - before);
    else if (gap === 'pipelined')
      await vi.waitUntil(() => served.seen.length > 0, { timeout: 5_000, interval: 1 });
    else await sleep(isPart ? 50 : Number(gap));
  }
  // Not before: part of a request gets no answer, and on a busy machine the pause after it can be as long.
  socket.setTimeout(quietMs, () => socket.destroy());
  await closed;
  return Buffer.concat(answer).toString('latin1');
}

/** Removes the date and generated ids, and sorts the headers, because the two servers may send them in a different order. */
function plain(answer: string): string {
  return answer
    .replace(/^date: .*\r\n/gim, '')
    .replace(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, '(id)')
    .replace(/(HTTP\/1\.1 \d+ [^\r]*\r\n)([\s\S]*?)\r\n\r\n/g, (_all, status: string, lines: string) =>
      [status.trim(), ...lines.toLowerCase().split('\r\n').sort(), '', ''].join('\r\n'),
    );
}

export const post = (target: string, body: string, more = '') =>
  `POST ${target} HTTP/1.1\r\nHost: x\r\nX-API-Key: k\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body, 'latin1')}\r\n${more}\r\n${body}`;
export const get = (target: string, more = '') => `GET ${target} HTTP/1.1\r\nHost: x\r\n${more}\r\n`;
export const lastOne = get('/', 'Connection: close\r\n');

/** Sends the same bytes to both servers. */
async function sendBoth(pieces: string[], gap: Gap) {
  const [node, own] = await Promise.all([serve(false), serve(true)]);
  const bytes = pieces.map((piece) => Buffer.from(piece, 'latin1'));
  const answers = await Promise.all([exchange(node, bytes, gap), exchange(own, bytes, gap)]);
  const [expected, found] = [node, own].map(({ seen }, n) => ({
    seen,
    answer: plain(answers[n] as string),
  }));
  for (const { server } of [node, own]) server.close().closeAllConnections();
  return { expected, found, fastCount: own.fastCount() };
}

/** On a busy machine a piece can arrive late and change the response. A real difference shows in every attempt. */
export async function compare(pieces: string[], gap: Gap = 'answered') {
  let both = await sendBoth(pieces, gap);
  for (let again = 0; again < 2 && !isDeepStrictEqual(both.found, both.expected); again++)
    both = await sendBoth(pieces, gap);
  expect(both.found, JSON.stringify(pieces)).toEqual(both.expected);
  return both;
}

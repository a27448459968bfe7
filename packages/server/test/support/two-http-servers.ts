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
/** Answered by the test itself. */
export const held = `${fast}?held`;
export const other = `${apiPrefix}/projects/a/other`;

/** Requests for data are those to `fast`: they are answered after a moment, as after a statement. */
function handlers(seen: Seen[]) {
  const note = ({ method, url, headers }: Pick<HttpExchange, 'method' | 'url' | 'headers'>, body: Buffer) =>
    seen.push({ method, url, body: body.toString('latin1'), headers: { ...headers } });
  const answerData = (exchange: HttpExchange) => {
    const { url, body } = exchange;
    if (!url.startsWith(fast)) return false;
    readWhole(body, (bytes) => {
      const size = note(exchange, bytes);
      const text = `data ${size} ${url.includes('large') ? 'x'.repeat(100_000) : 'é'}`;
      if (url.includes('held')) return;
      const answer = url.includes('stream') ? () => stream(exchange) : () => sendText(exchange, text);
      setTimeout(answer, url.includes('slow') ? 300 : 0);
    });
    return true;
  };
  const framework: RequestListener = (request, response) => {
    readWhole(request, (body) => {
      note(new NodeExchange(request, response), body);
      if (request.url?.includes('slow')) return void setTimeout(() => response.end(), 300);
      const last: Record<string, string> = request.url?.includes('last') ? { connection: 'close' } : {};
      response.writeHead(201, last);
      response.end(`framework ${seen.length}`);
    });
  };
  return { answerData, framework };
}

function readWhole(body: HttpExchange['body'], use: (body: Buffer) => void): void {
  if (Buffer.isBuffer(body)) return use(body);
  const pieces: Buffer[] = [];
  body.on('error', () => {});
  body.on('data', (piece) => pieces.push(piece));
  body.on('end', () => use(Buffer.concat(pieces)));
}

function sendText(exchange: HttpExchange, text: string): void {
  const bytes = Buffer.from(text);
  exchange.send(200, ['content-type', 'text/plain', 'content-length', String(bytes.length)], bytes);
}

/** As rows are: in pieces, with pauses, as fast as the client reads. The length is known beforehand or not. */
function stream(exchange: HttpExchange): void {
  const pieces = Array.from({ length: 20 }, (_, n) => Buffer.from(String(n % 10).repeat(5_000)));
  const length = exchange.url.includes('sized') ? ['content-length', '100000'] : [];
  exchange.begin(200, ['content-type', 'text/plain', ...length]);
  const more = () => {
    for (const piece of pieces.splice(0, 3)) exchange.write(piece);
    if (pieces.length > 0) setTimeout(more, 1);
    else exchange.end();
  };
  more();
}

export async function serve(isFast: boolean, tls = false): Promise<Served> {
  const seen: Seen[] = [];
  const { answerData, framework } = handlers(seen);
  let fastCount = 0;
  let last: HttpExchange | undefined;
  const byNode: RequestListener = (request, response) => {
    if (!answerData(new NodeExchange(request, response))) framework(request, response);
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
      answerData: (exchange) => {
        if (!answerData(exchange)) return false;
        fastCount++;
        last = exchange;
        return true;
      },
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

/**
 * Removes the date and generated ids, and sorts the headers, because the two servers may send them in a different order. No
 * client reads an error that follows a response with "Connection: close".
 */
function plain(answer: string): string {
  const sorted = answer
    .replace(/^date: .*\r\n/gim, '')
    .replace(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, '(id)')
    .replace(/(HTTP\/1\.1 \d+ [^\r]*\r\n)([\s\S]*?)\r\n\r\n/g, (_all, status: string, lines: string) =>
      [status.trim(), ...lines.toLowerCase().split('\r\n').sort(), '', ''].join('\r\n'),
    );
  return sorted.includes('connection: close') ? sorted.replace(/HTTP\/1\.1 \d+ HPE_\w+\s*$/, '') : sorted;
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

/**
 * On a busy machine a piece can arrive late and change the response. A real difference shows in every attempt. If the client
 * does not wait, it depends on the moment what is still answered before an error: then only the requests are compared.
 */
export async function compare(pieces: string[], gap: Gap = 'answered') {
  const isSame = ({ found, expected }: Both) =>
    gap === 0 ? isDeepStrictEqual(found?.seen, expected?.seen) : isDeepStrictEqual(found, expected);
  let both = await sendBoth(pieces, gap);
  for (let again = 0; again < 2 && !isSame(both); again++) both = await sendBoth(pieces, gap);
  if (!isSame(both)) expect(both.found, JSON.stringify(pieces)).toEqual(both.expected);
  return both;
}

type Both = Awaited<ReturnType<typeof sendBoth>>;

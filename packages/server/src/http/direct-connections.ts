// Answers requests in the ordinary form (request-head.ts) on their connection. Node's HTTP parser and its objects for a
// request and a response cost more than everything else that a small request needs. A connection belongs to Node's server
// from the first bytes on that are anything else than one whole request.
import { IncomingMessage, type RequestListener, type Server, ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { FastPath } from './fast-path.ts';
import type { HttpExchange } from './http-exchange.ts';
import { type RequestHead, readRequestHead } from './request-head.ts';

type Options = {
  /** The event of a connection that is ready for HTTP. */
  event: 'connection' | 'secureConnection';
  fastPath: FastPath;
  framework: RequestListener;
  /** How often connections are checked for what is overdue. */
  checkMs: number;
};

/** Larger bodies are read by Node, as they arrive. */
const maxBodyBytes = 64 * 1024;
/** A connection that has sent no whole request after this time is left to Node, which knows the time limits. */
const firstRequestMs = 1_000;
/** Up to this size, a response is copied behind its headers. */
const oneWriteBytes = 8 * 1024;

export function answerDirectly(server: Server, { event, fastPath, framework, checkMs }: Options): void {
  const [leaveToNode] = server.listeners(event) as ((socket: Socket) => void)[];
  if (!leaveToNode) throw new Error(`The server does not listen for ${event}.`);
  const connections = new Set<DirectConnection>();
  const onRequest = (exchange: DirectExchange) => {
    if (!fastPath(exchange)) framework(exchange.request, exchange.response);
  };
  const onEnd = (connection: DirectConnection) => connections.delete(connection);
  server.removeListener(event, leaveToNode);
  server.on(event, (socket: Socket) => {
    connections.add(new DirectConnection(server, socket, onRequest, onEnd, leaveToNode));
  });

  const checks = setInterval(() => {
    const now = performance.now();
    for (const connection of connections) connection.check(now);
  }, checkMs).unref();
  server.once('close', () => clearInterval(checks));

  // Node closes the connections that it knows.
  const closeIdle = server.closeIdleConnections.bind(server);
  const closeAll = server.closeAllConnections.bind(server);
  server.closeIdleConnections = () => {
    closeIdle();
    for (const connection of connections) connection.closeIfIdle();
  };
  server.closeAllConnections = () => {
    closeAll();
    for (const { socket } of connections) socket.destroy();
  };
}

class DirectConnection {
  readonly socket: Socket;
  readonly idleMs: number;
  readonly keepAliveMs: number;
  /** The end of the head of a response. */
  readonly headEnd: string;
  private readonly server: Server;
  private readonly onRequest: (exchange: DirectExchange) => void;
  private readonly onLeave: (connection: DirectConnection) => void;
  private readonly leaveToNode: (socket: Socket) => void;
  /** The request that is being answered. */
  private current: DirectExchange | null = null;
  /** The first part of a request, or what came while another one was being answered. */
  private held: Buffer | null = null;
  private hasAnswered = false;
  private usedAt = performance.now();

  constructor(
    server: Server,
    socket: Socket,
    onRequest: (exchange: DirectExchange) => void,
    onLeave: (connection: DirectConnection) => void,
    leaveToNode: (socket: Socket) => void,
  ) {
    this.server = server;
    this.socket = socket;
    this.onRequest = onRequest;
    this.onLeave = onLeave;
    this.leaveToNode = leaveToNode;
    this.idleMs = server.timeout;
    this.keepAliveMs = server.keepAliveTimeout;
    this.headEnd = `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(this.keepAliveMs / 1000)}\r\n\r\n`;
    socket.on('data', this.receive);
    socket.on('end', this.hangUp);
    socket.on('error', this.breakOff);
    socket.on('close', this.close);
  }

  private readonly receive = (piece: Buffer): void => {
    const { held, socket } = this;
    this.held = null;
    const bytes = held ? Buffer.concat([held, piece]) : piece;
    if (this.current) {
      this.held = bytes;
      socket.pause();
      return;
    }
    const head = readRequestHead(bytes);
    if (!head || head.bodyBytes > maxBodyBytes) return this.leave(bytes);
    const missing = head.headBytes + head.bodyBytes - bytes.length;
    if (missing === 0) {
      this.current = new DirectExchange(this, head, bytes.subarray(head.headBytes));
      this.onRequest(this.current);
    } else if (missing > 0 && !held) {
      // Many clients send the body by itself.
      this.held = bytes;
      this.usedAt = performance.now();
    } else this.leave(bytes);
  };

  /** The request is answered, and its response has left. */
  finish(exchange: DirectExchange): void {
    if (!this.isCurrent(exchange)) return;
    this.current = null;
    this.hasAnswered = true;
    this.usedAt = performance.now();
    if (this.held) this.leave(this.held);
  }

  isCurrent(exchange: DirectExchange): boolean {
    return this.current === exchange && !this.socket.destroyed;
  }

  check(now: number): void {
    const unusedMs = now - this.usedAt;
    if (this.current) return;
    if (this.held || !this.hasAnswered) {
      if (unusedMs > firstRequestMs) this.leave(this.held);
    } else if (unusedMs > this.keepAliveMs) this.socket.destroy();
  }

  closeIfIdle(): void {
    if (!this.current && !this.held) this.socket.destroy();
  }

  private leave(bytes: Buffer | null): void {
    const { socket } = this;
    this.held = null;
    this.close();
    socket.off('data', this.receive);
    socket.off('end', this.hangUp);
    socket.off('error', this.breakOff);
    socket.off('close', this.close);
    this.leaveToNode.call(this.server, socket);
    socket.resume();
    if (bytes) socket.unshift(bytes);
  }

  private readonly close = (): void => this.onLeave(this);

  private readonly hangUp = (): void => {
    this.socket.end();
  };

  private readonly breakOff = (): void => {
    this.socket.destroy();
  };
}

class DirectExchange implements HttpExchange {
  readonly hasRepeated = false;
  private readonly connection: DirectConnection;
  private readonly head: RequestHead;
  private readonly body: Buffer;
  private madeRequest: IncomingMessage | null = null;
  private madeResponse: ServerResponse | null = null;

  constructor(connection: DirectConnection, head: RequestHead, body: Buffer) {
    this.connection = connection;
    this.head = head;
    this.body = body;
  }

  get method() {
    return this.head.method;
  }

  get url() {
    return this.head.url;
  }

  get headers() {
    return this.head.headers;
  }

  get socket() {
    return this.connection.socket;
  }

  get isGone() {
    return this.socket.destroyed;
  }

  readBody(use: (body: Buffer) => void): void {
    use(this.body);
  }

  send(status: number, head: string[], body: Buffer): void {
    const { connection, socket } = this;
    if (!connection.isCurrent(this)) return;
    let text = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n`;
    for (let at = 0; at < head.length; at += 2) text += `${head[at]}: ${head[at + 1]}\r\n`;
    text += `Date: ${httpDate()}\r\n${connection.headEnd}`;
    let hasRoom: boolean;
    if (body.length <= oneWriteBytes) hasRoom = socket.write(text + body.toString('latin1'), 'latin1');
    else {
      socket.cork();
      socket.write(text, 'latin1');
      hasRoom = socket.write(body);
      socket.uncork();
    }
    if (hasRoom) return connection.finish(this);
    // A caller who does not read gets no further responses, and loses the connection.
    this.limitIdleTime();
    socket.once('drain', () => this.finish());
  }

  /** For the framework. */
  get request(): IncomingMessage {
    if (this.madeRequest) return this.madeRequest;
    const { socket, head, body } = this;
    const request = new IncomingMessage(socket);
    Object.assign(request, {
      ...{ method: head.method, url: head.url, headers: head.headers, complete: true },
      ...{ httpVersion: '1.1', httpVersionMajor: 1, httpVersionMinor: 1 },
      rawHeaders: Object.entries(head.headers).flat(),
    });
    if (body.length > 0) request.push(body);
    request.push(null);
    this.madeRequest = request;
    return request;
  }

  get response(): ServerResponse {
    if (this.madeResponse) return this.madeResponse;
    const { socket, request } = this;
    const response = new ServerResponse(request);
    // What Node's server sets, too.
    Object.assign(response, { shouldKeepAlive: true, _keepAliveTimeout: this.connection.keepAliveMs });
    response.assignSocket(socket);
    this.limitIdleTime();
    const drained = () => response.emit('drain');
    const over = () => {
      socket.off('drain', drained);
      if (!response.writableFinished) request.destroy();
    };
    socket.on('drain', drained);
    response.once('close', over);
    response.once('finish', () => {
      response.detachSocket(socket);
      response.emit('close');
      // What Node notes when a header says so.
      if ((response as { _last?: boolean })._last) socket.destroySoon();
      else this.finish();
    });
    this.madeResponse = response;
    return response;
  }

  private finish(): void {
    this.socket.setTimeout(0);
    this.socket.off('timeout', cut);
    this.connection.finish(this);
  }

  /** While no data flows, the connection may be idle for as long as one of Node's. */
  private limitIdleTime(): void {
    this.socket.setTimeout(this.connection.idleMs, cut);
  }
}

function cut(this: Socket): void {
  this.destroy();
}

let dateSecond = 0;
let dateText = '';

function httpDate(): string {
  const second = Math.floor(Date.now() / 1000);
  if (second !== dateSecond) {
    dateSecond = second;
    dateText = new Date(second * 1000).toUTCString();
  }
  return dateText;
}

// Answers requests for data in the ordinary form (request-head.ts) on their connection. Node's HTTP parser and its objects
// for a request and a response cost more than everything else that a small request needs. From the first bytes that are not
// exactly one such request, the connection belongs to Node's server.
import { type Server, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { AnswerData } from '../data/pipeline.ts';
import { type Head, type HttpExchange, unsentBytes } from '../http-exchange.ts';
import { type RequestHead, readRequestHead } from './request-head.ts';

type Options = {
  /** The event of a connection that is ready for HTTP. */
  event: 'connection' | 'secureConnection';
  answerData: AnswerData;
  /** How often connections are checked for what is overdue. */
  checkMs: number;
};

/** Larger bodies are read by Node. */
const maxBodyBytes = 64 * 1024;
/** A connection that has not sent a whole request after this time is left to Node, which enforces the time limits. */
const wholeRequestMs = 1_000;
/** Connections stay open longer than Keep-Alive announces, so that a request sent just in time is not lost. */
const keepAliveMarginMs = 1_000;
/** Up to this size, a response is copied behind its headers. From 12 KB on, two buffers in one write are faster. */
const oneWriteBytes = 4 * 1024;

export function openFastConnections(server: Server, { event, answerData, checkMs }: Options): void {
  const [leaveToNode] = server.listeners(event) as ((socket: Socket) => void)[];
  if (!leaveToNode) throw new Error(`The server does not listen for ${event}.`);
  const connections = new Set<FastConnection>();
  const owner: Owner = {
    server,
    answerData,
    leaveToNode: leaveToNode.bind(server),
    forget: (connection) => connections.delete(connection),
  };
  server.removeListener(event, leaveToNode);
  server.on(event, (socket: Socket) => connections.add(new FastConnection(owner, socket)));

  server.once('listening', () => {
    const checks = setInterval(() => {
      const now = performance.now();
      for (const connection of connections) connection.check(now);
    }, checkMs).unref();
    server.once('close', () => clearInterval(checks));
  });

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

/** What all connections of a server share. */
type Owner = {
  readonly server: Server;
  readonly answerData: AnswerData;
  leaveToNode(socket: Socket): void;
  forget(connection: FastConnection): void;
};

class FastConnection {
  readonly socket: Socket;
  private readonly owner: Owner;
  private readonly keepAlive: string;
  /** The request that is being answered. */
  private current: FastExchange | null = null;
  /** The first part of a request, or what came while another one was being answered. */
  private held: Buffer | null = null;
  /** What `held` begins with, if it is a request whose body has not arrived yet. */
  private head: RequestHead | null = null;
  private hasAnswered = false;
  private usedAt = performance.now();

  constructor(owner: Owner, socket: Socket) {
    this.owner = owner;
    this.socket = socket;
    const seconds = Math.floor(owner.server.keepAliveTimeout / 1000);
    this.keepAlive = `Connection: keep-alive\r\nKeep-Alive: timeout=${seconds}\r\n\r\n`;
    socket.on('data', this.receive);
    socket.on('end', this.hangUp);
    socket.on('error', destroySocket);
    socket.on('close', this.forget);
  }

  get server(): Server {
    return this.owner.server;
  }

  /** The last lines of a response's head. A server that is closing asks for no further request. */
  get headEnd(): string {
    return this.server.listening ? this.keepAlive : 'Connection: close\r\n\r\n';
  }

  private readonly receive = (piece: Buffer): void => {
    const { held, socket } = this;
    this.held = null;
    const bytes = held ? Buffer.concat([held, piece]) : piece;
    if (this.current) {
      this.held = bytes;
      // As long as it reads, the socket notices that the caller hangs up.
      if (bytes.length > maxBodyBytes) socket.pause();
      return;
    }
    const head = this.head ?? readRequestHead(bytes);
    this.head = null;
    if (!head || head.bodyBytes > maxBodyBytes) return this.leave(bytes);
    const missing = head.headBytes + head.bodyBytes - bytes.length;
    if (missing === 0) {
      const exchange = new FastExchange(this, head, bytes.subarray(head.headBytes));
      this.current = exchange;
      if (this.owner.answerData(exchange)) return;
      this.current = null;
      this.leave(bytes);
    } else if (missing > 0) {
      // Many clients send the body by itself, and networks deliver it in pieces.
      if (!held) this.usedAt = performance.now();
      this.head = head;
      this.held = bytes;
    } else this.leave(bytes);
  };

  /** The request is answered. */
  finish(exchange: FastExchange): void {
    if (!this.isCurrent(exchange)) return;
    this.current = null;
    exchange.conclude();
    if (!this.server.listening) {
      this.socket.destroySoon();
      return;
    }
    this.hasAnswered = true;
    this.usedAt = performance.now();
    if (this.held) this.leave(this.held);
  }

  isCurrent(exchange: FastExchange): boolean {
    return this.current === exchange && !this.socket.destroyed;
  }

  check(now: number): void {
    const unusedMs = now - this.usedAt;
    if (this.current) return;
    if (this.held || !this.hasAnswered) {
      if (unusedMs > wholeRequestMs) this.leave(this.held);
    } else if (unusedMs > this.server.keepAliveTimeout + keepAliveMarginMs) this.socket.destroy();
  }

  closeIfIdle(): void {
    if (!this.current && !this.held && this.socket.writableLength === 0) this.socket.destroy();
  }

  private leave(bytes: Buffer | null): void {
    const { socket } = this;
    this.held = null;
    this.forget();
    socket.off('data', this.receive);
    socket.off('end', this.hangUp);
    socket.off('error', destroySocket);
    socket.off('close', this.forget);
    this.owner.leaveToNode(socket);
    socket.resume();
    if (bytes) socket.unshift(bytes);
  }

  private readonly forget = (): void => {
    this.owner.forget(this);
    this.current?.conclude();
  };

  private readonly hangUp = (): void => {
    const { server, socket } = this;
    const isCut = this.held !== null && this.current === null;
    // As Node's server reports it.
    if (!(isCut && server.emit('clientError', endedEarly(), socket))) socket.end();
  };
}

class FastExchange implements HttpExchange {
  readonly body: Buffer;
  private readonly connection: FastConnection;
  private readonly head: RequestHead;
  private state: 'unsent' | 'streaming' | 'sent' = 'unsent';
  private isChunked = false;
  private readonly overs: (() => void)[] = [];

  constructor(connection: FastConnection, head: RequestHead, body: Buffer) {
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

  send(status: number, head: Head, body: Buffer): void {
    const { connection, socket } = this;
    if (this.state !== 'unsent' || !connection.isCurrent(this)) return;
    const text = this.headText(status, head);
    if (body.length <= oneWriteBytes) socket.write(text + body.toString('latin1'), 'latin1');
    else {
      socket.cork();
      socket.write(text, 'latin1');
      socket.write(body);
      socket.uncork();
    }
    this.complete();
  }

  begin(status: number, head: Head): void {
    const { connection, socket } = this;
    if (this.state !== 'unsent' || !connection.isCurrent(this)) return;
    this.state = 'streaming';
    this.isChunked = !head.includes('content-length');
    // While no data flows, the connection may be idle for as long as one of Node's.
    socket.setTimeout(connection.server.timeout, destroySocket);
    // The first piece leaves together with the head.
    socket.cork();
    process.nextTick(() => socket.uncork());
    const framing = this.isChunked ? ['transfer-encoding', 'chunked'] : [];
    socket.write(this.headText(status, [...head, ...framing]), 'latin1');
  }

  write(bytes: Buffer, onSent?: (error?: Error | null) => void): boolean {
    const { socket, isChunked } = this;
    // A response that comes too late is written nowhere: the connection may have another request by now.
    if (this.state !== 'streaming' || bytes.length === 0) {
      onSent?.();
      return true;
    }
    if (isChunked) {
      socket.cork();
      socket.write(`${bytes.length.toString(16)}\r\n`, 'latin1');
      socket.write(bytes, onSent);
      socket.write('\r\n', 'latin1');
      socket.uncork();
    } else socket.write(bytes, onSent);
    return socket.writableLength < unsentBytes;
  }

  drained(carryOn: () => void): void {
    this.socket.once('drain', carryOn);
  }

  end(): void {
    if (this.state !== 'streaming') return;
    if (this.isChunked) this.socket.write('0\r\n\r\n', 'latin1');
    this.complete();
  }

  breakOff(): void {
    if (this.connection.isCurrent(this)) this.socket.destroy();
  }

  onEnd(over: () => void): void {
    if (this.isGone) over();
    else this.overs.push(over);
  }

  /** The response was sent, or the connection closed. */
  conclude(): void {
    for (const over of this.overs.splice(0)) over();
  }

  private headText(status: number, head: Head): string {
    let text = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n`;
    for (let at = 0; at < head.length; at += 2) text += `${head[at]}: ${head[at + 1]}\r\n`;
    return `${text}Date: ${httpDate()}\r\n${this.connection.headEnd}`;
  }

  private complete(): void {
    const { connection, socket } = this;
    const isTimed = this.state === 'streaming';
    this.state = 'sent';
    // A caller who does not read gets no further responses, and loses the connection.
    if (socket.writableNeedDrain) {
      if (!isTimed) socket.setTimeout(connection.server.timeout, destroySocket);
      socket.once('drain', () => this.leaveIdle());
    } else if (isTimed) this.leaveIdle();
    else connection.finish(this);
  }

  private leaveIdle(): void {
    const { connection, socket } = this;
    socket.setTimeout(0);
    socket.off('timeout', destroySocket);
    connection.finish(this);
  }
}

function endedEarly(): Error {
  return Object.assign(new Error('The body of a request ended early.'), { code: 'HPE_INVALID_EOF_STATE' });
}

function destroySocket(this: Socket): void {
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

// A request and its response, reduced to what the fast path needs. Node's HTTP server or fast/fast-connections.ts reads the
// request.
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

export type HttpExchange = {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly socket: Socket;
  /** The caller has hung up. */
  readonly isGone: boolean;
  /** For responses that are sent in several pieces, instead of `send`. */
  readonly response: ServerResponse;
  readBody(use: (body: Buffer) => void): void;
  /** Sends a whole response. `head`: names and values in turn. */
  send(status: number, head: string[], body: Buffer): void;
};

/** Small responses are sent as a string of the same bytes: Node appends it to the headers and sends both in one write. */
const oneWriteBytes = 2 * 1024;

export class NodeExchange implements HttpExchange {
  readonly response: ServerResponse;
  private readonly request: IncomingMessage;

  constructor(request: IncomingMessage, response: ServerResponse) {
    this.request = request;
    this.response = response;
  }

  get method(): string {
    return this.request.method ?? '';
  }

  get url(): string {
    return this.request.url ?? '';
  }

  get headers(): IncomingHttpHeaders {
    return this.request.headers;
  }

  get socket(): Socket {
    return this.request.socket;
  }

  /** A response that is queued on its connection gets no event when the connection closes, so the socket is checked too. */
  get isGone(): boolean {
    const { response, request } = this;
    return (response.destroyed || request.socket?.destroyed === true) && !response.writableFinished;
  }

  /** The length is known and small. Node handles a body that ends early. */
  readBody(use: (body: Buffer) => void): void {
    const { request } = this;
    const pieces: Buffer[] = [];
    request.on('data', (piece: Buffer) => pieces.push(piece));
    request.on('end', () => use(pieces.length === 1 ? (pieces[0] as Buffer) : Buffer.concat(pieces)));
    request.on('error', () => {});
  }

  send(status: number, head: string[], body: Buffer): void {
    this.response.writeHead(status, head);
    if (body.length > oneWriteBytes) this.response.end(body);
    else this.response.end(body.toString('latin1'), 'latin1');
  }
}

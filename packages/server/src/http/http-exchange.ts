// A request and its response, reduced to what the endpoints for data need. Node's HTTP server or fast/fast-connections.ts
// reads the request.
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { onResponseEnd } from './response-end.ts';

/** Headers of a response: names and values in turn. */
export type Head = readonly string[];

export type HttpExchange = {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly socket: Socket;
  /** All of it, or what it is read from. */
  readonly body: Buffer | IncomingMessage;
  /** The caller has hung up. */
  readonly isGone: boolean;
  /** Sends a whole response. */
  send(status: number, head: Head, body: Buffer): void;
  /** Begins a response that is sent in pieces. */
  begin(status: number, head: Head): void;
  /** Whether there is room for more. `onSent`: the bytes may be reused. */
  write(bytes: Buffer, onSent?: (error?: Error | null) => void): boolean;
  /** Calls back when there is room again. */
  drained(carryOn: () => void): void;
  end(): void;
  /** Part of the response is sent already: it must not look complete. */
  breakOff(): void;
  /** Calls back once, when the response was sent or its connection closed. */
  onEnd(over: () => void): void;
};

/** Small responses are sent as a string of the same bytes: Node appends it to the headers and sends both in one write. */
const oneWriteBytes = 2 * 1024;
/** How much may wait for a slow client before reading from PostgreSQL pauses. */
export const unsentBytes = 256 * 1024;

export class NodeExchange implements HttpExchange {
  readonly body: IncomingMessage;
  private readonly response: ServerResponse;

  constructor(request: IncomingMessage, response: ServerResponse) {
    this.body = request;
    this.response = response;
  }

  get method(): string {
    return this.body.method ?? '';
  }

  get url(): string {
    return this.body.url ?? '';
  }

  get headers(): IncomingHttpHeaders {
    return this.body.headers;
  }

  get socket(): Socket {
    return this.body.socket;
  }

  /** A response that is queued on its connection gets no event when the connection closes, so the socket is checked too. */
  get isGone(): boolean {
    const { response, socket } = this;
    return (response.destroyed || socket?.destroyed === true) && !response.writableFinished;
  }

  send(status: number, head: Head, body: Buffer): void {
    const { response, method } = this;
    this.discardRest();
    response.writeHead(status, head as string[]);
    if (method === 'HEAD') response.end();
    else if (body.length > oneWriteBytes) response.end(body);
    else response.end(body.toString('latin1'), 'latin1');
  }

  begin(status: number, head: Head): void {
    this.response.writeHead(status, head as string[]);
  }

  write(bytes: Buffer, onSent?: (error?: Error | null) => void): boolean {
    const { response } = this;
    // Node emits "drain" only after a write that returned false.
    return response.write(bytes, onSent) || response.writableLength < unsentBytes;
  }

  drained(carryOn: () => void): void {
    this.response.once('drain', carryOn);
  }

  end(): void {
    this.response.end();
  }

  breakOff(): void {
    this.response.destroy();
  }

  onEnd(over: () => void): void {
    // Nothing is emitted any more for a response whose connection has closed.
    if (this.isGone) over();
    else onResponseEnd(this.response, over);
  }

  /**
   * A response that is sent before the end of the body must not wait for it, nor must the next request on this connection.
   * An iterator that read a part of the body still listens, and a stream with such a listener does not flow.
   */
  private discardRest(): void {
    const { body } = this;
    if (body.complete) return;
    this.response.once('finish', () => {
      body.unpipe();
      body.removeAllListeners('readable');
      setImmediate(() => body.resume());
    });
  }
}

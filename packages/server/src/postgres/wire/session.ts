// One connection to a project's database, under that project's role: the wire protocol without a driver. Rows are passed
// on as bytes in the socket's buffer, never as JavaScript values.
import type { Socket } from 'node:net';
import { isCrowded, nextRead } from '../../lib/fair-reads.ts';
import { authenticateBy } from './authentication.ts';
import { BackendMessages } from './backend-messages.ts';
import { requestCancel } from './cancel-request.ts';
import { connectMs, connectPlain, connectSecure, readBuffer } from './connect.ts';
import { FrontendMessages } from './frontend-messages.ts';
import { PreparedStatements } from './prepared-statements.ts';
import { type Receiver, silent } from './receiver.ts';
import { ReportedSettings } from './reported-settings.ts';
import type { ServerAddress } from './server-address.ts';
import { readServerError } from './server-error.ts';
import { RefusedError, StandbyError, TooLargeError } from './session-errors.ts';

export { type Receiver, RefusedError, silent, TooLargeError };

/** A connection that yields lets others read before it reads on, once it has read this much and the answer goes on. */
const restBytes = 32 * 1024;

export class Session {
  pid = 0;
  readonly out = new FrontendMessages();
  readonly statements = new PreparedStatements(this.out);
  readonly settings = new ReportedSettings();
  /** It has answered a question about the catalog, and its process keeps megabytes that it needed for it. */
  hasGrown = false;
  /** Its answers are for callers: large ones leave time to small ones of other sessions. */
  yields = false;
  private onClosed: () => void = () => {};
  private secret: Buffer = Buffer.alloc(0);
  /** Exchanges in flight, in order. The first one is being answered. */
  private readonly receivers: Receiver[] = [];
  private readonly messages = new BackendMessages({
    message: (type, bytes, start, end) => this.dispatch(type, bytes, start, end),
    takesRowParts: () => this.receivers[0]?.rowPart !== undefined,
    rowPart: (bytes, start, end, left) => this.receivers[0]?.rowPart?.(bytes, start, end, left),
  });
  private isPaused = false;
  /** Waits for its turn to read. */
  private isResting = false;
  /** Bytes received since the last rest. */
  private sinceRest = 0;
  private isUnsent = false;
  private failure: Error | null = null;
  private readonly socket: Socket;
  private readonly address: ServerAddress;

  private constructor(address: ServerAddress, secured: Socket | null) {
    this.address = address;
    this.socket = secured ?? connectPlain(address, (bytes) => this.take(bytes, bytes.length));
    secured?.on('data', (bytes: Buffer) => {
      const { first } = this;
      this.sinceRest += bytes.length;
      this.take(bytes, this.sinceRest);
      if (this.first !== first) this.sinceRest = 0;
    });
    this.socket.on('error', (error) => this.fail(error));
    this.socket.on('close', () => this.fail(new Error('PostgreSQL closed the connection.')));
  }

  /** At the primary, if the address has one. */
  static async open(address: ServerAddress, settings: Record<string, string>): Promise<Session> {
    const { primary, ...rest } = address;
    if (!primary) return Session.openAt(address, settings);
    return primary.connect(async (host) => {
      const session = await Session.openAt({ ...rest, ...host }, settings);
      if (session.settings.isStandby) {
        session.destroy();
        throw new StandbyError();
      }
      session.onClosed = primary.hold(host, () => session.destroy());
      return session;
    });
  }

  private static async openAt(address: ServerAddress, settings: Record<string, string>): Promise<Session> {
    const session = new Session(address, address.tls ? await connectSecure(address) : null);
    try {
      await session.start(settings);
      return session;
    } catch (error) {
      session.destroy();
      throw error;
    }
  }

  get isUsable(): boolean {
    return this.failure === null;
  }

  /** A statement has changed a setting that PostgreSQL reports, and it has not been reset yet. */
  get isAltered(): boolean {
    return this.settings.isAltered;
  }

  /** The receiver of the current or next answer. */
  get first(): Receiver | undefined {
    return this.receivers[0];
  }

  /**
   * Queues the content of `out` behind earlier exchanges; its answers go to `receiver`. It is sent at the end of this
   * turn of the event loop, so that all exchanges of a turn take one write and wake PostgreSQL once.
   */
  send(receiver: Receiver): void {
    if (this.failure) {
      this.out.takeAhead();
      this.out.take();
      receiver.lost(this.failure);
      return;
    }
    this.receivers.push(receiver);
    if (this.isUnsent) return;
    this.isUnsent = true;
    if (unsent.push(this) === 1) setImmediate(flushAll);
  }

  flush(): void {
    if (!this.isUnsent) return;
    this.isUnsent = false;
    const ahead = this.out.takeAhead();
    const bytes = this.out.take();
    if (this.failure) return;
    if (ahead.length === 0) {
      this.socket.write(bytes);
      return;
    }
    // Together, so that PostgreSQL wakes up once.
    this.socket.cork();
    for (const piece of ahead) this.socket.write(piece);
    this.socket.write(bytes);
    this.socket.uncork();
  }

  /** Sends a further part of the current exchange. `onSent`: the memory may be reused. */
  write(bytes: Buffer, onSent: () => void = () => {}): void {
    if (!this.failure) this.socket.write(bytes, onSent);
  }

  get isOnHold(): boolean {
    return this.messages.isHeld;
  }

  /** Passes on nothing until `carryOn`: the receiver has to look something up first. */
  hold(): void {
    this.messages.isHeld = true;
    this.socket.pause();
  }

  carryOn(): void {
    this.messages.isHeld = false;
    this.resumeReading();
    try {
      this.messages.readHeld();
    } catch (error) {
      this.fail(error as Error);
    }
  }

  /** Backpressure: PostgreSQL stops sending when its socket buffer is full. */
  pause(): void {
    this.isPaused = true;
    this.socket.pause();
  }

  resume(): void {
    if (!this.isPaused) return;
    this.isPaused = false;
    this.rest();
  }

  private resumeReading(): void {
    if (!this.isPaused && !this.messages.isHeld && !this.isResting) this.socket.resume();
  }

  /** Much of one answer, or a full buffer, is followed by more. Without a rest, Node.js would read on without end. */
  private take(bytes: Buffer, sinceRest: number): void {
    const { first } = this;
    try {
      this.messages.read(bytes);
    } catch (error) {
      this.fail(error as Error);
    }
    const restsSoon = this.yields && this.first === first && !isCrowded();
    if (sinceRest < (restsSoon ? restBytes : readBuffer.length) || this.failure) return;
    this.sinceRest = 0;
    this.socket.pause();
    this.rest();
  }

  /** Continues reading when it is its turn (lib/fair-reads.ts). */
  private rest(): void {
    if (this.isResting) return;
    this.isResting = true;
    nextRead(() => {
      this.isResting = false;
      this.resumeReading();
    }, this.yields);
  }

  cancel(): Promise<void> {
    return requestCancel(this.address, this.pid, this.secret);
  }

  /** Closes the connection with a Terminate message. */
  close(): void {
    if (this.failure) return;
    const failure = new Error('The connection was closed.');
    this.failure = failure;
    this.messages.end();
    this.onClosed();
    this.out.terminate();
    this.socket.end(this.out.take());
    this.socket.resume();
    for (const receiver of this.receivers.splice(0)) receiver.lost(failure);
  }

  destroy(because = new Error('The connection was cut.')): void {
    this.fail(because);
  }

  private async start(settings: Record<string, string>): Promise<void> {
    const { user, password, database, connectMs: limitMs = connectMs } = this.address;
    const answer = authenticateBy(password, this.out);
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => this.fail(new Error('PostgreSQL did not answer in time.')), limitMs);
      const done = (error?: Error) => {
        clearTimeout(timer);
        if (error) reject(error);
        else resolve();
      };
      this.receivers.push({
        ...silent,
        error: (error) => done(new RefusedError(error)),
        ready: () => {
          this.settings.started();
          done();
        },
        lost: (error) => done(error),
      });
      this.authenticate = (bytes, at, end) => {
        if (answer(bytes, at, end)) this.socket.write(this.out.take());
      };
      // Written at once: the socket buffers it until it is connected.
      this.out.startup({ user, database, client_encoding: 'UTF8', ...settings });
      this.socket.write(this.out.take());
    });
  }

  private authenticate: (bytes: Buffer, start: number, end: number) => void = () => {};

  private fail(error: Error): void {
    if (this.failure) return;
    this.failure = error;
    this.onClosed();
    this.socket.destroy();
    this.messages.end();
    for (const receiver of this.receivers.splice(0)) receiver.lost(error);
  }

  private dispatch(type: number, bytes: Buffer, start: number, end: number): void {
    const receiver = this.receivers[0] ?? silent;
    switch (type) {
      case 68: // DataRow
        return receiver.row(bytes, start, end);
      case 67: // CommandComplete
        return receiver.complete(bytes.toString('latin1', start, end - 1));
      case 115: // PortalSuspended
        return receiver.complete(null);
      case 73: // EmptyQueryResponse
        return receiver.complete('');
      case 84: // RowDescription
        return receiver.rowDescription(bytes, start, end);
      case 110: // NoData
        return receiver.noData();
      case 50: // BindComplete
        return receiver.bound();
      case 116: // ParameterDescription
        return receiver.parameterTypes(readOids(bytes, start));
      case 69: // ErrorResponse
        return receiver.error(readServerError(bytes, start, end));
      case 100: // CopyData
        return receiver.copyData?.(bytes, start, end);
      case 71: // CopyInResponse
        return receiver.copy('in');
      case 72: // CopyOutResponse
      case 87: // CopyBothResponse
        return receiver.copy('out');
      case 90: {
        // ReadyForQuery
        const status = bytes[start];
        this.receivers.shift();
        return receiver.ready(status === 73 ? 'idle' : status === 84 ? 'transaction' : 'failed');
      }
      case 75: // BackendKeyData
        this.pid = bytes.readInt32BE(start);
        this.secret = Buffer.from(bytes.subarray(start + 4, end));
        return;
      case 82: // Authentication
        return this.authenticate(bytes, start, end);
      case 83: // ParameterStatus
        return this.settings.note(bytes.toString('latin1', start, end));
      default: // ParseComplete, CloseComplete, NotificationResponse
        return;
    }
  }
}

const unsent: Session[] = [];

function flushAll(): void {
  for (const session of unsent.splice(0)) session.flush();
}

function readOids(bytes: Buffer, start: number): number[] {
  const count = bytes.readUInt16BE(start);
  return Array.from({ length: count }, (_, index) => bytes.readUInt32BE(start + 2 + index * 4));
}

// One connection to a project's database, under that project's role: the wire protocol without a driver. Rows are passed
// on as bytes in the socket's buffer, never as JavaScript values. Sizes are checked before anything is stored or decoded.
import type { Socket } from 'node:net';
import { authenticateBy } from './authentication.ts';
import { requestCancel } from './cancel-request.ts';
import { connectMs, connectPlain, connectSecure, readBuffer } from './connect.ts';
import type { Address } from './database.ts';
import { nextTurn } from './fair-reads.ts';
import { FrontendMessages } from './frontend-messages.ts';
import { PreparedStatements } from './prepared-statements.ts';
import { type Receiver, silent } from './receiver.ts';
import { ReportedSettings } from './reported-settings.ts';
import { readServerError } from './server-error.ts';
import { RefusedError, StandbyError, TooLargeError } from './session-errors.ts';
import { saysUnreplicated, UnreplicatedError } from './unreplicated.ts';

export { type Receiver, RefusedError, silent, TooLargeError };

const maxRowBytes = 128 * 1024 * 1024;
/** Larger rows are passed on in parts. */
const bufferedRowBytes = 128 * 1024;
const maxOtherBytes = 1024 * 1024;
/** Longer notices are skipped. The one that is looked for is much shorter. */
const maxNoticeBytes = 4096;

export class Session {
  pid = 0;
  readonly out = new FrontendMessages();
  readonly statements = new PreparedStatements(this.out);
  readonly settings = new ReportedSettings();
  /** It has answered a question about the catalog, and its process keeps megabytes that it needed for it. */
  hasGrown = false;
  private onClosed: () => void = () => {};
  private secret: Buffer = Buffer.alloc(0);
  /** Exchanges in flight, in order. The first one is being answered. */
  private readonly receivers: Receiver[] = [];
  private isHeld = false;
  private isPaused = false;
  /** Waits for its turn to read. */
  private isResting = false;
  /** Bytes received since the last rest. */
  private sinceRest = 0;
  /** Missing bytes of a row that is passed on in parts. */
  private rowLeft = 0;
  /** The beginning of an incomplete message, and how many bytes are needed to continue. */
  private partial: Buffer[] = [];
  private partialBytes = 0;
  private needed = 5;
  private isUnsent = false;
  private skipBytes = 0;
  private failure: Error | null = null;
  private readonly socket: Socket;
  private readonly address: Address;

  private constructor(address: Address, secured: Socket | null) {
    this.address = address;
    this.socket = secured ?? connectPlain(address, (bytes) => this.take(bytes, bytes.length));
    secured?.on('data', (bytes: Buffer) => {
      this.sinceRest += bytes.length;
      this.take(bytes, this.sinceRest);
    });
    this.socket.on('error', (error) => this.fail(error));
    this.socket.on('close', () => this.fail(new Error('PostgreSQL closed the connection.')));
  }

  /** At the primary, if the address has one. */
  static async open(address: Address, settings: Record<string, string>): Promise<Session> {
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

  private static async openAt(address: Address, settings: Record<string, string>): Promise<Session> {
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
    return this.isHeld;
  }

  /** Passes on nothing until `carryOn`: the receiver has to look something up first. */
  hold(): void {
    this.isHeld = true;
    this.socket.pause();
  }

  carryOn(): void {
    this.isHeld = false;
    this.resumeReading();
    this.readPartial();
  }

  /** Backpressure: PostgreSQL stops sending when its socket buffer is full. */
  pause(): void {
    this.isPaused = true;
    this.socket.pause();
  }

  resume(): void {
    this.isPaused = false;
    this.rest();
  }

  private resumeReading(): void {
    if (!this.isPaused && !this.isHeld && !this.isResting) this.socket.resume();
  }

  /** A read that fills the buffer is followed by more. Without a rest, Node.js would read on without end. */
  private take(bytes: Buffer, sinceRest: number): void {
    this.receive(bytes);
    if (sinceRest < readBuffer.length || this.failure) return;
    this.sinceRest = 0;
    this.socket.pause();
    this.rest();
  }

  /** Continues reading at its turn. */
  private rest(): void {
    if (this.isResting) return;
    this.isResting = true;
    nextTurn(() => {
      this.isResting = false;
      this.resumeReading();
    });
  }

  cancel(): Promise<void> {
    return requestCancel(this.address, this.pid, this.secret);
  }

  /** Closes the connection with a Terminate message. */
  close(): void {
    if (this.failure) return;
    const failure = new Error('The connection was closed.');
    this.failure = failure;
    this.onClosed();
    this.out.terminate();
    this.socket.end(this.out.take());
    this.socket.resume();
    for (const receiver of this.receivers.splice(0)) receiver.lost(failure);
  }

  destroy(): void {
    this.fail(new Error('The connection was cut.'));
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
    this.partial = [];
    this.partialBytes = 0;
    this.rowLeft = 0;
    for (const receiver of this.receivers.splice(0)) receiver.lost(error);
  }

  /** Complete messages are read in place. An incomplete one is assembled once. */
  private receive(bytes: Buffer): void {
    let at = 0;
    if (this.skipBytes > 0) {
      at = Math.min(this.skipBytes, bytes.length);
      this.skipBytes -= at;
    }
    if (this.rowLeft > 0) {
      const end = Math.min(bytes.length, at + this.rowLeft);
      this.passOnSafely(bytes, at, end);
      at = end;
    }
    while (this.partialBytes > 0 && !this.isHeld) {
      const missing = this.needed - this.partialBytes;
      if (bytes.length - at < missing) break;
      this.partial.push(bytes.subarray(at, at + missing));
      this.partialBytes += missing;
      at += missing;
      this.readPartial();
    }
    if (at === bytes.length || this.failure) return;
    if (this.partialBytes === 0 && !this.isHeld) this.readSafely(bytes, at);
    else this.appendPartial(bytes, at);
  }

  private readPartial(): void {
    if (this.partialBytes === 0) return;
    const bytes = Buffer.concat(this.partial, this.partialBytes);
    this.partial = [];
    this.partialBytes = 0;
    this.readSafely(bytes, 0);
  }

  private readSafely(bytes: Buffer, start: number): void {
    try {
      this.readMessages(bytes, start);
    } catch (error) {
      this.fail(error as Error);
    }
  }

  private passOnSafely(bytes: Buffer, start: number, end: number): void {
    try {
      this.passOn(bytes, start, end);
    } catch (error) {
      this.fail(error as Error);
    }
  }

  private passOn(bytes: Buffer, start: number, end: number): void {
    this.rowLeft -= end - start;
    this.receivers[0]?.rowPart?.(bytes, start, end, this.rowLeft);
  }

  private readMessages(bytes: Buffer, start: number): void {
    let at = start;
    while (at < bytes.length && !this.failure) {
      if (this.isHeld || bytes.length - at < 5) return this.startPartial(bytes, at, 5);
      const type = bytes[at] as number;
      const size = bytes.readInt32BE(at + 1);
      const end = at + 1 + size;
      // A notice can have any size, so a long one is skipped without being buffered.
      if (type === 78 && end > bytes.length && size > maxNoticeBytes) {
        this.skipBytes = end - bytes.length;
        return;
      }
      if (end > bytes.length) {
        const isRow = type === 68 || type === 100;
        if (size > (isRow ? maxRowBytes : maxOtherBytes)) {
          throw new TooLargeError(type);
        }
        if (isRow && size > bufferedRowBytes && this.receivers[0]?.rowPart) {
          this.rowLeft = size - 4;
          return this.passOn(bytes, at + 5, bytes.length);
        }
        return this.startPartial(bytes, at, 1 + size);
      }
      if (type !== 78) this.dispatch(type, bytes, at + 5, end);
      else if (size <= maxNoticeBytes && saysUnreplicated(bytes.subarray(at + 5, end)))
        throw new UnreplicatedError();
      at = end;
    }
  }

  private startPartial(bytes: Buffer, at: number, needed: number): void {
    this.needed = needed;
    this.appendPartial(bytes, at);
  }

  /** Copies the bytes: the next read overwrites this memory. */
  private appendPartial(bytes: Buffer, at: number): void {
    this.partial.push(Buffer.from(bytes.subarray(at)));
    this.partialBytes += bytes.length - at;
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

// One connection to a project's database, as that project's own role: bytes out, bytes in. Rows are handed on as they
// lie in the socket's buffer, never as JavaScript values. Sizes are looked at before anything is kept or decoded.
import { connect, type Socket } from 'node:net';
import { connectMs, connectPlain, inbox, placeOf, secure } from './connect.ts';
import type { Address } from './database.ts';
import { nextTurn } from './fair-reads.ts';
import { FrontendMessages } from './frontend-messages.ts';
import { PreparedStatements } from './prepared-statements.ts';
import { scramClient } from './scram.ts';
import { readServerError, type ServerError } from './server-error.ts';
import { RefusedError, TooLargeError } from './session-errors.ts';

export { RefusedError, TooLargeError };

/** What a running exchange is told. Everything comes in PostgreSQL's own order and ends with `ready` or `lost`. */
export type Receiver = {
  rowDescription(bytes: Buffer, start: number, end: number): void;
  parameterTypes(oids: number[]): void;
  noData(): void;
  bound(): void;
  row(bytes: Buffer, start: number, end: number): void;
  /** A row that is too large to be gathered, as it comes: `left` bytes follow. Without this it is gathered all the same. */
  rowPart?(bytes: Buffer, start: number, end: number, left: number): void;
  /** The command's tag, or null when the row limit came first. */
  complete(tag: string | null): void;
  error(error: ServerError): void;
  /** COPY wants to speak its own protocol. Who cannot (all but copy-in.ts) has no use for the connection after this. */
  copy(direction: 'in' | 'out'): void;
  ready(status: 'idle' | 'transaction' | 'failed'): void;
  lost(error: Error): void;
};

const maxRowBytes = 128 * 1024 * 1024;
/** A larger row is handed on in parts. */
const gatheredRowBytes = 128 * 1024;
const maxOtherBytes = 1024 * 1024;

export class Session {
  pid = 0;
  /** Of PostgreSQL: 18. */
  serverMajor = 0;
  readonly out = new FrontendMessages();
  readonly statements = new PreparedStatements(this.out);
  /** Settings that PostgreSQL reports by itself, as they were at the start, and those that are others now. */
  private readonly settings = new Map<string, string>();
  private readonly altered = new Set<string>();
  private isStarted = false;
  private secret: Buffer = Buffer.alloc(0);
  /** Exchanges on their way, in order: the first one is being answered. */
  private readonly receivers: Receiver[] = [];
  private isHeld = false;
  private isPaused = false;
  /** Others have their turn first. */
  private isResting = false;
  /** What came since the last rest. */
  private sinceRest = 0;
  /** Of a row that is handed on in parts, what has not come. */
  private rowLeft = 0;
  /** The beginning of a message whose rest is on its way, and how much of it is needed to go on. */
  private kept: Buffer[] = [];
  private keptBytes = 0;
  private needed = 5;
  private isUnsent = false;
  private skipping = 0;
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

  static async open(address: Address, settings: Record<string, string>): Promise<Session> {
    const session = new Session(address, address.tls ? await secure(address) : null);
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

  /** Something that ran here has changed a setting that PostgreSQL reports, and nothing has set it back yet. */
  get isAltered(): boolean {
    return this.altered.size > 0;
  }

  /** PostgreSQL would read a text otherwise than our parser does. */
  get readsOtherwise(): boolean {
    return this.altered.has('standard_conforming_strings') || this.altered.has('client_encoding');
  }

  /** Whose answer comes now or next. */
  get first(): Receiver | undefined {
    return this.receivers[0];
  }

  /**
   * Sends what `out` holds, behind what was sent before; its answers go to `receiver`. It leaves when this turn of the
   * event loop has seen to all that came in: one write, and one awakening of PostgreSQL, for all of it.
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
    for (const piece of ahead) this.socket.write(piece);
    this.socket.write(bytes);
  }

  /** Of an exchange that has been sent in part: the rest of it, as it comes. `onSent`: the memory may be used again. */
  write(bytes: Buffer, onSent: () => void = () => {}): void {
    if (!this.failure) this.socket.write(bytes, onSent);
  }

  get isOnHold(): boolean {
    return this.isHeld;
  }

  /** Nothing is handed on until `carryOn`: the receiver has to find something out first. */
  hold(): void {
    this.isHeld = true;
    this.socket.pause();
  }

  carryOn(): void {
    this.isHeld = false;
    this.flow();
    this.readKept();
  }

  /** Backpressure: PostgreSQL stops when its socket is full. */
  pause(): void {
    this.isPaused = true;
    this.socket.pause();
  }

  resume(): void {
    this.isPaused = false;
    this.rest();
  }

  private flow(): void {
    if (!this.isPaused && !this.isHeld && !this.isResting) this.socket.resume();
  }

  /** What fills the memory for one read is followed by more: without a rest Node.js would read on and on. */
  private take(bytes: Buffer, sinceRest: number): void {
    this.receive(bytes);
    if (sinceRest < inbox.length || this.failure) return;
    this.sinceRest = 0;
    this.socket.pause();
    this.rest();
  }

  /** Reads on when its turn comes. */
  private rest(): void {
    if (this.isResting) return;
    this.isResting = true;
    nextTurn(() => {
      this.isResting = false;
      this.flow();
    });
  }

  /** Asks PostgreSQL to cancel what runs, on a connection of its own as the protocol wants. */
  cancel(): Promise<void> {
    return new Promise((resolve) => {
      const socket = connect(placeOf(this.address));
      socket.setTimeout(2_000, () => socket.destroy());
      socket.on('error', () => {});
      socket.on('close', () => resolve());
      socket.end(new FrontendMessages().cancel(this.pid, this.secret).take());
    });
  }

  /** Ends it, politely if it is idle. */
  close(): void {
    if (this.failure) return;
    const failure = new Error('The connection was closed.');
    this.failure = failure;
    this.out.terminate();
    this.socket.end(this.out.take());
    this.socket.resume();
    for (const receiver of this.receivers.splice(0)) receiver.lost(failure);
  }

  destroy(): void {
    this.fail(new Error('The connection was cut.'));
  }

  private async start(settings: Record<string, string>): Promise<void> {
    const { user, password, database } = this.address;
    const scram = scramClient(password);
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => this.fail(new Error('PostgreSQL did not answer in time.')), connectMs);
      const done = (error?: Error) => {
        clearTimeout(timer);
        if (error) reject(error);
        else resolve();
      };
      this.receivers.push({
        ...silent,
        error: (error) => done(new RefusedError(error)),
        ready: () => {
          this.isStarted = true;
          done();
        },
        lost: (error) => done(error),
      });
      this.authenticate = (bytes, at, end) => {
        const kind = bytes.readInt32BE(at);
        if (kind === 0) return;
        if (kind === 10) this.out.saslInitial('SCRAM-SHA-256', scram.first());
        else if (kind === 11) this.out.saslResponse(scram.final(bytes.toString('utf8', at + 4, end)));
        else if (kind === 12) scram.verify(bytes.toString('utf8', at + 4, end));
        else throw new Error('PostgreSQL asks for another kind of password than scram.');
        if (kind !== 12) this.socket.write(this.out.take());
      };
      // Written at once: the socket keeps it until it is connected.
      this.out.startup({ user, database, client_encoding: 'UTF8', ...settings });
      this.socket.write(this.out.take());
    });
  }

  private noteSetting(text: string): void {
    const [name, value = ''] = text.split('\0');
    if (name === 'server_version') this.serverMajor = Number.parseInt(value, 10);
    if (name === undefined || ownSettings.has(name)) return;
    if (!this.isStarted) this.settings.set(name, value);
    else if (this.settings.get(name) === value) this.altered.delete(name);
    else this.altered.add(name);
  }

  private authenticate: (bytes: Buffer, start: number, end: number) => void = () => {};

  private fail(error: Error): void {
    if (this.failure) return;
    this.failure = error;
    this.socket.destroy();
    this.kept = [];
    this.keptBytes = 0;
    this.rowLeft = 0;
    for (const receiver of this.receivers.splice(0)) receiver.lost(error);
  }

  /** Messages that lie whole in one piece are read where they lie; one that does not is put together once. */
  private receive(bytes: Buffer): void {
    let at = 0;
    if (this.skipping > 0) {
      at = Math.min(this.skipping, bytes.length);
      this.skipping -= at;
    }
    if (this.rowLeft > 0) {
      const end = Math.min(bytes.length, at + this.rowLeft);
      this.passOnSafely(bytes, at, end);
      at = end;
    }
    while (this.keptBytes > 0 && !this.isHeld) {
      const missing = this.needed - this.keptBytes;
      if (bytes.length - at < missing) break;
      this.kept.push(bytes.subarray(at, at + missing));
      this.keptBytes += missing;
      at += missing;
      this.readKept();
    }
    if (at === bytes.length || this.failure) return;
    if (this.keptBytes === 0 && !this.isHeld) this.readSafely(bytes, at);
    else this.keepMore(bytes, at);
  }

  private readKept(): void {
    if (this.keptBytes === 0) return;
    const bytes = Buffer.concat(this.kept, this.keptBytes);
    this.kept = [];
    this.keptBytes = 0;
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
      if (this.isHeld || bytes.length - at < 5) return this.keep(bytes, at, 5);
      const type = bytes[at] as number;
      const size = bytes.readInt32BE(at + 1);
      const end = at + 1 + size;
      // Notices are nobody's business here and can be of any size: they are never even gathered.
      if (type === 78 && end > bytes.length) {
        this.skipping = end - bytes.length;
        return;
      }
      if (end > bytes.length) {
        if (size > (type === 68 ? maxRowBytes : maxOtherBytes)) {
          throw new TooLargeError(type);
        }
        if (type === 68 && size > gatheredRowBytes && this.receivers[0]?.rowPart) {
          this.rowLeft = size - 4;
          return this.passOn(bytes, at + 5, bytes.length);
        }
        return this.keep(bytes, at, 1 + size);
      }
      if (type !== 78) this.dispatch(type, bytes, at + 5, end);
      at = end;
    }
  }

  private keep(bytes: Buffer, at: number, needed: number): void {
    this.needed = needed;
    this.keepMore(bytes, at);
  }

  /** A copy: what is read next comes into the same memory. */
  private keepMore(bytes: Buffer, at: number): void {
    this.kept.push(Buffer.from(bytes.subarray(at)));
    this.keptBytes += bytes.length - at;
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
        return this.noteSetting(bytes.toString('latin1', start, end));
      default: // ParseComplete, CloseComplete, NotificationResponse
        return;
    }
  }
}

/** Changed by us, or by PostgreSQL itself. */
const ownSettings = new Set(['default_transaction_read_only', 'in_hot_standby']);

const unsent: Session[] = [];

function flushAll(): void {
  for (const session of unsent.splice(0)) session.flush();
}

export const silent: Receiver = {
  rowDescription: () => {},
  parameterTypes: () => {},
  noData: () => {},
  bound: () => {},
  row: () => {},
  complete: () => {},
  error: () => {},
  copy: () => {},
  ready: () => {},
  lost: () => {},
};

function readOids(bytes: Buffer, start: number): number[] {
  const count = bytes.readUInt16BE(start);
  return Array.from({ length: count }, (_, index) => bytes.readUInt32BE(start + 2 + index * 4));
}

// Keeps the time of what runs in a session: the deadline, a caller who hangs up, one who reads slowly. First PostgreSQL is
// asked to cancel; what does not end then is ended by force.
import { errors, RowhouseError } from '../errors.ts';
import type { Session } from '../postgres/session.ts';
import type { Clock, Exchange, Sink } from './exchange.ts';

export type Reader = Sink & {
  /** The caller has hung up. */
  readonly isGone: boolean;
  /** Called when that happens. */
  whenGone(tell: () => void): void;
};

/** Most statements have ended by then: until then nobody listens for a hang-up. */
const lookMs = 50;
/** After a cancel that had no effect. */
const graceMs = 1_000;
/** A reader that takes nothing for this long is given up. */
const stallMs = 30_000;

export class Watch implements Clock {
  isStopped = false;
  private readonly session: Session;
  private readonly reader: Reader;
  private readonly terminate: (session: Session) => void;
  private readonly timeoutMs: number;
  private leftMs: number;
  private since = performance.now();
  private timer: NodeJS.Timeout;
  private isEnded = false;
  private isListening = false;
  private current: Exchange | null = null;

  constructor(
    session: Session,
    reader: Reader,
    timeoutMs: number,
    terminate: (session: Session) => void,
    usedMs = 0,
  ) {
    this.session = session;
    this.reader = reader;
    this.timeoutMs = timeoutMs;
    this.terminate = terminate;
    this.leftMs = timeoutMs - usedMs;
    this.timer = setTimeout(() => this.look(), Math.min(lookMs, this.leftMs));
  }

  follow(exchange: Exchange): void {
    this.current = exchange;
    exchange.useClock(this);
  }

  pause(): void {
    if (this.isStopped) return;
    clearTimeout(this.timer);
    this.leftMs -= performance.now() - this.since;
    this.timer = setTimeout(() => {
      this.current?.stop(hungUp());
      this.terminate(this.session);
    }, stallMs);
    this.listen();
  }

  resume(): void {
    if (this.isStopped) return;
    clearTimeout(this.timer);
    this.since = performance.now();
    this.timer = setTimeout(() => this.look(), Math.max(0, this.leftMs));
  }

  end(): void {
    this.isEnded = true;
    clearTimeout(this.timer);
  }

  private look(): void {
    const leftMs = this.leftMs - (performance.now() - this.since);
    if (leftMs <= 0) return this.stop(errors.queryTimeout(this.timeoutMs));
    this.timer = setTimeout(() => this.look(), leftMs);
    this.listen();
  }

  private listen(): void {
    if (this.isListening) return;
    this.isListening = true;
    if (this.reader.isGone) this.stop(hungUp());
    else this.reader.whenGone(() => this.stop(hungUp()));
  }

  private stop(because: RowhouseError): void {
    if (this.isStopped || this.isEnded) return;
    this.isStopped = true;
    this.current?.stop(because);
    void this.session.cancel();
    clearTimeout(this.timer);
    // Cleared as soon as the statement has ended: the process id may belong to somebody else by then.
    this.timer = setTimeout(() => this.terminate(this.session), graceMs);
  }
}

export function hungUp(): RowhouseError {
  return new RowhouseError('request_timeout', 'The caller hung up or stopped reading.');
}

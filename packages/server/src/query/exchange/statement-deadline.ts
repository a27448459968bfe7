// The time limit of what runs in a session: its deadline, a caller that hangs up, a reader that is too slow. A statement is
// cancelled first; if it does not end then, its backend is terminated.
import { errors, RowhouseError } from '../../errors/errors.ts';
import type { Session } from '../../postgres/wire/session.ts';
import type { Clock } from './answer-writer.ts';
import type { Reader } from './reader.ts';

/** Something that runs in a session and can be stopped. */
export type Stoppable = {
  stop(because: RowhouseError): void;
  useClock(clock: Clock): void;
  /** It names no change. What its functions have done has to be found out if a cancel does not end it. */
  isRead?: boolean;
};

/** After a cancel without effect. A caller is answered within a second of its deadline, whatever hangs. */
const graceMs = 500;
/** For a read, whose session is thrown away in any case: that leaves time to look whether it has written something. */
const readGraceMs = 150;
/** For a statement that was refused for another reason: whether it was undone has to be known. */
const lastWordsMs = 5_000;
/** A reader that takes nothing for this long is given up. */
const stallMs = 30_000;
/** All waits of a reader together, as for exports: one that takes a little now and then holds a session, too. */
const maxPausedMs = 60 * 60_000;

/** One timer checks all of them: few statements last long enough to need one of their own. */
const active = new Set<StatementDeadline>();
const tickMs = 20;
let ticking: NodeJS.Timeout | null = null;

function tick(): void {
  const now = performance.now();
  for (const watch of active) watch.look(now);
  if (active.size === 0 && ticking) {
    clearInterval(ticking);
    ticking = null;
  }
}

/** Stops the statement that runs in the backend with this process id. False: there is none of the service. */
export function stopSession(pid: number, because: RowhouseError): boolean {
  for (const watch of active) {
    if (watch.pid !== pid) continue;
    watch.stop(because);
    return true;
  }
  return false;
}

export class StatementDeadline implements Clock {
  /** Why it was stopped. */
  stoppedBy: RowhouseError | null = null;
  private readonly session: Session;
  private reader: Reader | null;
  private readonly terminate: (session: Session, waitMs?: number) => void;
  private readonly timeoutMs: number;
  /** When the time is up. */
  private endsAt: number;
  private pausedAt: number | null = null;
  private patienceMs = stallMs;
  private pausedMs = 0;
  private current: Stoppable | null = null;

  constructor(
    session: Session,
    reader: Reader,
    timeoutMs: number,
    terminate: (session: Session, waitMs?: number) => void,
    since = reader.startedAt,
  ) {
    this.session = session;
    this.reader = reader;
    this.timeoutMs = timeoutMs;
    this.terminate = terminate;
    this.endsAt = since + timeoutMs;
    active.add(this);
    ticking ??= setInterval(tick, tickMs);
  }

  get pid(): number {
    return this.session.pid;
  }

  get isStopped(): boolean {
    return this.stoppedBy !== null;
  }

  follow(watched: Stoppable): void {
    this.current = watched;
    watched.useClock(this);
  }

  pause(patienceMs?: number): void {
    if (this.isStopped) return;
    this.patienceMs = patienceMs ?? Math.min(stallMs, maxPausedMs - this.pausedMs);
    this.pausedAt = performance.now();
  }

  resume(): void {
    if (this.pausedAt === null) return;
    const pausedMs = performance.now() - this.pausedAt;
    this.endsAt += pausedMs;
    this.pausedMs += pausedMs;
    this.pausedAt = null;
  }

  /** Statements that are sent from now on may change the project. */
  noteChange(): void {
    if (this.reader) this.reader.mayHaveChanged = true;
  }

  /** Releases the request: pipelines.ts says why. */
  end(): void {
    active.delete(this);
    this.reader = null;
    this.current = null;
  }

  look(now: number): void {
    if (!this.isStopped && this.reader?.isGone) this.stop(hungUp());
    else if (this.pausedAt !== null) {
      if (now < this.pausedAt + this.patienceMs) return;
      this.stoppedBy ??= hungUp();
      this.current?.stop(this.stoppedBy);
      this.force();
    } else if (now >= this.endsAt) {
      if (this.isStopped) this.force();
      else this.stop(errors.queryTimeout(this.timeoutMs));
    }
  }

  /** Called for a deadline, and for other reasons such as a full project. */
  stop(because: RowhouseError, patienceMs = this.current?.isRead ? readGraceMs : graceMs): void {
    if (this.isStopped || !active.has(this)) return;
    this.stoppedBy = because;
    // If it does not end, the backend is terminated; never after `end`, when the process id may belong to another session.
    this.endsAt = performance.now() + patienceMs;
    this.current?.stop(because);
    this.pausedAt = null;
    if (patienceMs === 0) this.force();
    else void this.session.cancel();
  }

  private force(): void {
    active.delete(this);
    // A caller whose time is over, or who has gone, does not wait for the outcome.
    const isLate = this.stoppedBy?.code === 'query_timeout' || this.reader?.isGone === true;
    this.terminate(this.session, isLate ? undefined : lastWordsMs);
  }
}

export function hungUp(): RowhouseError {
  return new RowhouseError('request_timeout', 'The caller disconnected or stopped reading.');
}

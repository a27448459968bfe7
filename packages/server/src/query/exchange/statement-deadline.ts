// Keeps the time of what runs in a session: the deadline, a caller who hangs up, one who reads slowly. First PostgreSQL is
// asked to cancel; what does not end then is ended by force.
import { errors, RowhouseError } from '../../errors.ts';
import type { Session } from '../../postgres/session.ts';
import type { Clock } from './answer-writer.ts';
import type { Reader } from './reader.ts';

/** What runs and can be told to stop. */
export type Stoppable = { stop(because: RowhouseError): void; useClock(clock: Clock): void };

/** After a cancel that had no effect. A caller is answered within a second of its time, whatever hangs. */
const graceMs = 500;
/** For what was refused for other reasons: whether it was undone has to be known. */
const lastWordsMs = 5_000;
/** A reader that takes nothing for this long is given up. */
const stallMs = 30_000;

/** One timer looks after all of them: hardly any lasts long enough to need one of its own. */
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

/** Stops what runs in the session of that process of PostgreSQL's; false: nothing of ours does. */
export function stopSession(pid: number, because: RowhouseError): boolean {
  for (const watch of active) {
    if (watch.pid !== pid) continue;
    watch.stop(because);
    return true;
  }
  return false;
}

export class StatementDeadline implements Clock {
  /** Why it was told to stop. */
  stoppedBy: RowhouseError | null = null;
  private readonly session: Session;
  private reader: Reader | null;
  private readonly terminate: (session: Session, waitMs?: number) => void;
  private readonly timeoutMs: number;
  /** When the time is up; while the reader is slow, when it is given up. */
  private endsAt: number;
  private pausedAt: number | null = null;
  private patienceMs = stallMs;
  private current: Stoppable | null = null;

  constructor(
    session: Session,
    reader: Reader,
    timeoutMs: number,
    terminate: (session: Session, waitMs?: number) => void,
  ) {
    this.session = session;
    this.reader = reader;
    this.timeoutMs = timeoutMs;
    this.terminate = terminate;
    this.endsAt = reader.startedAt + timeoutMs;
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

  pause(patienceMs = stallMs): void {
    if (this.isStopped) return;
    this.patienceMs = patienceMs;
    this.pausedAt = performance.now();
  }

  resume(): void {
    if (this.pausedAt === null) return;
    this.endsAt += performance.now() - this.pausedAt;
    this.pausedAt = null;
  }

  /** What is sent from now on may change the project. */
  noteChange(): void {
    if (this.reader) this.reader.mayHaveChanged = true;
  }

  /** Lets go of the request: pipelines.ts says why. */
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

  /** Also for others who have a reason. */
  stop(because: RowhouseError, patienceMs = graceMs): void {
    if (this.isStopped || !active.has(this)) return;
    this.stoppedBy = because;
    // What does not end now is ended by force; not after `end`: the process id may belong to somebody else by then.
    this.endsAt = performance.now() + patienceMs;
    this.current?.stop(because);
    this.pausedAt = null;
    if (patienceMs === 0) this.force();
    else void this.session.cancel();
  }

  private force(): void {
    active.delete(this);
    // Whose time is over, or who has gone, is not kept waiting for what became of it.
    const isLate = this.stoppedBy?.code === 'query_timeout' || this.reader?.isGone === true;
    this.terminate(this.session, isLate ? undefined : lastWordsMs);
  }
}

export function hungUp(): RowhouseError {
  return new RowhouseError('request_timeout', 'The caller hung up or stopped reading.');
}

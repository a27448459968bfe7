// Short, plain reads of one project share a few connections, one behind the other: PostgreSQL then wakes once for several
// of them. Nobody waits behind a slow one: as soon as the first in a lane takes long, or has much to say, those behind it
// are run elsewhere. They are reads, so it does not matter that PostgreSQL may have begun with them.
import { availableParallelism } from 'node:os';
import type { ProjectLogin } from '../engine/provision.ts';
import type { Session } from '../postgres/session.ts';
import type { Exchange } from './exchange.ts';
import { MovedError, Sound } from './failures.ts';
import { type Habit, noteDuration } from './habits.ts';
import type { ProjectSessions } from './project-sessions.ts';
import { type Reader, Watch } from './watch.ts';

export type Lanes = {
  /** A lane with room, or null: then the statement has to run alone. */
  take(project: ProjectLogin): Lane | null;
};

/** What usually takes longer has a session to itself. */
const shortMs = 10;
/** Who is first for longer than this is left alone. */
const patienceMs = 50;
const maxDepth = 64;
/** On two cores two do more than four: PostgreSQL is woken less often. */
const maxLanes = Math.max(2, Math.min(4, availableParallelism()));

export function canShare({ usualMs, statement }: Habit): boolean {
  return statement.isRead && usualMs < shortMs;
}

/** `exchange` and `reader`: until it is done. */
type Shared = { exchange: Exchange | null; reader: Reader | null; timeoutMs: number; watch: Watch | null };

export class Lane {
  readonly session: Session;
  /** In the order in which they were sent. */
  private readonly shared: Shared[] = [];
  private readonly sessions: ProjectSessions;
  private readonly onEnd: (lane: Lane) => void;
  /** Nobody joins any more. */
  private isClosed = false;
  /** The session may hold what belongs to nobody: it is not used again. */
  private isSpoiled = false;
  private lastDoneAt = 0;

  constructor(session: Session, sessions: ProjectSessions, onEnd: (lane: Lane) => void) {
    this.session = session;
    this.sessions = sessions;
    this.onEnd = onEnd;
  }

  get depth(): number {
    return this.shared.length;
  }

  get isOpen(): boolean {
    return !this.isClosed && this.session.isUsable;
  }

  get isSound(): boolean {
    return !this.isSpoiled && this.session.isUsable;
  }

  /** False: it was moved away and has to run elsewhere. */
  async run(exchange: Exchange, reader: Reader, timeoutMs: number, habit: Habit): Promise<boolean> {
    const shared: Shared = { exchange, reader, timeoutMs, watch: null };
    this.shared.push(shared);
    exchange.onStreaming = () => this.leaveAlone(shared);
    try {
      await exchange.run();
      const ms = performance.now() - Math.max(this.lastDoneAt, exchange.startedAt);
      noteDuration(habit, exchange.isLarge ? 1_000 : ms);
      return true;
    } catch (error) {
      if (error instanceof MovedError || this.isInnocent(shared)) return false;
      if (error instanceof Sound && error.status === 'idle') throw error.reason;
      this.isClosed = true;
      this.isSpoiled = true;
      throw error instanceof Sound ? error.reason : error;
    } finally {
      if (shared.watch) {
        // A cancel that comes late would hit the next one.
        if (shared.watch.isStopped) this.isSpoiled = true;
        shared.watch.end();
        noteDuration(habit, 1_000);
      }
      this.shared.splice(this.shared.indexOf(shared), 1);
      this.lastDoneAt = performance.now();
      // Lets go of the request: what is dead but old keeps what is young alive until all memory is looked through, and
      // one request after the other would become old by that. It cost a third of the time and most of the slowest answers.
      shared.exchange = null;
      shared.reader = null;
      if (this.shared.length === 0) this.onEnd(this);
    }
  }

  /** The session was lost before its turn came: what one of the others did, or the server, is not its answer. */
  private isInnocent({ exchange, watch }: Shared): boolean {
    return !this.session.isUsable && exchange?.hasBegun === false && watch === null;
  }

  /** Called twice within `patienceMs`, as long as there are lanes. */
  look(now: number): void {
    const first = this.first;
    if (!first?.exchange || first.watch) return;
    if (now - Math.max(this.lastDoneAt, first.exchange.startedAt) > patienceMs) this.leaveAlone(first);
  }

  private get first(): Shared | undefined {
    const running = this.session.first;
    return this.shared.find(({ exchange }) => exchange === running);
  }

  /**
   * The first has the session to itself from now on, with a deadline as everybody has. Were others behind it, PostgreSQL may
   * be answering them yet when it is done, so that the session is not used again.
   */
  private leaveAlone(first: Shared): void {
    const { exchange, reader, timeoutMs } = first;
    if (first.watch || !exchange || !reader) return;
    this.isClosed = true;
    const usedMs = performance.now() - exchange.startedAt;
    first.watch = new Watch(this.session, reader, timeoutMs, this.sessions.terminate, usedMs);
    first.watch.follow(exchange);
    for (const other of [...this.shared]) {
      if (other === first) continue;
      this.isSpoiled = true;
      other.exchange?.move();
    }
  }
}

export function openLanes(sessions: ProjectSessions, share: number): Lanes {
  const byProject = new Map<string, Lane[]>();
  const lanesAtMost = Math.min(maxLanes, Math.floor(share / 2));
  let looking: NodeJS.Timeout | null = null;
  let lookedAt = 0;

  /** Where this process itself is late, answers lie in its sockets that it has not read yet: nobody is slow by that. */
  const look = () => {
    const now = performance.now();
    const lateMs = Math.max(0, now - lookedAt - patienceMs / 2);
    lookedAt = now;
    for (const lanes of byProject.values()) for (const lane of lanes) lane.look(now - 2 * lateMs);
  };
  const end = (project: ProjectLogin, lanes: Lane[], lane: Lane) => {
    lanes.splice(lanes.indexOf(lane), 1);
    if (lanes.length === 0) byProject.delete(project.id);
    if (byProject.size === 0 && looking) {
      clearInterval(looking);
      looking = null;
    }
    sessions.release(project, lane.session, lane.isSound ? 'plain' : 'broken');
  };

  return {
    take: (project) => {
      // Others wait for connections: lanes come to their end.
      if (sessions.isWanted(project)) return null;
      let lanes = byProject.get(project.id);
      let best: Lane | null = null;
      for (const lane of lanes ?? []) {
        if (lane.isOpen && lane.depth < (best?.depth ?? maxDepth)) best = lane;
      }
      if ((lanes?.length ?? 0) >= lanesAtMost) return best;
      const session = sessions.takeIdle(project);
      if (!session) return best;
      if (!lanes) {
        lanes = [];
        byProject.set(project.id, lanes);
      }
      const mine = lanes;
      const lane = new Lane(session, sessions, (ended) => end(project, mine, ended));
      mine.push(lane);
      if (!looking) {
        lookedAt = performance.now();
        looking = setInterval(look, patienceMs / 2);
      }
      return lane;
    },
  };
}

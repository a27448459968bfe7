// Short, plain reads of one project share a few connections, one behind the other: PostgreSQL then wakes once for several
// of them. Nobody waits behind a slow one: as soon as the first in a lane takes long, or has much to say, those behind it
// are run elsewhere. They are reads, so it does not matter that PostgreSQL may have begun with them.
import { availableParallelism } from 'node:os';
import type { ProjectLogin } from '../../engine/provision.ts';
import { RowhouseError } from '../../errors.ts';
import type { Session } from '../../postgres/session.ts';
import type { Exchange } from '../exchange/exchange.ts';
import { MovedError, Sound, triedToWrite } from '../exchange/failures.ts';
import { type Reader, Watch } from '../exchange/statement-deadline.ts';
import type { ProjectSessions } from '../sessions/project-sessions.ts';
import { distrust, type Habit, isPlain, learn, noteDuration } from '../sessions/statement-profiles.ts';
import { openRoads } from './per-project.ts';

export type Lanes = {
  /** A lane with room, once there is one, in which the statement has to be run; or null: then it has to run alone. */
  take(project: ProjectLogin, habit: Habit): Lane | null | Promise<Lane | null>;
};

/** What usually takes longer has a session to itself. */
const shortMs = 10;
/** Who is first for longer than this is left alone. */
const patienceMs = 50;
const maxDepth = 64;
/** Of a project's, until there is room in a lane. More than these wait for connections of their own. */
const mostWaiting = 1_000;
/** Who has waited longer runs alone. */
const longestWaitMs = 500;
/** On two cores two do more than four: PostgreSQL is woken less often. */
const maxLanes = Math.max(2, Math.min(4, availableParallelism()));

export function canShare({ usualMs, statement }: Habit): boolean {
  return statement.isRead && usualMs < shortMs;
}

function isStillShort(habit: Habit): boolean {
  return isPlain(habit) && canShare(habit);
}

/** `exchange` and `reader`: until it is done. */
type Shared = { exchange: Exchange | null; reader: Reader | null; timeoutMs: number; watch: Watch | null };

export class Lane {
  readonly session: Session;
  /** In the order in which they were sent. */
  private readonly shared: Shared[] = [];
  private readonly sessions: ProjectSessions;
  private readonly road: Road;
  /** It was taken for so many that have not begun yet. */
  private taken = 0;
  /** Nobody joins any more. */
  private isClosed = false;
  /** The session may hold what belongs to nobody: it is not used again. */
  private isSpoiled = false;
  /** Something of the project's own may have run here after all. */
  private hasTraces = false;
  private lastDoneAt = 0;

  constructor(session: Session, sessions: ProjectSessions, road: Road) {
    this.session = session;
    this.sessions = sessions;
    this.road = road;
  }

  get depth(): number {
    return this.shared.length + this.taken;
  }

  take(): this {
    this.taken++;
    return this;
  }

  get isOpen(): boolean {
    return !this.isClosed && this.session.isUsable;
  }

  /** How the session is given back. */
  get leaves(): 'plain' | 'clean' | 'broken' {
    if (this.isSpoiled || !this.session.isUsable) return 'broken';
    return this.hasTraces ? 'clean' : 'plain';
  }

  /** False: it was moved away and has to run elsewhere. */
  async run(exchange: Exchange, reader: Reader, timeoutMs: number, habit: Habit): Promise<boolean> {
    this.taken--;
    // What was known of it when it came may be otherwise by now.
    if (this.isClosed || reader.isGone || !isStillShort(habit)) {
      this.makeRoom();
      return false;
    }
    const shared: Shared = { exchange, reader, timeoutMs, watch: null };
    this.shared.push(shared);
    exchange.onStreaming = () => this.leaveAlone(shared);
    try {
      const running = exchange.run();
      learn(habit, this.session);
      await running;
      const ms = performance.now() - Math.max(this.lastDoneAt, exchange.startedAt);
      noteDuration(habit, exchange.isLarge ? 1_000 : ms);
      return true;
    } catch (error) {
      if (error instanceof MovedError || this.isInnocent(shared)) return false;
      if (triedToWrite(error) && !reader.hasBegun) {
        distrust(habit);
        return false;
      }
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
      // Its tables have changed on its way, or it did what it was not taken to do.
      if (!isPlain(habit)) this.isClosed = this.hasTraces = true;
      if (this.session.isAltered) this.isClosed = true;
      this.shared.splice(this.shared.indexOf(shared), 1);
      this.lastDoneAt = performance.now();
      // Lets go of the request: what is dead but old keeps what is young alive until all memory is looked through, and
      // one request after the other would become old by that. It cost a third of the time and most of the slowest answers.
      shared.exchange = null;
      shared.reader = null;
      this.makeRoom();
    }
  }

  private makeRoom(): void {
    this.road.admit();
    if (this.depth === 0) this.road.end(this);
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
    first.watch = new Watch(this.session, reader, timeoutMs, this.sessions.terminate);
    first.watch.follow(exchange);
    for (const other of [...this.shared]) {
      if (other === first) continue;
      this.isSpoiled = true;
      other.exchange?.move();
    }
    this.road.admit();
  }
}

type Waiter = {
  habit: Habit;
  since: number;
  resolve: (lane: Lane | null) => void;
  reject: (error: unknown) => void;
};

/** The lanes of one project, and who waits for room in them. */
class Road {
  private readonly lanes: Lane[] = [];
  /** As the last who came knows it. */
  private project: ProjectLogin;
  private readonly waiting: Waiter[] = [];
  /** So many lanes wait for their connection. */
  private opening = 0;
  private readonly sessions: ProjectSessions;
  private readonly lanesAtMost: number;
  private readonly onEmpty: () => void;

  constructor(project: ProjectLogin, sessions: ProjectSessions, lanesAtMost: number, onEmpty: () => void) {
    this.project = project;
    this.sessions = sessions;
    this.lanesAtMost = lanesAtMost;
    this.onEmpty = onEmpty;
  }

  take(project: ProjectLogin, habit: Habit): Lane | null | Promise<Lane | null> {
    this.project = project;
    const lane = this.find();
    if (lane) return lane.take();
    const hasOpen = this.hasOpen;
    if (!hasOpen && this.lanes.length + this.opening < this.lanesAtMost) return this.open();
    if (!(hasOpen || this.opening > 0) || this.waiting.length >= mostWaiting) return null;
    const since = performance.now();
    return new Promise((resolve, reject) => this.waiting.push({ habit, since, resolve, reject }));
  }

  private get hasOpen(): boolean {
    return this.lanes.some(({ isOpen }) => isOpen);
  }

  private find(): Lane | null {
    let best: Lane | null = null;
    for (const lane of this.lanes) {
      if (lane.isOpen && lane.depth < (best?.depth ?? maxDepth)) best = lane;
    }
    if (this.lanes.length >= this.lanesAtMost) return best;
    const session = this.sessions.takeIdle(this.project, 'read');
    return session ? this.add(session) : best;
  }

  private add(session: Session): Lane {
    const lane = new Lane(session, this.sessions, this);
    this.lanes.push(lane);
    return lane;
  }

  private async open(): Promise<Lane | null> {
    this.opening++;
    try {
      const session = await this.sessions.acquire(this.project, 'read');
      this.opening--;
      if (this.lanes.length < this.lanesAtMost) return this.add(session).take();
      // Others became idle meanwhile and are lanes now: more would leave the project's other statements none.
      this.sessions.release(this.project, session, 'plain');
      return this.find()?.take() ?? null;
    } catch (error) {
      this.opening--;
      // They have waited for the same.
      if (!this.hasOpen && this.opening === 0)
        for (const { resolve, reject } of this.waiting.splice(0)) {
          // Who came since has not waited as long.
          if (error instanceof RowhouseError && error.code === 'overloaded') resolve(null);
          else reject(error);
        }
      this.leave();
      throw error;
    } finally {
      this.admit();
    }
  }

  /** Those for whom there is room, and those who have nothing to wait for: they run alone. */
  admit(): void {
    const { waiting } = this;
    if (waiting.length === 0) return;
    const isWanted = this.sessions.isWanted(this.project);
    while (waiting.length > 0) {
      // What was known of it when it came may be otherwise by now.
      const isAlone = isWanted || !isStillShort((waiting[0] as Waiter).habit);
      const lane = isAlone ? null : this.find();
      if (!lane && !isAlone && (this.opening > 0 || this.hasOpen)) return;
      waiting.shift()?.resolve(lane?.take() ?? null);
    }
  }

  look(now: number): void {
    for (const lane of this.lanes) lane.look(now);
    while (this.waiting[0] && now - this.waiting[0].since > longestWaitMs)
      this.waiting.shift()?.resolve(null);
  }

  end(lane: Lane): void {
    this.lanes.splice(this.lanes.indexOf(lane), 1);
    this.sessions.release(this.project, lane.session, lane.leaves);
    this.leave();
  }

  private leave(): void {
    if (this.lanes.length === 0 && this.opening === 0) this.onEmpty();
  }
}

export function openLanes(sessions: ProjectSessions, share: number): Lanes {
  const lanesAtMost = Math.min(maxLanes, Math.floor(share / 2));
  const roads = openRoads(
    patienceMs / 2,
    (project, onEmpty) => new Road(project, sessions, lanesAtMost, onEmpty),
  );
  return {
    take: (project, habit) => {
      // Others wait for connections: lanes come to their end.
      if (lanesAtMost === 0 || sessions.isWanted(project)) return null;
      return roads.of(project).take(project, habit);
    },
  };
}

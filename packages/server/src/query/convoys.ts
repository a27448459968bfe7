// Short, plain inserts of one project travel together: those that come while others are on their way go next, all in one
// transaction, so that PostgreSQL wakes once and waits for its disk once for all of them. Nobody is told before that is
// committed. If one of them fails, or it takes long, nothing of any has happened, and each is run by itself.
import type { ProjectLogin } from '../engine/provision.ts';
import { errors, RowhouseError } from '../errors.ts';
import type { ServerError } from '../postgres/server-error.ts';
import type { Receiver, Session } from '../postgres/session.ts';
import { Exchange, type Form, noFrame, type StatementInput } from './exchange.ts';
import { type Habit, learn, noteDuration } from './habits.ts';
import { holdingSink } from './holding-sink.ts';
import type { ProjectSessions } from './project-sessions.ts';
import { hungUp, type Reader } from './watch.ts';

export type Convoys = {
  /** The answer; null if nothing of it has happened, and it has to run alone. */
  join(project: ProjectLogin, cargo: Cargo): Promise<Buffer | null>;
  /** What travels is stopped if it is not done by now, and each runs by itself. */
  halt(projectId: string): void;
};

export type Cargo = Readonly<{ habit: Habit; input: StatementInput; form: Form; reader: Reader }>;

/** What usually takes longer goes alone. */
const shortMs = 10;
const patienceMs = 100;
/** After a cancel that had no effect. */
const graceMs = 1_000;
const mostTravellers = 128;
const mostBytes = 256 * 1024;
/** A statement on whose account others had to be run twice goes alone for its next dozen runs. */
const avoidedMs = 1_000;

export function canTravel({ usualMs, statement }: Habit): boolean {
  return statement.isInsert && statement.preparable && usualMs < shortMs;
}

/** `cargo`, `resolve` and `reject`: until it has arrived. */
type Traveller = {
  cargo: Cargo | null;
  /** What it answers goes here if there is much of it. */
  held: ReturnType<typeof holdingSink> | null;
  exchange: Exchange | null;
  resolve: ((answer: Buffer | null) => void) | null;
  reject: ((error: Error) => void) | null;
};

/** A transaction on its way: hands what comes to the one whose turn it is. */
class Convoy implements Receiver {
  readonly travellers: Traveller[] = [];
  readonly startedAt = performance.now();
  haltedAt: number | null = null;
  readonly session: Session;
  private readonly onEnd: (convoy: Convoy) => void;
  private turn = 0;
  private hasFailed = false;

  constructor(session: Session, onEnd: (convoy: Convoy) => void) {
    this.session = session;
    this.onEnd = onEnd;
  }

  private get current(): Exchange | null {
    return this.travellers[this.turn]?.exchange ?? null;
  }

  halt(): void {
    if (this.haltedAt !== null) return;
    this.haltedAt = performance.now();
    void this.session.cancel();
  }

  parameterTypes(): void {}

  bound(): void {
    this.current?.bound();
  }

  rowDescription(bytes: Buffer, start: number): void {
    this.current?.rowDescription(bytes, start);
  }

  noData(): void {
    this.current?.noData();
  }

  row(bytes: Buffer, start: number, end: number): void {
    this.current?.row(bytes, start, end);
  }

  complete(tag: string | null): void {
    this.current?.complete(tag);
    this.current?.pack();
    this.turn++;
  }

  copy(): void {
    this.session.destroy();
  }

  error(error: ServerError): void {
    this.hasFailed = true;
    this.current?.error(error);
    this.current?.unprepare();
    this.blame(this.travellers[this.turn]);
  }

  /** Null: at the commit, when it can have been any. */
  private blame(traveller: Traveller | undefined): void {
    for (const { cargo } of traveller ? [traveller] : this.travellers)
      if (cargo) noteDuration(cargo.habit, avoidedMs);
  }

  ready(): void {
    if (this.haltedAt !== null) this.blame(undefined);
    this.onEnd(this);
    for (const traveller of this.travellers) {
      traveller.resolve?.(this.hasFailed ? null : answerOf(traveller));
      letGo(traveller);
    }
  }

  lost(error: Error): void {
    this.onEnd(this);
    const hasBegun = this.turn > 0 || this.current?.hasBegun === true;
    for (const traveller of this.travellers) {
      // An answer that is too large is its own doing.
      const isOwn = error instanceof RowhouseError && traveller.exchange === this.current;
      traveller.reject?.(isOwn ? error : hasBegun ? errors.outcomeUnknown(error) : errors.unavailable(error));
    }
    for (const traveller of this.travellers) letGo(traveller);
  }
}

function answerOf({ exchange, held }: Traveller): Buffer | null {
  if (!exchange || !held) return null;
  const rest = exchange.close();
  return held.pieces.length === 0 ? rest : Buffer.concat([...held.pieces, rest]);
}

/** Of the request: lanes.ts says why. */
function letGo(traveller: Traveller): void {
  traveller.cargo = null;
  traveller.exchange = null;
  traveller.held = null;
  traveller.resolve = null;
  traveller.reject = null;
}

/** The inserts of one project: one convoy on its way, the others gather. */
class Road {
  running: Convoy | null = null;
  private waiting: Traveller[] = [];
  private session: Session | null = null;
  private isLeaving = false;
  private readonly project: ProjectLogin;
  private readonly sessions: ProjectSessions;
  private readonly onEmpty: () => void;

  constructor(project: ProjectLogin, sessions: ProjectSessions, onEmpty: () => void) {
    this.project = project;
    this.sessions = sessions;
    this.onEmpty = onEmpty;
  }

  join(cargo: Cargo): Promise<Buffer | null> {
    return new Promise((resolve, reject) => {
      this.waiting.push({ cargo, held: null, exchange: null, resolve, reject });
      if (this.running || this.isLeaving) return;
      this.isLeaving = true;
      // With all that comes in this turn of the event loop.
      setImmediate(() => this.leave());
    });
  }

  private leave(): void {
    const session = this.session ?? this.sessions.takeIdle(this.project);
    if (session) this.leaveIn(session);
    else
      this.sessions.acquire(this.project, true).then(
        (found) => this.leaveIn(found),
        (error) => {
          this.isLeaving = false;
          for (const { reject } of this.waiting.splice(0)) reject?.(error);
          this.onEmpty();
        },
      );
  }

  private leaveIn(session: Session): void {
    this.isLeaving = false;
    this.session = session;
    const convoy = new Convoy(session, (ended) => this.arrive(ended));
    const { waiting } = this;
    let taken = 0;
    while (taken < waiting.length && taken < mostTravellers && session.out.length < mostBytes)
      this.board(convoy, waiting[taken++] as Traveller);
    this.waiting = waiting.slice(taken);
    this.running = convoy;
    session.out.sync();
    session.send(convoy);
    session.flush();
    for (const { cargo } of convoy.travellers) if (cargo) learn(cargo.habit, session);
  }

  private board(convoy: Convoy, traveller: Traveller): void {
    if (!traveller.cargo) return;
    const { input, form, habit, reader } = traveller.cargo;
    if (reader.isGone) return traveller.reject?.(hungUp());
    const { session } = convoy;
    const held = holdingSink();
    const exchange = new Exchange({
      session,
      statement: habit.statement,
      input,
      frame: noFrame,
      sink: held,
      form,
      aside: (look) => this.sessions.aside(this.project, look),
    });
    try {
      exchange.board();
    } catch (error) {
      // A value that cannot be sent.
      traveller.reject?.(error as Error);
      return;
    }
    // Much of an answer is for its reader alone.
    exchange.onStreaming = () => convoy.halt();
    traveller.exchange = exchange;
    traveller.held = held;
    convoy.travellers.push(traveller);
  }

  private arrive(convoy: Convoy): void {
    const { session, sessions, project } = this;
    this.running = null;
    // A cancel that comes late would hit the next.
    const isSound = convoy.haltedAt === null && convoy.session.isUsable;
    const goesOn = isSound && this.waiting.length > 0 && !sessions.isWanted(project);
    if (session && !goesOn) {
      this.session = null;
      sessions.release(project, session, isSound ? 'sequences' : 'broken');
    }
    if (this.waiting.length === 0) return this.onEmpty();
    this.isLeaving = true;
    this.leave();
  }
}

export function openConvoys(sessions: ProjectSessions): Convoys {
  const roads = new Map<string, Road>();
  let looking: NodeJS.Timeout | null = null;
  let lookedAt = 0;

  const look = () => {
    const now = performance.now();
    // Where this process itself is late, nobody else is slow by that.
    const lateMs = Math.max(0, now - lookedAt - patienceMs / 2);
    lookedAt = now;
    for (const { running } of roads.values()) {
      if (!running) continue;
      if (now - 2 * lateMs - running.startedAt > patienceMs) running.halt();
      if (running.haltedAt !== null && now - running.haltedAt > graceMs) sessions.terminate(running.session);
    }
  };
  const roadOf = (project: ProjectLogin): Road => {
    const known = roads.get(project.id);
    if (known) return known;
    const road = new Road(project, sessions, () => {
      roads.delete(project.id);
      if (roads.size > 0 || !looking) return;
      clearInterval(looking);
      looking = null;
    });
    roads.set(project.id, road);
    if (!looking) {
      lookedAt = performance.now();
      looking = setInterval(look, patienceMs / 2);
    }
    return road;
  };
  return {
    join: (project, cargo) => roadOf(project).join(cargo),
    halt: (projectId) => roads.get(projectId)?.running?.halt(),
  };
}

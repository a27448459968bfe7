// Short, plain inserts of one project travel together: those that come while others are on their way go next, all in one
// transaction, so that PostgreSQL wakes once and waits for its disk once for all of them. Nobody is told before that is
// committed. If one of them fails, or it takes long, nothing of any has happened, and each is run by itself.
import type { ProjectLogin } from '../../engine/provision.ts';
import { errors, RowhouseError } from '../../errors.ts';
import type { PreparedStatement } from '../../postgres/prepared-statements.ts';
import type { ServerError } from '../../postgres/server-error.ts';
import { type Receiver, type Session, TooLargeError } from '../../postgres/session.ts';
import { type Measure, sizeCheck, strictest } from '../admission.ts';
import { writeCommands } from '../exchange/commands.ts';
import { Exchange, type Form, noFrame, type StatementInput } from '../exchange/exchange.ts';
import { noteFate } from '../exchange/failures.ts';
import { HeldAnswer } from '../exchange/held-answer.ts';
import { hungUp, type Reader } from '../exchange/statement-deadline.ts';
import type { ProjectSessions } from '../sessions/project-sessions.ts';
import { type Habit, isPlain, learn, noteDuration } from '../sessions/statement-profiles.ts';
import { openRoads } from './per-project.ts';

export type Convoys = {
  /** The answer; null if nothing of it has happened, and it has to run alone. */
  join(project: ProjectLogin, cargo: Cargo): Promise<Buffer | null>;
  /** What travels is stopped if it is not done by now, and each runs by itself. */
  halt(projectId: string): void;
};

export type Cargo = {
  readonly habit: Habit;
  readonly input: StatementInput;
  readonly form: Form;
  readonly reader: Reader;
  readonly timeoutMs: number;
  /** How it has to be measured before it is committed; null: not at all. */
  readonly measure: Measure | null;
  /** The project has outgrown what it may without being measured. */
  isStopped: boolean;
};

/** What usually takes longer goes alone. Most of it is the commit, for which some disks take their time. */
const shortMs = 40;
const patienceMs = 100;
/** After a cancel that had no effect, and after the first of their deadlines. */
const graceMs = 500;
const mostTravellers = 128;
/** What they will take together, by what the last have taken. */
const mostMs = 50;
const mostBytes = 256 * 1024;
/** What is larger goes alone. */
const [longText, longParameters] = [4 * 1024, 32 * 1024];
/** As many as may wait for connections. */
const mostWaiting = 2_000;
/** A statement on whose account others had to be run twice goes alone for its next dozen runs. */
const avoidedMs = 1_000;

export function canTravel({ usualMs, statement }: Habit): boolean {
  return statement.isInsert && statement.preparable && usualMs < shortMs;
}

/** `cargo`, `resolve` and `reject`: until it has arrived. */
type Traveller = {
  cargo: Cargo | null;
  /** What it answers goes here if there is much of it. */
  held: HeldAnswer | null;
  exchange: Exchange | null;
  resolve: ((answer: Buffer | null) => void) | null;
  reject: ((error: Error) => void) | null;
};

/** A transaction on its way: hands what comes to the one whose turn it is. */
class Convoy implements Receiver {
  readonly travellers: Traveller[] = [];
  /** Their texts that are parsed on the way. */
  readonly parsed = new Map<string, PreparedStatement>();
  /** When PostgreSQL may have got it; 0: not yet. */
  sentAt = 0;
  /** The strictest of theirs. */
  measure: Measure | null = null;
  haltedAt: number | null = null;
  readonly session: Session;
  /** When PostgreSQL had nothing before it any more; when the first deadline is over. */
  private startedAt: number | null = null;
  private endsAt = Number.POSITIVE_INFINITY;
  private readonly onEnd: (convoy: Convoy) => void;
  private turn = 0;
  private hasFailed = false;

  constructor(session: Session, onEnd: (convoy: Convoy) => void) {
    this.session = session;
    this.onEnd = onEnd;
  }

  add(traveller: Traveller, { timeoutMs, measure, reader }: Cargo): void {
    reader.mayHaveChanged = true;
    this.travellers.push(traveller);
    this.endsAt = Math.min(this.endsAt, reader.startedAt + timeoutMs);
    if (measure) this.measure = this.measure ? strictest(this.measure, measure) : measure;
  }

  get isHalted(): boolean {
    return this.haltedAt !== null;
  }

  /** Whether all of them still leave nothing in a session but what a sequence does. */
  get isPlain(): boolean {
    return this.travellers.every(({ cargo }) => !cargo || isPlain(cargo.habit));
  }

  private get current(): Exchange | null {
    return this.travellers[this.turn]?.exchange ?? null;
  }

  halt(): void {
    if (this.haltedAt !== null) return;
    this.haltedAt = performance.now();
    void this.session.cancel();
  }

  /** `now`: as far as this process is not late itself. */
  look(now: number, terminate: (session: Session) => void): void {
    if (this.startedAt === null) {
      if (this.session.first === this) this.startedAt = now;
    } else if (this.haltedAt === null) {
      if (now - this.startedAt > patienceMs) this.halt();
    } else if (now > this.endsAt + graceMs) {
      terminate(this.session);
    } else if (now - this.haltedAt > graceMs) {
      this.haltedAt = now;
      void this.session.cancel();
    }
  }

  parameterTypes(): void {}

  bound(): void {
    this.current?.bound();
  }

  rowDescription(bytes: Buffer, start: number): void {
    this.current?.rowDescription(bytes, start);
    // It has to look up types, and the others wait for that.
    if (this.session.isOnHold) this.blame(this.travellers[this.turn]);
  }

  noData(): void {
    this.current?.noData();
  }

  row(bytes: Buffer, start: number, end: number): void {
    this.current?.row(bytes, start, end);
    this.haltIfLarge();
  }

  rowPart(bytes: Buffer, start: number, end: number, left: number): void {
    this.current?.rowPart(bytes, start, end, left);
    this.haltIfLarge();
  }

  private haltIfLarge(): void {
    // Much of an answer is for its reader alone.
    if (!this.current?.isStreaming || this.isHalted) return;
    this.blame(this.travellers[this.turn]);
    this.halt();
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
    // Ended by force after the last of them: it may have been committed by then.
    const isUnknown = error.severity !== 'ERROR' && this.turn >= this.travellers.length;
    this.hasFailed ||= !isUnknown;
    this.current?.error(error);
    this.current?.unprepare();
    this.blame(this.travellers[this.turn]);
  }

  /** Undefined: it was after the last, or nobody knows when, so it can have been any. */
  private blame(traveller: Traveller | undefined): void {
    for (const { cargo } of traveller ? [traveller] : this.travellers)
      if (cargo) noteDuration(cargo.habit, avoidedMs);
  }

  ready(): void {
    if (this.isHalted) this.blame(undefined);
    else if (!this.hasFailed) this.noteShares();
    this.onEnd(this);
    this.settle(this.hasFailed ? () => null : answerOf);
  }

  lost(error: Error): void {
    this.blame(this.travellers[this.turn]);
    this.onEnd(this);
    // An error of which the message is too long for us is one of PostgreSQL's.
    if (this.hasFailed || (error instanceof TooLargeError && error.isFailure)) return this.settle(() => null);
    const { current } = this;
    this.settle(({ exchange }) => {
      // An answer that is too large is its own doing.
      if (error instanceof RowhouseError && exchange === current) throw error;
      throw this.sentAt > 0 ? errors.outcomeUnknown(error) : errors.unavailable(error);
    });
  }

  private noteShares(): void {
    const share = (performance.now() - this.sentAt) / this.travellers.length;
    for (const { cargo } of this.travellers) if (cargo) cargo.habit.sharedMs = share;
  }

  private settle(outcome: (traveller: Traveller) => Buffer | null): void {
    for (const traveller of this.travellers) {
      try {
        traveller.resolve?.(outcome(traveller));
      } catch (error) {
        traveller.reject?.(error as Error);
      }
      letGo(traveller);
    }
  }
}

function answerOf({ exchange, held }: Traveller): Buffer | null {
  if (!exchange || !held) return null;
  const rest = exchange.close();
  return held.size === 0 ? rest : Buffer.concat([...held.takeFrom(0), rest]);
}

/** Of the request: pipelines.ts says why. */
function letGo(traveller: Traveller): void {
  traveller.cargo = null;
  traveller.exchange = null;
  traveller.held = null;
  traveller.resolve = null;
  traveller.reject = null;
}

/** The inserts of one project: one convoy on its way, the others gather. */
class Road {
  private running: Convoy | null = null;
  private waiting: Traveller[] = [];
  private session: Session | null = null;
  private isLeaving = false;
  /** As the last who came knows it. */
  private project: ProjectLogin;
  private readonly sessions: ProjectSessions;
  private readonly onEmpty: () => void;

  constructor(project: ProjectLogin, sessions: ProjectSessions, onEmpty: () => void) {
    this.project = project;
    this.sessions = sessions;
    this.onEmpty = onEmpty;
  }

  join(project: ProjectLogin, cargo: Cargo): Promise<Buffer | null> {
    if (this.waiting.length >= mostWaiting)
      throw errors.overloaded('Too many statements are waiting already.', 1);
    this.project = project;
    return new Promise((resolve, reject) => {
      this.waiting.push({ cargo, held: null, exchange: null, resolve, reject });
      if (this.running || this.isLeaving) return;
      this.isLeaving = true;
      // With all that comes in this turn of the event loop.
      setImmediate(() => this.leave());
    });
  }

  halt(): void {
    this.running?.halt();
  }

  look(now: number): void {
    this.running?.look(now, this.sessions.terminate);
  }

  private leave(): void {
    const session = this.session ?? this.sessions.takeIdle(this.project, 'plain');
    if (session) return this.leaveIn(session);
    const asked = this.waiting.length;
    this.sessions.acquire(this.project, 'plain').then(
      (found) => this.leaveIn(found),
      (error) => {
        // Who came since has not waited as long.
        for (const { reject } of this.waiting.splice(0, asked)) reject?.(error);
        this.goOn();
      },
    );
  }

  private leaveIn(session: Session): void {
    this.isLeaving = false;
    this.session = session;
    const convoy = new Convoy(session, (ended) => this.arrive(ended));
    const { waiting } = this;
    let taken = 0;
    let ms = 0;
    while (taken < waiting.length && session.out.length < mostBytes && ms < mostMs) {
      const traveller = waiting[taken++] as Traveller;
      const { usualMs = 0, sharedMs = 0 } = traveller.cargo?.habit ?? {};
      ms += Math.min(usualMs, sharedMs);
      this.board(convoy, traveller);
      if (convoy.travellers.length === mostTravellers) break;
    }
    this.waiting = waiting.slice(taken);
    this.running = convoy;
    if (convoy.measure) writeCommands(session.out, sizeCheck(convoy.measure, null));
    session.out.sync();
    session.send(convoy);
    convoy.sentAt = performance.now();
    session.flush();
    for (const { cargo } of convoy.travellers) if (cargo) learn(cargo.habit, session);
  }

  private board(convoy: Convoy, traveller: Traveller): void {
    if (!traveller.cargo) return;
    const { input, form, habit, reader, isStopped } = traveller.cargo;
    if (reader.isGone) return traveller.reject?.(noteFate(hungUp(), 'undone'));
    // What was known of it when it came may be otherwise by now.
    if (!isPlain(habit) || !canTravel(habit) || isLong(input) || isStopped) return traveller.resolve?.(null);
    // It is halted as soon as there is much of it.
    const held = new HeldAnswer(null);
    const exchange = new Exchange({
      session: convoy.session,
      statement: habit.statement,
      input,
      frame: noFrame,
      sink: held,
      form,
      aside: (look) => this.sessions.aside(this.project, look),
    });
    try {
      exchange.board(convoy.parsed);
    } catch (error) {
      // A value that cannot be sent.
      traveller.reject?.(error as Error);
      return;
    }
    traveller.exchange = exchange;
    traveller.held = held;
    convoy.add(traveller, traveller.cargo);
  }

  private arrive(convoy: Convoy): void {
    const { session, sessions, project } = this;
    this.running = null;
    // A cancel that comes late would hit the next.
    const isSound = !convoy.isHalted && convoy.session.isUsable;
    const isStillPlain = convoy.isPlain;
    const isAsItWas = isSound && isStillPlain && !convoy.session.isAltered;
    const stays = isAsItWas && this.waiting.length > 0 && !sessions.isWanted(project);
    if (session && !stays) {
      this.session = null;
      sessions.release(project, session, !isSound ? 'broken' : isStillPlain ? 'sequences' : 'data');
    }
    this.goOn();
  }

  private goOn(): void {
    this.isLeaving = this.waiting.length > 0;
    if (this.isLeaving) this.leave();
    else this.onEmpty();
  }
}

function isLong({ query, params }: StatementInput): boolean {
  let length = 0;
  for (const value of params) {
    if (typeof value === 'string') length += value.length;
    else if (typeof value === 'object' && value !== null) length += JSON.stringify(value).length;
    if (length > longParameters) return true;
  }
  return query.length > longText;
}

export function openConvoys(sessions: ProjectSessions): Convoys {
  const roads = openRoads(patienceMs / 4, (project, onEmpty) => new Road(project, sessions, onEmpty));
  return {
    join: async (project, cargo) => roads.of(project).join(project, cargo),
    halt: (projectId) => roads.get(projectId)?.halt(),
  };
}

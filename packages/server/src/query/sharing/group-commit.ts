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
import { isPlain, learn, noteDuration, type StatementProfile } from '../sessions/statement-profiles.ts';
import { openPerProject } from './per-project.ts';

export type GroupCommit = {
  /** The answer; null if nothing of it has happened, and it has to run alone. */
  join(project: ProjectLogin, entry: Entry): Promise<Buffer | null>;
  /** What travels is stopped if it is not done by now, and each runs by itself. */
  halt(projectId: string): void;
};

export type Entry = {
  readonly profile: StatementProfile;
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
const maxMembers = 128;
/** What they will take together, by what the last have taken. */
const maxGroupMs = 50;
const maxGroupBytes = 256 * 1024;
/** What is larger goes alone. */
const [longText, longParameters] = [4 * 1024, 32 * 1024];
/** As many as may wait for connections. */
const maxWaiting = 2_000;
/** A statement on whose account others had to be run twice goes alone for its next dozen runs. */
const avoidedMs = 1_000;

export function canGroup({ usualMs, statement }: StatementProfile): boolean {
  return statement.isInsert && statement.preparable && usualMs < shortMs;
}

/** `entry`, `resolve` and `reject`: until it has arrived. */
type Member = {
  entry: Entry | null;
  /** What it answers goes here if there is much of it. */
  held: HeldAnswer | null;
  exchange: Exchange | null;
  resolve: ((answer: Buffer | null) => void) | null;
  reject: ((error: Error) => void) | null;
};

/** A transaction on its way: hands what comes to the one whose turn it is. */
class Group implements Receiver {
  readonly members: Member[] = [];
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
  private readonly onEnd: (group: Group) => void;
  private turn = 0;
  private hasFailed = false;

  constructor(session: Session, onEnd: (group: Group) => void) {
    this.session = session;
    this.onEnd = onEnd;
  }

  add(member: Member, { timeoutMs, measure, reader }: Entry): void {
    reader.mayHaveChanged = true;
    this.members.push(member);
    this.endsAt = Math.min(this.endsAt, reader.startedAt + timeoutMs);
    if (measure) this.measure = this.measure ? strictest(this.measure, measure) : measure;
  }

  get isHalted(): boolean {
    return this.haltedAt !== null;
  }

  /** Whether all of them still leave nothing in a session but what a sequence does. */
  get isPlain(): boolean {
    return this.members.every(({ entry }) => !entry || isPlain(entry.profile));
  }

  private get current(): Exchange | null {
    return this.members[this.turn]?.exchange ?? null;
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
    if (this.session.isOnHold) this.blame(this.members[this.turn]);
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
    this.blame(this.members[this.turn]);
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
    const isUnknown = error.severity !== 'ERROR' && this.turn >= this.members.length;
    this.hasFailed ||= !isUnknown;
    this.current?.error(error);
    this.current?.unprepare();
    this.blame(this.members[this.turn]);
  }

  /** Undefined: it was after the last, or nobody knows when, so it can have been any. */
  private blame(member: Member | undefined): void {
    for (const { entry } of member ? [member] : this.members)
      if (entry) noteDuration(entry.profile, avoidedMs);
  }

  ready(): void {
    if (this.isHalted) this.blame(undefined);
    else if (!this.hasFailed) this.noteShares();
    this.onEnd(this);
    this.settle(this.hasFailed ? () => null : answerOf);
  }

  lost(error: Error): void {
    this.blame(this.members[this.turn]);
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
    const share = (performance.now() - this.sentAt) / this.members.length;
    for (const { entry } of this.members) if (entry) entry.profile.sharedMs = share;
  }

  private settle(outcome: (member: Member) => Buffer | null): void {
    for (const member of this.members) {
      try {
        member.resolve?.(outcome(member));
      } catch (error) {
        member.reject?.(error as Error);
      }
      release(member);
    }
  }
}

function answerOf({ exchange, held }: Member): Buffer | null {
  if (!exchange || !held) return null;
  const rest = exchange.close();
  return held.size === 0 ? rest : Buffer.concat([...held.takeFrom(0), rest]);
}

/** Of the request: pipelines.ts says why. */
function release(member: Member): void {
  member.entry = null;
  member.exchange = null;
  member.held = null;
  member.resolve = null;
  member.reject = null;
}

/** The inserts of one project: one convoy on its way, the others gather. */
class ProjectGroups {
  private running: Group | null = null;
  private waiting: Member[] = [];
  private session: Session | null = null;
  private isStarting = false;
  /** As the last who came knows it. */
  private project: ProjectLogin;
  private readonly sessions: ProjectSessions;
  private readonly onEmpty: () => void;

  constructor(project: ProjectLogin, sessions: ProjectSessions, onEmpty: () => void) {
    this.project = project;
    this.sessions = sessions;
    this.onEmpty = onEmpty;
  }

  join(project: ProjectLogin, entry: Entry): Promise<Buffer | null> {
    if (this.waiting.length >= maxWaiting)
      throw errors.overloaded('Too many statements are waiting already.', 1);
    this.project = project;
    return new Promise((resolve, reject) => {
      this.waiting.push({ entry, held: null, exchange: null, resolve, reject });
      if (this.running || this.isStarting) return;
      this.isStarting = true;
      // With all that comes in this turn of the event loop.
      setImmediate(() => this.start());
    });
  }

  halt(): void {
    this.running?.halt();
  }

  look(now: number): void {
    this.running?.look(now, this.sessions.terminate);
  }

  private start(): void {
    const session = this.session ?? this.sessions.takeIdle(this.project, 'plain');
    if (session) return this.startIn(session);
    const asked = this.waiting.length;
    this.sessions.acquire(this.project, 'plain').then(
      (found) => this.startIn(found),
      (error) => {
        // Who came since has not waited as long.
        for (const { reject } of this.waiting.splice(0, asked)) reject?.(error);
        this.startNext();
      },
    );
  }

  private startIn(session: Session): void {
    this.isStarting = false;
    this.session = session;
    const group = new Group(session, (ended) => this.finish(ended));
    const { waiting } = this;
    let taken = 0;
    let ms = 0;
    while (taken < waiting.length && session.out.length < maxGroupBytes && ms < maxGroupMs) {
      const member = waiting[taken++] as Member;
      const { usualMs = 0, sharedMs = 0 } = member.entry?.profile ?? {};
      ms += Math.min(usualMs, sharedMs);
      this.addMember(group, member);
      if (group.members.length === maxMembers) break;
    }
    this.waiting = waiting.slice(taken);
    this.running = group;
    if (group.measure) writeCommands(session.out, sizeCheck(group.measure, null));
    session.out.sync();
    session.send(group);
    group.sentAt = performance.now();
    session.flush();
    for (const { entry } of group.members) if (entry) learn(entry.profile, session);
  }

  private addMember(group: Group, member: Member): void {
    if (!member.entry) return;
    const { input, form, profile, reader, isStopped } = member.entry;
    if (reader.isGone) return member.reject?.(noteFate(hungUp(), 'undone'));
    // What was known of it when it came may be otherwise by now.
    if (!isPlain(profile) || !canGroup(profile) || isLong(input) || isStopped) return member.resolve?.(null);
    // It is halted as soon as there is much of it.
    const held = new HeldAnswer(null);
    const exchange = new Exchange({
      session: group.session,
      statement: profile.statement,
      input,
      frame: noFrame,
      sink: held,
      form,
      aside: (look) => this.sessions.aside(this.project, look),
    });
    try {
      exchange.writeInGroup(group.parsed);
    } catch (error) {
      // A value that cannot be sent.
      member.reject?.(error as Error);
      return;
    }
    member.exchange = exchange;
    member.held = held;
    group.add(member, member.entry);
  }

  private finish(group: Group): void {
    const { session, sessions, project } = this;
    this.running = null;
    // A cancel that comes late would hit the next.
    const isIntact = !group.isHalted && group.session.isUsable;
    const isStillPlain = group.isPlain;
    const isAsItWas = isIntact && isStillPlain && !group.session.isAltered;
    const stays = isAsItWas && this.waiting.length > 0 && !sessions.isWanted(project);
    if (session && !stays) {
      this.session = null;
      sessions.release(project, session, !isIntact ? 'broken' : isStillPlain ? 'sequences' : 'rows');
    }
    this.startNext();
  }

  private startNext(): void {
    this.isStarting = this.waiting.length > 0;
    if (this.isStarting) this.start();
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

export function openGroupCommit(sessions: ProjectSessions): GroupCommit {
  const projects = openPerProject(
    patienceMs / 4,
    (project, onEmpty) => new ProjectGroups(project, sessions, onEmpty),
  );
  return {
    join: async (project, entry) => projects.of(project).join(project, entry),
    halt: (projectId) => projects.get(projectId)?.halt(),
  };
}

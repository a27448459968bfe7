// Group commit: short, plain inserts of one project that arrive together share one transaction, so that PostgreSQL wakes up
// once and waits for its disk once for all of them.
//
// A project's inserts pass through these states:
//
//   waiting   while a group is on its way, or until the end of this turn of the event loop. At most `maxWaiting`
//   started   the next group takes as many as it can: up to `maxMembers`, `maxGroupBytes`, and about `maxGroupMs` by what
//             earlier groups took. All are written at once: Parse, Bind, Execute for each, then the size check of the
//             strictest member, then one Sync. PostgreSQL runs that as one transaction
//   committed nobody is answered before the commit. Then each member gets its own answer
//   declined  the answer is null: nothing of the insert has happened, and run.ts runs it in an exclusive session. This is
//             what happens to every member if one fails, if the group takes longer than `patienceMs` (it is cancelled), if
//             an answer becomes large, or if the project outgrows its headroom
//   unknown   the connection broke after the group was sent: every member is told that its outcome is unknown
//
// A member that made the others run twice is avoided for its next dozen runs (`blame`).
//
// What this rests on: a member is plain, so it leaves nothing in the session but sequence state (statement-profiles.ts); it
// adds rows only, so members do not depend on each other's order; all of them commit or none does (group-commit.alone.test.ts).
import type { ProjectLogin } from '../../engine/provision.ts';
import { errors, RowhouseError } from '../../errors.ts';
import type { PreparedStatement } from '../../postgres/prepared-statements.ts';
import type { ServerError } from '../../postgres/server-error.ts';
import { type Receiver, type Session, TooLargeError } from '../../postgres/session.ts';
import { type Measure, sizeCheck, strictest } from '../admission.ts';
import type { StatementInput } from '../exchange/answer-writer.ts';
import { writeCommands } from '../exchange/commands.ts';
import { Exchange } from '../exchange/exchange.ts';
import { noteFate } from '../exchange/failures.ts';
import { noFrame } from '../exchange/frame.ts';
import { HeldAnswer } from '../exchange/held-answer.ts';
import { hungUp } from '../exchange/statement-deadline.ts';
import type { ProjectSessions } from '../sessions/project-sessions.ts';
import type { StatementRequest } from '../sessions/request.ts';
import { isPlain, learn, noteDuration, type StatementProfile } from '../sessions/statement-profiles.ts';
import { openPerProject } from './per-project.ts';

export type GroupCommit = {
  /** The answer; null if nothing of it has happened, and it has to run in an exclusive session. */
  join(project: ProjectLogin, entry: Entry): Promise<Buffer | null>;
  /** Cancels the project's group if it has not ended by now; each member then runs by itself. */
  halt(projectId: string): void;
};

export type Entry = {
  readonly request: StatementRequest;
  /** How the size has to be checked before the commit; null: it need not be. */
  readonly measure: Measure | null;
  /** The project has outgrown what it may without a size check. */
  isStopped: boolean;
};

/** Statements that usually take longer are not grouped. Most of the time is the commit, which is slow on some disks. */
const shortMs = 40;
const patienceMs = 100;
/** How long to wait after a cancel that had no effect, and after the earliest deadline of a member. */
const graceMs = 500;
const maxMembers = 128;
/** Estimated from what earlier groups took. */
const maxGroupMs = 50;
const maxGroupBytes = 256 * 1024;
/** Larger statements are not grouped. */
const [longText, longParameters] = [4 * 1024, 32 * 1024];
/** As many as may wait for sessions. */
const maxWaiting = 2_000;
/** Noted as its duration for a statement that made others run twice: it is not grouped for its next dozen runs. */
const avoidedMs = 1_000;

export function canGroup({ usualMs, statement }: StatementProfile): boolean {
  return statement.isInsert && statement.preparable && usualMs < shortMs;
}

/** All fields are cleared once it is answered: see `release`. */
type Member = {
  entry: Entry | null;
  /** Holds the answer if it is larger than the exchange keeps. */
  held: HeldAnswer | null;
  exchange: Exchange | null;
  resolve: ((answer: Buffer | null) => void) | null;
  reject: ((error: Error) => void) | null;
};

/** One transaction: hands each message to the member that it belongs to. */
class Group implements Receiver {
  readonly members: Member[] = [];
  /** Texts that this group parses, so that two members with the same text parse it once. */
  readonly parsed = new Map<string, PreparedStatement>();
  /** When it was sent; 0: not yet. */
  sentAt = 0;
  /** The strictest of the members'. */
  measure: Measure | null = null;
  haltedAt: number | null = null;
  readonly session: Session;
  /** When PostgreSQL had answered everything before it. */
  private startedAt: number | null = null;
  private endsAt = Number.POSITIVE_INFINITY;
  private readonly onEnd: (group: Group) => void;
  private turn = 0;
  private hasFailed = false;

  constructor(session: Session, onEnd: (group: Group) => void) {
    this.session = session;
    this.onEnd = onEnd;
  }

  add(member: Member, { request: { reader, input }, measure }: Entry): void {
    reader.mayHaveChanged = true;
    this.members.push(member);
    this.endsAt = Math.min(this.endsAt, reader.startedAt + input.timeoutMs);
    if (measure) this.measure = this.measure ? strictest(this.measure, measure) : measure;
  }

  get isHalted(): boolean {
    return this.haltedAt !== null;
  }

  /** Whether all members still leave nothing in the session but sequence state. */
  get isPlain(): boolean {
    return this.members.every(({ entry }) => !entry || isPlain(entry.request.profile));
  }

  private get current(): Exchange | null {
    return this.members[this.turn]?.exchange ?? null;
  }

  halt(): void {
    if (this.haltedAt !== null) return;
    this.haltedAt = performance.now();
    void this.session.cancel();
  }

  /** `now` is corrected for the lateness of this process (per-project.ts). */
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
    // It has to look up types, and the other members wait for that.
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
    // A large answer needs a reader of its own.
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
    // If the session was terminated after the last member, the group may have been committed.
    const isUnknown = error.severity !== 'ERROR' && this.turn >= this.members.length;
    this.hasFailed ||= !isUnknown;
    this.current?.error(error);
    this.current?.unprepare();
    this.blame(this.members[this.turn]);
  }

  /** Undefined: it happened after the last member, or at an unknown point, so any member can have caused it. */
  private blame(member: Member | undefined): void {
    for (const { entry } of member ? [member] : this.members)
      if (entry) noteDuration(entry.request.profile, avoidedMs);
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
    // An error message that is too long to read still says that PostgreSQL refused the group.
    if (this.hasFailed || (error instanceof TooLargeError && error.isFailure)) return this.settle(() => null);
    const { current } = this;
    this.settle(({ exchange }) => {
      // An answer that is too large concerns its own member only.
      if (error instanceof RowhouseError && exchange === current) throw error;
      throw this.sentAt > 0 ? errors.outcomeUnknown(error) : errors.unavailable(error);
    });
  }

  private noteShares(): void {
    const share = (performance.now() - this.sentAt) / this.members.length;
    for (const { entry } of this.members) if (entry) entry.request.profile.sharedMs = share;
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

/** Releases the request: pipelines.ts says why. */
function release(member: Member): void {
  member.entry = null;
  member.exchange = null;
  member.held = null;
  member.resolve = null;
  member.reject = null;
}

/** The inserts of one project: one group runs, the others wait for the next. */
class ProjectGroups {
  private running: Group | null = null;
  private waiting: Member[] = [];
  private session: Session | null = null;
  private isStarting = false;
  /** From the latest request, so that a rotated password is known. */
  private project: ProjectLogin;
  private readonly sessions: ProjectSessions;
  private readonly onEmpty: () => void;

  constructor(project: ProjectLogin, sessions: ProjectSessions, onEmpty: () => void) {
    this.project = project;
    this.sessions = sessions;
    this.onEmpty = onEmpty;
  }

  join(project: ProjectLogin, entry: Entry): Promise<Buffer | null> {
    if (this.waiting.length >= maxWaiting) throw errors.overloaded('Too many statements are waiting.', 1);
    this.project = project;
    return new Promise((resolve, reject) => {
      this.waiting.push({ entry, held: null, exchange: null, resolve, reject });
      if (this.running || this.isStarting) return;
      this.isStarting = true;
      // Together with everything that arrives in this turn of the event loop.
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
        // Later arrivals have not waited as long.
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
      const { usualMs = 0, sharedMs = 0 } = member.entry?.request.profile ?? {};
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
    for (const { entry } of group.members) if (entry) learn(entry.request.profile, session);
  }

  private addMember(group: Group, member: Member): void {
    if (!member.entry) return;
    const { request, isStopped } = member.entry;
    const { input, form, profile, reader } = request;
    if (reader.isGone) return member.reject?.(noteFate(hungUp(), 'undone'));
    // Its profile may have changed since it arrived.
    if (!isPlain(profile) || !canGroup(profile) || isLong(input) || isStopped) return member.resolve?.(null);
    // The group is halted as soon as the answer becomes large, so this memory need not be counted.
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
    // A cancel that arrives late would hit the next statement.
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

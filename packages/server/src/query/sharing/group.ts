// One group of changes (group-commit.ts): a single transaction, which hands each message of PostgreSQL to the member that it
// belongs to.

import { errors, RowhouseError } from '../../errors/errors.ts';
import { newStatement, type PreparedStatement } from '../../postgres/wire/prepared-statements.ts';
import type { ServerError } from '../../postgres/wire/server-error.ts';
import { type Session, TooLargeError } from '../../postgres/wire/session.ts';
import { type Measure, strictest } from '../../quotas/size-check.ts';

import { letRunAlone, saysSessionEnded } from '../exchange/acting-users.ts';
import type { Exchange } from '../exchange/exchange.ts';
import { saysOverLimit } from '../exchange/failures.ts';
import type { HeldAnswer } from '../exchange/held-answer.ts';
import { InTurn } from '../exchange/in-turn.ts';
import type { StatementRequest } from '../sessions/request.ts';
import { isPlain, noteDuration } from '../sessions/statement-profiles.ts';
import type { InsertGuard } from '../statement/insert-growth.ts';

export type Entry = {
  readonly request: StatementRequest;
  /** How the size has to be checked before the commit; null: it need not be. */
  readonly measure: Measure | null;
  /** What has to hold in its transaction; null: nothing. */
  readonly guard: InsertGuard | null;
  /** With a guard: the most that it can add, in bytes. */
  readonly most: number;
  /** The project has outgrown what it may without a size check. */
  isStopped: boolean;
  /** The guard refused the group: what it stands for has changed. */
  isOutdated: boolean;
  /** The group was refused because its table had grown by more than all its members could add. */
  hasOutgrown: boolean;
};

/** A group that takes longer is cancelled. */
export const patienceMs = 100;
/** How long to wait after a cancel that had no effect, and after the earliest deadline of a member. */
const graceMs = 500;
/** Noted as its duration for a statement that made others run twice: it is not grouped for its next dozen runs. */
const avoidedMs = 1_000;
/** Failures of users that come less often are those of single users. */
const failuresApartMs = 500;

/** All fields are cleared once it is answered: see `release`. */
export type Member = {
  entry: Entry | null;
  /** The size of its text and parameters. */
  bytes: number;
  /** Holds the answer if it is larger than the exchange keeps. */
  held: HeldAnswer | null;
  exchange: Exchange | null;
  resolve: ((answer: Buffer | null) => void) | null;
  reject: ((error: Error) => void) | null;
};

type Own = Readonly<{ text: string; prepared: PreparedStatement }>;

export class Group extends InTurn {
  readonly members: Member[] = [];
  /** Texts that this group parses, so that two members with the same text parse it once. */
  readonly parsed = new Map<string, PreparedStatement>();
  /** When it was sent; 0: not yet. */
  sentAt = 0;
  /** The strictest of the members'. */
  measure: Measure | null = null;
  /** The texts of all guards: members can know different versions of a table. */
  private readonly guards = new Set<string>();
  /** By the text of a growth check: what its members can add. */
  private readonly mosts = new Map<string, number>();
  /** It has members without a guard, whose growth has no bound. */
  private hasUnbounded = false;
  /** The group's own statements: before the first member, and after the last. */
  private readonly preceding: Own[] = [];
  private readonly following: Own[] = [];
  haltedAt: number | null = null;
  readonly session: Session;
  /** When PostgreSQL had answered everything before it. */
  private startedAt: number | null = null;
  private endsAt = Number.POSITIVE_INFINITY;
  private readonly onEnd: (group: Group) => void;
  private hasFailed = false;

  constructor(session: Session, onEnd: (group: Group) => void) {
    super();
    this.session = session;
    this.onEnd = onEnd;
  }

  /** Before the first member. */
  writePreceding(members: readonly Member[]): void {
    // As the first statement, SET CONSTRAINTS would warn that it is in no transaction block.
    for (const text of ['select', 'set constraints all immediate']) this.preceding.push(this.write(text, []));
    const texts = new Set<string>();
    for (const { entry } of members) if (entry?.guard) texts.add(entry.guard.growth.before);
    for (const text of texts) this.preceding.push(this.write(text, []));
    this.turn = -this.preceding.length;
  }

  add(member: Member, { request: { reader, input }, measure, guard, most }: Entry): void {
    reader.mayHaveChanged = true;
    this.members.push(member);
    this.endsAt = Math.min(this.endsAt, reader.startedAt + input.timeoutMs);
    if (measure) this.measure = this.measure ? strictest(this.measure, measure) : measure;
    if (!guard) {
      this.hasUnbounded = true;
      return;
    }
    this.guards.add(guard.unchanged);
    const { after } = guard.growth;
    this.mosts.set(after, (this.mosts.get(after) ?? 0) + most);
  }

  /** After the last member. */
  writeGuards(): void {
    for (const text of this.guards) this.following.push(this.write(text, []));
    // Then the size check decides.
    if (this.hasUnbounded) return;
    for (const [text, most] of this.mosts) this.following.push(this.write(text, [String(Math.ceil(most))]));
  }

  private takeOwn(): Own[] {
    return [...this.preceding.splice(0), ...this.following.splice(0)];
  }

  private write(text: string, parameters: readonly string[]): Own {
    const { statements, out } = this.session;
    const known = statements.get(text);
    const prepared = known ?? newStatement();
    if (!known) out.parse(prepared.name, text);
    out.bind(prepared.name, parameters).execute(0);
    return { text, prepared };
  }

  get isHalted(): boolean {
    return this.haltedAt !== null;
  }

  /** Whether all members still leave nothing in the session but sequence state. */
  get isPlain(): boolean {
    return this.members.every(({ entry }) => !entry || isPlain(entry.request.profile));
  }

  protected get current(): Exchange | null {
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

  override rowDescription(bytes: Buffer, start: number): void {
    super.rowDescription(bytes, start);
    // It has to look up types, and the other members wait for that.
    if (this.session.isOnHold) this.blame(this.members[this.turn]);
  }

  protected haltIfLarge(): void {
    // A large answer needs a reader of its own.
    if (!this.current?.isStreaming || this.isHalted) return;
    this.blame(this.members[this.turn]);
    this.halt();
  }

  protected done(exchange: Exchange): void {
    exchange.pack();
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
    if (!this.isHalted) this.noteGuard(this.following[this.turn - this.members.length]?.text, error);
    // Whether they were parsed before the failure is not known: closing an unknown one does no harm.
    for (const { text, prepared } of this.takeOwn()) this.session.statements.close(text, prepared);
    const member = this.members[this.turn];
    if (!this.isOwnFault(member, error)) this.blame(member);
  }

  /** `failed`: the statement that PostgreSQL was at. A cancel or another failure says nothing about the others. */
  private noteGuard(failed: string | undefined, error: ServerError): void {
    if (failed === undefined) return;
    for (const { entry } of this.members) {
      if (entry?.guard?.unchanged === failed) entry.isOutdated = true;
      if (entry?.guard?.growth.after === failed && saysOverLimit(error)) entry.hasOutgrown = true;
    }
  }

  /** Other users run the same statement: only if several of them fail in short order is it avoided for all. */
  private isOwnFault(member: Member | undefined, error: ServerError): boolean {
    const { project, profile } = member?.entry?.request ?? {};
    const user = letRunAlone(project);
    if (!profile || !user) return false;
    if (member?.exchange?.isBeforeTarget && saysSessionEnded(error)) return true;
    const { failedBy: last } = profile;
    profile.failedBy = { user, at: performance.now() };
    return last === null || last.user === user || profile.failedBy.at - last.at > failuresApartMs;
  }

  /** Undefined: it happened after the last member, or at an unknown point, so any member can have caused it. */
  private blame(member: Member | undefined): void {
    for (const { entry } of member ? [member] : this.members)
      if (entry) noteDuration(entry.request.profile, avoidedMs);
  }

  ready(): void {
    if (this.isHalted) this.blame(undefined);
    else if (!this.hasFailed) this.noteShares();
    for (const { text, prepared } of this.takeOwn()) this.session.statements.keep(text, prepared);
    try {
      this.onEnd(this);
    } finally {
      this.settle(this.hasFailed ? () => null : answerOf);
    }
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
  if (exchange.refusedBy) throw errors.rowsNotShown(exchange.refusedBy);
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

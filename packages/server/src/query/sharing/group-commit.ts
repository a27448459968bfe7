// Group commit: short, plain inserts, and updates and deletes by key, of one project that arrive together share one transaction, so
// that PostgreSQL wakes up once and waits for its disk once for all of them. Those of end users have groups of their own, in
// sessions that have the role of users: before each member, the transaction is told who acts.
//
// A project's statements pass through these states:
//
//   waiting   while a group is on its way, or until the end of this turn of the event loop. At most `maxWaiting`
//   started   the next group takes as many as it can: up to `maxMembers`, `maxGroupBytes`, and about `maxGroupMs` by what
//             earlier groups took. All are written at once, updates and deletes in the order of their rows: Parse, Bind,
//             Execute for each, around them the members' guards, and the size check of the strictest one, then one Sync.
//             PostgreSQL runs that as one transaction
//   committed nobody is answered before the commit. Then each member gets its own answer
//   declined  the answer is null: nothing of the statement has happened, and run.ts runs it in an exclusive session. This is
//             what happens to every member if one fails, if the group takes longer than `patienceMs` (it is cancelled), if
//             an answer becomes large, or if the project outgrows its headroom
//   unknown   the connection broke after the group was sent: every member is told that its outcome is unknown
//
// A member that made the others run twice is avoided for its next dozen runs (`blame`).
//
// What this rests on: who acts is set before each member and by nothing else (acting-users.ts); a member is plain, so it leaves
// nothing in the session but sequence state (statement-profiles.ts); all requests of a group are under way at the same time, so
// any order of them is right; all of them commit or none does (group-commit.alone.test.ts). Deferred constraints are checked behind
// each member, as they would be at the end of its own transaction. Locks on rows are held until the commit. A group locks rows in
// the order of the values that select them, so two groups rarely wait for each other. Where they do, and where a foreign key or
// somebody else's transaction is in the way, the cancel after `patienceMs` comes long before PostgreSQL looks for deadlocks, which
// it does after a second.

import { errors } from '../../errors/errors.ts';
import type { Session } from '../../postgres/wire/session.ts';
import { sizeCheck } from '../../quotas/size-check.ts';
import type { ProjectLogin } from '../../servers/databases/login.ts';
import { runsAlone } from '../exchange/acting-users.ts';
import type { StatementInput } from '../exchange/answer-writer.ts';
import { writeCommands } from '../exchange/commands.ts';
import { Exchange } from '../exchange/exchange.ts';
import { noteFate } from '../exchange/failures.ts';
import { sharedFrame } from '../exchange/frame.ts';
import { HeldAnswer } from '../exchange/held-answer.ts';
import { hungUp } from '../exchange/statement-deadline.ts';
import { ExactNumber } from '../json/json-text.ts';
import type { ProjectSessions } from '../sessions/project-sessions.ts';
import { isPlain, learn, type StatementProfile } from '../sessions/statement-profiles.ts';
import { type Entry, Group, type Member, patienceMs } from './group.ts';
import { openPerProject } from './per-project.ts';

export type { Entry };

export type GroupCommit = {
  /** The answer; null if nothing of it has happened, and it has to run in an exclusive session. */
  join(project: ProjectLogin, entry: Entry): Promise<Buffer | null>;
  /** Cancels the project's groups that have not ended by now; each member then runs by itself. */
  halt(projectId: string): void;
};

/** Statements that usually take longer are not grouped. Most of the time is the commit, which is slow on some disks. */
const shortMs = 40;
const maxMembers = 128;
/** Estimated from what earlier groups took. */
const maxGroupMs = 50;
const maxGroupBytes = 256 * 1024;
/** Larger statements are not grouped. */
const [longText, longInput] = [4 * 1024, 32 * 1024];
/** As many as may wait for sessions. */
const maxWaiting = 2_000;

export function canGroup({ usualMs, statement }: StatementProfile): boolean {
  const { isInsert, rowKey, preparable } = statement;
  return (isInsert || rowKey !== null) && preparable && usualMs < shortMs;
}

/** The changes of one project by one login: one group runs, the others wait for the next. */
class ProjectGroups {
  private running: Group | null = null;
  private readonly waiting: Member[] = [];
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
      const bytes = bytesOf(entry.request.input);
      this.waiting.push({ entry, bytes, held: null, exchange: null, resolve, reject });
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
    const members = this.takeMembers();
    try {
      this.send(group, members);
    } catch (error) {
      // Nobody is left without an answer, and half a transaction is not sent.
      session.destroy();
      for (const { reject } of members) reject?.(errors.internal(error as Error));
      return this.finish(group);
    }
    for (const { entry } of group.members) if (entry) learn(entry.request.profile, session);
  }

  private send(group: Group, members: Member[]): void {
    const { session } = group;
    group.writePreceding(members);
    for (const member of inLockOrder(members)) this.addMember(group, member);
    this.running = group;
    group.writeGuards();
    if (group.measure) writeCommands(session.out, sizeCheck(group.measure, null));
    session.out.sync();
    session.send(group);
    group.sentAt = performance.now();
    session.flush();
  }

  /** Those that have waited longest, as many as a group can have. */
  private takeMembers(): Member[] {
    const { waiting } = this;
    let [count, ms, bytes] = [0, 0, 0];
    while (count < waiting.length && count < maxMembers && bytes < maxGroupBytes && ms < maxGroupMs) {
      const member = waiting[count++] as Member;
      const { usualMs = 0, sharedMs = 0 } = member.entry?.request.profile ?? {};
      ms += Math.min(usualMs, sharedMs);
      bytes += member.bytes;
    }
    return waiting.splice(0, count);
  }

  private addMember(group: Group, member: Member): void {
    if (!member.entry) return;
    const { request, isStopped } = member.entry;
    const { input, form, profile, reader } = request;
    if (reader.isGone) return member.reject?.(noteFate(hungUp(), 'undone'));
    // Its profile may have changed since it arrived.
    if (
      !isPlain(profile) ||
      !canGroup(profile) ||
      isLong(member, input) ||
      isStopped ||
      runsAlone(request.project)
    )
      return member.resolve?.(null);
    // The group is halted as soon as the answer becomes large, so this memory need not be counted.
    const held = new HeldAnswer(null);
    const exchange = new Exchange({
      session: group.session,
      statement: profile.statement,
      input,
      frame: sharedFrame(request.project.actingUser),
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

/** The size of its text and parameters, counted as far as it matters. */
function bytesOf({ query, params }: StatementInput): number {
  let { length } = query;
  for (const value of params) {
    if (typeof value === 'string') length += value.length;
    else if (typeof value === 'object' && value !== null) length += JSON.stringify(value).length;
    if (length > longInput) break;
  }
  return length;
}

function isLong({ bytes }: Member, { query }: StatementInput): boolean {
  return bytes > longInput || query.length > longText;
}

/** Groups of other logins and processes change the same rows. */
function inLockOrder(members: Member[]): Member[] {
  if (!members.some(({ entry }) => entry?.request.statement.rowKey)) return members;
  const rows = new Map(members.map((member) => [member, rowOf(member)]));
  return members.sort((one, other) => {
    const [first, second] = [rows.get(one) ?? '', rows.get(other) ?? ''];
    return first < second ? -1 : first > second ? 1 : 0;
  });
}

/** The row that it locks, as text; empty for an insert. */
function rowOf({ entry }: Member): string {
  const { statement, input } = entry?.request ?? {};
  if (!statement?.rowKey) return '';
  const { table, parameters } = statement.rowKey;
  return [table, ...parameters.map((index) => keyOf(input?.params[index]))].join('\0');
}

/** The value comes from a caller: an object can have a `toString` that is no function. */
function keyOf(value: unknown): string {
  if (value instanceof ExactNumber) return value.text;
  return typeof value === 'object' ? '' : String(value);
}

export function openGroupCommit(sessions: ProjectSessions): GroupCommit {
  const projects = openPerProject(
    patienceMs / 4,
    (project, onEmpty) => new ProjectGroups(project, sessions, onEmpty),
  );
  return {
    join: async (project, entry) => projects.of(project).join(project, entry),
    halt: (projectId) => {
      for (const groups of projects.all(projectId)) groups.halt();
    },
  };
}

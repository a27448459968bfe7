// Group commit: short, plain inserts of one project that arrive together share one transaction, so that PostgreSQL wakes up
// once and waits for its disk once for all of them. Those of end users have groups of their own, in sessions that have the role
// of users: before each member, the transaction is told who acts.
//
// A project's inserts pass through these states:
//
//   waiting   while a group is on its way, or until the end of this turn of the event loop. At most `maxWaiting`
//   started   the next group takes as many as it can: up to `maxMembers`, `maxGroupBytes`, and about `maxGroupMs` by what
//             earlier groups took. All are written at once: Parse, Bind, Execute for each, around them the members' guards, and
//             the size check of the strictest one, then one Sync. PostgreSQL runs that as one transaction
//   committed nobody is answered before the commit. Then each member gets its own answer
//   declined  the answer is null: nothing of the insert has happened, and run.ts runs it in an exclusive session. This is
//             what happens to every member if one fails, if the group takes longer than `patienceMs` (it is cancelled), if
//             an answer becomes large, or if the project outgrows its headroom
//   unknown   the connection broke after the group was sent: every member is told that its outcome is unknown
//
// A member that made the others run twice is avoided for its next dozen runs (`blame`).
//
// What this rests on: who acts is set before each member and by nothing else (acting-users.ts); a member is plain, so it leaves
// nothing in the session but sequence state (statement-profiles.ts); it adds rows only, so members do not depend on each other's
// order; all of them commit or none does (group-commit.alone.test.ts).

import { errors } from '../../errors/errors.ts';
import type { Session } from '../../postgres/wire/session.ts';
import type { ProjectLogin } from '../../servers/databases/login.ts';
import { sizeCheck } from '../admission.ts';
import type { StatementInput } from '../exchange/answer-writer.ts';
import { writeCommands } from '../exchange/commands.ts';
import { Exchange } from '../exchange/exchange.ts';
import { noteFate } from '../exchange/failures.ts';
import { sharedFrame } from '../exchange/frame.ts';
import { HeldAnswer } from '../exchange/held-answer.ts';
import { hungUp } from '../exchange/statement-deadline.ts';
import type { ProjectSessions } from '../sessions/project-sessions.ts';
import { isPlain, learn, type StatementProfile } from '../sessions/statement-profiles.ts';
import { type Entry, Group, type Member, patienceMs } from './insert-group.ts';
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
const [longText, longParameters] = [4 * 1024, 32 * 1024];
/** As many as may wait for sessions. */
const maxWaiting = 2_000;

export function canGroup({ usualMs, statement }: StatementProfile): boolean {
  return statement.isInsert && statement.preparable && usualMs < shortMs;
}

/** The inserts of one project by one login: one group runs, the others wait for the next. */
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
    group.writeNotes(waiting, maxMembers);
    while (taken < waiting.length && session.out.length < maxGroupBytes && ms < maxGroupMs) {
      const member = waiting[taken++] as Member;
      const { usualMs = 0, sharedMs = 0 } = member.entry?.request.profile ?? {};
      ms += Math.min(usualMs, sharedMs);
      this.addMember(group, member);
      if (group.members.length === maxMembers) break;
    }
    this.waiting = waiting.slice(taken);
    this.running = group;
    group.writeGuards();
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
    halt: (projectId) => {
      for (const groups of projects.all(projectId)) groups.halt();
    },
  };
}

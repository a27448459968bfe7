// Pipelines: short, plain reads of one project by one login share a few sessions, one behind the other, so that PostgreSQL wakes up
// once for several of them. A batch of reads counts as one. No read waits behind a slow one.
//
// A pipeline passes through these states:
//
//   open      reads join at its end, up to `maxDepth`. Reads that find all pipelines full wait for room, at most
//             `maxWaitMs`; if other statements wait for sessions, reads stop joining and the pipelines end
//   isolated  the first read has taken longer than `patienceMs`, or its answer is large. It keeps the session, with a
//             deadline; the reads behind it are moved: they run again elsewhere. They are reads, so it does not matter
//             that PostgreSQL may have started them
//   closed    nobody joins any more: after an isolation, an error that leaves the session unusable, or a statement that
//             turned out not to be plain. The session is given back when the last read has ended: `plain` without a
//             reset, `none` with one, `broken` to be closed
//
// What this rests on: only plain reads join, in sessions in read-only mode (statement-profiles.ts, session-reset.ts); an
// error in one read does not touch the others, because each has a Sync message of its own (pipelines.long.alone.test.ts,
// pipeline-waiting.long.alone.test.ts).
import { availableParallelism } from 'node:os';
import { RowhouseError } from '../../errors/errors.ts';
import type { Receiver, Session } from '../../postgres/wire/session.ts';
import type { ProjectLogin } from '../../servers/databases/login.ts';
import { MovedError, StatementFailed, triedToWrite } from '../exchange/failures.ts';
import type { Reader } from '../exchange/reader.ts';
import { StatementDeadline, type Stoppable } from '../exchange/statement-deadline.ts';
import type { ProjectSessions } from '../sessions/project-sessions.ts';
import {
  distrust,
  isPlain,
  learnSome,
  noteDuration,
  type StatementProfile,
} from '../sessions/statement-profiles.ts';
import { openPerProject } from './per-project.ts';

export type Pipelines = {
  /** A pipeline in which the statement must then run, or null: it has to run elsewhere. */
  take(
    project: ProjectLogin,
    profiles: readonly StatementProfile[],
  ): Pipeline | null | Promise<Pipeline | null>;
};

/** A read, or several in one transaction. */
export type Piped = Receiver &
  Stoppable & {
    run(): Promise<void>;
    /** It runs elsewhere. */
    move(): void;
    /** Called when the answer becomes larger than what is held. */
    onStreaming: (() => void) | null;
    readonly hasBegun: boolean;
    readonly isBeforeTarget: boolean;
    readonly isHalted?: boolean;
    readonly isLarge?: boolean;
    readonly startedAt: number;
    /** The statement that tried to write; -1: none. */
    readonly writesAt?: number;
  };

type PipedRequest = Readonly<{
  profiles: readonly StatementProfile[];
  reader: Reader;
  timeoutMs: number;
}>;

/** A statement with less time than this does not queue behind others. */
export const sharedTimeoutMs = 1_000;
/** Reads that usually take longer get an exclusive session. */
const shortMs = 10;
/** A read that is first for longer than this is isolated. */
const patienceMs = 50;
const maxDepth = 64;
/** Reads of one project that wait for room in a pipeline. Further ones wait for sessions. */
const maxWaiting = 1_000;
/** A read that has waited longer gets an exclusive session. */
const maxWaitMs = 500;
/** On two cores, two are faster than four: PostgreSQL is woken less often. */
const maxPipelines = Math.max(2, Math.min(4, availableParallelism()));

/** All of them together. */
export function canPipeline(profiles: readonly StatementProfile[]): boolean {
  let ms = 0;
  for (const { statement, usualMs } of profiles) {
    if (!statement.isRead) return false;
    ms += usualMs;
  }
  return ms < shortMs;
}

function isStillShort(profiles: readonly StatementProfile[]): boolean {
  return profiles.every(isPlain) && canPipeline(profiles);
}

/** `exchange` and `reader` are cleared when it has ended. */
type Queued = {
  exchange: Piped | null;
  reader: Reader | null;
  timeoutMs: number;
  deadline: StatementDeadline | null;
};

export class Pipeline {
  readonly session: Session;
  /** In the order in which they were sent. */
  private readonly queued: Queued[] = [];
  private readonly sessions: ProjectSessions;
  private readonly owner: ProjectPipelines;
  /** Taken for this many reads that have not been sent yet. */
  private reserved = 0;
  /** No further read joins. */
  private isClosed = false;
  /** Answers to moved reads, or a late cancel, may still arrive: the session is not used again. */
  private isSpoiled = false;
  /** The project's own code may have run here after all. */
  private hasTraces = false;
  private lastDoneAt = 0;

  constructor(session: Session, sessions: ProjectSessions, owner: ProjectPipelines) {
    this.session = session;
    this.sessions = sessions;
    this.owner = owner;
  }

  get depth(): number {
    return this.queued.length + this.reserved;
  }

  take(): this {
    this.reserved++;
    return this;
  }

  get isOpen(): boolean {
    return !this.isClosed && this.session.isUsable;
  }

  /** How the session is given back. */
  get leaves(): 'plain' | 'none' | 'broken' {
    if (this.isSpoiled || !this.session.isUsable) return 'broken';
    return this.hasTraces ? 'none' : 'plain';
  }

  /** False: it was moved, and has to run elsewhere. */
  async run(exchange: Piped, { profiles, reader, timeoutMs }: PipedRequest): Promise<boolean> {
    this.reserved--;
    // Its profile may have changed since it was taken.
    if (this.isClosed || reader.isGone || !isStillShort(profiles)) {
      this.makeRoom();
      return false;
    }
    const queued: Queued = { exchange, reader, timeoutMs, deadline: null };
    this.queued.push(queued);
    exchange.onStreaming = () => this.isolate(queued);
    try {
      const running = exchange.run();
      learnSome(profiles, this.session);
      await running;
      const ms = performance.now() - Math.max(this.lastDoneAt, exchange.startedAt);
      note(profiles, exchange.isLarge || exchange.isHalted ? 1_000 : ms / profiles.length);
      const writer = profiles[exchange.writesAt ?? -1];
      if (writer) distrust(writer);
      return true;
    } catch (error) {
      if (error instanceof MovedError || this.isInnocent(queued)) return false;
      if (exchange.isBeforeTarget && !(error instanceof StatementFailed)) {
        // It was not told who acts: what it keeps prepared is gone.
        this.isClosed = this.isSpoiled = true;
        return false;
      }
      if (triedToWrite(error) && !reader.hasBegun) {
        for (const profile of profiles) distrust(profile);
        return false;
      }
      if (error instanceof StatementFailed && error.status === 'idle') throw error.reason;
      this.isClosed = true;
      this.isSpoiled = true;
      throw error instanceof StatementFailed ? error.reason : error;
    } finally {
      if (queued.deadline) {
        // A cancel that arrives late would hit the next statement.
        if (queued.deadline.isStopped || exchange.isHalted) this.isSpoiled = true;
        queued.deadline.end();
        note(profiles, 1_000);
      }
      // Its tables changed while it ran, or it did what it was not expected to do.
      if (!profiles.every(isPlain)) this.isClosed = this.hasTraces = true;
      if (this.session.isAltered) this.isClosed = true;
      this.queued.splice(this.queued.indexOf(queued), 1);
      this.lastDoneAt = performance.now();
      // Release the request. A dead object in the old generation keeps the young objects that it points to alive until
      // the next full collection, and so they become old too. That cost a third of the time and most of the slowest
      // answers.
      queued.exchange = null;
      queued.reader = null;
      this.makeRoom();
    }
  }

  private makeRoom(): void {
    this.owner.admit();
    if (this.depth === 0) this.owner.end(this);
  }

  /** The session was lost before its turn: the cause is another read, or the server. */
  private isInnocent({ exchange, deadline }: Queued): boolean {
    return !this.session.isUsable && exchange?.hasBegun === false && deadline === null;
  }

  /** Called twice within `patienceMs`, as long as there are pipelines. */
  look(now: number): void {
    const first = this.first;
    if (!first?.exchange || first.deadline) return;
    if (now - Math.max(this.lastDoneAt, first.exchange.startedAt) > patienceMs) this.isolate(first);
  }

  private get first(): Queued | undefined {
    const running = this.session.first;
    return this.queued.find(({ exchange }) => exchange === running);
  }

  /**
   * The first read keeps the session to itself, with a deadline of its own. If others were behind it, PostgreSQL may still be
   * answering them when it ends, so the session is not used again.
   */
  private isolate(first: Queued): void {
    const { exchange, reader, timeoutMs } = first;
    if (first.deadline || !exchange || !reader) return;
    this.isClosed = true;
    first.deadline = new StatementDeadline(this.session, reader, timeoutMs, this.sessions.terminate);
    first.deadline.follow(exchange);
    for (const other of [...this.queued]) {
      if (other === first) continue;
      this.isSpoiled = true;
      other.exchange?.move();
    }
    this.owner.admit();
  }
}

function note(profiles: readonly StatementProfile[], ms: number): void {
  for (const profile of profiles) noteDuration(profile, ms);
}

type Waiter = {
  profiles: readonly StatementProfile[];
  since: number;
  resolve: (pipeline: Pipeline | null) => void;
  reject: (error: unknown) => void;
};

/** The pipelines of one project for one login, and the reads that wait for room in them. */
class ProjectPipelines {
  private readonly pipelines: Pipeline[] = [];
  /** From the latest request, so that a rotated password is known. */
  private project: ProjectLogin;
  private readonly waiting: Waiter[] = [];
  /** Pipelines that wait for their session. */
  private opening = 0;
  private readonly sessions: ProjectSessions;
  private readonly maxPerProject: number;
  private readonly onEmpty: () => void;

  constructor(project: ProjectLogin, sessions: ProjectSessions, maxPerProject: number, onEmpty: () => void) {
    this.project = project;
    this.sessions = sessions;
    this.maxPerProject = maxPerProject;
    this.onEmpty = onEmpty;
  }

  take(
    project: ProjectLogin,
    profiles: readonly StatementProfile[],
  ): Pipeline | null | Promise<Pipeline | null> {
    this.project = project;
    const pipeline = this.find();
    if (pipeline) return pipeline.take();
    const hasOpen = this.hasOpen;
    if (!hasOpen && this.pipelines.length + this.opening < this.maxPerProject) return this.open();
    if (!(hasOpen || this.opening > 0) || this.waiting.length >= maxWaiting) return null;
    const since = performance.now();
    return new Promise((resolve, reject) => this.waiting.push({ profiles, since, resolve, reject }));
  }

  private get hasOpen(): boolean {
    return this.pipelines.some(({ isOpen }) => isOpen);
  }

  private find(): Pipeline | null {
    let best: Pipeline | null = null;
    for (const pipeline of this.pipelines) {
      if (pipeline.isOpen && pipeline.depth < (best?.depth ?? maxDepth)) best = pipeline;
    }
    if (this.pipelines.length >= this.maxPerProject) return best;
    const session = this.sessions.takeIdle(this.project, 'read');
    return session ? this.add(session) : best;
  }

  private add(session: Session): Pipeline {
    const pipeline = new Pipeline(session, this.sessions, this);
    this.pipelines.push(pipeline);
    return pipeline;
  }

  private async open(): Promise<Pipeline | null> {
    this.opening++;
    try {
      const session = await this.sessions.acquire(this.project, 'read');
      this.opening--;
      if (this.pipelines.length < this.maxPerProject) return this.add(session).take();
      // Other sessions became idle and are pipelines now: more would leave none for the project's other statements.
      this.sessions.release(this.project, session, 'plain');
      return this.find()?.take() ?? null;
    } catch (error) {
      this.opening--;
      // The waiting reads waited for the same session.
      if (!this.hasOpen && this.opening === 0)
        for (const { resolve, reject } of this.waiting.splice(0)) {
          // Later arrivals have not waited as long.
          if (error instanceof RowhouseError && error.code === 'overloaded') resolve(null);
          else reject(error);
        }
      this.closeIfEmpty();
      throw error;
    } finally {
      this.admit();
    }
  }

  /** Resumes the reads for which there is room, and those that have nothing to wait for: they run elsewhere. */
  admit(): void {
    const { waiting } = this;
    if (waiting.length === 0) return;
    const isWanted = this.sessions.isWanted(this.project);
    while (waiting.length > 0) {
      // Its profile may have changed since it was taken.
      const runsElsewhere = isWanted || !isStillShort((waiting[0] as Waiter).profiles);
      const pipeline = runsElsewhere ? null : this.find();
      if (!pipeline && !runsElsewhere && (this.opening > 0 || this.hasOpen)) return;
      waiting.shift()?.resolve(pipeline?.take() ?? null);
    }
  }

  look(now: number): void {
    for (const pipeline of this.pipelines) pipeline.look(now);
    while (this.waiting[0] && now - this.waiting[0].since > maxWaitMs) this.waiting.shift()?.resolve(null);
  }

  end(pipeline: Pipeline): void {
    this.pipelines.splice(this.pipelines.indexOf(pipeline), 1);
    this.sessions.release(this.project, pipeline.session, pipeline.leaves);
    this.closeIfEmpty();
  }

  private closeIfEmpty(): void {
    if (this.pipelines.length === 0 && this.opening === 0) this.onEmpty();
  }
}

export function openPipelines(sessions: ProjectSessions, share: number): Pipelines {
  const maxPerProject = Math.min(maxPipelines, Math.floor(share / 2));
  const projects = openPerProject(
    patienceMs / 2,
    (project, onEmpty) => new ProjectPipelines(project, sessions, maxPerProject, onEmpty),
  );
  return {
    take: (project, profiles) => {
      // Other statements wait for sessions: pipelines end.
      if (maxPerProject === 0 || sessions.isWanted(project)) return null;
      return projects.of(project).take(project, profiles);
    },
  };
}

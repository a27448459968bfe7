// Short, plain reads of one project share a few connections, one behind the other: PostgreSQL then wakes once for several
// of them. Nobody waits behind a slow one: as soon as the first in a lane takes long, or has much to say, those behind it
// are run elsewhere. They are reads, so it does not matter that PostgreSQL may have begun with them.
import { availableParallelism } from 'node:os';
import type { ProjectLogin } from '../../engine/provision.ts';
import { RowhouseError } from '../../errors.ts';
import type { Session } from '../../postgres/session.ts';
import type { Exchange } from '../exchange/exchange.ts';
import { MovedError, StatementFailed, triedToWrite } from '../exchange/failures.ts';
import { type Reader, StatementDeadline } from '../exchange/statement-deadline.ts';
import type { ProjectSessions } from '../sessions/project-sessions.ts';
import {
  distrust,
  isPlain,
  learn,
  noteDuration,
  type StatementProfile,
} from '../sessions/statement-profiles.ts';
import { openPerProject } from './per-project.ts';

export type Pipelines = {
  /** A lane with room, once there is one, in which the statement has to be run; or null: then it has to run alone. */
  take(project: ProjectLogin, profile: StatementProfile): Pipeline | null | Promise<Pipeline | null>;
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
const maxPipelines = Math.max(2, Math.min(4, availableParallelism()));

export function canPipeline({ usualMs, statement }: StatementProfile): boolean {
  return statement.isRead && usualMs < shortMs;
}

function isStillShort(profile: StatementProfile): boolean {
  return isPlain(profile) && canPipeline(profile);
}

/** `exchange` and `reader`: until it is done. */
type Queued = {
  exchange: Exchange | null;
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
  /** It was taken for so many that have not begun yet. */
  private reserved = 0;
  /** Nobody joins any more. */
  private isClosed = false;
  /** The session may hold what belongs to nobody: it is not used again. */
  private isSpoiled = false;
  /** Something of the project's own may have run here after all. */
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

  /** False: it was moved away and has to run elsewhere. */
  async run(
    exchange: Exchange,
    reader: Reader,
    timeoutMs: number,
    profile: StatementProfile,
  ): Promise<boolean> {
    this.reserved--;
    // What was known of it when it came may be otherwise by now.
    if (this.isClosed || reader.isGone || !isStillShort(profile)) {
      this.makeRoom();
      return false;
    }
    const queued: Queued = { exchange, reader, timeoutMs, deadline: null };
    this.queued.push(queued);
    exchange.onStreaming = () => this.isolate(queued);
    try {
      const running = exchange.run();
      learn(profile, this.session);
      await running;
      const ms = performance.now() - Math.max(this.lastDoneAt, exchange.startedAt);
      noteDuration(profile, exchange.isLarge ? 1_000 : ms);
      return true;
    } catch (error) {
      if (error instanceof MovedError || this.isInnocent(queued)) return false;
      if (triedToWrite(error) && !reader.hasBegun) {
        distrust(profile);
        return false;
      }
      if (error instanceof StatementFailed && error.status === 'idle') throw error.reason;
      this.isClosed = true;
      this.isSpoiled = true;
      throw error instanceof StatementFailed ? error.reason : error;
    } finally {
      if (queued.deadline) {
        // A cancel that comes late would hit the next one.
        if (queued.deadline.isStopped) this.isSpoiled = true;
        queued.deadline.end();
        noteDuration(profile, 1_000);
      }
      // Its tables have changed on its way, or it did what it was not taken to do.
      if (!isPlain(profile)) this.isClosed = this.hasTraces = true;
      if (this.session.isAltered) this.isClosed = true;
      this.queued.splice(this.queued.indexOf(queued), 1);
      this.lastDoneAt = performance.now();
      // Lets go of the request: what is dead but old keeps what is young alive until all memory is looked through, and
      // one request after the other would become old by that. It cost a third of the time and most of the slowest answers.
      queued.exchange = null;
      queued.reader = null;
      this.makeRoom();
    }
  }

  private makeRoom(): void {
    this.owner.admit();
    if (this.depth === 0) this.owner.end(this);
  }

  /** The session was lost before its turn came: what one of the others did, or the server, is not its answer. */
  private isInnocent({ exchange, deadline }: Queued): boolean {
    return !this.session.isUsable && exchange?.hasBegun === false && deadline === null;
  }

  /** Called twice within `patienceMs`, as long as there are lanes. */
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
   * The first has the session to itself from now on, with a deadline as everybody has. Were others behind it, PostgreSQL may
   * be answering them yet when it is done, so that the session is not used again.
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

type Waiter = {
  profile: StatementProfile;
  since: number;
  resolve: (pipeline: Pipeline | null) => void;
  reject: (error: unknown) => void;
};

/** The lanes of one project, and who waits for room in them. */
class ProjectPipelines {
  private readonly pipelines: Pipeline[] = [];
  /** As the last who came knows it. */
  private project: ProjectLogin;
  private readonly waiting: Waiter[] = [];
  /** So many lanes wait for their connection. */
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

  take(project: ProjectLogin, profile: StatementProfile): Pipeline | null | Promise<Pipeline | null> {
    this.project = project;
    const pipeline = this.find();
    if (pipeline) return pipeline.take();
    const hasOpen = this.hasOpen;
    if (!hasOpen && this.pipelines.length + this.opening < this.maxPerProject) return this.open();
    if (!(hasOpen || this.opening > 0) || this.waiting.length >= mostWaiting) return null;
    const since = performance.now();
    return new Promise((resolve, reject) => this.waiting.push({ profile, since, resolve, reject }));
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
      this.closeIfEmpty();
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
      const isAlone = isWanted || !isStillShort((waiting[0] as Waiter).profile);
      const pipeline = isAlone ? null : this.find();
      if (!pipeline && !isAlone && (this.opening > 0 || this.hasOpen)) return;
      waiting.shift()?.resolve(pipeline?.take() ?? null);
    }
  }

  look(now: number): void {
    for (const pipeline of this.pipelines) pipeline.look(now);
    while (this.waiting[0] && now - this.waiting[0].since > longestWaitMs)
      this.waiting.shift()?.resolve(null);
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
    take: (project, profile) => {
      // Others wait for connections: lanes come to their end.
      if (maxPerProject === 0 || sessions.isWanted(project)) return null;
      return projects.of(project).take(project, profile);
    },
  };
}

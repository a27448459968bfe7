// Which of a server's hosts is the primary. PostgreSQL tells at the login whether it is a standby, and a promotion begins a
// new timeline: the primary with the highest timeline is the one that counts. A host that is still a primary on an older
// timeline has been replaced, and whatever is written to it will be lost.
import { setTimeout as sleep } from 'node:timers/promises';
import { ask } from '../wire/ask.ts';
import type { Host, ServerAddress } from '../wire/server-address.ts';
import { Session } from '../wire/session.ts';
import { RefusedError, StandbyError } from '../wire/session-errors.ts';
import { openFreshness } from './freshness.ts';
import { type Look, lookAtEnd, lookAtHost, type WalPosition } from './wal-position.ts';

/** A connection to the primary. It is cut when another host has become the primary. */
type Held = Readonly<{ host: Host; cut: () => void }>;

/** How long a host may take to answer. One that is down often does not refuse: it stays silent. */
const answerMs = 2_000;
/** How often each host is asked. A promotion has to be followed within a second. */
const watchMs = 250;
/** A search that found no primary counts for this long, so that an outage does not cost the hosts a login per request. */
const searchAgainMs = 200;
/** A write that is done waits no longer than this for its position. */
const positionMs = 500;

export class Primary {
  readonly hosts: readonly Host[];
  private readonly address: ServerAddress;
  private current: Host;
  /** The highest that was seen. 0: none yet. */
  private timeline = 0;
  private isLost: boolean;
  private readonly held = new Set<Held>();
  private readonly promotionListeners: ((host: Host) => void)[] = [];
  private searching: Promise<void> | null = null;
  private failedAt = Number.NEGATIVE_INFINITY;
  private readonly freshness = openFreshness();
  /** The sessions by which the hosts are watched. */
  private readonly watching = new Map<Host, Session>();
  private lookingAtEnd: Promise<unknown> = Promise.resolve();
  private nextEnd: Promise<WalPosition | null> | null = null;
  /** What each host said last, for the error message. */
  private readonly states = new Map<Host, string>();

  /** `address`: with the service's own role, for whichever host. */
  constructor(address: ServerAddress, hosts: readonly [Host, ...Host[]]) {
    this.address = address;
    this.hosts = hosts;
    this.current = hosts[0];
    this.isLost = hosts.length > 1;
  }

  /** The primary, as far as it is known. */
  get host(): Host {
    return this.current;
  }

  /** A standby whose data is at most this old, and which may have reached `min`, or null. */
  findStandby(maxMs: number, min: WalPosition | null): Host | null {
    // The position is from a promotion that this process has not noticed yet.
    if (min && min.timeline > this.timeline) return null;
    return this.freshness.find(maxMs);
  }

  /** Whether a standby that has replayed this much still fits. */
  isFresh(standby: Host, replayed: number, maxMs: number): boolean {
    return this.freshness.isFresh(standby, replayed, maxMs);
  }

  /**
   * A position behind everything that was committed before the call. null: the primary does not answer. Calls that come
   * while one is asked for share the next one: a flood of them must not delay the watch.
   */
  end(): Promise<WalPosition | null> {
    this.nextEnd ??= this.lookingAtEnd.then(() => {
      this.nextEnd = null;
      const looking = this.lookAtEnd();
      this.lookingAtEnd = looking;
      return looking;
    });
    return this.nextEnd;
  }

  /** Ends a backend of a standby. Nothing that a role of a project can do prevents it. */
  terminate(standby: Host, { pid, user }: { pid: number; user: string }): void {
    const session = this.watching.get(standby);
    if (!session) return;
    ask(
      session,
      'select pg_terminate_backend(pid) from pg_stat_activity where pid = $1 and usename = $2',
      [String(pid), user],
      { timeoutMs: answerMs, terminate: () => session.destroy() },
      // The watch notices a session that is lost.
    ).catch(() => {});
  }

  /** Opens a connection to the primary. Tries a second time if another host turns out to be the primary. */
  async connect<T>(open: (host: Host) => Promise<T>): Promise<T> {
    if (this.hosts.length === 1) return open(this.current);
    if (!this.isLost) {
      const host = this.current;
      try {
        return await open(host);
      } catch (error) {
        if (!isAbsence(error)) throw error;
        if (host === this.current) this.isLost = true;
      }
    }
    await this.find();
    return open(this.current);
  }

  /** Registers a connection. Returns how to forget it. */
  hold(host: Host, cut: () => void): () => void {
    const held = { host, cut };
    this.held.add(held);
    // Another host has become the primary while this connection was opened.
    if (host !== this.current) this.cut((one) => one === held);
    return () => void this.held.delete(held);
  }

  /** Called after a promotion: what was committed last on the old primary may be lost. */
  onPromotion(listener: (host: Host) => void): void {
    this.promotionListeners.push(listener);
  }

  /** Asks each host several times a second until `signal`. One that does not answer does not hold up the others. */
  async watch(signal: AbortSignal): Promise<void> {
    if (this.hosts.length === 1) return;
    await Promise.all(this.hosts.map((host) => this.follow(host, signal)));
  }

  private async follow(host: Host, signal: AbortSignal): Promise<void> {
    let session: Session | null = null;
    while (!signal.aborted) {
      try {
        session ??= await this.logIn(host);
        this.watching.set(host, session);
        this.note(host, performance.now(), await lookAtHost(session, answerMs));
      } catch (error) {
        this.watching.delete(host);
        session?.destroy();
        session = null;
        this.noteAbsent(host, error);
      }
      await sleep(watchMs, undefined, { signal, ref: false }).catch(() => {});
    }
    this.watching.delete(host);
    session?.close();
  }

  private async lookAtEnd(): Promise<WalPosition | null> {
    const session = this.watching.get(this.current);
    if (!session || this.isLost) return null;
    const looking = lookAtEnd(session, positionMs).catch(() => null);
    return Promise.race([looking, sleep(positionMs, null, { ref: false })]);
  }

  private find(): Promise<void> {
    if (performance.now() - this.failedAt < searchAgainMs) return Promise.reject(this.noPrimary());
    this.searching ??= this.search().finally(() => {
      this.searching = null;
    });
    return this.searching;
  }

  /** Ends with the first host that is the primary. Apart from the start, those that stay silent are not waited for. */
  private async search(): Promise<void> {
    const looks = this.hosts.map(async (host) => {
      try {
        const session = await this.logIn(host);
        try {
          this.note(host, performance.now(), await lookAtHost(session, answerMs));
        } finally {
          session.close();
        }
      } catch (error) {
        this.noteAbsent(host, error);
      }
      if (this.isLost) throw new Error('not the primary');
    });
    const first = Promise.any(looks).catch(() => {});
    // The timeline of the first primary that answers says nothing if none is known to compare it with.
    await (this.timeline === 0 ? Promise.allSettled(looks) : first);
    if (!this.isLost) return;
    this.failedAt = performance.now();
    throw this.noPrimary();
  }

  private logIn({ host, port }: Host): Promise<Session> {
    const address = { ...this.address, host, port, connectMs: answerMs };
    return Session.open(address, { application_name: 'rowhouse watch' });
  }

  /** `at`: when it was asked. */
  private note(host: Host, at: number, { timeline, receives, lsn }: Look): void {
    this.states.set(host, timeline === null ? 'a standby' : `a primary on timeline ${timeline}`);
    if (timeline === null) {
      // One that does not follow the primary may have what the primary has not.
      if (receives !== null && receives === this.timeline) this.freshness.noteStandby(host, lsn);
      else this.freshness.forget(host);
      if (host !== this.current) return;
      this.isLost = this.hosts.length > 1;
      this.cut((held) => held.host === host);
    } else if (timeline > this.timeline || (this.isLost && timeline === this.timeline)) {
      const isPromotion = this.timeline > 0 && timeline > this.timeline;
      if (isPromotion) this.freshness.forgetAll();
      this.timeline = timeline;
      this.current = host;
      this.isLost = false;
      this.cut((held) => held.host !== host);
      if (isPromotion) for (const listener of this.promotionListeners) listener(host);
    }
    if (timeline === this.timeline && host === this.current) this.freshness.notePrimary(at, lsn);
  }

  /** Its connections stay: if it only hangs, their statements still end. A new primary ends them. */
  private noteAbsent(host: Host, error: unknown): void {
    this.freshness.forget(host);
    this.states.set(host, error instanceof Error ? error.message || error.name : String(error));
  }

  private cut(isOf: (held: Held) => boolean): void {
    for (const held of [...this.held]) {
      if (!isOf(held)) continue;
      this.held.delete(held);
      held.cut();
    }
  }

  private noPrimary(): Error {
    const states = this.hosts.map(
      (host) => `${host.host}:${host.port}: ${this.states.get(host) ?? 'unknown'}`,
    );
    return new Error(`none of the hosts is the primary (${states.join('; ')})`);
  }
}

/** No answer, or PostgreSQL starts, stops, or is a standby. Another host may be the primary. */
function isAbsence(error: unknown): boolean {
  if (error instanceof StandbyError) return true;
  const state = error instanceof RefusedError ? error.sqlstate : (error as { code?: unknown }).code;
  const isState = typeof state === 'string' && /^[0-9A-Z]{5}$/.test(state) && !/^E[A-Z]+$/.test(state);
  return !isState || state.startsWith('57P');
}

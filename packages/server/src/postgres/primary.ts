// Which of a server's hosts is the primary. PostgreSQL tells at the login whether it is a standby, and a promotion begins a
// new timeline: the primary with the highest timeline is the one that counts. A host that is still a primary on an older
// timeline has been replaced, and whatever is written to it will be lost.
import { setTimeout as sleep } from 'node:timers/promises';
import { ask } from './ask.ts';
import type { Address } from './database.ts';
import { Session } from './session.ts';
import { RefusedError, StandbyError } from './session-errors.ts';

export type Host = Readonly<{ host: string; port: number }>;
/** A connection to the primary. It is cut when another host has become the primary. */
type Held = Readonly<{ host: Host; cut: () => void }>;

/** How long a host may take to answer. One that is down often does not refuse: it stays silent. */
const answerMs = 2_000;
/** How often each host is asked. A promotion has to be followed within a second. */
const watchMs = 250;
/** A search that found no primary counts for this long, so that an outage does not cost the hosts a login per request. */
const searchAgainMs = 200;

export class Primary {
  readonly hosts: readonly Host[];
  private readonly address: Address;
  private current: Host;
  /** The highest that was seen. 0: none yet. */
  private timeline = 0;
  private isLost: boolean;
  private readonly held = new Set<Held>();
  private readonly promotionListeners: ((host: Host) => void)[] = [];
  private searching: Promise<void> | null = null;
  private failedAt = Number.NEGATIVE_INFINITY;
  /** What each host said last, for the error message. */
  private readonly states = new Map<Host, string>();

  /** `address`: with the service's own role, for whichever host. */
  constructor(address: Address, hosts: readonly [Host, ...Host[]]) {
    this.address = address;
    this.hosts = hosts;
    this.current = hosts[0];
    this.isLost = hosts.length > 1;
  }

  /** The primary, as far as it is known. */
  get host(): Host {
    return this.current;
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
        this.note(host, await readTimeline(session));
      } catch (error) {
        session?.destroy();
        session = null;
        this.noteAbsent(host, error);
      }
      await sleep(watchMs, undefined, { signal, ref: false }).catch(() => {});
    }
    session?.close();
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
          this.note(host, await readTimeline(session));
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

  /** `timeline`: null for a standby. */
  private note(host: Host, timeline: number | null): void {
    this.states.set(host, timeline === null ? 'a standby' : `a primary on timeline ${timeline}`);
    if (timeline === null) {
      if (host !== this.current) return;
      this.isLost = this.hosts.length > 1;
      this.cut((held) => held.host === host);
    } else if (timeline > this.timeline || (this.isLost && timeline === this.timeline)) {
      const isPromotion = this.timeline > 0 && timeline > this.timeline;
      this.timeline = timeline;
      this.current = host;
      this.isLost = false;
      this.cut((held) => held.host !== host);
      if (isPromotion) for (const listener of this.promotionListeners) listener(host);
    }
  }

  /** Its connections stay: if it only hangs, their statements still end. A new primary ends them. */
  private noteAbsent(host: Host, error: unknown): void {
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

/** null: the host is a standby. The WAL file that is written now begins with the timeline. */
async function readTimeline(session: Session): Promise<number | null> {
  const [row] = await ask(
    session,
    `select case when not pg_is_in_recovery() then substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) end`,
    [],
    { timeoutMs: answerMs, terminate: () => session.destroy() },
  );
  return typeof row?.[0] === 'string' ? Number.parseInt(row[0], 16) : null;
}

// Caches parsed statements by project. A project can use all memory that no other project needs. At the limit, the
// project with the largest share loses entries, so that a flood of new texts evicts only its own.
import type { Statement } from './statement.ts';

type Entry = { statement: Statement; bytes: number; wasUsed: boolean };
type Share = { entries: Map<string, Entry>; bytes: number; usedInPeriod: number };

/** The approximate size of a statement without its text. */
const entryBytes = 1_000;
const periodMs = 60_000;

export class StatementCache {
  private readonly maxBytes: number;
  private readonly now: () => number;
  private readonly shares = new Map<string, Share>();
  private bytes = 0;
  /** Counts minutes in which something was added. Reading the clock at each hit would cost more than the hit. */
  private period = 0;
  private periodEnds = 0;

  constructor(maxBytes: number, now = Date.now) {
    this.maxBytes = maxBytes;
    this.now = now;
  }

  get(project: string, text: string): Statement | undefined {
    const share = this.shares.get(project);
    if (!share) return undefined;
    share.usedInPeriod = this.period;
    const entry = share.entries.get(text);
    if (!entry) return undefined;
    entry.wasUsed = true;
    return entry.statement;
  }

  add(project: string, text: string, statement: Statement): void {
    this.advancePeriod();
    let share = this.shares.get(project);
    if (!share) {
      share = { entries: new Map(), bytes: 0, usedInPeriod: this.period };
      this.shares.set(project, share);
    }
    share.usedInPeriod = this.period;
    this.remove(share, text);
    const bytes = text.length + entryBytes;
    share.entries.set(text, { statement, bytes, wasUsed: false });
    share.bytes += bytes;
    this.bytes += bytes;
    while (this.bytes > this.maxBytes) this.evictSome();
  }

  /** Evicts many entries of a large share at once: finding them takes longer than removing them. */
  private evictSome(): void {
    const [project, share] = this.largest();
    let left = Math.ceil(share.entries.size / 64);
    for (const [text, entry] of share.entries) {
      if (!entry.wasUsed) {
        this.remove(share, text);
        if (--left === 0) break;
        continue;
      }
      // A second chance: it moves behind all others.
      entry.wasUsed = false;
      share.entries.delete(text);
      share.entries.set(text, entry);
    }
    if (share.entries.size === 0) this.shares.delete(project);
  }

  /** The weight of a project's share doubles after each minute without a request. */
  private largest(): [string, Share] {
    let largest: [string, Share] | undefined;
    let maxWeight = 0;
    for (const each of this.shares) {
      const [, { bytes, usedInPeriod }] = each;
      const weight = bytes * 2 ** (this.period - usedInPeriod);
      if (weight <= maxWeight) continue;
      maxWeight = weight;
      largest = each;
    }
    if (!largest) throw new Error('An empty cache has nothing to evict');
    return largest;
  }

  private remove(share: Share, text: string): void {
    const entry = share.entries.get(text);
    if (!entry) return;
    share.entries.delete(text);
    share.bytes -= entry.bytes;
    this.bytes -= entry.bytes;
  }

  private advancePeriod(): void {
    const now = this.now();
    if (now < this.periodEnds) return;
    this.period++;
    this.periodEnds = now + periodMs;
  }
}

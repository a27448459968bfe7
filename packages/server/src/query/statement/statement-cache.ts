// Statements that were parsed before, by project. A project can use all the memory that no other one needs; when it
// runs out, the project that holds the most gives some back, so that a flood of new texts evicts its own.
import type { Statement } from './statement.ts';

type Entry = { statement: Statement; bytes: number; wasUsed: boolean };
type Share = { entries: Map<string, Entry>; bytes: number; usedIn: number };

/** About what a statement takes beside its text. */
const entryBytes = 1_000;
const periodMs = 60_000;

export class StatementCache {
  private readonly maxBytes: number;
  private readonly now: () => number;
  private readonly shares = new Map<string, Share>();
  private bytes = 0;
  /** Counts minutes, but only those in which something was added: reading the clock on each hit would cost more than the hit. */
  private period = 0;
  private periodEnds = 0;

  constructor(maxBytes: number, now = Date.now) {
    this.maxBytes = maxBytes;
    this.now = now;
  }

  get(project: string, text: string): Statement | undefined {
    const share = this.shares.get(project);
    if (!share) return undefined;
    share.usedIn = this.period;
    const entry = share.entries.get(text);
    if (!entry) return undefined;
    entry.wasUsed = true;
    return entry.statement;
  }

  add(project: string, text: string, statement: Statement): void {
    this.keepTime();
    let share = this.shares.get(project);
    if (!share) {
      share = { entries: new Map(), bytes: 0, usedIn: this.period };
      this.shares.set(project, share);
    }
    share.usedIn = this.period;
    this.remove(share, text);
    const bytes = text.length + entryBytes;
    share.entries.set(text, { statement, bytes, wasUsed: false });
    share.bytes += bytes;
    this.bytes += bytes;
    while (this.bytes > this.maxBytes) this.evictSome();
  }

  /** Of a large share many at once: to find it, and its oldest entries, takes longer than to remove them. */
  private evictSome(): void {
    const [project, share] = this.largest();
    let left = Math.ceil(share.entries.size / 64);
    for (const [text, entry] of share.entries) {
      if (!entry.wasUsed) {
        this.remove(share, text);
        if (--left === 0) break;
        continue;
      }
      // A second chance, behind all others.
      entry.wasUsed = false;
      share.entries.delete(text);
      share.entries.set(text, entry);
    }
    if (share.entries.size === 0) this.shares.delete(project);
  }

  /** What a project holds counts twice as much after each minute in which it asked for nothing. */
  private largest(): [string, Share] {
    let largest: [string, Share] | undefined;
    let most = 0;
    for (const each of this.shares) {
      const [, { bytes, usedIn }] = each;
      const weight = bytes * 2 ** (this.period - usedIn);
      if (weight <= most) continue;
      most = weight;
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

  private keepTime(): void {
    const now = this.now();
    if (now < this.periodEnds) return;
    this.period++;
    this.periodEnds = now + periodMs;
  }
}

// The budget of a project near its limit: how much bounded inserts may add before the project is measured again. Each takes an
// upper bound of what it can add (query/statement/insert-growth.ts), and then needs neither a size check nor supervision.
//
// A budget is valid only while nothing else can have made the project larger since it was measured:
//   this process       other statements that may grow it are counted (`begin`, `end`): none runs, and none has ended since the
//                      measurement began
//   other processes    each has budgets of its own, so there is one only while this process is alone (control/presence.ts)
//   other sessions     direct ones, VACUUM, abandoned ones: the measurement reports backends that are not ours
// A session that opens later is noticed within `maxAgeMs`; until then no more than `maxBytes` can be added.
import { mb } from '../lib/bytes.ts';

const maxBytes = 24 * mb;
const maxAgeMs = 200;
/** Measured again before the budget is used up or too old, so that no insert has to wait. */
const [earlyPart, earlyMs] = [3 / 4, 80];
/** The part of the size by which full inner pages of indexes can grow (query/statement/insert-growth.ts). */
const innerPart = 1 / 16;
/** For new free space maps, and for pages that PostgreSQL adds to a table in advance if several sessions wait for some. */
const aside = mb / 2;

/** When a measurement began. */
export type Mark = Readonly<{
  at: number;
  total: number;
  inFlight: number;
  changes: number;
  isCalm: boolean;
}>;

export class Budget {
  /** Upper bounds in bytes: of all bounded inserts so far, of those that still run, and of those that run with a grant. */
  private total = 0;
  private inFlight = 0;
  private granted = 0;
  /** Other statements that may grow the project: how many run, and how many have ended. */
  private running = 0;
  private changes = 0;
  /** As of the last measurement. */
  private size = 0;
  private at = Number.NEGATIVE_INFINITY;
  private base = 0;
  private changesThen = -1;
  /** When a bounded insert last asked for a grant. */
  private askedAt = Number.NEGATIVE_INFINITY;

  /** A statement begins that can add `bound` bytes; 0: any number. */
  begin(bound: number): void {
    this.total += bound;
    this.inFlight += bound;
    if (bound === 0) this.running++;
  }

  end(bound: number): void {
    this.inFlight -= bound;
    if (bound > 0) return;
    this.running--;
    this.changes++;
  }

  /** An insert with a grant has ended. */
  endGrant(bound: number): void {
    this.inFlight -= bound;
    this.granted -= bound;
  }

  /** The most that running inserts with a grant can still add. They are not checked. */
  get pending(): number {
    return this.granted > 0 ? this.granted + aside : 0;
  }

  isWanted(now: number): boolean {
    return now - this.askedAt < 1_000;
  }

  /** Call it before the size is read. */
  mark(at: number): Mark {
    const { total, inFlight, changes, running } = this;
    return { at, total, inFlight, changes, isCalm: running === 0 };
  }

  /** `isAlone`: no backend in the project's database is unknown. */
  note({ at, total, inFlight, changes, isCalm }: Mark, size: number, isAlone: boolean): void {
    this.at = at;
    this.size = size;
    // The measured size may or may not include inserts that were running.
    this.base = total - inFlight;
    this.changesThen = isCalm && isAlone ? changes : -1;
  }

  /**
   * Whether an insert may add `bound` bytes unchecked; if so, `endGrant` follows. `ceiling`: the size up to which the project
   * may grow.
   */
  take(bound: number, ceiling: number, now: number): boolean {
    this.askedAt = now;
    if (!this.isCalm || now - this.at > maxAgeMs) return false;
    if (this.total - this.base + bound > this.roomBelow(ceiling)) return false;
    this.begin(bound);
    this.granted += bound;
    return true;
  }

  /** Whether no other statement of this process has been running since the last measurement. */
  get isCalm(): boolean {
    return this.running === 0 && this.changesThen === this.changes;
  }

  /** Whether it is time to measure again. */
  isLow(ceiling: number, now: number): boolean {
    const used = this.total - this.base;
    return now - this.at > earlyMs || used > this.roomBelow(ceiling) * earlyPart;
  }

  private roomBelow(ceiling: number): number {
    return Math.min(maxBytes, ceiling - this.size * (1 + innerPart) - aside);
  }
}

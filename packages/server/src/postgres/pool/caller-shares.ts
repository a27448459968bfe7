// How many sessions of a project each of its callers uses: a key, or a user of the project. The last ones of the project's share are
// kept for callers that use none, so that one whose statements hang does not take them all.
import type { Session } from '../wire/session.ts';

/** Where several callers share a session. */
export const allCallers = '';

/** So many of a project's sessions are kept for callers that use none. A share of two is not divided. */
export function keptOf(share: number): number {
  return share < 3 ? 0 : Math.max(1, Math.floor(share / 5));
}

export class CallerShares {
  private readonly used = new Map<string, number>();
  private readonly callers = new Map<Session, string>();

  usedBy(caller: string): number {
    return this.used.get(caller) ?? 0;
  }

  begin(caller: string): void {
    this.used.set(caller, this.usedBy(caller) + 1);
  }

  end(caller: string): void {
    const left = this.usedBy(caller) - 1;
    if (left > 0) this.used.set(caller, left);
    else this.used.delete(caller);
  }

  /** After `begin`, once there is a session. */
  give(session: Session, caller: string): void {
    this.callers.set(session, caller);
  }

  takeBack(session: Session): void {
    this.end(this.callers.get(session) ?? allCallers);
    this.callers.delete(session);
  }
}

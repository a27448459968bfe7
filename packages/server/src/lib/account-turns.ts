// Whose turn it is among accounts that share a few slots: the account that has the fewest of them, then the one whose last turn was
// longest ago. So an account with many projects gets no more than one with a single project.

/** Beyond it, the oldest turns are forgotten: those accounts count as new. */
const maxAccounts = 10_000;

export class AccountTurns {
  private readonly running = new Map<string, number>();
  /** The longest ago first. */
  private readonly turns = new Map<string, number>();
  private turn = 0;

  begin(account: string): void {
    this.running.set(account, (this.running.get(account) ?? 0) + 1);
    this.turns.delete(account);
    this.turns.set(account, ++this.turn);
    if (this.turns.size <= maxAccounts) return;
    for (const oldest of this.turns.keys()) {
      this.turns.delete(oldest);
      break;
    }
  }

  end(account: string): void {
    const left = (this.running.get(account) ?? 1) - 1;
    if (left > 0) this.running.set(account, left);
    else this.running.delete(account);
  }

  /** How many of the account run. */
  count(account: string): number {
    return this.running.get(account) ?? 0;
  }

  isBefore(one: string, other: string): boolean {
    if (one === other) return false;
    const more = (this.running.get(one) ?? 0) - (this.running.get(other) ?? 0);
    return more < 0 || (more === 0 && (this.turns.get(one) ?? 0) < (this.turns.get(other) ?? 0));
  }
}

/** The waiting requests, by account and project: finding the next one takes a look at each account, however many projects wait. */
export class AccountQueues<T> {
  /** The projects of an account are in the order of their turns. */
  private readonly accounts = new Map<string, Map<string, T[]>>();

  get(account: string, project: string): T[] | undefined {
    return this.accounts.get(account)?.get(project);
  }

  /** A project that is new here comes after the others of its account. */
  set(account: string, project: string, queue: T[]): void {
    const projects = this.accounts.get(account) ?? new Map<string, T[]>();
    this.accounts.set(account, projects);
    projects.set(project, queue);
  }

  delete(account: string, project: string): void {
    const projects = this.accounts.get(account);
    projects?.delete(project);
    if (projects?.size === 0) this.accounts.delete(account);
  }

  /** The first project of the account whose turn it is. */
  next(turns: AccountTurns): { account: string; project: string; queue: T[] } | undefined {
    let best: { account: string; project: string; queue: T[] } | undefined;
    for (const [account, projects] of this.accounts) {
      if (best && !turns.isBefore(account, best.account)) continue;
      for (const [project, queue] of projects) {
        if (queue.length === 0) continue;
        best = { account, project, queue };
        break;
      }
    }
    return best;
  }

  /** How many wait. */
  count(): number {
    let count = 0;
    for (const projects of this.accounts.values())
      for (const queue of projects.values()) count += queue.length;
    return count;
  }
}

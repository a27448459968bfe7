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

  isBefore(one: string, other: string): boolean {
    if (one === other) return false;
    const more = (this.running.get(one) ?? 0) - (this.running.get(other) ?? 0);
    return more < 0 || (more === 0 && (this.turns.get(one) ?? 0) < (this.turns.get(other) ?? 0));
  }
}

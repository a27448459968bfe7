// Shares one worker among accounts and their projects. The account with the fewest jobs at the worker comes first, then the
// one whose turn was longest ago; of its projects, each that waits is served once before any is served a second time.

import { AccountTurns } from '../../account-turns.ts';

type Waiting<Job, Result> = {
  job: Job;
  account: string;
  resolve: (result: Result) => void;
  reject: (error: unknown) => void;
};

export class FairQueue<Job, Result> {
  private readonly run: (job: Job) => Promise<Result>;
  private readonly maxRunning: number;
  private running = 0;
  /** By project, in the order of turns. */
  private readonly waiting = new Map<string, Waiting<Job, Result>[]>();
  /** Waiting jobs of projects with a running job. When it ends, their next turn comes after all waiting projects. */
  private readonly served = new Map<string, Waiting<Job, Result>[]>();

  private readonly accounts = new AccountTurns();

  /** `maxRunning`: jobs at the worker at a time. A new job waits for these, and for one job of each project before it. */
  constructor(run: (job: Job) => Promise<Result>, maxRunning: number) {
    this.run = run;
    this.maxRunning = maxRunning;
  }

  /** `account`: whose project it is. */
  add(project: string, job: Job, account = project): Promise<Result> {
    return new Promise((resolve, reject) => {
      const waiting = { job, account, resolve, reject };
      const list = this.waiting.get(project) ?? this.served.get(project);
      if (list) list.push(waiting);
      else this.waiting.set(project, [waiting]);
      this.fill();
    });
  }

  private fill(): void {
    while (this.running < this.maxRunning) {
      const turn = this.takeTurn();
      if (!turn) return;
      const { project, next } = turn;
      this.running++;
      this.accounts.begin(next.account);
      this.run(next.job)
        .finally(() => {
          this.running--;
          this.accounts.end(next.account);
          this.endTurn(project);
          this.fill();
        })
        .then(next.resolve, next.reject);
    }
  }

  private takeTurn(): { project: string; next: Waiting<Job, Result> } | undefined {
    // If no other project waits, a project may have several jobs at the worker.
    for (const lists of [this.waiting, this.served]) {
      const project = this.nextOf(lists);
      const list = project === undefined ? undefined : lists.get(project);
      const next = list?.shift();
      if (project === undefined || !list || !next) continue;
      this.waiting.delete(project);
      this.served.set(project, list);
      return { project, next };
    }
    return undefined;
  }

  /** The first project, in the order of turns, of the account whose turn it is. */
  private nextOf(lists: ReadonlyMap<string, Waiting<Job, Result>[]>): string | undefined {
    let [best, account]: [string | undefined, string] = [undefined, ''];
    for (const [project, [first]] of lists) {
      if (!first || (best !== undefined && !this.accounts.isBefore(first.account, account))) continue;
      [best, account] = [project, first.account];
    }
    return best;
  }

  private endTurn(project: string): void {
    const list = this.served.get(project);
    if (!list) return;
    this.served.delete(project);
    if (list.length > 0) this.waiting.set(project, list);
  }
}

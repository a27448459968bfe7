// Shares one worker among accounts and their projects. The account with the fewest jobs at the worker comes first, then the
// one whose turn was longest ago; of its projects, each that waits is served once before any is served a second time.

import { AccountQueues, AccountTurns } from '../../lib/account-turns.ts';

type Waiting<Job, Result> = {
  job: Job;
  resolve: (result: Result) => void;
  reject: (error: unknown) => void;
};

export class FairQueue<Job, Result> {
  private readonly run: (job: Job) => Promise<Result>;
  private readonly maxRunning: number;
  private running = 0;
  private readonly waiting = new AccountQueues<Waiting<Job, Result>>();
  /** Waiting jobs of projects with a running job. When it ends, their next turn comes after all waiting projects. */
  private readonly served = new AccountQueues<Waiting<Job, Result>>();

  private readonly accounts = new AccountTurns();

  /** `maxRunning`: jobs at the worker at a time. A new job waits for these, and for one job of each project before it. */
  constructor(run: (job: Job) => Promise<Result>, maxRunning: number) {
    this.run = run;
    this.maxRunning = maxRunning;
  }

  /** `account`: whose project it is. */
  add(project: string, job: Job, account = project): Promise<Result> {
    return new Promise((resolve, reject) => {
      const waiting = { job, resolve, reject };
      const queue = this.waiting.get(account, project) ?? this.served.get(account, project);
      if (queue) queue.push(waiting);
      else this.waiting.set(account, project, [waiting]);
      this.fill();
    });
  }

  private fill(): void {
    while (this.running < this.maxRunning) {
      const turn = this.takeTurn();
      if (!turn) return;
      const { account, project, next } = turn;
      this.running++;
      this.accounts.begin(account);
      this.run(next.job)
        .finally(() => {
          this.running--;
          this.accounts.end(account);
          this.endTurn(account, project);
          this.fill();
        })
        .then(next.resolve, next.reject);
    }
  }

  private takeTurn(): { account: string; project: string; next: Waiting<Job, Result> } | undefined {
    // If no other project waits, a project may have several jobs at the worker.
    const found = this.waiting.next(this.accounts) ?? this.served.next(this.accounts);
    const next = found?.queue.shift();
    if (!found || !next) return undefined;
    const { account, project, queue } = found;
    this.waiting.delete(account, project);
    this.served.set(account, project, queue);
    return { account, project, next };
  }

  private endTurn(account: string, project: string): void {
    const queue = this.served.get(account, project);
    if (!queue) return;
    this.served.delete(account, project);
    if (queue.length > 0) this.waiting.set(account, project, queue);
  }
}

// One worker for many projects: each project that waits gets a turn before any gets a second one.

type Waiting<Job, Result> = {
  job: Job;
  resolve: (result: Result) => void;
  reject: (error: unknown) => void;
};

export class FairQueue<Job, Result> {
  private readonly run: (job: Job) => Promise<Result>;
  private readonly maxRunning: number;
  private running = 0;
  /** By project. The order of the map is the order of turns. */
  private readonly waiting = new Map<string, Waiting<Job, Result>[]>();

  /** `maxRunning`: jobs handed to the worker at a time. A newcomer waits for these, and for one of each other project. */
  constructor(run: (job: Job) => Promise<Result>, maxRunning: number) {
    this.run = run;
    this.maxRunning = maxRunning;
  }

  add(project: string, job: Job): Promise<Result> {
    return new Promise((resolve, reject) => {
      const waiting = { job, resolve, reject };
      const list = this.waiting.get(project);
      if (list) list.push(waiting);
      else this.waiting.set(project, [waiting]);
      this.fill();
    });
  }

  private fill(): void {
    while (this.running < this.maxRunning) {
      const next = this.takeNext();
      if (!next) return;
      this.running++;
      this.run(next.job)
        .finally(() => {
          this.running--;
          this.fill();
        })
        .then(next.resolve, next.reject);
    }
  }

  private takeNext(): Waiting<Job, Result> | undefined {
    const [turn] = this.waiting;
    if (!turn) return undefined;
    const [project, list] = turn;
    const next = list.shift();
    // Behind all others that wait.
    this.waiting.delete(project);
    if (list.length > 0) this.waiting.set(project, list);
    return next;
  }
}

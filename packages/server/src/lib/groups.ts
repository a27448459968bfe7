// Group commit for the service's own small writes: the writes of many callers share one statement. A write that arrives while a
// statement runs, or in the same turn of the event loop, waits for the next statement. Accounts take turns in each statement, so an
// account with many writes does not delay the others.

export type Groups<Entry, Result> = {
  run(account: string, entry: Entry): Promise<Result>;
  /** Resolves when everything that has come has ended, however it ended. */
  settled(): Promise<void>;
};

export type GroupOptions<Entry, Result> = {
  /** Runs one statement for all entries. Returns their results in the same order, or an empty list if there are none. */
  runTogether(entries: Entry[]): Promise<Result[]>;
  runAlone(entry: Entry): Promise<Result>;
  /** Nothing of the shared statement has happened: each entry then runs alone, so that none fails because of another one. */
  isUndone(error: unknown): boolean;
  maxEntries: number;
  maxUnderWay: number;
  /** A larger entry runs alone. */
  maxBytes?: number;
  bytesOf?(entry: Entry): number;
};

type Waiting<Entry, Result> = {
  entry: Entry;
  bytes: number;
  resolve(result: Result): void;
  reject(error: unknown): void;
};

export function openGroups<Entry, Result>({
  runTogether,
  runAlone,
  isUndone,
  maxEntries,
  maxUnderWay,
  maxBytes = Number.POSITIVE_INFINITY,
  bytesOf = () => 0,
}: GroupOptions<Entry, Result>): Groups<Entry, Result> {
  type Member = Waiting<Entry, Result>;
  /** The account whose turn is next comes first. */
  const accounts = new Map<string, Member[]>();
  const unsettled = new Set<Promise<unknown>>();
  let underWay = 0;
  let isScheduled = false;

  const track = (work: Promise<unknown>) => {
    unsettled.add(work);
    void work.finally(() => unsettled.delete(work));
  };

  const alone = ({ entry, resolve, reject }: Member) => runAlone(entry).then(resolve, reject);

  const together = async (members: Member[]) => {
    try {
      const results = await runTogether(members.map(({ entry }) => entry));
      members.forEach(({ resolve }, index) => {
        resolve(results[index] as Result);
      });
    } catch (error) {
      if (isUndone(error)) for (const member of members) track(alone(member));
      else for (const { reject } of members) reject(error);
    } finally {
      underWay--;
      schedule();
    }
  };

  const begin = () => {
    isScheduled = false;
    while (underWay < maxUnderWay && accounts.size > 0) {
      underWay++;
      track(together(takeTurns(accounts, maxEntries, maxBytes)));
    }
  };

  /** At the end of this turn of the event loop, when all that arrives with it is here. */
  const schedule = () => {
    if (isScheduled || underWay >= maxUnderWay || accounts.size === 0) return;
    isScheduled = true;
    setImmediate(begin);
  };

  return {
    run: (account, entry) =>
      new Promise((resolve, reject) => {
        const member = { entry, bytes: bytesOf(entry), resolve, reject };
        if (member.bytes > maxBytes) return track(alone(member));
        const queue = accounts.get(account);
        if (queue) queue.push(member);
        else accounts.set(account, [member]);
        schedule();
      }),
    settled: async () => {
      while (accounts.size > 0 || unsettled.size > 0) {
        if (unsettled.size > 0) await Promise.allSettled(unsettled);
        else await new Promise((resolve) => setImmediate(resolve));
      }
    },
  };
}

/** One of each account, and again, until the group is full. */
function takeTurns<M extends { bytes: number }>(
  accounts: Map<string, M[]>,
  maxEntries: number,
  maxBytes: number,
): M[] {
  const members: M[] = [];
  let bytes = 0;
  // An account that is set again comes once more, after the others.
  for (const [account, queue] of accounts) {
    const [next] = queue;
    if (!next || members.length === maxEntries || bytes + next.bytes > maxBytes) break;
    bytes += next.bytes;
    members.push(next);
    queue.shift();
    accounts.delete(account);
    if (queue.length > 0) accounts.set(account, queue);
  }
  return members;
}

// Writers that note what each write was told, so that at the end nothing acknowledged may be missing, and nothing refused may
// be there.
import { expect } from 'vitest';
import type { TestService } from './helpers.ts';

type Project = { slug: string; key: string };
type Process = Pick<TestService, 'call'>;
export type WriteLedger = {
  /** Ids, in the order of their answers. */
  readonly acknowledged: readonly number[];
  /** The longest time between two acknowledgements since the last call. */
  longestGapMs(): number;
  /** Ends the writers and compares what they were told with what is stored. `unknown`: further ids that may be stored. */
  settle(unknown?: readonly number[]): Promise<void>;
  stop(): Promise<void>;
};

/** Several writers, who take turns at the processes. */
export async function startLedger(
  processes: readonly Process[],
  { slug, key }: Project,
): Promise<WriteLedger> {
  const query = (on: Process, text: string) =>
    on.call('POST', `/projects/${slug}/query`, { key, body: { query: text } });
  const [first] = processes;
  if (!first) throw new Error('The ledger needs a process.');
  await query(first, 'create table if not exists ledger (id int primary key)');
  const acknowledged: number[] = [];
  const unknown: number[] = [];
  const others: string[] = [];
  let next = 0;
  let isOver = false;
  let [lastAt, gapMs] = [performance.now(), 0];
  const gap = () => Math.max(gapMs, performance.now() - lastAt);

  const write = async (on: Process) => {
    while (!isOver) {
      const id = next++;
      const { status, body } = await query(on, `insert into ledger values (${id})`);
      if (status === 200) {
        acknowledged.push(id);
        gapMs = gap();
        lastAt = performance.now();
      } else if (body.error.code === 'outcome_unknown') unknown.push(id);
      else if (status !== 503 || body.error.code !== 'unavailable') others.push(JSON.stringify(body));
    }
  };
  const writers = [...processes, ...processes].map(write);
  const stop = async () => {
    isOver = true;
    await Promise.all(writers);
  };

  return {
    acknowledged,
    longestGapMs: () => {
      const longest = gap();
      gapMs = 0;
      return longest;
    },
    stop,
    settle: async (alsoUnknown = []) => {
      await stop();
      expect(others).toEqual([]);
      const { body } = await query(first, 'select id from ledger');
      const stored = new Set<number>(body.rows.map(({ id }: { id: number }) => id));
      const lost = acknowledged.filter((id) => !stored.has(id));
      expect(lost, 'acknowledged and lost').toEqual([]);
      const told = new Set([...acknowledged, ...unknown, ...alsoUnknown]);
      const refused = [...stored].filter((id) => !told.has(id));
      expect(refused, 'refused and stored').toEqual([]);
    },
  };
}

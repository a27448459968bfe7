// ROWHOUSE_REAL_TIME: real-time priority for the thread that answers requests, and for nothing else.
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { expect, it } from 'vitest';
import { launch, newAccountKey, postmasterPid, usedDataFolder, workersOf } from './process.ts';

/** SCHED_RR of Linux, and the usual policy. */
const [inTurns, usual] = [2, 0];

/** Ordinary users need a limit that allows it, such as LimitRTPRIO of systemd. */
const isAllowed =
  process.platform === 'linux' &&
  availableParallelism() > 1 &&
  spawnSync('chrt', ['--rr', '1', 'true']).status === 0;

async function start(env: Record<string, string>) {
  const data = await usedDataFolder();
  const account = newAccountKey();
  const service = await launch({
    ...{ ROWHOUSE_DATA: data, ROWHOUSE_ACCOUNT_KEY: account, ROWHOUSE_REAL_TIME: 'true' },
    ...env,
  });
  await service.call('POST', '/projects', { body: { name: 'Busy', slug: 'busy' } });
  // Starts threads of the parser, and a session of PostgreSQL.
  const { body } = await service.call('POST', '/projects/busy/query', { body: { query: 'select 1 as one' } });
  expect(body.rows).toEqual([{ one: 1 }]);
  return { ...service, data };
}

it.runIf(isAllowed)(
  'the main thread of each process that answers requests gets it, and only that',
  async () => {
    for (const workers of [1, 2]) {
      const service = await start({ ROWHOUSE_WORKERS: String(workers) });
      expect(service.output()).not.toContain('ROWHOUSE_REAL_TIME');
      const { pid = 0 } = service.child;
      const answering = workers === 1 ? [pid] : workersOf(service);
      expect(answering.length).toBe(workers);
      for (const one of answering) {
        const { [one]: main, ...others } = policiesOf(one);
        expect(main).toBe(inTurns);
        expect(Object.keys(others).length).toBeGreaterThan(3);
        expect(new Set(Object.values(others))).toEqual(new Set([usual]));
      }
      const postgres = descendantsOf(postmasterPid(service.data) ?? 0);
      expect(postgres.length).toBeGreaterThan(5);
      const started = [...answering.flatMap(childrenOf), ...postgres];
      for (const one of started) expect(Object.values(policiesOf(one))).not.toContain(inTurns);
      await service.stop();
    }
  },
);

it.runIf(process.platform === 'linux')(
  'the service works without it, and says why it has no effect',
  async () => {
    // The program chrt is not found.
    const { output } = await start({ PATH: '/nowhere' });
    expect(output()).toMatch(/warning {6}ROWHOUSE_REAL_TIME has no effect: .*(chrt|core).*\n +To fix it: /);
    expect(output()).toContain('ready');
  },
);

/** The policy of each thread of a process. Some end in the meantime. */
function policiesOf(pid: number): Record<number, number> {
  const found = listed(`/proc/${pid}/task`, (folder) => readdirSync(folder).map(Number)).flatMap((thread) =>
    listed(`/proc/${pid}/task/${thread}/stat`, (file) => {
      // The 41st of all fields, as proc(5) counts them. Two are before the closing bracket.
      const fields = readFileSync(file, 'utf8').split(') ').at(-1)?.split(' ') ?? [];
      return [[thread, Number(fields[41 - 3])] as const];
    }),
  );
  return Object.fromEntries(found);
}

function childrenOf(pid: number): number[] {
  return listed(`/proc/${pid}/task/${pid}/children`, (file) =>
    readFileSync(file, 'utf8').split(' ').filter(Boolean).map(Number),
  );
}

function descendantsOf(pid: number): number[] {
  return childrenOf(pid).flatMap((child) => [child, ...descendantsOf(child)]);
}

function listed<Item>(path: string, read: (path: string) => Item[]): Item[] {
  try {
    return read(path);
  } catch {
    return [];
  }
}

// One operation on branches at a time on a server, among all processes: each copies files and forces checkpoints, which
// all projects of the server notice.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Control } from '../control/control.ts';
import type { Server } from '../engine/servers.ts';
import { errors } from '../errors.ts';
import type { Queryable } from '../postgres/database.ts';
import { sql } from '../postgres/sql.ts';

export type InTurn = <T>(act: () => Promise<T>) => Promise<T>;

const maxWaiting = 10;
const maxWaitMs = 20_000;
const lookMs = 50;

export function openInTurn({ control, server }: { control: Control; server: Server }): InTurn {
  let last: Promise<unknown> = Promise.resolve();
  let waiting = 0;

  const underLock = <T>(act: () => Promise<T>, until: number): Promise<T> =>
    control.session(async (session) => {
      while (!(await tryLock(session, server))) {
        if (performance.now() > until) throw busy();
        await sleep(lookMs);
      }
      return act();
    });

  return (act) => {
    if (waiting >= maxWaiting) throw busy();
    const until = performance.now() + maxWaitMs;
    waiting++;
    const turn = last.then(() => {
      waiting--;
      if (performance.now() > until) throw busy();
      return underLock(act, until);
    });
    last = turn.catch(() => {});
    return turn;
  };
}

/** Runs `act` only if no operation is under way. */
export function ifNoneRuns(
  { control, server }: { control: Control; server: Server },
  act: () => Promise<void>,
): Promise<void> {
  return control.session(async (session) => {
    if (await tryLock(session, server)) await act();
  });
}

async function tryLock(session: Queryable, server: Server): Promise<boolean> {
  const [lock] = await session.query<{ mine: boolean }>(
    sql`select pg_try_advisory_lock(hashtext('rowhouse branches'), ${server.id}::int) as mine`,
  );
  return lock?.mine ?? false;
}

const busy = () => errors.overloaded('Other branches are being created, reset or promoted.', 5);

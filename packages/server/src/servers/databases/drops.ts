// Databases that nothing needs any more: a row of `spares` in the state `dropping` is the note to drop one, whatever it was
// before. PostgreSQL drops a database only when every backend of the server has let go of its files. One backend that does
// not react makes each drop wait, so each has a deadline and turns of its own, and nothing else waits for it.
import type { Control } from '../../control/control.ts';
import { within } from '../../lib/pause.ts';
import { type Sql, sql } from '../../postgres/sql.ts';
import type { Server } from '../server.ts';
import { dropProvisioned } from './provision.ts';

type Deps = { control: Control; server: Server };

/** A caller waits for it, and so does the next operation on branches. */
const callerMs = 5_000;
const dropsAtOnce = 2;
/** The first attempt. Later ones may take longer: a checkpoint on a slow disk has to end some time. */
const [firstMs, mostMs] = [10_000, 60_000];
/** After a failure, up to five minutes: others come first. */
const [restMs, longestRestMs] = [2_000, 5 * 60_000];
const stopMs = 5_000;

/** For a `with` clause: notes what `projects` returns (id, server_id, template) as databases to drop. */
export function noteDrops(projects: Sql): Sql {
  return sql`
    insert into spares (id, server_id, state, template) select id, server_id, 'dropping', template from (${projects}) as gone
    returning id, server_id`;
}

/** Does nothing if the copy has become a project. What takes too long is left to the background work. */
export async function discard({ control, server }: Deps, id: string): Promise<void> {
  const [mine] = await control.query(sql`update spares set state = 'dropping' where id = ${id} returning id`);
  if (mine) await drop({ control, server }, id, callerMs);
}

async function drop({ control, server }: Deps, id: string, withinMs: number): Promise<void> {
  // A second wall in front of what drops a database: no project has it.
  const [mine] = await control.query(sql`
    select from spares
    where id = ${id} and state = 'dropping' and not exists (select from projects where projects.id = spares.id)`);
  if (!mine) return;
  await dropProvisioned(server, id, withinMs);
  await control.query(sql`delete from spares where id = ${id} and state = 'dropping'`);
}

export type Drops = {
  /** Begins what is due, as far as there are turns, and waits for none of it. */
  begin(): Promise<void>;
  /** Resolves when all that were begun have ended. */
  settled(): Promise<void>;
  /** Waits no longer than some seconds: the next process drops the rest. */
  stop(): Promise<void>;
};

type Failure = { count: number; restsUntil: number };

export function openDrops(deps: Deps, onError: (error: unknown, id: string) => void): Drops {
  const { control, server } = deps;
  const running = new Map<string, Promise<void>>();
  const failures = new Map<string, Failure>();
  let isStopped = false;

  const attempt = async (id: string): Promise<void> => {
    const count = failures.get(id)?.count ?? 0;
    try {
      await drop(deps, id, Math.min(firstMs * 2 ** count, mostMs));
      failures.delete(id);
    } catch (error) {
      const restsUntil = performance.now() + Math.min(restMs * 2 ** count, longestRestMs);
      failures.set(id, { count: Math.min(count + 1, 20), restsUntil });
      if (!isStopped) onError(error, id);
    }
  };
  const settled = async () => {
    while (running.size > 0) await Promise.all(running.values());
  };

  return {
    begin: async () => {
      if (running.size >= dropsAtOnce || isStopped) return;
      const rows = await control.query<{ id: string }>(sql`
        select id from spares
        where server_id = ${server.id} and state = 'dropping' and id not in (select copy_id from moves)
        order by created_at limit 1000`);
      const now = performance.now();
      const noted = new Set(rows.map(({ id }) => id));
      for (const id of failures.keys()) if (!noted.has(id)) failures.delete(id);
      const countOf = (id: string) => failures.get(id)?.count ?? 0;
      const due = [...noted]
        .filter((id) => !running.has(id) && now >= (failures.get(id)?.restsUntil ?? 0))
        // One that has failed never holds up one that has not.
        .sort((one, other) => countOf(one) - countOf(other));
      for (const id of due.slice(0, dropsAtOnce - running.size)) {
        const one = attempt(id).finally(() => running.delete(id));
        running.set(id, one);
      }
    },
    settled,
    stop: async () => {
      isStopped = true;
      await within(stopMs, settled(), undefined);
    },
  };
}

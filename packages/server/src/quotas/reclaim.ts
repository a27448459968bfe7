// Gives back what a refused or failed statement has left on disk, and makes what was deleted usable again: VACUUM of the
// tables that need it, as the project's own role, and a new index where entries of rows that never came to be fill one.
import { openUpkeep, type Upkeep } from '../engine/project-session.ts';
import type { ProjectLogin } from '../engine/provision.ts';
import type { Server } from '../engine/servers.ts';
import { AskError } from '../postgres/ask.ts';
import { rewriting } from './reserve.ts';
import type { Rooms } from './rooms.ts';
import { askDespiteLocks, sizeUnlessLocked } from './table-estimates.ts';

export type Reclaim = {
  /** Whoever asks at the same moment waits for the same. Never throws: what cannot be done now is done next time. */
  run(project: ProjectLogin): Promise<void>;
  stop(): Promise<void>;
};

const tablesAtOnce = 20;
const attempts = 10;
const againMs = 1_000;

type Options = { server: Server; rooms: Rooms; onError: (error: unknown) => void };

export function openReclaim({ server, rooms, onError }: Options): Reclaim {
  const running = new Map<string, { now: Promise<void>; next: Promise<void> | null }>();
  let isStopped = false;
  const start = (project: ProjectLogin, attempt = 1): Promise<void> => {
    if (isStopped) return Promise.resolve();
    const work = async () => {
      const isDone = await reclaim(server, rooms, project).catch((error) => {
        onError(error);
        return false;
      });
      // Somebody had a table locked: it is not forgotten because of that.
      if (!isDone && attempt < attempts) setTimeout(() => void again(project, attempt + 1), againMs).unref();
    };
    const turn = { now: work(), next: null };
    running.set(project.id, turn);
    return turn.now.finally(() => {
      if (running.get(project.id) === turn) running.delete(project.id);
    });
  };
  const again = (project: ProjectLogin, attempt: number) =>
    running.get(project.id)?.now ?? start(project, attempt);
  return {
    run: ({ id, passwordVersion }) => {
      const project = { id, passwordVersion };
      const turn = running.get(id);
      if (!turn) return start(project);
      // The one that runs may be past the table this is about.
      turn.next ??= turn.now.then(() => start(project));
      return turn.next;
    },
    stop: async () => {
      isStopped = true;
      await Promise.all([...running.values()].map(({ now, next }) => next ?? now));
    },
  };
}

/** For one table. What takes longer is left for POST …/compact. */
const stepMs = 60_000;
const vacuum = 'vacuum (truncate true, index_cleanup auto, process_toast true, parallel 0)';

/** False if there is more to be had, and something was in the way. */
async function reclaim(server: Server, rooms: Rooms, project: ProjectLogin): Promise<boolean> {
  const own = await openUpkeep(server, project);
  const run = (text: string) => tryTo(own, text);
  try {
    const found = await findDirty(own);
    const tables = found.filter(({ bytes }) => bytes !== null);
    for (const { name } of tables) await run(`${vacuum} ${name}`);
    const { isFull } = await rooms.look(project.id);
    if (!isFull) return tables.length === found.length && !(await hasDead(own, tables));
    for (const { name } of tables) await run(`reindex table ${name}`);
    await vacuumOurs(server, project);
    for (const { name, bytes } of tables) {
      const { size, cap } = await rooms.look(project.id);
      if (size <= cap) return true;
      // VACUUM leaves the end of a table where it is unless there is much of it.
      if (Number(bytes) <= rewriting) await run(`vacuum (full) ${name}`);
    }
    const { size, cap } = await rooms.look(project.id);
    // What is over it with nothing left to tidy up stays so until it is made smaller.
    return size <= cap || found.length === 0;
  } finally {
    own.close();
  }
}

/** `bytes` null: somebody has it for himself. */
type Dirty = { oid: string; name: string; bytes: number | null };

/** The table itself, and what it keeps out of line. */
const dirt = `
  select coalesce(sum(n_dead_tup), 0) as dead, sum(part.relpages) as pages,
         max(greatest(last_vacuum, last_autovacuum, last_analyze, last_autoanalyze)) as seen_at
  from pg_class as part left join pg_stat_all_tables as stats on stats.relid = part.oid
  where part.oid in (pg_class.oid, pg_class.reltoastrelid)`;

/**
 * With dead rows, or with more pages than it had when it was last looked after. Dead rows are told up to ten seconds late:
 * where somebody looked after a table while what failed was still at it, the pages have been taken for used, and nothing
 * but the time says so.
 */
async function findDirty(own: Upkeep): Promise<Dirty[]> {
  const rows = await askDespiteLocks(
    own,
    `select oid, name, bytes from (
       select pg_class.oid, format('%I.%I', nspname, pg_class.relname) as name, ${sizeUnlessLocked} as bytes,
              dead, pages, seen_at
       from pg_class
       join pg_namespace on pg_namespace.oid = relnamespace
       cross join lateral (${dirt}) as dirt
       where relkind in ('r', 'm') and relowner = current_user::regrole and relpersistence <> 't'
     ) as found
     where bytes is null or dead > 0 or bytes > pages * 8192::bigint + 64 * 1024
           or seen_at > clock_timestamp() - interval '15 seconds'
     order by dead desc, bytes - pages * 8192::bigint desc nulls last
     limit ${tablesAtOnce}`,
    [],
  );
  return rows.map(([oid, name, bytes]) => ({
    oid: oid ?? '',
    name: name ?? '',
    bytes: bytes === null || bytes === undefined ? null : Number(bytes),
  }));
}

/** VACUUM passes over a page that somebody just looks at, be it to write it to disk; if it is the last, all stays as it is. */
async function hasDead(own: Upkeep, tables: readonly Dirty[]): Promise<boolean> {
  const rows = await own.ask(
    `select from pg_class cross join lateral (${dirt}) as dirt where pg_class.oid = any ($1::oid[]) and dead > 0 limit 1`,
    [`{${tables.map(({ oid }) => oid).join(',')}}`],
  );
  return rows.length > 0;
}

/** The catalog, large objects and the users: tables that the project's role may not tidy up. They run no code of its own. */
async function vacuumOurs(server: Server, project: ProjectLogin): Promise<void> {
  const ours = await openUpkeep(server, project, { asService: true });
  try {
    const rows = await ours.ask(
      `select format('%I.%I', nspname, pg_class.relname)
       from pg_class join pg_namespace on pg_namespace.oid = relnamespace
       left join pg_stat_all_tables as stats on stats.relid = pg_class.oid
       where relkind in ('r', 't') and not relisshared and has_table_privilege(pg_class.oid, 'maintain')
         and (nspname in ('pg_catalog', 'auth')
              or relkind = 't' and exists (select from pg_class as main where main.reltoastrelid = pg_class.oid
                                           and main.relnamespace = 'pg_catalog'::regnamespace))
         and (n_dead_tup > 50 or relkind = 't' and n_dead_tup > 0)
       order by n_dead_tup desc limit ${tablesAtOnce}`,
    );
    for (const [name] of rows) await tryTo(ours, `${vacuum} ${name}`);
  } finally {
    ours.close();
  }
}

/** False: the table is gone, or locked for longer than we wait. */
async function tryTo(upkeep: Upkeep, text: string): Promise<boolean> {
  try {
    await upkeep.ask(text, [], stepMs);
    return true;
  } catch (error) {
    if (error instanceof AskError) return false;
    throw error;
  }
}

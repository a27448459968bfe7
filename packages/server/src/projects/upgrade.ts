// Databases of earlier versions get what this one counts on: at once when somebody asks for the project, the others in
// the background. The control database knows who is behind, so projects that are not cost nothing, however many there
// are. Deleted projects wait until they are restored; spares give way to new ones (engine/spares.ts).
import { LRUCache } from 'lru-cache';
import type { Control } from '../control/control.ts';
import { type ProjectSchema, putProjectSchema } from '../engine/project-schema.ts';
import { databaseOf } from '../engine/provision.ts';
import type { Server } from '../engine/servers.ts';
import { errors } from '../errors.ts';
import { MigrationError } from '../postgres/migrations.ts';
import { type Sql, sql } from '../postgres/sql.ts';

export type Upgrades = {
  /** Returns when the project's database has all that this version counts on; throws 503 if that cannot be had now. */
  ensure(id: string): Promise<void>;
  /** Brings some of those up to date that nobody has asked for. */
  next(signal: AbortSignal): Promise<Progress>;
  stop(): Promise<void>;
};

export type Progress = {
  upgraded: number;
  failed: { id: string; error: unknown }[];
  /** Still to do, failed ones included. */
  left: number;
  /** Used by a newer version: left alone. */
  newer: string[];
};

type Deps = { control: Control; server: Server };
type Failure = { error: unknown; times: number; until: number };

const batchSize = 50;
/** In the background, and in all: each takes a connection, and may wait for locks that the project holds. */
const [batchAtOnce, allAtOnce] = [2, 4];
const [firstPauseMs, longestPauseMs] = [1_000, 30_000];
const rememberedProjects = 50_000;

export function openUpgrades({ control, server }: Deps): Upgrades {
  /** Seen to be up to date: that does not change while this version runs. */
  const current = new LRUCache<string, true>({ max: rememberedProjects });
  const failures = new LRUCache<string, Failure>({ max: rememberedProjects });
  const running = new Map<string, Promise<void>>();
  const enter = turnstile(allAtOnce);

  const isPaused = (id: string) => (failures.get(id)?.until ?? 0) > performance.now();

  const bring = async (id: string): Promise<void> => {
    const state = await findState(control, server, id);
    if (state === 'gone') return;
    if (state === 'outdated') {
      // After an attempt that failed nobody tries for a while.
      if (isPaused(id)) throw failures.get(id)?.error;
      try {
        await enter(() => upgrade({ control, server }, id));
      } catch (error) {
        failures.set(id, failureAfter(failures.get(id), error));
        throw error;
      }
    }
    failures.delete(id);
    current.set(id, true);
  };

  /** Whoever asks at the same moment shares one attempt. */
  const share = (id: string): Promise<void> => {
    const found = running.get(id);
    if (found) return found;
    const attempt = bring(id).finally(() => running.delete(id));
    running.set(id, attempt);
    return attempt;
  };

  return {
    ensure: async (id) => {
      if (current.has(id)) return;
      await share(id).catch((error) => {
        const failure = failures.get(id);
        if (!failure || failure.error !== error) throw error;
        // It has all that we count on, though the control database does not know that.
        if (isNewer(error)) return;
        const waitMs = Math.max(0, failure.until - performance.now());
        throw errors.notUpgraded(error, Math.ceil(waitMs / 1000) || 1);
      });
    },
    next: async (signal) => {
      const { outdated, newer } = await findOutdated(control, server);
      const due = outdated.filter((id) => !isPaused(id)).slice(0, batchSize);
      const failed: Progress['failed'] = [];
      let upgraded = 0;
      const work = async () => {
        for (let id = due.shift(); id !== undefined && !signal.aborted; id = due.shift()) {
          const project = id;
          await share(project).then(
            () => upgraded++,
            (error) => failed.push({ id: project, error }),
          );
        }
      };
      await Promise.all(Array.from({ length: batchAtOnce }, work));
      return { upgraded, failed, left: outdated.length - upgraded, newer };
    },
    stop: async () => {
      await Promise.allSettled(running.values());
    },
  };
}

/** The database first: if the note of it is lost, the next attempt finds nothing to do and makes the note again. */
async function upgrade({ control, server }: Deps, id: string): Promise<void> {
  await putProjectSchema({ ...server.address, database: databaseOf(id) }, server.projectSchema);
  const [template] = await server.maintenance.query<{ bytes: number }>(
    sql`select pg_database_size(oid)::float8 as bytes from pg_database where datname = ${server.template}`,
  );
  // What is ours is not counted as the caller's.
  await control.query(sql`
    update projects
    set template = ${server.template}, empty_bytes = greatest(empty_bytes, ${template?.bytes ?? 0}::float8::bigint)
    where id = ${id}`);
}

/** A version of a server's contents; what `rowhouse doctor` can know without opening the server. */
type Version = { id: number; template: string; projectSchema: ProjectSchema };

export async function findOutdated(
  control: Control,
  version: Version,
): Promise<{ outdated: string[]; newer: string[] }> {
  const rows = await control.query<{ id: string; newer: boolean }>(sql`
    select projects.id, ${newerThan(version)} as newer
    from projects left join templates on templates.name = projects.template
    where projects.server_id = ${version.id} and projects.deleted_at is null
      and projects.template <> ${version.template}
    order by projects.created_at`);
  const of = (newer: boolean) => rows.filter((row) => row.newer === newer).map(({ id }) => id);
  return { outdated: of(false), newer: of(true) };
}

async function findState(
  control: Control,
  server: Server,
  id: string,
): Promise<'fine' | 'outdated' | 'gone'> {
  const [row] = await control.query<{ fine: boolean; deleted: boolean }>(sql`
    select projects.template = ${server.template} or ${newerThan(server)} as fine,
           projects.deleted_at is not null as deleted
    from projects left join templates on templates.name = projects.template
    where projects.id = ${id}`);
  if (!row || row.deleted) return 'gone';
  return row.fine ? 'fine' : 'outdated';
}

/** It has something that this version does not know. A template that nobody noted is older than the notes. */
function newerThan({ projectSchema: { migrations, guards } }: Pick<Version, 'projectSchema'>): Sql {
  return sql`coalesce(templates.migrations > ${migrations.length} or templates.guards > ${guards.length}, false)`;
}

function isNewer(error: unknown): boolean {
  return error instanceof MigrationError && error.isNewer;
}

function failureAfter(last: Failure | undefined, error: unknown): Failure {
  const times = (last?.times ?? 0) + 1;
  const pauseMs = Math.min(firstPauseMs * 2 ** (times - 1), longestPauseMs);
  return { error, times, until: performance.now() + pauseMs };
}

/** Lets so many in at a time; the others wait in the order they came. */
function turnstile(places: number): <T>(act: () => Promise<T>) => Promise<T> {
  const waiting: (() => void)[] = [];
  let free = places;
  return async (act) => {
    if (free > 0) free--;
    else await new Promise<void>((resolve) => waiting.push(resolve));
    try {
      return await act();
    } finally {
      const next = waiting.shift();
      if (next) next();
      else free++;
    }
  };
}

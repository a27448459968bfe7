// Upgrades project databases that an earlier version created: immediately when a request needs the project, the others
// in the background. The control database records which are outdated, so current projects cost nothing, however many
// there are. Deleted projects are upgraded once they are undeleted; outdated spares are replaced (servers/databases/spares.ts).
import { LRUCache } from 'lru-cache';
import type { Control } from '../control/control.ts';
import { errors } from '../errors/errors.ts';
import { slotsOnServers } from '../lib/account-slots.ts';
import { upTo } from '../lib/cache-size.ts';
import { openInFlight } from '../lib/in-flight.ts';
import { MigrationError } from '../postgres/admin/migrations.ts';
import { type Sql, sql } from '../postgres/sql.ts';
import { databaseOf } from '../servers/databases/names.ts';
import type { Server, Servers } from '../servers/server.ts';
import { type ProjectSchema, putProjectSchema } from '../servers/template/project-schema.ts';
import { isClosed } from './fence.ts';

export type Upgrades = {
  /** Resolves once the project's database is up to date; throws 503 if that is not possible now. */
  ensure(id: string): Promise<void>;
  /** Upgrades a batch of outdated projects of a server that no request has needed yet. */
  next(server: Server, signal: AbortSignal): Promise<Progress>;
  stop(): Promise<void>;
};

export type Progress = {
  upgraded: number;
  failed: { id: string; error: unknown }[];
  /** Still outdated, including failed ones. */
  left: number;
  /** Upgraded by a newer version of the service: left alone. */
  newer: string[];
};

type Deps = { control: Control; servers: Servers };
type Failure = { error: unknown; times: number; until: number };

const batchSize = 50;
/** On a server, in the background and in total: each takes a connection, and may wait for locks that the project holds. */
const batchAtOnce = 2;
const limits = { all: 5, kept: 1, waiting: Number.POSITIVE_INFINITY };
const [firstPauseMs, maxPauseMs] = [1_000, 30_000];
const maxCachedProjects = 50_000;

export function openUpgrades({ control, servers }: Deps): Upgrades {
  /** Known to be up to date, which does not change while this version runs. */
  const current = new LRUCache<string, true>(upTo(maxCachedProjects));
  const failures = new LRUCache<string, Failure>(upTo(maxCachedProjects));
  const inFlight = openInFlight<void>();
  const slotsOn = slotsOnServers('upgrades', limits);

  const isPaused = (id: string) => (failures.get(id)?.until ?? 0) > performance.now();

  const bringUpToDate = async (id: string): Promise<void> => {
    const row = await findVersion(control, id);
    if (!row) return;
    const server = servers.of(row.serverId);
    if (!isFine(row, server)) {
      // After a failure there is a pause before the next attempt.
      if (isPaused(id)) throw failures.get(id)?.error;
      try {
        await slotsOn(server.id).take(row.accountId, () => upgrade(control, server, id));
      } catch (error) {
        failures.set(id, failureAfter(failures.get(id), error));
        throw error;
      }
    }
    failures.delete(id);
    current.set(id, true);
  };

  /** Concurrent requests share one attempt. */
  const share = (id: string): Promise<void> => inFlight(id, () => bringUpToDate(id));

  return {
    ensure: async (id) => {
      if (current.has(id)) return;
      await share(id).catch((error) => {
        const failure = failures.get(id);
        if (!failure || failure.error !== error) throw error;
        // The database has everything this version needs, although the control database does not know that.
        if (isNewer(error)) return;
        const waitMs = Math.max(0, failure.until - performance.now());
        throw errors.notUpgraded(error, Math.ceil(waitMs / 1000) || 1);
      });
    },
    next: async (server, signal) => {
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
      await inFlight.settled();
    },
  };
}

/** The database first: if recording the upgrade fails, the next attempt finds nothing to do and records it again. */
async function upgrade(control: Control, server: Server, id: string): Promise<void> {
  await putProjectSchema({ ...server.address, database: databaseOf(id) }, server.projectSchema);
  const [template] = await server.maintenance.query<{ bytes: number }>(
    sql`select pg_database_size(oid)::float8 as bytes from pg_database where datname = ${server.template}`,
  );
  // The service's own objects do not count towards the project's size.
  await control.query(sql`
    update projects
    set template = ${server.template}, empty_bytes = greatest(empty_bytes, ${template?.bytes ?? 0}::float8::bigint)
    where id = ${id}`);
}

/** The version of a server's project schema: what `rowhouse doctor` knows without opening the server. */
type Version = { id: number; template: string; projectSchema: ProjectSchema };

export async function findOutdated(
  control: Control,
  version: Version,
): Promise<{ outdated: string[]; newer: string[] }> {
  const rows = await control.query<{ id: string; newer: boolean }>(sql`
    select projects.id, ${newerThan(version)} as newer
    from projects left join templates on templates.name = projects.template
    where projects.server_id = ${version.id} and not ${isClosed}
      -- Two ranges of an index, where <> would read all projects of the server.
      and (projects.template < ${version.template} or projects.template > ${version.template})
    order by projects.created_at`);
  const of = (newer: boolean) => rows.filter((row) => row.newer === newer).map(({ id }) => id);
  return { outdated: of(false), newer: of(true) };
}

type Found = {
  accountId: string;
  serverId: number;
  template: string;
  migrations: number | null;
  guards: number | null;
};

/** null: there is no such project, or it is deleted. */
async function findVersion(control: Control, id: string): Promise<Found | null> {
  const [row] = await control.query<Found>(sql`
    select projects.account_id as "accountId", projects.server_id as "serverId", projects.template, templates.migrations, templates.guards
    from projects left join templates on templates.name = projects.template
    where projects.id = ${id} and projects.deleted_at is null`);
  return row ?? null;
}

/** Has what this version needs, or was upgraded by a newer one. */
function isFine({ template, migrations, guards }: Found, server: Server): boolean {
  const { projectSchema } = server;
  const isNewer =
    (migrations ?? 0) > projectSchema.migrations.length || (guards ?? 0) > projectSchema.guards.length;
  return template === server.template || isNewer;
}

/**
 * Contains migrations or guards that this version does not know. A template that is not recorded is older than the
 * records.
 */
function newerThan({ projectSchema: { migrations, guards } }: Pick<Version, 'projectSchema'>): Sql {
  return sql`coalesce(templates.migrations > ${migrations.length} or templates.guards > ${guards.length}, false)`;
}

function isNewer(error: unknown): boolean {
  return error instanceof MigrationError && error.isNewer;
}

function failureAfter(last: Failure | undefined, error: unknown): Failure {
  const times = (last?.times ?? 0) + 1;
  const pauseMs = Math.min(firstPauseMs * 2 ** (times - 1), maxPauseMs);
  return { error, times, until: performance.now() + pauseMs };
}

// Every metric that operators watch, except those of HTTP requests (http-requests.ts), and of backups and restores (backups.ts). Add a
// new one here.
// Labels have few values, and no caller can add one.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Hashing } from '../access/passwords/hashing.ts';
import type { Background } from '../background/background.ts';
import type { Drills } from '../backups/check/drills.ts';
import type { FleetKeeper } from '../backups/fleet-keeper.ts';
import type { Control } from '../control/control.ts';
import { type Sql, sql } from '../postgres/sql.ts';
import type { PostgresProxy } from '../postgres-proxy/proxy.ts';
import { findOutdated } from '../projects/upgrade.ts';
import type { DistrustedTables } from '../query/distrusted-tables.ts';
import type { ProjectSessions } from '../query/sessions/project-sessions.ts';
import { readStorageTotals, type StorageTotals } from '../quotas/sizes.ts';
import { countSpares } from '../servers/databases/spares.ts';
import type { DiskWatch } from '../servers/embedded/disk.ts';
import type { Embedded } from '../servers/embedded/embedded.ts';
import type { Fleet, Member } from '../servers/fleet.ts';
import type { Survivors } from '../servers/guards/survivors.ts';
import type { Server, Servers } from '../servers/server.ts';
import { lackedByPostgres } from '../settings/security-fixes.ts';
import { backupGauges, drillGauges } from './backups.ts';
import type { Counters, Gauges, LabelledGauges } from './registry.ts';
import { sparingly } from './sparingly.ts';

type GaugeDeps = {
  control: Control;
  servers: Servers;
  sessions: ProjectSessions;
  survivors: Survivors;
  hashing: Hashing;
  disk: DiskWatch;
  distrusted: DistrustedTables;
};

/** Shorter than the time that the registry waits for a value: 0 is reported, not NaN. */
const postgresUpMs = 1_500;

/** What every process that answers requests can read. */
export function serviceGauges({
  control,
  servers,
  sessions,
  survivors,
  hashing,
  disk,
  distrusted,
}: GaugeDeps): Gauges {
  return {
    ...controlGauges(control, servers),
    ...storageGauges(control),
    ...sessionGauges(sessions),
    rowhouse_unstoppable_statements: {
      help: 'Statements that go on although their session was terminated. Must be 0.',
      isOwn: true,
      read: () => survivors.count(),
    },
    ...hashingGauges(hashing),
    ...diskGauges(disk),
    rowhouse_insert_bounds_exceeded: {
      help: 'Tables that grew by more than the bound of their inserts, since the start. Must stay 0.',
      isOwn: true,
      read: () => distrusted.found(),
    },
  };
}

/** What only the process that does the background work knows. */
export function backgroundGauges(
  background: Background,
  keeper: FleetKeeper | null,
  drills: Drills | null,
  now: () => number,
): Gauges {
  return {
    rowhouse_projects_without_database: {
      help: 'Projects whose database is missing. Must be 0.',
      read: () => background.discrepancies().projectsWithoutDatabase.length,
    },
    rowhouse_databases_without_project: {
      help: 'Databases of this installation that no project owns. Must be 0.',
      read: () => background.discrepancies().databasesWithoutRow.length,
    },
    ...(keeper && backupGauges(keeper, now)),
    ...(drills && drillGauges(drills, now)),
  };
}

/** What only the process that started PostgreSQL knows. */
export function restartGauges(embedded: Embedded | null): Gauges {
  return {
    rowhouse_postgres_restarts: {
      help: 'Restarts of the embedded PostgreSQL.',
      read: () => embedded?.restarts() ?? 0,
    },
  };
}

/** Each process counts its own events. */
export function serviceCounters(counts: {
  refusals: () => Record<string, number>;
  traces: () => Record<string, number>;
  unshared: () => Record<string, number>;
}): Counters {
  return {
    rowhouse_writes_refused_total: {
      help: 'Writes that were refused because the project or the disk is full.',
      label: 'reason',
      read: counts.refusals,
    },
    rowhouse_session_traces_total: {
      help: 'Shared sessions in which a statement left state behind. Must stay 0.',
      label: 'source',
      read: counts.traces,
    },
    rowhouse_unshared_statements_total: {
      help: 'Statements that share no session, because code of the project may run with them. The log names the projects.',
      label: 'because',
      read: counts.unshared,
    },
  };
}

/** The PostgreSQL proxy, in each process that runs one. */
export function proxyGauges({ counts }: PostgresProxy): Gauges {
  return {
    rowhouse_postgres_proxy_connections: {
      help: 'Direct connections that are open through the PostgreSQL proxy.',
      isOwn: true,
      read: () => counts.open,
    },
  };
}

export function proxyCounters({ counts }: PostgresProxy): Counters {
  return {
    rowhouse_postgres_proxy_connections_total: {
      help: 'Direct connections through the PostgreSQL proxy: accepted, or refused with the reason.',
      label: 'result',
      read: () => counts.connections,
    },
    rowhouse_postgres_proxy_bytes_total: {
      help: 'Bytes that the PostgreSQL proxy has received from clients and sent to them.',
      label: 'direction',
      read: () => counts.bytes,
    },
    rowhouse_postgres_proxy_cancels_total: {
      help: 'Cancel requests that were sent to PostgreSQL, or dropped because there were too many.',
      label: 'result',
      read: () => counts.cancels,
    },
  };
}

function controlGauges(control: Control, servers: Servers): Gauges {
  const sum = async (read: (server: Server) => Promise<number>) => {
    const found = await Promise.all(servers.all().map(read));
    return found.reduce((total, one) => total + one, 0);
  };
  const count = async (condition: Sql) => {
    const [row] = await control.query<{ count: number }>(
      sql`select count(*)::int as count from projects where ${condition}`,
    );
    return row?.count ?? Number.NaN;
  };
  return {
    rowhouse_postgres_up: {
      help: '1 while PostgreSQL answers.',
      read: () => {
        const answered = control.query(sql`select 1`, postgresUpMs).then(
          () => 1,
          () => 0,
        );
        return Promise.race([answered, sleep(postgresUpMs, 0, { ref: false })]);
      },
    },
    rowhouse_projects: {
      help: 'Projects that are not deleted.',
      read: sparingly(() => count(sql`deleted_at is null`)),
    },
    rowhouse_projects_deleted: {
      help: 'Deleted projects that can be restored.',
      read: () => count(sql`deleted_at is not null`),
    },
    rowhouse_projects_outdated: {
      help: 'Projects whose database is not upgraded yet. Falls to 0 after an upgrade.',
      read: () => sum(async (server) => (await findOutdated(control, server)).outdated.length),
    },
    rowhouse_projects_newer: {
      help: 'Projects that a newer version has used. Must be 0.',
      read: () => sum(async (server) => (await findOutdated(control, server)).newer.length),
    },
    rowhouse_spares: {
      help: 'Databases ready to become projects.',
      read: () => sum((server) => countSpares(control, server)),
    },
  };
}

/** One value for each server. */
export function serverGauges(servers: Fleet, sessions: ProjectSessions): LabelledGauges {
  const each = (read: (member: Member) => number) => () =>
    Object.fromEntries(servers.members().map((member) => [member.row.name, read(member)]));
  const gauge = (help: string, read: (member: Member) => number) => ({
    help,
    label: 'server',
    read: each(read),
  });
  return {
    rowhouse_server_up: gauge('1 while the server answers.', ({ isAnswering }) => Number(isAnswering)),
    rowhouse_server_security_releases_missing: gauge(
      'Security releases of PostgreSQL that the server lacks, of those that this version of Rowhouse knows.',
      ({ server }) => (server ? (lackedByPostgres(server.version)?.releases ?? 0) : Number.NaN),
    ),
    rowhouse_server_projects: gauge(
      'Projects of the server that are not deleted, as last counted.',
      ({ row }) => row.projects,
    ),
    rowhouse_server_used_bytes: gauge(
      'What the databases of the projects of the server take on disk, as last counted.',
      ({ row }) => row.usedBytes,
    ),
    rowhouse_server_sessions: {
      ...gauge(
        'Connections to project databases of the server.',
        ({ row }) => sessions.countsOf(row.id).open,
      ),
      isOwn: true,
    },
    rowhouse_server_sessions_waiting: {
      ...gauge(
        'Statements that are waiting for a connection to the server.',
        ({ row }) => sessions.countsOf(row.id).waiting,
      ),
      isOwn: true,
    },
  };
}

function storageGauges(control: Control): Gauges {
  /** One statement for all gauges of one request for metrics. */
  const read: () => Promise<StorageTotals> = sparingly(() => readStorageTotals(control));
  return {
    rowhouse_projects_bytes: {
      help: 'Bytes stored by all projects that are not deleted.',
      read: async () => (await read()).bytes,
    },
    rowhouse_projects_full: {
      help: 'Projects that have reached their limit_mb.',
      read: async () => (await read()).full,
    },
    rowhouse_nearest_to_full_ratio: {
      help: 'The highest ratio of stored data to limit_mb of all projects.',
      read: async () => (await read()).ratio,
    },
  };
}

function sessionGauges(sessions: ProjectSessions): Gauges {
  return {
    rowhouse_sessions: { help: 'Connections to project databases.', read: () => sessions.counts().open },
    rowhouse_sessions_idle: {
      help: 'Idle connections to project databases.',
      read: () => sessions.counts().idle,
    },
    rowhouse_sessions_waiting: {
      help: 'Statements that are waiting for a connection.',
      read: () => sessions.counts().waiting,
    },
  };
}

function hashingGauges(hashing: Hashing): Gauges {
  return {
    rowhouse_hashing: { help: 'Passwords that are being hashed.', read: () => hashing.counts().running },
    rowhouse_hashing_waiting: {
      help: 'Passwords that are waiting to be hashed.',
      read: () => hashing.counts().waiting,
    },
  };
}

function diskGauges(disk: DiskWatch): Gauges {
  return {
    rowhouse_disk_free_bytes: {
      help: 'Free bytes on the disk of the embedded PostgreSQL.',
      read: () => disk.facts()?.freeBytes ?? Number.NaN,
    },
    rowhouse_disk_reserve_bytes: {
      help: 'The disk reserve: with fewer free bytes, projects cannot grow.',
      read: () => disk.facts()?.reserveBytes ?? Number.NaN,
    },
  };
}
